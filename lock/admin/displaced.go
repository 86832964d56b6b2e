package admin

import "time"

// Displaced returns the results of [Tree.Displacement], and how long ago the client detected the
// last displacement. It is for reports of the client's state. All results are 0 if there was no
// displacement.
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
