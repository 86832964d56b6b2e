// Package clock reads this process's clocks, and estimates ensemble time: the clock of
// ZooKeeper's leader.
//
// The leader stamps the Mtime of every write while it prepares the transaction. So each
// acknowledged write whose reply has a Stat is a sample of the leader's clock: the clock showed
// that stamp at some moment between send and reply, both on this process's monotonic clock.
// [znode.Now] has the rules for comparing stamps. This package has the samples of one process, and
// the requests for them.
package clock

import (
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// MinGrace is the shortest grace of a lock. The grace absorbs displacements of the leader's clock.
// When the displacements within a term add up to more than half of MinGrace, a new term begins.
const MinGrace = 100 * time.Millisecond

// Ensemble is one process's knowledge of ensemble time. The zero value knows nothing. All methods
// are safe for concurrent use.
type Ensemble struct {
	Log       zerolog.Logger     // receives displacements
	Displaced func(Displacement) // receives each displacement too, outside of any lock; may be nil

	mu sync.Mutex
	knowledge
	resets        int          // how often all samples were dropped
	sessions      int          // resets, plus calls of newSession
	displacements uint64       // number of detected displacements
	last          Displacement // the last detected displacement
}

// knowledge is the result of the samples of one ensemble.
type knowledge struct {
	sample sample // the sample of the highest transaction
	known  bounds // bounds from all samples of the term

	term      int64         // first transaction of the present term
	since     time.Duration // earliest known stamp of the term
	first     int64         // transaction of the term's first sample
	marked    bool          // the epoch's mark was read, or cannot add anything
	doubted   bool          // the term began in an earlier session
	displaced time.Duration // upper bound of the sum of displacements within the term
	open      time.Duration // width of the first sample that known is made of
}

// Forget drops all samples. It must be called when the servers may have lost their data, or may
// belong to another ensemble: they number transactions from the start, and have another clock. But
// they may also have been silent for long, and have had their clock set meanwhile. So the next
// sample begins a term: earlier writes count from the stamp of that sample.
func (c *Ensemble) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
}

func (c *Ensemble) forget() {
	c.knowledge = knowledge{}
	c.resets++
	c.sessions++
}

// newSession records that the next sample is of another session than the last one. The servers may
// have lost their data in between. If they have since reached a higher zxid than before, the zxids
// do not show the loss.
func (c *Ensemble) newSession() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions++
	c.doubted = true
}

// sample is a reading of the leader's clock: the clock showed stamp at some moment between sent,
// read before the request was made, and received, read after the reply.
type sample struct {
	zxid           int64 // 0: no sample
	stamp          time.Duration
	sent, received Instant
}

// bounds are a lower and an upper bound of the leader's clock at one instant.
type bounds struct {
	least, most time.Duration
	at          Instant
}

// later returns the bounds at the instant t, which may also be earlier. The clocks' rate error
// widens them. So does a suspend of the machine, during which the leader's clock went on.
func (b bounds) later(t Instant) bounds {
	d := t.Mono - b.at.Mono
	rate := d.Abs() / znode.RateError
	return bounds{b.least + d - rate, b.most + d + rate + Drift(b.at, t), t}
}

// width returns the width of the bounds from the sample alone. A step of the clock between two
// samples looks smaller by at most the sum of both widths.
func (s sample) width() time.Duration {
	b := s.bounds()
	return b.most - b.least
}

// bounds returns the bounds from the sample alone, at the moment when it was received.
func (s sample) bounds() bounds {
	sent := bounds{most: s.stamp + time.Millisecond, at: s.sent} // Mtime drops the fraction
	return bounds{s.stamp, sent.later(s.received).most, s.received}
}

// Displacement is a detected step of the leader's clock, or a difference between the clocks of
// two leaders.
type Displacement struct {
	By                 time.Duration // size of the step; negative: backwards; 0: no displacement
	OldEpoch, NewEpoch int64         // epochs before and after; equal if one leader's clock was set
	Seen               time.Duration // time on this process's monotonic clock
}

// Observe takes the Mtime of a write, in Unix milliseconds, as a sample. The request was made after
// sent, and answered before received. zxid is the write's transaction. If the transaction is not
// newer than the last sample's, Observe drops the sample. But a request that was made after the
// reply of the last sample must have a higher zxid. If its zxid is not higher, the servers have
// lost their data, and Observe first forgets all samples. Observe passes a displacement that it
// detects to Log and Displaced.
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
	case last.zxid == 0 && c.resets == 0 || last.zxid != 0 && znode.Epoch(last.zxid) != znode.Epoch(zxid):
		c.begin(znode.EpochStart(znode.Epoch(zxid)), next.stamp, false)
	case last.zxid == 0, c.displaced > MinGrace/2:
		// Earlier writes may have been stamped by the clock before its step, and so may the mark
		// of the epoch.
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

// begin begins a new term; c.mu is held. marked: the mark of the epoch cannot be used for the term.
func (c *Ensemble) begin(term int64, since time.Duration, marked bool) {
	c.term, c.since, c.marked, c.doubted, c.displaced = term, since, marked, false, 0
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

// displacement returns how far the stamp of next lies outside of the bounds; 0 if it fits. The
// bounds come from all samples of the term, so neither a slow reply nor many small steps can hide
// a displacement.
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

// narrowed returns the bounds narrowed by one more sample that fits.
func (b bounds) narrowed(next sample) bounds {
	before, alone := b.later(next.received), next.bounds()
	return bounds{max(before.least, alone.least), min(before.most, alone.most), next.received}
}

// ObserveMark takes the Mzxid and Mtime of the epoch's mark, a node that is written once in each
// epoch. Only its stamp counts: a client that writes the mark again, deletes it or forbids to read
// it can only cause delay. A mark of another epoch means that this epoch has none. A mark that was
// written after the term's first sample is not used: if the mark's stamp is earlier, the clock was
// set back in between.
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

// Now returns the knowledge of ensemble time at the instant t, which must not be before the last
// sample.
func (c *Ensemble) Now(t Instant) znode.Now {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sample.zxid == 0 {
		return znode.Now{Resets: c.resets, Sessions: c.sessions}
	}
	// Use the last sample alone, so that the result is right for the present clock even if a small
	// step went undetected.
	b := c.sample.bounds().later(t)
	return znode.Now{Zxid: c.sample.zxid, Lower: b.least, Upper: b.most, Term: c.term, Since: c.since, Marked: c.marked, Resets: c.resets, Sessions: c.sessions, Doubted: c.doubted}
}

// Displacements returns the number of detected displacements since this Ensemble was made, and the
// last displacement. If there was none, By of the last displacement is 0.
func (c *Ensemble) Displacements() (uint64, Displacement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.displacements, c.last
}

// Sampled returns the transaction of the last sample, and the monotonic time at which its request
// was made; zeros if there is no sample.
func (c *Ensemble) Sampled() (zxid int64, sent time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sample.zxid, c.sample.sent.Mono
}
