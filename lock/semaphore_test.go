// Semaphores: numbers of permits, resizes, cost; lagging servers, dead and unreadable holders. The order
// among contenders is in TestOrder.

package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// sem returns the semaphore "x" of a new client.
func (w *world) sem(label string, permits int) *lock.Semaphore {
	w.Helper()
	return w.client(label).Semaphore("x", permits)
}

// TestPermitsMustAgree: while a semaphore is in use, a client that passes another number of permits
// gets ErrPermits, and a mutex of the same name ErrKind. After a Resize, the number before it is accepted,
// too. A request must be for 1 to all permits. Each Acquire takes its own, even with the context of a hold.
func TestPermitsMustAgree(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.take(permits(a.Semaphore("x", 4), 1))
		for _, c := range []*lock.Client{a, b} {
			for _, take := range []taking{permits(c.Semaphore("x", 3), 1), tryPermits(c.Semaphore("x", 3), 1)} {
				fails(t, second(take(w.ctx)), lock.ErrPermits, `"x"`, "has 4", "one of 3", "Resize")
			}
			mustBe(t, c.Semaphore("x", 3).Resize(w.ctx, 2), lock.ErrPermits)
			mustBe(t, second(c.Mutex("x").Lock(w.ctx)), lock.ErrKind)
		}
		isTrue(t, w.parent("x").Kind == znode.Semaphore && w.anchor("x").Permits == 4, "the anchor is %+v", w.anchor("x"))
		for _, n := range []int{-1, 0, 5} {
			fails(t, second(a.Semaphore("x", 4).Acquire(w.ctx, n)), lock.ErrInvalid, fmt.Sprint(n))
		}
		for _, n := range []int{-1, 0, lock.MaxPermits + 1} {
			mustBe(t, second(a.Semaphore("x", n).Acquire(w.ctx, 1)), lock.ErrInvalid)
			mustBe(t, a.Semaphore("x", 4).Resize(w.ctx, n), lock.ErrInvalid)
		}
		w.ok(a.Semaphore("x", 4).Resize(w.ctx, 3))
		isTrue(t, w.anchor("x").Permits == 4 && w.anchor("x").Resized == 3, "the anchor is %+v", w.anchor("x"))
		for said, want := range map[int]error{4: lock.ErrHeld, 3: lock.ErrHeld, 2: lock.ErrPermits, 5: lock.ErrPermits} {
			s := b.Semaphore("x", said)
			mustBe(t, second(s.TryAcquire(w.ctx, min(said, 3))), want)
			if want != lock.ErrHeld {
				mustBe(t, second(s.Acquire(w.ctx, 1)), want)
				mustBe(t, s.Resize(w.ctx, 5), want)
			}
		}
		w.finish(h)
		w.unlock(w.take(permits(b.Semaphore("x", 3), 3))) // a free semaphore takes any number
		w.empty()

		two := a.Semaphore("x", 2)
		mustBe(w, two.Do(w.ctx, 1, func(ctx context.Context) error {
			return two.Do(ctx, 1, func(ctx context.Context) error {
				mustBe(t, second(two.TryAcquire(ctx, 1)), lock.ErrHeld)
				w.hasEntries("x", 2)
				return nil
			})
		}), nil)
		w.empty()
	})
}

// TestResizeOnALaggingServer: the server of the client that resizes does not know the previous change.
func TestResizeOnALaggingServer(t *testing.T) {
	simulate(t, locktest.Options{Members: 3}, func(w *world) {
		at, late, lag := w.behind("a")
		a, b := at[0].Semaphore("x", 4), late.Semaphore("x", 4)
		holds := []*lock.Hold{w.take(permits(a, 1)), w.take(permits(b, 1))}
		lag()
		w.ok(a.Resize(w.ctx, 2))
		w.ok(b.Resize(w.ctx, 4))
		equal(t, "permits", w.anchor("x").Capacity(), 4)
		w.finish(holds...)
	})
}

// TestTryOfManyPermits: if 64 permits are held by as many clients, a failed try costs at most 25
// requests and no transaction.
func TestTryOfManyPermits(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		for i := range 64 {
			w.join("x", permits(w.sem(fmt.Sprint("h", i), 64), 1))
		}
		s := w.sem("a", 64)
		got := w.cost("a", func() { mustBe(w, second(s.TryAcquire(w.ctx, 1)), lock.ErrHeld) })
		isTrue(w, got.total() <= 25 && got.txns <= 0, "a try that fails cost %v", got.requests)
	})
}

// TestPermitsAreUsed: while clients wait, at least three quarters of the permits are held on
// average if all holds last 20 ms, and three fifths if their lengths are random. The clients never
// hold more permits than there are. A grant costs at most the requests of the table.
func TestPermitsAreUsed(t *testing.T) {
	const hold = 20 * time.Millisecond
	for _, tt := range []struct {
		permits, clients int
		varies           bool
		least, requests  float64
	}{{4, 32, false, 0.75, 13}, {16, 32, false, 0.75, 10}, {64, 128, false, 0.75, 10}, {64, 128, true, 0.6, 14}} {
		subtest(t, fmt.Sprintf("%d permits, %d clients, varies %t", tt.permits, tt.clients, tt.varies), locktest.Options{Latency: func(string, string) time.Duration { return time.Millisecond / 2 }}, func(w *world) {
			ctx, stop := context.WithCancel(w.ctx)
			var held, most, grants atomic.Int64
			var clients sync.WaitGroup
			for i := range tt.clients {
				s, random := w.sem(fmt.Sprint("c", i), tt.permits), rand.New(rand.NewPCG(uint64(i), 1))
				clients.Go(func() {
					for {
						h, err := s.Acquire(ctx, 1)
						if err != nil {
							return
						}
						grants.Add(1)
						most.Store(max(most.Load(), held.Add(1)))
						length := 1.0
						if tt.varies {
							length = random.ExpFloat64()
						}
						time.Sleep(time.Duration(length * float64(hold)))
						held.Add(-1)
						h.Unlock()
					}
				})
			}
			time.Sleep(400 * time.Millisecond)
			before, begun := w.totals(), grants.Load()
			sum, samples := int64(0), 400
			for range samples {
				time.Sleep(time.Millisecond)
				sum += held.Load()
			}
			after, total := w.totals(), 0
			for op := range after {
				total += after[op] - before[op]
			}
			requests := float64(total) / float64(grants.Load()-begun)
			stop()
			clients.Wait()
			average := float64(sum) / float64(samples)
			w.Logf("%d permits: %.1f held on average, %d at most, %.1f requests for each grant", tt.permits, average, most.Load(), requests)
			isTrue(w, average >= tt.least*float64(tt.permits) && most.Load() <= int64(tt.permits), "%.1f held on average, and %d at most", average, most.Load())
			isTrue(w, requests <= tt.requests, "%.1f requests for each grant, want at most %v", requests, tt.requests)
			w.empty()
		})
	}
}

// TestManyPermitsAtOnce: goroutines of two clients take all of 1,500 permits within half a second, 10 ms a
// round trip, and keep them. Joins to one semaphore share transactions.
func TestManyPermitsAtOnce(t *testing.T) {
	const n = 1500
	simulate(t, link(10*time.Millisecond), func(w *world) {
		each := []*lock.Semaphore{w.client("a").Semaphore("x", n), w.client("b").Semaphore("x", n)}
		var holds [n]*lock.Hold
		begun, before := time.Now(), w.Transactions()
		inEach(n, func(i int) { holds[i] = w.take(permits(each[i%2], 1)) })
		atMost(w, "time to take all", time.Since(begun), time.Second/2)
		atMost(w, "transactions to take all", w.Transactions()-before, n/10)
		time.Sleep(2 * ttl)
		for _, h := range holds {
			mustBe(w, h.Err(), nil)
		}
		inEach(n, func(i int) { w.unlock(holds[i]) })
		w.empty()
	})
}

// TestFreePermitsAreNotListed: as long as each contender asks for one permit, an Acquire of a free one
// lists nothing, however many clients hold others. The first that asks for several is counted as
// several, also by a client that knew the semaphore before. In a new session a client reads the anchor
// anew: the servers may have lost data.
func TestFreePermitsAreNotListed(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const n = 20
		var holds []*lock.Hold
		for i := range n {
			holds = append(holds, w.take(permits(w.sem(fmt.Sprint("q", i), n), 1)))
		}
		equal(w, "lists", w.totals()["getChildren2"], 0)
		for range 3 {
			w.unlock(holds[len(holds)-1])
			holds = holds[:len(holds)-1]
		}
		var reads atomic.Int32 // of the anchor
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Label == "again" && r.Op == "getData" && touches(r, "anchor-") {
				reads.Add(1)
			}
			return locktest.Fault{}
		})
		again := w.sem("again", n)
		one := w.take(permits(again, 1))
		w.unlock(w.take(permits(again, 1)))
		equal(w, "reads", reads.Load(), 1)
		w.ExpireLabel("again")
		time.Sleep(ttl)
		w.unlock(one, w.take(permits(again, 1)))
		equal(w, "reads", reads.Load(), 2)
		equal(w, "lists", w.totals()["getChildren2"], 0)
		many := w.take(permits(w.sem("many", n), 3))
		ch := w.join("x", permits(again, 1))
		w.waits(ch)
		w.unlock(many)
		w.finish(append(holds, w.inTime(ch, time.Second))...)
	})
}

// TestAnchorOfAnotherSession: the servers have lost data between two sessions of a client, unseen, and the
// anchor's version recurs with other data: not all contenders ask for one permit. A goroutine's entry is
// exchanged in the new session without a read of the anchor. The next one still reads it, and is not let in
// by the number of contenders.
func TestAnchorOfAnotherSession(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const n = 6
		a, b, c, z := w.client("a"), w.sem("b", n), w.sem("c", n), w.raw("other")
		s, longer := a.Semaphore("x", n), a.Semaphore("x", n, lock.WithTTL(2*ttl)) // they share no entries
		var holds []*lock.Hold
		for range n {
			holds = append(holds, w.take(permits(s, 1)))
		}
		w.ExpireLabel("a")
		w.ok(holds[0].Extend(w.ctx, ttl)) // so that it can be exchanged
		anchor := w.anchors("x")[0]
		_, err := z.Multi(
			&zk.DeleteRequest{Path: anchor, Version: -1},
			&zk.CreateRequest{Path: anchor, Data: znode.AnchorData{Permits: n}.Encode(), Acl: zk.WorldACL(zk.PermAll)},
			&zk.SetDataRequest{Path: "/locks/x", Data: w.node("/locks/x").Data, Version: -1})
		w.ok(err)
		three, one := w.join("x", permits(b, 3)), w.join("x", permits(c, 1))
		next := start(func() (*lock.Hold, error) { return s.Acquire(w.ctx, 1) })
		w.waits(next)
		w.unlock(holds[0])
		w.waits(next)
		w.hasEntries("x", n+2)
		w.unlock(holds[2], holds[4], holds[5]) // neither is what the exchanged entry watches
		last := start(func() (*lock.Hold, error) { return longer.Acquire(w.ctx, 1) })
		h := []*lock.Hold{w.await(three).hold, w.await(one).hold}
		w.waits(next, last)
		w.unlock(h...)
		w.finish(holds[1], holds[3], w.await(next).hold, w.await(last).hold)
	})
}

// TestExchangesInANewSession: of two goroutines' entries that are exchanged in a new session, the first one
// lists, and reads the anchor with that.
func TestExchangesInANewSession(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		s := w.sem("a", 2)
		holds := []*lock.Hold{w.take(permits(s, 1)), w.take(permits(s, 1))}
		w.ExpireLabel("a")
		for _, h := range holds {
			w.ok(h.Extend(w.ctx, ttl)) // so that it can be exchanged
		}
		var next []*lock.Hold
		for _, h := range holds {
			ch := start(func() (*lock.Hold, error) { return s.Acquire(w.ctx, 1) })
			w.waits(ch)
			w.unlock(h)
			next = append(next, w.expect(ch).hold)
			equal(w, "lists", w.totals()["getChildren2"], 1)
		}
		w.finish(next...)
	})
}

// TestGoroutinesJoinWhileThereIsRoom: of many goroutines that ask for permits, as many join as fit, and one
// more, which waits for the others, too: a client does not fill the queue.
func TestGoroutinesJoinWhileThereIsRoom(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const n, free = 10, 2
		a, b := w.sem("a", n), w.sem("b", n)
		var holds []*lock.Hold
		for range n - free {
			holds = append(holds, w.take(permits(b, 1)))
		}
		var waiting []<-chan taken
		for range n {
			waiting = append(waiting, start(func() (*lock.Hold, error) { return a.Acquire(w.ctx, 1) }))
		}
		settle()
		w.hasEntries("x", n+1)
		w.unlock(holds...)
		for _, ch := range waiting {
			w.unlock(w.await(ch).hold)
		}
		w.empty()
	})
}

// TestAnchorDeletedByHand: after the anchor of a semaphore was deleted by hand, the next client makes one that
// does not say single: an older entry may ask for several permits.
func TestAnchorDeletedByHand(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.sem("a", 4), w.sem("b", 4), w.sem("c", 4)
		three := w.take(permits(a, 3))
		w.remove(w.raw("other"), w.anchors("x")[0])
		one := w.take(permits(b, 1))
		ch := w.join("x", permits(c, 1))
		w.waits(ch)
		w.unlock(three)
		w.unlock(one, w.await(ch).hold)
	})
}

// TestWaitersForPermitsList: when a client joins, only the first waiter lists. While no permit is
// released, the first waiter lists once in ten TTLs for each holder, and a few times more behind many.
func TestWaitersForPermitsList(t *testing.T) {
	each(t, "queue", []struct{ permits, clients, ask, most int }{{4, 40, 1, 4}, {4, 40, 3, 4}, {20, 40, 1, 4*10 + 4}}, func(w *world, tt struct{ permits, clients, ask, most int }) {
		for i := range tt.clients {
			w.join("x", permits(w.sem(fmt.Sprint("q", i), tt.permits), tt.ask))
		}
		time.Sleep(ttl)
		joined := w.totals()["getChildren2"]
		atMost(w, "lists while they join", joined, tt.clients+tt.permits)
		time.Sleep(10 * ttl)
		atMost(w, "lists while they wait", w.totals()["getChildren2"]-joined, tt.most)
	})
}

// TestRaiseBehindFewAndMany: the first waiter enters within a second after a raise, behind one
// holder and behind 20.
func TestRaiseBehindFewAndMany(t *testing.T) {
	each(t, "n", []int{1, 20}, func(w *world, n int) {
		a, b, c := w.dial("a").Semaphore("x", n), w.dial("b").Semaphore("x", n), w.dial("c").Semaphore("x", n)
		for range 2 { // then the parent stays, and the record of a lone holder does not show the grant at once
			w.unlock(w.take(permits(a, 1)))
		}
		var holds []*lock.Hold
		for range n {
			holds = append(holds, w.take(permits(a, 1)))
		}
		ch := w.join("x", permits(b, 1))
		time.Sleep(100 * time.Millisecond)
		w.ok(c.Resize(w.ctx, n+1))
		holds = append(holds, w.inTime(ch, time.Second))
		w.finish(holds...)
	})
}

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
		isTrue(w, n == 0 && len(w.Dump(h.EntryPath())) != 0, "purged %d before its own entry was written", n)
		equal(w, "session", b.Session(), session)
		w.Intercept(nil)
		if waits.foreign {
			w.until("the dead one is purged", func() bool { return len(w.Dump(h.EntryPath())) == 0 })
			w.remove(z, theirs)
		}
		got := w.await(ch)
		w.inTurn(ended, got)
		w.Heal("a")
		w.finish(got.hold)
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
			case looks.Load() && touches(r, h.EntryPath()) && !begun.Swap(true):
				version = w.node(own).Stat.Version
				w.ExpireLabel("b")
				return locktest.Fault{Drop: locktest.BeforeApply}
			case lags && touches(r, h.EntryPath()):
				hidden.Store(true)
				return locktest.Fault{Code: codeNoNode}
			case hidden.Load() && w.node(own).Stat.Version == version:
				return locktest.Fault{Code: codeThrottled}
			}
			return locktest.Fault{}
		})
		if looks.Store(!purges); purges { // without a purge, a renewal makes the waiter list
			w.kill("dead")
			w.until("the dead one is purged", func() bool { return len(w.Dump(dead.EntryPath())) == 0 })
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

// TestLoweringThatComesTooLate: before a lowering writes the number, its entry is deleted, or the number
// is raised, and another client takes the permits. The lowering does not return before as many permits
// are free as it removes.
func TestLoweringThatComesTooLate(t *testing.T) {
	const deleted, raised, raisedEarlier = "its entry is deleted", "raised", "raised before it reads the number that it writes"
	each(t, "when", []string{deleted, raised, raisedEarlier}, func(w *world, when string) {
		lowers, raises, holder, z := w.sem("a", 4), w.sem("b", 4), w.sem("c", 4), w.raw("other")
		holds := []*lock.Hold{w.take(permits(holder, 2))}
		hit := w.before(func(r locktest.Request) bool {
			if when == raisedEarlier {
				return r.Label == "a" && r.Op == "getData" && r.Paths[0] == "/locks/x" && len(w.entries("x")) == 2
			}
			return r.Label == "a" && r.Op == "multi" && len(r.Paths) == 2 && touches(r, "/anchor-") && touches(r, "-lock-")
		}, func() {
			if when == deleted {
				w.remove(z, w.entries("x")[1].Path)
			} else {
				w.ok(raises.Resize(w.ctx, 6))
			}
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
// costs about one read of each living holder in the time of its lease. The waiter's own lease does not count.
func TestDeadHolderAmongMany(t *testing.T) {
	long := strings.Repeat("n", 500) // so that a waiter reads few holders at a time
	for title, tt := range map[string]struct {
		name    string
		holders int
		before  func(w *world, living []*lock.Hold, dead *lock.Hold) // before the waiter comes
		after   func(w *world, living []*lock.Hold, dead *lock.Hold) // after the waiter has read all holders
		slack   time.Duration
		lease   time.Duration // the waiter's
	}{
		"hundred":                       {"x", 100, nil, nil, ttl * 6 / 10, ttl},
		"few, and the waiter's longer":  {"x", 2, nil, nil, time.Second, time.Hour},
		"many, and the waiter's longer": {"x", 40, nil, nil, time.Second, time.Hour},
		"its lease was longer before": {"x", 20, func(w *world, _ []*lock.Hold, dead *lock.Hold) {
			w.ok(dead.Extend(w.ctx, 20*ttl))
		}, func(w *world, _ []*lock.Hold, dead *lock.Hold) {
			w.ok(dead.Extend(w.ctx, ttl))
		}, 3 * ttl / 2, ttl},
		"another dead one cannot be deleted": {"x", 20, func(w *world, _ []*lock.Hold, _ *lock.Hold) {
			poison := w.take(permits(w.sem("poison", 20), 1))
			w.create(w.raw("other"), poison.EntryPath()+"/child", "", 0)
			w.kill("poison")
		}, nil, ttl, ttl}, // the waiter pauses after each refused purge
		"others are hidden": {long, 31, func(w *world, living []*lock.Hold, _ *lock.Hold) {
			for _, h := range living {
				_, err := w.raw("other").SetACL(h.EntryPath(), zk.WorldACL(zk.PermWrite|zk.PermDelete), -1)
				w.ok(err)
			}
		}, nil, ttl * 6 / 10, ttl},
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
			next := w.join(tt.name, permits(w.dial("next").Semaphore(tt.name, tt.holders, lock.WithTTL(tt.lease)), 1))
			reads := w.faults(func(r locktest.Request) bool { return r.Label == "next" && r.Op == "getData" }, locktest.Fault{})
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

// TestTryThatLosesARace: another client takes the last free permit just before a try joins. The try has the
// permit of a dead holder, and otherwise names one of the holders.
func TestTryThatLosesARace(t *testing.T) {
	each(t, "dead", bools, func(w *world, dies bool) {
		b, other := w.sem("b", 2), w.sem("other", 2)
		holds := []*lock.Hold{w.take(permits(w.sem("first", 2), 1))}
		if dies {
			w.kill("first")
			time.Sleep(2 * ttl)
			holds = nil
		}
		w.before(func(r locktest.Request) bool { return r.Label == "b" && joins(r) }, func() {
			holds = append(holds, w.take(permits(other, 1)))
		})
		h, err := b.TryAcquire(w.ctx, 1)
		if dies {
			w.ok(err)
			holds = append(holds, h)
		} else {
			fails(w, err, lock.ErrHeld, "whose lease ends at")
		}
		w.Heal("first")
		w.finish(holds...)
	})
}

// TestTryAcquireBehindManyDeadHolders: a try has the permits of dead holders once their leases and the
// grace are over, with no waiter and no reaper: at once if most of the holders are dead, and in the end if
// few of many are. A try reads 16 at random, so it misses the last dead one of 191 with 1 - 16/191, and the
// last row needs more than 300 tries once in 10^10 runs.
func TestTryAcquireBehindManyDeadHolders(t *testing.T) {
	type row struct{ living, dead, tries int }
	each(t, "of", []row{{0, 40, 1}, {10, 30, 2}, {190, 10, 300}}, func(w *world, tt row) {
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
