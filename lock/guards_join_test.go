package lock_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// The tests of these files guard one rule of the queue each: the mutants that break the rule
// in one line name them.

// users returns a client with the window that users get, which keeps entries for so long.
func (w *world) users(label string, idle time.Duration) *lock.Client {
	w.Helper()
	return w.dial(label, lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: lock.DefaultLocalWindow, Idle: idle}))
}

// cutOffSoon cuts a client off once the request that it has just sent was applied.
func (w *world) cutOffSoon(label string) bool {
	time.AfterFunc(latency/10, func() { w.kill(label) })
	return true
}

// twice has a client use a lock twice, so that it believes in a parent, which stays for a
// second.
func (w *world) twice(c *lock.Client, names ...string) {
	w.Helper()
	for range 2 {
		for _, name := range names {
			w.unlock(w.lock(c, name))
		}
	}
}

// makeAnew deletes a lock's parent with all below it, and makes a node with that data there.
func (w *world) makeAnew(z *zk.Conn, path, data string) {
	w.Helper()
	nodes := paths(w.Dump(path))
	slices.Reverse(nodes)
	w.remove(z, nodes...)
	w.create(z, path, data, 0)
}

// holds checks that a node is there with that data.
func (w *world) holds(path, data string) {
	w.Helper()
	if n := w.node(path); string(n.Data) != data {
		w.Errorf("%s holds %q, want %q", path, n.Data, data)
	}
}

func TestGuardFreeLock(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.users("a", 0)
		w.unlock(w.lock(a, "other"))
		settle()
		c := w.cost("a", func() { w.unlock(w.lock(a, "x")) })
		if c.total() != 2 || c.txns != 2 {
			t.Errorf("%+v, want one request each way", c)
		}
		if n := w.nodes(); len(n) > 0 {
			t.Errorf("left behind: %q", n)
		}
	})
}

func TestGuardEndOfTheCounter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x")
		if err := w.SetSequence("/locks/x", math.MaxInt32); err != nil {
			t.Fatal(err)
		}
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
		settle()
		w.waits(ch)
		w.unlock(h)
		got := w.await(ch).hold
		if !strings.HasSuffix(got.EntryPath(), "-0000000001") { // the anchor has 0
			t.Errorf("the hold has the entry %s", got.EntryPath())
		}
		w.unlock(got)
		w.empty()
	})
}

func TestGuardEndOfAnAdoptedCounter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		w.unlock(w.lock(a, "other"))
		w.create(z, "/locks/x", "", 0)
		if err := w.SetSequence("/locks/x", math.MaxInt32); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		h, err := a.Mutex("x").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		w.unlock(h)
		w.empty()
	})
}

func TestGuardParentMadeAnew(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		w.twice(a, "x")
		w.makeAnew(z, "/locks/x", "theirs")
		_, err := a.Mutex("x").Lock(w.ctx)
		mustBe(t, err, lock.ErrForeign)
		w.holds("/locks/x", "theirs")
		if n := len(w.Dump("/locks/x")); n != 1 {
			t.Errorf("%d nodes below theirs", n-1)
		}
	})
}

func TestGuardKinds(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.twice(a, "x")
		for _, c := range []*lock.Client{a, b} {
			_, err := c.RWMutex("x").Lock(w.ctx)
			mustBe(t, err, lock.ErrKind)
		}
		if k := w.parent("x").Kind; k != znode.Mutex {
			t.Errorf("the parent is of the kind %s", k)
		}
		w.empty()
	})
}

func TestGuardForeignData(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		w.unlock(w.lock(a, "other"))
		w.create(z, "/locks/x", "theirs", 0)
		_, err := a.Mutex("x").Lock(w.ctx)
		mustBe(t, err, lock.ErrForeign)
		w.holds("/locks/x", "theirs")
	})
}

// TestGuardAdoption: what becomes of an empty node between the read and the write of who
// adopts it.
func TestGuardAdoption(t *testing.T) {
	for _, happens := range []string{"made anew", "written"} {
		t.Run(happens, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a, z := w.dial("a"), w.raw("other")
				w.unlock(w.lock(a, "other"))
				w.create(z, "/locks/x", "", 0)
				w.before(func(r locktest.Request) bool {
					return mutates(r, "a") && strings.Contains(r.Paths[0], "-lock-") && touches(r, "/locks/x/anchor-")
				}, func() {
					if happens == "made anew" {
						w.makeAnew(z, "/locks/x", "theirs")
					} else if _, err := z.Set("/locks/x", []byte("theirs"), -1); err != nil {
						t.Error(err)
					}
				})
				_, err := a.Mutex("x").Lock(w.ctx)
				mustBe(t, err, lock.ErrForeign)
				time.Sleep(5 * time.Second)
				w.holds("/locks/x", "theirs")
				if n := len(w.Dump("/locks/x")); n != 1 {
					t.Errorf("%d nodes below theirs", n-1)
				}
			})
		})
	}
}

func TestGuardAdoptedStays(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("other")
		w.unlock(w.lock(a, "other"))
		w.create(z, "/locks/x", "", 0)
		czxid := w.node("/locks/x").Stat.Czxid
		for _, c := range []*lock.Client{a, b, a} {
			w.unlock(w.lock(c, "x"))
			time.Sleep(5 * time.Second)
			if n := w.node("/locks/x"); n.Stat.Czxid != czxid {
				t.Fatal("it was made anew")
			}
		}
	})
}

func TestGuardParentWithoutDelete(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		w.unlock(w.lock(a, "other"))
		w.createACL(z, "/locks/x", "", zk.WorldACL(zk.PermAll&^zk.PermDelete))
		_, err := a.Mutex("x").Lock(w.ctx)
		mustBe(t, err, lock.ErrDenied)
		if n := len(w.Dump("/locks/x")); n != 1 {
			t.Errorf("%d nodes that nobody can delete", n-1)
		}
	})
}

// TestGuardParentWithoutCreate: a client that may not make a lock's parent uses one that is there.
func TestGuardParentWithoutCreate(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("other")
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		time.Sleep(2 * time.Second) // the parent of the other lock has gone
		if _, err := z.SetACL(lock.DefaultRoot, zk.WorldACL(zk.PermAll&^zk.PermCreate), -1); err != nil {
			t.Fatal(err)
		}
		ch := w.queue(w.ctx, b, "x")
		w.unlock(h)
		w.unlock(w.await(ch).hold)
	})
}

// TestGuardAnchorIsReadable: where the ACL lets no client read, the one that has made the
// parent can still check the anchor.
func TestGuardAnchorIsReadable(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", lock.WithACL(zk.WorldACL(zk.PermAll&^zk.PermRead)...))
		if n := len(w.Dump(lock.DefaultRoot)); n > 0 {
			t.Skip("the root is there")
		}
		h, err := a.Mutex("x").Lock(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		acl, _, err := w.raw("other").GetACL("/locks/x/" + znode.Anchor(w.parent("x").Generation))
		if err != nil || !slices.Contains(acl, zk.ACL{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}) {
			t.Errorf("the anchor's ACL is %v, %v", acl, err)
		}
		_ = h.Unlock()
	})
}

// followers are the members that do not lead.
func (w *world) followers() (all []string) {
	for _, s := range w.Servers() {
		if s != w.Leader() {
			all = append(all, s)
		}
	}
	return all
}

func TestGuardSearchOnALaggingServer(t *testing.T) {
	simulate(t, locktest.Options{Members: 3}, func(w *world) {
		followers := w.followers()
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
		made := w.entries("x")
		w.Cut("a")
		h := w.await(ch).hold
		if len(made) != 1 || h.EntryPath() != made[0].Path {
			t.Errorf("%s is not the entry that was created first, of %q: it was not found", h.EntryPath(), paths(made))
		}
		w.sole(h)
		w.unlock(h)
		w.empty()
	})
}

func TestGuardSearchBehindOthers(t *testing.T) {
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
		if n := w.entries("x"); len(n) != 3 {
			t.Errorf("entries %q, want the holder's and one each", paths(n))
		}
		w.unlock(h)
		h = w.await(first).hold
		if h.EntryPath() != made {
			t.Errorf("%s has the lock, want %s, which was made first", h.EntryPath(), made)
		}
		w.waits(last)
		w.unlock(h)
		w.unlock(w.await(last).hold)
		w.empty()
	})
}

// TestGuardCreateAppliedLate: a create is applied after it was searched for in vain, and the
// client has joined anew. The client sees what that has made, and deletes it.
func TestGuardCreateAppliedLate(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("other")
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		var name string
		hit := w.fault(func(r locktest.Request) bool {
			if r.Label != "b" || !joinsParent(r, "x") {
				return false
			}
			name = r.Paths[slices.IndexFunc(r.Paths, func(p string) bool { return strings.HasSuffix(p, "-lock-") })]
			return w.cutOffSoon("b")
		}, locktest.Fault{Drop: locktest.AfterApply})
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
		w.until("the mishap", hit)
		made := w.entries("x")[1]
		w.remove(z, made.Path) // as if it had not been applied yet
		w.Heal("b")
		w.until("it has joined anew", func() bool { return len(w.entries("x")) == 2 })
		again := w.entries("x")[1].Path
		if _, err := z.Create(name, made.Data, zk.FlagSequence, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		_, err := b.Mutex("x", lock.WithTTL(2*ttl)).Lock(ctx) // stands behind it
		mustBe(t, err, lock.ErrHeld)
		time.Sleep(time.Second)
		if e := paths(w.entries("x")); len(e) != 2 || e[1] != again {
			t.Errorf("entries %q, want the holder's and %s", e, again)
		}
		w.unlock(h)
		w.unlock(w.await(ch).hold)
		w.empty()
	})
}

// TestGuardGivenUpSearch: a call gives up while what its lost create has made is not known.
func TestGuardGivenUpSearch(t *testing.T) {
	for _, applied := range []locktest.Drop{locktest.BeforeApply, locktest.AfterApply} {
		t.Run(fmt.Sprint(applied), func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a, b := w.dial("a"), w.dial("b")
				h := w.lock(b, "x")
				ctx, cancel := context.WithCancel(w.ctx)
				hit := w.fault(func(r locktest.Request) bool {
					return r.Label == "a" && joinsParent(r, "x") && w.cutOffSoon("a")
				}, locktest.Fault{Drop: applied})
				ch := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(ctx) })
				w.until("the mishap", hit)
				cancel()
				<-ch
				w.Heal("a")
				time.Sleep(ttl / 2)
				if e := w.entries("x"); len(e) != 1 {
					t.Errorf("entries %q, want that of the hold", paths(e))
				}
				w.unlock(h)
				w.empty()
			})
		})
	}
}

// local has a client hold a lock, while others of its process wait for it.
func (w *world) local(c *lock.Client, n int) (*lock.Hold, []<-chan taken) {
	w.Helper()
	h := w.lock(c, "x")
	var waiting []<-chan taken
	for range n {
		waiting = append(waiting, start(func() (*lock.Hold, error) { return c.Mutex("x").Lock(w.ctx) }))
		settle()
	}
	return h, waiting
}

// exchanges reports whether a request has an entry leave and another join.
func exchanges(r locktest.Request, h *lock.Hold) bool {
	return r.Op == "multi" && r.Paths[0] == h.EntryPath() && slices.ContainsFunc(r.Paths, func(p string) bool { return strings.HasSuffix(p, "-lock-") })
}

func TestGuardExchange(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		h, waiting := w.local(a, 1)
		w.Trace(nil)
		before := w.Transactions()
		w.unlock(h)
		next := w.expect(waiting[0]).hold
		if n := w.Transactions() - before; n != 1 {
			t.Errorf("%d transactions, want one", n)
		}
		if next.EntryPath() == h.EntryPath() {
			t.Error("the entry was handed on, without a window")
		}
		w.sole(next)
		w.unlock(next)
		w.empty()
	})
}

func TestGuardAmbiguousExchange(t *testing.T) {
	forEachMishap(t, func(w *world, mishap int) {
		a := w.dial("a")
		h, waiting := w.local(a, 1)
		hit := w.mishap(mishap, "a", func(r locktest.Request) bool { return exchanges(r, h) })
		w.unlock(h)
		w.until("the mishap", hit)
		begun := time.Now()
		next := w.await(waiting[0])
		if took := next.at.Sub(begun); took > sessionTimeout {
			w.Errorf("the next one has the lock after %v", took)
		}
		w.sole(next.hold)
		w.unlock(next.hold)
		w.empty()
	})
}

// TestGuardExchangeInDoubtTwice: the first of two attempts in doubt was the one.
func TestGuardExchangeInDoubtTwice(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		h, waiting := w.local(a, 1)
		var n atomic.Int32
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Label != "a" || !exchanges(r, h) {
				return locktest.Fault{}
			}
			switch n.Add(1) {
			case 1:
				return locktest.Fault{Drop: locktest.AfterApply}
			case 2:
				return locktest.Fault{Drop: locktest.BeforeApply}
			}
			return locktest.Fault{}
		})
		w.unlock(h)
		begun := time.Now()
		next := w.await(waiting[0])
		if n.Load() < 3 {
			t.Errorf("%d attempts", n.Load())
		}
		if took := next.at.Sub(begun); took > ttl/2 {
			t.Errorf("the next one has the lock after %v", took)
		}
		w.sole(next.hold)
		w.unlock(next.hold)
		w.empty()
	})
}

func TestGuardExchangeAtTheEndOfTheCounter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h, waiting := w.local(w.dial("a"), 1)
		if err := w.SetSequence("/locks/x", math.MaxInt32); err != nil {
			t.Fatal(err)
		}
		w.unlock(h)
		next := w.await(waiting[0]).hold
		if !strings.HasSuffix(next.EntryPath(), "-0000000001") { // the anchor has 0
			t.Errorf("the hold has the entry %s", next.EntryPath())
		}
		w.unlock(next)
		w.empty()
	})
}

// TestGuardExchangeGivenUp: the waiter gives up while its client cannot ask what the exchange
// has done.
func TestGuardExchangeGivenUp(t *testing.T) {
	for _, applied := range []locktest.Drop{locktest.BeforeApply, locktest.AfterApply} {
		t.Run(fmt.Sprint(applied), func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a := w.dial("a")
				h := w.lock(a, "x")
				ctx, cancel := context.WithCancel(w.ctx)
				ch := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(ctx) })
				settle()
				hit := w.fault(func(r locktest.Request) bool { return exchanges(r, h) && w.cutOffSoon("a") }, locktest.Fault{Drop: applied})
				w.unlock(h)
				w.until("the mishap", hit)
				cancel()
				<-ch
				time.Sleep(time.Second)
				w.Heal("a")
				time.Sleep(ttl / 2)
				if e := w.entries("x"); len(e) != 0 {
					t.Errorf("entries %q, want none", paths(e))
				}
				w.empty()
			})
		})
	}
}

func TestGuardAllAtOnce(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		w.unlock(w.lock(a, "other"))
		settle()
		c := w.cost("a", func() {
			h, err := a.LockAll(w.ctx, "x", "y", "z")
			if err == nil {
				err = h.Unlock()
			}
			if err != nil {
				t.Error(err)
			}
		})
		if c.total() != 2 || c.txns != 2 {
			t.Errorf("%+v, want one request each way", c)
		}
		w.empty()
	})
}

func TestGuardAllParentsAnew(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		w.twice(a, "x", "y", "z")
		for _, name := range []string{"x", "y", "z"} {
			nodes := paths(w.Dump("/locks/" + name))
			slices.Reverse(nodes)
			w.remove(z, nodes...)
		}
		c := w.cost("a", func() {
			h, err := a.LockAll(w.ctx, "x", "y", "z")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			defer h.Unlock()
		})
		if n := c.requests["multi"]; n > 3 { // one is refused, one joins, one leaves
			t.Errorf("%d transactions", n)
		}
		w.empty()
	})
}

// TestGuardAllInDoubt: of what a transaction of unknown outcome has made, one entry was
// removed meanwhile. All others go, and do not block their locks until they expire.
func TestGuardAllInDoubt(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		w.unlock(w.lock(a, "other"))
		hit := w.fault(func(r locktest.Request) bool { return joins(r) && w.cutOffSoon("a") }, locktest.Fault{Drop: locktest.AfterApply})
		done := make(chan *lock.Holds, 1)
		go func() {
			h, err := a.LockAll(w.ctx, "x", "y", "z")
			if err != nil {
				t.Error(err)
			}
			done <- h
		}()
		w.until("the mishap", hit)
		w.remove(z, w.entries("x")[0].Path)
		healed := time.Now()
		w.Heal("a")
		h := <-done
		if took := time.Since(healed); took > ttl/2 {
			t.Errorf("it took %v", took)
		}
		for _, name := range []string{"x", "y", "z"} {
			if e := w.entries(name); len(e) != 1 {
				t.Errorf("entries %q", paths(e))
			}
		}
		if err := h.Unlock(); err != nil {
			t.Error(err)
		}
		w.empty()
	})
}

// TestGuardAllFresh: the first of two locks comes free when the lease on the second may be
// over soon.
func TestGuardAllFresh(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(b, "x")
		done := make(chan *lock.Holds, 1)
		go func() {
			h, err := a.LockAll(w.ctx, "x", "y")
			if err != nil {
				t.Error(err)
			}
			done <- h
		}()
		w.until("it waits", func() bool { return len(w.entries("y")) == 1 })
		own := w.entries("y")[0].Path
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if i := slices.Index(r.Paths, own); i >= 0 && mutates(r, "a") {
				return locktest.Fault{Code: codeQuota, Op: i + 1}
			}
			return locktest.Fault{}
		})
		time.Sleep(ttl * 3 / 4)
		w.unlock(h)
		settle()
		select {
		case <-done:
			t.Error("it has both, and one is not renewed")
			w.Intercept(nil)
		default:
			w.Intercept(nil)
			h := <-done
			if err := h.Unlock(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestGuardTryAllOfKept(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.users("a", time.Minute)
		w.unlock(w.lock(a, "x"))
		settle()
		h, err := a.All([]string{"x", "y"}).TryLock(w.ctx)
		if err == nil {
			err = h.Unlock()
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// behind returns clients of a leader, and of a member that lags behind from when lag is called.
func (w *world) behind(labels ...string) (at []*lock.Client, late *lock.Client, lag func()) {
	w.Helper()
	leader, follower := w.Leader(), w.followers()[0]
	for _, label := range labels {
		at = append(at, w.dialAt(label, []string{leader}))
	}
	late = w.dialAt("late", []string{follower})
	w.unlock(w.lock(late, "other"))
	return at, late, func() {
		w.Helper()
		settle()
		if err := w.Lag(follower, 700*time.Millisecond); err != nil {
			w.Fatal(err)
		}
	}
}

func TestGuardTryOnALaggingServer(t *testing.T) {
	simulate(t, locktest.Options{Members: 3}, func(w *world) {
		at, late, lag := w.behind("a")
		h := w.lock(at[0], "x")
		lag()
		w.unlock(h)
		got, err := late.Mutex("x").TryLock(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		w.unlock(got)
	})
}

func TestGuardRevokeOnALaggingServer(t *testing.T) {
	simulate(t, locktest.Options{Members: 3}, func(w *world) {
		at, late, lag := w.behind("a", "b")
		h := w.lock(at[0], "x")
		lag()
		w.unlock(h)
		h = w.lock(at[1], "x")
		asked := h.Revoked()
		if err := late.Revoke(w.ctx, "x", "it hangs"); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		select {
		case r := <-asked:
			if r.Reason != "it hangs" {
				t.Errorf("asked: %+v", r)
			}
		default:
			t.Error("the holder was not asked")
		}
		w.unlock(h)
	})
}

func TestGuardResizeOnALaggingServer(t *testing.T) {
	simulate(t, locktest.Options{Members: 3}, func(w *world) {
		at, late, lag := w.behind("a")
		h := w.take(permits(at[0].Semaphore("x", 4), 1))
		lag()
		if err := at[0].Semaphore("x", 4).Resize(w.ctx, 3); err != nil {
			t.Fatal(err)
		}
		if err := late.Semaphore("x", 4).Resize(w.ctx, 4); err != nil {
			t.Fatal(err)
		}
		if a := w.anchor("x"); a.Capacity() != 4 {
			t.Errorf("the semaphore has %d permits, want 4 again", a.Capacity())
		}
		w.unlock(h)
	})
}
