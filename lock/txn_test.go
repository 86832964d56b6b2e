// Txn: a transaction that is applied only while its hold lasts.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// app is the node below which the transactions write.
const app = "/app"

// withApp simulates a world in which app exists.
func withApp(t *testing.T, f func(w *world)) {
	t.Helper()
	simulate(t, locktest.Options{}, func(w *world) {
		w.makeApp()
		f(w)
	})
}

func (w *world) makeApp() {
	w.Helper()
	w.create(w.raw("app"), app, "", 0)
}

// add returns an operation that creates one more node each time it is applied.
func add() lock.Op {
	return lock.OpCreate(app+"/n-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
}

// added returns the number of nodes that add has created.
func (w *world) added() int { return len(w.Dump(app)) - 1 }

func (w *world) applied(want int) {
	w.Helper()
	equal(w, "operations that were applied", w.added(), want)
}

// txns matches users' transactions: requests that write below app.
func txns(r locktest.Request) bool { return r.Op == "multi" && touches(r, app) }

func (w *world) txn(h *lock.Hold, ops ...lock.Op) {
	w.Helper()
	w.ok(h.Txn(w.ctx, ops...))
}

func TestTxn(t *testing.T) {
	withApp(t, func(w *world) {
		a := w.dial("a")
		h := w.lock(a, "x")
		name, data := app+"/stock", []byte("7")
		created := lock.OpCreate(name, data, 0, zk.WorldACL(zk.PermAll))
		data[0] = 'x' // Txn has copied the data
		w.wantCost("a transaction", w.cost("a", func() { w.txn(h, created) }), map[string]int{"multi": 1}, 1)
		equal(t, "data", string(w.node(name).Data), "7")
		w.txn(h, lock.OpCheck(app, -1), lock.OpSet(name, []byte("6"), 0), add())
		n := w.node(name)
		isTrue(t, string(n.Data) == "6" && n.Stat.Version == 1 && w.added() == 2, "%q at version %d, %d nodes", n.Data, n.Stat.Version, w.added())
		w.txn(h, lock.OpDelete(name, 1))
		w.applied(1)

		err := h.Txn(w.ctx, add(), lock.OpSet(app, nil, 5), add())
		refused := (*lock.TxnError)(nil)
		isTrue(t, errors.As(err, &refused) && refused.Index == 1 && refused.Path == app && refused.Lock == "x", "%#v", err)
		fails(t, err, zk.ErrBadVersion, `lock "x"`, "not applied", "operation 1", app, zk.ErrBadVersion.Error())
		isTrue(t, !errors.Is(err, lock.ErrDenied) && !errors.Is(err, lock.ErrInDoubt) && w.added() == 1, "%v, %d nodes", err, w.added())
		w.alive(h)
		w.txn(h, add())
		w.setACL(w.raw("z"), app, zk.WorldACL(zk.PermRead))
		mustBe(t, h.Txn(w.ctx, lock.OpSet(app, nil, -1)), zk.ErrNoAuth, lock.ErrDenied)
		w.sole(h)
		w.unlock(h)
		mustBe(t, h.Txn(w.ctx, add()), lock.ErrUnlocked)
		w.applied(2)
		w.empty()
	})
}

func TestTxnRefusesBadInput(t *testing.T) {
	withApp(t, func(w *world) {
		a := w.dial("a")
		h, other, theirs := w.lock(a, "x"), w.lock(a, "y"), w.lock(w.dial("b"), "z")
		root := lock.DefaultRoot
		big := make([]byte, lock.MaxTxn/2)
		for _, tt := range []struct {
			ops []lock.Op
			say []string
		}{
			{nil, []string{"operations", "[]", "must not be empty"}},
			{[]lock.Op{add(), {}}, []string{"operation 1", "Op{}", "OpCreate"}},
			{[]lock.Op{lock.OpDelete("app", 0)}, []string{`"app"`, "slash"}},
			{[]lock.Op{lock.OpDelete("", 0)}, []string{`""`, "slash"}},
			{[]lock.Op{lock.OpDelete(root, -1)}, []string{root, "root of the locks"}},
			{[]lock.Op{lock.OpSet(root+"/x", nil, -1)}, []string{root + "/x", "root of the locks"}},
			{[]lock.Op{lock.OpCreate(root+"/y/z", nil, 0, nil)}, []string{"root of the locks"}},
			{[]lock.Op{lock.OpCheck(h.EntryPath(), 0)}, []string{h.EntryPath(), "own entry"}},
			{[]lock.Op{lock.OpCheck(other.EntryPath(), -1)}, []string{other.EntryPath(), "outlive"}},
			{[]lock.Op{lock.OpCreate(app+"/c", nil, zk.FlagContainer, nil)}, []string{"flags 4"}},
			{[]lock.Op{lock.OpCreate(app+"/c", big, 0, nil), lock.OpSet(app, big, 0)}, []string{"bytes", fmt.Sprint(lock.MaxTxn)}},
		} {
			fails(t, h.Txn(w.ctx, tt.ops...), lock.ErrInvalid, tt.say...)
		}
		w.applied(0)
		w.txn(h, lock.OpCheck(root, -1), lock.OpCheck(theirs.EntryPath(), -1), lock.OpCreate(root+"-of-others", nil, 0, zk.WorldACL(zk.PermAll)), add())
		w.txn(h, lock.OpCreate(app+"/big", make([]byte, lock.MaxTxn-1000), 0, zk.WorldACL(zk.PermAll)))
	})
}

// TestAmbiguousTxn: whatever fault hits the request, the transaction is applied once. If the request is
// repeated and refused, it was not applied, and the error is the refusal, not ErrInDoubt.
func TestAmbiguousTxn(t *testing.T) {
	const once, twice, refused = "once", "also of the write that settles the outcome", "and a refusal"
	eachMishap(t, "mishap", []string{once, twice, refused}, func(w *world, how string, i int) {
		w.makeApp()
		z, h := w.raw("other"), w.lock(w.dial("a"), "x", lock.WithTTL(5*ttl))
		w.mishap(i, "a", func(r locktest.Request) bool {
			is := txns(r)
			if is && how == twice {
				w.mishap(i, "a", func(r locktest.Request) bool { return mutates(r, "a") && touches(r, h.EntryPath()) })
			}
			return is
		})
		if how == refused {
			err := h.Txn(w.ctx, add(), lock.OpCheck(app, 1))
			mustBe(w, err, zk.ErrBadVersion)
			isTrue(w, !errors.Is(err, lock.ErrInDoubt), "%v", err)
			w.ok(second(z.Set(app, nil, 0))) // a late transaction would be applied now
			time.Sleep(ttl)
			w.applied(0)
			w.sole(h)
			return
		}
		w.txn(h, add())
		time.Sleep(ttl) // until late requests have come
		w.alive(h)
		w.applied(1)
		w.txn(h, add())
		w.sole(h)
		w.unlock(h)
		w.applied(2)
		w.empty()
	})
}

// TestTxnsOfOneHold: 400 concurrent transactions of one hold are all applied, beside an Extend. A
// transaction also renews the lease. The hold stays valid while all its transactions are refused, and so
// write nothing.
func TestTxnsOfOneHold(t *testing.T) {
	withApp(t, func(w *world) {
		h := w.lock(w.dial("a"), "x")
		extended := async(func() error { return h.Extend(w.ctx, ttl-time.Second) })
		inEach(20, func(int) {
			for range 20 {
				w.txn(h, add())
			}
		})
		w.ok(<-extended)
		w.applied(400)
		r := w.record(h.EntryPath())
		isTrue(t, r.TTL == (ttl-time.Second).Milliseconds() && r.Granted(), "%+v", r)
		time.Sleep(ttl / 4)
		got := w.cost("a", func() { w.txn(h, add()); time.Sleep(ttl / 4) }) // at about this time a renewal is due
		w.wantCost("a transaction that renews", got, map[string]int{"multi": 1}, 1)
		for until := time.Now().Add(3 * ttl); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
			mustBe(t, h.Txn(w.ctx, lock.OpSet(app, nil, 5)), zk.ErrBadVersion)
		}
		w.sole(h)
	})
}

// TestTxnOfPausedHolder: if the holder is paused as it begins a transaction, or the transaction arrives
// late, and another client has the lock by then, the transaction is not applied and returns ErrLost.
func TestTxnOfPausedHolder(t *testing.T) {
	each(t, "ttl", []time.Duration{ttl, time.Second}, func(w *world, lease time.Duration) {
		w.makeApp()
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x", lock.WithTTL(lease))
		ch := w.queue(w.ctx, b, "x")
		if lease == ttl {
			w.Freeze("a") // the connection holds back writes, and does not end
		} else {
			w.fault(func(r locktest.Request) bool { return r.Label == "a" && txns(r) }, locktest.Fault{Delay: 3500 * time.Millisecond})
		}
		result := async(func() error { return h.Txn(w.ctx, add()) })
		next := w.await(ch)
		w.txn(next.hold, add())
		w.Thaw("a")
		mustBe(t, <-result, lock.ErrLost, lock.ErrExpired)
		time.Sleep(2 * ttl)
		w.applied(1)
		mustBe(t, h.Txn(w.ctx, add()), lock.ErrLost)
		w.alive(next.hold)
	})
}

// TestTxnInDoubt: if the caller gives up while the request is in flight, Txn returns ErrInDoubt.
// The next transaction of the hold waits for the outcome.
func TestTxnInDoubt(t *testing.T) {
	each(t, "fault", []locktest.Fault{
		{Delay: 3 * time.Second}, {DelayReply: 3 * time.Second}, {Drop: locktest.AfterApply}, {Drop: locktest.BeforeApply},
	}, func(w *world, f locktest.Fault) {
		w.makeApp()
		a := w.dial("a")
		h := w.lock(a, "x")
		w.fault(txns, f)
		cause := errors.New("no patience")
		ctx, cancel := context.WithTimeoutCause(w.ctx, 3*latency, cause)
		defer cancel()
		err := h.Txn(ctx, add())
		mustBe(t, err, lock.ErrInDoubt, cause, context.DeadlineExceeded)
		mustSay(t, err, `lock "x"`, "may have been applied")
		w.txn(h, add()) // waits for the outcome of the first
		before := w.added()
		isTrue(t, f.Drop != locktest.BeforeApply || before == 1, "%d nodes", before)
		w.sole(h)
		equal(t, "applied, and not after the next one", w.added(), before)
		w.finish(h)
	})
}

// TestTxnThatBreaksTheConnection: if the connection ends at each of five attempts, as with a
// transaction that is too large for the server, Txn returns ErrUnavailable, and nothing is applied. Without a
// server nothing is sent, and Txn ends with its context or with the hold.
func TestTxnThatBreaksTheConnection(t *testing.T) {
	withApp(t, func(w *world) {
		h := w.lock(w.dial("a"), "x")
		w.faults(func(r locktest.Request) bool { return txns(r) }, locktest.Fault{Drop: locktest.BeforeApply})
		err := h.Txn(w.ctx, add())
		fails(t, err, lock.ErrUnavailable, "5 times", "not applied")
		isTrue(t, !errors.Is(err, lock.ErrInDoubt) && w.added() == 0, "%v, %d nodes", err, w.added())
		w.sole(h)

		w.Intercept(nil)
		w.ok(w.Stop(w.Servers()[0]))
		time.Sleep(sessionTimeout)
		err = h.Txn(w.limited(time.Second), add())
		mustBe(t, err, context.DeadlineExceeded)
		isTrue(t, !errors.Is(err, lock.ErrInDoubt), "nothing was sent: %v", err)
		mustBe(t, h.Txn(w.ctx, add()), lock.ErrLost, lock.ErrExpired)
		w.ok(w.Start(w.Servers()[0]))
	})
}

func TestTxnOfClosedClient(t *testing.T) {
	withApp(t, func(w *world) {
		a := w.dial("a")
		h := w.lock(a, "x")
		hit := w.fault(txns, locktest.Fault{Delay: time.Second})
		result := async(func() error { return h.Txn(w.ctx, add()) })
		w.until("the transaction is on its way", hit)
		w.close(a)
		mustBe(t, <-result, lock.ErrInDoubt, lock.ErrClosed)
		before := w.added()
		mustBe(t, h.Txn(w.ctx, add()), lock.ErrClosed)
		w.empty()
		equal(t, "applied, and not after the close", w.added(), before)
	})
}

// TestTxnEndsWithItsHandle: after Unlock of a handle has returned nil, no transaction of that
// handle is applied. This also holds if the entry stays for another handle, another reader, or the
// next goroutine of the client.
func TestTxnEndsWithItsHandle(t *testing.T) {
	lives := map[string]func(w *world, a *lock.Client) (first *lock.Hold, others func()){
		"another handle": func(w *world, a *lock.Client) (*lock.Hold, func()) {
			h := w.lock(a, "x")
			again := w.takeIn(h.Context(), a.Mutex("x").Lock)
			return h, func() { w.unlock(again) }
		},
		"another reader": func(w *world, a *lock.Client) (*lock.Hold, func()) {
			h, other := w.take(a.RWMutex("x").RLock), w.take(a.RWMutex("x").RLock)
			mustBeTrue(w, h.EntryPath() == other.EntryPath(), "they have an entry each")
			return h, func() { w.unlock(other) }
		},
		"handed off": func(w *world, a *lock.Client) (*lock.Hold, func()) {
			h := w.lock(a, "x")
			next := w.line(w.ctx, a, "x", 1)[0]
			return h, func() { w.unlock(w.expect(next).hold) }
		},
		"handed off in its window": func(w *world, a *lock.Client) (*lock.Hold, func()) {
			long := lock.WithLocalWindow(time.Second)
			h := w.lock(a, "x", long)
			next := w.line(w.ctx, a, "x", 1, long)[0]
			return h, func() { w.unlock(w.expect(next).hold) }
		},
		"none": func(w *world, a *lock.Client) (*lock.Hold, func()) {
			return w.lock(a, "x"), func() {}
		},
	}
	faults := map[string]locktest.Fault{
		"late":       {Delay: 3 * time.Second},
		"lost reply": {DelayReply: 3 * time.Second},
		"cut before": {Delay: time.Second, Drop: locktest.BeforeApply},
		"cut after":  {Delay: time.Second, Drop: locktest.AfterApply},
	}
	for how, share := range lives {
		for what, fault := range faults {
			each(t, how+", "+what+", given up", bools, func(w *world, gaveUp bool) { // otherwise the transaction is in flight
				w.makeApp()
				a := w.client("a")
				h, others := share(w, a)
				w.faultsInTurn(func(r locktest.Request) bool { return r.Label == "a" && txns(r) }, first(fault))
				ctx, cancel := context.WithCancel(w.ctx)
				defer cancel()
				done := async(func() error { return h.Txn(ctx, add()) })
				time.Sleep(time.Second / 2)
				if gaveUp {
					cancel()
					mustBe(t, <-done, lock.ErrInDoubt)
				}
				w.unlock(h)
				added := w.added()
				time.Sleep(ttl)
				equal(t, "applied, and not after Unlock returned", w.added(), added)
				if !gaveUp {
					err := <-done
					isTrue(t, errors.Is(err, lock.ErrInDoubt) || (err == nil) == (added == 1), "applied %d times, and it says %v", added, err)
				}
				mustBe(t, h.Txn(w.ctx, add()), lock.ErrUnlocked)
				others()
				w.empty()
			})
		}
	}
}

// TestUnlockOfTxnInDoubtIsInTime: during an outage, Unlock returns an UnlockError after the unlock
// timeout, whether the hold's transaction is in doubt or still in flight. If the hold has another handle,
// the error is ErrInDoubt, and that handle stays valid.
func TestUnlockOfTxnInDoubtIsInTime(t *testing.T) {
	const patience = 2 * time.Second
	const inDoubt, inFlight, another = "in doubt", "in flight", "in doubt, with another handle"
	each(t, "the transaction is", []string{inDoubt, inFlight, another}, func(w *world, is string) {
		w.makeApp()
		a := w.dial("a", lock.WithUnlockTimeout(patience))
		h := w.lock(a, "x")
		left := h
		if is == another {
			left = w.takeIn(h.Context(), a.Mutex("x").Lock)
		}
		ctx := w.ctx
		if is != inFlight {
			ctx = w.limited(time.Second)
		}
		w.Freeze("a")
		done := async(func() error { return h.Txn(ctx, add()) })
		if time.Sleep(time.Second); is != inFlight {
			mustBe(w, <-done, lock.ErrInDoubt)
		}
		if is == inDoubt {
			time.Sleep(sessionTimeout - time.Second) // the client has noticed the outage
		}
		begun := time.Now()
		err := h.Unlock()
		equal(w, "Unlock took", time.Since(begun), patience)
		mustBe(w, h.Unlock(), lock.ErrUnlocked)
		w.Thaw("a")
		if is == inFlight {
			<-done
		}
		if is == another {
			mustBe(w, err, lock.ErrInDoubt)
			w.until("the other handle is renewed", func() bool { return left.Remaining() > 0 })
			w.unlock(left)
		} else {
			isTrue(w, errors.As(err, new(*lock.UnlockError)), "%v", err)
		}
		w.empty()
	})
}

// TestHoldsEndAtOnceBesideATxn: Unlock of several holds ends all of them at once, also if one has
// a transaction in flight, whose reply is late.
func TestHoldsEndAtOnceBesideATxn(t *testing.T) {
	withApp(t, func(w *world) {
		hs := w.lockAll(w.dial("a"), "x", "y", "z")
		w.faults(txns, locktest.Fault{DelayReply: time.Second})
		done := async(func() error { return hs.Hold("x").Txn(w.ctx, add()) })
		settle()
		var ends []*ending
		for h := range hs.All() {
			ends = append(ends, w.end(h))
		}
		begun := time.Now()
		w.ok(hs.Unlock())
		for _, e := range ends {
			mustBe(t, e.hold.Err(), lock.ErrUnlocked)
			equal(t, e.hold.Name()+" ended after", e.wait().Sub(begun), 0)
		}
		w.ok(<-done)
		w.applied(1)
		w.empty()
	})
}
