// The end of a parent's sequence counter.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

func (w *world) setSequence(name string, next int32) {
	w.Helper()
	w.ok(w.SetSequence(lock.DefaultRoot+"/"+name, next))
}

// TestCounterNearItsEnd: near the end of a parent's counter, contenders enter one at a time, none
// by an entry at the end of the counter, and the counter restarts. The parent was created by
// Holdfast, is kept, or is adopted.
func TestCounterNearItsEnd(t *testing.T) {
	eachPair(t, "next", []int32{math.MaxInt32 - 2, math.MaxInt32 - 1, math.MaxInt32}, parents, func(w *world, next int32, parent string) {
		h := w.lock(w.parentIs(parent, "holder"), "x")
		czxid := w.node("/locks/x").Stat.Czxid
		w.setSequence("x", next)
		var queue []<-chan taken
		for i := range 6 {
			c := w.dial(fmt.Sprint("c", i), keeps(parent == "kept"))
			queue = append(queue, start(func() (*lock.Hold, error) { return c.Mutex("x").Lock(w.ctx) }))
			time.Sleep(3 * time.Second)
		}
		w.alive(h)
		n, most := len(w.entries("x")), 1+max(0, math.MaxInt32-int(next))
		isTrue(w, n <= most, "%d entries stay near the end of the counter, want %d at most", n, most)
		for range queue {
			w.unlock(h)
			last := h.Token()
			h = w.first(queue...).hold
			time.Sleep(3 * time.Second)
			w.waits(queue...)
			w.alive(h)
			name, _ := znode.Parse(h.EntryPath()[len("/locks/x/"):])
			isTrue(w, h.Token().Compare(last) > 0 && !name.Overflowed(), "%s with token %v follows %v", h.EntryPath(), h.Token(), last)
		}
		isTrue(w, w.node("/locks/x").Stat.Czxid != czxid, "the parent was not made anew")
		w.unlock(h)
		w.unlock(w.lock(w.dial("last", keeps(parent == "kept")), "x"))
		equal(w, "warnings of another program's data", strings.Count(w.logged(), "another program"), 0)
	})
}

// TestLoneClientAtTheEndOfTheCounter: an entry at the end of the counter is not granted, even to a
// client that is alone. The client recreates a kept parent, whatever fault hits its requests.
func TestLoneClientAtTheEndOfTheCounter(t *testing.T) {
	for _, request := range []func(locktest.Request) bool{
		func(r locktest.Request) bool { return r.Op == "delete" }, // of the entry
		readsParent, deletesParent,
	} {
		forEachMishap(t, func(w *world, mishap int) {
			a := w.dial("a", lock.WithPolicies(policies{TTL: 6 * ttl, Grace: grace, KeepParent: true}))
			w.unlock(w.lock(a, "x"))
			w.setSequence("x", math.MaxInt32)
			w.mishap(mishap, "a", request)
			h := w.lock(a, "x")
			isTrue(w, strings.HasSuffix(h.EntryPath(), "-0000000001"), "entry %s", h.EntryPath())
			w.sole(h)
			w.unlock(h)
		})
	}
}

// TestWaiterAtTheEndOfTheCounter: a waiter waits until no other node is below the parent, or until
// its context ends, and sends at most 185 requests a minute. TryLock does not wait, not even for
// another Lock of its client.
func TestWaiterAtTheEndOfTheCounter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		w.setSequence("x", math.MaxInt32)
		ctx, cancel := context.WithCancelCause(w.ctx)
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(ctx) })
		time.Sleep(10 * time.Second)
		w.waits(ch)
		cost := w.cost("b", func() { time.Sleep(time.Minute) })
		isTrue(t, cost.total() <= 3*60+5 && cost.txns <= 20, "waiting for a minute cost %v and %d transactions", cost.requests, cost.txns)
		cause := errors.New("closing time")
		cancel(cause)
		mustBe(t, w.outcome(ch).err, context.Canceled, cause)
		mustBe(t, second(b.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
		w.alive(h)
		w.hasEntries("x", 1)

		ch = start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
		time.Sleep(time.Second)
		w.unlock(h)
		w.finish(w.await(ch).hold)
	})
}

// TestNodesBelowAtTheEndOfTheCounter: if there are nodes below the lock's node, such as those of other
// locks, the counter can never begin again. Each call fails at once, whether the lock is held or not,
// and names them. Without them the calls recreate the parent, even a kept or adopted one.
func TestNodesBelowAtTheEndOfTheCounter(t *testing.T) {
	eachPair(t, "parent", parents, []string{"lock", "try", "try several", "barge"}, func(w *world, parent, way string) {
		a, z, take := w.parentIs(parent, "a"), w.raw("other"), ways[way]
		h, below := w.lock(a, "x"), w.lock(a, "x/y")
		w.setSequence("x", math.MaxInt32)
		const says = "/locks/x cannot be deleted, because of the nodes below it: y; end the use"
		if way == "lock" {
			fails(w, second(take(w.ctx, a)), lock.ErrExhausted, says)
		}
		w.unlock(h)
		begun := time.Now()
		fails(w, second(take(w.ctx, a)), lock.ErrExhausted, says)
		atMost(w, "waited", time.Since(begun), time.Second)
		w.unlock(below)
		time.Sleep(2 * time.Second)
		if parent == "kept" {
			w.wipe(z, "x/y")
		}
		tried, err := take(w.ctx, a)
		w.ok(err)
		w.ok(tried.Unlock())
	})
}

// TestWornCounterIsEnded: from half of the counter on, a client that leaves a lock alone deletes the
// lock's node, although the lock is in frequent use.
func TestWornCounterIsEnded(t *testing.T) {
	each(t, "worn", bools, func(w *world, worn bool) {
		a := w.dial("a")
		w.unlock(w.lock(a, "x"))
		h := w.lock(a, "x")
		if worn {
			w.setSequence("x", znode.WornCounter)
			w.unlock(h)
			h = w.lock(a, "x")
		}
		w.unlock(h)
		_, there := w.Node("/locks/x")
		isTrue(w, there != worn, "the node is there: %v", there)
	})
}

// TestDeniedAtTheEndOfTheCounter: if an ACL forbids reading or deleting the parent at the end of
// its counter, the error names the node and the ACL.
func TestDeniedAtTheEndOfTheCounter(t *testing.T) {
	forEach(t, locktest.Options{}, map[string]struct{ path, says string }{
		"the lock's node cannot be read":    {"/locks/x", "read /locks/x: its ACL does not let us"},
		"the lock's node cannot be deleted": {"/locks", "delete /locks/x, whose counter is at its end: the ACL of the node above does not let us"},
	}, func(w *world, test struct{ path, says string }) {
		a, z := w.dial("a", keeps(true)), w.raw("admin")
		w.unlock(w.lock(a, "x"))
		w.setSequence("x", math.MaxInt32)
		w.setACL(z, test.path, zk.WorldACL(zk.PermCreate|zk.PermWrite))
		fails(w, second(a.Mutex("x").Lock(w.ctx)), lock.ErrDenied, test.says)
	})
}

// TestOverflowedEntryIsGivenUp: if the caller gives up, or another client deletes the entry, while
// the client withdraws its overflowed entry, no node is left.
func TestOverflowedEntryIsGivenUp(t *testing.T) {
	// k is the request that is delayed: the delete of the entry, the read of the parent, or the
	// delete of the parent.
	eachPair(t, "removed", bools, []int{0, 1, 2}, func(w *world, removed bool, k int) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("admin")
		w.unlock(w.lock(a, "other"))
		h := w.lock(b, "x")
		w.setSequence("x", math.MaxInt32)
		withdraws := false
		seen := w.faultsInTurn(func(r locktest.Request) bool {
			if !withdraws && r.Label == "a" && r.Op == "delete" {
				if withdraws = true; removed {
					w.remove(z, r.Paths[0])
				}
			}
			return withdraws && r.Label == "a"
		}, func(n int) locktest.Fault {
			return locktest.Fault{Delay: map[bool]time.Duration{true: 2 * time.Second}[n == k+1]}
		})
		ctx := w.limited(time.Second)
		ch := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(ctx) })
		w.until("it withdraws", func() bool { return seen.Load() > 0 })
		w.unlock(h)
		time.Sleep(time.Second)
		if got := w.outcome(ch); got.err == nil {
			w.unlock(got.hold)
		} else {
			mustBe(w, got.err, context.DeadlineExceeded)
		}
		isTrue(w, int(seen.Load()) > k, "%d requests, want more than %d", seen.Load(), k)
		time.Sleep(3 * time.Second)
		w.empty()
	})
}

// TestEntriesThatOverflowed: entries that were created after the counter overflowed have equal or
// negative sequences, so their order is unknown. A client waits for all of them. When their leases
// have expired, it purges them, and the counter restarts.
func TestEntriesThatOverflowed(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("old")
		w.unlock(w.lock(a, "other"))
		record := string((&znode.Record{Owner: "old", TTL: ttl.Milliseconds()}).Encode())
		w.create(z, "/locks/x", string(znode.Parent{Kind: znode.Mutex}.Encode()), 0)
		names := []string{"e000000000000000-lock-2147483647", "b000000000000000-lock--2147483648", "c000000000000000-lock-2147483647"}
		for _, n := range names {
			w.create(z, "/locks/x/"+n, record, 0)
		}
		held := heldError(t, second(a.Mutex("x").TryLock(w.ctx)))
		isTrue(t, slices.Contains(names, path.Base(held.Entry)), "error is %v, want one that names one of %s", held, names)
		w.setSequence("x", math.MaxInt32)
		got := w.await(start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) }))
		w.sole(got.hold)
		isTrue(t, strings.HasSuffix(got.hold.EntryPath(), "-0000000001"), "entry %s", got.hold.EntryPath())
		w.finish(got.hold)
	})
}

// TestDeadHolderAtTheEndOfTheCounter: at the end of the counter, too, where no entry follows its own, a
// dead holder keeps no call waiting, and no TryLock refused, once its lease and the grace have ended.
func TestDeadHolderAtTheEndOfTheCounter(t *testing.T) {
	each(t, "way", []string{"lock", "try", "try several", "barge"}, func(w *world, way string) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		w.setSequence("x", math.MaxInt32)
		mustBe(w, second(b.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
		w.hasEntries("x", 1)
		ended := w.end(h)
		w.kill("a")
		if strings.HasPrefix(way, "try") {
			time.Sleep(2 * (ttl + grace))
		}
		got, err := ways[way](w.limited(10*ttl), b)
		w.ok(err)
		ended.wait()
		equal(w, "purged", b.Stats().Purged, 1)
		w.ok(got.Unlock())
	})
}

// farAway is an ensemble to which client far has a latency of 200 ms in each direction.
var farAway = locktest.Options{Latency: func(label, _ string) time.Duration {
	if label == "far" {
		return 200 * time.Millisecond
	}
	return latency
}}

// servedBesideTurns fails the test unless own gets the lock x, which h holds, within sixty turns of
// two other clients that use the lock all the time.
func (w *world) servedBesideTurns(own <-chan outcome[*lock.Hold], h *lock.Hold, a, b *lock.Client) {
	w.Helper()
	for _, c := range slices.Repeat([]*lock.Client{a, b}, 30) {
		next := w.queue(w.ctx, c, "x")
		time.Sleep(time.Second)
		w.unlock(h)
		select {
		case got := <-own:
			w.ok(got.err)
			w.unlock(got.hold)
			w.unlock(w.await(next).hold)
			return
		case got := <-next:
			w.ok(got.err)
			h = got.hold
		}
	}
	w.Error("the far client did not get the lock in sixty turns of other clients")
	w.unlock(h)
	w.unlock(w.await(own).hold)
}

// TestFarWaiterAtTheEndOfTheCounter: a waiter that reads the parent only after another client has
// made it anew joins there, although the lock is in use all the time.
func TestFarWaiterAtTheEndOfTheCounter(t *testing.T) {
	forEach(t, farAway, map[string]bool{"ours": false, "kept": true}, func(w *world, kept bool) {
		p := lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: kept})
		a, b, far := w.dial("a", p), w.dial("b", p), w.dial("far", p)
		w.unlock(w.lock(b, "other"), w.lock(far, "another"))
		h := w.lock(a, "x")
		w.setSequence("x", math.MaxInt32)
		own := start(func() (*lock.Hold, error) { return far.Mutex("x").Lock(w.ctx) })
		time.Sleep(3 * time.Second)
		next := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
		time.Sleep(3 * time.Second)
		w.unlock(h)
		h = w.await(next).hold
		w.servedBesideTurns(own, h, a, b)
	})
}

// TestFarJoinerAtTheEndOfTheCounter: the same, if the join was refused, because the counter repeats
// its last number, and there is an entry with that number.
func TestFarJoinerAtTheEndOfTheCounter(t *testing.T) {
	forEach(t, farAway, map[string]time.Duration{"refused": 250 * time.Millisecond, "waits": 2 * time.Second}, func(w *world, since time.Duration) {
		a, b, far, z := w.dial("a"), w.dial("b"), w.dial("far"), w.raw("other")
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		w.comesAndGoes(far) // it knows the parent
		w.setSequence("x", math.MaxInt32)
		last := w.create(z, "/locks/x/"+znode.Predict(znode.Prefix(w.parent("x").Generation, znode.Exclusive), math.MaxInt32), "", 0)
		own := start(func() (*lock.Hold, error) { return far.Mutex("x").Lock(w.ctx) })
		time.Sleep(since) // its join was refused; after two seconds it waits for the end of the parent
		w.unlock(h)
		w.remove(z, last)
		w.wipe(z, "x")
		h = w.lock(b, "x")
		w.servedBesideTurns(own, h, a, b)
	})
}

// TestParentMadeAnewIsNotAtTheEndOfTheCounter: a client that waits for the end of the counter of
// another program's node does not delete the node that this program has made in its place.
func TestParentMadeAnewIsNotAtTheEndOfTheCounter(t *testing.T) {
	simulate(t, farAway, func(w *world) {
		a, b, far, z := w.dial("a"), w.dial("b"), w.dial("far"), w.raw("other")
		w.unlock(w.lock(b, "other"), w.lock(far, "another"))
		w.create(z, "/locks/x", "", 0)
		h := w.lock(a, "x")
		w.setSequence("x", math.MaxInt32)
		own := start(func() (*lock.Hold, error) { return far.Mutex("x").Lock(w.ctx) })
		time.Sleep(3 * time.Second)
		w.unlock(h)
		w.wipe(z, "x")
		w.create(z, "/locks/x", "", 0)
		made := w.node("/locks/x").Stat.Czxid
		h = w.lock(b, "x")
		time.Sleep(3 * time.Second)
		w.unlock(h)
		w.unlock(w.await(own).hold)
		time.Sleep(3 * time.Second)
		equal(w, "czxid of the other program's node", w.node("/locks/x").Stat.Czxid, made)
	})
}

// TestExchangeAtTheEndOfTheCounter: an exchange that creates the last entry of the counter does not
// grant it, and deletes it at once. The counter restarts.
func TestExchangeAtTheEndOfTheCounter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		h := w.lock(a, "x")
		waiting := w.line(w.ctx, a, "x", 1)
		w.setSequence("x", math.MaxInt32)
		w.unlock(h)
		next := w.inTime(waiting[0], 2*time.Second)
		isTrue(t, strings.HasSuffix(next.EntryPath(), "-0000000001"), "the hold has the entry %s", next.EntryPath()) // the anchor has 0
		w.finish(next)
	})
}

// TestHandoffsAtTheEndOfTheCounter: if a waiting client has no entry, because the counter is at its
// end, the goroutines of another client hand one entry off fewer than 20 times. Then another entry
// gets the lock.
func TestHandoffsAtTheEndOfTheCounter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.dial("b")
		h := w.lock(a, "x")
		w.setSequence("x", math.MaxInt32)
		other := w.queue(w.ctx, b, "x")
		waiting := append(w.line(w.ctx, a, "x", 40), other)
		handoffs := 0
		for entry := h.EntryPath(); h.EntryPath() == entry; handoffs++ {
			mustBeTrue(t, handoffs != 20, "the entry was handed on %d times in holds of a fifth of the window", handoffs)
			time.Sleep(window / 5)
			w.unlock(h)
			h = w.first(waiting...).hold
		}
		for range len(waiting) - handoffs {
			w.unlock(h)
			h = w.first(waiting...).hold
		}
		w.unlock(h)
	})
}

// first returns the first outcome of any queue, which must be a hold.
func (w *world) first(queue ...<-chan taken) (got taken) {
	w.Helper()
	w.until("one has it", func() bool {
		for _, ch := range queue {
			select {
			case got = <-ch:
				w.ok(got.err)
				return true
			default:
			}
		}
		return false
	})
	return got
}
