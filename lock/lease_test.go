package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestLeaseEndsBeforeOthersMayEnter draws a holder's clock that runs wrong and a
// write that the leader stamped some time after it was sent. Whoever goes by the
// leader's clock respects the entry until stamp + TTL at least; the holder must
// have stopped before that, late timer and all.
func TestLeaseEndsBeforeOthersMayEnter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ppm := float64(rapid.IntRange(-500, 500).Draw(t, "ppm"))
		ttl := time.Duration(rapid.Int64Range(int64(MinTTL/ms), int64(48*time.Hour/ms)).Draw(t, "ttl")) * ms
		way := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "way"))
		real := func(mono time.Duration) time.Duration { return time.Duration(float64(mono) / (1 + ppm/1e6)) }

		l := lease{sent: at(time.Hour), ttl: ttl}
		stamp := (real(l.sent.mono) + way).Truncate(ms) // Mtime drops the fraction
		if ends := real(l.end()) + timerSlack; ends >= stamp+ttl {
			t.Fatalf("the holder stops at %v, others respect it until %v", ends, stamp+ttl)
		}
		if short := ttl - (l.end() - l.sent.mono); short > ttl/1000+10*ms {
			t.Fatalf("%v of a TTL of %v are given away", short, ttl)
		}
	})
}

func testEntry(state state) *entry {
	c := &Client{cfg: &config{log: zerolog.Nop(), now: func() instant { return at(0) }, random: rand.New(globalSource{})}, spots: map[string]*spot{}}
	c.tasks.close() // nothing goes on in the background
	c.renewals = newRenewer(c)
	s := settings{Policy: Policy{TTL: 10 * time.Second, Grace: time.Second}.WithDefaults()}
	e := newEntry(c, "x", s, "/locks/x/e", znode.Name{}, at(0), 7)
	e.values = context.Background()
	e.state = state
	return e
}

func TestEndOfEntry(t *testing.T) {
	lasts := func(ttl time.Duration) time.Duration { return lease{at(0), ttl}.end() }
	for _, tt := range []struct {
		name  string
		setup func(*entry)
		want  time.Duration
	}{
		{"lease", func(*entry) {}, lasts(10 * time.Second)},
		{"renewal on its way", func(e *entry) { e.writing = &write{ttl: 10 * time.Second, first: at(3 * time.Second)} }, lasts(10 * time.Second)},
		{"extension on its way", func(e *entry) { e.writing = &write{ttl: time.Minute, first: at(time.Second)} }, lasts(10 * time.Second)},
		{"shortening on its way", func(e *entry) { e.writing = &write{ttl: 2 * time.Second, first: at(time.Second)} }, time.Second + lasts(2*time.Second)},
		{"limit", func(e *entry) { e.limit = 4 * time.Second }, 4 * time.Second},
		{"limit beyond", func(e *entry) { e.limit = time.Hour }, lasts(10 * time.Second)},
	} {
		e := testEntry(held)
		if tt.setup(e); e.end() != tt.want {
			t.Errorf("%s: ends at %v, want %v", tt.name, e.end(), tt.want)
		}
	}
}

// TestFresh: a waiter may enter without writing first only if its last write was
// acknowledged in this session and half of its lease is left.
func TestFresh(t *testing.T) {
	const half = 5 * time.Second
	slept := at(time.Second)
	slept.wall += half
	for _, tt := range []struct {
		name    string
		state   state
		now     instant
		session int64
		want    bool
	}{
		{"just written", queued, at(0), 7, true},
		{"half a lease ago", queued, at(half - 20*ms), 7, true},
		{"more than half a lease ago", queued, at(half), 7, false},
		{"another session", queued, at(0), 8, false},
		{"no session", queued, at(0), 0, false},
		{"slept meanwhile", queued, slept, 7, false},
		{"has ended", ended, at(0), 7, false},
	} {
		if got := testEntry(tt.state).fresh(tt.now, tt.session); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestWroteSince: a write that was sent at the very time of an outage's end, by a
// coarse clock, came after it. Else a waiter would write again and again.
func TestWroteSince(t *testing.T) {
	e := testEntry(queued)
	e.lease.sent = at(time.Second)
	for since, want := range map[time.Duration]bool{-1: true, 0: true, time.Second: true, time.Second + 1: false} {
		if got := e.wroteSince(since); got != want {
			t.Errorf("since %v: %v", since, got)
		}
	}
}

// TestLateReplyNamesItsWrite: a reply to a write that was given up changes nothing.
func TestLateReplyNamesItsWrite(t *testing.T) {
	e := testEntry(queued)
	e.writing = &write{ttl: time.Minute, first: at(time.Second)}
	late := &write{ttl: time.Hour}
	e.acknowledge(late, at(time.Second), 9, 5, 0, at(time.Second))
	e.postpone(late)
	if e.version != 0 || e.session != 7 || e.lease != (lease{at(0), 10 * time.Second}) || e.writing == nil {
		t.Errorf("%+v", e)
	}
}

// TestStateOnlyMovesForward: what ended stays ended, for the first reason.
func TestStateOnlyMovesForward(t *testing.T) {
	e := testEntry(held)
	e.lose(ErrExpired)
	first := e.why
	e.lose(ErrClosed)
	e.vanished()
	e.overwritten()
	if e.withdraw() {
		t.Error("withdrew what had ended")
	}
	if err := e.grant(t.Context(), at(0), 0); err != first {
		t.Errorf("granted: %v", err)
	}
	if last, err := e.unlock(at(0)); last || err != first {
		t.Errorf("unlock: %v, %v", last, err)
	}
	if e.reenter(at(0)) || e.remaining(at(0)) != 0 || e.tick(at(0)) != nil {
		t.Error("is still of use")
	}
	if err := e.pause(t.Context(), 0); err != first {
		t.Errorf("pause: %v", err)
	}
	if e.err() != first || context.Cause(e.context()) != first || !errors.Is(first, ErrExpired) {
		t.Errorf("ended because %v, and %v", e.err(), context.Cause(e.context()))
	}
	if n := e.client.stats.lost.Load(); n != 1 {
		t.Errorf("lost %d times", n)
	}
}

// TestSpotsAreBounded: those that nobody uses go, and those in use stay.
func TestSpotsAreBounded(t *testing.T) {
	c := &Client{spots: map[string]*spot{}}
	used := c.spot("used")
	for i := range 3 * maxSpots {
		c.leaveSpot(c.spot(fmt.Sprint("x", i)))
	}
	if n := len(c.spots); n > maxSpots {
		t.Errorf("%d spots are kept", n)
	}
	if c.spot("used") != used {
		t.Error("one in use was forgotten")
	}
}
