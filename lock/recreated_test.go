// A lock's node that another program recreated, wrote or copied: it is adopted, refused or left.

package lock_test

import (
	"context"
	"fmt"
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
				if n, there := w.Node("/locks/x"); there && !known.keep { // the last client must have left it
					p, err := znode.DecodeParent(n.Data)
					isTrue(w, err != nil || p.Generation == "" || p.Adopted, "left behind: %q", w.nodes())
				}
			})
		}
	}
}

// TestAdoptedParentIsLeft: a client that was alone does not delete an adopted parent. It makes no
// difference whether the client learned of its entry by the reply or by a search, or which client
// adopted the parent.
func TestAdoptedParentIsLeft(t *testing.T) {
	for name, fault := range map[string]locktest.Fault{"replied": {}, "found": {Drop: locktest.AfterApply}} {
		each(t, name+", again", bools, func(w *world, again bool) {
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

// TestParentRecreatedAsItIsJoined: another program recreates a node between a client's read of it
// and the client's next request. If the new node has data, the client returns ErrForeign and does
// not change it. If it is empty, the client adopts it and does not delete it.
func TestParentRecreatedAsItIsJoined(t *testing.T) {
	for name, request := range map[string]func(locktest.Request) bool{"as the entry is made": joins, "as it is adopted": adopts} {
		each(t, name+", data", []string{"not a lock", ""}, func(w *world, data string) {
			a, z := w.client("a"), w.raw("other")
			w.unlock(w.lock(a, "other"))
			w.create(z, "/locks/x", string(znode.Parent{Kind: znode.Mutex}.Encode()), 0)
			w.set(z, "/locks/x", w.node("/locks/x").Data)
			var theirs locktest.Node
			read := false // a node of lock x
			w.before(func(r locktest.Request) bool {
				read = read || r.Label == "a" && r.Op == "getData" && touches(r, "/locks/x")
				return r.Label == "a" && read && request(r)
			}, func() { theirs = w.remake(z, "x", data, 1) })
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

// TestAdoptionWithAMishap: a request of an adoption, or its reply, is lost, or the session ends. The
// client adopts the node in the end, so a lock of another kind is refused there. Nothing else is
// left below the node.
func TestAdoptionWithAMishap(t *testing.T) {
	for name, request := range map[string]func(locktest.Request) bool{"guard": makesGuard, "write": adopts} {
		eachMishap(t, name+", several", bools, func(w *world, all bool, mishap int) {
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
	}
}

// TestClientDiesAsItAdopts: a client dies between the guard and the write of an adoption. Nothing is
// left of it, and the node is as before.
func TestClientDiesAsItAdopts(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.client("a")
		w.unlock(w.lock(a, "other"))
		w.create(w.raw("other"), "/locks/x", "", 0)
		writes := func(r locktest.Request) bool { return r.Label == "a" && adopts(r) && w.cutOff("a") }
		hit := w.fault(writes, locktest.Fault{Drop: locktest.BeforeApply})
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
			} else {
				w.set(z, "/locks/x", []byte("not a lock"))
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

// TestCopiedHold: no client enters ahead of an entry that was copied with its lock, of whatever kind.
// Clients wait until its lease is over, and enter in order.
func TestCopiedHold(t *testing.T) {
	each(t, "way", []string{"lock", "all permits", "write"}, func(w *world, way string) {
		take := func(c *lock.Client) func() (unlocker, error) {
			return func() (unlocker, error) { return ways[way](w.ctx, c) }
		}
		a, z := w.dial("a"), w.raw("the tool")
		w.unlock(w.lock(a, "other"))
		w.ok(second(take(w.dial("before"))()))
		w.setSequence("x", 1000)
		start(take(w.dial("before, too")))
		time.Sleep(time.Second)
		entries := w.entries("x")
		equal(w, "entries", len(entries), 2)
		w.remove(z, entries[0].Path)
		w.kill("before")
		w.kill("before, too")
		nodes := w.Dump("/locks/x") // which are made again with the same names and data
		w.wipe(z, "x")
		for _, n := range nodes {
			w.create(z, n.Path, string(n.Data), 0)
		}
		copied := time.Now()
		var line []<-chan outcome[unlocker]
		for i := range 3 {
			line = append(line, start(take(w.dial(fmt.Sprint("c", i)))))
			time.Sleep(time.Second)
		}
		for i, ch := range line {
			got := <-ch
			w.ok(got.err)
			isTrue(w, i > 0 || len(w.Dump(entries[1].Path)) == 0, "in ahead of %s", entries[1].Path)
			isTrue(w, time.Since(copied) >= ttl+grace, "in %v after the copy", time.Since(copied))
			w.ok(got.hold.Unlock())
		}
	})
}

// TestCopiedNumberCollides: the join that would get the number of a copied entry waits for that entry.
// It says so, and does not poll. A try fails at once, even if the entry has expired, and an ACL does not let
// the client purge it.
func TestCopiedNumberCollides(t *testing.T) {
	each(t, "ttl", []time.Duration{time.Hour, ttl}, func(w *world, lease time.Duration) {
		a, b, z := w.dial("a", lock.WithPolicies(policies{TTL: lease, Grace: grace})), w.dial("b"), w.raw("the tool")
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		copied := "/locks/x/" + znode.Predict(znode.Prefix(w.parent("x").Generation, znode.Exclusive), 1000)
		w.create(z, copied, string(w.node(h.EntryPath()).Data), 0)
		w.setSequence("x", 1000)
		w.unlock(h)
		if lease == ttl {
			time.Sleep(2 * (ttl + grace))
			w.setACL(z, "/locks/x", zk.WorldACL(zk.PermAll&^zk.PermDelete))
			fails(w, second(b.Mutex("x").TryLock(w.limited(time.Minute))), lock.ErrDenied, "delete below /locks/x")
			w.setACL(z, "/locks/x", zk.WorldACL(zk.PermAll))
			w.finish(w.lock(b, "x"))
			return
		}
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.limited(5 * time.Minute)) })
		time.Sleep(10 * time.Second)
		cost := w.cost("b", func() { time.Sleep(time.Minute) })
		atMost(w, "requests in a minute", cost.total(), 10)
		equal(w, "entry in the way", heldError(w, second(b.Mutex("x").TryLock(w.ctx))).Entry, copied)
		fails(w, (<-ch).err, lock.ErrHeld, copied)
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
			mustBe(w, second(a.RWMutex("x").RLock(w.limited(time.Second))), context.DeadlineExceeded)
		}
		w.remove(z, copied[1])
		time.Sleep(time.Second)
		w.waits(ch)
		w.remove(z, copied[0])
		time.Sleep(time.Second)
		w.finish(w.expect(ch).hold)
	})
}

// TestCopiedNumberIsOwn: no client enters beside a copied entry although its own entry gets the same
// number: the two names differ, so they do not collide.
func TestCopiedNumberIsOwn(t *testing.T) {
	takings := func(c *lock.Client) (all, one map[string]taking) {
		rw, sem := c.RWMutex("x"), c.Semaphore("x", 3)
		return map[string]taking{"write": rw.Lock, "permits": permits(sem, 3)}, map[string]taking{"write": rw.RLock, "permits": permits(sem, 1)}
	}
	each(t, "held", []string{"write", "permits"}, func(w *world, what string) {
		a, z := w.dial("a", lock.WithPolicies(policies{TTL: time.Hour, Grace: grace})), w.raw("the tool")
		all, _ := takings(a)
		h := w.take(all[what])
		copied := h.EntryPath()[:len(h.EntryPath())-10] + "0000001001"
		w.create(z, copied, string(w.node(h.EntryPath()).Data), 0)
		w.setSequence("x", 1000)
		w.unlock(h)
		var line []<-chan taken
		for i := range 3 {
			_, one := takings(w.dial(fmt.Sprint("c", i)))
			line = append(line, w.join("x", one[what]))
		}
		time.Sleep(time.Second)
		w.waits(line...)
		w.remove(z, copied)
		time.Sleep(time.Second)
		w.finish(w.expect(line[0]).hold, w.expect(line[1]).hold, w.expect(line[2]).hold)
	})
}
