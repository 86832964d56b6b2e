// Close: what it ends, deletes and waits for, on owned and on borrowed connections.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// closed checks that the error is ErrClosed, and not the end of the caller's context.
func closed(t testing.TB, err error) {
	t.Helper()
	mustBe(t, err, lock.ErrClosed)
	isTrue(t, !errors.Is(err, context.Canceled), "%v is taken for the end of the caller's context", err)
}

// TestClose: Close ends holds and waits and deletes their entries. Later calls return ErrClosed.
func TestClose(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		h, other := w.lock(a, "x"), w.lock(b, "y")
		waiting := w.queue(w.ctx, a, "y")
		behind := w.queue(w.ctx, b, "x")
		several, waitingForAll := w.lockAll(a, "u", "v"), w.queueAll(w.ctx, a, "z", "y")
		ended := w.end(h)
		mustBe(w, a.Close(), nil)
		ended.wait()
		mustBe(t, h.Err(), lock.ErrLost, lock.ErrClosed)
		mustBe(t, context.Cause(several.Context()), lock.ErrClosed)
		mustBe(t, several.Unlock(), lock.ErrClosed)
		mustBe(t, hasCome(w, waitingForAll).err, lock.ErrClosed)
		got := w.outcome(waiting)
		closed(t, got.err)
		mustSay(t, got.err, `"y"`)
		w.inTurn(ended, w.expect(behind))
		w.hasNodes(6) // x and y, each with an anchor and an entry
		w.alive(other)

		mustBe(w, a.Close(), nil)
		atMost(t, "remaining after Close", h.Remaining(), 0)
		mustBe(t, h.Unlock(), lock.ErrLost, lock.ErrClosed)
		mustBe(t, h.Unlock(), lock.ErrUnlocked)
		mustBe(t, h.Extend(w.ctx, ttl), lock.ErrLost, lock.ErrClosed)
		for _, take := range []taking{a.Mutex("z").Lock, a.Mutex("z").TryLock} {
			for _, ctx := range []context.Context{w.ctx, context.WithoutCancel(h.Context())} {
				fails(t, second(take(ctx)), lock.ErrClosed, `lock "z"`)
			}
		}
		fails(t, second(a.All([]string{"x", "y"}).Lock(w.ctx)), lock.ErrClosed, `locks ["x" "y"]: `)
		mustBe(t, a.Mutex("z").Do(w.ctx, func(context.Context) error { panic("called") }), lock.ErrClosed)
		mustBe(t, second(admin.New(a).Now(w.ctx)), lock.ErrClosed)
		isTrue(t, a.Stats().Holds == 0 && a.Stats().Waiters == 0 && a.Stats().Lost == 3, "stats %+v", a.Stats())
	})
}

// TestCloseEndsWithItsTimeout: if the server does not answer, Close returns within its timeout, and
// its error says that entries are left to expire. The next client enters within TTL and twice the
// grace.
func TestCloseEndsWithItsTimeout(t *testing.T) {
	// noticed: the client has noticed that the connection is lost
	eachPair(t, "borrowed noticed", bools, bools, func(w *world, borrowed, noticed bool) {
		const patience = 5 * time.Second
		opts := []lock.Option{lock.WithUnlockTimeout(patience)}
		var a *lock.Client
		if borrowed {
			a = w.borrow("a", opts...)
		} else {
			if !noticed { // the session timeout must not show that the connection is lost
				opts = append(opts, lock.WithSessionTimeout(10*patience))
			}
			var err error
			a, err = lock.Dial(w.ctx, w.Servers(), w.options("a", append(opts, usual)...)...)
			w.ok(err)
		}
		w.unlock(w.lock(a, "z"))
		h := w.lock(a, "x")
		waits := w.queue(w.ctx, a, "x")
		var joins [2]<-chan taken // one with a context that cannot end
		w.Partition("a")
		for i, ctx := range []context.Context{w.ctx, context.Background()} {
			joins[i] = start(func() (*lock.Hold, error) { return a.Mutex(fmt.Sprint("y", i)).Lock(ctx) })
		}
		if noticed {
			time.Sleep(sessionTimeout)
		}
		var err error
		within(w, patience+soonAfter, "close", func() { err = a.Close() }, func() { w.Heal("a") })
		mustSay(w, err, "close: entries could not be deleted within 5s and are left to expire")
		equal(w, "close again", fmt.Sprint(a.Close()), fmt.Sprint(err))
		for _, ch := range append(joins[:], waits) {
			closed(w, w.outcome(ch).err)
		}
		mustBe(w, h.Err(), lock.ErrClosed)
		w.Heal("a")
		begun := time.Now()
		w.unlock(w.lock(w.client("b"), "x"))
		atMost(w, "acquired after", time.Since(begun), ttl+2*grace)
	})
}

// TestBorrowedConnection: on a borrowed connection, holds and waits outlast sessions, cuts and an outage.
// Close leaves the connection open.
func TestBorrowedConnection(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		z := w.raw("a")
		a, b := w.lend(z, "a"), w.client("b")
		h, other := w.lock(a, "x"), w.lock(b, "y")
		ch, waits := w.queue(w.ctx, b, "x"), w.queue(w.ctx, a, "y")
		for range 5 {
			w.ExpireLabel("a")
			time.Sleep(3 * time.Second)
			w.Cut("a")
			time.Sleep(3 * time.Second)
			w.alive(h)
		}
		w.Stop(w.Servers()[0])
		fresh := start(func() (*lock.Hold, error) { return a.Mutex("z").Lock(w.ctx) })
		time.Sleep(3 * time.Second)
		w.Start(w.Servers()[0])
		w.unlock(w.await(fresh).hold, h, other)
		w.unlock(w.await(ch).hold)
		h = w.await(waits).hold
		mustBe(w, a.Close(), nil)
		mustBe(t, h.Err(), lock.ErrClosed)
		err := third(z.Exists("/"))
		isTrue(t, err == nil && z.State() == zk.StateHasSession, "its owner's connection: %v, %v", z.State(), err)
		w.empty()
	})
}

// TestSilentServerOfABorrowedConnection: a borrowed connection gives up a server that accepts a connection
// and says nothing after 6.7 session timeouts, one of Dial after a third of one, as MIGRATING.md says.
func TestSilentServerOfABorrowedConnection(t *testing.T) {
	each(t, "borrowed", bools, func(w *world, borrowed bool) {
		silent := true
		dialer := func(network, address string, timeout time.Duration) (net.Conn, error) {
			if !silent {
				return w.Dialer("a")(network, address, timeout)
			}
			silent = false
			return new(impostor).dial(network, address, timeout)
		}
		servers, want := slices.Repeat(w.Servers(), 2), sessionTimeout/3
		begun := time.Now()
		if borrowed {
			want = sessionTimeout * 2 / 3 * 10
			z, _, err := zk.Connect(servers, sessionTimeout, zk.WithDialer(dialer), zk.WithLogInfo(false), zk.WithLogger(bubble.Silent{}))
			w.ok(err)
			defer z.Close()
			w.unlock(w.lock(w.lend(z, "a"), "x"))
		} else {
			a, err := lock.Dial(w.ctx, servers, append(w.options("a", usual)[1:], lock.WithDialer(dialer))...)
			w.ok(err)
			defer a.Close()
		}
		inRange(w, "the next server is tried after", time.Since(begun), want, want+2*time.Second)
	})
}

// TestOwnerClosesBorrowedConnection: if the owner closes a borrowed connection, waits and new calls
// return ErrClosed, and holds end with their leases.
func TestOwnerClosesBorrowedConnection(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		z := w.raw("a")
		a, other := w.lend(z, "a"), w.lock(w.client("b"), "y")
		h := w.lock(a, "x")
		ended := w.end(h)
		waiting := w.queue(w.ctx, a, "y")
		z.Close()
		time.Sleep(3 * time.Second)
		got := w.outcome(waiting)
		closed(t, got.err)
		mustSay(t, got.err, "the zk.Conn it was given is closed")
		mustBe(t, second(a.Mutex("z").Lock(w.ctx)), lock.ErrClosed)
		mustBe(t, second(a.Mutex("y").TryLock(w.ctx)), lock.ErrClosed)
		ended.wait()
		mustBe(t, h.Err(), lock.ErrLost, lock.ErrExpired)
		mustBe(w, a.Close(), nil)
		w.alive(other)
		w.unlock(other)
		// The entries of client a expire.
		c := w.client("c")
		w.unlock(w.lock(c, "x"))
		w.finish(w.lock(c, "y"))
		synctest.Wait()
	})
}

// TestCloseOfManyHolds: Close deletes the entries of 2000 holds in batches, and returns within its
// timeout although the server takes 10 ms for each transaction. However many locks a client holds,
// the Lock of one more costs one request.
func TestCloseOfManyHolds(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const n = 2000
		asked := map[string]int{} // by operation
		a := w.client("a", lock.WithPolicies(policies{TTL: time.Hour, Grace: grace, LocalWindow: window}))
		for i := range n {
			if i == 1 { // the first lock also takes the requests that a new client needs
				w.Intercept(func(r locktest.Request) locktest.Fault { asked[r.Op]++; return locktest.Fault{} })
			}
			w.lock(a, fmt.Sprint("x", i))
		}
		isTrue(w, asked["multi"] == n-1 && len(asked) <= 1, "took %d locks more by %v", n-1, asked)
		slow := w.faults(func(r locktest.Request) bool { return mutates(r, "a") }, locktest.Fault{Delay: 10 * time.Millisecond})
		before, txns := time.Now(), w.Transactions()
		mustBe(w, a.Close(), nil)
		atMost(w, "took", time.Since(before), lock.DefaultUnlockTimeout)
		made := w.Transactions() - txns
		isTrue(w, made <= n/20 && slow.Load() >= n/200, "made %d transactions to end %d holds, %d of them slowly", made, n, slow.Load())
		w.hasNodes(0)
	})
}

// TestCloseReportsAnUnresolvedCreate: the reply to the creation of an entry or of a guard is lost, and
// without a server the client cannot search for it. Close returns an error if an entry is left, and nil for
// a guard, which ends with the session.
func TestCloseReportsAnUnresolvedCreate(t *testing.T) {
	each(t, "guard", bools, func(w *world, guard bool) {
		a, err := lock.Dial(w.ctx, w.Servers(), w.options("a", usual)...)
		w.ok(err)
		w.unlock(w.lock(a, "other"))
		creates := joins
		if guard {
			w.create(w.raw("other"), lock.DefaultRoot+"/x", "", 0)
			creates = guards
		}
		hit := w.fault(func(r locktest.Request) bool { return creates(r) && w.cutOff("a") }, locktest.Fault{Drop: locktest.AfterApply})
		ctx, cancel := context.WithCancel(w.ctx)
		ch := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(ctx) })
		w.until("it is made", hit)
		cancel()
		mustBe(w, (<-ch).err, context.Canceled)
		time.Sleep(ttl + grace + 5*time.Second)
		err = a.Close()
		isTrue(w, (err == nil) == guard, "closed with %v", err)
		w.hasEntries("x", map[bool]int{false: 1}[guard])
		w.Heal("a")
	})
}

// TestUnlockAsTheClientCloses: if the client closes while Unlock or Detach is in flight, Close
// returns nil and no entry is left, except a detached one.
func TestUnlockAsTheClientCloses(t *testing.T) {
	forEach(t, locktest.Options{}, map[string]func(w *world, c *lock.Client) (release func() error){
		"one":     func(w *world, c *lock.Client) func() error { return w.lock(c, "x").Unlock },
		"several": func(w *world, c *lock.Client) func() error { return w.lockAll(c, "x", "y").Unlock },
		"detached": func(w *world, c *lock.Client) func() error {
			h := w.lock(c, "x")
			return func() error { _, err := h.Detach(w.ctx, 0); return err }
		},
	}, func(w *world, take func(w *world, c *lock.Client) (release func() error)) {
		a := w.client("a")
		release := take(w, a)
		closed := make(chan error, 1)
		w.fault(func(r locktest.Request) bool {
			is := mutates(r, "a") && touches(r, "/locks/x/")
			if is {
				go func() { closed <- a.Close() }()
			}
			return is
		}, locktest.Fault{Delay: time.Second})
		if err := release(); err != nil && !errors.Is(err, lock.ErrClosed) {
			w.Error(err)
		}
		mustBe(w, <-closed, nil)
		for _, n := range w.entries("x") {
			isTrue(w, w.record(n.Path).Detached, "%s was left by a clean Close", n.Path)
		}
	})
}

// TestCloseDuringUnlock: if the client closes after Unlock has ended the hold and before the entry
// is deleted, both calls return nil and the entry is deleted.
func TestCloseDuringUnlock(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		closed := make(chan error, 1)
		var a *lock.Client
		ended := moment{in: "queue.newExit", do: func() {
			go func() { closed <- a.Close() }()
			time.Sleep(time.Second)
		}}
		a = w.dial("a", w.atMoments(&ended))
		h := w.lock(a, "x")
		ended.armed.Store(true)
		mustBe(w, h.Unlock(), nil)
		mustBe(w, <-closed, nil)
		w.hasEntries("x", 0)
	})
}

// TestCloseDeletesManyParents: a client that closes just after the last use of thousands of locks deletes
// their nodes within its time. If it cannot reach ZooKeeper, it gives up after a second, and logs how many
// it leaves.
func TestCloseDeletesManyParents(t *testing.T) {
	each(t, "reachable", bools, func(w *world, reachable bool) {
		const locks = 1500
		a := w.client("a")
		inEach(locks, func(i int) {
			for range 2 { // a lock in frequent use keeps its node
				w.unlock(w.lock(a, fmt.Sprint("orders/", i)))
			}
		})
		settle()
		isTrue(w, len(w.nodes()) > locks, "%d nodes before Close, want one for each lock", len(w.nodes()))
		w.SetLatency(func(string, string) time.Duration { return 5 * time.Millisecond })
		if !reachable {
			w.kill("a")
		}
		begun := time.Now()
		mustBe(w, a.Close(), nil)
		took := time.Since(begun)
		if !reachable {
			atMost(w, "time of Close", took, 5*time.Second)
			mustSay(w, errors.New(w.logged()), fmt.Sprintf(`"locks":%d`, locks), "leaves the nodes of unused locks to the reaper")
			return
		}
		w.Logf("Close took %v", took)
		equalAll(w, "nodes after Close", w.nodes(), []string{"/locks/orders"})
	})
}
