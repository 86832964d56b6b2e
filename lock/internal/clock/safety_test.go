package clock

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// ensemble is a model of successive leaders with unrelated and stepping clocks, a holder that
// renews one entry, and one judge of that entry.
type ensemble struct {
	random *rand.Rand
	real   time.Duration // the true time, which no clock has

	off           time.Duration // of the present leader's clock
	epoch, number int64         // of the last transaction
	mark          znode.Stat

	holder, judge float64 // errors of their clocks' rates
	ttl, grace    time.Duration
	dead          bool          // the holder renews no more
	node          znode.Entry   // in its present state
	trust         time.Duration // end of the trust in its lease, by the holder's clock

	clock   Ensemble // the judge's
	sampled bool     // there is a sample of this leader's clock
	read    znode.Entry
	since   time.Duration // time of the first read of this version, by the judge's clock
}

func (m *ensemble) span(most time.Duration) time.Duration {
	return time.Duration(m.random.Int64N(int64(most) + 1))
}

// goOn advances the time by up to most. The judge's sample stays recent only if the time advanced by
// less than a millisecond.
func (m *ensemble) goOn(most time.Duration) {
	d := m.span(most)
	m.real += d
	m.sampled = m.sampled && d < ms
}

func (m *ensemble) at(rate float64) Instant {
	return at(m.real + time.Duration(float64(m.real)*rate))
}

// write returns a transaction of the present leader.
func (m *ensemble) write() znode.Stat {
	m.number++
	return znode.Stat{Mzxid: zxid(m.epoch, m.number), Mtime: (100_000*time.Second + m.real + m.off).Milliseconds()}
}

// renew writes the entry, unless the holder is dead. The write takes up to 600 ms, and its reply
// may be lost.
func (m *ensemble) renew() {
	if m.dead {
		return
	}
	sent := m.at(m.holder).Mono
	m.goOn(300 * ms)
	record := znode.Record{Owner: "o", TTL: m.ttl.Milliseconds()}
	m.node = znode.ReadEntry(znode.Name{Tag: "0123456789abcdef"}, record.Encode(), m.write())
	m.goOn(300 * ms)
	if m.random.IntN(4) > 0 {
		m.trust = sent + m.ttl - m.ttl/znode.RateError - 6*ms // as package lease has it
	}
}

// sample makes the judge take a sample. Each way takes up to slowest.
func (m *ensemble) sample(slowest time.Duration) {
	sent := m.at(m.judge)
	m.goOn(slowest)
	w := m.write()
	m.goOn(slowest)
	m.clock.Observe(w.Mzxid, w.Mtime, sent, m.at(m.judge))
	m.sampled = slowest <= ms
}

func (m *ensemble) lookAtMark() {
	if znode.Epoch(m.mark.Mzxid) != m.epoch {
		m.mark = m.write()
	}
	m.clock.ObserveMark(m.mark.Mzxid, m.mark.Mtime)
}

func (m *ensemble) elect() {
	m.epoch += 1 + m.random.Int64N(2)
	m.number, m.off, m.sampled = 0, m.span(4*time.Hour)-2*time.Hour, false
}

// step steps the leader's clock by up to two hours, in any direction, if the judge has just taken a
// sample. Otherwise it does nothing.
func (m *ensemble) step() {
	if m.sampled {
		m.off += m.span(4*time.Hour) - 2*time.Hour
	}
}

func (m *ensemble) look() {
	if m.read.Stat.Mzxid != m.node.Stat.Mzxid {
		m.since = m.at(m.judge).Mono
	}
	m.read = m.node
}

func (m *ensemble) verdict() znode.Verdict {
	now := m.at(m.judge)
	v, _ := m.read.Judge(m.clock.Now(now), m.grace, now.Mono-m.since)
	return v
}

func newEnsemble(random *rand.Rand) *ensemble {
	rate := func() float64 { return float64(random.IntN(999)-499) / 1e6 }
	m := &ensemble{random: random, holder: rate(), judge: rate(), epoch: 1}
	m.ttl, m.grace = 100*ms+m.span(30*time.Second), MinGrace+m.span(5*time.Second)
	for m.node.Err = znode.ErrForeign; m.node.Err != nil || m.trust == 0; {
		m.renew()
	}
	m.look()
	return m
}

// TestNoLiveEntryIsJudgedExpired: no live entry is judged expired, even if leaders change faster
// than a lease ends, their clocks are hours apart, and a clock steps. A dead holder is judged
// expired within a lease and the grace on the judge's own clock.
func TestNoLiveEntryIsJudgedExpired(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newEnsemble(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		for range 400 {
			switch m.random.IntN(12) {
			case 0, 1, 2:
				m.renew()
			case 3, 4:
				m.sample(ms / 2)
			case 5:
				m.sample(m.ttl / 3)
			case 6:
				m.lookAtMark()
			case 7:
				if m.random.IntN(4) == 0 {
					m.elect()
				}
			case 8:
				m.sample(ms / 2)
				m.step()
			case 9, 10:
				m.look()
			case 11:
				m.goOn(m.ttl / 2)
			}
			if v := m.verdict(); v == znode.Expired && m.read.Stat.Mzxid == m.node.Stat.Mzxid && m.at(m.holder).Mono < m.trust {
				t.Fatalf("taken for dead, %v before its holder stops to trust a lease of %v: %+v judges %+v",
					m.trust-m.at(m.holder).Mono, m.ttl, m.clock.Now(m.at(m.judge)), m.read.Stat)
			}
		}
		m.dead = true
		m.look()
		for end := m.real + (m.ttl+m.grace)*1002/1000 + 2*ms; m.verdict() != znode.Expired; {
			if m.real > end {
				t.Fatalf("dead, and %v for longer than a lease of %v and a grace of %v", m.verdict(), m.ttl, m.grace)
			}
			if m.random.IntN(3) == 0 {
				m.elect()
			}
			m.sample(ms)
			m.lookAtMark()
			m.goOn(m.ttl / 10)
		}
	})
}
