// Elections: flapping sessions, dead leaders, lost replies.

package lock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestLeaderThroughFlaps: faults of sessions and connections do not affect a leader, its candidates
// or its observers. Curator's latch gives up the leadership with the session (CURATOR-644, -645,
// -652, -696).
func TestLeaderThroughFlaps(t *testing.T) {
	everybody := []string{"a", "b", "c", "observer"}
	for _, tt := range []struct {
		name string
		flap func(w *world, label string)
	}{
		{"sessions expire", func(w *world, label string) { w.ExpireLabel(label) }},
		{"connections are cut", func(w *world, label string) { w.Cut(label) }},
		{"the server restarts", func(w *world, label string) {
			if label == "a" {
				_ = w.Stop(w.Servers()[0])
				time.Sleep(time.Second)
				_ = w.Start(w.Servers()[0])
			}
		}},
		{"the network stalls until sessions expire", func(w *world, label string) {
			_ = w.Partition(label)
			w.ExpireLabel(label)
			time.Sleep(700 * time.Millisecond)
			w.Heal(label)
		}},
	} {
		subtest(t, tt.name, locktest.Options{}, func(w *world) {
			a, b, c, observer := w.dial("a"), w.dial("b"), w.dial("c"), w.dial("observer")
			h := w.leads(w.campaign(w.ctx, a, "a"), "a")
			second, third := w.campaign(w.ctx, b, "b"), w.campaign(w.ctx, c, "c", 2)
			seen := w.observe(w.ctx, observer)
			for range 12 {
				for _, label := range everybody { // almost at the same time
					tt.flap(w, label)
				}
				time.Sleep(800 * time.Millisecond)
				mustBeTrue(w, h.Remaining() != 0, "the leader is valid no more: %v", h.Err())
			}
			time.Sleep(2 * time.Second)
			w.alive(h)
			w.waits(second, third)
			seen.is(w, "a")
			w.nothingLost(a, b, c)
			w.unlock(h)
			h = w.leads(third, "c", a, observer)
			w.unlock(h)
			w.unlock(w.leads(second, "b", a, observer))
			settle()
			equalAll(w, "observed", slices.DeleteFunc(seen.values(), func(v string) bool { return v == "-" }), []string{"a", "c", "b"})
			seen.stop(w, context.Canceled)
			w.empty()
		})
	}
}

// TestCandidatesThatFlapTogether: if each leader resigns while sessions of the candidates expire,
// there is always exactly one next leader (CURATOR-645).
func TestCandidatesThatFlapTogether(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		type one struct {
			client *lock.Client
			ch     <-chan taken
			label  string
		}
		var all []*one
		for i := range 3 {
			o := &one{label: fmt.Sprint("c", i)}
			o.client = w.dial(o.label)
			o.ch = w.campaign(w.ctx, o.client, o.label, 1+i%2)
			all = append(all, o)
		}
		var last *ending
		for round := range 30 {
			var leader *one
			var got taken
			for leader == nil {
				for _, o := range all {
					select {
					case got = <-o.ch:
						w.ok(got.err)
						mustBeTrue(t, leader == nil, "two lead")
						leader = o
					default:
					}
				}
				if time.Sleep(10 * time.Millisecond); w.ctx.Err() != nil {
					t.Fatal("there is no leader")
				}
			}
			if last != nil {
				w.inTurn(last, got)
			}
			for i, o := range all {
				if i != round%4 {
					w.ExpireLabel(o.label)
				}
			}
			if got.hold.Err() != nil {
				t.Fatal(got.hold.Err())
			}
			last = w.end(got.hold)
			w.unlock(got.hold)
			e := leader.client.Election("x").WithPriority(1 + round%3)
			leader.ch = start(func() (*lock.Hold, error) { return holdOf(e.Campaign(w.ctx, leader.label)) })
		}
		for range all { // until each candidate has led
			for _, o := range all {
				select {
				case got := <-o.ch:
					w.unlock(got.hold)
					o.ch = nil
				case <-time.After(2 * time.Second):
				}
			}
		}
		w.empty()
	})
}

// TestLeaderLearnsOfLossFirst: a leader that cannot renew its lease learns that it no longer leads
// before the next candidate leads. From then on observers see only the next leader.
func TestLeaderLearnsOfLossFirst(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.leads(w.campaign(w.ctx, w.dial("a"), "a"), "a")
		b, observer := w.dial("b"), w.dial("observer")
		seen := w.observe(w.ctx, observer)
		ch := w.campaign(w.ctx, b, "b")
		got := w.outlived("a", h, ch, 0, 100*time.Millisecond)
		equal(t, "the leader that is shown", w.leader(observer), "b")
		settle()
		if got := fmt.Sprint(seen.values()); got != "[a b]" && got != "[a - b]" {
			t.Errorf("observed %v", got)
		}
		w.Heal("a")
		w.unlock(got.hold)
		seen.stop(t, context.Canceled)
		w.empty()
	})
}

// TestLeaderDeadForLong: if the last leader's lease ended long ago, a new candidate leads within a
// dozen round trips, although it did not observe that end (client-go#448).
func TestLeaderDeadForLong(t *testing.T) {
	each(t, "ago", []time.Duration{ttl + grace + time.Second, time.Hour}, func(w *world, ago time.Duration) {
		h := w.leads(w.campaign(w.ctx, w.dial("a"), "a"), "a")
		w.die("a", h.EntryPath())
		time.Sleep(ago)
		b := w.dial("b")
		equal(w, "the leader that is shown", w.leader(b), "")
		if all, err := b.Election("x").Candidates(w.ctx); err != nil || len(all) > 0 {
			w.Errorf("candidates %+v, %v", all, err)
		}
		begun := time.Now()
		l, err := b.Election("x").Campaign(w.ctx, "b")
		w.ok(err)
		atMost(w, "it took", time.Since(begun), 24*latency)
		w.Heal("a")
		w.finish(lock.HoldOf(l))
	})
}

// TestLeaderThroughChangesOfZooKeepersLeader: if the ensemble changes to leaders with other clocks,
// the holder of the election stays valid, observers see it, and the next candidate waits.
func TestLeaderThroughChangesOfZooKeepersLeader(t *testing.T) {
	forEachOff(t, func(w *world, off time.Duration) {
		a, b, observer := w.dial("a"), w.dial("b"), w.dial("observer")
		h := w.leads(w.campaign(w.ctx, a, "a"), "a")
		ch := w.campaign(w.ctx, b, "b")
		seen := w.observe(w.ctx, observer)
		for i := range 3 {
			w.elect(off * time.Duration(1-2*(i%2)))
			time.Sleep(ttl / 2)
			w.waits(ch)
			equal(w, "the leader that is shown", w.leader(observer), "a")
			isTrue(w, h.Remaining() > 0, "the leader is in doubt: %v", h.Err())
		}
		w.inOrder(h, ch)
		settle()
		for i, v := range seen.values() {
			if v == "b" && i == 0 || v == "a" && i > 0 {
				w.Errorf("observed %q", seen.values())
			}
		}
	})
}

// TestFirstCandidateWhoseReplyIsLost: the reply to the first candidate's create is lost, and a
// candidate of a higher priority joins. Observers see each leader in the order of leadership, and
// no other candidate.
func TestFirstCandidateWhoseReplyIsLost(t *testing.T) {
	forEachMishap(t, func(w *world, mishap int) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(a, "warm"))
		seen := w.observe(w.ctx, w.dial("observer"))
		w.mishap(mishap, "a", joins)
		first := start(func() (*lock.Hold, error) { return holdOf(a.Election("x").Campaign(w.ctx, "1a")) })
		time.Sleep(10 * latency)
		second := start(func() (*lock.Hold, error) {
			return holdOf(b.Election("x").WithPriority(2).Campaign(w.ctx, "2b"))
		})
		var led []string
		for range 2 {
			got := w.first(first, second)
			led = append(led, valueOf(got.hold))
			time.Sleep(time.Second)
			w.unlock(got.hold)
			time.Sleep(time.Second)
		}
		told := slices.DeleteFunc(seen.values(), func(v string) bool { return v == "-" })
		isTrue(w, slices.Equal(told, led), "observed %q, led %q", told, led)
		w.empty()
	})
}
