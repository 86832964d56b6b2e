package clock

import (
	"sync/atomic"
	"time"
)

// Instant is one reading of this process's clocks. Durations are measured on Mono.
// Where that stands still while the machine is suspended, the wall clock running
// ahead of it tells; the wall clock is trusted for nothing more.
type Instant struct {
	Mono time.Duration // since the client was made
	Wall time.Duration // since the Unix epoch
}

// System returns what reads the machine's clocks. Simulations put their own in its
// place. Go's monotonic clock stands still while the machine is suspended; Mono goes
// on where the operating system counts how long that was.
func System() func() Instant {
	start := time.Now()
	return countSleep(func() Instant {
		now := time.Now()
		return Instant{Mono: now.Sub(start), Wall: time.Duration(now.UnixNano())}
	}, slept)
}

// countSleep adds to Mono how long the machine has slept since now. To ask that takes
// system calls, so it is asked only if the clocks are not as far apart as when it was
// asked last: sleep moves the wall clock alone.
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

// Drift is by how much the wall clock ran ahead of the monotonic one from a to b: the
// length of a suspend, or a step of the wall clock; never negative.
func Drift(a, b Instant) time.Duration {
	return max(0, (b.Wall-a.Wall)-(b.Mono-a.Mono))
}
