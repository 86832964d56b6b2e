// WithBarging: waiting without an entry in the queue.

package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestBargingWritesNothingWhileItWaits: while barging callers wait, their client writes nothing,
// and each caller has one waiting event. If a caller gives up, its error names the holder's entry.
func TestBargingWritesNothingWhileItWaits(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		var o observed
		a, b := w.client("a"), w.client("b", lock.WithObserver(&o))
		w.unlock(w.lock(a, "x"))
		w.unlock(w.lock(b, "y"))
		time.Sleep(2 * time.Second)
		o.take()
		var h *lock.Hold
		w.wantCost("Lock", w.cost("a", func() { h = w.take(a.Mutex("x").WithBarging().Lock) }), map[string]int{"sync": 1, "getChildren2": 1, "multi": 1}, 1)
		first, giveFirst := context.WithCancel(w.ctx)
		second, giveSecond := context.WithCancel(w.ctx)
		waiting := make([]<-chan taken, 2)
		w.wantCost("to wait", w.cost("b", func() { waiting[0] = w.barge(first, b, "x") }),
			map[string]int{"sync": 1, "getChildren2": 2, "getData": 3}, 0)
		w.wantCost("to wait behind another goroutine", w.cost("b", func() { waiting[1] = w.barge(second, b, "x") }), map[string]int{}, 0)
		w.says(&o, "waiting x, waiting x")
		w.hasEntries("x", 1)
		giveFirst()
		giveSecond()
		for _, ch := range waiting {
			got := w.outcome(ch)
			mustBe(t, got.err, lock.ErrHeld, context.Canceled)
			mustSay(t, got.err, h.EntryPath())
		}
		w.says(&o, "withdrawn x, withdrawn x")

		ended := w.end(h)
		ch := w.barge(w.ctx, b, "x")
		for range 3 { // other waiters join and give up
			ctx, cancel := context.WithCancel(w.ctx)
			w.queue(ctx, a, "x")
			cancel()
			settle()
		}
		w.says(&o, "waiting x")
		w.unlock(h)
		next := w.await(ch)
		w.inTurn(ended, next)
		w.says(&o, "acquired x")
		w.finish(next.hold)
	})
}

// TestBargingByItsOwnClock: an ACL forbids the client to sample the leader's clock. Behind two dead
// contenders it still gets the lock, once each has stayed unwritten for its TTL and the grace.
func TestBargingByItsOwnClock(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a"), w.dial("b"), w.dial("c")
		w.lock(a, "d/x")
		w.join("d/x", func(context.Context) (*lock.Hold, error) { return b.Mutex("d/x").Lock(w.limited(4 * ttl)) })
		w.setACL(w.raw("admin"), lock.DefaultRoot, zk.WorldACL(zk.PermRead))
		w.kill("a")
		w.kill("b")
		ch := w.barge(w.ctx, c, "d/x")
		time.Sleep(3 * ttl)
		w.unlock(w.expect(ch).hold)
	})
}

// TestBargingBesideOthersNodes: a child that is no contender blocks no client. A damaged or
// unreadable entry blocks, and a barging client that waits for it sends at most 60 requests in ten
// seconds.
func TestBargingBesideOthersNodes(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.client("a"), w.raw("other")
		h := w.lock(a, "x")
		w.create(z, "/locks/x/other", "", 0)
		b := w.client("b")
		ch := w.barge(w.ctx, b, "x")
		w.waits(ch)
		w.inOrder(h, ch)

		stays := "/locks/x/0123456789abcdef-lock-0000000000"
		for _, acl := range [][]zk.ACL{zk.WorldACL(zk.PermAll), zk.DigestACL(zk.PermAll, "another", "password")} {
			w.ok(second(z.Create(stays, []byte("no record"), 0, acl)))
			limited := w.limited(10 * time.Second)
			cost := w.cost("b", func() {
				_, err := b.Mutex("x").WithBarging().Lock(limited)
				mustBe(t, err, lock.ErrHeld, context.DeadlineExceeded)
				mustSay(t, err, stays)
			})
			if n := cost.total(); n > 60 { // the waiter reads an unreadable entry each second
				t.Errorf("%d requests in 10 s to wait for an entry that stays", n)
			}
			w.remove(z, stays)
		}
		w.remove(z, "/locks/x/other")
		w.finish(w.lock(b, "x"))
	})
}

// TestBargingBehindADeadWaiter: while the lock is held, a barging client behind a waiter that has crashed
// sends no more requests than behind a living one: some for each renewal of the holder.
func TestBargingBehindADeadWaiter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, dead, b := w.client("a"), w.client("dead"), w.client("b")
		h := w.lock(a, "x")
		w.queue(w.ctx, dead, "x")
		ch := w.barge(w.ctx, b, "x")
		w.kill("dead")
		time.Sleep(3 * ttl)
		got := w.cost("b", func() { time.Sleep(time.Minute) })
		atMost(w, "requests in a minute", got.total(), 200)
		w.waits(ch)
		w.unlock(h)
		w.unlock(w.await(ch).hold)
	})
}

// TestTryOfAnotherKind: a try of a lock that is held as another kind says so, and not that it is held,
// wherever the names of the entries tell the kinds apart.
func TestTryOfAnotherKind(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		h, reads, two := w.lock(a, "x"), w.take(a.RWMutex("pages").RLock), w.take(permits(a.Semaphore("slots", 2), 2))
		for _, try := range []func(context.Context) (*lock.Hold, error){
			b.RWMutex("x").TryLock, tryPermits(b.Semaphore("x", 2), 1),
			b.Mutex("pages").TryLock, tryPermits(b.Semaphore("pages", 2), 1),
			b.Mutex("slots").TryLock, b.RWMutex("slots").TryRLock,
		} {
			mustBe(w, second(try(w.ctx)), lock.ErrKind)
		}
		mustBe(w, second(b.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
		w.finish(h, reads, two)
	})
}
