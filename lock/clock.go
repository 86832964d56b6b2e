package lock

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// rateError is by how much a client's monotonic clock may run wrong: 500 ppm,
// as one part in so many.
const rateError = 2000

// instant is one reading of this process's clocks. Durations are measured on mono.
// Where that stands still while the machine is suspended, the wall clock running
// ahead of it tells; the wall clock is trusted for nothing more.
type instant struct {
	mono time.Duration // since the client was made
	wall time.Duration // since the Unix epoch
}

// systemClock returns what reads the machine's clocks. Simulations put their own
// in its place. Go's monotonic clock stands still while the machine is suspended;
// mono goes on where the operating system counts how long that was.
func systemClock() func() instant {
	start := time.Now()
	return countSleep(func() instant {
		now := time.Now()
		return instant{mono: now.Sub(start), wall: time.Duration(now.UnixNano())}
	}, slept)
}

// countSleep adds to mono how long the machine has slept since now. To ask that takes
// system calls, so it is asked only if the clocks are not as far apart as when it was
// asked last: sleep moves the wall clock alone.
func countSleep(read func() instant, slept func() time.Duration) func() instant {
	const jitter = 20 * time.Microsecond // the two clocks cannot be read at once
	type answer struct{ apart, slept time.Duration }
	ask := func(at instant) *answer { return &answer{apart: at.wall - at.mono, slept: slept()} }
	first := ask(read())
	var last atomic.Pointer[answer]
	last.Store(first)
	return func() instant {
		at, known := read(), last.Load()
		if (at.wall - at.mono - known.apart).Abs() > jitter {
			known = ask(at)
			last.Store(known)
		}
		at.mono += known.slept - first.slept
		return at
	}
}

// ahead is by how much the wall clock ran ahead of the monotonic one from a to
// b: the length of a suspend, or a step of the wall clock; never negative.
func ahead(a, b instant) time.Duration {
	return max(0, (b.wall-a.wall)-(b.mono-a.mono))
}

// ensembleClock estimates the clock of the ZooKeeper leader from the Mtime that
// it stamps on writes (protocol: Ensemble time). Every acknowledged write whose
// reply carries a Stat is a sample. All methods are safe for concurrent use.
type ensembleClock struct {
	log zerolog.Logger

	mu            sync.Mutex
	sample        sample
	displacements uint64
}

// sample says that the leader's clock showed stamp at some time between sent,
// taken before the request was handed over, and received.
type sample struct {
	zxid           int64 // 0: no sample
	stamp          time.Duration
	sent, received instant
}

// window is what the leader's clock shows at a time: from lower to upper, since
// the Unix epoch.
type window struct{ lower, upper time.Duration }

func (w window) width() time.Duration { return w.upper - w.lower }

// at is the window of the leader's clock at a later time. The clocks' rate error
// widens it, and so does a suspend, during which the leader's clock went on.
func (s sample) at(t instant) window {
	young, old := t.mono-s.received.mono, t.mono-s.sent.mono
	return window{
		lower: s.stamp + young - young/rateError,
		upper: s.stamp + time.Millisecond + old + old/rateError + ahead(s.sent, t),
	}
}

// observe takes the Mtime of a write, in Unix milliseconds, as a sample. An
// older transaction than the one known tells nothing new and is dropped; so is
// everything known before, so that samples of two leaders never mix.
func (c *ensembleClock) observe(zxid, mtime int64, sent, received instant) {
	next := sample{zxid: zxid, stamp: time.Duration(mtime) * time.Millisecond, sent: sent, received: received}
	c.mu.Lock()
	last := c.sample
	if zxid <= last.zxid {
		c.mu.Unlock()
		return
	}
	c.sample = next
	off := displacement(last, next)
	if off != 0 {
		c.displacements++
	}
	c.mu.Unlock()
	if off != 0 {
		level := zerolog.DebugLevel
		if off.Abs() >= MinGrace/4 {
			level = zerolog.WarnLevel
		}
		c.log.WithLevel(level).Stringer("by", off).
			Int64("old_epoch", last.zxid>>32).Int64("epoch", zxid>>32).
			Msg("the ZooKeeper leader's clock was displaced; grace must be longer than such steps")
	}
}

// displacement is by how much the stamp of next lies outside of what last
// foretold: the step of the leader's clock, or the difference between two
// leaders' clocks. 0 if it fits.
func displacement(last, next sample) time.Duration {
	if last.zxid == 0 {
		return 0
	}
	first, final := last.at(next.sent).lower, last.at(next.received).upper
	switch {
	case next.stamp+time.Millisecond < first:
		return next.stamp - first
	case next.stamp > final:
		return next.stamp - final
	}
	return 0
}

// known reports whether there is a sample.
func (c *ensembleClock) known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sample.zxid != 0
}

// at returns the window of the leader's clock, and the zxid of the sample it
// rests on: 0 if there is none yet.
func (c *ensembleClock) at(t instant) (window, int64) {
	c.mu.Lock()
	s := c.sample
	c.mu.Unlock()
	return s.at(t), s.zxid
}

// verdict says whether a lease has run out.
type verdict int

const (
	live     verdict = iota // not yet, as far as can be known
	expired                 // for certain
	unproven                // it seems so, but only a new sample can prove it
)

// judge says whether a lease has run out whose end, the grace included, was read
// from a node with this Mzxid; in Unix milliseconds of ensemble time. Only a
// sample younger than the record proves that it has. Where the answer hangs on
// a window that is wider than a quarter of the grace, it is unproven too. With
// live comes how long to wait before judging again.
func (c *ensembleClock) judge(end, mzxid int64, grace time.Duration, t instant) (verdict, time.Duration) {
	w, zxid := c.at(t)
	at := time.Duration(end) * time.Millisecond
	switch {
	case zxid == 0:
		return unproven, 0
	case w.lower > at && zxid > mzxid:
		return expired, 0
	case w.lower > at:
		return unproven, 0
	case w.width() <= grace/4:
		return live, later(at - w.lower)
	case w.upper > at:
		return unproven, 0
	}
	return live, later(at - w.upper)
}

// later is how long a local clock may take until the leader's has gone on by d,
// and a little more.
func later(d time.Duration) time.Duration { return d + d/rateError + time.Millisecond }
