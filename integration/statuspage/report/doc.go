// Package report has only a test, of the page that holdfast history --html writes, in Chromium.
package report
