// Package hosts has only tests: other projects' own suites, unmodified, on backends of those
// projects that take their locks here.
package hosts
