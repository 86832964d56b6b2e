package clock

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sleptBefore is the last result of slept. While it fits, slept needs only two system calls.
var sleptBefore atomic.Int64

// slept returns how long the machine has been suspended since it was booted: the difference
// between the clock that counts suspends and the clock that does not; 0 if it cannot read them. The
// clocks cannot be read at once, and the process may be interrupted in between. So if the first
// reading does not fit the last result, slept reads up to five times, and takes the reading with the
// shortest interruption.
func slept() time.Duration {
	const close = 20 * time.Microsecond
	var before, boot, after unix.Timespec
	if !readClock(unix.CLOCK_MONOTONIC, &before) || !readClock(unix.CLOCK_BOOTTIME, &boot) {
		return 0
	}
	known := time.Duration(sleptBefore.Load())
	if ahead := time.Duration(boot.Nano() - before.Nano()); ahead >= known && ahead < known+close {
		return known
	}
	ahead, apart := known, time.Hour
	for try := 0; try < 5 && apart > close; try++ {
		if !readClock(unix.CLOCK_MONOTONIC, &before) || !readClock(unix.CLOCK_BOOTTIME, &boot) || !readClock(unix.CLOCK_MONOTONIC, &after) {
			return 0
		}
		if took := time.Duration(after.Nano() - before.Nano()); took < apart {
			apart, ahead = took, time.Duration(boot.Nano()-before.Nano())
		}
	}
	sleptBefore.Store(int64(ahead))
	return ahead
}

// readClock does what unix.ClockGettime does, but without notice to Go's scheduler: for a call that
// does not block, the notice costs more than the call. It reports whether the clock could be read.
func readClock(clock uintptr, to *unix.Timespec) bool {
	_, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(to)), 0)
	return errno == 0
}
