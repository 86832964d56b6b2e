package lock_test

import (
	"context"
	"fmt"
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
func (w *world) borrow(label string, opts ...lock.Option) *lock.Client {
	w.Helper()
	c, err := lock.New(w.raw(label), w.options(label, opts...)[1:]...) // not the dialer
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
							dial = func(label string) *lock.Client { return w.borrow(label) }
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
				record.AcquiredAt = 0
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

// TestAbandonedCallLeavesNothing: the caller gives up while the server has the
// request, or the reply is on its way, or nothing is known.
func TestAbandonedCallLeavesNothing(t *testing.T) {
	const outlasts = "before it is applied, and that after the connection has ended"
	faults := map[string]locktest.Fault{
		"before it is applied":                   {Delay: time.Second},
		"after it was applied":                   {DelayReply: time.Second},
		"before, and the connection ends":        {Delay: time.Second, Drop: locktest.BeforeApply},
		"after, and the connection ends":         {Delay: time.Second, Drop: locktest.AfterApply},
		outlasts:                                 {Delay: untilSevered},
		"after it was applied, and not for long": {DelayReply: 10 * time.Millisecond},
	}
	for name, fault := range faults {
		for _, held := range []bool{false, true} {
			for _, try := range []bool{false, true} {
				if held && try {
					continue // does not join
				}
				t.Run(fmt.Sprintf("%s held %v try %v", name, held, try), func(t *testing.T) {
					simulate(t, locktest.Options{}, func(w *world) {
						a, b := w.dial("a"), w.dial("b")
						w.unlock(w.lock(a, "other"))
						var h *lock.Hold
						if held {
							h = w.lock(b, "x")
						}
						hit := w.fault(func(r locktest.Request) bool {
							return r.Label == "a" && joins(r) && joinsParent(r, "x") == held
						}, fault)
						if name == outlasts {
							w.sever("a")
						}
						ctx, cancel := context.WithTimeout(w.ctx, 5*time.Millisecond)
						defer cancel()
						take := a.Mutex("x").Lock
						if try {
							take = a.Mutex("x").TryLock
						}
						got, err := take(ctx)
						mustBe(t, err, context.DeadlineExceeded)
						if got != nil || !hit() {
							t.Fatalf("got %v, mishap %v", got, hit())
						}
						time.Sleep(2 * sessionTimeout)
						if held {
							w.sole(h)
							w.unlock(h)
						}
						w.empty()
						w.unlock(w.lock(a, "x"))
					})
				})
			}
		}
	}
}

// TestAbandonedCallLeavesAdoptedParent, though it was the last one there.
func TestAbandonedCallLeavesAdoptedParent(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		w.unlock(w.lock(a, "other"))
		w.create(z, "/locks/x", "", 0)
		hit := w.fault(func(r locktest.Request) bool { return joins(r) && touches(r, "/x/") && len(r.Paths) == 2 }, locktest.Fault{DelayReply: time.Second})
		ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
		defer cancel()
		_, err := a.Mutex("x").Lock(ctx)
		mustBe(t, err, context.DeadlineExceeded)
		if !hit() || len(w.entries("x")) != 1 {
			t.Fatalf("mishap %v, entries %q", hit(), paths(w.entries("x")))
		}
		time.Sleep(ttl)
		if n := w.nodes(); len(n) != 1 || n[0] != "/locks/x" {
			t.Errorf("nodes %q, want the parent that was there", n)
		}
	})
}

// TestCreateAppliedAfterItWasGivenUp: others join all the time, so that the client
// gives up to do so on condition that it saw the last of them. Then the connection
// ends; the client looks for its entry, does not find it, and queues again. Should
// the first one appear after all, the client deletes it when it sees it.
func TestCreateAppliedAfterItWasGivenUp(t *testing.T) {
	for _, found := range []string{"at once", "later"} {
		t.Run(found, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a, b, z := w.dial("a"), w.dial("b"), w.raw("other")
				w.unlock(w.lock(b, "other"))
				h := w.lock(a, "x")
				var lost atomic.Pointer[string]
				w.Intercept(func(r locktest.Request) locktest.Fault {
					switch {
					case r.Label != "b" || !joins(r):
					case len(r.Paths) > 1: // on condition of the parent's version, which changes
						if _, err := z.Set("/locks/x", w.node("/locks/x").Data, -1); err != nil {
							t.Error(err)
						}
					case lost.CompareAndSwap(nil, &r.Paths[0]):
						return locktest.Fault{Drop: locktest.BeforeApply}
					}
					return locktest.Fault{}
				})
				hit := func() bool { return lost.Load() != nil }
				ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
				w.until("the mishap", hit)
				w.until("it has queued again", func() bool { return len(w.entries("x")) == 2 })
				again := w.entries("x")[1].Path
				if found == "later" {
					time.Sleep(ttl)
				}
				if _, err := z.Create(*lost.Load(), w.node(again).Data, zk.FlagSequence, zk.WorldACL(zk.PermAll)); err != nil {
					t.Fatal(err)
				}
				_, err := b.Mutex("x").TryLock(w.ctx) // lists
				mustBe(t, err, lock.ErrHeld)
				settle()
				if e := paths(w.entries("x")); len(e) != 2 || e[1] != again {
					t.Errorf("entries %q, want the holder's and %s", e, again)
				}
				w.waits(ch)
				w.unlock(h)
				got := w.expect(ch)
				w.sole(got.hold)
				w.unlock(got.hold)
				w.empty()
			})
		})
	}
}

// TestCreateIsLookedForOnTheLatestServer: the reply is lost, and the client connects
// to a member that has not heard of its entry yet.
func TestCreateIsLookedForOnTheLatestServer(t *testing.T) {
	simulate(t, locktest.Options{Members: 3}, func(w *world) {
		var followers []string
		for _, s := range w.Servers() {
			if s != w.Leader() {
				followers = append(followers, s)
			}
		}
		w.Partition("a", followers...)
		a := w.dial("a")
		w.unlock(w.lock(a, "x"))
		for _, s := range followers {
			if err := w.Lag(s, 3*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		hit := w.fault(func(r locktest.Request) bool {
			if !joins(r) {
				return false
			}
			w.Heal("a")
			w.Partition("a", w.Leader())
			return true
		}, locktest.Fault{Drop: locktest.AfterApply})
		ch := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) })
		w.until("the mishap", hit)
		w.Cut("a")
		h := w.await(ch).hold
		if !strings.HasSuffix(h.EntryPath(), "-0000000000") {
			t.Errorf("%s is not the entry that was created first: it was not found", h.EntryPath())
		}
		w.sole(h)
		w.unlock(h)
		w.empty()
	})
}
