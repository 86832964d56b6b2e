package main

import (
	"fmt"
	"strings"
	"time"
)

// numbers counts a group's ticks. Each tick is counted in exactly one of the first five fields.
type numbers struct {
	Once        int // ran once, to the end
	Twice       int // ran more than once
	Again       int // AtLeastOnce: a run was interrupted, and a later one ended
	Interrupted int // a run began, but none ended
	Missed      int // no run began

	Late   int           // ran, but began more than an interval late
	Latest time.Duration // longest time from a tick to the beginning of its first run
}

func (n numbers) ticks() int { return n.Once + n.Twice + n.Again + n.Interrupted + n.Missed }

// figures has the numbers of a group.
type figures struct {
	Group       string
	Ours        bool
	AtLeastOnce bool
	numbers
}

// pending returns the number of ticks that may still run.
func (f figures) pending() int {
	if f.AtLeastOnce {
		return f.Missed + f.Interrupted
	}
	return f.Missed
}

// history is what the log says of one tick.
type history struct {
	begun, ended int
	told         bool      // package schedule reported that a run was started and not finished
	first        time.Time // when the first run began
}

// count counts the ticks from first to last by a group's log.
func count(log string, g group, first, last time.Time) (n numbers, err error) {
	ticks := map[int64]*history{}
	for line := range strings.Lines(log) {
		if !strings.HasSuffix(line, "\n") {
			break // a replica is still writing this line
		}
		var word, replica string
		var tick, at int64
		if _, err := fmt.Sscan(line, &word, &tick, &replica, &at); err != nil {
			return n, fmt.Errorf("line %q: %w", line, err)
		}
		h := ticks[tick]
		if h == nil {
			h = &history{}
			ticks[tick] = h
		}
		switch word {
		case wordBegin:
			h.begun++
			if now := time.Unix(0, at); h.first.IsZero() || now.Before(h.first) {
				h.first = now
			}
		case wordEnd:
			h.ended++
		case wordUnfinished:
			h.told = true
		default:
			return n, fmt.Errorf("line %q: unknown word", line)
		}
	}
	for tick := first; !tick.After(last); tick = tick.Add(interval) {
		h := ticks[tick.UnixNano()]
		if h == nil {
			h = &history{}
		}
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
			late := h.first.Sub(tick)
			n.Latest = max(n.Latest, late)
			if late > interval {
				n.Late++
			}
		}
	}
	return n, nil
}
