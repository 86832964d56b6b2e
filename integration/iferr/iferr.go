// Package iferr fails a test at an error that it does not expect.
package iferr

import "testing"

// Fatal ends the test if there is an error. Like [testing.T.Fatal] it is for the test's own goroutine.
func Fatal(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Error fails the test if there is an error.
func Error(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Of returns the error of a call that has another result, too.
func Of[T any](_ T, err error) error { return err }
