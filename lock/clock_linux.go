package lock

import (
	"time"

	"golang.org/x/sys/unix"
)

// slept returns how long the machine has been suspended since it was booted: by how
// much the clock that counts that is ahead of the one that does not. The two
// cannot be read at once, and the process may be interrupted in between: of a few
// tries the closest one counts.
func slept() time.Duration {
	var ahead time.Duration
	apart := time.Hour
	for try := 0; try < 5 && apart > 20*time.Microsecond; try++ {
		var before, boot, after unix.Timespec
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &before) != nil ||
			unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil ||
			unix.ClockGettime(unix.CLOCK_MONOTONIC, &after) != nil {
			return 0
		}
		if took := time.Duration(after.Nano() - before.Nano()); took < apart {
			apart, ahead = took, time.Duration(boot.Nano()-before.Nano())
		}
	}
	return ahead
}
