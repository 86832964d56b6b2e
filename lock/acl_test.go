// ACLs and credentials: what is denied, the error, and what still works.

package lock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

const keptOut = "ACL does not let us"

// TestDigest: clients with the same password share the locks. Clients without it get ErrDenied with
// the lock's path, and create no node.
func TestDigest(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a", lock.WithDigest("svc", "secret")), w.client("b", lock.WithDigest("svc", "secret"))
		strangers := map[string]*lock.Client{"no": w.client("no"), "wrong": w.client("wrong", lock.WithDigest("svc", "guess"))}
		denied := func(name, says string) {
			t.Helper()
			before := w.Dump("/")
			for label, c := range strangers {
				for _, take := range []taking{c.Mutex(name).Lock, c.Mutex(name).TryLock} {
					cost := w.cost(label, func() {
						h, err := take(w.ctx)
						isTrue(t, h == nil, "%s password: got %v", label, h)
						fails(t, err, lock.ErrDenied, "/locks/"+name)
					})
					atMost(t, "to be denied cost", cost.total(), 10)
				}
			}
			equal(t, "nodes", len(w.Dump("/")), len(before))
		}
		h := w.lock(a, "x")
		for _, n := range w.Dump("/locks") {
			isTrue(t, len(n.ACL) != 0 && n.ACL[0].Scheme == "digest" && strings.HasPrefix(n.ACL[0].ID, "svc:") && n.ACL[0].Perms == zk.PermAll, "ACL of %s: %v", n.Path, n.ACL)
		}
		ch := w.queue(w.ctx, b, "x")
		denied("x", keptOut)
		w.ExpireLabel("a") // credentials are sent again in the next session
		w.ExpireLabel("b")
		time.Sleep(2 * ttl)
		w.alive(h)
		w.unlock(w.pass(h, ch))
		denied("x", "the ACL of the node above")
		w.empty()
	})
}

// TestACLThatExcludesItsOwner: a client whose own ACL excludes it gets ErrDenied, and leaves no
// node. Even if the ACL denies reads to all, every client may read the anchor.
func TestACLThatExcludesItsOwner(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		w.unlock(w.lock(w.client("b"), "y"))
		a := w.client("a", lock.WithACL(zk.DigestACL(zk.PermAll, "other", "secret")...))
		fails(t, second(a.Mutex("x").Lock(w.ctx)), lock.ErrDenied, "WithACL does not fit")
		w.empty()

		c := w.dial("c", lock.WithACL(zk.WorldACL(zk.PermAll&^zk.PermRead)...))
		h := w.lock(c, "x")
		acl, _, err := w.raw("other").GetACL("/locks/x/" + znode.Anchor(w.parent("x").Generation))
		isTrue(t, err == nil && slices.Contains(acl, zk.ACL{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}), "the anchor's ACL is %v, %v", acl, err)
		_ = h.Unlock()
	})
}

// TestRootWithoutCreate: if the root's ACL denies creates, a client can use a lock whose node
// exists. Lock of another name returns ErrDenied. If the ACL denies deletes, Unlock succeeds, the parent and
// its anchor stay, and the client logs a warning.
func TestRootWithoutCreate(t *testing.T) {
	each(t, "or delete", bools, func(w *world, deletes bool) {
		z, a := w.raw("admin"), w.client("a")
		w.createACL(z, "/locks", "", zk.WorldACL(zk.PermAll))
		if deletes {
			w.setACL(z, "/locks", zk.WorldACL(zk.PermAll&^zk.PermDelete))
			for range 3 {
				w.unlock(w.lock(a, "x"))
				time.Sleep(5 * time.Second)
				isTrue(t, len(w.bare()) == 1 && w.bare()[0] == "/locks/x" && len(w.anchors("x")) == 1, "nodes %q", w.nodes())
			}
			mustSay(t, errors.New(w.logged()), "an empty parent could not be deleted")
			return
		}
		w.createACL(z, "/locks/x", "", zk.WorldACL(zk.PermAll))
		w.setACL(z, "/locks", zk.WorldACL(zk.PermRead|zk.PermDelete))
		fails(t, second(a.Mutex("y").Lock(w.ctx)), lock.ErrDenied, "create /locks/y: the ACL of the node above does not let us")
		fails(t, second(a.Mutex("y/z").Lock(w.ctx)), lock.ErrDenied, "create /locks/y: ")
		for range 2 {
			h := w.lock(a, "x")
			equal(t, "TTL of the record", w.record(h.EntryPath()).TTL, ttl.Milliseconds())
			ch := w.queue(w.ctx, w.client("b"), "x")
			time.Sleep(2 * ttl)
			w.alive(h)
			w.inOrder(h, ch)
		}
	})
}

// TestParentWithoutWrite: if the ACL denies writes to a lock's node, each call fails with an error
// that says so. The node is not changed, and nothing is left below it. Once the ACL permits writes,
// the next call succeeds.
func TestParentWithoutWrite(t *testing.T) {
	datas := []string{"", string(znode.Parent{Kind: znode.Dir}.Encode())} // empty, and without a generation
	eachPair(t, "way", []string{"lock", "try", "barge", "several", "all permits"}, datas, func(w *world, way, data string) {
		a, z, take := w.client("a"), w.raw("admin"), ways[way]
		w.unlock(w.lock(a, "other"))
		w.createACL(z, "/locks/x", data, zk.WorldACL(zk.PermAll&^zk.PermWrite))
		before := w.node("/locks/x").Stat
		for range 3 {
			fails(w, second(take(w.limited(ttl), a)), lock.ErrDenied, `"x"`, "write /locks/x: its ACL does not let us; clients need WRITE on a lock's node")
		}
		time.Sleep(time.Second)
		after := w.node("/locks/x").Stat
		isTrue(w, after.Version == before.Version && after.NumChildren == 0, "the node was %+v, and is %+v", before, after)
		w.setACL(z, "/locks/x", zk.WorldACL(zk.PermAll))
		got, err := take(w.ctx, a)
		w.ok(err)
		w.ok(got.Unlock())
	})
}

// TestWriteDeniedLater: a client that may not write the node of a lock that is in use gets
// ErrDenied, and ErrKind for a lock of another kind. The holder is not disturbed.
func TestWriteDeniedLater(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.dial("a"), w.dial("c")
		h := w.lock(a, "x")
		w.setACL(w.raw("admin"), "/locks/x", zk.WorldACL(zk.PermAll&^zk.PermWrite))
		fails(w, second(c.Mutex("x").Lock(w.limited(ttl))), lock.ErrDenied, "write /locks/x", "WRITE")
		fails(w, second(c.RWMutex("x").RLock(w.limited(ttl))), lock.ErrKind, "/locks/x")
		fails(w, second(c.All([]string{"x", "y"}).Lock(w.limited(ttl))), lock.ErrDenied, "write /locks/x", "WRITE")
		w.hasEntries("x", 1)
		w.alive(h)
		w.unlock(h)
	})
}

// TestDenied: the error names the denied request and its node.
func TestDenied(t *testing.T) {
	type test struct {
		root  string
		perms int32 // of the node
		node  string
		ask   func(w *world, c *lock.Client) error
		is    error
		says  []string
	}
	locks := func(w *world, c *lock.Client) error { return second(c.Mutex("x").Lock(w.ctx)) }
	tries := func(w *world, c *lock.Client) error { return second(c.Mutex("x").TryLock(w.ctx)) }
	resizes := func(w *world, c *lock.Client) error { return c.Semaphore("x", 3).Resize(w.ctx, 5) }
	inspects := func(w *world, c *lock.Client) error { return second(admin.New(c).Inspect(w.ctx, "x")) }
	forEach(t, locktest.Options{}, map[string]test{
		"the root cannot be made":        {"/top/locks", zk.PermRead, "/top", locks, lock.ErrDenied, []string{"create /top/locks"}},
		"no entry can be made":           {"/locks", zk.PermAll &^ zk.PermCreate, "/locks/x", locks, lock.ErrDenied, []string{"create an entry below /locks/x", keptOut}},
		"nothing can be known of others": {"/locks", zk.PermAll &^ zk.PermRead, "/locks/x", locks, lock.ErrDenied, []string{"read /locks/x", keptOut}},
		"a try cannot list":              {"/locks", zk.PermAll &^ zk.PermRead, "/locks/x", tries, lock.ErrDenied, []string{"list /locks/x", keptOut}},
		"a number cannot be written":     {"/locks", zk.PermAll &^ zk.PermWrite, "/locks/x", resizes, lock.ErrDenied, []string{"write /locks/x"}},
		"an operator cannot read":        {"/locks", zk.PermAll &^ zk.PermRead, "/locks/x", inspects, zk.ErrNoAuth, []string{"read /locks/x"}},
	}, func(w *world, tt test) {
		if tt.node == "/locks/x" {
			w.unlock(w.lock(w.client("b"), "y"))
		}
		w.createACL(w.raw("admin"), tt.node, "", zk.WorldACL(tt.perms))
		fails(w, tt.ask(w, w.client("a", lock.WithRoot(tt.root))), tt.is, tt.says...)
		time.Sleep(2 * time.Second)
		w.hasEntries("x", 0)
	})
	subtest(t, "a number alone cannot be written", locktest.Options{}, func(w *world) {
		h := w.take(permits(w.client("b").Semaphore("x", 3), 1))
		w.setACL(w.raw("admin"), w.anchors("x")[0], zk.WorldACL(zk.PermAll&^zk.PermWrite))
		fails(w, w.client("a").Semaphore("x", 3).Resize(w.limited(100*latency), 5), lock.ErrDenied, `"x"`)
		w.finish(h)
	})
}

// TestEntryAheadWithoutRead: a waiter behind an entry that it may not read logs a warning, and
// sends at most 210 requests a minute. It enters after the entry is deleted. TryLock names the
// entry.
func TestEntryAheadWithoutRead(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a", lock.WithDigest("a", "secret")), w.client("b")
		w.createACL(w.raw("admin"), "/locks", "", zk.WorldACL(zk.PermAll))
		w.createACL(w.raw("admin2"), "/locks/x", "", zk.WorldACL(zk.PermAll))
		h := w.lock(a, "x")
		ctx := w.limited(time.Second)
		_, err := b.Mutex("x").Lock(ctx)
		mustBe(t, err, context.DeadlineExceeded, lock.ErrHeld)
		mustSay(t, err, h.EntryPath())
		ch := w.queue(w.ctx, b, "x")
		cost := w.cost("b", func() { time.Sleep(time.Minute) })
		isTrue(t, cost.total() <= 3*60+30 && cost.total() >= 60, "waiting for a minute cost %v", cost.requests)
		w.waits(ch)
		w.alive(h)
		atMost(t, "warnings of the hidden entry, in two calls", strings.Count(w.logged(), "the entry ahead cannot be read"), 2)
		equal(t, "entry in the way", heldError(t, second(w.client("c").Mutex("x").TryLock(w.ctx))).Entry, h.EntryPath())
		w.unlock(h)
		unlocked := time.Now()
		got := w.await(ch)
		atMost(w, "noticed after", got.at.Sub(unlocked), 2*time.Second)
		w.unlock(got.hold)
	})
}

// TestTargetWithoutRead: a waiter for permits behind other waiters enters in its turn, and not earlier,
// although it may not read the holder whose permits it waits for.
func TestTargetWithoutRead(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		acquire := func(label string) taking { return permits(w.dial(label).Semaphore("x", 2), 1) }
		first, second := w.take(acquire("a")), w.take(acquire("b"))
		w.setACL(w.raw("admin"), second.EntryPath(), zk.WorldACL(zk.PermAll&^zk.PermRead))
		third, last := w.join("x", acquire("c")), w.join("x", acquire("d"))
		w.waits(last)
		w.unlock(second)
		second = w.await(third).hold
		w.waits(last)
		w.unlock(first)
		w.finish(w.await(last).hold, second)
	})
}

// TestParentWithoutDelete: a lock whose parent's ACL permits creates but no deletes is refused,
// because its entries could not be deleted. It is also refused if a client that may delete has
// adopted the parent.
func TestParentWithoutDelete(t *testing.T) {
	each(t, "adopted", bools, func(w *world, adopted bool) {
		z := w.raw("admin")
		w.createACL(z, "/locks", "", zk.WorldACL(zk.PermAll))
		w.createACL(z, "/locks/x", "", append(zk.WorldACL(zk.PermAll&^zk.PermDelete), zk.DigestACL(zk.PermAll, "admin", "secret")...))
		if adopted {
			w.unlock(w.lock(w.client("c", lock.WithDigest("admin", "secret"), lock.WithACL(zk.WorldACL(zk.PermAll)...)), "x"))
		}
		a := w.client("a")
		for _, take := range []taking{a.Mutex("x").Lock, a.Mutex("x").TryLock} {
			fails(w, second(take(w.ctx)), lock.ErrDenied, `lock "x"`, "/locks/x: its ACL lets us create entries and not delete them")
		}
		fails(w, second(a.All([]string{"x", "y"}).Lock(w.ctx)), lock.ErrDenied, `lock "x"`)
		equal(w, "anchors and guards", len(w.anchors("x")), map[bool]int{true: 1}[adopted])
		w.hasEntries("x", 0)
	})
}

// TestDeleteDeniedLater: if an operator removes the right to delete, Unlock returns ErrDenied and
// TryLock ErrHeld. The entry blocks until a client with that right deletes it.
func TestDeleteDeniedLater(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		z := w.raw("admin")
		w.ok(z.AddAuth("digest", []byte("admin:secret")))
		a, b, admin := w.client("a"), w.client("b"), w.client("c", lock.WithDigest("admin", "secret"), lock.WithACL(zk.WorldACL(zk.PermAll)...))
		h := w.lock(a, "x")
		ch := w.queue(w.ctx, b, "x")
		forbidden := append(zk.WorldACL(zk.PermAll&^zk.PermDelete), zk.DigestACL(zk.PermAll, "admin", "secret")...)
		w.setACL(z, "/locks/x", forbidden)
		err := h.Unlock()
		fails(t, err, lock.ErrDenied, `unlock "x"`, "delete "+h.EntryPath(), keptOut)
		var unlock *lock.UnlockError
		isTrue(t, errors.As(err, &unlock) && unlock.Lock == "x" && unlock.Entry == h.EntryPath(), "error is %#v", err)
		mustBe(t, h.Err(), lock.ErrUnlocked)
		time.Sleep(2 * ttl) // the lease has ended, and no client can purge the entry
		cost := w.cost("b", func() { time.Sleep(time.Minute) })
		isTrue(t, cost.requests["multi"]+cost.requests["delete"] <= 75 && cost.total() <= 60*7, "waiting for a minute cost %v", cost.requests)
		w.waits(ch)
		mustSay(t, errors.New(w.logged()), "expired entries ahead cannot be deleted", "/locks/x")
		equal(t, "warnings of the denied purge", strings.Count(w.logged(), "expired entries ahead cannot be deleted"), 1)
		ctx := w.limited(time.Minute)
		mustBe(t, second(b.Mutex("x").TryLock(ctx)), lock.ErrHeld)
		third := w.queue(w.ctx, admin, "x") // it waits for b, which is alive
		w.remove(z, h.EntryPath())
		got := w.await(ch)
		mustBe(t, got.hold.Unlock(), lock.ErrDenied)
		w.unlock(w.await(third).hold) // admin purges b's entry
		w.empty()
	})
}

// TestCallsThatMayNotPurge: if the ACL forbids a client to delete an expired entry, its TryLock returns
// ErrDenied, and does not wait. A Lock waits, and its final error names the ACL.
func TestCallsThatMayNotPurge(t *testing.T) {
	each(t, "way", []string{"try", "lock", "lock with metadata", "several"}, func(w *world, way string) {
		a, b, z := w.client("a"), w.client("b"), w.raw("admin")
		h := w.lock(a, "x")
		w.kill("a")
		w.setACL(z, "/locks/x", zk.WorldACL(zk.PermAll&^zk.PermDelete))
		defer func() {
			w.setACL(z, "/locks/x", zk.WorldACL(zk.PermAll))
			w.Heal("a")
			time.Sleep(2 * ttl)
		}()
		time.Sleep(2 * ttl)
		began := time.Now()
		err := second(ways[way](w.limited(ttl), b))
		mustSay(w, err, "delete below /locks/x", keptOut)
		if way == "try" {
			mustBe(w, err, lock.ErrDenied)
			isTrue(w, time.Since(began) < time.Second, "the try took %v", time.Since(began))
			return
		}
		mustBe(w, err, lock.ErrHeld, context.DeadlineExceeded)
		held := heldError(w, err)
		isTrue(w, held.Entry == h.EntryPath() && held.Owner != "" && errors.Is(held.Trouble, lock.ErrDenied), "%v", err)
	})
}

// TestRenewalDenied: if the ACL of an entry denies its renewal, the hold is lost when its lease
// ends. Other holds of the client stay valid.
func TestRenewalDenied(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.client("a")
		h, other := w.lock(a, "x"), w.lock(a, "y")
		z := w.raw("admin")
		w.setACL(z, h.EntryPath(), zk.WorldACL(zk.PermRead))
		begun, ended := time.Now(), w.end(h)
		cost := w.cost("a", func() { ended.wait() })
		inRange(t, "lasted", ended.when.Sub(begun), ttl-ttl/20, ttl)
		mustBe(t, h.Err(), lock.ErrLost, lock.ErrExpired)
		atMost(t, "until then it cost", cost.total(), 30)
		mustSay(t, errors.New(w.logged()), "renewal refused", "not authenticated")
		w.alive(other)
		w.unlock(other)
		w.empty() // the parent's ACL decides about deletes
	})
}

// TestWaiterThatMayNotWrite: a waiter whose entry's ACL denies writes gets ErrDenied when its lease is
// over, whether the lock has become free meanwhile or is held. It leaves nothing behind.
func TestWaiterThatMayNotWrite(t *testing.T) {
	each(t, "free", bools, func(w *world, free bool) {
		h := w.lock(w.client("a"), "x")
		ch := w.queue(w.ctx, w.client("b"), "x")
		w.setACL(w.raw("admin"), w.entries("x")[1].Path, zk.WorldACL(zk.PermRead|zk.PermDelete))
		time.Sleep(ttl * 3 / 4)
		if free {
			w.unlock(h)
		}
		time.Sleep(2 * ttl)
		fails(w, w.outcome(ch).err, lock.ErrDenied, "the own entry", keptOut)
		if !free {
			w.unlock(h)
		}
		w.empty()
	})
}
