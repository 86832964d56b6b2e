// Lost replies, and calls whose contexts end while a request is in flight: the client finds out what was
// applied, nothing is applied twice, and no node is left.

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

func TestAmbiguousLock(t *testing.T) {
	for _, keep := range bools { // with keep, the parent exists
		eachMishap(t, fmt.Sprintf("parent kept %v", keep), []string{"Lock", "TryLock"}, func(w *world, how string, i int) {
			a := w.client("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: window, KeepParent: keep}))
			w.unlock(w.lock(a, "x"))
			before := len(w.nodes())
			w.mishap(i, "a", joins)
			began := time.Now()
			h := w.take(map[string]taking{"Lock": a.Mutex("x").Lock, "TryLock": a.Mutex("x").TryLock}[how])
			atMost(w, "took, without waiting for an entry of its own,", time.Since(began), ttl-1)
			w.sole(h)
			w.unlock(h)
			time.Sleep(10 * time.Second)
			w.hasNodes(map[bool]int{true: before}[keep])
		})
	}
}

func TestAmbiguousJoinOfQueue(t *testing.T) {
	forEachMishap(t, func(w *world, i int) {
		a, b := w.client("a"), w.client("b")
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		hit := w.mishap(i, "b", func(r locktest.Request) bool { return joinsParent(r, "x") })
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
		w.until("the mishap", hit)
		time.Sleep(ttl)
		w.waits(ch)
		w.alive(h)
		w.hasEntries("x", 2)
		w.unlock(h)
		got := w.expect(ch)
		w.sole(got.hold)
		w.finish(got.hold)
	})
}

func TestAmbiguousUnlock(t *testing.T) {
	eachMishap(t, "queued", []string{"", "a", "b"}, func(w *world, queued string, i int) { // without a window, a client exchanges its entry for another one
		clients := map[string]*lock.Client{"a": w.dial("a"), "b": w.client("b")}
		h := w.lock(clients["a"], "x")
		var ch <-chan taken
		if queued != "" {
			ch = w.queue(w.ctx, clients[queued], "x")
		}
		hit, begun := w.mishap(i, "a", leaves(h)), time.Now()
		mustBe(w, h.Unlock(), nil)
		w.until("the mishap", hit) // an exchanged entry leaves in the background
		mustBe(t, h.Unlock(), lock.ErrUnlocked)
		if ch != nil {
			got := w.await(ch)
			atMost(t, "acquired, without waiting for an entry that no goroutine has, after", got.at.Sub(begun), ttl-1)
			w.sole(got.hold)
			w.unlock(got.hold)
		}
		w.empty()
	})
}

func TestAmbiguousPurge(t *testing.T) {
	forEachMishap(t, func(w *world, i int) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(a, "x")
		ended := w.end(h)
		ch := w.queue(w.ctx, b, "x")
		d := w.die("a", h.EntryPath())
		w.mishap(i, "b", leaves(h))
		got := w.await(ch)
		w.inTurn(ended, got)
		w.purged(d, got.at, 0, ttl)
		w.sole(got.hold)
		w.Heal("a")
		w.finish(got.hold)
	})
}

// TestReentryInDoubt: after a step of the wall clock the hold may have ended during a suspend. A
// reentry confirms the hold by a write, instead of queueing behind it. If the hold cannot be confirmed, the
// reentry ends when the hold or the call's context ends, and a later call queues.
func TestReentryInDoubt(t *testing.T) {
	each(t, "stays", bools, func(w *world, stays bool) {
		c := newClock(0, 0)
		a, b := w.client("a", lock.WithClock(c.now)), w.client("b")
		h := w.lock(a, "x")
		c.step(2 * ttl)
		if !stays {
			ctx, cancel := context.WithTimeout(h.Context(), ttl)
			defer cancel()
			again := w.takeIn(ctx, a.Mutex("x").Lock)
			isTrue(w, again.Token() == h.Token(), "got %s, want another handle on %s", again.EntryPath(), h.EntryPath())
			equal(w, "entry", again.EntryPath(), h.EntryPath())
			w.alive(again)
			w.hasEntries("x", 1)
			w.unlock(again)
			w.alive(h)
			w.finish(h)
			return
		}
		w.Partition("a")
		ctx, cancel := context.WithTimeout(h.Context(), grace/2)
		defer cancel()
		mustBe(w, second(a.Mutex("x").Lock(ctx)), context.DeadlineExceeded)
		again := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(h.Context()) })
		<-h.Context().Done()
		mustBe(w, w.outcome(again).err, lock.ErrLost)

		got := w.await(w.queue(w.ctx, b, "x"))
		again = start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(context.WithoutCancel(h.Context())) })
		w.Heal("a")
		time.Sleep(ttl)
		w.waits(again)
		w.alive(got.hold)
		w.unlock(got.hold)
		w.finish(w.await(again).hold)
	})
}

// TestSearchBehindOthers: if the reply to a create is lost, the client finds its entry and enters
// by that entry, although another client has joined behind.
func TestSearchBehindOthers(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a"), w.dial("b"), w.dial("c")
		h := w.lock(c, "x")
		hit := w.fault(func(r locktest.Request) bool {
			return r.Label == "a" && joinsParent(r, "x") && w.cutOffSoon("a")
		}, locktest.Fault{Drop: locktest.AfterApply})
		first := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) })
		w.until("the mishap", hit)
		last := w.queue(w.ctx, b, "x")
		made := w.entries("x")[1].Path
		w.Heal("a")
		time.Sleep(ttl / 2)
		w.hasEntries("x", 3)
		w.unlock(h)
		h = w.await(first).hold
		equal(t, "the entry that has the lock", h.EntryPath(), made)
		w.waits(last)
		w.handOver(h, last)
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
		for _, how := range []string{"Lock of a held lock", "Lock of a free lock", "TryLock of a free lock", "Lock of free locks"} {
			thens := []string{"", "closes", "closes, on a borrowed connection"}
			if strings.HasPrefix(how, "TryLock") {
				thens = thens[:1]
			}
			each(t, fmt.Sprintf("%s, %s", how, name), thens, func(w *world, then string) {
				a, b := w.clientOn(strings.HasSuffix(then, "connection"), "a"), w.client("b")
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
				switch how {
				case "TryLock of a free lock":
					take = a.Mutex("x").TryLock
				case "Lock of free locks":
					take = func(ctx context.Context) (*lock.Hold, error) {
						return nil, second(a.All([]string{"x", "y", "z"}).Lock(ctx))
					}
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

// TestCallGivenUpAsItSucceeds: if the caller gives up just as its try succeeds, the entry is deleted.
func TestCallGivenUpAsItSucceeds(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		ctx, giveUp := context.WithCancel(w.ctx)
		granted := moment{in: "(*contender).grant", do: func() {
			giveUp()
			time.Sleep(time.Millisecond) // until the call has returned
		}}
		a := w.client("a", w.atMoments(&granted))
		w.unlock(w.lock(a, "other"))
		granted.armed.Store(true)
		mustBe(w, second(a.Mutex("x").TryLock(ctx)), context.Canceled)
		w.empty()
	})
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
// up, the client deletes the late entry when the waiter behind it or a TryLock finds it.
func TestCreateAppliedLate(t *testing.T) {
	each(t, "given up", bools, func(w *world, givenUp bool) {
		a, b, z := w.client("a"), w.client("b"), w.raw("other")
		w.unlock(w.lock(b, "other"))
		if givenUp {
			gone, late := w.applyLate(z, "b", "x")
			mustBe(w, second(b.Mutex("x").Lock(w.limited(5*time.Millisecond))), context.DeadlineExceeded)
			w.until("the entry is gone", gone)
			time.Sleep(sessionTimeout)
			late()
			mustBe(w, second(b.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
			w.empty()
			return
		}
		h := w.lock(a, "x")
		gone, late := w.applyLate(z, "b", "x")
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
		w.until("the entry is gone", gone)
		w.until("it joins again", w.before(func(r locktest.Request) bool { return r.Label == "b" && joins(r) }, late))
		w.until("it waits", func() bool { return len(w.entries("x")) >= 2 })
		time.Sleep(time.Second)
		w.hasEntries("x", 2)
		w.waits(ch)
		got := w.pass(h, ch)
		w.sole(got)
		w.finish(got)
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
			mustBe(w, second(b.Mutex(name, lock.WithTTL(2*ttl)).Lock(w.limited(time.Second))), lock.ErrHeld) // joins with its own entry
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

// TestEntryThatAnotherServerDoesNotKnowYet: the reply to a renewal is lost, and the session ends between
// the sync and the read of the entry. The next server lags behind, and says that there is no entry. The
// client reads again, and Unlock deletes the entry.
func TestEntryThatAnotherServerDoesNotKnowYet(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.lock(w.client("a"), "x")
		reads, lost := 0, false
		w.Intercept(func(r locktest.Request) locktest.Fault {
			switch {
			case r.Label != "a" || !touches(r, h.EntryPath()):
			case !lost && mutates(r, "a"): // the next write finds another version
				lost = true
				return locktest.Fault{Drop: locktest.AfterApply}
			case lost && r.Op == "getData":
				switch reads++; reads {
				case 1:
					w.expireAway("a")
					return locktest.Fault{Drop: locktest.BeforeApply}
				case 2:
					return locktest.Fault{Code: codeNoNode}
				}
			}
			return locktest.Fault{}
		})
		time.Sleep(ttl / 2)
		w.unlock(h)
		isTrue(t, reads >= 3, "%d reads, want one more", reads)
		w.empty()
	})
}
