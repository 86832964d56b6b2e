package lease

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
)

// risk returns the value in a channel of AtRisk; -1 if there is none.
func risk(told <-chan time.Duration) time.Duration {
	select {
	case left := <-told:
		return left
	default:
		return -1
	}
}

// TestAtRisk: a hold is at risk when half of its lease or less is left, whatever limits the
// lease.
func TestAtRisk(t *testing.T) {
	end := lease{at(0), testTTL}.end()
	for _, tt := range []struct {
		name  string
		setup func(*Entry)
		from  time.Duration // 0: never
		end   time.Duration
		why   error
	}{
		{"lease", func(*Entry) {}, end - testTTL/2, end, ErrExpired},
		{"a renewal that is not answered", func(e *Entry) { e.writing = &write{ttl: testTTL, first: at(3 * time.Second), flying: true} }, end - testTTL/2, end, ErrExpired},
		{"a longer lease on its way", func(e *Entry) { e.writing = &write{ttl: time.Hour, first: at(time.Second), flying: true} }, end - testTTL/2, end, ErrExpired},
		{"a shorter lease on its way", func(e *Entry) { e.writing = &write{ttl: 2 * time.Second, first: at(time.Second), flying: true} },
			time.Second + lease{at(0), 2 * time.Second}.end() - time.Second, time.Second + lease{at(0), 2 * time.Second}.end(), ErrExpired},
		{"max_hold", func(e *Entry) { limited(e, 8*time.Second) }, 3 * time.Second, 8 * time.Second, ErrMaxHold},
		{"a waiter's", func(e *Entry) { e.state = Waiting }, 0, end, nil},
	} {
		e, o, now := testEntry(Held)
		tt.setup(e)
		told := e.AtRisk(1)
		e.schedule(Never, *now)
		if due := e.due; tt.from != 0 && due != tt.from {
			t.Errorf("%s: is looked at in %v, want %v", tt.name, due, tt.from)
		}
		if tt.from != 0 {
			e.warn(at(tt.from - 1))
		} else {
			e.warn(at(end - 1))
		}
		if left := risk(told); left != -1 || len(o.told) > 0 {
			t.Errorf("%s: at risk too early, with %v left: %v", tt.name, left, o.told)
		}
		if tt.from == 0 {
			continue
		}
		*now = at(tt.from)
		e.warn(*now)
		e.warn(at(tt.from + 1)) // no second time
		want := Change{From: Held, To: Held, Why: tt.why, Left: tt.end - tt.from}
		if w := e.writing; w != nil {
			want.Unanswered = tt.from - w.first.Mono
		}
		if left := risk(told); left != want.Left || len(o.told) != 1 || o.told[0] != want || !want.AtRisk() || want.Lost() {
			t.Errorf("%s: told %v and %+v, want %+v", tt.name, left, o.told, want)
		}
		if left := risk(e.AtRisk(2)); left != want.Left {
			t.Errorf("%s: a late caller is told %v, want %v", tt.name, left, want.Left)
		}
		if left := risk(e.AtRisk(1)); left != -1 {
			t.Errorf("%s: told twice", tt.name)
		}
	}
}

// TestAtRiskAfterAPause: after a pause shorter than the lease, AtRisk has the remaining time. After a
// longer pause, the hold is lost and not at risk. If only the wall clock shows the pause, AtRisk has
// 0, because no remaining time is certain.
func TestAtRiskAfterAPause(t *testing.T) {
	end := lease{at(0), testTTL}.end()
	for _, tt := range []struct {
		name string
		now  clock.Instant
		left time.Duration // -1: no warning
		ends bool
	}{
		{"short", at(end - time.Second), time.Second, false},
		{"long", at(end), -1, true},
		{"asleep", slept(time.Second, time.Minute), 0, false},
	} {
		e, _, now := testEntry(Held)
		told := e.AtRisk(1)
		*now = tt.now
		e.tick(*now)
		if left := risk(told); left != tt.left || (e.Err() != nil) != tt.ends {
			t.Errorf("%s: told %v, ended: %v", tt.name, left, e.Err())
		}
	}
}

// TestSafeAgain: an acknowledged renewal withdraws an unreceived warning, and the next risk is
// reported again. A late acknowledgment of an old write does not make the hold safe, nor does a
// renewal if max_hold is near.
func TestSafeAgain(t *testing.T) {
	renew := func(e *Entry, sent, now time.Duration) {
		e.writing = &write{e: e, ttl: testTTL, first: at(sent)}
		e.writing.acknowledge(at(sent), testSession, 1, 0, testTTL/3, at(now))
	}
	e, o, _ := testEntry(Held)
	first, second := e.AtRisk(1), e.AtRisk(2)
	e.warn(at(6 * time.Second))
	if left := risk(first); left <= 0 {
		t.Fatalf("told %v", left)
	}
	renew(e, time.Millisecond, 6*time.Second)
	if e.warn(at(6 * time.Second)); len(o.told) != 1 || len(second) != 1 {
		t.Errorf("an old write made it safe: %+v", o.told)
	}
	renew(e, 6*time.Second, 7*time.Second)
	if left := risk(second); left != -1 {
		t.Errorf("told %v when it was safe again", left)
	}
	e.warn(at(12 * time.Second))
	if a, b := risk(first), risk(second); a <= 0 || a != b || len(o.told) != 2 {
		t.Errorf("the second time told %v, %v, %+v", a, b, o.told)
	}
	e.Unwarn(2)
	renew(e, 12*time.Second, 12*time.Second)
	e.warn(at(18 * time.Second))
	if left := risk(second); left != -1 {
		t.Errorf("told %v, which no longer asked", left)
	}
	e.Lose(ErrRemoved)
	if left := risk(first); left != -1 {
		t.Errorf("told %v of a hold that was lost", left)
	}
	if left := risk(e.AtRisk(3)); left != -1 {
		t.Errorf("told %v, after the end", left)
	}

	e, o, _ = testEntry(Held)
	limited(e, 8*time.Second)
	e.warn(at(5 * time.Second))
	renew(e, 5*time.Second, 5*time.Second)
	if e.warn(at(6 * time.Second)); len(o.told) != 1 {
		t.Errorf("a renewal made it safe from max_hold: %+v", o.told)
	}
}

// TestRiskOfFailingRenewals: if renewals fail, the keeper reports the risk, and then the loss.
// Successful renewals report nothing.
func TestRiskOfFailingRenewals(t *testing.T) {
	simulate(t, func(w *world) {
		e, o := w.hold("e0", plain)
		told := e.AtRisk(o)
		time.Sleep(5 * testTTL)
		if left := risk(told); left != -1 {
			t.Errorf("told %v while all went well", left)
		}
		if _, stalled, of := w.keeper.Stalls(); stalled != 0 || of != 1 {
			t.Errorf("%d of %d stalled while all went well", stalled, of)
		}
		if err := w.Partition("a"); err != nil {
			t.Fatal(err)
		}
		var left time.Duration
		select {
		case left = <-told:
		case <-time.After(2 * testTTL):
			t.Fatalf("not told; ended: %v", e.Err())
		}
		if least := testTTL/2 - testTTL/100; left > testTTL/2 || left < least {
			t.Errorf("told that %v are left, want %v at most and %v at least", left, testTTL/2, least)
		}
		stall, stalled, of := w.keeper.Stalls()
		if stalled != 1 || of != 1 || stall.Entry != e || stall.Left != left || stall.For < testTTL/2-testTTL/100 {
			t.Errorf("%d of %d stalled: %+v", stalled, of, stall)
		}
		ends := time.Now().Add(left)
		for e.Err() == nil {
			changed, err := e.Watch()
			if err == nil {
				<-changed
			}
		}
		if late := time.Since(ends); !errors.Is(e.Err(), ErrExpired) || late < 0 || late > timerSlack {
			t.Errorf("ended %v later than was told: %v", late, e.Err())
		}
	})
}

// TestStalls: a hold and a waiter whose renewals fail count as stalled. A hold that
// max_hold ends, and an entry that no goroutine waits for yet, do not count as stalled.
func TestStalls(t *testing.T) {
	now := at(0)
	k := NewKeeper(Options{Clock: &clock.Clock{Local: func() clock.Instant { return now }}, Jitter: func(d, _ time.Duration) time.Duration { return d }})
	add := func(state State, t Terms, limit time.Duration) *Entry {
		e := new(Entry)
		e.Init(k, &owner{entry: e}, "/locks/x/e", t, Created{Sent: now})
		if e.state = state; limit != 0 {
			limited(e, limit)
		}
		e.schedule(0, now)
		return e
	}
	shorter := Terms{TTL: testTTL - time.Second}
	add(Held, plain, 0)
	waiter := add(Waiting, shorter, 0)
	add(Held, plain, 2*time.Second)
	add(Queued, shorter, 0) // no holder, no waiter
	for after, want := range map[time.Duration]int{time.Second: 0, testTTL / 2: 2, time.Hour: 2} {
		now = at(after)
		first, stalled, of := k.Stalls()
		if stalled != want || of != 3 || want > 0 && (first.Entry != waiter || first.For != after || first.Left != waiter.timeLeft(now)) {
			t.Errorf("after %v: %d of %d, %+v", after, stalled, of, first)
		}
	}
}
