// Package admin: reads, deletions, time, inspection, force-releases and purges.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
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

// TestTreeRefuses: calls of the zero Tree, or of a Tree without a usable client, return ErrInvalid. None
// panics.
func TestTreeRefuses(t *testing.T) {
	for _, tree := range []admin.Tree{{}, admin.New(nil), admin.New(new(lock.Client))} {
		isTrue(t, tree.Root() == "" && tree.Path("x") == "" && tree.Estimate() == (admin.Time{}), "root %q, path %q, time %+v", tree.Root(), tree.Path("x"), tree.Estimate())
		for what, call := range treeCalls {
			err := call(t.Context(), tree)
			if mustBe(t, err, lock.ErrInvalid); what != "Prove" {
				mustSay(t, err, "tree", "must come from a client")
			}
		}
	}
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.client("a")
		w.unlock(w.lock(a, "x"))
		for _, size := range []int{-1, math.MaxInt} {
			fails(t, admin.New(a).Carries(w.ctx, size), lock.ErrInvalid, fmt.Sprint("size ", size), "within 0..1048576")
		}
		h := w.lock(a, "x")
		broken := w.breaks(a, h.EntryPath())
		fails(t, broken.Wait(nil, terms), lock.ErrInvalid, "context", "must not be nil") //lint:ignore SA1012 it is what is tested
		fails(t, new(admin.Breaking).Wait(w.ctx, terms), lock.ErrInvalid, "tree", "must come from a client")
		w.ok(broken.Wait(w.ctx, terms))
	})
}

// TestTreeDeletes: Delete deletes all of the nodes or none, and only in the given versions, also if
// the connection is lost during the call.
func TestTreeDeletes(t *testing.T) {
	forEachMishap(t, func(w *world, i int) {
		a, z := w.client("a"), w.raw("other")
		for _, p := range []string{"/locks", "/locks/x", "/locks/x/1", "/locks/x/2"} {
			w.create(z, p, "", 0)
		}
		w.set(z, "/locks/x/2", nil)
		all := []admin.Deletion{{Path: "/locks/x/1"}, {Path: "/locks/x/2"}, {Path: "/locks/x"}}
		err := admin.New(a).Delete(w.ctx, all)
		var refused *admin.RefusedError
		isTrue(t, errors.As(err, &refused) && refused.Index == 1 && refused.Path == "/locks/x/2", "error is %#v", err)
		fails(t, err, zk.ErrBadVersion, "delete /locks/x/2: ")
		w.hasNodes(3)

		all[1].Version = 1
		w.mishap(i, "a", func(r locktest.Request) bool { return r.Op == "multi" })
		err = admin.New(a).Delete(w.ctx, all)
		if err != nil { // the earlier attempt was applied
			mustBe(t, err, zk.ErrNoNode)
		}
		w.empty()

		err = admin.New(a).Delete(w.ctx, []admin.Deletion{{Path: "/locks/x"}})
		isTrue(t, errors.As(err, &refused) && refused.Index == 0, "error is %#v", err)
	})
}

func TestTreeTime(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const ahead = 5 * time.Hour
		w.ok(w.SetClock(w.Servers()[0], ahead))
		a := w.client("a")
		isTrue(t, admin.New(a).Estimate().Zxid != 0, "no sample by Dial's look at the server")
		mustBe(t, second(admin.New(a).Now(w.ctx)), zk.ErrNoNode)
		z := w.raw("other")
		w.create(z, "/locks", "", 0)
		before := w.Dump("/locks")[0]
		at, err := admin.New(a).Now(w.ctx)
		w.ok(err)
		covers := func(at admin.Time) {
			t.Helper()
			now := time.Now().Add(ahead)
			isTrue(t, !now.Before(at.Earliest()) && !now.After(at.Latest()) && at.Latest().Sub(at.Earliest()) <= 10*time.Millisecond && at.Zxid > before.Stat.Czxid, "it is %v, %+v", now, at)
		}
		covers(at)
		time.Sleep(3 * time.Second)
		cost := w.cost("a", func() { covers(admin.New(a).Estimate()) })
		equal(t, "an estimate cost", cost.total(), 0)
		after := w.Dump("/locks")
		isTrue(t, len(after) == 1 && after[0].Stat.Version == before.Stat.Version && after[0].Stat.NumChildren == 0, "a sample left %+v", after)
		w.setACL(z, "/locks", zk.WorldACL(zk.PermRead))
		fails(t, second(admin.New(a).Now(w.ctx)), lock.ErrDenied, "/locks")
	})
}

// TestTreeInspects: Inspect tells of a lock's contenders and children, and Get and Children read one node.
func TestTreeInspects(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a", lock.WithMetadata(map[string]string{"k": "v"})), w.client("b")
		z := w.raw("other")
		tree := admin.New(b)
		for _, name := range []string{"", "x"} {
			if s, err := tree.Inspect(w.ctx, name); err != nil || s.Name != name || s.Kind != "" || len(s.Contenders)+len(s.Children) != 0 {
				t.Errorf("nothing is there: %+v, %v", s, err)
			}
		}
		h := w.lock(a, "x")
		ch := w.queue(w.ctx, b, "x")
		theirs := w.create(z, "/locks/x/lock-", "", zk.FlagSequence|zk.FlagEphemeral)
		damaged := w.create(z, "/locks/x/0123456789abcdef-lock-", "{", zk.FlagSequence)
		w.create(z, "/locks/x/nested", "", 0)
		w.create(z, "/locks/"+znode.EpochMark, string(znode.Parent{Kind: znode.Mark}.Encode()), 0) // Inspect does not show this child of the root
		w.create(z, "/locks/x/nested/"+znode.EpochMark, "", 0)
		s, err := tree.Inspect(w.ctx, "x")
		mustBeTrue(t, err == nil && s.Kind == znode.Mutex && slices.Equal(s.Children, []string{"nested"}) && len(s.Contenders) == 4, "%+v, %v", s, err)
		first := s.Contenders[0]
		if first.Path != h.EntryPath() || first.Token != h.Token() || !first.Ours || first.Owner != "a" || first.PID == 0 || first.TTL != ttl ||
			fmt.Sprint(first.Metadata) != "map[k:v]" || first.Acquired.IsZero() || time.Until(first.Expires).Round(time.Second) != ttl {
			t.Errorf("holder: %+v", first)
		}
		waiter := s.Contenders[1]
		isTrue(t, waiter.Ours && waiter.Owner == "b" && waiter.Acquired.IsZero(), "waiter: %+v", waiter)
		for i, path := range []string{theirs, damaged} {
			c := s.Contenders[2+i]
			isTrue(t, c.Token.Parts().Czxid == w.node(path).Stat.Czxid && c.Path == path && !c.Ours && c.TTL == 0 && c.Expires.IsZero(), "theirs: %+v", c)
		}
		isTrue(t, tree.Root() == "/locks" && tree.Path("") == "/locks" && tree.Path("x/y") == "/locks/x/y", "root %q", tree.Root())
		data, stat, err := tree.Get(w.ctx, h.EntryPath())
		isTrue(t, err == nil && string(data) == string(w.node(h.EntryPath()).Data) && stat.Czxid == h.Token().Parts().Czxid, "%s, %+v, %v", data, stat, err)
		names, stat, err := tree.Children(w.ctx, "/locks/x")
		listed := len(names) == 6 && stat.NumChildren == 6 && slices.Contains(names, path.Base(h.EntryPath()))
		isTrue(t, err == nil && listed, "%q, %+v, %v", names, stat, err)
		mustBe(t, third(tree.Get(w.ctx, "/locks/none")), zk.ErrNoNode)
		mustBe(t, third(tree.Children(w.ctx, "/locks/none")), zk.ErrNoNode)

		root, err := tree.Inspect(w.ctx, "")
		isTrue(t, err == nil && root.Kind == znode.Dir && slices.Equal(root.Children, []string{"x"}), "%+v, %v", root, err)
		nested, err := tree.Inspect(w.ctx, "x/nested")
		isTrue(t, err == nil && slices.Equal(nested.Children, []string{znode.EpochMark}), "%+v, %v", nested, err)
		mustBe(t, second(tree.Inspect(w.ctx, "/x")), lock.ErrInvalid)

		// An entry that is deleted during the read is not in the result.
		w.faults(func(r locktest.Request) bool { return r.Label == "b" && r.Op == "getData" && touches(r, theirs) }, locktest.Fault{Code: codeNoNode})
		s, err = tree.Inspect(w.ctx, "x")
		isTrue(t, err == nil && len(s.Contenders) == 3, "%+v, %v", s, err)
		w.faults(func(r locktest.Request) bool { return r.Label == "b" && r.Op == "getChildren2" }, locktest.Fault{Code: codeNoAuth})
		fails(t, second(tree.Inspect(w.ctx, "x")), zk.ErrNoAuth, "list /locks/x")
		w.Intercept(nil)
		w.unlock(w.pass(h, ch))
	})
}

// TestBreak: before the next client enters, the owner of a force-released hold learns which client
// released it, and why. If the owner is unreachable, the entry blocks until its lease has ended.
// Delete does not wait for the owner.
func TestBreak(t *testing.T) {
	for name, tt := range map[string]struct {
		act  func(w *world, h *lock.Hold, b *admin.Breaking) error
		err  []error // error of the hold
		most time.Duration
	}{
		"and wait": {func(w *world, h *lock.Hold, b *admin.Breaking) error {
			w.alive(h) // the holder does not know yet
			return b.Wait(w.ctx, terms)
		}, []error{lock.ErrLost, lock.ErrBroken}, ttl / 2},
		"of a client that died": {func(w *world, h *lock.Hold, b *admin.Breaking) error { return b.Wait(w.ctx, terms) }, []error{lock.ErrLost, lock.ErrExpired}, ttl + 2*grace},
		"now":                   {func(w *world, h *lock.Hold, b *admin.Breaking) error { return b.Delete(w.ctx, terms) }, []error{lock.ErrLost, lock.ErrRemoved}, 100 * latency},
		"unlocked before it is noticed": {func(w *world, h *lock.Hold, b *admin.Breaking) error {
			w.unlock(h)
			return b.Wait(w.ctx, terms)
		}, []error{lock.ErrUnlocked}, 100 * latency},
		"detached before it is noticed": {func(w *world, h *lock.Hold, b *admin.Breaking) error {
			_, err := h.Detach(w.ctx, 0)
			mustBe(w, err, lock.ErrLost, lock.ErrBroken)
			mustSay(w, err, "it hangs")
			return b.Wait(w.ctx, terms)
		}, []error{lock.ErrDetached}, 100 * latency},
	} {
		subtest(t, name, locktest.Options{}, func(w *world) {
			a, b, c := w.client("a"), w.client("b"), w.client("c")
			h := w.lock(a, "x", lock.WithMetadata(map[string]string{"job": "ship"}))
			ended, next := w.end(h), w.queue(w.ctx, b, "x")
			died := name == "of a client that died"
			if died {
				w.kill("a")
				time.Sleep(ttl / 10)
			}
			begun := time.Now()
			broken := w.breaks(c, h.EntryPath())
			if s, err := admin.New(c).Inspect(w.ctx, "x"); err != nil || !strings.Contains(s.Contenders[0].Broken, "it hangs") || s.Contenders[0].Metadata["job"] != "ship" {
				w.Errorf("%+v, %v", s, err)
			}
			w.ok(tt.act(w, h, broken))
			isTrue(w, broken.Gone(), "not gone")
			took := time.Since(begun)
			if took > tt.most || died && took < ttl-ttl/10 {
				w.Errorf("took %v of a TTL of %v", took, ttl)
			}
			got := w.await(next)
			if name != "now" { // a force-release "now" voids mutual exclusion
				w.inTurn(ended, got)
			}
			time.Sleep(ttl / 2)
			mustBe(w, h.Err(), tt.err...)
			if errors.Is(h.Err(), lock.ErrBroken) {
				mustSay(w, h.Err(), "root (host node1, pid 7): it hangs")
				mustBe(w, context.Cause(h.Context()), lock.ErrBroken)
			}
			again := w.breaks(c, h.EntryPath())
			isTrue(w, again.Gone() && again.Wait(w.ctx, terms) == nil, "an entry that has gone can be broken")
			w.Heal("a")
			w.finish(got.hold)
		})
	}
	t.Run("over mishaps", func(t *testing.T) {
		forEachMishap(t, func(w *world, i int) {
			a, c := w.client("a"), w.client("c")
			h := w.lock(a, "x")
			w.mishap(i, "c", func(r locktest.Request) bool { return r.Op != "getData" })
			broken := w.breaks(c, h.EntryPath())
			w.ok(broken.Wait(w.ctx, terms))
			mustBe(t, h.Err(), lock.ErrBroken)
		})
	})
}

// TestDetachDoesNotHideABreak: if an entry is force-released while its renewal is in flight, Detach
// returns ErrBroken, and the entry is deleted.
func TestDetachDoesNotHideABreak(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.client("a"), w.client("c")
		h := w.lock(a, "x")
		w.fault(writes("a", h.EntryPath()), locktest.Fault{Delay: time.Second})
		extended := async(func() error { return h.Extend(w.ctx, ttl) })
		settle()
		broken := w.breaks(c, h.EntryPath())
		fails(w, second(h.Detach(w.ctx, 0)), lock.ErrBroken, "root (host node1, pid 7): it hangs")
		mustBe(w, <-extended, lock.ErrDetached)
		begun := time.Now()
		w.ok(broken.Wait(w.ctx, terms))
		atMost(w, "took", time.Since(begun), ttl/2)
		w.empty()
	})
}

// TestAttachToABrokenEntry: Attach to a force-released entry returns ErrRemoved, although the entry still
// exists. If the entry is force-released while Attach waits for its turn, it is deleted.
func TestAttachToABrokenEntry(t *testing.T) {
	const detached, died, waits = "is detached", "is that of a client that died", "waits for its turn"
	each(t, "the entry", []string{detached, died, waits}, func(w *world, what string) {
		a, b, c := w.client("a"), w.client("b"), w.client("c")
		h := w.lock(a, "x")
		var ticket lock.Ticket
		switch what {
		case detached:
			ticket = w.detach(h, 0)
		case died:
			ticket = w.ticket(h)
			w.kill("a")
		case waits:
			ticket = w.restored("x", "mutex", znode.Prefix(znode.NewID(), znode.Exclusive))
			ch := start(func() (*lock.Hold, error) { return b.Attach(w.ctx, ticket) })
			settle()
			begun := time.Now()
			w.ok(w.breaks(c, ticket.EntryPath()).Wait(w.ctx, terms))
			atMost(w, "took", time.Since(begun), ttl/2)
			fails(w, w.outcome(ch).err, lock.ErrRemoved, "root (host node1, pid 7): it hangs")
			w.finish(h)
			return
		}
		broken := w.breaks(c, ticket.EntryPath())
		fails(w, second(b.Attach(w.ctx, ticket)), lock.ErrRemoved, "root (host node1, pid 7): it hangs")
		next := w.queue(w.ctx, b, "x")
		w.ok(broken.Wait(w.ctx, terms))
		got := w.await(next).hold
		w.Heal("a")
		w.finish(got)
	})
}

// TestBreakOfAnUnconfirmedAttach: the reply to an Attach is lost, and then the entry is
// force-released. The attaching client deletes the entry, also if the caller has given up.
func TestBreakOfAnUnconfirmedAttach(t *testing.T) {
	each(t, "given up", bools, func(w *world, givenUp bool) {
		a, b, c := w.client("a"), w.client("b"), w.client("c")
		ticket := w.detach(w.lock(a, "x"), 2*time.Minute)
		hit := w.fault(func(r locktest.Request) bool {
			return writes("b", ticket.EntryPath())(r) && w.cutOff("b")
		}, locktest.Fault{Drop: locktest.AfterApply})
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		attached := start(func() (*lock.Hold, error) { return b.Attach(ctx, ticket) })
		w.until("the reply was lost", hit)
		broken := w.breaks(c, ticket.EntryPath())
		if givenUp {
			cancel()
			mustBe(w, w.outcome(attached).err, context.Canceled)
		}
		w.Heal("b")
		begun := time.Now()
		mustBe(w, broken.Wait(w.ctx, terms), nil)
		atMost(w, "took", time.Since(begun), ttl/2)
		w.empty()
		if !givenUp {
			fails(w, w.outcome(attached).err, lock.ErrRemoved, "root (host node1, pid 7): it hangs")
		}
	})
}

// TestBreakRefuses: Break refuses foreign entries, and a missing or too long reason. It refuses an entry
// with the last number of the counter: that number is repeated, so Break could mark a later entry of that
// name.
func TestBreakRefuses(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.client("a"), w.raw("z")
		h := w.lock(a, "x")
		w.create(z, "/locks/x/lock-0000000009", "", 0)
		mustBe(t, second(admin.New(a).Break(w.ctx, "/locks/x/lock-0000000009", breaker)), lock.ErrForeign)
		mustBe(t, second(admin.New(a).Break(w.ctx, h.EntryPath(), znode.Broken{Owner: "a", Reason: strings.Repeat("x", lock.MaxReason+1)})), lock.ErrInvalid)
		mustBe(t, second(admin.New(a).Break(w.ctx, h.EntryPath(), znode.Broken{})), lock.ErrInvalid)
		w.alive(h)
		w.remove(z, "/locks/x/lock-0000000009")

		last := strings.TrimSuffix(h.EntryPath(), "0000000001") + "2147483647"
		old, later := znode.Record{Owner: "b", TTL: ttl.Milliseconds()}, znode.Record{Owner: "d", TTL: ttl.Milliseconds()}
		w.create(z, last, string(old.Encode()), 0)
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Label == "a" && r.Op == "multi" && touches(r, last) {
				w.remove(z, last)
				w.create(z, last, string(later.Encode()), 0)
			}
			return locktest.Fault{}
		})
		mustBe(w, second(admin.New(a).Break(w.ctx, last, breaker)), lock.ErrExhausted)
		isTrue(w, w.record(last).Broken == nil, "another entry is marked")
		w.remove(z, last)
		w.unlock(h)
	})
}

// TestPurgeByDefaults: a policy without a grace means DefaultGrace, for Purge and for
// Breaking.Wait. A negative grace is refused.
func TestPurgeByDefaults(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.client("a"), w.client("c")
		h, broken := w.lock(a, "x"), w.lock(a, "y")
		w.Partition("a")
		b := w.breaks(c, broken.EntryPath())
		negative := lock.Policy{Grace: -ttl}
		fails(w, b.Wait(w.ctx, negative), lock.ErrInvalid, "grace -10s")
		fails(w, second(admin.New(c).Purge(w.ctx, h.EntryPath(), negative)), lock.ErrInvalid, "grace -10s")
		done := async(func() error { return b.Wait(w.ctx, lock.Policy{}) })
		time.Sleep(ttl + lock.DefaultGrace/2)
		gone, err := admin.New(c).Purge(w.ctx, h.EntryPath(), lock.Policy{})
		isTrue(w, !gone && err == nil, "purged before the end of the grace: %v, %v", gone, err)
		w.hasEntries("y", 1)
		w.ok(<-done)
		time.Sleep(lock.DefaultGrace)
		for range 2 {
			gone, err = admin.New(c).Purge(w.ctx, h.EntryPath(), lock.Policy{})
			isTrue(w, gone && err == nil, "not purged after the end of the grace: %v, %v", gone, err)
		}
		w.hasNodes(0)
	})
}
