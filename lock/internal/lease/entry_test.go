package lease

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/znode"
)

const ms = time.Millisecond

// at returns an instant of a machine that has not slept.
func at(mono time.Duration) clock.Instant {
	return clock.Instant{Mono: mono, Wall: mono + 1000*time.Hour}
}

// slept returns an instant of a machine that was suspended for d.
func slept(mono, d time.Duration) clock.Instant {
	now := at(mono)
	now.Wall += d
	return now
}

// TestLeaseEndsBeforeOthersMayEnter: the leader stamps a write some time after its send, and other
// clients respect the entry until the stamp plus the TTL. Even with a wrong clock and a late timer the
// holder stops earlier. Its lease is shorter than the TTL by at most 0.1% and 10 ms.
func TestLeaseEndsBeforeOthersMayEnter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ppm := float64(rapid.IntRange(-500, 500).Draw(t, "ppm"))
		ttl := time.Duration(rapid.Int64Range(100, int64(48*time.Hour/ms)).Draw(t, "ttl")) * ms
		way := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "way"))
		real := func(mono time.Duration) time.Duration { return time.Duration(float64(mono) / (1 + ppm/1e6)) }

		l := lease{sent: at(time.Hour), ttl: ttl}
		stamp := (real(l.sent.Mono) + way).Truncate(ms) // Mtime drops the fraction
		if ends := real(l.end()) + timerSlack; ends >= stamp+ttl {
			t.Fatalf("the holder stops at %v, others respect it until %v", ends, stamp+ttl)
		}
		if short := ttl - (l.end() - l.sent.Mono); short > ttl/1000+10*ms {
			t.Fatalf("%v of a TTL of %v are given away", short, ttl)
		}
	})
}

// owner records its calls, and reads the entry in each, which works only if the entry's mutex is
// not held.
type owner struct {
	entry *Entry

	mu   sync.Mutex
	told []Change
	seen []error // the entry's error at each change
}

var errLost = errors.New("hold was lost")

func (o *owner) LossOf(why error) error { return errors.Join(errLost, why) }

func (o *owner) Changed(c Change) {
	why := o.entry.Err()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told, o.seen = append(o.told, c), append(o.seen, why)
}

const (
	testTTL     = 10 * time.Second
	testGrace   = time.Second
	testSession = 7
)

// testEntry returns an entry that was created at 0 in session 7, with the clock that it uses. Its
// keeper does nothing by itself.
func testEntry(state State) (*Entry, *owner, *clock.Instant) {
	now := at(0)
	k := NewKeeper(Options{
		Clock:  clock.New(nil, "/locks", nil, func() clock.Instant { return now }, znode.NewID),
		Jitter: func(d, _ time.Duration) time.Duration { return d },
	})
	o := &owner{entry: new(Entry)}
	o.entry.Init(k, o, "/locks/x/e", Terms{TTL: testTTL, Grace: testGrace}, Created{Sent: now, Session: testSession})
	o.entry.ctx = context.Background()
	o.entry.state = state
	return o.entry, o, &now
}

// limited sets max_hold so that the hold ends at the given time.
func limited(e *Entry, at time.Duration) { e.granted, e.MaxHold = 1, at-1 }

// TestEndOfEntry: the earliest of three ends counts: that of the last lease, that of a write in
// doubt, and that of max_hold.
func TestEndOfEntry(t *testing.T) {
	lasts := func(ttl time.Duration) time.Duration { return lease{at(0), ttl}.end() }
	for _, tt := range []struct {
		name  string
		setup func(*Entry)
		want  time.Duration
	}{
		{"lease", func(*Entry) {}, lasts(testTTL)},
		{"renewal on its way", func(e *Entry) { e.writing = &write{ttl: testTTL, first: at(3 * time.Second)} }, lasts(testTTL)},
		{"extension on its way", func(e *Entry) { e.writing = &write{ttl: time.Minute, first: at(time.Second)} }, lasts(testTTL)},
		{"shortening on its way", func(e *Entry) { e.writing = &write{ttl: 2 * time.Second, first: at(time.Second)} }, time.Second + lasts(2*time.Second)},
		{"limit", func(e *Entry) { limited(e, 4*time.Second) }, 4 * time.Second},
		{"limit beyond", func(e *Entry) { limited(e, time.Hour) }, lasts(testTTL)},
		{"limit beyond a shortening", func(e *Entry) {
			limited(e, 4*time.Second)
			e.writing = &write{ttl: 2 * time.Second, first: at(time.Second)}
		}, time.Second + lasts(2*time.Second)},
	} {
		e, _, now := testEntry(Held)
		if tt.setup(e); e.end() != tt.want {
			t.Errorf("%s: ends at %v, want %v", tt.name, e.end(), tt.want)
		}
		for _, look := range []struct {
			at   clock.Instant
			left time.Duration
		}{{at(0), tt.want}, {at(tt.want - 1), 1}, {at(tt.want), 0}, {at(tt.want + time.Hour), 0}, {slept(0, tt.want), 0}, {slept(0, tt.want-1), 1}} {
			if *now = look.at; e.Remaining() != look.left || e.IsOver() != (look.left == 0) {
				t.Errorf("%s: %v are left at %v, over %v, want %v", tt.name, e.Remaining(), look.at, e.IsOver(), look.left)
			}
		}
	}
}

// TestFresh: a waiter may enter without a write only if its last write was acknowledged in this
// session and at least half of its lease is left.
func TestFresh(t *testing.T) {
	const half = testTTL / 2
	for _, tt := range []struct {
		name    string
		state   State
		now     clock.Instant
		session int64
		want    bool
	}{
		{"just written", Queued, at(0), testSession, true},
		{"half a lease ago", Queued, at(half - 20*ms), testSession, true},
		{"more than half a lease ago", Queued, at(half), testSession, false},
		{"another session", Queued, at(0), 8, false},
		{"no session", Queued, at(0), 0, false},
		{"slept meanwhile", Queued, slept(time.Second, half), testSession, false},
		{"holds already", Held, at(0), testSession, false},
		{"has ended", Ended, at(0), testSession, false},
	} {
		e, _, now := testEntry(tt.state)
		if *now = tt.now; e.Fresh(tt.session) != tt.want {
			t.Errorf("%s: %v", tt.name, !tt.want)
		}
	}
}

// TestWroteSince: if a coarse clock shows the same time at the end of an outage and at the send of a
// write, the write counts as later. Otherwise a waiter would write again and again.
func TestWroteSince(t *testing.T) {
	e, _, _ := testEntry(Queued)
	e.lease.sent = at(time.Second)
	for since, want := range map[time.Duration]bool{-1: true, 0: true, time.Second: true, time.Second + 1: false} {
		if got := e.WroteSince(since); got != want {
			t.Errorf("since %v: %v", since, got)
		}
	}
}

// TestLateReplyNamesItsWrite: a reply to an abandoned write changes nothing.
func TestLateReplyNamesItsWrite(t *testing.T) {
	e, _, _ := testEntry(Queued)
	e.writing = &write{e: e, ttl: time.Minute, first: at(time.Second)}
	late := &write{e: e, ttl: time.Hour, doubt: true, flying: true}
	late.acknowledge(at(time.Second), 9, 5, 0, 0, at(time.Second))
	late.postpone()
	if e.version != 0 || e.session != testSession || e.lease != (lease{at(0), testTTL}) || e.writing == nil || e.writing == late {
		t.Errorf("%+v", e)
	}
}

// TestStateOnlyMovesForward: an ended entry stays ended, with its first reason, and the owner is
// called once.
func TestStateOnlyMovesForward(t *testing.T) {
	e, o, now := testEntry(Held)
	ctx := e.Context(func(ctx context.Context) context.Context { return ctx })
	e.Lose(ErrExpired)
	first := e.Err()
	e.Lose(errors.New("another reason"))
	e.Vanished()
	e.overwritten(ErrTaken)
	if e.Withdraw() {
		t.Error("withdrew what had ended")
	}
	if err := e.Grant(t.Context(), at(0), 0); err != first {
		t.Errorf("granted: %v", err)
	}
	if last, err := e.Unlock(); last || err != first {
		t.Errorf("unlock: %v, %v", last, err)
	}
	if err := e.Reenter(t.Context(), true); err != first {
		t.Errorf("reenter: %v", err)
	}
	if err := e.Refresh(t.Context()); err != first {
		t.Errorf("refresh: %v", err)
	}
	if err := e.Extend(t.Context(), time.Hour); err != first {
		t.Errorf("extend: %v", err)
	}
	if e.Remaining() != 0 || e.tick(*now) != nil || e.Fresh(testSession) || e.Holds() > 0 {
		t.Error("is still of use")
	}
	if _, err := e.Watch(); err != first {
		t.Errorf("watch: %v", err)
	}
	if e.Err() != first || context.Cause(ctx) != first || !errors.Is(first, ErrExpired) || !errors.Is(first, errLost) {
		t.Errorf("ended because %v, and %v", e.Err(), context.Cause(ctx))
	}
	if len(o.told) != 1 || o.told[0] != (Change{From: Held, To: Ended, Why: first}) || !o.told[0].Lost() {
		t.Errorf("told %+v", o.told)
	}
}

// TestEachChangeIsReportedOnce: the owner is called once after each change, while the entry's mutex
// is not held.
func TestEachChangeIsReportedOnce(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*Entry)
		from State
		why  error
		lost bool
	}{
		{"unlocked", func(e *Entry) { e.Unlock() }, Held, ErrUnlocked, false},
		{"withdrawn", func(e *Entry) { e.Withdraw() }, Queued, ErrWithdrawn, false},
		{"lost", func(e *Entry) { e.Lose(ErrMaxHold) }, Held, ErrMaxHold, true},
		{"removed", (*Entry).Vanished, Held, ErrRemoved, true},
		{"a waiter's removed", (*Entry).Vanished, Queued, ErrGone, false},
		{"overwritten", func(e *Entry) { e.overwritten(ErrTaken) }, Held, ErrTaken, true},
		{"a waiter's overwritten", func(e *Entry) { e.overwritten(ErrTaken) }, Queued, ErrGone, false},
		{"expired", func(e *Entry) { e.tick(at(time.Hour)) }, Held, ErrExpired, true},
	} {
		e, o, _ := testEntry(Queued)
		changed, err := e.Watch()
		iferr.Fatal(t, err)
		want := []Change{{From: Queued, To: Ended, Why: tt.why}}
		if tt.from == Held {
			iferr.Fatal(t, e.Grant(t.Context(), at(0), Never))
			want = []Change{{From: Queued, To: Held}, {From: Held, To: Ended, Why: tt.why}}
			select {
			case <-changed:
			default:
				t.Errorf("%s: the grant woke no waiter", tt.name)
			}
			changed, _ = e.Watch()
		}
		tt.end(e)
		tt.end(e)
		select {
		case <-changed:
		default:
			t.Errorf("%s: no waiter was woken", tt.name)
		}
		if len(o.told) != len(want) {
			t.Errorf("%s: told %+v", tt.name, o.told)
			continue
		}
		for i, c := range o.told {
			if c.From != want[i].From || c.To != want[i].To || !errors.Is(c.Why, want[i].Why) || o.seen[i] != c.Why {
				t.Errorf("%s: told %+v when it had ended because %v, want %+v", tt.name, c, o.seen[i], want[i])
			}
		}
		if last := o.told[len(o.told)-1]; last.Lost() != tt.lost || errors.Is(last.Why, errLost) != tt.lost {
			t.Errorf("%s: lost %v, because %v", tt.name, last.Lost(), last.Why)
		}
	}
}

// TestVanishedAfterItsEnd: if the lease may have ended before the node vanished, the reason of the
// loss is the end of the lease.
func TestVanishedAfterItsEnd(t *testing.T) {
	e, _, now := testEntry(Held)
	*now = slept(0, testTTL)
	if e.Vanished(); !errors.Is(e.Err(), ErrExpired) {
		t.Error(e.Err())
	}
}

// TestHandles: the last Unlock ends the hold, and reports whether the lease may have ended before.
func TestHandles(t *testing.T) {
	for _, late := range []bool{false, true} {
		e, _, now := testEntry(Queued)
		iferr.Fatal(t, errors.Join(e.Grant(t.Context(), at(0), Never), e.Reenter(t.Context(), true)))
		if last, why := e.Unlock(); last || why != nil || e.Holds() == 0 {
			t.Errorf("the first of two: %v, %v", last, why)
		}
		if late {
			*now = at(testTTL)
		}
		if last, why := e.Unlock(); !last || why != nil || e.Holds() > 0 || e.Lapsed() != late {
			t.Errorf("the last one: %v, %v, lapsed %v", last, why, e.Lapsed())
		}
		if last, why := e.Unlock(); last || !errors.Is(why, ErrUnlocked) {
			t.Errorf("one more: %v, %v", last, why)
		}
	}
}

// TestExpiry: a hold ends when its lease ends on the monotonic clock. If only a suspend may have
// ended the lease, the hold ends after the grace.
func TestExpiry(t *testing.T) {
	end := lease{at(0), testTTL}.end()
	for _, tt := range []struct {
		name  string
		setup func(*Entry)
		ticks []clock.Instant
		want  error
	}{
		{"in time", nil, []clock.Instant{at(end - 1)}, nil},
		{"too late", nil, []clock.Instant{at(end)}, ErrExpired},
		{"max_hold", func(e *Entry) { limited(e, time.Second) }, []clock.Instant{at(time.Second)}, ErrMaxHold},
		{"suspended", nil, []clock.Instant{slept(time.Second, testTTL)}, nil},
		{"suspended, and the grace is not over", nil, []clock.Instant{slept(time.Second, testTTL), slept(time.Second+testGrace-1, testTTL)}, nil},
		{"suspended, and the grace is over", nil, []clock.Instant{slept(time.Second, testTTL), slept(time.Second+testGrace, testTTL)}, ErrExpired},
		{"suspended, and the wall clock was set back", nil, []clock.Instant{slept(time.Second, testTTL), at(time.Second + testGrace)}, nil},
	} {
		e, _, _ := testEntry(Held)
		if tt.setup != nil {
			tt.setup(e)
		}
		for _, now := range tt.ticks {
			e.tick(now)
		}
		if err := e.Err(); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// TestWriteInDoubtIsRepeated: a write in doubt is repeated with the same bytes until its outcome is
// known. Until then the earlier of the two ends counts. A write that was certainly refused is
// forgotten.
func TestWriteInDoubtIsRepeated(t *testing.T) {
	const short = 2 * time.Second
	e, _, now := testEntry(Held)
	e.nextTTL, e.writesWanted = short, 1
	*now = at(time.Second)
	first := e.tick(*now)
	if first == nil || first.ttl != short || e.tick(*now) != nil {
		t.Fatalf("begun %+v, and another one beside it", first)
	}
	shortened := lease{at(time.Second), short}.end()
	first.postpone() // refused
	if e.writing != nil || e.end() != (lease{at(0), testTTL}).end() {
		t.Errorf("a write that was refused counts: %+v", e.writing)
	}

	again := e.tick(*now)
	again.suspect()
	again.postpone() // no read shows its outcome
	for range 3 {
		if e.end() != shortened {
			t.Fatalf("in doubt it ends at %v, want %v", e.end(), shortened)
		}
		*now = at(now.Mono + 100*ms)
		if w := e.Last(nil); w.version != 1 || w.acknowledged != 0 || !slices.Equal(w.pending, again.data) {
			t.Errorf("the last write left version %d or %d, and %s", w.version, w.acknowledged, w.pending)
		}
		if e.nextTTL = time.Hour; e.tick(*now) != again || !again.inDoubt() {
			t.Fatal("another write was begun while one is in doubt")
		}
		again.postpone()
	}
	again.acknowledge(again.first, 9, 1, 0, time.Second, *now)
	if e.end() != shortened || e.writing != nil || e.version != 1 || !e.WrittenIn(9) {
		t.Errorf("acknowledged: %+v", e)
	}
	if w := e.Last(nil); w.pending != nil {
		t.Errorf("pending %s", w.pending)
	}
}

// TestGrantIsRecorded: the first write that begins after the grant records it.
func TestGrantIsRecorded(t *testing.T) {
	e, _, now := testEntry(Queued)
	e.writesWanted = 1
	before := e.tick(*now)
	iferr.Fatal(t, e.Grant(t.Context(), at(1), Never))
	before.acknowledge(at(0), testSession, 1, 0, time.Second, *now)
	if e.Recorded() || e.HeldSince() != 1 {
		t.Error("recorded by a write from before it")
	}
	e.writesWanted++
	e.tick(*now).acknowledge(at(1), testSession, 2, 0, time.Second, *now)
	if !e.Recorded() {
		t.Error("not recorded")
	}
	made, _, _ := testEntry(Queued)
	made.Init(made.keeper, made.owner, made.Path, made.Terms, Created{Grant: Grant{Acquired: 5}})
	if !made.Recorded() {
		t.Error("the grant that it was created with is not recorded")
	}
}

// TestFreshWithoutSession: without a session, go-zookeeper returns the session id 0. Then an entry
// whose session is unknown is not fresh.
func TestFreshWithoutSession(t *testing.T) {
	simulate(t, func(w *world) {
		var e Entry
		e.Init(w.keeper, nil, "/locks/e", Terms{TTL: testTTL, Grace: testGrace}, Created{Sent: clock.Instant{Mono: w.Mono(), Wall: w.Wall()}})
		if e.Fresh(0) || e.WrittenIn(0) {
			t.Errorf("fresh %v, written in this session %v", e.Fresh(0), e.WrittenIn(0))
		}
	})
}

// TestCheck: each broken invariant is told, with the values.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		want  string // "": none is broken
		setup func(*Entry)
	}{
		{"", func(*Entry) {}},
		{"", func(e *Entry) { e.writing = &write{e: e} }},
		{"state 3, but it ended because of: <nil>", func(e *Entry) { e.state = Ended }},
		{"state 2, but it ended because of: entry was removed", func(e *Entry) { e.why = ErrRemoved }},
		{"it is held by 0 handles", func(e *Entry) { e.handles = 0 }},
		{"state 2, but its lease may have ended before it was unlocked", func(e *Entry) { e.lapsed = true }},
		{"its node has a grant, and it was granted at 0", func(e *Entry) { e.recorded = true }},
		{"write 2 was acknowledged, and only 1 are wanted", func(e *Entry) { e.writesWanted, e.writesAcked = 1, 2 }},
		{"its write is one of /locks/x/e on version 4, and the last acknowledged one left version 5", func(e *Entry) {
			e.version, e.writing = 5, &write{e: e, version: 4}
		}},
	} {
		e, _, _ := testEntry(Held)
		e.handles = 1
		tt.setup(e)
		got := ""
		Broken = func(err error) { got = strings.TrimPrefix(err.Error(), "entry /locks/x/e: ") }
		e.check()
		Broken = nil
		if got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
