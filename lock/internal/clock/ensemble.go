// Package clock knows what time it is: on this process's clocks, and, as far as that
// can be known, on the clock of ZooKeeper's leader, which is ensemble time (package
// queue, Ensemble time, and When an entry has expired).
//
// The leader stamps the Mtime of every write while it prepares the transaction, so
// each acknowledged write whose reply carries a Stat is a sample of its clock:
// between the moment it was sent and the one it was answered, both on our monotonic
// clock, the leader's showed that stamp. The rules by which stamps are compared are
// [znode.Now]'s; here stands what this process knows, and how it comes to know it.
package clock

import (
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// MinGrace is the shortest grace that a lock may have. Displacements of the leader's
// clock are borne within a term as long as they come to no more than half of it.
const MinGrace = 100 * time.Millisecond

// Ensemble is what one process knows of ensemble time. The zero value knows nothing.
// All methods are safe for concurrent use.
type Ensemble struct {
	Log       zerolog.Logger     // where displacements are told
	Displaced func(Displacement) // is told of each too, outside of any lock; may be nil

	mu sync.Mutex
	knowledge
	resets        int // calls of Forget
	displacements uint64
	last          Displacement
}

// knowledge is what the samples of one ensemble tell.
type knowledge struct {
	sample sample // of the highest transaction
	known  bounds // from all samples of the term

	term      int64         // first transaction of the present term
	since     time.Duration // its earliest stamp that is known
	first     int64         // transaction of its first sample
	marked    bool          // the epoch's mark was looked at, or can tell nothing more
	displaced time.Duration // displacements within the term, summed: as much as they can have been
	open      time.Duration // width of the sample that known began with
}

// Forget drops all samples. Servers that have lost their data, or are of another ensemble,
// number transactions anew, and have another clock.
func (c *Ensemble) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
}

func (c *Ensemble) forget() {
	c.knowledge = knowledge{}
	c.resets++
}

// sample says that the leader's clock showed stamp at some time between sent,
// taken before the request was handed over, and received.
type sample struct {
	zxid           int64 // 0: no sample
	stamp          time.Duration
	sent, received Instant
}

// bounds say what the leader's clock shows at one instant, at least and at most.
type bounds struct {
	least, most time.Duration
	at          Instant
}

// later is what the bounds come to at a later time. The clocks' rate error widens
// them, and so does a suspend, during which the leader's clock went on.
func (b bounds) later(t Instant) bounds {
	d := t.Mono - b.at.Mono
	rate := d.Abs() / znode.RateError
	return bounds{b.least + d - rate, b.most + d + rate + Drift(b.at, t), t}
}

// width is how wide the bounds are that the sample alone gives. A step may hide there: of
// one that was seen between two samples, what is seen of it is less by both at most.
func (s sample) width() time.Duration {
	b := s.bounds()
	return b.most - b.least
}

// bounds are what the sample alone says of the moment at which it was received.
func (s sample) bounds() bounds {
	sent := bounds{most: s.stamp + time.Millisecond, at: s.sent} // Mtime drops the fraction
	return bounds{s.stamp, sent.later(s.received).most, s.received}
}

// Displacement is a step of the leader's clock, or the difference between the clocks
// of two leaders, as this process saw it.
type Displacement struct {
	By                 time.Duration // how far the clock jumped, negative for backwards; 0: none was seen
	OldEpoch, NewEpoch int64         // of the samples before and after it; equal if one leader's clock was set
	Seen               time.Duration // when, on this process's monotonic clock
}

// Observe takes the Mtime of a write, in Unix milliseconds, as a sample: of a request
// that was handed over after sent, and answered before received. An older transaction
// than the one known tells nothing new and is dropped. But one that was sent after the
// known one was answered has to be younger: if its number is lower, the servers have lost
// their data, and number anew.
func (c *Ensemble) Observe(zxid, mtime int64, sent, received Instant) {
	next := sample{zxid: zxid, stamp: time.Duration(mtime) * time.Millisecond, sent: sent, received: received}
	c.mu.Lock()
	if zxid <= c.sample.zxid {
		if sent.Mono <= c.sample.received.Mono {
			c.mu.Unlock()
			return
		}
		c.forget()
	}
	last := c.sample
	c.sample = next
	var off time.Duration
	if last.zxid != 0 {
		off = c.known.displacement(next)
	}
	if off != 0 {
		c.displacements++
		c.displaced += off.Abs() + c.open + next.width()
		c.last = Displacement{off, znode.Epoch(last.zxid), znode.Epoch(zxid), received.Mono}
	}
	switch {
	case last.zxid == 0 || znode.Epoch(last.zxid) != znode.Epoch(zxid):
		c.begin(znode.Epoch(zxid)<<32, next.stamp, false)
	case c.displaced > MinGrace/2:
		// What was written before this transaction may be stamped by the clock as
		// it was; the mark of the epoch was too.
		c.begin(zxid, next.stamp, true)
	}
	if c.known = c.known.narrowed(next); off != 0 || last.zxid == 0 || znode.Epoch(last.zxid) != znode.Epoch(zxid) {
		c.known, c.open = next.bounds(), next.width()
	}
	told := c.last
	c.mu.Unlock()
	if off != 0 {
		c.tell(told)
	}
}

// begin begins a new term; c.mu is held.
func (c *Ensemble) begin(term int64, since time.Duration, marked bool) {
	c.term, c.since, c.marked, c.displaced = term, since, marked, 0
	c.first = c.sample.zxid
}

func (c *Ensemble) tell(d Displacement) {
	level := zerolog.DebugLevel
	if d.By.Abs() >= MinGrace/4 {
		level = zerolog.WarnLevel
	}
	msg := "the clock of the ZooKeeper leader was displaced: what was written before is judged as from now on"
	if d.OldEpoch != d.NewEpoch {
		msg = "the clock of the ZooKeeper leader was displaced by a change of the leader: what was written before is judged as from the new one's first stamps"
	}
	c.Log.WithLevel(level).Stringer("by", d.By).Int64("old_epoch", d.OldEpoch).Int64("epoch", d.NewEpoch).Msg(msg)
	if c.Displaced != nil {
		c.Displaced(d)
	}
}

// displacement is by how much the stamp of next lies outside of what is known: 0 if it
// fits. What is known rests on all samples of the term, so that neither a slow reply
// nor many small steps can hide what has come together.
func (b bounds) displacement(next sample) time.Duration {
	first, final := b.later(next.sent).least, b.later(next.received).most
	switch {
	case next.stamp+time.Millisecond < first:
		return next.stamp + time.Millisecond - first
	case next.stamp > final:
		return next.stamp - final
	}
	return 0
}

// narrowed is what is known with one more sample that fits.
func (b bounds) narrowed(next sample) bounds {
	before, alone := b.later(next.received), next.bounds()
	return bounds{max(before.least, alone.least), min(before.most, alone.most), next.received}
}

// ObserveMark takes the Stat of the epoch's mark, a node that is written once in each
// epoch. Only that it was stamped counts: a client that writes it, deletes it or keeps it
// from us can only make things take longer. A mark of another epoch says that this one has
// none. A mark that is younger than our own first sample tells nothing: if it bears an
// earlier stamp, then because the clock was set back in between.
func (c *Ensemble) ObserveMark(mzxid, mtime int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sample.zxid == 0 || c.marked {
		return
	}
	c.marked = true
	if znode.Epoch(mzxid) == znode.Epoch(c.first) && mzxid < c.first {
		c.since = min(c.since, time.Duration(mtime)*time.Millisecond)
	}
}

// Known reports whether there is a sample.
func (c *Ensemble) Known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sample.zxid != 0
}

// Now returns what is known of ensemble time at that instant, which must not be before
// the last sample.
func (c *Ensemble) Now(t Instant) znode.Now {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sample.zxid == 0 {
		return znode.Now{Resets: c.resets}
	}
	// By the last sample alone, so that it is true of the clock as it is now even if
	// a small step went unseen.
	b := c.sample.bounds().later(t)
	return znode.Now{Zxid: c.sample.zxid, Lower: b.least, Upper: b.most, Term: c.term, Since: c.since, Marked: c.marked, Resets: c.resets}
}

// Displacements is how often the leader's clock was seen to be displaced since this was
// made, and the last such displacement; its By is 0 if there was none.
func (c *Ensemble) Displacements() (uint64, Displacement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.displacements, c.last
}

// Sampled returns the transaction of the last sample, and the monotonic time at which
// it was asked for.
func (c *Ensemble) Sampled() (zxid int64, sent time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sample.zxid, c.sample.sent.Mono
}
