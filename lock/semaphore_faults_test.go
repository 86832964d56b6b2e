// Semaphores: lagging servers, dead and unreadable holders, resizes at the wrong moment.

package lock_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestWaiterWritesAfterAnOutageBeforeItPurges: after an outage during which its session survived, a
// waiter purges no entry before it has written its own entry, however long that takes.
func TestWaiterWritesAfterAnOutageBeforeItPurges(t *testing.T) {
	type waits struct{ permits, foreign bool }
	forEach(t, locktest.Options{}, map[string]waits{
		"for a mutex": {}, "for permits": {permits: true}, "behind another library's entry": {foreign: true},
	}, func(w *world, waits waits) {
		of := func(c *lock.Client) taking {
			if waits.permits {
				return permits(c.Semaphore("x", 1), 1)
			}
			return c.Mutex("x").Lock
		}
		b, z := w.dial("b"), w.raw("other")
		h := w.take(of(w.dial("a")))
		ended := w.end(h)
		var theirs string
		if waits.foreign {
			theirs = w.create(z, "/locks/x/_c_0123456789abcdef0123456789abcdef-lock-", "", zk.FlagEphemeral|zk.FlagSequence)
		}
		ch := w.join("x", of(b))
		all := w.entries("x")
		own, session := all[len(all)-1].Path, b.Session()
		w.kill("a")
		time.Sleep(ttl)
		w.faults(func(r locktest.Request) bool { return mutates(r, "b") && touches(r, own) }, locktest.Fault{Code: codeThrottled})
		w.Cut("b")
		for range 10 {
			time.Sleep(ttl / 5)
			w.unlock(w.lock(b, "y")) // so the client knows the leader's time
		}
		n := b.Stats().Purged
		isTrue(w, n == 0 && len(w.Dump(pathOf(h))) != 0, "purged %d before its own entry was written", n)
		equal(w, "session", b.Session(), session)
		w.Intercept(nil)
		if waits.foreign {
			w.until("the dead one is purged", func() bool { return len(w.Dump(pathOf(h))) == 0 })
			w.remove(z, theirs)
		}
		got := w.await(ch)
		w.inTurn(ended, got)
		w.Heal("a")
		w.finish(got.hold)
	})
}

// TestUnreadableHolderCounts: after the purge of one holder, the permits of another holder whose
// entry can no longer be read are not free.
func TestUnreadableHolderCounts(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.take(permits(w.dial("a").Semaphore("x", 2), 1))
		dead := w.take(permits(w.dial("dead").Semaphore("x", 2), 1))
		z := w.raw("other")
		ch := w.join("x", permits(w.dial("b").Semaphore("x", 2), 2))
		w.kill("dead")
		w.before(func(r locktest.Request) bool { return r.Label == "b" && r.Op == "getChildren2" }, func() {
			mustBe(w, second(z.SetACL(pathOf(h), zk.WorldACL(zk.PermWrite|zk.PermDelete), -1)), nil)
		})
		w.until("the dead one is purged", func() bool { return len(w.Dump(pathOf(dead))) == 0 })
		w.waits(ch)
		w.alive(h)
		w.inOrder(h, ch)
		w.Heal("dead")
		w.empty()
	})
}

// TestUnreadableNumberOfPermits: if an ACL forbids reading the anchor, Acquire and Resize return
// ErrDenied, also calls that already wait.
func TestUnreadableNumberOfPermits(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		s, c := w.dial("b").Semaphore("x", 1), w.dial("c")
		h := w.take(permits(w.dial("a").Semaphore("x", 1), 1))
		ch := w.join("x", permits(s, 1))
		w.setACL(w.raw("admin"), w.anchors("x")[0], zk.WorldACL(zk.PermAll&^zk.PermRead))
		w.unlock(h)
		for _, err := range []error{
			w.outcome(ch).err, second(c.Semaphore("x", 1).Acquire(w.ctx, 1)), c.Semaphore("x", 1).Resize(w.ctx, 2),
		} {
			fails(w, err, lock.ErrDenied, "/locks/x")
		}
	})
}

// TestUnreadableHolderFurtherAhead: a semaphore has n permits, and the entry n places ahead of a
// waiter cannot be read. The waiter enters in its turn, and not earlier.
func TestUnreadableHolderFurtherAhead(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		acquire := func(label string) taking { return permits(w.dial(label).Semaphore("x", 2), 1) }
		first, second := w.take(acquire("a")), w.take(acquire("b"))
		w.setACL(w.raw("admin"), pathOf(second), zk.WorldACL(zk.PermAll&^zk.PermRead))
		third, last := w.join("x", acquire("c")), w.join("x", acquire("d"))
		w.waits(last)
		w.unlock(second)
		second = w.await(third).hold
		w.waits(last)
		w.unlock(first)
		w.finish(w.await(last).hold, second)
	})
}

// TestPermitsThatALaggingServerHides: while a client waits for permits or purges a holder, its
// session moves to a server that does not show another holder's entry yet. The client does not take
// the hidden holder's permits.
func TestPermitsThatALaggingServerHides(t *testing.T) {
	each(t, "purges", bools, func(w *world, purges bool) {
		a, b := w.dial("a"), w.dial("b")
		first, h := w.take(permits(a.Semaphore("x", 3), 1)), w.take(permits(a.Semaphore("x", 3), 1))
		dead := first
		if purges {
			dead = w.take(permits(w.dial("dead").Semaphore("x", 3), 1))
		}
		ch := w.join("x", permits(b.Semaphore("x", 3), 2))
		all := w.entries("x")
		own, version := all[len(all)-1].Path, int32(0)

		// When the lagging server has hidden the entry, it answers no read until the waiter's own
		// entry is written.
		lagsBehind := lagging("b", b)
		var looks, begun, hidden atomic.Bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			lags := lagsBehind(r)
			switch {
			case r.Label != "b":
			case lags && mutates(r, "b"):
				return locktest.Fault{Code: codeThrottled}
			case r.Op == "getChildren2":
				looks.Store(true)
			case r.Op != "getData":
			case looks.Load() && touches(r, pathOf(h)) && !begun.Swap(true):
				version = w.node(own).Stat.Version
				w.ExpireLabel("b")
				return locktest.Fault{Drop: locktest.BeforeApply}
			case lags && touches(r, pathOf(h)):
				hidden.Store(true)
				return locktest.Fault{Code: codeNoNode}
			case hidden.Load() && w.node(own).Stat.Version == version:
				return locktest.Fault{Code: codeThrottled}
			}
			return locktest.Fault{}
		})
		if looks.Store(!purges); purges { // without a purge, a renewal makes the waiter list
			w.kill("dead")
			w.until("the dead one is purged", func() bool { return len(w.Dump(pathOf(dead))) == 0 })
		}
		w.until("the entry is hidden", hidden.Load)
		time.Sleep(ttl)
		w.Intercept(nil)
		w.waits(ch)
		w.alive(first)
		w.unlock(h)
		w.Heal("dead")
		w.finish(w.await(ch).hold, first)
	})
}

// TestCapacityAfterAPurge: the number of permits is lowered while a waiter waits behind a dead
// holder. After the purge no more permits are held than the lower number.
func TestCapacityAfterAPurge(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a").Semaphore("x", 3), w.dial("b").Semaphore("x", 3), w.dial("c").Semaphore("x", 3)
		dead := w.take(permits(a, 1))
		second, third := w.take(permits(b, 1)), w.take(permits(b, 1))
		resized := start(func() (*lock.Hold, error) { return nil, b.Resize(w.ctx, 2) })
		settle()
		ch := w.join("x", permits(c, 1))
		w.unlock(third)
		w.ok((<-resized).err)
		w.waits(ch)
		w.die("a", dead.EntryPath())
		next := w.await(ch)
		equal(w, "permits", w.anchor("x").Capacity(), 2)
		last := start(func() (*lock.Hold, error) { return b.Acquire(w.ctx, 1) })
		time.Sleep(time.Second)
		w.waits(last)
		w.unlock(second)
		w.Heal("a")
		w.finish(w.await(last).hold, next.hold)
	})
}

// TestCapacityAfterAHolder: after the first waiter has read the number of permits, one transaction
// deletes an entry ahead and lowers the number. The waiter does not enter by the old number.
func TestCapacityAfterAHolder(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c, z := w.dial("a").Semaphore("x", 2), w.dial("b").Semaphore("x", 2), w.dial("c").Semaphore("x", 2), w.raw("other")
		first, second := w.take(permits(a, 1)), w.take(permits(b, 1))
		anchor := "/locks/x/" + znode.Anchor(w.parent("x").Generation)
		time.Sleep(10 * time.Millisecond) // until the grants are recorded
		var crowd atomic.Bool             // c has begun to read the holders one by one
		hit := w.before(func(r locktest.Request) bool {
			if r.Label == "c" && r.Op == "getData" && touches(r, first.EntryPath()) {
				crowd.Store(true)
			}
			return crowd.Load() && r.Label == "c" && r.Op == "getData" && touches(r, second.EntryPath())
		}, func() {
			_, err := z.Multi(
				&zk.SetDataRequest{Path: anchor, Data: znode.AnchorData{Permits: 2, Resized: 1}.Encode(), Version: -1},
				&zk.DeleteRequest{Path: second.EntryPath(), Version: -1})
			mustBe(w, err, nil)
		})
		ch := start(func() (*lock.Hold, error) { return c.Acquire(w.ctx, 1) })
		w.until("it looks", hit)
		time.Sleep(time.Second)
		w.waits(ch)
		w.alive(first)
		w.inOrder(first, ch)
	})
}

// TestLoweringWhoseEntryIsDeleted: a Resize waits for permits with its own entry. If another client
// deletes the entry and acquires the permits, the Resize does not lower the number before they are
// unlocked.
func TestLoweringWhoseEntryIsDeleted(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c, z := w.dial("a").Semaphore("x", 2), w.dial("b").Semaphore("x", 2), w.dial("c").Semaphore("x", 2), w.raw("other")
		first := w.take(permits(a, 1))
		var second <-chan taken
		hit := w.before(func(r locktest.Request) bool {
			return mutates(r, "b") && r.Op == "multi" && len(r.Paths) == 2 && touches(r, "/anchor-")
		}, func() {
			w.remove(z, w.entries("x")[1].Path)
			second = start(func() (*lock.Hold, error) { return c.Acquire(w.ctx, 1) })
			time.Sleep(time.Second)
		})
		resized := start(func() (*lock.Hold, error) { return nil, b.Resize(w.ctx, 1) })
		w.until("it takes a permit away", hit)
		time.Sleep(2 * time.Second)
		h := w.await(second).hold
		n := w.anchor("x").Capacity()
		isTrue(t, n >= 2, "two are held, and there are %d", n)
		w.unlock(first, h)
		w.ok((<-resized).err)
		w.empty()
	})
}

// TestAmbiguousResize: whatever fault hits the write of the number, Resize writes it, and leaves no
// entry. No more permits are held than there are.
func TestAmbiguousResize(t *testing.T) {
	eachMishap(t, "to", []int{1, 3}, func(w *world, to int, i int) {
		a, b := w.sem("a", 2), w.sem("b", 2)
		h := w.take(permits(b, 1))
		hit := w.mishap(i, "a", func(r locktest.Request) bool { return r.Op == "multi" && len(r.Paths) == 2 && touches(r, "/anchor-") })
		begun := time.Now()
		w.ok(a.Resize(w.ctx, to))
		isTrue(w, hit(), "there was no mishap")
		equal(w, "permits", int(w.anchor("x").Capacity()), to)
		w.until("no other entry is left", func() bool { return len(w.entries("x")) == 1 })
		atMost(w, "an entry was in the way: it took", time.Since(begun), ttl)
		w.unlock(h)
		w.empty()
	})
}

// TestPermitsBehindAForeignEntry: a waiter behind another library's entry, which shows no grant,
// gets a permit as soon as one is free.
func TestPermitsBehindAForeignEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a").Semaphore("x", 3), w.dial("b").Semaphore("x", 3), w.raw("other")
		first, second, third := w.take(permits(a, 1)), w.take(permits(a, 1)), w.take(permits(a, 1))
		theirs := w.create(z, "/locks/x/_c_9f86d081-884c-7d65-9f86-d081884c7d65-lock-", "", zk.FlagSequence)
		ch := w.join("x", permits(b, 1))
		w.unlock(first)
		w.waits(ch)
		time.Sleep(100 * time.Millisecond)
		w.unlock(third)
		w.unlock(second, w.inTime(ch, time.Second))
		w.remove(z, theirs)
		w.empty()
	})
}

// TestDeadHolderBehindAHiddenEntry: a waiter for permits purges a dead holder although another
// library's entry right before the waiter is hidden by an ACL.
func TestDeadHolderBehindAHiddenEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		z, held, dead := w.raw("other"), w.take(permits(w.sem("living", 3), 1)), w.take(permits(w.sem("dead", 3), 2))
		theirs := w.create(z, "/locks/x/_c_9f86d081-884c-7d65-9f86-d081884c7d65-lock-", "", zk.FlagSequence)
		_, err := z.SetACL(theirs, zk.WorldACL(zk.PermWrite), -1)
		w.ok(err)
		ch := w.join("x", permits(w.sem("b", 3), 1))
		d := w.die("dead", dead.EntryPath())
		h := w.await(ch).hold
		w.purged(d, time.Now(), 0, 2*time.Second)
		w.unlock(h, held)
		w.remove(z, theirs)
		w.empty()
	})
}

// TestPermitsBehindAnotherVersion: a waiter behind an entry of a newer version, whose grant it cannot
// read, gets a permit as soon as one is free.
func TestPermitsBehindAnotherVersion(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		z := w.raw("other")
		h := w.take(permits(w.dial("a").Semaphore("x", 2), 2))
		theirs := w.create(z, "/locks/x/0123456789abcdef-lock-", `{"holdfast":3}`, zk.FlagSequence)
		ch := w.join("x", permits(w.dial("b").Semaphore("x", 2), 1))
		w.waits(ch)
		w.unlock(w.pass(h, ch))
		w.remove(z, theirs)
		w.empty()
	})
}

// TestJoinAfterALowering: a client that joins by an outdated, larger number of permits waits until
// there are enough permits.
func TestJoinAfterALowering(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a").Semaphore("x", 2), w.dial("b").Semaphore("x", 2)
		h := w.take(permits(b, 1))
		for range 2 {
			w.unlock(w.take(permits(a, 1))) // learns the number 2, and keeps it for a second
		}
		w.ok(b.Resize(w.ctx, 1))
		w.unlock(h)
		ch := start(func() (*lock.Hold, error) { return a.Acquire(w.ctx, 2) })
		time.Sleep(100 * time.Millisecond)
		w.waits(ch)
		w.ok(b.Resize(w.ctx, 2))
		w.finish(w.await(ch).hold)
	})
}

// TestFirstWaiterPurgesAfterAnOutage: the first waiter for permits finds a dead holder at the end of
// an outage, before its own entry was written again. It must still get that holder's permit, while
// another holder renews.
func TestFirstWaiterPurgesAfterAnOutage(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		first, dead := w.take(permits(w.sem("first", 2), 1)), w.take(permits(w.sem("dead", 2), 1))
		rarely := lock.WithPolicies(policies{TTL: time.Minute, Grace: grace})
		b, c := w.dial("b", rarely), w.dial("c", rarely)
		second, third := w.join("x", permits(b.Semaphore("x", 2), 1)), w.join("x", permits(c.Semaphore("x", 2), 1))
		other := w.lock(c, "z")      // is renewed together with the waiter's entry
		time.Sleep(16 * time.Second) // so late, the grant is not taken for one by its time alone
		w.unlock(first)
		held := w.await(second).hold
		w.waits(third)
		d := w.die("dead", dead.EntryPath())
		time.Sleep(ttl / 2)
		w.kill("c")
		time.Sleep(ttl)
		// A join, not the renewal, teaches the client the leader's time.
		join := start(func() (*lock.Hold, error) { return c.Mutex("y").Lock(w.ctx) })
		var refused, late atomic.Bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			switch {
			case mutates(r, "c") && touches(r, "/locks/z/") && !refused.Swap(true):
				return locktest.Fault{Code: codeThrottled}
			case r.Label == "c" && r.Op == "getData" && touches(r, dead.EntryPath()) && !late.Swap(true):
				return locktest.Fault{Delay: latency * 4}
			}
			return locktest.Fault{}
		})
		version := w.node(held.EntryPath()).Stat.Version
		for w.node(held.EntryPath()).Stat.Version == version { // its next renewal comes late, too
			time.Sleep(ttl / 100)
		}
		w.Heal("c")
		h := w.await(third).hold
		w.purged(d, time.Now(), 0, time.Minute)
		isTrue(w, refused.Load() && late.Load(), "the faults did not come")
		w.Heal("dead")
		w.finish(h, held, other, w.await(join).hold)
	})
}

// TestDeadHolderBesideAnother: one dead holder cannot be deleted, because there is a node below its
// entry. A waiter still gets the permit of another dead holder.
func TestDeadHolderBesideAnother(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		stays, dead := w.take(permits(w.sem("stays", 2), 1)), w.take(permits(w.sem("dead", 2), 1))
		ch := w.join("x", permits(w.sem("next", 2), 1))
		below := w.create(w.raw("other"), stays.EntryPath()+"/child", "", 0)
		w.kill("stays")
		d := w.die("dead", dead.EntryPath())
		time.Sleep(3 * ttl)
		got := w.expect(ch)
		w.purged(d, got.at, 0, 2*time.Second)
		w.remove(w.raw("z"), below)
		w.unlock(got.hold)
		w.finish(w.take(permits(w.sem("last", 2), 2))) // purges it
	})
}

// TestNumberOfPermitsChangesAgain: a client may say the number that a Resize has set. Another Resize
// then ends neither its wait nor its own Resize, not even if the reply is lost.
func TestNumberOfPermitsChangesAgain(t *testing.T) {
	each(t, "says", []int{1, 3}, func(w *world, says int) {
		var held []*lock.Hold
		held = append(held, w.take(permits(w.sem("a", 1), 1)))
		w.ok(w.sem("b", 1).Resize(w.ctx, 3))
		held = append(held, w.take(permits(w.sem("c", 3), 2)))
		s := w.sem("d", says)
		waits := w.join("x", permits(s, 1))
		w.waits(waits)
		w.fault(func(r locktest.Request) bool { return mutates(r, "e") && touches(r, "/anchor-") }, locktest.Fault{Drop: locktest.AfterApply})
		w.ok(w.sem("e", says).Resize(w.ctx, 4))
		held = append(held, w.await(waits).hold)
		equal(w, "permits", w.anchor("x").Resized, 4)
		w.finish(held...)
	})
}

// TestAnotherNumberComesFirst: just before this client joins, another client makes the semaphore with
// another number of permits. Acquire and Resize then fail with ErrPermits.
func TestAnotherNumberComesFirst(t *testing.T) {
	const missing, adopted, replaced = "there is no parent", "the parent is an empty node", "the parent is another one by then"
	for _, before := range []string{missing, adopted, replaced} {
		each(t, before+", resizes", bools, func(w *world, resizes bool) {
			b, other := w.sem("b", 3), w.sem("other", 7)
			var h *lock.Hold
			switch before {
			case adopted:
				w.unlock(w.lock(w.dial("first"), "y"))
				w.create(w.raw("z"), "/locks/x", "", 0)
			case replaced:
				h = w.take(permits(w.sem("first", 3), 1))
			}
			w.before(func(r locktest.Request) bool {
				switch before {
				case adopted:
					return r.Label == "b" && adopts(r)
				case missing:
					return r.Label == "b" && joins(r)
				}
				return r.Label == "b" && joinsParent(r, "x")
			}, func() {
				if h != nil {
					w.unlock(h)
					time.Sleep(2 * time.Second)
				}
				h = w.take(permits(other, 1))
			})
			var err error
			if resizes {
				err = b.Resize(w.limited(ttl), 5)
			} else {
				err = second(b.Acquire(w.limited(ttl), 1))
			}
			fails(w, err, lock.ErrPermits, "/locks/x has 7")
			equal(w, "permits", w.anchor("x").Resized, 0)
			w.unlock(h)
		})
	}
}

// TestRoomWhileHoldersAreRead: the first waiter for permits reads many holders whose leases may be
// over. It takes a permit that is released meanwhile before it has read all of them.
func TestRoomWhileHoldersAreRead(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const holders, latency = 100, 10 * time.Millisecond
		living := w.dial("living")
		var held []*lock.Hold
		for range holders {
			held = append(held, w.take(permits(living.Semaphore("x", holders), 1)))
		}
		next := w.join("x", permits(w.dial("next").Semaphore("x", holders), 1))
		w.SetLatency(func(label, _ string) time.Duration {
			if label == "next" {
				return latency
			}
			return 0
		})
		first := w.fault(func(r locktest.Request) bool {
			return r.Label == "next" && r.Op == "getData" && touches(r, "-lock-")
		}, locktest.Fault{})
		w.until("the waiter reads a holder", first)
		begun := time.Now()
		w.unlock(held[0])
		h := w.await(next).hold
		atMost(t, "round trips until the waiter has the permit", int(time.Since(begun)/(2*latency)), 3*holders/10)
		w.unlock(append(held[1:], h)...)
	})
}

// TestDeadHolderAmongMany: however many holders there are, the permit of a crashed holder goes to the
// next waiter when the lease and the grace have ended, at most two quarters of a TTL later. That
// costs about one read of each living holder in the time of its lease.
func TestDeadHolderAmongMany(t *testing.T) {
	long := strings.Repeat("n", 500) // so that a waiter reads few holders at a time
	for title, tt := range map[string]struct {
		name    string
		holders int
		before  func(w *world, living []*lock.Hold, dead *lock.Hold) // before the waiter comes
		after   func(w *world, living []*lock.Hold, dead *lock.Hold) // after the waiter has read all holders
		slack   time.Duration
	}{
		"hundred": {"x", 100, nil, nil, ttl * 6 / 10},
		"its lease was longer before": {"x", 20, func(w *world, _ []*lock.Hold, dead *lock.Hold) {
			w.ok(dead.Extend(w.ctx, 20*ttl))
		}, func(w *world, _ []*lock.Hold, dead *lock.Hold) {
			w.ok(dead.Extend(w.ctx, ttl))
		}, 3 * ttl / 2},
		"another dead one cannot be deleted": {"x", 20, func(w *world, _ []*lock.Hold, _ *lock.Hold) {
			poison := w.take(permits(w.sem("poison", 20), 1))
			w.create(w.raw("other"), poison.EntryPath()+"/child", "", 0)
			w.kill("poison")
		}, nil, ttl}, // the waiter pauses after each refused purge
		"others are hidden": {long, 31, func(w *world, living []*lock.Hold, _ *lock.Hold) {
			for _, h := range living {
				_, err := w.raw("other").SetACL(h.EntryPath(), zk.WorldACL(zk.PermWrite|zk.PermDelete), -1)
				w.ok(err)
			}
		}, nil, ttl * 6 / 10},
	} {
		subtest(t, title, locktest.Options{}, func(w *world) {
			living, missing := w.dial("living"), 1
			if title == "another dead one cannot be deleted" {
				missing = 2
			}
			var held []*lock.Hold
			for range tt.holders - missing {
				held = append(held, w.take(permits(living.Semaphore(tt.name, tt.holders), 1)))
			}
			dead := w.take(permits(w.dial("dead").Semaphore(tt.name, tt.holders), 1))
			if tt.before != nil {
				tt.before(w, held, dead)
			}
			next := w.join(tt.name, permits(w.dial("next").Semaphore(tt.name, tt.holders), 1))
			var reads atomic.Int32
			w.Intercept(func(r locktest.Request) locktest.Fault {
				if r.Label == "next" && r.Op == "getData" {
					reads.Add(1)
				}
				return locktest.Fault{}
			})
			time.Sleep(5 * ttl)
			if tt.name == "x" {
				// A round of all holders in each TTL, one more where turns meet, and each denied purge reads again.
				atMost(t, "reads in five TTLs", int(reads.Load()), 10*tt.holders)
			}
			if tt.after != nil {
				tt.after(w, held, dead)
			}
			d := w.die("dead", dead.EntryPath())
			h := w.await(next).hold
			w.purged(d, time.Now(), 0, tt.slack)
			w.unlock(append(held, h)...)
		})
	}
}

// TestDeadHolderOfAShortLease: the lease of a dead holder counts, not that of the waiter: with one of an
// hour a waiter has the permit when the holder's ten seconds and the grace are over, whether there are
// few holders or many.
func TestDeadHolderOfAShortLease(t *testing.T) {
	each(t, "holders", []int{2, 40}, func(w *world, holders int) {
		living := w.dial("living").Semaphore("x", holders)
		for range holders - 1 {
			defer w.unlock(w.take(permits(living, 1)))
		}
		dead := w.take(permits(w.dial("dead").Semaphore("x", holders), 1))
		next := w.join("x", permits(w.dial("next").Semaphore("x", holders, lock.WithTTL(time.Hour)), 1))
		time.Sleep(2 * ttl)
		d := w.die("dead", dead.EntryPath())
		got := w.await(next)
		w.purged(d, got.at, 0, time.Second)
		w.unlock(got.hold)
	})
}

// TestTryAcquireBehindManyDeadHolders: a try has the permits of dead holders once their leases and the
// grace are over, with no waiter and no reaper: at once if most of the holders are dead, and in the end if
// few of many are. A try reads 16 at random, so it misses the last dead one of 191 with 1 - 16/191, and the
// last row needs more than 300 tries once in 10^10 runs.
func TestTryAcquireBehindManyDeadHolders(t *testing.T) {
	for _, tt := range []struct{ living, dead, tries int }{{0, 40, 1}, {10, 30, 2}, {190, 10, 300}} {
		subtest(t, fmt.Sprintf("%d living, %d dead", tt.living, tt.dead), locktest.Options{}, func(w *world) {
			all := tt.living + tt.dead
			killed := w.dial("dead")
			living, dead, b := w.dial("living").Semaphore("x", all), killed.Semaphore("x", all), w.dial("b").Semaphore("x", all)
			for range tt.living {
				defer w.unlock(w.take(permits(living, 1)))
			}
			for range tt.dead {
				w.take(permits(dead, 1))
			}
			w.kill("dead")
			time.Sleep(2 * ttl)
			for try := 1; ; try++ {
				h, err := b.TryAcquire(w.ctx, tt.dead)
				if err == nil {
					w.Logf("in with try %d", try)
					w.unlock(h)
					w.Heal("dead") // a Close that begins before it is connected again may leave entries, and says so
					w.until("the killed client is back", func() bool { return killed.Check() == nil })
					return
				}
				mustBe(w, err, lock.ErrHeld)
				mustBeTrue(w, try < tt.tries, "%d tries, and still: %v", try, err)
				time.Sleep(time.Second)
			}
		})
	}
}

// TestLoweringAfterARaise: the number is raised, and the new permits are taken, after a lowering has read
// the number and before it writes it. The lowering does not return before as many permits are free as it
// then removes.
func TestLoweringAfterARaise(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		lowers, raises, holder := w.sem("a", 4), w.sem("b", 4), w.sem("c", 4)
		holds := []*lock.Hold{w.take(permits(holder, 2))}
		hit := w.before(func(r locktest.Request) bool {
			return r.Label == "a" && r.Op == "multi" && len(r.Paths) == 2 && touches(r, "/anchor-") && touches(r, "-lock-")
		}, func() {
			w.ok(raises.Resize(w.ctx, 6))
			holds = append(holds, w.take(permits(holder, 2)))
		})
		done := async(func() error { return lowers.Resize(w.ctx, 2) })
		w.until("the number is written", hit)
		time.Sleep(ttl)
		hasNotCome(w, done)
		w.unlock(holds...)
		time.Sleep(ttl)
		mustBe(w, hasCome(w, done), nil)
		w.empty()
	})
}
