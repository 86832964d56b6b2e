// Calls whose contexts end while a request is in flight: they leave no node.

package lock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestGiveUpWhileGrantIsRecorded: if the caller gives up while the client records the grant of a
// leader, no node is left. The hold does not count as lost, because no goroutine got it.
func TestGiveUpWhileGrantIsRecorded(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(b, "x")
		ctx, giveUp := context.WithCancel(w.ctx)
		ch := w.campaign(ctx, a, "a")
		hit := w.fault(func(r locktest.Request) bool { return r.Label == "a" && r.Op == "setData" }, locktest.Fault{Delay: time.Second})
		w.unlock(h)
		w.until("the grant is written", hit)
		giveUp()
		mustBe(w, w.outcome(ch).err, context.Canceled)
		w.empty()
		equal(w, "holds count as lost", a.Stats().Lost, 0)
	})
}

// outlasts names the fault in lateReplies whose request is applied after the sender's connection
// has ended and before the sender reconnects.
const outlasts = "applied when the connection has ended"

// lateReplies are the faults of a join, by name. The tests end the caller's context after 5 ms,
// before the client can know the outcome.
var lateReplies = map[string]locktest.Fault{
	"applied late":                          {Delay: time.Second},
	"replied late":                          {DelayReply: time.Second},
	"replied late, but not by much":         {DelayReply: 10 * time.Millisecond},
	"lost late, and the connection ends":    {Delay: time.Second, Drop: locktest.BeforeApply},
	"applied late, and the connection ends": {Delay: time.Second, Drop: locktest.AfterApply},
	outlasts:                                {Delay: untilSevered},
}

// TestAbandonedCall: if the caller gives up while the request or its reply is in flight, no node is
// left. If the client then closes, no node is left when Close returns, unless the fault is
// outlasts.
func TestAbandonedCall(t *testing.T) {
	for name, fault := range lateReplies {
		for _, how := range []string{"Lock of a held lock", "Lock of a free lock", "TryLock of a free lock"} {
			for _, then := range []string{"", "closes", "closes, on a borrowed connection"} {
				if then != "" && strings.HasPrefix(how, "TryLock") {
					continue
				}
				subtest(t, fmt.Sprintf("%s, %s %s", how, name, then), locktest.Options{}, func(w *world) {
					b := w.client("b")
					dial := w.client
					if strings.HasSuffix(then, "connection") {
						dial = w.borrow
					}
					a := dial("a")
					w.unlock(w.lock(a, "other"))
					time.Sleep(2 * time.Second)
					held := how == "Lock of a held lock"
					var h *lock.Hold
					if held {
						h = w.lock(b, "x")
					}
					before := len(w.nodes())
					hit := w.fault(func(r locktest.Request) bool {
						return r.Label == "a" && joins(r) && joinsParent(r, "x") == held
					}, fault)
					if name == outlasts {
						w.sever("a")
					}
					ctx := w.limited(5 * time.Millisecond)
					take := a.Mutex("x").Lock
					if strings.HasPrefix(how, "TryLock") {
						take = a.Mutex("x").TryLock
					}
					got, err := take(ctx)
					mustBe(w, err, context.DeadlineExceeded)
					mustBeTrue(w, got == nil && hit(), "got %v, mishap %v", got, hit())
					if then == "" {
						time.Sleep(2 * sessionTimeout)
					} else if err := a.Close(); err != nil && name != outlasts {
						w.Errorf("close: %v", err)
					}
					isTrue(w, len(w.nodes()) == before || name == outlasts, "left behind: %q", w.nodes())
					if held {
						w.sole(h)
						w.unlock(h)
					}
					w.empty()
					w.unlock(w.lock(b, "x"))
				})
			}
		}
	}
}

// applyLate loses the client's next join of the locks together with its connection. gone reports
// whether the join was applied; if it was, gone deletes the created nodes and lets the client
// reconnect. late creates the same nodes again, as if the server applied the request only then.
func (w *world) applyLate(z *zk.Conn, label string, names ...string) (gone func() bool, late func()) {
	dump := func() (all []locktest.Node) {
		for _, name := range names {
			all = append(all, w.Dump("/locks/"+name)...)
		}
		return all
	}
	var made []locktest.Node
	known := dump()
	w.fault(func(r locktest.Request) bool {
		return r.Label == label && joins(r) && joinsParent(r, names[0]) == (len(known) > 0) && w.cutOff(label)
	}, locktest.Fault{Drop: locktest.AfterApply})
	gone = func() bool {
		made = slices.DeleteFunc(dump(), func(n locktest.Node) bool {
			return slices.ContainsFunc(known, func(o locktest.Node) bool { return o.Path == n.Path })
		})
		if len(made) == 0 {
			return false
		}
		for _, n := range slices.Backward(made) {
			w.remove(z, n.Path)
		}
		w.Heal(label)
		return true
	}
	return gone, func() {
		for _, n := range made {
			if strings.Contains(n.Path, "-lock-") {
				w.create(z, n.Path[:len(n.Path)-10], string(n.Data), zk.FlagSequence)
			} else {
				w.create(z, n.Path, string(n.Data), 0)
			}
		}
		for _, n := range known {
			if slices.Contains(names, strings.TrimPrefix(n.Path, "/locks/")) {
				w.set(z, n.Path, n.Data)
			}
		}
	}
}

// TestCreateAppliedLate: if a client's create is applied after the client has joined again or given
// up, the client deletes the late entry when a waiter or a TryLock finds it.
func TestCreateAppliedLate(t *testing.T) {
	each(t, "seen", []string{"by the waiter behind it", "by a later waiter"}, func(w *world, seen string) {
		a, b, z := w.client("a"), w.client("b"), w.raw("other")
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		gone, late := w.applyLate(z, "b", "x")
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
		w.until("the entry is gone", gone)
		if seen == "by the waiter behind it" {
			w.until("it joins again", w.before(func(r locktest.Request) bool { return r.Label == "b" && joins(r) }, late))
			w.until("it waits", func() bool { return len(w.entries("x")) >= 2 })
		} else {
			w.until("it has joined again", func() bool { return len(w.entries("x")) == 2 })
			time.Sleep(ttl)
			late()
			w.hasEntries("x", 3)
			ctx := w.limited(time.Second)
			_, err := b.Mutex("x", lock.WithTTL(2*ttl)).Lock(ctx) // joins with its own entry
			mustBe(w, err, lock.ErrHeld)
		}
		time.Sleep(time.Second)
		w.hasEntries("x", 2)
		w.waits(ch)
		w.unlock(h)
		got := w.expect(ch)
		w.sole(got.hold)
		w.finish(got.hold)
	})
	subtest(t, "after the caller gave up", locktest.Options{}, func(w *world) {
		a, z := w.client("a"), w.raw("other")
		w.unlock(w.lock(a, "other"))
		gone, late := w.applyLate(z, "a", "x")
		ctx := w.limited(5 * time.Millisecond)
		mustBe(w, second(a.Mutex("x").Lock(ctx)), context.DeadlineExceeded)
		w.until("the entry is gone", gone)
		time.Sleep(sessionTimeout)
		late()
		mustBe(w, second(a.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
		w.empty()
	})
}

// TestCreatesOfAllAppliedLate: if a join of several locks is applied after the client has joined again,
// the client deletes the late entry of each lock when it finds the entry.
func TestCreatesOfAllAppliedLate(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		names := []string{"x", "y", "z"}
		a, b, z := w.client("a"), w.client("b"), w.raw("other")
		w.unlock(w.lock(b, "other"))
		held := w.lockAll(a, names...)
		gone, late := w.applyLate(z, "b", names...)
		ch := start(func() (*lock.Holds, error) { return b.All(names).Lock(w.ctx) })
		w.until("the entries are gone", gone)
		w.until("it has joined again", func() bool { return len(w.entries("z")) == 2 })
		time.Sleep(ttl)
		late()
		for _, name := range names {
			w.hasEntries(name, 3)
			_, err := b.Mutex(name, lock.WithTTL(2*ttl)).Lock(w.limited(time.Second)) // joins with its own entry
			mustBe(w, err, lock.ErrHeld)
			time.Sleep(time.Second)
			w.hasEntries(name, 2)
		}
		w.waitsAll(ch)
		w.unlockAll(held)
		w.unlockAll(w.expectAll(ch))
		w.empty()
	})
}

// TestLostCreateIsFoundByTheLatestServer: the reply to a create is lost, and the client reconnects
// to a member that lags behind. The client holds the lock by the entry that was created first.
func TestLostCreateIsFoundByTheLatestServer(t *testing.T) {
	simulate(t, locktest.Options{Members: 3}, func(w *world) {
		followers := w.followers()
		w.Partition("a", followers...)
		a := w.client("a")
		w.unlock(w.lock(a, "x"))
		for _, s := range followers {
			w.ok(w.Lag(s, 3*time.Second))
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
		first := w.entries("x")
		w.Cut("a")
		h := w.await(ch).hold
		isTrue(t, len(first) == 1 && h.EntryPath() == first[0].Path, "has it by %s, want the entry that was created first, %q", h.EntryPath(), paths(first))
		w.sole(h)
		w.finish(h)
	})
}

// TestAbandonedCallLeavesTheParentOfOthers: an abandoned call deletes its entry, but not the parent
// that another program created.
func TestAbandonedCallLeavesTheParentOfOthers(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.client("a")
		w.unlock(w.lock(a, "other"))
		w.create(w.raw("other"), "/locks/x", "", 0)
		hit := w.fault(func(r locktest.Request) bool { return joinsParent(r, "x") }, locktest.Fault{DelayReply: time.Second})
		ctx := w.limited(50 * time.Millisecond)
		mustBe(t, second(a.Mutex("x").Lock(ctx)), context.DeadlineExceeded)
		mustBeTrue(t, hit() && len(w.entries("x")) == 1, "mishap %v, entries %q", hit(), paths(w.entries("x")))
		w.stays(w.node("/locks/x"))
		equal(t, "nodes", len(w.bare()), 1)
	})
}
