// Package monotonic has times that all processes of a machine share, for histories of locks.
package monotonic

import (
	"time"

	"golang.org/x/sys/unix"
)

// Instant is a time on the machine's monotonic clock, in nanoseconds since some start. All processes
// of a machine read the same clock, also after they were stopped.
type Instant int64

// Now returns the present instant.
func Now() Instant {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every Unix system has this clock
	}
	return Instant(t.Nano())
}

// Claim is a library's answer that a lock is held, given at some time between From and To. If the
// library knows for how long the lock stays held without an unlock, Until is the end of that time.
// Otherwise Until is From.
type Claim struct {
	From  Instant `json:"from"`
	To    Instant `json:"to"`
	Until Instant `json:"until"`
}

// Ask returns the claim of a hold, or nil if the hold is not valid. Until is From plus the
// remaining time, so Until is never after the end of the hold's lease. If the process was stopped
// during the call, Until may already have passed.
func Ask(h interface{ Remaining() time.Duration }) *Claim {
	from := Now()
	left := h.Remaining()
	to := Now()
	if left <= 0 {
		return nil
	}
	return &Claim{From: from, To: to, Until: from + Instant(left)}
}
