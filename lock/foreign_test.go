// Nodes and entries of other programs: refused, waited for, never touched.

package lock_test

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestForeignParentIsRefusedAndUntouched: if the node at a lock's path is not a parent of the
// requested kind of lock, Lock and TryLock return ErrForeign or ErrKind, and do not change the
// node.
func TestForeignParentIsRefusedAndUntouched(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		flags      int32
		want       error
		says       string
	}{
		{"text", "42 orders", 0, lock.ErrForeign, "9 bytes"},
		{"JSON", `{"host":"h"}`, 0, lock.ErrForeign, "12 bytes"},
		{"zeroes", "\x00\x00", 0, lock.ErrForeign, "2 bytes"},
		{"an ephemeral node", "", zk.FlagEphemeral, lock.ErrForeign, "is an ephemeral node"},
		{"a lower version", `{"holdfast":1,"kind":"mutex"}`, 0, lock.ErrForeign, "no marker"},
		{"a newer version", `{"holdfast":3,"kind":["mutex"]}`, 0, lock.ErrForeign, "use a newer release"},
		{"a record", string((&znode.Record{Owner: "o", TTL: 1}).Encode()), 0, lock.ErrForeign, "no kind"},
		{"another kind", `{"holdfast":2,"kind":"semaphore"}`, 0, lock.ErrKind, "is a semaphore, asked for as a mutex"},
	} {
		subtest(t, tt.name, locktest.Options{}, func(w *world) {
			a, z := w.client("a"), w.raw("other")
			w.unlock(w.lock(a, "y"))
			w.create(z, "/locks/x", tt.data, tt.flags)
			before := w.Dump("/locks/x")
			for _, take := range []taking{a.Mutex("x").Lock, a.Mutex("x").TryLock} {
				h, err := take(w.ctx)
				isTrue(w, h == nil, "got %v", h)
				fails(w, err, tt.want, `lock "x"`, "/locks/x", tt.says)
				same(w, before, w.Dump("/locks/x"))
			}
			if tt.flags == zk.FlagEphemeral { // nor can it be above a lock, or the root
				for c, name := range map[*lock.Client]string{a: "x/below", w.client("b"): "x/deep/down", w.client("c", lock.WithRoot("/locks/x")): "y"} {
					fails(w, second(c.Mutex(name).Lock(w.ctx)), lock.ErrForeign, "ephemeral", "/locks/x")
				}
				same(w, before, w.Dump("/locks/x"))
			}
		})
	}
}

// TestForeignContenderIsWaitedFor: clients wait for the entries of zk.Lock, Curator and kazoo, and
// for damaged or newer entries of Holdfast. They do not change these entries, whatever the data,
// and poll them at most every 30 s.
func TestForeignContenderIsWaitedFor(t *testing.T) {
	expired := string((&znode.Record{Owner: "o", TTL: 1, ExpiresAt: 1}).Encode())
	for _, tt := range []struct {
		name, node, data string
		flags            int32
		warns            bool
	}{
		{"zk.Lock", "_c_0123456789abcdef0123456789abcdef-lock-", "", zk.FlagEphemeral, false},
		{"Curator", "_c_5f7d9aa2-9d9c-4d6f-8bd9-6b5a3a6d7e11-lock-", "10.0.0.1", zk.FlagEphemeral, false},
		{"Curator's writer", "_c_5f7d9aa2-9d9c-4d6f-8bd9-6b5a3a6d7e11-__WRIT__", "10.0.0.1", zk.FlagEphemeral, false},
		{"kazoo", "0123456789abcdef0123456789abcdef__lock__", "id", zk.FlagEphemeral, false},
		{"kazoo's reader", "0123456789abcdef0123456789abcdef__rlock__", "id", zk.FlagEphemeral, false},
		{"ZooKeeper's recipe", "lock-", "", zk.FlagEphemeral, false},
		{"a persistent one of theirs", "lock-", "", 0, false},
		{"a persistent one of theirs with our record", "lock-", expired, 0, false},
		{"ours, but ephemeral", "0123456789abcdef-lock-", expired, zk.FlagEphemeral, true},
		{"ours, empty", "0123456789abcdef-lock-", "", 0, true},
		{"ours, damaged", "0123456789abcdef-lock-", expired[:len(expired)-3], 0, true},
		{"ours, with no TTL", "0123456789abcdef-lock-", `{"holdfast":2,"owner":"o","expires_at":1}`, 0, true},
		{"ours, newer", "0123456789abcdef-lock-", `{"holdfast":3,"ttl":"1s"}`, 0, true},
		{"ours, too large", "0123456789abcdef-lock-", expired + strings.Repeat(" ", 40<<10), 0, true},
	} {
		subtest(t, tt.name, locktest.Options{}, func(w *world) {
			a, z := w.client("a"), w.raw("other")
			w.unlock(w.lock(a, "y"))
			w.create(z, "/locks/x", "", 0)
			path := w.create(z, "/locks/x/"+tt.node, tt.data, tt.flags|zk.FlagSequence)
			before := w.Dump(path)

			h, err := a.Mutex("x").TryLock(w.ctx)
			held := heldError(w, err)
			isTrue(w, h == nil && held.Entry == path && held.Owner == "" && held.Expires.IsZero(), "TryLock: %v, %v", h, err)
			fails(w, err, lock.ErrHeld, path)

			ch := w.queue(w.ctx, a, "x")
			const looks = int(20 * ttl / (30 * time.Second)) // reads in case the watch was lost
			got := w.cost("a", func() { time.Sleep(20 * ttl) })
			isTrue(w, got.requests["getData"] <= 2+looks && got.requests["getChildren2"] <= 1+looks, "waiting cost %v", got.requests)
			w.waits(ch)
			same(w, before, w.Dump(path))
			equal(w, "warned", strings.Contains(w.logged(), "damaged or of another version"), tt.warns)
			w.remove(z, path)
			w.unlock(w.expect(ch).hold)
			equal(w, "nodes", len(w.bare()), 1)
		})
	}
}

// TestForeignContenderThatStays: a waiter warns once of another library's entry that has stayed ahead
// for the lock's TTL and grace, with its path, age and session, and the waiter's final error says so.
// It warns of no entry that goes before.
func TestForeignContenderThatStays(t *testing.T) {
	eachPair(t, "way", []string{"lock", "barge", "all permits"}, []int32{0, zk.FlagEphemeral}, func(w *world, way string, flags int32) {
		a, z := w.client("a"), w.raw("other")
		w.unlock(w.lock(a, "y"))
		w.create(z, "/locks/x", "", 0)
		const stay = "stays ahead"
		wait := func() (path string, ch <-chan outcome[unlocker]) {
			path = w.create(z, "/locks/x/_c_0123456789abcdef0123456789abcdef-lock-", "", flags|zk.FlagSequence)
			time.Sleep(time.Minute)
			return path, start(func() (unlocker, error) { return ways[way](w.limited(10*time.Minute), a) })
		}
		path, ch := wait()
		time.Sleep(ttl)
		w.remove(z, path)
		out := <-ch
		w.ok(out.err)
		w.ok(out.hold.Unlock())
		equal(w, "warnings of an entry that went", strings.Count(w.logged(), stay), 0)

		path, ch = wait()
		out = <-ch
		fails(w, out.err, lock.ErrHeld, path, stay, map[int32]string{0: "without a session", zk.FlagEphemeral: "session 0x"}[flags])
		mustBe(w, out.err, context.DeadlineExceeded)
		equal(w, "times that the error has the path", strings.Count(out.err.Error(), path), 1)
		equal(w, "warnings", strings.Count(w.logged(), stay), 1)
		mustSay(w, errors.New(w.logged()), `"ahead":"`+path+`"`, `"age":"`, `"session":"`)
		w.remove(z, path)
	})
}

// TestEntryWithNodeBelowIt: ZooKeeper refuses to delete an entry that has a child. TryLock returns
// ErrForeign, and Unlock an UnlockError. A waiter enters after the child is deleted.
func TestEntryWithNodeBelowIt(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		b, z := w.client("b"), w.raw("other")
		dead := w.lock(w.client("a"), "x")
		child := w.create(z, dead.EntryPath()+"/child", "", 0)
		w.kill("a")
		time.Sleep(2*ttl + grace)
		fails(t, second(b.Mutex("x").TryLock(w.ctx)), lock.ErrForeign, dead.EntryPath())

		ch := w.queue(w.ctx, b, "x")
		got := w.cost("b", func() { time.Sleep(10 * ttl) })
		isTrue(t, got.requests["multi"] <= 10*int(ttl/time.Second), "waiting cost %v", got.requests)
		w.waits(ch)
		isTrue(t, strings.Contains(w.logged(), dead.EntryPath()), "not logged")
		w.remove(z, child)
		h := w.await(ch).hold

		child = w.create(z, h.EntryPath()+"/child", "", 0)
		isTrue(t, errors.As(h.Unlock(), new(*lock.UnlockError)), "unlocked")
		w.remove(z, child)
		w.unlock(w.lock(b, "x")) // b's entry was deleted in the background, or its lease has ended
		w.empty()
	})
}

// TestSharedPathWithGoZookeepersLock: zk.Lock and Holdfast's clients hold the lock one at a time,
// in the order in which they queued.
func TestSharedPathWithGoZookeepersLock(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.client("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: window, KeepParent: true}))
		z := w.raw("other")
		w.unlock(w.lock(a, "x"))
		for range 3 {
			h := w.lock(a, "x")
			theirs := zk.NewLock(z, "/locks/x", zk.WorldACL(zk.PermAll))
			locked := start(func() (*lock.Hold, error) { return nil, theirs.Lock() })
			w.until("zk.Lock is queued", func() bool { return len(w.entries("x")) == 2 })
			second := w.queue(w.ctx, a, "x")
			time.Sleep(3 * ttl)
			w.waits(locked, second)
			w.unlock(h)
			w.ok(w.outcome(locked).err)
			time.Sleep(3 * ttl)
			w.waits(second)
			w.ok(theirs.Unlock())
			w.unlock(w.expect(second).hold)
		}
	})
}

// TestDeadHolderBeforeAForeignEntry: a Holdfast waiter behind foreign entries purges a dead
// Holdfast entry ahead of them, because other libraries do not. It still waits for the foreign
// entries. In two of the cases a waiter between the dead entry and the foreign ones gives up before
// it can purge the dead entry.
func TestDeadHolderBeforeAForeignEntry(t *testing.T) {
	each(t, "waiter between with a TTL of", []time.Duration{0, ttl, 10 * ttl}, func(w *world, between time.Duration) {
		z := w.raw("other")
		dead := w.lock(w.client("a"), "x")
		ctx, leave := context.WithCancel(w.ctx)
		defer leave()
		var waiter <-chan taken
		if between != 0 {
			waiter = w.queue(ctx, w.client("b"), "x", lock.WithTTL(between))
		}
		var theirs []string
		for _, id := range []string{"0123456789abcdef0123456789abcdef", "f123456789abcdef0123456789abcdef"} {
			theirs = append(theirs, w.create(z, "/locks/x/_c_"+id+"-lock-", "", zk.FlagEphemeral|zk.FlagSequence))
		}
		ch := w.queue(w.ctx, w.client("c"), "x")
		time.Sleep(3 * ttl)
		w.waits(ch)
		w.alive(dead) // a client does not purge an entry that is renewed
		purged := make(chan time.Time, 1)
		w.fault(func(r locktest.Request) bool {
			is := r.Label == "c" && touches(r, dead.EntryPath()) && r.Op != "getData"
			if is {
				purged <- time.Now()
			}
			return is
		}, locktest.Fault{})
		d := w.die("a", dead.EntryPath())
		if between != 0 {
			time.Sleep(ttl / 2)
			leave()
			mustBe(w, w.outcome(waiter).err, context.Canceled)
		}
		w.until("the dead holder is purged", func() bool { return len(purged) > 0 })
		w.purged(d, <-purged, 0, 100*time.Millisecond)
		for _, path := range theirs { // each is ahead of the waiter
			time.Sleep(ttl)
			w.waits(ch)
			w.remove(z, path)
		}
		w.Heal("a")
		w.finish(w.expect(ch).hold)
	})
}

// TestWaiterThatLosesItsEntry: a waiter whose entry is deleted or overwritten notices that within
// the interval of renewals, and queues again at the end.
func TestWaiterThatLosesItsEntry(t *testing.T) {
	forEach(t, locktest.Options{}, map[string]func(w *world, path string){
		"own entry is gone": func(w *world, path string) { w.remove(w.raw("admin"), path) },
		"overwritten": func(w *world, path string) {
			w.set(w.raw("admin"), path, znode.Parent{Kind: znode.Dir}.Encode())
		},
	}, func(w *world, lose func(w *world, path string)) {
		a, b, c := w.client("a"), w.client("b"), w.client("c")
		h := w.lock(a, "x")
		second, third := w.queue(w.ctx, b, "x"), w.queue(w.ctx, c, "x")
		lost := w.entries("x")[1].Path
		lose(w, lost)
		time.Sleep(ttl/3 + ttl/10)
		entries := paths(w.entries("x"))
		mustBeTrue(w, len(entries) == 3 && entries[2] != lost, "entries %q, want a new one at the end", entries)
		isTrue(w, b.Stats().Requeued == 1 && b.Stats().Lost == 0 && b.Stats().Waiters == 1, "stats %+v", b.Stats())
		mustSay(w, errors.New(w.logged()), "lost the place in the queue", lost)
		w.waits(second, third)
		w.unlock(h)
		w.waits(second)
		w.unlock(w.expect(third).hold)
		got := w.expect(second)
		equal(w, "acquired by", got.hold.EntryPath(), entries[2])
		w.finish(got.hold)
	})
}

// TestWholeLockDeleted: an operator deletes a lock's nodes under a holder and waiters. The holder
// learns of it at its next renewal, and the waiters queue again.
func TestWholeLockDeleted(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.client("a"), w.client("b"), w.client("c")
		h := w.lock(a, "x")
		first, second := w.queue(w.ctx, b, "x"), w.queue(w.ctx, c, "x")
		z := w.raw("admin")
		w.wipe(z, "x") // the last entry first, so that a waiter loses its own entry before the one ahead
		time.Sleep(ttl / 2)
		mustBe(t, h.Err(), lock.ErrLost, lock.ErrRemoved)
		// The first waiter enters, because it had just seen its own entry and no other one ahead.
		// Its hold ends at once.
		got := w.expect(first).hold
		mustBe(t, got.Err(), lock.ErrLost, lock.ErrRemoved)
		next := w.expect(second).hold
		w.sole(next)
		equal(t, "queued again", c.Stats().Requeued, 1)
		w.finish(next)
	})
}

// TestAcquiredOnANodeOfTheSessionBefore: a Curator client believes that it holds the lock by a node
// of its previous session (CURATOR-604). Holdfast's client waits as long as the node exists, and
// then enters. The Curator client's later requests do not affect the hold.
func TestAcquiredOnANodeOfTheSessionBefore(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		ours := w.client("ours")
		w.unlock(w.lock(ours, "y"))
		before := w.raw("theirs, before")
		w.create(before, "/locks/x", "", 0)
		node := w.create(before, "/locks/x/_c_0123-lock-", "", zk.FlagEphemeral|zk.FlagSequence)
		w.ok(w.Partition("theirs, before"))
		theirs := w.raw("theirs, after")
		names, _, err := theirs.Children("/locks/x")
		w.ok(err)
		equalAll(t, "nodes, with that of the session before, and none ahead of it", names, []string{path.Base(node)})

		waiting := w.queue(w.ctx, ours, "x")
		time.Sleep(sessionTimeout / 2)
		w.waits(waiting)
		mustBe(t, second(ours.Mutex("x", lock.WithLocalWindow(lock.NoLocalWindow)).TryLock(w.ctx)), lock.ErrHeld)
		w.until("their session has ended", func() bool { return len(w.entries("x")) == 1 })
		h := w.await(waiting).hold

		// The Curator client unlocks, and queues again.
		mustBe(t, theirs.Delete(node, -1), zk.ErrNoNode)
		again := w.create(theirs, "/locks/x/_c_4567-lock-", "", zk.FlagEphemeral|zk.FlagSequence)
		time.Sleep(2 * ttl)
		w.alive(h)
		equalAll(t, "entries, ours ahead of theirs", paths(w.entries("x")), []string{h.EntryPath(), again})
		w.unlock(h)
		equalAll(t, "entries, theirs alone", paths(w.entries("x")), []string{again})
		w.remove(theirs, again)
	})
}

// The bits of a fuzzed byte that describe a hostile node; the lowest two bits choose its data.
const (
	hostileEphemeral  = 1 << 2
	hostileUnreadable = 1 << 3
	hostileReadOnly   = 1 << 4
	hostileSequential = 1 << 5
	hostileParent     = 1 << 6 // has a child itself
	hostileNoDelete   = 1 << 7 // first byte only: no child of the lock can be deleted
)

// FuzzHostileChildren creates nodes of any name, data and ACL below a lock's parent. TryLock and
// Lock return a hold, an error that names a node in the way, or ErrDenied, within three TTLs. The
// client deletes nothing but expired entries of Holdfast, leaves only one anchor, and can lock
// another lock meanwhile.
func FuzzHostileChildren(f *testing.F) {
	expired := (&znode.Record{Owner: "o", TTL: 1, ExpiresAt: 1, AcquiredAt: 1}).Encode()
	ours := "0123456789abcdef-lock-0000000000" // ahead of all later entries
	for _, seed := range []struct {
		names, kinds string
		data         []byte
	}{
		{"", "", nil},
		{"config\nlock-\nlock-12\n-lock-00000000zz\n_c_\nx-0000000001", "\x00", nil},
		{"_c_0123456789abcdef0123456789abcdef-lock-", "\x24", nil},
		{"_c_5f7d9aa2-9d9c-4d6f-8bd9-6b5a3a6d7e11-__WRIT__\n0123456789abcdef__rlock__", "\x24", []byte("10.0.0.1")},
		{ours, "\x00", expired},
		{ours, "\x00", expired[:len(expired)-3]},
		{ours, "\x00", []byte(`{"holdfast":2,"ttl":"1s"}`)},
		{ours + "\nfedcba9876543210-lock-0000000000\nconfig", "\x01\x02\x03", nil},
		{ours, "\x09", nil}, // expired and unreadable
		{ours, "\x11", nil},
		{ours, "\x05", nil},              // expired, but ephemeral
		{"lock-0000000000", "\x01", nil}, // expired, but the name is not that of a Holdfast entry
		{ours, "\x41", nil},              // expired, with a child
		{ours, "\x81", nil},              // expired, and cannot be deleted
		{"config", "\xc8", []byte("keep out")},
		{"0123456789abcdef-lock-2147483647\n0123456789abcdee-lock--2147483648\n0123456789abcdee-lock-2147483647", "\x01", nil},
		{"lock-2147483647\nlock--0000000001", "\x08", nil}, // unreadable, and past the counter's end
		{"anchor-0123456789abcdef__2147483647\nanchor-__2147483647", "\x03", nil},
		{"0123456789abcdef-__READ__0000000000\n0123456789abcdef-__WRIT__0000000000", "\x01\x02", nil},
	} {
		f.Add(seed.names, []byte(seed.kinds), seed.data)
	}
	f.Fuzz(func(t *testing.T, names string, kinds, data []byte) {
		simulateAlone(t, locktest.Options{}, func(w *world) {
			a, z := w.client("a"), w.raw("other")
			w.unlock(w.lock(a, "y")) // creates the root
			acl := zk.WorldACL(zk.PermAll)
			undeletable := len(kinds) > 0 && kinds[0]&hostileNoDelete != 0
			if undeletable {
				acl = zk.WorldACL(zk.PermAll &^ zk.PermDelete)
			}
			w.createACL(z, "/locks/x", "", acl)
			placed := w.hostile(z, "/locks/x", names, kinds, data)
			before := w.Dump("/locks/x")

			ctx := w.limited(2 * ttl)
			for _, take := range []taking{a.Mutex("x").TryLock, a.Mutex("x").Lock} {
				begun := time.Now()
				h, err := take(ctx)
				atMost(w, "took", time.Since(begun), 3*ttl)
				var held *lock.HeldError
				switch {
				case err == nil && undeletable:
					t.Error("acquired, and its entry cannot be deleted")
				case err == nil && h.Remaining() > 0:
					w.unlock(h)
				case err == nil:
					t.Errorf("the hold is not valid: %v", h.Err())
				case undeletable && errors.Is(err, lock.ErrDenied):
				case len(placed) == 0:
					t.Errorf("nothing is there, but: %v", err)
				case !errors.As(err, &held):
					t.Errorf("neither acquired nor held nor denied: %v", err)
				case !slices.Contains(placed, held.Entry):
					t.Errorf("%s, which no other program has put there, is said to be in the way", held.Entry)
				}
				w.unlock(w.lock(a, "y")) // other locks still work
			}

			time.Sleep(5 * time.Minute) // until the background work is done
			now := make(map[string]locktest.Node)
			for _, n := range w.Dump("/locks/x") {
				now[n.Path] = n
			}
			for _, n := range before[1:] {
				left, there := now[n.Path]
				if there {
					same(t, []locktest.Node{n}, []locktest.Node{left})
				} else if !purgeable(n) {
					t.Errorf("%s was deleted: %+v", n.Path, n)
				}
				delete(now, n.Path)
			}
			delete(now, "/locks/x")
			if !undeletable { // the lock's node was adopted
				delete(now, "/locks/x/"+znode.Anchor(w.parent("x").Generation))
			}
			for path, n := range now {
				t.Errorf("%s was left: %s", path, n.Data)
			}
		})
	})
}

// purgeable reports whether a node is an entry of Holdfast that can expire.
func purgeable(n locktest.Node) bool {
	name, ok := znode.Parse(path.Base(n.Path))
	_, err := znode.DecodeRecord(n.Data)
	return ok && name.Ours() && err == nil && n.Stat.EphemeralOwner == 0 && n.Stat.NumChildren == 0
}

// hostile creates up to 20 of the fuzzer's nodes, as far as the server permits, and returns their
// paths.
func (w *world) hostile(z *zk.Conn, parent, names string, kinds, data []byte) (placed []string) {
	w.Helper()
	now := time.Now().UnixMilli()
	for i, name := range strings.Split(names, "\n") {
		if name == "" || strings.Contains(name, "/") || len(placed) == 20 {
			continue
		}
		var kind byte
		if len(kinds) > 0 {
			kind = kinds[i%len(kinds)]
		}
		content := [][]byte{
			data,
			(&znode.Record{Owner: "o", TTL: 1, ExpiresAt: 1}).Encode(),
			(&znode.Record{Owner: "o", TTL: ttl.Milliseconds(), ExpiresAt: now, AcquiredAt: now}).Encode(),
			nil,
		}[kind&3]
		acl := zk.WorldACL(zk.PermAll)
		switch {
		case kind&hostileUnreadable != 0:
			acl = zk.DigestACL(zk.PermAll, "other", "secret")
		case kind&hostileReadOnly != 0:
			acl = zk.WorldACL(zk.PermRead)
		}
		var flags int32
		if kind&hostileEphemeral != 0 {
			flags |= zk.FlagEphemeral
		}
		if kind&hostileSequential != 0 {
			flags |= zk.FlagSequence
		}
		path, err := z.Create(parent+"/"+name, content, flags, acl)
		if err != nil {
			continue // not a name, or there already
		}
		placed = append(placed, path)
		if kind&hostileParent != 0 && flags&zk.FlagEphemeral == 0 && kind&(hostileUnreadable|hostileReadOnly) == 0 {
			w.createACL(z, path+"/child", "keep me", acl)
		}
	}
	return placed
}
