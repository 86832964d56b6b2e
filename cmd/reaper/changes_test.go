package main

import (
	"os"
	"testing"
)

// TestFileGone: that the configuration cannot be read is told once, by the look that no
// event has led to, also if one before it, which an event led to, was silent.
func TestFileGone(t *testing.T) {
	c := new(changes)
	for i, step := range []struct {
		err         error
		event, told bool
	}{
		{os.ErrNotExist, true, false}, // it may be about to be replaced
		{os.ErrNotExist, false, true},
		{os.ErrNotExist, false, false},
		{os.ErrNotExist, true, false},
		{nil, true, false},
		{os.ErrPermission, false, true}, // again
		{nil, false, false},
	} {
		if told := c.alarm(step.err, step.event); told != step.told {
			t.Errorf("step %d: told %v, want %v", i, told, step.told)
		}
	}
}
