// Force-releasing entries, and purging expired ones, by package admin.

package lock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestBreak: before the next client enters, the owner of a force-released hold learns which client
// released it, and why. If the owner is unreachable, the entry blocks until its lease has ended.
// Delete does not wait for the owner.
func TestBreak(t *testing.T) {
	type result struct {
		err  []error // error of the hold
		most time.Duration
	}
	for name, tt := range map[string]struct {
		act func(w *world, h *lock.Hold, b *admin.Breaking) error
		result
	}{
		"and wait": {func(w *world, h *lock.Hold, b *admin.Breaking) error {
			w.alive(h) // the holder does not know yet
			return b.Wait(w.ctx, terms)
		}, result{[]error{lock.ErrLost, lock.ErrBroken}, ttl / 2}},
		"of a client that died": {func(w *world, h *lock.Hold, b *admin.Breaking) error { return b.Wait(w.ctx, terms) }, result{[]error{lock.ErrLost, lock.ErrExpired}, ttl + 2*grace}},
		"now":                   {func(w *world, h *lock.Hold, b *admin.Breaking) error { return b.Delete(w.ctx, terms) }, result{[]error{lock.ErrLost, lock.ErrRemoved}, 100 * latency}},
		"unlocked before it is noticed": {func(w *world, h *lock.Hold, b *admin.Breaking) error {
			w.unlock(h)
			return b.Wait(w.ctx, terms)
		}, result{[]error{lock.ErrUnlocked}, 100 * latency}},
		"detached before it is noticed": {func(w *world, h *lock.Hold, b *admin.Breaking) error {
			_, err := h.Detach(w.ctx, 0)
			mustBe(w, err, lock.ErrLost, lock.ErrBroken)
			mustSay(w, err, "it hangs")
			return b.Wait(w.ctx, terms)
		}, result{[]error{lock.ErrDetached}, 100 * latency}},
	} {
		subtest(t, name, locktest.Options{}, func(w *world) {
			a, b, c := w.client("a"), w.client("b"), w.client("c")
			h := w.lock(a, "x", lock.WithMetadata(map[string]string{"job": "ship"}))
			ended, next := w.end(h), w.queue(w.ctx, b, "x")
			died := name == "of a client that died"
			if died {
				w.kill("a")
				time.Sleep(ttl / 10)
			}
			begun := time.Now()
			broken := w.breaks(c, pathOf(h))
			if s, err := admin.New(c).Inspect(w.ctx, "x"); err != nil || !strings.Contains(s.Contenders[0].Broken, "it hangs") || s.Contenders[0].Metadata["job"] != "ship" {
				w.Errorf("%+v, %v", s, err)
			}
			if err := tt.act(w, h, broken); err != nil || !broken.Gone() {
				w.Errorf("%v, gone %v", err, broken.Gone())
			}
			took := time.Since(begun)
			if took > tt.most || died && took < ttl-ttl/10 {
				w.Errorf("took %v of a TTL of %v", took, ttl)
			}
			got := w.await(next)
			if name != "now" { // a force-release "now" voids mutual exclusion
				w.inTurn(ended, got)
			}
			time.Sleep(ttl / 2)
			mustBe(w, h.Err(), tt.err...)
			if isOne(h.Err(), lock.ErrBroken) {
				mustSay(w, h.Err(), "root (host node1, pid 7): it hangs")
				mustBe(w, context.Cause(h.Context()), lock.ErrBroken)
			}
			again := w.breaks(c, pathOf(h))
			isTrue(w, again.Gone() && again.Wait(w.ctx, terms) == nil, "an entry that has gone can be broken")
			w.Heal("a")
			w.finish(got.hold)
		})
	}
	t.Run("over mishaps", func(t *testing.T) {
		forEachMishap(t, func(w *world, i int) {
			a, c := w.client("a"), w.client("c")
			h := w.lock(a, "x")
			w.mishap(i, "c", func(r locktest.Request) bool { return r.Op != "getData" })
			broken := w.breaks(c, pathOf(h))
			w.ok(broken.Wait(w.ctx, terms))
			mustBe(t, h.Err(), lock.ErrBroken)
		})
	})
}

// TestDetachDoesNotHideABreak: if an entry is force-released while its renewal is in flight, Detach
// returns ErrBroken, and the entry is deleted.
func TestDetachDoesNotHideABreak(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.client("a"), w.client("c")
		h := w.lock(a, "x")
		w.fault(writes("a", pathOf(h)), locktest.Fault{Delay: time.Second})
		extended := async(func() error { return h.Extend(w.ctx, ttl) })
		settle()
		broken := w.breaks(c, pathOf(h))
		fails(w, second(h.Detach(w.ctx, 0)), lock.ErrBroken, "root (host node1, pid 7): it hangs")
		mustBe(w, <-extended, lock.ErrDetached)
		begun := time.Now()
		w.ok(broken.Wait(w.ctx, terms))
		atMost(w, "took", time.Since(begun), ttl/2)
		w.empty()
	})
}

// TestBreakAWaiter: a waiter whose entry is force-released queues again at the end.
func TestBreakAWaiter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c, d := w.client("a"), w.client("b"), w.client("c"), w.client("d")
		h := w.lock(a, "x")
		broken, behind := w.queue(w.ctx, b, "x"), w.queue(w.ctx, d, "x")
		w.ok(w.breaks(c, w.entries("x")[1].Path).Wait(w.ctx, terms))
		next := w.pass(h, behind)
		w.waits(broken)
		w.unlock(w.pass(next, broken))
	})
}

// TestBreakOfAttachedWaiter: if the entry of an attached waiter is force-released, Attach returns
// ErrRemoved, and the entry is deleted.
func TestBreakOfAttachedWaiter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.client("a"), w.client("b"), w.client("c")
		h := w.lock(a, "x")
		ticket := w.restored("x", "mutex", znode.Prefix(znode.NewID(), znode.Exclusive))
		waits := start(func() (*lock.Hold, error) { return b.Attach(w.ctx, ticket) })
		settle()
		begun := time.Now()
		w.ok(w.breaks(c, ticket.EntryPath()).Wait(w.ctx, terms))
		atMost(t, "took", time.Since(begun), ttl/2)
		fails(t, w.outcome(waits).err, lock.ErrRemoved, "root (host node1, pid 7): it hangs")
		w.finish(h)
	})
}

// TestAttachToABrokenEntry: Attach to a force-released entry returns ErrRemoved, although the entry
// still exists.
func TestAttachToABrokenEntry(t *testing.T) {
	for _, died := range bools {
		subtest(t, fmt.Sprintf("died %v", died), locktest.Options{}, func(w *world) {
			a, b, c := w.client("a"), w.client("b"), w.client("c")
			h := w.lock(a, "x")
			var ticket lock.Ticket
			if died {
				ticket = w.ticket(h)
				w.kill("a")
			} else {
				ticket = w.detach(h, 0)
			}
			broken := w.breaks(c, ticket.EntryPath())
			fails(w, second(b.Attach(w.ctx, ticket)), lock.ErrRemoved, "root (host node1, pid 7): it hangs")
			next := w.queue(w.ctx, b, "x")
			w.ok(broken.Wait(w.ctx, terms))
			got := w.await(next).hold
			w.Heal("a")
			w.finish(got)
		})
	}
}

// TestBreakOfAnUnconfirmedAttach: the reply to an Attach is lost, and then the entry is
// force-released. The attaching client deletes the entry, also if the caller has given up.
func TestBreakOfAnUnconfirmedAttach(t *testing.T) {
	each(t, "given up", bools, func(w *world, givenUp bool) {
		a, b, c := w.client("a"), w.client("b"), w.client("c")
		ticket := w.detach(w.lock(a, "x"), 2*time.Minute)
		hit := w.fault(func(r locktest.Request) bool {
			return writes("b", ticket.EntryPath())(r) && w.cutOff("b")
		}, locktest.Fault{Drop: locktest.AfterApply})
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		attached := start(func() (*lock.Hold, error) { return b.Attach(ctx, ticket) })
		w.until("the reply was lost", hit)
		broken := w.breaks(c, ticket.EntryPath())
		if givenUp {
			cancel()
			mustBe(w, w.outcome(attached).err, context.Canceled)
		}
		w.Heal("b")
		begun := time.Now()
		mustBe(w, broken.Wait(w.ctx, terms), nil)
		atMost(w, "took", time.Since(begun), ttl/2)
		w.empty()
		if !givenUp {
			fails(w, w.outcome(attached).err, lock.ErrRemoved, "root (host node1, pid 7): it hangs")
		}
	})
}

// TestBreakRefuses: Break refuses foreign entries, and a missing or too long reason.
func TestBreakRefuses(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.client("a"), w.raw("z")
		h := w.lock(a, "x")
		w.create(z, "/locks/x/lock-0000000009", "", 0)
		mustBe(t, second(admin.New(a).Break(w.ctx, "/locks/x/lock-0000000009", breaker)), lock.ErrForeign)
		mustBe(t, second(admin.New(a).Break(w.ctx, h.EntryPath(), znode.Broken{Owner: "a", Reason: strings.Repeat("x", lock.MaxReason+1)})), lock.ErrInvalid)
		mustBe(t, second(admin.New(a).Break(w.ctx, h.EntryPath(), znode.Broken{})), lock.ErrInvalid)
		w.alive(h)
		w.unlock(h)
		mustBe(w, z.Delete("/locks/x/lock-0000000009", -1), nil)
	})
}

// TestPurgeByDefaults: a policy without a grace means DefaultGrace, for Purge and for
// Breaking.Wait. A negative grace is refused.
func TestPurgeByDefaults(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.client("a"), w.client("c")
		h, broken := w.lock(a, "x"), w.lock(a, "y")
		w.Partition("a")
		b := w.breaks(c, broken.EntryPath())
		negative := lock.Policy{Grace: -ttl}
		fails(w, b.Wait(w.ctx, negative), lock.ErrInvalid, "grace -10s")
		fails(w, second(admin.New(c).Purge(w.ctx, h.EntryPath(), negative)), lock.ErrInvalid, "grace -10s")
		done := async(func() error { return b.Wait(w.ctx, lock.Policy{}) })
		time.Sleep(ttl + lock.DefaultGrace/2)
		gone, err := admin.New(c).Purge(w.ctx, h.EntryPath(), lock.Policy{})
		isTrue(w, !gone && err == nil, "purged before the end of the grace: %v, %v", gone, err)
		w.hasEntries("y", 1)
		w.ok(<-done)
		time.Sleep(lock.DefaultGrace)
		gone, err = admin.New(c).Purge(w.ctx, h.EntryPath(), lock.Policy{})
		isTrue(w, gone && err == nil, "not purged after the end of the grace: %v, %v", gone, err)
		w.hasNodes(0)
	})
}

// TestPurge: Purge deletes an entry only after its lease and the grace have ended.
func TestPurge(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.client("a"), w.client("c")
		h := w.lock(a, "x")
		purge := func() bool {
			gone, err := admin.New(c).Purge(w.ctx, h.EntryPath(), terms)
			w.ok(err)
			return gone
		}
		isTrue(t, !purge(), "it lived")
		w.Partition("a")
		time.Sleep(ttl + grace/2)
		isTrue(t, !purge(), "the grace was not over")
		time.Sleep(grace)
		if first, second := purge(), purge(); !first || !second {
			t.Error("it had expired")
		}
		w.hasNodes(0)
	})
}
