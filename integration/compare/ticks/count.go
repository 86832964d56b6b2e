package ticks

import (
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
)

// Figures counts a group's ticks. Each tick is counted in exactly one of the fields up to Missed.
type Figures struct {
	Group       string
	AtLeastOnce bool

	Once        int // ran once, to the end
	Twice       int // ran more than once
	Again       int // AtLeastOnce: a run was interrupted, and a later one ended
	Interrupted int // a run began, but none ended
	Missed      int // no run began

	Late   int           // ran, but began more than an interval late
	Latest time.Duration // longest time from a tick to the beginning of its first run
}

// Ticks returns the number of ticks.
func (n Figures) Ticks() int { return n.Once + n.Twice + n.Again + n.Interrupted + n.Missed }

// Pending returns the number of ticks that may still run.
func (n Figures) Pending() int {
	if n.AtLeastOnce {
		return n.Missed + n.Interrupted
	}
	return n.Missed
}

// Count counts the ticks from first to last by a group's records. epoch is the time at which the
// machine's monotonic clock was 0.
func Count(records []*crew.Record, g Group, first, last, epoch time.Time) Figures {
	n := Figures{Group: g.Name, AtLeastOnce: g.AtLeastOnce}
	type seen struct {
		begun, ended int
		told         bool // package schedule reported that a run was started and not finished
		first        monotonic.Instant
	}
	ticks := map[int64]seen{}
	for _, r := range records {
		h := ticks[r.Tick]
		switch r.Op {
		case Begin:
			if h.begun++; h.begun == 1 || r.Call < h.first {
				h.first = r.Call
			}
		case End:
			h.ended++
		case Unfinished:
			h.told = true
		}
		ticks[r.Tick] = h
	}
	for tick := first; !tick.After(last); tick = tick.Add(Interval) {
		h := ticks[tick.UnixNano()]
		switch {
		case h.ended > 1 || h.begun > 1 && !g.AtLeastOnce:
			n.Twice++
		case h.begun > 1 && h.ended == 1:
			n.Again++
		case h.ended == 1:
			n.Once++
		case h.begun > 0 || h.told:
			n.Interrupted++
		default:
			n.Missed++
		}
		if h.begun > 0 {
			late := epoch.Add(time.Duration(h.first)).Sub(tick)
			n.Latest = max(n.Latest, late)
			if late > Interval {
				n.Late++
			}
		}
	}
	return n
}
