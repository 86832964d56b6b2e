package lock_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// remake deletes a lock's parent, with all below it, and makes it again as somebody
// else does, with data of their own, at the given version.
func (w *world) remake(z *zk.Conn, name, data string, version int32) locktest.Node {
	w.Helper()
	path := "/locks/" + name
	w.remove(z, paths(w.entries(name))...)
	w.remove(z, path)
	w.create(z, path, data, 0)
	for range version {
		if _, err := z.Set(path, []byte(data), -1); err != nil {
			w.Fatal(err)
		}
	}
	return w.node(path)
}

// acquaintances are the ways in which a client comes to know a lock's parent well
// enough to join without reading it.
var acquaintances = []struct {
	name string
	keep bool // the parent
	meet func(w *world, c *lock.Client)
}{
	{"below an entry of ours", false, func(w *world, c *lock.Client) { w.lock(c, "x") }},
	{"below an entry of ours that is there for long", false, func(w *world, c *lock.Client) {
		w.lock(c, "x")
		time.Sleep(10 * ttl)
	}},
	{"of a lock that is kept, and left a while ago", true, func(w *world, c *lock.Client) {
		w.unlock(w.lock(c, "x"))
		time.Sleep(2 * time.Second)
	}},
	{"of a lock that is kept, and left a while ago by a reply that was late", true, func(w *world, c *lock.Client) {
		h := w.lock(c, "x")
		w.fault(leaves(h), locktest.Fault{DelayReply: 2 * time.Second})
		w.unlock(h)
	}},
}

// forEachAcquaintance runs f in a world of its own for each, with the client that
// knows the parent of the lock x and the version that it knows.
func forEachAcquaintance(t *testing.T, f func(w *world, a *lock.Client, known int32)) {
	for _, tt := range acquaintances {
		t.Run(tt.name, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: tt.keep}))
				tt.meet(w, a)
				f(w, a, w.node("/locks/x").Stat.Version)
			})
		})
	}
}

// TestParentMadeAgainForSomethingElse: where the parent stood that is known from
// before there is somebody else's node now, of the same version. It is refused, and
// not touched.
func TestParentMadeAgainForSomethingElse(t *testing.T) {
	forEachAcquaintance(t, func(w *world, a *lock.Client, known int32) {
		before := w.remake(w.raw("other"), "x", "not a lock", known)
		h, err := a.Mutex("x").Lock(w.ctx)
		if err == nil {
			w.unlock(h)
		}
		mustBe(w, err, lock.ErrForeign)
		time.Sleep(5 * time.Second)
		same(w, []locktest.Node{before}, w.Dump(before.Path))
	})
}

// TestParentMadeAgainEmpty: where the parent stood that was ours to delete there is
// an empty one now, of the same version. It is adopted, and left.
func TestParentMadeAgainEmpty(t *testing.T) {
	forEachAcquaintance(t, func(w *world, a *lock.Client, known int32) {
		before := w.remake(w.raw("other"), "x", "", known)
		h := w.lock(a, "x")
		if !w.parent("x").Adopted {
			w.Error("the parent is not marked as adopted")
		}
		w.unlock(h)
		w.stays(before)
	})
}

// TestParentMadeAgainAndAdopted: another client has adopted the new parent, and with
// that has brought it to the version that is known of the old one. That it is
// adopted must not be forgotten.
func TestParentMadeAgainAndAdopted(t *testing.T) {
	forEachAcquaintance(t, func(w *world, a *lock.Client, known int32) {
		b := w.dial("b")
		w.unlock(w.lock(b, "y"))
		before := w.remake(w.raw("other"), "x", "", known-1)
		h := w.lock(b, "x")
		if v := w.node(before.Path).Stat.Version; v != known || !w.parent("x").Adopted {
			w.Fatalf("the parent is at version %d, want %d, and adopted", v, known)
		}
		ch := w.queue(w.ctx, a, "x")
		if !w.parent("x").Adopted {
			w.Error("the parent is not marked as adopted any more")
		}
		w.waits(ch)
		w.unlock(h)
		w.unlock(w.await(ch).hold)
		w.stays(before)
	})
}

// TestParentMadeAgainAtOnce: nothing of ours stands below the parent, and it is made
// again within the moment for which it may be taken for what it was. Then a join can
// write it, once. It is not deleted for that, and says so.
func TestParentMadeAgainAtOnce(t *testing.T) {
	for name, data := range map[string]string{"empty": "", "for something else": "not a lock"} {
		t.Run(name, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a, z := w.dial("a"), w.raw("other")
				for range 5 { // so that the parent lingers
					w.unlock(w.lock(a, "x"))
				}
				before := w.remake(z, "x", data, w.node("/locks/x").Stat.Version)
				h, err := a.Mutex("x").Lock(w.ctx)
				if err != nil {
					mustBe(w, err, lock.ErrForeign)
					same(w, []locktest.Node{before}, w.Dump(before.Path))
					return
				}
				settle()
				if p := w.parent("x"); !p.Adopted || p.Kind != znode.Mutex {
					w.Errorf("the parent is %+v, want it marked as adopted", p)
				}
				w.unlock(h)
				w.stays(before)
				w.unlock(w.lock(a, "x"))
				w.stays(before)
			})
		})
	}
}

// TestOwnParentMadeAgainAtOnce: it was made again by clients like us, who came to the same
// version, and have left. What the data say of it was overwritten, but it is ours, and goes.
func TestOwnParentMadeAgainAtOnce(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		for range 5 { // so that the parent lingers
			w.unlock(w.lock(a, "x"))
		}
		before := w.node("/locks/x")
		var acl []zk.ACL
		for _, e := range before.ACL {
			acl = append(acl, zk.ACL{Perms: e.Perms, Scheme: e.Scheme, ID: e.ID})
		}
		w.remove(z, before.Path)
		w.createACL(z, before.Path, string(before.Data), acl)
		for range before.Stat.Version {
			if _, err := z.Set(before.Path, before.Data, -1); err != nil {
				w.Fatal(err)
			}
		}
		asks := w.fault(func(r locktest.Request) bool { return r.Label == "a" && r.Op == "getACL" }, locktest.Fault{})
		h := w.lock(a, "x")
		if !asks() {
			w.Error("nobody asked for the ACL, so the parent was not joined by what had been known of it")
		}
		if w.parent("x").Adopted {
			w.Error("the parent is marked as adopted")
		}
		w.unlock(h)
		time.Sleep(time.Second)
		w.empty()
	})
}

// stays checks that the node is not deleted.
func (w *world) stays(n locktest.Node) {
	w.Helper()
	time.Sleep(5 * time.Second)
	if now := w.Dump(n.Path); len(now) == 0 || now[0].Stat.Czxid != n.Stat.Czxid {
		w.Errorf("%s was deleted, which somebody else had made", n.Path)
	}
}

// TestAdoptedParentIsLeftByALoneHolder, who could delete it along with its entry: when it
// knows of its entry by the reply, and when it had to look for it.
func TestAdoptedParentIsLeftByALoneHolder(t *testing.T) {
	for name, fault := range map[string]locktest.Fault{"replied": {}, "found": {Drop: locktest.AfterApply}} {
		for _, again := range []bool{false, true} { // the parent bears our mark already
			t.Run(fmt.Sprintf("%s again %v", name, again), func(t *testing.T) {
				simulate(t, locktest.Options{}, func(w *world) {
					a, z := w.dial("a"), w.raw("other")
					w.unlock(w.lock(a, "other"))
					w.create(z, "/locks/x", "", 0)
					before := w.node("/locks/x")
					if again {
						w.unlock(w.lock(w.dial("b"), "x"))
						w.stays(before)
					}
					hit := w.fault(func(r locktest.Request) bool {
						return r.Label == "a" && joins(r) && len(r.Paths) == 2 // finds the parent
					}, fault)
					h := w.lock(a, "x")
					if !hit() {
						w.Fatal("joined otherwise")
					}
					time.Sleep(time.Second)
					w.unlock(h)
					w.stays(before)
				})
			})
		}
	}
}

// TestAdoptedParentIsNotLookedAt by who leaves it last: it stays anyway. That is known of an
// entry that had to be looked for, too.
func TestAdoptedParentIsNotLookedAt(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(a, "other"))
		w.create(w.raw("other"), "/locks/x", "", 0)
		first := w.lock(b, "x")
		hit := w.fault(func(r locktest.Request) bool { return r.Label == "a" && joinsParent(r, "x") }, locktest.Fault{Drop: locktest.AfterApply})
		ch := w.queue(w.ctx, a, "x")
		w.unlock(first)
		h := w.await(ch).hold
		if !hit() || !w.parent("x").Adopted {
			w.Fatalf("the parent is %+v", w.parent("x"))
		}
		time.Sleep(time.Second)
		got := w.cost("a", func() {
			w.unlock(h)
			time.Sleep(time.Second)
		})
		if got.requests["getData"] != 0 {
			t.Errorf("to leave cost %v", got.requests)
		}
	})
}

// TestParentMadeAgainAndReplyLost: as TestParentMadeAgainAtOnce, but the reply, which
// would tell that it is another one, is lost, or comes when the caller has given up. It is
// not deleted all the same.
func TestParentMadeAgainAndReplyLost(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fault  locktest.Fault
		gaveUp bool
	}{
		{"lost", locktest.Fault{Drop: locktest.AfterApply}, false},
		{"late", locktest.Fault{DelayReply: time.Second}, true},
		{"late and lost", locktest.Fault{Delay: time.Second, Drop: locktest.AfterApply}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a, z := w.dial("a"), w.raw("other")
				for range 5 { // so that the parent lingers
					w.unlock(w.lock(a, "x"))
				}
				before := w.remake(z, "x", "", w.node("/locks/x").Stat.Version)
				hit := w.fault(func(r locktest.Request) bool { return r.Label == "a" && joins(r) }, tt.fault)
				ctx, giveUp := w.ctx, context.CancelFunc(func() {})
				if tt.gaveUp {
					ctx, giveUp = context.WithTimeout(w.ctx, 50*time.Millisecond)
				}
				defer giveUp()
				h, err := a.Mutex("x").Lock(ctx)
				if !hit() || (err != nil) != tt.gaveUp {
					w.Fatalf("error %v", err)
				}
				if err == nil {
					w.unlock(h)
				}
				w.stays(before)
				if p := w.parent("x"); !p.Adopted {
					w.Errorf("the parent is %+v, want it marked as adopted", p)
				}
			})
		})
	}
}

// TestParentThatCannotBeMarked: a join has written a parent of somebody else's, and the
// server refuses to have it marked as adopted. Who wrote it leaves it all the same.
func TestParentThatCannotBeMarked(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		for range 5 { // so that the parent lingers
			w.unlock(w.lock(a, "x"))
		}
		before := w.remake(z, "x", "", w.node("/locks/x").Stat.Version)
		hit := w.fault(func(r locktest.Request) bool {
			return r.Label == "a" && r.Op == "setData" && r.Paths[0] == "/locks/x"
		}, locktest.Fault{Code: codeNoAuth})
		h := w.lock(a, "x")
		if !hit() {
			w.Fatal("nobody has tried to mark the parent")
		}
		time.Sleep(time.Second) // until who left before looks after the parent no more
		w.unlock(h)
		w.stays(before)
	})
}

// TestAdoptionIsNotOverwritten: a client knows a parent that somebody else has made and one
// of ours has overwritten. Since then that one has marked it as adopted, so the next join
// does not write what it knows.
func TestAdoptionIsNotOverwritten(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		w.unlock(w.lock(a, "root"))
		p := znode.Parent{Kind: znode.Mutex}
		if _, err := z.Create("/locks/x", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			w.Fatal(err)
		}
		for range 5 { // so that it is not of a low version
			if _, err := z.Set("/locks/x", p.Encode(), -1); err != nil {
				w.Fatal(err)
			}
		}
		h := w.lock(a, "x")
		before := w.node("/locks/x")
		if p = w.parent("x"); p.Adopted {
			w.Fatal("it is adopted already")
		}
		p.Adopted = true
		if _, err := z.Set("/locks/x", p.Encode(), -1); err != nil {
			w.Fatal(err)
		}
		ch := w.queue(w.ctx, a, "x")
		if !w.parent("x").Adopted {
			w.Error("the parent is not marked as adopted any more")
		}
		w.unlock(h)
		w.unlock(w.expect(ch).hold)
		w.stays(before)
	})
}

// afterRead finds those requests of a client that come after it has read the lock's node.
func afterRead(client string, request func(locktest.Request) bool) func(locktest.Request) bool {
	var read atomic.Bool
	return func(r locktest.Request) bool {
		if r.Label == client && r.Op == "getData" && touches(r, "/locks/x") {
			read.Store(true)
		}
		return r.Label == client && read.Load() && request(r)
	}
}

// TestYoungParentMadeAgainAsItIsJoined: nobody that we know stands below the parent, so
// somebody deletes it, and makes it again for something else before the request comes
// that was made for what it was. What it holds now is not touched.
func TestYoungParentMadeAgainAsItIsJoined(t *testing.T) {
	for name, tt := range map[string]struct {
		request func(r locktest.Request) bool
		child   string
	}{
		"as the entry is made":           {joins, ""},
		"as the entry claims its parent": {claims, ""},
		"and it had a child":             {joins, "/locks/x/other"},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a, z := w.dial("a"), w.raw("other")
				w.unlock(w.lock(a, "other"))
				w.create(z, "/locks/x", string(znode.Parent{Kind: znode.Mutex}.Encode()), 0)
				if _, err := z.Set("/locks/x", w.node("/locks/x").Data, -1); err != nil {
					w.Fatal(err)
				}
				var theirs locktest.Node
				if tt.child != "" {
					w.create(z, tt.child, "", 0)
				}
				hit := w.before(afterRead("a", tt.request), func() { // before that it means to make the parent
					if tt.child != "" {
						w.remove(z, tt.child)
					}
					theirs = w.remake(z, "x", "not a lock", 1)
				})
				h, err := a.Mutex("x").Lock(w.ctx)
				if err == nil {
					w.unlock(h)
				}
				mustBe(w, err, lock.ErrForeign)
				if !hit() {
					w.Fatal("there was no such request")
				}
				w.stays(theirs)
				if n := w.node("/locks/x"); string(n.Data) != "not a lock" || n.Stat.Version != 1 || n.Stat.NumChildren != 0 {
					w.Errorf("the node of somebody else's holds %q, at version %d, with %d children", n.Data, n.Stat.Version, n.Stat.NumChildren)
				}
			})
		})
	}
}

// TestEmptyParentMadeAsItIsJoined: as TestYoungParentMadeAgainAsItIsJoined, but what somebody
// else has made is empty, and may be used. Whoever has claimed it adopts it, and leaves it.
func TestEmptyParentMadeAsItIsJoined(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		w.unlock(w.lock(a, "other"))
		w.create(z, "/locks/x", string(znode.Parent{Kind: znode.Mutex}.Encode()), 0)
		var theirs locktest.Node
		hit := w.before(afterRead("a", joins), func() { theirs = w.remake(z, "x", "", 0) })
		h := w.lock(a, "x")
		if !hit() || !w.parent("x").Adopted {
			w.Fatalf("the parent is %+v", w.parent("x"))
		}
		time.Sleep(time.Second)
		w.unlock(h)
		w.stays(theirs)
	})
}

// TestParentMadeAgainBehindALateReply: the parent was written often, so what a read shows
// of it is written at once. But the reply was late, and there is another one by now.
func TestParentMadeAgainBehindALateReply(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const version = 40
		a, z := w.dial("a"), w.raw("other")
		w.unlock(w.lock(a, "other"))
		w.create(z, "/locks/x", "", 0)
		w.remake(z, "x", string(znode.Parent{Kind: znode.Mutex}.Encode()), version)
		var theirs locktest.Node
		remade := make(chan struct{})
		hit := w.fault(func(r locktest.Request) bool {
			is := r.Label == "a" && r.Op == "getData" && touches(r, "/locks/x")
			if is {
				time.AfterFunc(time.Second, func() {
					theirs = w.remake(z, "x", "not a lock", version)
					close(remade)
				})
			}
			return is
		}, locktest.Fault{DelayReply: 3 * time.Second})
		_, err := a.Mutex("x").Lock(w.ctx)
		mustBe(w, err, lock.ErrForeign)
		if !hit() {
			w.Fatal("the parent was not read")
		}
		<-remade
		w.stays(theirs)
		if n := w.node("/locks/x"); string(n.Data) != "not a lock" || n.Stat.Version != version {
			w.Errorf("the node of somebody else's holds %q, at version %d", n.Data, n.Stat.Version)
		}
	})
}

// TestOldParentOverASlowLink: what a read shows is always too old to write the parent by,
// so the entry is made first.
func TestOldParentOverASlowLink(t *testing.T) {
	slow := locktest.Options{Latency: func(string, string) time.Duration { return 200 * time.Millisecond }}
	simulate(t, slow, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		w.unlock(w.lock(a, "other"))
		w.create(z, "/locks/x", "", 0)
		w.remake(z, "x", string(znode.Parent{Kind: znode.Mutex}.Encode()), 40)
		limited, cancel := context.WithTimeout(w.ctx, 10*time.Second)
		defer cancel()
		h, err := a.Mutex("x").Lock(limited)
		if err != nil {
			w.Fatal(err)
		}
		w.unlock(h)
		time.Sleep(time.Second)
		w.empty()
	})
}

// TestStayingParentOverASlowLink: nor can one that stays be written by what was read.
func TestStayingParentOverASlowLink(t *testing.T) {
	slow := locktest.Options{Latency: func(string, string) time.Duration { return 60 * time.Millisecond }}
	for _, found := range []bool{true, false} {
		t.Run(fmt.Sprintf("found empty %v", found), func(t *testing.T) {
			simulate(t, slow, func(w *world) {
				kept := lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: !found})
				a, b := w.dial("a", kept), w.dial("b", kept)
				w.unlock(w.lock(a, "other"))
				if found {
					w.create(w.raw("other"), "/locks/x", "", 0)
				} else {
					w.unlock(w.lock(b, "x"))
				}
				time.Sleep(time.Minute)
				limited, cancel := context.WithTimeout(w.ctx, 10*time.Second)
				defer cancel()
				h, err := a.Mutex("x").Lock(limited)
				if err != nil {
					w.Fatalf("nobody is at the lock: %v", err)
				}
				w.unlock(h)
				time.Sleep(time.Second)
				if p := w.parent("x"); p.Adopted != found { // or it would not be there at all
					w.Errorf("the parent tells %+v", p)
				}
			})
		})
	}
}

// TestParentMadeAgainInAnOutage: an empty node is read, and before it can be written the
// connection is lost for a while. It is read again: there is another one now.
func TestParentMadeAgainInAnOutage(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		z, begun := w.raw("other"), time.Now()
		var reads atomic.Int32 // of the clock, since the node was read
		a := w.dial("a", lock.WithClock(func() (mono, wall time.Duration) {
			if reads.Load() > 0 && reads.Add(1) == 3 {
				w.kill("a")
				time.Sleep(2 * time.Second)
				w.remove(z, "/locks/x")
				w.create(z, "/locks/x", "not a lock", 0)
				time.AfterFunc(time.Second, func() { w.Heal("a") })
			}
			return time.Since(begun), time.Since(begun)
		}))
		w.unlock(w.lock(a, "y"))
		time.Sleep(time.Second)
		w.create(z, "/locks/x", "", 0)
		w.fault(func(r locktest.Request) bool {
			is := r.Label == "a" && r.Op == "getData" && touches(r, "/locks/x")
			if is {
				reads.Store(1)
			}
			return is
		}, locktest.Fault{})
		_, err := a.Mutex("x").Lock(w.ctx)
		mustBe(w, err, lock.ErrForeign)
		if n := w.node("/locks/x"); string(n.Data) != "not a lock" {
			t.Errorf("somebody else's node holds %s", n.Data)
		}
	})
}

// claims reports whether an entry that is there checks itself and writes the parent.
func claims(r locktest.Request) bool {
	return r.Op == "multi" && len(r.Paths) == 2 && r.Paths[1] == "/locks/x"
}

// TestOurParentThatWasEmptied: somebody has emptied the data of a parent that bears our
// mark. It is ours all the same: nobody adopts it, and the last one out deletes it.
func TestOurParentThatWasEmptied(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x")
		if _, err := w.raw("other").Set("/locks/x", nil, -1); err != nil {
			t.Fatal(err)
		}
		second := w.queue(w.ctx, b, "x")
		third := w.queue(w.ctx, a, "x")
		if w.parent("x").Adopted {
			t.Error("the parent is marked as adopted")
		}
		w.unlock(h)
		w.unlock(w.expect(second).hold)
		w.unlock(w.expect(third).hold)
		w.empty()
	})
}
