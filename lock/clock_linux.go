package lock

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// sleptBefore is what slept found last. Reading a clock is a system call.
var sleptBefore atomic.Int64

// slept returns how long the machine has been suspended since it was booted: by how
// much the clock that counts that is ahead of the one that does not. The two
// cannot be read at once, and the process may be interrupted in between: of a few
// tries the closest one counts, if the first does not fit what was found last.
func slept() time.Duration {
	const close = 20 * time.Microsecond
	var before, boot, after unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &before) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	known := time.Duration(sleptBefore.Load())
	if ahead := time.Duration(boot.Nano() - before.Nano()); ahead >= known && ahead < known+close {
		return known
	}
	ahead, apart := known, time.Hour
	for try := 0; try < 5 && apart > close; try++ {
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &before) != nil ||
			unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil ||
			unix.ClockGettime(unix.CLOCK_MONOTONIC, &after) != nil {
			return 0
		}
		if took := time.Duration(after.Nano() - before.Nano()); took < apart {
			apart, ahead = took, time.Duration(boot.Nano()-before.Nano())
		}
	}
	sleptBefore.Store(int64(ahead))
	return ahead
}
