// The number of requests and transactions of operations on a mutex; WithBarging: waiting without an
// entry in the queue; and what each of many waiters costs.

package lock_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestFreeLockIsOneRequestEachWay: Lock and Unlock of a free lock are one request each. If the lock
// was used within the last second, Unlock keeps the parent. The client deletes the parent a second
// after the last use of the lock, unless the policy keeps the parent.
func TestFreeLockIsOneRequestEachWay(t *testing.T) {
	one := map[string]int{"multi": 1}
	for _, tt := range []struct {
		name   string
		keep   bool
		pause  time.Duration // between two uses
		unlock map[string]int
		stays  bool           // the parent is there after the unlock
		end    map[string]int // requests in the 5 s after
	}{
		{"now and then", false, 2 * time.Second, one, false, nil},
		{"again and again", false, 10 * time.Millisecond, map[string]int{"delete": 1}, true, map[string]int{"getData": 1, "multi": 1}},
		{"where the parent is kept", true, 10 * time.Millisecond, map[string]int{"delete": 1}, true, nil},
	} {
		subtest(t, tt.name, locktest.Options{}, func(w *world) {
			c := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: tt.keep}))
			w.unlock(w.lock(c, "orders/42")) // creates the root and the ancestor, and learns the time
			for range 3 {
				time.Sleep(tt.pause)
				var h *lock.Hold
				w.wantCost("Lock", w.cost("a", func() { h = w.lock(c, "orders/42") }), one, 1)
				n := w.entries("orders/42")
				isTrue(w, len(n) == 1 && h.Token().Parts().Czxid == n[0].Stat.Czxid, "token %v, entries %+v", h.Token(), n)
				w.wantCost("Unlock", w.cost("a", func() { w.unlock(h) }), tt.unlock, 1)
				want := []string{"/locks/orders"}
				if tt.stays {
					want = append(want, "/locks/orders/42", "/locks/orders/42/"+znode.Anchor(w.parent("orders/42").Generation))
				}
				equalAll(w, "nodes after Unlock", w.nodes(), want)
			}
			w.wantCost("the end", w.cost("a", func() { time.Sleep(5 * time.Second) }), tt.end, int64(len(tt.end)/2))
			_, there := w.Node("/locks/orders/42")
			isTrue(w, there == tt.keep, "the parent is there: %v", there)
		})
	}
}

// TestFailedTryLockWritesNothing: a TryLock of a held lock costs at most three requests, changes no node,
// and tells of the holder, with and without waiters. The first one of a client samples the time.
func TestFailedTryLockWritesNothing(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		h := w.lock(a, "x")
		var queue []<-chan taken
		for i := range 4 {
			before, label := w.Dump("/locks/x"), fmt.Sprint("new", i)
			for label, client := range map[string]*lock.Client{"a": a, label: w.dial(label)} {
				for try := range 2 {
					var err error
					got := w.cost(label, func() { err = second(client.Mutex("x").TryLock(w.ctx)) })
					held := heldError(t, err)
					isTrue(t, held.Lock == "x" && held.Owner != "" && held.PID != 0 && held.Expires.After(time.Now()), "error is %#v", err)
					fails(t, err, lock.ErrHeld, `"x"`, " (host ")
					isTrue(t, i > 0 || held.Entry == h.EntryPath() && held.Owner == "a", "error is %#v", err)
					samples := got.txns == 1 && label != "a" && try == 0
					isTrue(t, got.total() <= 3 && (got.txns == 0 || samples), "TryLock of %s with %d waiters cost %+v", label, i, got)
				}
			}
			same(t, before, w.Dump("/locks/x"))
			queue = append(queue, w.queue(w.ctx, w.dial(fmt.Sprint("waiter", i)), "x"))
		}
		for _, ch := range queue {
			h = w.pass(h, ch)
		}
		w.finish(h)
	})
}

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
		one, giveOne := context.WithCancel(w.ctx)
		two, giveTwo := context.WithCancel(w.ctx)
		waiting := make([]<-chan taken, 2)
		w.wantCost("to wait", w.cost("b", func() { waiting[0] = w.barge(one, b, "x") }),
			map[string]int{"sync": 1, "getChildren2": 2, "getData": 3}, 0)
		w.wantCost("to wait behind another goroutine", w.cost("b", func() { waiting[1] = w.barge(two, b, "x") }), map[string]int{}, 0)
		w.says(&o, "waiting x, waiting x")
		w.hasEntries("x", 1)
		giveOne()
		giveTwo()
		for _, ch := range waiting {
			got := w.outcome(ch)
			mustBe(t, got.err, lock.ErrHeld, context.Canceled)
			mustSay(t, got.err, h.EntryPath())
		}
		w.says(&o, "withdrawn x, withdrawn x")

		ended := w.end(h)
		ch := w.barge(w.ctx, b, "x")
		for range 3 { // other waiters join and give up
			mustBe(t, second(a.Mutex("x").Lock(w.limited(time.Second))), context.DeadlineExceeded)
		}
		w.says(&o, "waiting x")
		w.unlock(h)
		next := w.await(ch)
		w.inTurn(ended, next)
		w.says(&o, "acquired x")
		line := w.callers(w.ctx, 2, b.Mutex("x").WithBarging().Lock)
		time.Sleep(2 * window)
		w.handOver(next.hold, line...)
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
			atMost(t, "requests in 10 s, one each second to read an unreadable entry", cost.total(), 60)
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

// crowd is a kind of many waiters for one lock. The i-th takes weights[i%len(weights)] of the lock's room.
type crowd struct {
	room    int
	weights []int
	take    func(ctx context.Context, c *lock.Client, weight int, opts ...lock.LockOption) (unlocker, error)
	hold    time.Duration
	shares  bool // waiters of a client may share an entry
	lists   int  // number of times that a waiter lists all contenders
}

// TestManyWaiters: very many waiters of one lock, of each kind, get it, as many at once as may. The
// traffic for each does not grow with their number, except for the names in lists by readers, writers
// and waiters for permits. HOLDFAST_WAITERS is the number, 200 by default; the library is meant for
// 10,000.
//
// With barging, one waiter of each client watches the last entry in the way, and tries when that
// entry is deleted. So the cost of each handoff grows with the clients, and not with the waiters.
func TestManyWaiters(t *testing.T) {
	n := 200
	if text := os.Getenv("HOLDFAST_WAITERS"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		mustBeTrue(t, err == nil && n >= 10, "HOLDFAST_WAITERS=%q: must be a number of 10 at least", text)
	}
	const everybody, bytesOfName = 1 << 30, 50 // room for any number of readers; the bytes of a child in a list
	const noted = 15 * time.Millisecond        // a hold in which a client records its grant: the next waiter lists nothing
	one, write, fourthWrites := []int{1}, []int{everybody}, []int{1, 1, 1, everybody}
	mutex := func(ctx context.Context, c *lock.Client, _ int, opts ...lock.LockOption) (unlocker, error) {
		return c.Mutex("x", opts...).Lock(ctx)
	}
	barge := func(ctx context.Context, c *lock.Client, _ int, opts ...lock.LockOption) (unlocker, error) {
		return c.Mutex("x", opts...).WithBarging().Lock(ctx)
	}
	several := func(ctx context.Context, c *lock.Client, _ int, opts ...lock.LockOption) (unlocker, error) {
		return c.All([]string{"x", "y", "z"}, opts...).Lock(ctx)
	}
	pages := func(ctx context.Context, c *lock.Client, weight int, opts ...lock.LockOption) (unlocker, error) {
		if weight == 1 {
			return c.RWMutex("x", opts...).RLock(ctx)
		}
		return c.RWMutex("x", opts...).Lock(ctx)
	}
	slots := func(ctx context.Context, c *lock.Client, weight int, opts ...lock.LockOption) (unlocker, error) {
		return c.Semaphore("x", 4, opts...).Acquire(ctx, weight)
	}
	forEach(t, locktest.Options{}, map[string]crowd{
		"mutex":                          {1, one, mutex, noted, false, 0},
		"barging":                        {1, one, barge, 0, true, 0},
		"several mutexes":                {1, one, several, noted, false, 0},
		"writers":                        {everybody, write, pages, noted, false, 1},
		"readers and writers":            {everybody, fourthWrites, pages, noted, false, 1},
		"readers and writers that share": {everybody, fourthWrites, pages, time.Millisecond, true, 0},
		"permits":                        {4, one, slots, noted, false, 1},
		"several permits":                {4, []int{1, 2, 3, 4}, slots, noted, false, 2},
	}, func(w *world, kind crowd) {
		few := kind.queueUp(w, "few", n/10)
		atMost(w, "bytes for each waiter", kind.queueUp(w, "many", n), few*3/2+int64(kind.lists*n*bytesOfName))
	})
}

// queueUp queues n waiters of ten new clients behind a holder. Then the holder unlocks, and each waiter
// takes its turn. It returns the number of bytes on the wire for each waiter.
func (kind crowd) queueUp(w *world, label string, n int) int64 {
	long := lock.WithPolicies(policies{TTL: time.Hour, Grace: grace, LocalWindow: window})
	var all []*lock.Client
	for i := range 10 {
		all = append(all, w.dial(fmt.Sprint(label, i), long))
	}
	first, err := kind.take(w.ctx, w.dial(label, long), kind.room)
	w.ok(err)
	before := w.bytes()
	var inside atomic.Int64
	waiters := async(func() error {
		inEach(n, func(i int) {
			weight := kind.weights[i%len(kind.weights)]
			var own []lock.LockOption
			if !kind.shares { // requests with different metadata have entries of their own
				own = append(own, lock.WithMetadata(map[string]string{"waiter": strconv.Itoa(i)}))
			}
			h, err := kind.take(w.ctx, all[i%len(all)], weight, own...)
			w.ok(err)
			atMost(w, "inside", inside.Add(int64(weight)), int64(kind.room))
			time.Sleep(kind.hold)
			inside.Add(int64(-weight))
			w.ok(h.Unlock())
		})
		return nil
	})
	w.until("all wait", func() bool {
		waiting := 0
		for _, c := range all {
			waiting += c.Stats().Waiters
		}
		return waiting >= n
	})
	settle()
	w.ok(first.Unlock())
	w.ok(<-waiters)
	return (w.bytes() - before) / int64(n)
}

// bytes returns the number of bytes on the wire of all clients.
func (w *world) bytes() (sum int64) {
	for _, c := range w.Requests() {
		sum += c.BytesFromClient + c.BytesToClient
	}
	return sum
}
