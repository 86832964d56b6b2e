package clock

import (
	"sync/atomic"
	"time"
)

// Instant is one reading of this process's clocks. Durations are measured on Mono. Wall is only used
// to notice a suspend of the machine: if Mono stood still meanwhile, Wall has run ahead of it.
type Instant struct {
	Mono time.Duration // time since the client was made
	Wall time.Duration // time since the Unix epoch
}

// System returns a function that reads the machine's clocks; Mono counts from this call. Go's
// monotonic clock stands still while the machine is suspended. Where the operating system counts
// that time (Linux), Mono includes it.
func System() func() Instant {
	start := time.Now()
	return countSleep(func() Instant {
		now := time.Now()
		return Instant{Mono: now.Sub(start), Wall: time.Duration(now.UnixNano())}
	}, slept)
}

// countSleep returns read with the time added to Mono that the machine has slept since this call.
// slept takes system calls. So it is called only if the difference between the clocks has changed
// since the last call: sleep moves the wall clock alone.
func countSleep(read func() Instant, slept func() time.Duration) func() Instant {
	const jitter = 20 * time.Microsecond // the two clocks cannot be read at once
	type answer struct{ apart, slept time.Duration }
	ask := func(at Instant) *answer { return &answer{apart: at.Wall - at.Mono, slept: slept()} }
	first := ask(read())
	var last atomic.Pointer[answer]
	last.Store(first)
	return func() Instant {
		at, known := read(), last.Load()
		if (at.Wall - at.Mono - known.apart).Abs() > jitter {
			known = ask(at)
			last.Store(known)
		}
		at.Mono += known.slept - first.slept
		return at
	}
}

// Drift returns how far the wall clock ran ahead of the monotonic one from a to b: the length of
// a suspend, or a step of the wall clock; never negative.
func Drift(a, b Instant) time.Duration {
	return max(0, (b.Wall-a.Wall)-(b.Mono-a.Mono))
}
