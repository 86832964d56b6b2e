//go:build !linux

package zkserver

import (
	"syscall"
	"time"
)

// dieWithParent does nothing: not every system can kill a child when its parent dies.
func dieWithParent(*syscall.SysProcAttr) {}

// awaitPaused does not wait: SIGSTOP takes effect within microseconds.
func awaitPaused(int) error { return nil }

func newSleeper() (sleepUntil func(time.Time), end func()) {
	return func(t time.Time) { time.Sleep(time.Until(t)) }, func() {}
}
