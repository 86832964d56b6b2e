// All of several locks: cost, order, arguments, reentry, lost replies, outages, and the guards of joins that
// were refused.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

var eight = []string{"a/1", "a/2", "b/1", "b/2", "c", "d", "e", "f"}

func TestFreeLocksAreOneTransactionEachWay(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.client("a")
		w.unlockAll(w.lockAll(c, eight...)) // creates the root and the ancestors, and learns the time
		for range 3 {
			time.Sleep(2 * time.Second) // until the parents are deleted
			var hs *lock.Holds
			w.wantCost("All.Lock", w.cost("a", func() { hs = w.lockAll(c, eight...) }), map[string]int{"multi": 1}, 1)
			var tokens []lock.Token
			for _, name := range eight {
				h := hs.Hold(name)
				w.alive(h)
				tokens = append(tokens, h.Token())
				equal(t, "czxid of the token", h.Token().Parts().Czxid, w.node(h.EntryPath()).Stat.Czxid)
			}
			equal(t, "different tokens", len(slices.Compact(tokens)), 1)
			w.wantCost("Unlock", w.cost("a", func() { w.unlockAll(hs) }), map[string]int{"multi": 1}, 1)
			equalAll(t, "nodes after Unlock", w.nodes(), []string{"/locks/a", "/locks/b"})
		}
		// If another client waits, the parent is not deleted.
		time.Sleep(2 * time.Second)
		hs := w.lockAll(c, "x", "y", "z")
		ch := w.queue(w.ctx, w.client("b"), "y")
		got := w.cost("a", func() { w.unlockAll(hs) })
		isTrue(t, got.total() == 2 && got.requests["multi"] == 2, "Unlock cost %v, want one transaction that was refused and one that was not", got.requests)
		w.unlock(w.expect(ch).hold)
	})
}

// TestAllOrNone: a client that waits for one of the locks holds none. It holds all once that lock
// is free. If its context ends, it leaves no entry.
func TestAllOrNone(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(b, "y")
		ctx := w.limited(3 * time.Second)
		_, err := a.All([]string{"z", "y", "x"}).Lock(ctx)
		mustBe(t, err, lock.ErrHeld, context.DeadlineExceeded)
		mustSay(t, err, `lock "y"`, h.EntryPath())
		settle()
		for _, name := range []string{"x", "z"} {
			w.hasEntries(name, 0)
		}
		fails(t, second(a.All([]string{"z", "y", "x"}).TryLock(w.ctx)), lock.ErrHeld, `lock "y"`)
		ch := w.queueAll(w.ctx, a, "z", "y", "x")
		for _, name := range []string{"x", "z"} {
			r := w.record(w.entries(name)[0].Path)
			isTrue(t, !r.Granted(), "the entry of %s tells a grant while y is waited for", name)
		}
		time.Sleep(4 * ttl) // its first entries at two of the locks are renewed
		w.waitsAll(ch)
		x := w.queue(w.ctx, b, "x")
		w.unlock(h)
		hs := w.expectAll(ch)
		w.waits(x)
		isTrue(t, hs.Remaining() != 0 && hs.Err() == nil && hs.Context().Err() == nil, "remaining %v, err %v", hs.Remaining(), hs.Err())
		w.unlockAll(hs)
		mustBe(t, context.Cause(hs.Context()), lock.ErrUnlocked)
		mustBe(t, hs.Err(), lock.ErrUnlocked)
		mustBe(t, hs.Unlock(), lock.ErrUnlocked)
		w.unlock(w.expect(x).hold)
		got, err := a.All([]string{"z", "y", "x"}).TryLock(w.ctx)
		w.ok(err)
		w.unlockAll(got)
		w.empty()
		lost, requeued := a.Stats().Lost, a.Stats().Requeued
		isTrue(t, lost+requeued <= 0, "%d lost, %d queued again", lost, requeued)
	})
}

// TestNamesOfSeveral: All and Any refuse bad names and options, and work with as many names as are allowed.
func TestNamesOfSeveral(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		many := make([]string, lock.MaxAll+1) // MaxAny is the same
		for i := range many {
			many[i] = fmt.Sprintf("many-%d", i)
		}
		for _, tt := range []struct {
			names []string
			ttl   time.Duration
			says  string
		}{
			{nil, ttl, "names (0 of them): must be 1 to 64"},
			{many, ttl, "names (65 of them): must be 1 to 64"},
			{[]string{"x", "y", "x"}, ttl, `names ["x" "y" "x"]: must differ: "x" stands there twice`},
			{[]string{"x", "/y"}, ttl, `"/y": must not start with a slash`},
			{[]string{"x"}, 1, "ttl 1ns: must be"},
		} {
			all, any := a.All(tt.names, lock.WithTTL(tt.ttl)), a.Any(tt.names, lock.WithTTL(tt.ttl))
			for _, err := range []error{
				all.Validate(), second(all.Lock(w.ctx)), second(all.TryLock(w.ctx)), any.Validate(), second(any.Lock(w.ctx)), second(any.TryLock(w.ctx)),
			} {
				fails(t, err, lock.ErrInvalid, tt.says)
			}
		}
		for _, err := range []error{second(new(lock.All).Lock(w.ctx)), second(new(lock.Any).Lock(w.ctx)), second(new(lock.Any).TryLock(w.ctx))} {
			fails(t, err, lock.ErrInvalid, "must come from a client")
		}

		mustBe(t, a.All([]string{"x"}).Do(w.ctx, nil), lock.ErrInvalid)

		w.unlockAll(w.lockAll(b, many[1:]...))
		var hs *lock.Holds
		w.wantCost("All.Lock of the most", w.cost("b", func() { hs = w.lockAll(b, many[1:]...) }), map[string]int{"multi": 1}, 1)
		isTrue(t, hs.Hold("x") == nil, "there is a hold of a lock that was not named")
		ch := w.queueAny(w.ctx, a, many[1:]...)
		w.unlock(hs.Hold("many-64"))
		w.unlock(w.isOf(w.expect(ch).hold, "many-64"))
		hs.Unlock() // returns an error, because one lock was unlocked before
		w.empty()
	})
}

// TestAllIsReentrant: a call with the context of Holds reenters any of the held locks. All.Lock of a
// held lock together with another one returns ErrInvalid.
func TestAllIsReentrant(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.client("a")
		err := c.All([]string{"x", "y", "z"}).Do(w.ctx, func(ctx context.Context) error {
			hs, err := c.All([]string{"z", "x"}).Lock(ctx)
			w.ok(err)
			w.unlock(w.takeIn(hs.Hold("x").Context(), c.Mutex("y").TryLock))
			w.unlockAll(hs)
			isTrue(t, len(w.entries("x")) == 1 && ctx.Err() == nil, "%d entries after the inner unlock, %v", len(w.entries("x")), ctx.Err())
			fails(t, second(c.All([]string{"x", "other"}).Lock(ctx)), lock.ErrInvalid, `"x"`, `"other"`, "deadlock")
			return nil
		})
		mustBe(w, err, nil)
		w.empty()
	})
}

// TestOneOfAllIsLost: if one of the locks is lost, the context of the Holds ends, and Err names the
// lock. The other holds last until they are unlocked.
func TestOneOfAllIsLost(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.client("a")
		hs := w.lockAll(c, "x", "y", "z")
		ctx := hs.Context()
		w.remove(w.raw("admin"), hs.Hold("y").EntryPath())
		<-ctx.Done()
		var lost *lock.LostError
		mustBe(t, context.Cause(ctx), lock.ErrRemoved)
		isTrue(t, errors.As(hs.Err(), &lost) && lost.Lock == "y", "%v does not tell that y was lost", hs.Err())
		isTrue(t, hs.Remaining() == 0 && hs.Hold("x").Remaining() != 0, "one was lost: all are not valid, and the others are each")
		err := hs.Unlock()
		mustBe(t, err, lock.ErrLost, lock.ErrRemoved)
		isTrue(t, !strings.Contains(err.Error(), `"x"`), "%v is about x too", err)
		w.empty()
	})
}

// TestMaxHoldOfAll: the max_hold of several locks counts from when all locks are held.
func TestMaxHoldOfAll(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(b, "y")
		ch := start(func() (*lock.Holds, error) {
			return a.All([]string{"x", "y"}, lock.WithMaxHold(ttl)).Lock(w.ctx)
		})
		time.Sleep(3*ttl - ttl/10)
		w.unlock(h)
		hs := w.expectAll(ch)
		begun := time.Now()
		<-hs.Context().Done()
		inRange(t, "lasted", time.Since(begun), ttl-time.Second, ttl)
		mustBe(t, hs.Err(), lock.ErrMaxHold)
		mustBe(t, hs.Unlock(), lock.ErrMaxHold)
		w.empty()
	})
}

// TestCounterOfOneOfAllNearItsEnd: while the sequence counter of one lock must restart, a waiter
// for several locks has no entry at the other lock. TryLock returns ErrHeld without waiting.
func TestCounterOfOneOfAllNearItsEnd(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(b, "y")
		w.ok(w.SetSequence("/locks/y", math.MaxInt32))
		mustBe(t, second(a.All([]string{"x", "y"}).TryLock(w.ctx)), lock.ErrHeld)
		ch := start(func() (*lock.Holds, error) { return a.All([]string{"x", "y"}).Lock(w.ctx) })
		time.Sleep(3 * time.Second)
		w.waitsAll(ch)
		w.hasEntries("x", 0)
		ctx := w.limited(time.Second)
		mustBe(t, second(a.Mutex("y").TryLock(ctx)), lock.ErrHeld)
		mustBe(t, ctx.Err(), nil)
		w.waitsAll(ch)
		w.unlock(h)
		time.Sleep(3 * time.Second)
		w.unlockAll(w.expectAll(ch))
		w.empty()
	})
}

// TestTryLockOfAllAtALaggingServer: TryLock of a free lock succeeds, even if the client's server
// lags behind and does not show the unlock yet.
func TestTryLockOfAllAtALaggingServer(t *testing.T) {
	for _, way := range []string{"try", "try several", "try to barge"} {
		subtest(t, way, locktest.Options{Members: 3}, func(w *world) {
			at, late, lag := w.behind("a")
			h := w.lock(at[0], "x")
			lag()
			w.unlock(h)
			got, err := ways[way](w.ctx, late)
			mustBeTrue(w, err == nil, "the lock is free: %v", err)
			w.ok(got.Unlock())
		})
	}
}

// TestAllTooLarge: MaxAll locks with the longest names and metadata fit into one transaction. If
// the ACL is long too, Lock returns ErrInvalid, because a server would end the connection at each
// attempt.
func TestAllTooLarge(t *testing.T) {
	each(t, "users", []int{1, 100}, func(w *world, users int) {
		acl := zk.WorldACL(zk.PermAll)
		for i := range users {
			acl = append(acl, zk.DigestACL(zk.PermAll, fmt.Sprint("user", i), "secret")...)
		}
		a := w.dial("a", lock.WithACL(acl...))
		names := make([]string, lock.MaxAll)
		for i := range names {
			names[i] = fmt.Sprintf("%03d%s", i, strings.Repeat("x", 509))
		}
		all := a.All(names, lock.WithMetadata(map[string]string{"k": strings.Repeat("v", 4095)}))
		hs, err := all.Lock(w.limited(ttl))
		if users > 1 {
			fails(w, err, lock.ErrInvalid, "names (64 of them)", "must be fewer", "at most 786432")
			mustBe(w, all.Validate(), err)
			return
		}
		w.ok(err)
		w.unlockAll(hs)
	})
}

// TestAmbiguousLockOfAll: the reply to the join of all locks, to the create of a guard, or to the join that
// deletes the guards, is lost, or the session ends. The client holds all locks with one entry each.
// After the unlock no node is left.
func TestAmbiguousLockOfAll(t *testing.T) {
	for _, tt := range []struct {
		what    string
		refused int32 // joins before
		filter  func(locktest.Request) bool
	}{{"join", 0, joins}, {"guard", 2, guards}, {"join with guards", 2, joins}} {
		t.Run(tt.what, func(t *testing.T) {
			eachMishap(t, "held", bools, func(w *world, held bool, i int) {
				a, b := w.client("a"), w.client("b")
				w.unlockAll(w.lockAll(a, "x", "y", "z"))
				all := a.All([]string{"x", "y", "z"})
				take, h := all.TryLock, (*lock.Hold)(nil)
				if held {
					take, h = all.Lock, w.lock(b, "y")
				}
				var hit atomic.Bool
				w.refuseJoins("a", tt.refused, func(r locktest.Request) locktest.Fault {
					if !tt.filter(r) || hit.Swap(true) {
						return locktest.Fault{}
					}
					if mishaps[i].also != nil {
						mishaps[i].also(w, "a")
					}
					return mishaps[i].fault
				})
				ch := start(func() (*lock.Holds, error) { return take(w.ctx) })
				w.until("the mishap", hit.Load)
				time.Sleep(ttl)
				if held {
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
		var hs *lock.Holds
		begun := time.Now()
		got := w.cost("a", func() { hs = w.lockAll(a, names...) })
		atMost(w, "All.Lock took", time.Since(begun), time.Second)
		atMost(w, "transactions of All.Lock, with the sample of the clock", got.requests["multi"], 3)
		w.unlockAll(hs)
	})
}

// TestAllAmongShortHolds: All.Lock of 32 locks is in the queues within a second, although other
// clients take and free each of them ten times a second, so that the parents come and go. Each of
// these locks alone can be acquired within milliseconds.
func TestAllAmongShortHolds(t *testing.T) {
	link := locktest.Options{Latency: func(string, string) time.Duration { return 5 * time.Millisecond }}
	simulate(t, link, func(w *world) {
		const clients = 48
		var all []string
		for i := range 32 {
			all = append(all, fmt.Sprintf("n%02d", i))
		}
		ctx, stop := context.WithCancel(w.ctx)
		var wg sync.WaitGroup
		var holds atomic.Int64
		for i := range clients {
			c := w.dial(fmt.Sprint("c", i))
			r := random(uint64(i), "all")
			wg.Go(func() {
				for ctx.Err() == nil {
					limited, cancel := context.WithTimeout(ctx, time.Second)
					h, err := c.Mutex(all[r.IntN(len(all))]).Lock(limited)
					cancel()
					if err == nil {
						time.Sleep(between(r, 0, 4*time.Millisecond))
						_ = h.Unlock()
						holds.Add(1)
					}
					time.Sleep(between(r, 0, 120*time.Millisecond))
				}
			})
		}
		time.Sleep(2 * time.Second)
		b := w.dial("b")
		begun, before := time.Now(), holds.Load()
		got := w.cost("b", func() {
			hs, err := b.All(all).Lock(w.limited(5 * time.Second))
			w.ok(err)
			took := time.Since(begun)
			w.Logf("in after %v; each lock was held %.1f times a second", took, float64(holds.Load()-before)/took.Seconds()/float64(len(all)))
			atMost(w, "time until All.Lock holds all", took, time.Second)
			w.unlockAll(hs)
		})
		w.Logf("%v", got.requests)
		atMost(w, "transactions of All.Lock, most of them guards", got.requests["multi"], 4*len(all))
		stop()
		wg.Wait()
		w.empty()
	})
}

// refuseJoins makes the server refuse the client's first joins, as if a parent had gone. then is called
// for each later request of the client. After two the client makes guards.
func (w *world) refuseJoins(label string, first int32, then func(locktest.Request) locktest.Fault) {
	var joined atomic.Int32
	w.Intercept(func(r locktest.Request) locktest.Fault {
		switch {
		case r.Label != label:
		case joined.Load() >= first:
			return then(r)
		case joins(r):
			joined.Add(1)
			return locktest.Fault{Code: codeNoNode, Op: 1}
		}
		return locktest.Fault{}
	})
}

// guards reports whether the request creates a guard: a transaction that touches a second anchor,
// and no entry.
func guards(r locktest.Request) bool {
	return strings.Count(strings.Join(r.Paths, " "), "/anchor-") >= 2 && !joins(r)
}

// TestGuardsBlockNoClient: while a client has guards, others acquire each of the locks without
// delay. If the client gives up, is closed, or dies, its guards are deleted, and no node stays.
func TestGuardsBlockNoClient(t *testing.T) {
	forEach(t, locktest.Options{}, map[string]func(w *world, a *lock.Client, giveUp func()){
		"gives up": func(_ *world, _ *lock.Client, giveUp func()) { giveUp() },
		"closes":   func(w *world, a *lock.Client, _ func()) { mustBe(w, a.Close(), nil) },
		"dies": func(w *world, _ *lock.Client, _ func()) {
			w.kill("a")
			w.ExpireLabel("a")
			w.Intercept(nil)
		},
	}, func(w *world, end func(w *world, a *lock.Client, giveUp func())) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(b, "y")
		w.refuseJoins("a", 2, func(r locktest.Request) locktest.Fault {
			if joins(r) {
				return locktest.Fault{Code: codeNoNode, Op: 1}
			}
			return locktest.Fault{}
		})
		ctx, giveUp := context.WithCancel(w.ctx)
		defer giveUp()
		ch := start(func() (*lock.Holds, error) { return a.All([]string{"x", "y", "z"}).Lock(ctx) })
		w.until("there are guards", func() bool { return len(w.anchors("x"))*len(w.anchors("y"))*len(w.anchors("z")) == 8 })
		w.unlock(h)
		for _, name := range []string{"x", "y", "z"} {
			begun := time.Now()
			h := w.lock(b, name)
			atMost(w, "time that a guard delays a join", time.Since(begun), grace)
			w.unlock(h)
			settle()
			equal(w, "anchors of "+name, len(w.anchors(name)), 2)
		}
		end(w, a, giveUp)
		time.Sleep(ttl)
		for _, name := range []string{"x", "y", "z"} { // of a dead client, the next use of the lock deletes the parent
			w.unlock(w.lock(b, name))
		}
		w.empty()
		w.Heal("a")
		w.Intercept(nil)
		giveUp()
		<-ch
	})
}

// TestGuardsAreRefused: a server that makes no ephemeral nodes for a session, as one with local
// sessions, does not keep All.Lock from the locks.
func TestGuardsAreRefused(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const codeEphemeralOnLocalSession = -120
		a := w.client("a")
		var refused atomic.Int32
		w.refuseJoins("a", 2, func(r locktest.Request) locktest.Fault {
			if guards(r) {
				refused.Add(1)
				return locktest.Fault{Code: codeEphemeralOnLocalSession, Op: len(r.Paths) - 1}
			}
			return locktest.Fault{}
		})
		hs := w.lockAll(a, "x", "y")
		isTrue(w, refused.Load() > 0, "no guard was refused")
		w.soleAll(hs)
		w.unlockAll(hs)
		w.empty()
	})
}

// TestGuardedParentIsForeign: no guard is created below another program's node, and All.Lock fails.
func TestGuardedParentIsForeign(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.client("a"), w.raw("other")
		w.unlock(w.lock(a, "x"))
		var once sync.Once
		w.refuseJoins("a", 2, func(r locktest.Request) locktest.Fault {
			once.Do(func() { go z.Create("/locks/y", []byte("something"), 0, zk.WorldACL(zk.PermAll)) })
			return locktest.Fault{}
		})
		fails(w, second(a.All([]string{"x", "y"}).Lock(w.ctx)), lock.ErrForeign, `lock "y"`)
		time.Sleep(5 * time.Second)
		equalAll(w, "left behind", w.nodes(), []string{"/locks/y"})
	})
}
