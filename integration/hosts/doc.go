// Package hosts has only tests: the unmodified test suites of other projects, run on backends that
// were written for these tests and use Holdfast's locks.
package hosts
