// A lock's node that another program recreated, wrote or copied: it is adopted, refused or left.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// remake wipes a lock, and creates its parent again with data and the given version.
func (w *world) remake(z *zk.Conn, name, data string, version int32) locktest.Node {
	w.Helper()
	path := "/locks/" + name
	w.wipe(z, name)
	w.create(z, path, data, 0)
	for range version {
		w.set(z, path, []byte(data))
	}
	return w.node(path)
}

// TestRecreatedParent: another program recreates a lock's parent with the version that a client
// remembers. The client refuses a foreign node, adopts an empty one, and deletes the node only if
// clients of Holdfast created it, or if it has their data.
func TestRecreatedParent(t *testing.T) {
	for _, known := range []struct {
		name string
		keep bool // keep the parent
		meet func(w *world, c *lock.Client)
	}{
		{"below an entry", false, func(w *world, c *lock.Client) { w.lock(c, "x") }},
		{"left a moment ago", false, func(w *world, c *lock.Client) {
			for range 2 { // the parent stays after the second use
				w.unlock(w.lock(c, "x"))
			}
		}},
		{"kept, and left a while ago", true, func(w *world, c *lock.Client) {
			w.unlock(w.lock(c, "x"))
			time.Sleep(2 * time.Second)
		}},
		{"kept, and left by a reply that was late", true, func(w *world, c *lock.Client) {
			h := w.lock(c, "x")
			w.fault(leaves(h), locktest.Fault{DelayReply: 2 * time.Second})
			w.unlock(h)
		}},
	} {
		for name, check := range map[string]func(w *world, a *lock.Client, version int32){
			"for something else": func(w *world, a *lock.Client, version int32) { // the client refuses it, and leaves it
				before := w.remake(w.raw("other"), "x", "not a lock", version)
				mustBe(w, second(a.Mutex("x").Lock(w.ctx)), lock.ErrForeign)
				time.Sleep(5 * time.Second)
				same(w, []locktest.Node{before}, w.Dump(before.Path))
			},
			"empty": func(w *world, a *lock.Client, version int32) { // it is adopted and kept
				before := w.remake(w.raw("other"), "x", "", version)
				h := w.lock(a, "x")
				isTrue(w, w.parent("x").Adopted, "the parent is not marked as adopted")
				w.unlock(h)
				w.stays(before)
			},
			"empty, and adopted by another client": func(w *world, a *lock.Client, version int32) {
				b := w.client("b")
				want := max(version, 2) // the adoption and the join each write the node
				before := w.remake(w.raw("other"), "x", "", want-2)
				h := w.lock(b, "x")
				v := w.node(before.Path).Stat.Version
				mustBeTrue(w, v == want && w.parent("x").Adopted, "the parent is at version %d, want %d, and adopted", v, want)
				ch := w.queue(w.ctx, a, "x")
				isTrue(w, w.parent("x").Adopted && len(w.anchors("x")) == 1, "the parent tells %+v, and has the anchors %q", w.parent("x"), w.anchors("x"))
				w.waits(ch)
				w.inOrder(h, ch)
				w.stays(before)
			},
			"by clients like us": func(w *world, a *lock.Client, _ int32) { // the other clients have left, so the client deletes it
				w.wipe(w.raw("other"), "x")
				b := w.client("b")
				w.unlock(w.lock(b, "x"))
				h := w.lock(b, "x")
				ch := w.queue(w.ctx, a, "x")
				w.waits(ch)
				w.inOrder(h, ch)
			},
			"with our data, and no anchor": func(w *world, a *lock.Client, version int32) { // the client adopts it again, and deletes it
				w.remake(w.raw("other"), "x", string(w.node("/locks/x").Data), version)
				h := w.lock(a, "x")
				isTrue(w, !w.parent("x").Adopted && len(w.anchors("x")) == 1, "the parent tells %+v, and has the anchors %q", w.parent("x"), w.anchors("x"))
				w.unlock(h)
			},
		} {
			subtest(t, known.name+", made again "+name, locktest.Options{}, func(w *world) {
				a := w.client("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: known.keep, LocalWindow: window}))
				w.unlock(w.lock(w.client("c"), "other"))
				known.meet(w, a)
				check(w, a, w.node("/locks/x").Stat.Version)
				time.Sleep(5 * time.Second)
				_, there := w.Node("/locks/x")
				isTrue(w, !there || !w.parentMayGo("x", known.keep), "left behind: %q", w.nodes())
			})
		}
	}
}

// parentMayGo reports whether the last client must delete the lock's parent.
func (w *world) parentMayGo(name string, kept bool) bool {
	p, err := znode.DecodeParent(w.node("/locks/" + name).Data)
	return err == nil && p.Generation != "" && !p.Adopted && !kept
}

// TestAdoptedParentIsLeft: a client that was alone does not delete an adopted parent. It makes no
// difference whether the client learned of its entry by the reply or by a search, or which client
// adopted the parent.
func TestAdoptedParentIsLeft(t *testing.T) {
	for name, fault := range map[string]locktest.Fault{"replied": {}, "found": {Drop: locktest.AfterApply}} {
		for _, again := range []bool{false, true} {
			subtest(t, fmt.Sprintf("%s again %v", name, again), locktest.Options{}, func(w *world) {
				a := w.client("a")
				w.unlock(w.lock(a, "other"))
				w.create(w.raw("other"), "/locks/x", "", 0)
				before := w.node("/locks/x")
				if again {
					w.unlock(w.lock(w.client("b"), "x"))
					w.stays(before)
				}
				w.fault(func(r locktest.Request) bool { return r.Label == "a" && joinsParent(r, "x") }, fault)
				h := w.lock(a, "x")
				ch := w.queue(w.ctx, w.client("c"), "x")
				w.unlock(w.pass(h, ch))
				time.Sleep(time.Second)
				w.unlock(w.lock(a, "x"))
				w.stays(before)
				if p := w.parent("x"); p.Generation != "" && (!p.Adopted || p.Kind != znode.Mutex || len(w.anchors("x")) != 1) {
					w.Errorf("the parent is %+v, with the anchors %q", p, w.anchors("x"))
				}
			})
		}
	}
}

// TestParentRecreatedAsItIsJoined: another program recreates a node between a client's read of it
// and the client's next request. If the new node has data, the client returns ErrForeign and does
// not change it. If it is empty, the client adopts it and does not delete it.
func TestParentRecreatedAsItIsJoined(t *testing.T) {
	for name, request := range map[string]func(locktest.Request) bool{"as the entry is made": joins, "as it is adopted": adopts} {
		for _, data := range []string{"not a lock", ""} {
			subtest(t, fmt.Sprintf("%s, data %q", name, data), locktest.Options{}, func(w *world) {
				a, z := w.client("a"), w.raw("other")
				w.unlock(w.lock(a, "other"))
				w.create(z, "/locks/x", string(znode.Parent{Kind: znode.Mutex}.Encode()), 0)
				w.set(z, "/locks/x", w.node("/locks/x").Data)
				var theirs locktest.Node
				w.before(afterRead("a", request), func() { theirs = w.remake(z, "x", data, 1) })
				h, err := a.Mutex("x").Lock(w.ctx)
				if data == "" {
					mustBeTrue(w, err == nil && w.parent("x").Adopted, "%v; the parent is %+v", err, w.parent("x"))
					w.unlock(h)
					w.stays(theirs)
					return
				}
				mustBe(w, err, lock.ErrForeign)
				w.stays(theirs)
				if n := w.node("/locks/x"); string(n.Data) != data || n.Stat.Version != 1 || n.Stat.NumChildren != 0 {
					w.Errorf("the other program's node holds %q, at version %d, with %d children", n.Data, n.Stat.Version, n.Stat.NumChildren)
				}
			})
		}
	}
}

// TestAdoptionWithAMishap: a request of an adoption, or its reply, is lost, or the session ends. The
// client adopts the node in the end, so a lock of another kind is refused there. Nothing else is
// left below the node.
func TestAdoptionWithAMishap(t *testing.T) {
	for name, request := range map[string]func(locktest.Request) bool{"guard": makesGuard, "write": adopts} {
		for _, all := range bools {
			t.Run(fmt.Sprintf("%s, several %v", name, all), func(t *testing.T) {
				forEachMishap(t, func(w *world, mishap int) {
					a, b := w.client("a"), w.client("b")
					w.unlock(w.lock(b, "y"))
					w.create(w.raw("other"), "/locks/x", "", 0)
					hit := w.mishap(mishap, "a", request)
					var got unlocker
					if all {
						got = w.lockAll(a, "x", "z")
					} else {
						got = w.lock(a, "x")
					}
					isTrue(w, hit(), "no mishap")
					equal(w, "kind of the parent", w.parent("x").Kind, znode.Mutex)
					fails(w, second(b.Semaphore("x", 3).Acquire(w.limited(ttl), 1)), lock.ErrKind, "/locks/x is a mutex")
					w.ok(got.Unlock())
					time.Sleep(2 * sessionTimeout)
					equal(w, "nodes below the lock's", int(w.node("/locks/x").Stat.NumChildren), 1) // the anchor
				})
			})
		}
	}
}

// TestClientDiesAsItAdopts: a client dies between the guard and the write of an adoption. Nothing is
// left of it, and the node is as before.
func TestClientDiesAsItAdopts(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.client("a")
		w.unlock(w.lock(a, "other"))
		w.create(w.raw("other"), "/locks/x", "", 0)
		hit := w.fault(func(r locktest.Request) bool {
			if r.Label != "a" || !adopts(r) {
				return false
			}
			w.Partition("a")
			return true
		}, locktest.Fault{Drop: locktest.BeforeApply})
		ch := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.limited(ttl)) })
		w.until("it dies", hit)
		time.Sleep(time.Millisecond)
		equal(w, "guards", len(w.anchors("x")), 1)
		mustBe(w, (<-ch).err, context.DeadlineExceeded)
		time.Sleep(2 * sessionTimeout)
		n := w.node("/locks/x")
		isTrue(w, n.Stat.Version == 0 && n.Stat.NumChildren == 0, "the node is %+v", n.Stat)
	})
}

// adopts reports whether the request makes a node a lock's parent: it replaces the guard by the
// anchor, and writes the node. makesGuard reports whether the request creates the guard.
func adopts(r locktest.Request) bool {
	return r.Op == "multi" && len(r.Paths) == 3 && r.Paths[0] == r.Paths[1] && touches(r, "/anchor-") && r.Paths[2] != r.Paths[0]
}

func makesGuard(r locktest.Request) bool {
	return r.Op == "multi" && len(r.Paths) == 3 && touches(r, "/anchor-") && r.Paths[0] == r.Paths[1] && r.Paths[1] == r.Paths[2]
}

// TestParentWrittenAsItIsAdopted: the adoption of a node does not overwrite what another program,
// or another client that adopts the node, has written meanwhile.
func TestParentWrittenAsItIsAdopted(t *testing.T) {
	each(t, "by", []string{"program", "client"}, func(w *world, by string) {
		a, b, z := w.client("a"), w.client("b"), w.raw("other")
		w.unlock(w.lock(a, "y"))
		w.unlock(w.lock(b, "other"))
		w.create(z, "/locks/x", "", 0)
		var h *lock.Hold
		hit := w.before(func(r locktest.Request) bool { return r.Label == "a" && adopts(r) }, func() {
			if by == "client" {
				h = w.lock(b, "x")
			} else if _, err := z.Set("/locks/x", []byte("not a lock"), -1); err != nil {
				w.Error(err)
			}
		})
		ch := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) })
		w.until("it is written", hit)
		time.Sleep(time.Second)
		if by == "program" {
			mustBe(w, w.outcome(ch).err, lock.ErrForeign)
			n := w.node("/locks/x")
			isTrue(w, string(n.Data) == "not a lock" && len(w.anchors("x")) == 0, "the parent holds %q, with the anchors %q", n.Data, w.anchors("x"))
			return
		}
		isTrue(w, len(w.anchors("x")) == 1 && w.anchor("x").Permits == 0, "the anchors are %q", w.anchors("x"))
		w.waits(ch)
		w.unlock(w.pass(h, ch))
	})
}

// afterRead returns a filter that accepts what request accepts, from the client's first read of a
// node of lock "x" on.
func afterRead(client string, request func(locktest.Request) bool) func(locktest.Request) bool {
	var read atomic.Bool
	return func(r locktest.Request) bool {
		if r.Label == client && r.Op == "getData" && touches(r, "/locks/x") {
			read.Store(true)
		}
		return r.Label == client && read.Load() && request(r)
	}
}

// copies deletes the lock's nodes, and creates them again with the same names and data. That takes no
// sequence beyond the number of nodes.
func (w *world) copies(z *zk.Conn, name string) {
	w.Helper()
	before := w.Dump("/locks/" + name)
	w.wipe(z, name)
	for _, n := range before {
		w.create(z, n.Path, string(n.Data), 0)
	}
}

// TestCopiedHold: no client enters ahead of an entry that was copied with its lock, of whatever kind.
// Clients wait until its lease is over, and enter in order.
func TestCopiedHold(t *testing.T) {
	for kind, take := range map[string]func(*world, *lock.Client) (unlocker, error){
		"mutex":     func(w *world, c *lock.Client) (unlocker, error) { return c.Mutex("x").Lock(w.ctx) },
		"semaphore": func(w *world, c *lock.Client) (unlocker, error) { return c.Semaphore("x", 1).Acquire(w.ctx, 1) },
		"writer":    func(w *world, c *lock.Client) (unlocker, error) { return c.RWMutex("x").Lock(w.ctx) },
	} {
		subtest(t, kind, locktest.Options{}, func(w *world) {
			a, z := w.dial("a"), w.raw("the tool")
			w.unlock(w.lock(a, "other"))
			_, err := take(w, w.dial("before"))
			w.ok(err)
			w.setSequence("x", 1000)
			start(func() (unlocker, error) { return take(w, w.dial("before, too")) })
			time.Sleep(time.Second)
			entries := w.entries("x")
			equal(w, "entries", len(entries), 2)
			w.remove(z, entries[0].Path)
			first := entries[1]
			w.kill("before")
			w.kill("before, too")
			w.copies(z, "x")
			copied := time.Now()
			var line []<-chan outcome[unlocker]
			for i := range 3 {
				c := w.dial(fmt.Sprint("c", i))
				line = append(line, start(func() (unlocker, error) { return take(w, c) }))
				time.Sleep(time.Second)
			}
			got := <-line[0]
			w.ok(got.err)
			isTrue(w, time.Since(copied) >= ttl+grace, "in %v after the copy", time.Since(copied))
			if _, there := w.Node(first.Path); there {
				w.Errorf("in ahead of %s", first.Path)
			}
			w.ok(got.hold.Unlock())
			for _, ch := range line[1:] {
				got := <-ch
				w.ok(got.err)
				w.ok(got.hold.Unlock())
			}
		})
	}
}

// TestCopiedNumberCollides: the join that would get the number of a copied entry waits for that entry.
// It says so, and does not poll. A try fails at once.
func TestCopiedNumberCollides(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a", lock.WithPolicies(policies{TTL: time.Hour, Grace: grace})), w.dial("b"), w.raw("the tool")
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		entry := w.node(h.EntryPath())
		copied := "/locks/x/" + znode.Predict(znode.Prefix(w.parent("x").Generation, znode.Exclusive), 1000)
		w.create(z, copied, string(entry.Data), 0)
		w.setSequence("x", 1000)
		w.unlock(h)
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.limited(5 * time.Minute)) })
		time.Sleep(10 * time.Second)
		cost := w.cost("b", func() { time.Sleep(time.Minute) })
		atMost(w, "requests in a minute", cost.total(), 10)
		err := second(b.Mutex("x").TryLock(w.ctx))
		var held *lock.HeldError
		isTrue(w, errors.As(err, &held) && held.Entry == copied, "TryLock: %v", err)
		got := <-ch
		fails(w, got.err, lock.ErrHeld, copied)
		ch = start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
		time.Sleep(time.Second)
		w.remove(z, copied)
		w.finish(w.expect(ch).hold)
	})
}

// TestCopiedNumberIsPassed: a waiter does not enter ahead of copied entries although the parent's counter
// has passed their numbers, which joins of readers do without a collision.
func TestCopiedNumberIsPassed(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a", lock.WithPolicies(policies{TTL: time.Hour, Grace: grace})), w.raw("the tool")
		h := w.take(a.RWMutex("x").Lock)
		var copied []string // a holder, and a waiter behind it
		record := w.record(h.EntryPath())
		for seq := range int32(2) {
			copied = append(copied, "/locks/x/"+znode.Predict(znode.Prefix(w.parent("x").Generation, znode.Writer), 1000+seq))
			w.create(z, copied[seq], string(record.Encode()), 0)
			record.AcquiredAt = 0
		}
		w.setSequence("x", 999)
		w.unlock(h)
		ch := w.join("x", w.dial("b").RWMutex("x").RLock)
		for range 3 {
			ctx, cancel := context.WithCancel(w.ctx)
			other := start(func() (*lock.Hold, error) { return a.RWMutex("x").RLock(ctx) })
			time.Sleep(time.Second)
			cancel()
			mustBe(w, w.outcome(other).err, context.Canceled)
		}
		w.remove(z, copied[1])
		time.Sleep(time.Second)
		w.waits(ch)
		w.remove(z, copied[0])
		time.Sleep(time.Second)
		w.finish(w.expect(ch).hold)
	})
}

// TestTryWithoutDelete: a try does not wait for a copied entry that has expired and that an ACL does not
// let it purge.
func TestTryWithoutDelete(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("the tool")
		h := w.lock(a, "x")
		copied := "/locks/x/" + znode.Predict(znode.Prefix(w.parent("x").Generation, znode.Exclusive), 1000)
		w.create(z, copied, string(w.node(h.EntryPath()).Data), 0)
		w.setSequence("x", 1000)
		w.unlock(h)
		time.Sleep(2 * (ttl + grace))
		w.setACL(z, "/locks/x", zk.WorldACL(zk.PermAll&^zk.PermDelete))
		fails(w, second(b.Mutex("x").TryLock(w.limited(time.Minute))), lock.ErrDenied, "delete below /locks/x")
		w.setACL(z, "/locks/x", zk.WorldACL(zk.PermAll))
		w.finish(w.lock(b, "x"))
	})
}
