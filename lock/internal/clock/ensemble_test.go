package clock

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-io/holdfast/lock/znode"
)

const ms = time.Millisecond

// at returns an instant of a machine that has not slept.
func at(mono time.Duration) Instant { return Instant{Mono: mono, Wall: mono + 1000*time.Hour} }

// zxid returns the zxid of a transaction by its epoch, and its number in the epoch.
func zxid(epoch, number int64) int64 { return epoch<<32 | number }

// TestWindowHoldsTheLeadersClock: for a client whose clock is wrong by up to the allowed rate, and
// slow samples, the window always contains the leader's time, and is not wider than the delays and
// the drift require. If the leader's clock does not step, no displacement is counted.
func TestWindowHoldsTheLeadersClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ppm := float64(rapid.IntRange(-499, 499).Draw(t, "ppm"))
		local := func(real time.Duration) Instant { return at(real + time.Duration(float64(real)*ppm/1e6)) }
		leader := func(real time.Duration) time.Duration { return 1767225600*time.Second + real }
		span := func(name string, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
		}
		var c Ensemble
		real := span("begin", 24*time.Hour)
		for i := range rapid.Int64Range(1, 8).Draw(t, "samples") {
			sent := real
			stamped := sent + span("to leader", 10*time.Second)
			real = stamped + span("back", 10*time.Second)
			c.Observe(zxid(1, i+1), leader(stamped).Milliseconds(), local(sent), local(real))
			later := real + span("later", 24*time.Hour)
			now := c.Now(local(later))
			if l := leader(later); l < now.Lower || l > now.Upper || now.Zxid != zxid(1, i+1) {
				t.Fatalf("the leader's clock shows %v, outside of %+v", l, now)
			}
			if width, most := now.Upper-now.Lower, real-sent+(later-sent)/500+2*ms; width > most {
				t.Fatalf("the window is %v wide, want at most %v", width, most)
			}
			if known := c.known.later(local(later)); leader(later) < known.least || leader(later) > known.most {
				t.Fatalf("the leader's clock shows %v, and is known to be in %v to %v", leader(later), known.least, known.most)
			}
			real = later
		}
		if n, _ := c.Displacements(); n != 0 || c.Now(local(real)).Term != zxid(1, 0) {
			t.Fatalf("%d displacements of a clock that runs true", n)
		}
	})
}

func TestOnlyYoungerSamplesCount(t *testing.T) {
	var c Ensemble
	if now := c.Now(at(0)); now != (znode.Now{}) || c.Known() {
		t.Fatalf("a clock without a sample claims %+v", now)
	}
	c.Observe(7, 5000, at(0), at(2*ms))
	c.Observe(6, 900, at(1*ms), at(4*ms)) // an older transaction, answered late
	c.Observe(7, 900, at(2*ms), at(4*ms))
	if now := c.Now(at(2 * ms)); now.Zxid != 7 || now.Lower != 5000*ms || now.Upper != 5003*ms+2*ms/znode.RateError {
		t.Errorf("%+v", now)
	}
	if zxid, sent := c.Sampled(); zxid != 7 || sent != 0 || !c.Known() {
		t.Errorf("sampled by %d, sent at %v", zxid, sent)
	}
	c.Observe(8, 4000, at(10*ms), at(11*ms)) // a step back: followed, and counted
	if now := c.Now(at(11 * ms)); now.Lower != 4000*ms {
		t.Errorf("%+v does not follow the leader", now)
	}
	if n, last := c.Displacements(); n != 1 || last.By > -900*ms || last.Seen != 11*ms {
		t.Errorf("%d displacements, the last %+v", n, last)
	}
}

func TestSuspendWidensTheWindow(t *testing.T) {
	var c Ensemble
	c.Observe(1, 1000, at(0), at(0))
	awake := at(10 * ms)
	awake.Wall += time.Hour // the machine slept, and its monotonic clock stood still
	if now := c.Now(awake); now.Upper < 1010*ms+time.Hour || now.Lower > 1010*ms {
		t.Errorf("after a suspend of an hour: %+v", now)
	}
	back := at(10 * ms)
	back.Wall -= time.Hour // a step back of the wall clock means nothing
	if now, want := c.Now(back), c.Now(at(10*ms)); now != want {
		t.Errorf("after a step back: %+v, want %+v", now, want)
	}
	c.Observe(2, 1010+time.Hour.Milliseconds(), awake, awake)
	if n, _ := c.Displacements(); n != 0 {
		t.Error("a suspend was taken for a displacement of the leader's clock")
	}
}

func TestDisplacement(t *testing.T) {
	var last Ensemble
	last.Observe(1, 1000, at(0), at(10*ms))
	for _, tt := range []struct {
		stamp, want time.Duration
	}{
		{1100 * ms, 0},
		{1090 * ms, 0},                          // stamped at the receipt of the first reply
		{1088 * ms, 1089*ms - (1090*ms - 45e3)}, // earlier than possible
		{1106 * ms, 0},                          // both replies took their longest possible time
		{1107 * ms, 1107*ms - (1106*ms + 52500)},
		{5000 * ms, 5000*ms - (1106*ms + 52500)},
	} {
		next := sample{zxid: 2, stamp: tt.stamp, sent: at(100 * ms), received: at(105 * ms)}
		if got := last.known.displacement(next); got != tt.want {
			t.Errorf("stamp %v: displacement %v, want %v", tt.stamp, got, tt.want)
		}
	}
}

// TestSlowReplyHidesNoStep: a slow sample, which is compatible with any time, does not erase the
// knowledge from earlier samples.
func TestSlowReplyHidesNoStep(t *testing.T) {
	const step = 4 * time.Second
	var c Ensemble
	leader := func(mono time.Duration) int64 { return (1000*time.Second + mono).Milliseconds() }
	c.Observe(1, leader(0), at(0), at(ms))
	c.Observe(2, leader(2*time.Second), at(time.Second), at(11*time.Second)) // slow, and fits
	if n, _ := c.Displacements(); n != 0 {
		t.Fatalf("%d displacements, of a clock that runs true", n)
	}
	c.Observe(3, leader(12*time.Second+step), at(12*time.Second), at(12*time.Second+ms))
	if n, last := c.Displacements(); n != 1 || last.By > step || last.By < step-50*ms {
		t.Errorf("%d displacements, the last %+v, want one of %v", n, last, step)
	}
	if now := c.Now(at(13 * time.Second)); now.Term != 3 {
		t.Errorf("no term has begun: %+v", now)
	}
}

// TestTermBegins: a term begins when the displacements, in any direction, sum to half of the
// smallest grace. The term begins with the sample that showed the last displacement.
func TestTermBegins(t *testing.T) {
	for _, step := range []int64{-20, 20} {
		var c Ensemble
		var off int64
		for i := range int64(12) {
			mono := time.Duration(i) * 10 * ms
			off += step * (i % 2) * (1 - i%4/2*2) // the clock jumps to and fro
			c.Observe(zxid(1, i+1), 1_000_000+mono.Milliseconds()+off, at(mono), at(mono))
			now := c.Now(at(mono))
			if begun := now.Term != zxid(1, 0); begun != (i >= 5) {
				t.Fatalf("step %d ms, sample %d: term of %#x, after displacements of %v", step, i, now.Term, c.displaced)
			}
			if i == 5 && (now.Term != now.Zxid || now.Since != now.Lower || !now.Marked) {
				t.Errorf("the term that has begun: %+v", now)
			}
			if i == 6 {
				break
			}
		}
	}
}

// TestStepsCannotHide: if a leader's clock steps by any amount between samples, its error within a
// term never exceeds half of the smallest grace plus the uncertainty of one request.
func TestStepsCannotHide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		random := rand.New(rand.NewPCG(seed, 0))
		slowest := rapid.SampledFrom([]time.Duration{ms, 5 * ms, 40 * ms}).Draw(t, "slowest")
		most := int64(rapid.SampledFrom([]time.Duration{2 * ms, 10 * ms, 50 * ms, time.Second}).Draw(t, "largest step"))
		one := rapid.Bool().Draw(t, "in one direction")
		const least = 2 * time.Hour
		open := slowest + 3*ms
		var c Ensemble
		var term int64
		var mono, begun, off, offThen time.Duration
		for i := range int64(500) {
			if i%3 == 0 {
				step := time.Duration(random.Int64N(2*most+1) - most)
				if one {
					step = step.Abs()
				}
				off += step
			}
			sent := mono + time.Duration(random.Int64N(int64(2*ms)))
			// The whole latency is in one direction, as on a bad network.
			way := time.Duration(random.Int64N(int64(slowest) + 1))
			stamped := sent + way*time.Duration(random.IntN(2))
			mono = sent + way
			c.Observe(zxid(1, i+1), (least + stamped + off).Milliseconds(), at(sent), at(mono))
			now := c.Now(at(mono))
			if now.Term != term {
				term, begun, offThen = now.Term, mono, off
			}
			drift := 2 * (mono - begun) / znode.RateError // the client's own clock may drift as much
			if moved := (off - offThen).Abs(); moved > MinGrace/2+open+drift {
				t.Fatalf("sample %d: the leader's clock has moved by %v within a term; %v were seen", i, moved, c.displaced)
			}
			if real := least + mono + off; real < now.Lower || real > now.Upper {
				t.Fatalf("sample %d: the leader's clock shows %v, outside of %+v", i, real, now)
			}
		}
	})
}

// TestTransactionsThatBeginAnew: if a write has a lower zxid than a transaction that was known before
// the write was sent, the servers have lost their data. All earlier knowledge is discarded.
func TestTransactionsThatBeginAnew(t *testing.T) {
	var c Ensemble
	c.Observe(zxid(3, 7), 1_000_000, at(0), at(1*ms))
	c.Observe(zxid(3, 8), 1_500_000, at(2*ms), at(3*ms)) // a step begins a term
	c.Observe(zxid(3, 2), 1_500_010, at(4*ms), at(5*ms))
	if now := c.Now(at(5 * ms)); now.Zxid != zxid(3, 2) || now.Term != zxid(3, 2) || now.Resets != 1 {
		t.Errorf("%+v", now)
	}
	if n, _ := c.Displacements(); n != 1 {
		t.Errorf("%d displacements, want the one of before", n)
	}
}

// TestClockAfterForget: after Forget, writes from before the next sample count from the sample's
// stamp, because the leader's clock may have been set between Forget and the sample.
func TestClockAfterForget(t *testing.T) {
	var c Ensemble
	c.Observe(zxid(3, 7), 1_000_000, at(0), at(1*ms))
	c.Forget()
	c.Observe(zxid(3, 20), 4_600_000, at(30_000*ms), at(30_001*ms)) // an hour ahead
	written := znode.Stat{Mzxid: zxid(3, 10), Mtime: 1_020_000}
	for after, want := range map[time.Duration]znode.Verdict{0: znode.Live, 9_900 * ms: znode.Live, 10_100 * ms: znode.Expired} {
		if v, _ := c.Now(at(30_001*ms+after)).Passed(written, 10*time.Second, time.Second); v != want {
			t.Errorf("after %v the verdict is %v, want %v", after, v, want)
		}
	}
}

// TestANewSessionDoubtsTheTerm: before a new session, the servers may have lost their data, and made
// more transactions than they lost. So a write with a zxid below the term's may be younger than the
// term, until another term begins.
func TestANewSessionDoubtsTheTerm(t *testing.T) {
	var c Ensemble
	c.Observe(zxid(3, 7), 1_000_000, at(0), at(1*ms))
	c.Observe(zxid(3, 8), 1_500_000, at(2*ms), at(3*ms)) // a step begins a term
	c.newSession()
	c.Observe(zxid(3, 20), 1_600_000+1, at(100_002*ms), at(100_003*ms))
	now := c.Now(at(100_003 * ms))
	if now.Term != zxid(3, 8) || !now.Doubted || now.Sessions != 1 || now.Resets != 0 {
		t.Errorf("%+v", now)
	}
	young := znode.Stat{Mzxid: zxid(3, 5), Mtime: 1_599_000}
	if v, _ := now.Passed(young, 10*time.Second, time.Second); v != znode.Live {
		t.Errorf("what was written a second ago, by a number of before the term, is %v", v)
	}
	old := znode.Stat{Mzxid: zxid(3, 5), Mtime: 1_000_000}
	if v, _ := now.Passed(old, 10*time.Second, time.Second); v != znode.Expired {
		t.Errorf("what was written before the term is %v", v)
	}
	c.Observe(zxid(3, 21), 9_000_000, at(100_004*ms), at(100_005*ms)) // another step
	if now := c.Now(at(100_005 * ms)); now.Doubted {
		t.Errorf("%+v", now)
	}
}

func TestEpochs(t *testing.T) {
	var c Ensemble
	c.Observe(zxid(3, 7), 1_000_000, at(0), at(0))
	if now := c.Now(at(0)); now.Term != zxid(3, 0) || now.Since != 1000*time.Second || now.Marked {
		t.Errorf("the first epoch: %+v", now)
	}
	c.Observe(zxid(3, 8), 1_000_010, at(10*ms), at(10*ms))
	if now := c.Now(at(10 * ms)); now.Since != 1000*time.Second {
		t.Errorf("an epoch's second sample: %+v", now)
	}
	c.Observe(zxid(5, 2), 5_000_000, at(20*ms), at(20*ms)) // a new leader, whose clock is ahead
	now := c.Now(at(20 * ms))
	if now.Term != zxid(5, 0) || now.Since != 5000*time.Second || now.Marked || now.Lower != 5000*time.Second {
		t.Errorf("the next epoch: %+v", now)
	}
	n, last := c.Displacements()
	if n != 1 || last.OldEpoch != 3 || last.NewEpoch != 5 || last.By < 3999*time.Second {
		t.Errorf("%d displacements, the last %+v", n, last)
	}
	c.Observe(zxid(3, 9), 1_000_030, at(15*ms), at(30*ms)) // an old leader's, answered late
	if c.Now(at(30*ms)).Zxid != zxid(5, 2) {
		t.Error("an earlier epoch's sample counts")
	}
	c.Observe(zxid(6, 1), 5_000_020, at(40*ms), at(40*ms)) // a leader whose clock fits
	if now := c.Now(at(40 * ms)); now.Term != zxid(6, 0) || now.Since != 5_000_020*ms {
		t.Errorf("an epoch without a displacement: %+v", now)
	}
}

// TestObserveMark: the mark counts once in an epoch, if it is of that epoch and older than the
// earliest known stamp.
func TestObserveMark(t *testing.T) {
	const first = 1_000_000 // the judge's own first sample
	for _, tt := range []struct {
		name  string
		marks [][2]int64 // zxid and stamp
		since int64
	}{
		{"earlier", [][2]int64{{zxid(3, 1), first - 500}}, first - 500},
		{"later", [][2]int64{{zxid(3, 9), first + 500}}, first},
		{"later, by a clock that was set back since", [][2]int64{{zxid(3, 9), first - 500}}, first},
		{"earlier, by a clock that was set back since", [][2]int64{{zxid(3, 1), first + 500}}, first},
		{"the epoch before's", [][2]int64{{zxid(2, 9), first - 500}}, first},
		{"the next epoch's", [][2]int64{{zxid(4, 1), first - 500}}, first},
		{"none", [][2]int64{{0, 0}}, first},
		{"a second one", [][2]int64{{zxid(3, 1), first - 500}, {zxid(3, 1), first - 900}}, first - 500},
		{"one after none", [][2]int64{{0, 0}, {zxid(3, 1), first - 900}}, first},
	} {
		var c Ensemble
		c.ObserveMark(zxid(3, 1), first-900) // without a sample, a mark is ignored
		c.Observe(zxid(3, 7), first, at(0), at(0))
		if now := c.Now(at(0)); now.Marked {
			t.Fatalf("marked from the start: %+v", now)
		}
		for _, m := range tt.marks {
			c.ObserveMark(m[0], m[1])
		}
		if now := c.Now(at(0)); !now.Marked || now.Since.Milliseconds() != tt.since || now.Term != zxid(3, 0) {
			t.Errorf("%s: %+v, want it to count from %d ms", tt.name, now, tt.since)
		}
	}
}

// TestMarkFromBeforeAStep: if the leader's clock has stepped since it stamped the mark, the mark
// does not count. A new epoch begins without a mark.
func TestMarkFromBeforeAStep(t *testing.T) {
	var c Ensemble
	c.Observe(zxid(3, 1), 1_000_000, at(0), at(0))
	c.ObserveMark(zxid(3, 1), 999_000)
	c.Observe(zxid(3, 2), 2_000_000, at(ms), at(ms))
	c.ObserveMark(zxid(3, 1), 999_000)
	if now := c.Now(at(ms)); !now.Marked || now.Since != 2000*time.Second || now.Term != zxid(3, 2) {
		t.Errorf("%+v", now)
	}
	c.Observe(zxid(4, 1), 2_000_001, at(2*ms), at(2*ms))
	if now := c.Now(at(2 * ms)); now.Marked {
		t.Errorf("a new epoch is marked from the start: %+v", now)
	}
}
