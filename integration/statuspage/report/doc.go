// Package report tests the page that holdfast history --html writes, in the browser of package
// browser.
package report
