// Several locks together: lost replies, outages, dead holders, lost entries, no deadlock.

package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestAmbiguousLockOfAll: if the reply to the transaction that joins all locks is lost, the client
// holds all of them with one entry each. After the unlock no node is left.
func TestAmbiguousLockOfAll(t *testing.T) {
	for _, free := range []bool{true, false} {
		for _, try := range []bool{false, true} {
			if try && !free {
				continue
			}
			t.Run(fmt.Sprintf("free %v try %v", free, try), func(t *testing.T) {
				forEachMishap(t, func(w *world, i int) {
					a, b := w.client("a"), w.client("b")
					w.unlockAll(w.lockAll(a, "x", "y", "z"))
					var h *lock.Hold
					if !free {
						h = w.lock(b, "y")
					}
					hit := w.mishap(i, "a", joins)
					all := a.All([]string{"x", "y", "z"})
					take := all.Lock
					if try {
						take = all.TryLock
					}
					ch := start(func() (*lock.Holds, error) { return take(w.ctx) })
					w.until("the mishap", hit)
					time.Sleep(ttl)
					if h != nil {
						w.waitsAll(ch)
						w.unlock(h)
					}
					hs := w.expectAll(ch)
					w.soleAll(hs)
					w.unlockAll(hs)
					w.empty()
				})
			})
		}
	}
}

func TestAmbiguousUnlockOfAll(t *testing.T) {
	eachMishap(t, "queued", bools, func(w *world, queued bool, i int) {
		a, b := w.client("a"), w.client("b")
		hs := w.lockAll(a, "x", "y", "z")
		var ch <-chan takenAll
		if queued {
			ch = w.queueAll(w.ctx, b, "y", "x")
		}
		w.mishap(i, "a", leaves(hs.Hold("x")))
		mustBe(w, hs.Unlock(), nil)
		if queued {
			got := <-ch
			w.ok(got.err)
			w.soleAll(got.hold)
			w.unlockAll(got.hold)
		}
		w.empty()
	})
}

// TestAbandonedLockOfAll: if the caller gives up while the transaction is in flight, and then
// closes the client, no node is left when Close returns.
func TestAbandonedLockOfAll(t *testing.T) {
	for name, fault := range lateReplies {
		if name == outlasts {
			continue
		}
		subtest(t, name, locktest.Options{}, func(w *world) {
			a := w.client("a")
			w.unlockAll(w.lockAll(a, "x", "y", "z"))
			time.Sleep(2 * time.Second)
			w.fault(func(r locktest.Request) bool {
				return r.Label == "a" && joins(r) && touches(r, "/locks/z")
			}, fault)
			ctx := w.limited(5 * time.Millisecond)
			mustBe(w, second(a.All([]string{"x", "y", "z"}).Lock(ctx)), context.DeadlineExceeded)
			mustBe(w, a.Close(), nil)
			w.hasNodes(0)
		})
	}
}

// TestEntryOfAllDeletedWhileItWaits: if one entry of a waiter for several locks is deleted, one
// transaction creates all of its entries again, at the ends of the queues. A single new entry could
// wait behind a client that waits for the other entries.
func TestEntryOfAllDeletedWhileItWaits(t *testing.T) {
	each(t, "first", bools, func(w *world, first bool) { // which entry is deleted: the one at x, which is at the head, or the one at y
		a, b, d := w.client("a"), w.client("b"), w.client("d")
		h := w.lock(b, "y")
		one := w.queueAll(w.ctx, a, "x", "y", "z")
		other := w.queueAll(w.ctx, d, "z", "x")
		gone := w.entries("y")[1]
		if first {
			gone = w.entries("x")[0]
		}
		w.remove(w.raw("admin"), gone.Path)
		w.until("it has queued again", func() bool { return a.Stats().Requeued > 0 })
		hs := w.expectAll(other) // the entries at z and x were in its way
		settle()
		x, y, z := w.entries("x"), w.entries("y"), w.entries("z")
		mustBeTrue(w, len(x) == 2 && len(y) == 2 && len(z) == 2, "entries %q, %q, %q, want two each", paths(x), paths(y), paths(z))
		isTrue(w, x[1].Stat.Czxid == y[1].Stat.Czxid && y[1].Stat.Czxid == z[1].Stat.Czxid, "the entries were not made anew in one transaction")
		w.unlock(h)
		w.waitsAll(one)
		w.unlockAll(hs)
		w.unlockAll(w.expectAll(one))
		w.empty()
	})
}

// TestAllWaitOverOutages: a client that waits for several locks keeps its places while its session
// expires, and during outages shorter than the lease. After a longer outage it queues again.
func TestAllWaitOverOutages(t *testing.T) {
	each(t, "long", bools, func(w *world, long bool) {
		a, b, d := w.client("a"), w.client("b"), w.client("d")
		h := w.lock(b, "y")
		one := w.queueAll(w.ctx, a, "x", "y")
		x := w.queue(w.ctx, d, "x")
		outage := ttl / 2
		if long {
			outage = 2 * ttl
		}
		w.kill("a")
		w.ExpireLabel("a")
		time.Sleep(outage)
		if long {
			got := w.expect(x) // this waiter has purged the dead entry
			w.Heal("a")
			time.Sleep(ttl)
			w.unlock(h)
			w.waitsAll(one)
			w.unlock(got.hold)
		} else {
			w.Heal("a")
			time.Sleep(ttl)
			w.waits(x)
			w.unlock(h)
		}
		hs := w.expectAll(one)
		for h := range hs.All() {
			w.alive(h)
		}
		w.unlockAll(hs)
		if !long {
			w.unlock(w.expect(x).hold)
		}
		w.empty()
	})
}

// TestAllJoinedTooLongAgo: the reply to the join shows no entry ahead, but arrives after another
// client has purged one of the entries. The client does not enter before the locks are free.
func TestAllJoinedTooLongAgo(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a", lock.WithSessionTimeout(6*ttl)), w.client("b") // so that the connection lasts
		w.unlock(w.lock(b, "other"))
		hit := w.fault(func(r locktest.Request) bool { return r.Label == "a" && joins(r) }, locktest.Fault{DelayReply: 2 * ttl})
		one := start(func() (*lock.Holds, error) { return a.All([]string{"x", "y"}).Lock(w.ctx) })
		w.until("the entries are made", hit)
		got := w.await(w.queue(w.ctx, b, "x"))
		time.Sleep(2 * ttl)
		w.waitsAll(one)
		w.alive(got.hold)
		w.unlock(got.hold)
		hs := w.expectAll(one)
		w.soleAll(hs)
		w.unlockAll(hs)
		w.empty()
	})
}

// TestDeadHolderOfAll: a waiter for three locks of a dead holder waits for one TTL and grace, not
// for three.
func TestDeadHolderOfAll(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		names := []string{"x", "y", "z"}
		w.lockAll(a, names...)
		ch := w.queueAll(w.ctx, b, names...)
		w.kill("a")
		dead := time.Now()
		got := <-ch
		w.ok(got.err)
		atMost(w, "three dead holders blocked for", time.Since(dead), ttl+grace+time.Second)
		w.unlockAll(got.hold)
		w.Heal("a")
		w.empty()
	})
}

// TestCloseWhileAllAreWaitedFor: Close ends the holds and waits of All.Lock with ErrClosed, and
// deletes their entries.
func TestCloseWhileAllAreWaitedFor(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(b, "y")
		held := w.lockAll(a, "u", "v")
		ch := w.queueAll(w.ctx, a, "x", "y")
		mustBe(w, a.Close(), nil)
		mustBe(t, w.outcomeAll(ch).err, lock.ErrClosed)
		mustBe(t, context.Cause(held.Context()), lock.ErrClosed)
		mustBe(t, held.Unlock(), lock.ErrClosed)
		fails(t, second(a.All([]string{"x", "y"}).Lock(w.ctx)), lock.ErrClosed, `locks ["x" "y"]: `)
		w.finish(h)
	})
}

// TestStaleLeaseOfOneOfAll: if one of the waiter's entries could not be renewed and its lease may
// soon end, the waiter does not enter when all locks are free. It enters when writes succeed again.
func TestStaleLeaseOfOneOfAll(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(b, "x")
		done := start(func() (*lock.Holds, error) { return a.All([]string{"x", "y"}).Lock(w.ctx) })
		w.until("it waits", func() bool { return len(w.entries("y")) == 1 })
		own := w.entries("y")[0].Path
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if i := slices.Index(r.Paths, own); i >= 0 && mutates(r, "a") {
				return locktest.Fault{Code: codeQuota, Op: i + 1}
			}
			return locktest.Fault{}
		})
		time.Sleep(ttl * 3 / 4)
		w.unlock(h)
		w.waitsAll(done) // one of the entries is not renewed
		w.Intercept(nil)
		got := <-done
		w.ok(got.err)
		w.unlockAll(got.hold)
	})
}

// TestLockOfAllInDoubt: the outcome of the joining transaction is unknown, and another client has
// deleted one of the entries. The client deletes the remaining entries and joins again, with one
// entry for each lock.
func TestLockOfAllInDoubt(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		w.unlock(w.lock(a, "other"))
		hit := w.fault(func(r locktest.Request) bool { return joins(r) && w.cutOffSoon("a") }, locktest.Fault{Drop: locktest.AfterApply})
		done := start(func() (*lock.Holds, error) { return a.All([]string{"x", "y", "z"}).Lock(w.ctx) })
		w.until("the mishap", hit)
		w.remove(z, w.entries("x")[0].Path)
		healed := time.Now()
		w.Heal("a")
		got := <-done
		w.ok(got.err)
		atMost(t, "it took", got.at.Sub(healed), ttl/2)
		for _, name := range []string{"x", "y", "z"} {
			w.hasEntries(name, 1)
		}
		w.unlockAll(got.hold)
		w.empty()
	})
}

// TestAllInAnyOrder: clients that name locks in opposite orders or in a circle all get them,
// although all locks are held when the clients queue.
func TestAllInAnyOrder(t *testing.T) {
	forEach(t, locktest.Options{}, map[string][][]string{
		"ABBA":   {{"a", "b"}, {"b", "a"}},
		"circle": {{"a", "b"}, {"b", "c"}, {"c", "d"}, {"d", "a"}},
		"mixed":  {{"a", "b", "c"}, {"c", "a"}, {"b", "d", "a"}, {"d"}, {"c", "d", "b", "a"}},
	}, func(w *world, want [][]string) {
		first := w.lockAll(w.client("first"), "a", "b", "c", "d")
		limited := w.limited(12 * ttl)
		var wg sync.WaitGroup
		for i, names := range want {
			c := w.client(fmt.Sprintf("c%d", i))
			wg.Go(func() {
				hs, err := c.All(names).Lock(limited)
				if err != nil {
					w.Errorf("they wait for each other: %v", err)
					return
				}
				time.Sleep(time.Second)
				_ = hs.Unlock()
			})
		}
		time.Sleep(2 * ttl)
		w.unlockAll(first)
		wg.Wait()
		w.empty()
	})
}

// TestRandomLocksNeverDeadlock: workers lock random locks, alone or together, in random orders.
// Some calls barge, try or give up. Each call returns within ten minutes, and no lock has two
// holders. SEED and SEEDS select the histories as in TestSimulation.
func TestRandomLocksNeverDeadlock(t *testing.T) {
	first, seeds := env(t, "SEED", 1), env(t, "SEEDS", 6)
	if os.Getenv("SEEDS") != "" {
		seeds = min(seeds, 100)
	}
	for seed := first; seed < first+seeds; seed++ {
		subtest(t, fmt.Sprintf("seed=%d", seed), locktest.Options{Seed: seed}, func(w *world) {
			c := &circle{world: w, seed: seed, names: []string{"a", "b", "c", "d", "e"}, holder: map[string]string{}}
			var wg sync.WaitGroup
			for i := range 6 {
				client := w.client(fmt.Sprintf("c%d", i))
				for j := range 2 {
					wg.Go(func() { c.worker(client, fmt.Sprintf("%d/%d", i, j)) })
				}
			}
			wg.Wait()
			w.empty()
			w.Logf("%d times had together, %d alone", c.together, c.alone)
		})
	}
}

// circle is the shared state of a history's workers.
type circle struct {
	*world
	seed  uint64
	names []string

	mu              sync.Mutex
	holder          map[string]string
	together, alone int
}

func (c *circle) worker(client *lock.Client, label string) {
	r := random(c.seed, label)
	for range 15 {
		ctx, cancel := context.WithTimeout(c.ctx, 10*time.Minute)
		names := c.some(r)
		all := client.All(names)
		switch r.IntN(8) {
		case 0: // one lock, with or without a queue
			m := client.Mutex(names[0])
			if r.IntN(2) > 0 {
				m = m.WithBarging()
			}
			h, err := m.Lock(ctx)
			c.had(r, label, names[:1], err, h.Unlock)
		case 1:
			hs, err := all.TryLock(ctx)
			if err == nil || !isOne(err, lock.ErrHeld) {
				c.had(r, label, names, err, hs.Unlock)
			}
		case 2: // gives up before its turn
			soon, cancel := context.WithTimeout(ctx, between(r, 0, 200*time.Millisecond))
			if hs, err := all.Lock(soon); err == nil {
				c.had(r, label, names, err, hs.Unlock)
			}
			cancel()
		default:
			hs, err := all.Lock(ctx)
			c.had(r, label, names, err, hs.Unlock)
		}
		cancel()
	}
}

// some returns two or three names in random order.
func (c *circle) some(r *rand.Rand) []string {
	names := slices.Clone(c.names)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:2+r.IntN(2)]
}

// had reports err as a failure. Without an error it checks that no other worker holds the locks,
// and unlocks them after up to 50 ms.
func (c *circle) had(r *rand.Rand, label string, names []string, err error, unlock func() error) {
	if err != nil {
		c.Errorf("%s waited for %q for ten minutes: %v", label, names, err)
		return
	}
	c.mu.Lock()
	for _, name := range names {
		other := c.holder[name]
		isTrue(c, other == "", "%s has %s, and %s has it", label, name, other)
		c.holder[name] = label
	}
	if len(names) > 1 {
		c.together++
	} else {
		c.alone++
	}
	c.mu.Unlock()
	time.Sleep(between(r, 0, 50*time.Millisecond))
	c.mu.Lock()
	for _, name := range names {
		delete(c.holder, name)
	}
	c.mu.Unlock()
	if err := unlock(); err != nil {
		c.Errorf("%s: unlock %q: %v", label, names, err)
	}
}

// TestAllOfManyUnknownParents: All.Lock of MaxAll names takes at most a second, although the client
// does not know that all parents exist. One join is refused; then the client reads all parents, and
// needs no guards.
func TestAllOfManyUnknownParents(t *testing.T) {
	link := locktest.Options{Latency: func(string, string) time.Duration { return 2 * time.Millisecond }}
	simulate(t, link, func(w *world) {
		kept := lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: window, KeepParent: true})
		a, b := w.client("a"), w.client("b", kept)
		var names []string
		for i := range lock.MaxAll {
			names = append(names, fmt.Sprintf("n%02d", i))
			w.unlock(w.lock(b, names[i]))
		}
		limited := w.limited(time.Second)
		var hs *lock.Holds
		got := w.cost("a", func() {
			var err error
			hs, err = a.All(names).Lock(limited)
			mustBeTrue(w, err == nil, "no client is at the locks: %v", err)
		})
		atMost(w, "transactions of All.Lock, with the sample of the clock", got.requests["multi"], 3)
		w.unlockAll(hs)
	})
}
