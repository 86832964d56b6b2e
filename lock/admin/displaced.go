package admin

import "time"

// Displaced is for reports of the client's state. It returns the results of [Tree.Displacement],
// and how long ago the client detected the last displacement. All are 0 if it has detected none.
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
