package history

import (
	"time"

	"github.com/holdfast-io/holdfast/lock/znode"
)

const (
	// minStep is the shortest step of the clock that becomes an event. A write can be in flight for
	// a few seconds, which looks like a step.
	minStep = 10 * time.Second
	// maxPlaces limits clock.places: at the limit, the older half is dropped.
	maxPlaces = 256
)

// point is a transaction. mono is the sum of all rises of the stamps until the transaction.
type point struct {
	zxid int64
	mono time.Duration
}

// place is a transaction right before which the leader's clock may have been stepped.
type place struct {
	point
	stamp    time.Time
	rose     time.Duration // how much the stamps rose there
	torn     bool          // the stamps fell, or a new leader stamped
	reported bool          // an event has reported it
}

// step is a step of the leader's clock, right before the transaction zxid. A step ahead is in doubt:
// a write that waited, as in a server that was paused, looks the same.
type step struct {
	point
	stamp time.Time
	by    time.Duration // time that the stamps show and that has not passed; negative: they show less
}

// clock follows the stamps of the transactions, and finds steps of the leaders' clocks.
type clock struct {
	point
	stamp  time.Time // stamp of the last transaction; zero: none yet
	places []place
	steps  []step
}

// advance takes the zxid and the stamp of the next transaction. It returns an event if another
// leader stamped the transaction, or if the clock was stepped back.
func (c *clock) advance(zxid int64, stamp time.Time) (Event, bool) {
	before, prev := c.zxid, c.stamp
	c.zxid, c.stamp = zxid, stamp
	if prev.IsZero() {
		return Event{}, false
	}
	rose := stamp.Sub(prev)
	c.mono += max(0, rose)
	elected := znode.Elected(before, zxid)
	back := rose <= -time.Second // a smaller fall is a slewed clock, or a leap second
	if elected || back || rose >= minStep {
		if len(c.places) == maxPlaces {
			c.places = append(c.places[:0], c.places[maxPlaces/2:]...)
		}
		c.places = append(c.places, place{c.point, stamp, rose, elected || rose < 0, back})
	}
	e := Event{Kind: Clock, Zxid: zxid, Time: stamp, Prev: prev, Step: min(0, rose), mono: c.mono}
	if elected {
		e.Kind = Leader
	}
	return e, elected || back
}

// learn compares the present stamp with estimate: the leader's time as a client estimated it before
// it sent the write. since is the last transaction by which the client knew the clock. If the
// difference shows an unknown step, learn records the step. Then it returns an event, unless the
// step's place was reported before. A delay of the write makes the difference larger, never smaller:
// so a step back is proved, and a step ahead is only possible.
func (c *clock) learn(since int64, estimate time.Time) (Event, bool) {
	skew := c.stamp.Sub(estimate)
	if skew.Abs() < minStep {
		return Event{}, false
	}
	by, at := skew-c.stepped(since, c.zxid), -1
	for i := len(c.places) - 1; i >= 0 && c.places[i].zxid > since; i-- {
		p := c.places[i]
		by -= min(0, p.rose) // mono leaves out falls of the stamps already
		switch {
		case at >= 0 && c.places[at].torn:
		case p.torn, at < 0 && (skew < 0 || p.rose > skew-minStep):
			at = i
		}
	}
	if by.Abs() < minStep || at < 0 {
		return Event{}, false // a known step, a write that took long, or a wrong estimate
	}
	p := &c.places[at]
	reported := p.reported
	c.steps, p.reported = append(c.steps, step{p.point, p.stamp, by}), true
	return Event{Kind: Clock, Zxid: p.zxid, Time: p.stamp, Step: by, mono: p.mono}, !reported
}

// torn reports whether the leader's clock may have been stepped since the transaction.
func (c *clock) torn(since int64) bool {
	return since > 0 && len(c.places) > 0 && c.places[len(c.places)-1].zxid > since
}

// stepped returns the sum of the known steps after the transaction from, up to the transaction to.
func (c *clock) stepped(from, to int64) (sum time.Duration) {
	for _, s := range c.steps {
		if s.zxid > from && s.zxid <= to {
			sum += s.by
		}
	}
	return sum
}

// doubt returns how much longer than between the time from a to b may have been: the steps ahead, if
// they were none.
func (c *clock) doubt(a, b point) (sum time.Duration) {
	for _, s := range c.steps {
		if s.zxid > a.zxid && s.zxid <= b.zxid {
			sum += max(0, s.by)
		}
	}
	return sum
}

// mayEnd returns how long after a a lease of length ttl, written at a, may have ended first, and the
// stamp then; false if the log shows at each moment until b whether it had.
func (c *clock) mayEnd(a, b point, ttl time.Duration) (after time.Duration, stamp time.Time, ok bool) {
	for _, s := range c.steps {
		if s.by <= 0 || s.zxid <= a.zxid || s.zxid > b.zxid {
			continue
		}
		rest := max(0, ttl-c.most(a, s.point))
		if at := c.between(a, s.point) + rest; at < ttl && at <= c.between(a, b) && (!ok || at < after) {
			after, stamp, ok = at, s.stamp.Add(rest), true
		}
	}
	return after, stamp, ok
}

// most returns the longest time that may have passed from a to b.
func (c *clock) most(a, b point) time.Duration { return c.between(a, b) + c.doubt(a, b) }

// between returns the shortest time that may have passed from a to b: without the known steps.
func (c *clock) between(a, b point) time.Duration {
	return max(0, b.mono-a.mono-c.stepped(a.zxid, b.zxid))
}
