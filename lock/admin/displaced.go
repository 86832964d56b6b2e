package admin

import "time"

// Displaced tells how often the clock of ZooKeeper's leader was seen to step, or to
// differ from that of the leader before, since the client was made; by how much it did
// the last time, negative for backwards; and how long ago that was noticed.
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
