package admin

import "time"

// Displaced returns the number of detected displacements of the leader's clock since the client
// was made: steps, or differences from the previous leader's clock. It also returns the last
// displacement, negative for backwards, and how long ago that was detected.
func (t Tree) Displaced() (times uint64, by, ago time.Duration) {
	if t.c.Clock == nil {
		return 0, 0, 0
	}
	times, last := t.c.Clock.Displacements()
	if times == 0 {
		return 0, 0, 0
	}
	return times, last.By, t.c.Clock.Mono() - last.Seen
}
