package zkserver

import (
	"syscall"
	"time"
)

// sleepUntil sleeps in the kernel: Go's own timers may be a millisecond late in a
// process that is idle otherwise, which is as much as is to be slept here.
func sleepUntil(t time.Time) {
	for d := time.Until(t); d > 0; d = time.Until(t) {
		span := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&span, nil) // interrupted: goes on
	}
}
