package lock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// barge waits for a lock in the background without a place in the queue.
func (w *world) barge(ctx context.Context, c *lock.Client, name string) <-chan taken {
	w.Helper()
	ch := start(func() (*lock.Hold, error) { return c.Mutex(name, lock.WithBarging()).Lock(ctx) })
	settle()
	return ch
}

// TestBargingWritesNothingWhileItWaits: a free lock costs one request, and one that is
// held a transaction that fails and three reads, until it is free.
func TestBargingWritesNothingWhileItWaits(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(a, "x"))
		w.unlock(w.lock(b, "y"))
		time.Sleep(time.Second)
		var h *lock.Hold
		w.wantCost("Lock", w.cost("a", func() { h = w.lock(a, "x", lock.WithBarging()) }), map[string]int{"multi": 1}, 1)
		waiting, give := context.WithCancel(w.ctx)
		var ch <-chan taken
		w.wantCost("to wait", w.cost("b", func() { ch = w.barge(waiting, b, "x") }),
			map[string]int{"multi": 1, "getData": 2, "getChildren2": 1}, 1) // a try that fails
		w.waits(ch)
		if n := len(w.entries("x")); n != 1 {
			t.Errorf("%d entries, want the holder's", n)
		}
		give()
		got := w.outcome(ch)
		mustBe(t, got.err, lock.ErrHeld, context.Canceled)
		mustSay(t, got.err, h.EntryPath())

		ended := w.end(h)
		ch = w.barge(w.ctx, b, "x")
		w.unlock(h)
		next := w.expect(ch)
		w.inTurn(ended, next)
		w.unlock(next.hold)
		w.empty()
	})
}

// TestBargingGoesBehindTheQueue: the lock is not free while somebody queues for it.
func TestBargingGoesBehindTheQueue(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.lock(w.dial("a"), "x")
		barges := w.barge(w.ctx, w.dial("b"), "x")
		queues := w.queue(w.ctx, w.dial("c"), "x")
		w.unlock(h)
		next := w.expect(queues)
		w.waits(barges)
		ended := w.end(next.hold)
		w.unlock(next.hold)
		last := w.expect(barges)
		w.inTurn(ended, last)
		w.unlock(last.hold)
		w.empty()
	})
}

// TestBargingOutlivesTheDead: a dead holder blocks for TTL and grace.
func TestBargingOutlivesTheDead(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.lock(w.dial("a"), "x")
		ended := w.end(h)
		ch := w.barge(w.ctx, w.dial("b"), "x")
		d := w.die("a", h.EntryPath())
		got := w.await(ch)
		w.inTurn(ended, got)
		w.purged(d, got.at, 0, 50*time.Millisecond)
		w.unlock(got.hold)
		w.empty()
	})
}

// TestBargingTogether: many goroutines of several clients, of which each gets the lock
// once. Of those of one client only one asks at a time.
func TestBargingTogether(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const clients, each = 4, 25
		var mu sync.Mutex
		holder, had := "", 0
		h := w.lock(w.dial("holder"), "x")
		var all sync.WaitGroup
		for i := range clients {
			c := w.dial(fmt.Sprint("c", i))
			for j := range each {
				all.Go(func() {
					err := c.Mutex("x", lock.WithBarging()).Do(w.ctx, func(ctx context.Context) error {
						mu.Lock()
						defer mu.Unlock()
						if holder != "" {
							t.Errorf("%s and %d/%d hold the lock", holder, i, j)
						}
						holder = fmt.Sprint(i, "/", j)
						mu.Unlock()
						time.Sleep(time.Millisecond)
						mu.Lock()
						holder = ""
						had++
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		settle()
		if n := len(w.entries("x")); n != 1 {
			t.Errorf("%d entries while all but the holder wait", n)
		}
		if n := w.Requests()["c0"].Requests["getData"]; n > 4 {
			t.Errorf("%d reads for %d that wait", n, each)
		}
		highest := h.Token()
		w.unlock(h)
		all.Wait()
		last := w.lock(w.dial("last"), "x")
		if last.Token().Compare(highest) <= 0 || had != clients*each {
			t.Errorf("had %d times; token %v after %v", had, last.Token(), highest)
		}
		w.unlock(last)
		time.Sleep(time.Second)
		w.empty()
	})
}

// TestBargingBesideOthersNodes: a child that is no contender keeps nobody out, and one
// that may not be read is waited for, both without a request every moment.
func TestBargingBesideOthersNodes(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		h := w.lock(a, "x")
		w.create(z, "/locks/x/other", "", 0)
		b := w.dial("b")
		ch := w.barge(w.ctx, b, "x")
		w.waits(ch)
		w.unlock(h)
		w.unlock(w.await(ch).hold)

		stays := "/locks/x/0123456789abcdef-lock-0000000000"
		for _, acl := range [][]zk.ACL{zk.WorldACL(zk.PermAll), zk.DigestACL(zk.PermAll, "somebody", "else")} {
			if _, err := z.Create(stays, []byte("what nobody can read"), 0, acl); err != nil {
				t.Fatal(err)
			}
			limited, cancel := context.WithTimeout(w.ctx, 10*time.Second)
			cost := w.cost("b", func() {
				_, err := b.Mutex("x", lock.WithBarging()).Lock(limited)
				mustBe(t, err, lock.ErrHeld, context.DeadlineExceeded)
				mustSay(t, err, stays)
			})
			cancel()
			if n := cost.total(); n > 40 {
				t.Errorf("%d requests in 10 s to wait for one who stays", n)
			}
			w.remove(z, stays)
		}
		w.remove(z, "/locks/x/other")
		w.unlock(w.lock(b, "x"))
		w.empty()
	})
}

// TestBargingAtWhatIsKeptAgain: who barges has what nobody holds given back each time, also if
// its entry tells no grant yet: the first time at once, and then after a second at most.
func TestBargingAtWhatIsKeptAgain(t *testing.T) {
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprint("grant told ", told), func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a, b := w.dial("a", riding(time.Hour)), w.dial("b")
				w.unlock(w.lock(b, "y"))
				w.create(w.raw("other"), "/locks/x", "", 0) // who makes the parent tells its grant at once
				for round := range 3 {
					w.unlock(w.lock(a, "x"))
					if told {
						time.Sleep(ttl / 2)
					}
					settle()
					if r := w.record(w.entries("x")[0].Path); r.Granted() != told {
						t.Errorf("it tells a grant: %v", r.Granted())
					}
					begun := time.Now()
					got := w.await(w.barge(w.ctx, b, "x"))
					if took := time.Since(begun); took > time.Second || round == 0 && took > 100*time.Millisecond {
						t.Errorf("round %d: nobody holds the lock, and it is had after %v", round, took)
					}
					w.unlock(got.hold)
					settle()
				}
			})
		})
	}
}

// TestBargingAsksEverMoreRarely: for an entry that is held, and may be kept later, first each
// second, and in the end once in a TTL; so it is not later had than that of a dead holder.
func TestBargingAsksEverMoreRarely(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a", riding(time.Hour)), w.dial("b")
		h := w.lock(a, "x")
		ch := w.barge(w.ctx, b, "x")
		asked := func(d time.Duration) int { return w.cost("b", func() { time.Sleep(d) }).requests["delete"] }
		if n := asked(6 * time.Second); n != 3 { // just now, after a second, and two more
			t.Errorf("asked %d times at first", n)
		}
		asked(20 * time.Second)
		if n := asked(20 * ttl); n != 20 {
			t.Errorf("asked %d times in 20 TTLs", n)
		}
		w.waits(ch)
		begun := time.Now()
		w.unlock(h)
		got := w.await(ch)
		if took := time.Since(begun); took > ttl {
			t.Errorf("nobody holds the lock, and it is had after %v", took)
		}
		w.unlock(got.hold)
		w.empty()
	})
}
