// Package hosts has only tests: the unmodified test suites of other projects, on backends of those
// projects that use Holdfast's locks.
package hosts
