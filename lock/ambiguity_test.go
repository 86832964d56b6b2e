package lock_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// mishaps are what can befall the one request that matters, so that its sender
// does not learn whether it was applied.
var mishaps = []struct {
	name  string
	fault locktest.Fault
	also  func(w *world, label string) // what else happens to the client, or nil
}{
	{"lost with the connection", locktest.Fault{Drop: locktest.BeforeApply}, nil},
	{"lost with the session", locktest.Fault{Drop: locktest.BeforeApply}, (*world).expireSoon},
	{"applied, the reply lost with the connection", locktest.Fault{Drop: locktest.AfterApply}, nil},
	{"applied, the reply lost with the session", locktest.Fault{Drop: locktest.AfterApply}, (*world).expireSoon},
	{"applied when the connection has ended", locktest.Fault{Delay: untilSevered}, (*world).sever},
	{"the reply slower than the connection's end", locktest.Fault{DelayReply: 5 * time.Second}, nil},
	{"throttled", locktest.Fault{Code: codeThrottled}, nil},
	{"the session moved", locktest.Fault{Code: codeSessionMoved}, nil},
}

// expireSoon ends the client's session, before it has connected again.
func (w *world) expireSoon(label string) {
	time.AfterFunc(500*time.Millisecond, func() { w.ExpireLabel(label) })
}

// untilSevered is a delay after which a request is served when its connection has ended,
// and its session has not yet come back on another, if its sender was severed.
const untilSevered = 500 * time.Millisecond

// sever ends the client's connection, and lets it connect again a while later.
func (w *world) sever(label string) {
	time.AfterFunc(untilSevered/2, func() {
		w.kill(label)
		w.Cut(label)
	})
	time.AfterFunc(untilSevered*2, func() { w.Heal(label) })
}

// mishap makes the first request that the filter lets pass suffer, and returns
// what tells whether it has.
func (w *world) mishap(i int, label string, filter func(locktest.Request) bool) (hit func() bool) {
	m := mishaps[i]
	return w.fault(func(r locktest.Request) bool {
		if r.Label != label || !filter(r) {
			return false
		}
		if m.also != nil {
			m.also(w, label)
		}
		return true
	}, m.fault)
}

// forEachMishap runs f in a world of its own for each.
func forEachMishap(t *testing.T, f func(w *world, mishap int)) {
	for i, m := range mishaps {
		t.Run(m.name, func(t *testing.T) { simulate(t, locktest.Options{}, func(w *world) { f(w, i) }) })
	}
}

// sole checks that the hold has the only entry of its lock.
func (w *world) sole(h *lock.Hold) {
	w.Helper()
	time.Sleep(ttl / 2) // what was late has come, and was cleaned up
	w.alive(h)
	if e := w.entries(h.Name()); len(e) != 1 {
		w.Errorf("entries %q, want that of the hold alone", paths(e))
	}
	if h.Token().Czxid != w.node(h.EntryPath()).Stat.Czxid {
		w.Errorf("token %v, want the entry's czxid, %d", h.Token(), w.node(h.EntryPath()).Stat.Czxid)
	}
}

func joins(r locktest.Request) bool {
	return (r.Op == "multi" || r.Op == "create") && touches(r, "-lock-")
}

// joinsParent reports whether the request makes an entry, and takes the lock's parent to
// be there.
func joinsParent(r locktest.Request, name string) bool {
	return joins(r) && r.Paths[0] != lock.DefaultRoot+"/"+name
}

func leaves(h *lock.Hold) func(locktest.Request) bool {
	return func(r locktest.Request) bool {
		return (r.Op == "multi" || r.Op == "delete") && touches(r, h.EntryPath())
	}
}

func TestAmbiguousLock(t *testing.T) {
	for _, keep := range []bool{false, true} { // the parent, so that it is there
		for _, try := range []bool{false, true} {
			t.Run(fmt.Sprintf("parent kept %v try %v", keep, try), func(t *testing.T) {
				forEachMishap(t, func(w *world, i int) {
					a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: keep}))
					w.unlock(w.lock(a, "x"))
					before := len(w.nodes())
					hit := w.mishap(i, "a", joins)
					take := a.Mutex("x").Lock
					if try {
						take = a.Mutex("x").TryLock
					}
					began := time.Now()
					h, err := take(w.ctx)
					if err != nil {
						t.Fatal(err)
					}
					if !hit() {
						t.Fatal("there was no mishap")
					}
					if took := time.Since(began); took >= ttl {
						w.Errorf("took %v: it has waited for an entry of its own", took)
					}
					w.sole(h)
					w.unlock(h)
					time.Sleep(10 * time.Second)
					if left := w.nodes(); len(left) != before {
						t.Errorf("left behind: %q", left)
					}
				})
			})
		}
	}
}

func TestAmbiguousJoinOfQueue(t *testing.T) {
	forEachMishap(t, func(w *world, i int) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		hit := w.mishap(i, "b", func(r locktest.Request) bool { return joinsParent(r, "x") })
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
		w.until("the mishap", hit)
		time.Sleep(ttl)
		w.waits(ch)
		w.alive(h)
		if e := w.entries("x"); len(e) != 2 {
			t.Errorf("entries %q, want the holder's and the waiter's", paths(e))
		}
		w.unlock(h)
		got := w.expect(ch)
		w.sole(got.hold)
		w.unlock(got.hold)
		w.empty()
	})
}

func TestAmbiguousUnlock(t *testing.T) {
	for _, queued := range []string{"", "a", "b"} {
		t.Run("queued "+queued, func(t *testing.T) {
			forEachMishap(t, func(w *world, i int) {
				clients := map[string]*lock.Client{"a": w.dial("a"), "b": w.dial("b")}
				h := w.lock(clients["a"], "x")
				var ch <-chan taken
				if queued != "" {
					ch = w.queue(w.ctx, clients[queued], "x")
				}
				hit := w.mishap(i, "a", leaves(h))
				if err := h.Unlock(); err != nil {
					t.Errorf("unlock: %v", err)
				}
				if !hit() {
					t.Fatal("there was no mishap")
				}
				mustBe(t, h.Unlock(), lock.ErrUnlocked)
				if ch != nil {
					got := w.await(ch)
					w.sole(got.hold)
					w.unlock(got.hold)
				}
				w.empty()
			})
		})
	}
}

// TestAmbiguousUnlockWithRenewalOnItsWay: the version that the entry is at is not
// known either.
func TestAmbiguousUnlockWithRenewalOnItsWay(t *testing.T) {
	forEachMishap(t, func(w *world, i int) {
		a := w.dial("a")
		h := w.lock(a, "x")
		ch := w.queue(w.ctx, w.dial("b"), "x")
		w.until("a renewal", w.mishap(i, "a", func(r locktest.Request) bool { return renews(r, h) }))
		w.unlock(h)
		got := w.await(ch)
		w.sole(got.hold)
		w.unlock(got.hold)
		w.empty()
	})
}

func TestAmbiguousPurge(t *testing.T) {
	forEachMishap(t, func(w *world, i int) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x")
		ended := w.end(h)
		ch := w.queue(w.ctx, b, "x")
		d := w.die("a", h.EntryPath())
		hit := w.mishap(i, "b", leaves(h))
		got := w.await(ch)
		if !hit() {
			t.Fatal("there was no mishap")
		}
		w.inTurn(ended, got)
		w.purged(d, got.at, 0, ttl)
		w.sole(got.hold)
		w.unlock(got.hold)
		w.Heal("a")
		w.empty()
	})
}

func TestAmbiguousWithdrawal(t *testing.T) {
	forEachMishap(t, func(w *world, i int) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x")
		ctx, cancel := context.WithCancel(w.ctx)
		ch := w.queue(ctx, b, "x")
		entry := w.entries("x")[1].Path
		hit := w.mishap(i, "b", func(r locktest.Request) bool { return r.Op == "delete" && touches(r, entry) })
		cancel()
		mustBe(t, w.outcome(ch).err, context.Canceled, lock.ErrHeld)
		w.until("the mishap", hit)
		w.sole(h)
		w.unlock(h)
		w.empty()
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
