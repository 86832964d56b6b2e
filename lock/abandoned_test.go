package lock_test

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// borrow returns a client on a connection of its caller's.
func (w *world) borrow(label string) *lock.Client {
	w.Helper()
	c, err := lock.New(w.raw(label), w.options(label)[1:]...) // not the dialer
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { c.Close() })
	return c
}

// TestCloseAfterAbandonedCall: the caller gives up while its entry is being made, and
// closes the client. That is not done before the entry is gone.
func TestCloseAfterAbandonedCall(t *testing.T) {
	for name, fault := range map[string]locktest.Fault{
		"before it is applied":           {Delay: time.Second},
		"after it was applied":           {DelayReply: time.Second},
		"after, and the connection ends": {Delay: time.Second, Drop: locktest.AfterApply},
	} {
		for _, borrowed := range []bool{false, true} {
			for _, parent := range []string{"missing", "held"} {
				t.Run(fmt.Sprintf("%s borrowed %v parent %s", name, borrowed, parent), func(t *testing.T) {
					simulate(t, locktest.Options{}, func(w *world) {
						b, dial := w.dial("b"), func(label string) *lock.Client { return w.dial(label) }
						if borrowed {
							dial = w.borrow
						}
						a := dial("a")
						w.unlock(w.lock(a, "other"))
						time.Sleep(time.Second)
						if parent == "held" {
							w.lock(b, "x")
						}
						before := len(w.nodes())
						hit := w.fault(func(r locktest.Request) bool {
							return r.Label == "a" && joins(r) && joinsParent(r, "x") == (parent == "held")
						}, fault)
						ctx, cancel := context.WithTimeout(w.ctx, 5*time.Millisecond)
						defer cancel()
						_, err := a.Mutex("x").Lock(ctx)
						mustBe(w, err, context.DeadlineExceeded)
						if !hit() {
							w.Fatal("gave up before the entry was asked for")
						}
						if err := a.Close(); err != nil {
							w.Errorf("close: %v", err)
						}
						if left := w.nodes(); len(left) != before {
							w.Errorf("left behind: %q", left)
						}
					})
				})
			}
		}
	}
}

// TestAbandonedCallsAreNoOutage: callers who give up all the time, on whatever name, do
// not keep a waiter of the same client from purging a dead holder.
func TestAbandonedCallsAreNoOutage(t *testing.T) {
	for _, names := range []string{"others", "the same"} {
		t.Run("on "+names, func(t *testing.T) {
			const latency = 10 * time.Millisecond
			simulate(t, locktest.Options{Latency: func(string, string) time.Duration { return latency }}, func(w *world) {
				b := w.dial("b")
				h := w.lock(w.dial("a"), "x")
				ended := w.end(h)
				ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
				w.until("the waiter is in the queue", func() bool { return len(w.entries("x")) == 2 })
				callers, stop := context.WithCancel(w.ctx)
				for i := range 20 {
					name := "x"
					if names == "others" {
						name = fmt.Sprint("y", i)
					}
					go func() {
						for callers.Err() == nil {
							ctx, cancel := context.WithTimeout(callers, latency/2)
							b.Mutex(name).Lock(ctx)
							cancel()
							time.Sleep(time.Duration(i) * time.Millisecond)
						}
					}()
				}
				d := w.die("a", pathOf(h))
				time.Sleep(2 * ttl)
				stop()
				got := w.await(ch)
				w.inTurn(ended, got)
				w.purged(d, got.at, 0, time.Second)
				w.unlock(got.hold)
				w.Heal("a")
				w.empty()
			})
		})
	}
}

// TestLateEntryOfAbandonedCall: its create is applied after the client has looked for
// it in vain. It is remembered, and deleted as soon as somebody looks at the lock again.
func TestLateEntryOfAbandonedCall(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		h := w.lock(a, "other")
		var lost atomic.Pointer[[]string]
		w.fault(func(r locktest.Request) bool {
			return r.Label == "a" && joins(r) && lost.CompareAndSwap(nil, &r.Paths)
		}, locktest.Fault{Delay: sessionTimeout}) // the connection ends before, and nothing comes of it
		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Millisecond)
		defer cancel()
		_, err := a.Mutex("x").Lock(ctx)
		mustBe(w, err, context.DeadlineExceeded)
		if lost.Load() == nil {
			w.Fatal("gave up before the entry was asked for")
		}
		time.Sleep(sessionTimeout + time.Second)
		if len(w.entries("x")) > 0 {
			w.Fatal("the entry is there already")
		}
		for i, flags := range []int32{0, zk.FlagSequence} { // the parent, and the entry
			data := w.node([]string{"/locks/other", h.EntryPath()}[i]).Data
			if _, err := z.Create((*lost.Load())[i], data, flags, zk.WorldACL(zk.PermAll)); err != nil {
				w.Fatal(err)
			}
		}
		w.unlock(h)
		for range 10 {
			if h, err := a.Mutex("x").TryLock(w.ctx); err == nil {
				w.unlock(h)
			}
			time.Sleep(100 * time.Millisecond)
		}
		w.empty()
	})
}

// TestStrayAheadIsDeleted: a create was looked for in vain, and is applied just before its
// sender joins again: right behind it, without a list. Who follows an entry of its own that
// should not be there deletes it, and does not wait until it has expired.
func TestStrayAheadIsDeleted(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("other")
		h := w.lock(a, "x")
		var lost string
		var late atomic.Pointer[string]
		w.Intercept(func(r locktest.Request) locktest.Fault {
			switch {
			case r.Label != "b" || !joinsParent(r, "x") || late.Load() != nil:
			case lost == "":
				for _, path := range r.Paths {
					if strings.HasSuffix(path, "-lock-") {
						lost = path
					}
				}
				return locktest.Fault{Drop: locktest.BeforeApply}
			default:
				parent, record := w.parent("x"), w.record(h.EntryPath())
				parent.Tail, record.AcquiredAt = path.Base(lost), 0
				replies, err := z.Multi(
					&zk.CreateRequest{Path: lost, Data: record.Encode(), Flags: zk.FlagSequence, Acl: zk.WorldACL(zk.PermAll)},
					&zk.SetDataRequest{Path: "/locks/x", Data: parent.Encode(), Version: -1})
				if err != nil {
					t.Error(err)
					return locktest.Fault{}
				}
				late.Store(&replies[0].String)
			}
			return locktest.Fault{}
		})
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
		w.until("the late entry is there", func() bool { return late.Load() != nil })
		time.Sleep(time.Second)
		if e := paths(w.entries("x")); len(e) != 2 || slices.Contains(e, *late.Load()) {
			t.Errorf("entries %q, want the holder's and the waiter's, without %s", e, *late.Load())
		}
		w.waits(ch)
		w.unlock(h)
		w.unlock(w.expect(ch).hold)
		w.empty()
	})
}

// TestGiveUpWhileGrantIsRecorded: the caller gives up while the grant of a fixed lease is
// being written, which it waits for. Nobody has had that hold, so none was lost.
func TestGiveUpWhileGrantIsRecorded(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(b, "x")
		ctx, giveUp := context.WithCancel(w.ctx)
		ch := w.queue(ctx, a, "x", lock.WithoutRenewal())
		hit := w.fault(func(r locktest.Request) bool { return r.Label == "a" && r.Op == "setData" }, locktest.Fault{Delay: time.Second})
		w.unlock(h)
		w.until("the grant is written", hit)
		giveUp()
		mustBe(w, w.outcome(ch).err, context.Canceled)
		w.empty()
		if n := a.Stats().Lost; n != 0 {
			t.Errorf("%d holds count as lost", n)
		}
	})
}
