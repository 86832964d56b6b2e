package main

import (
	"os"
	"testing"
)

// TestFileGone: an unreadable configuration is reported once, by the first read without an event,
// also after a silent read because of an event.
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
