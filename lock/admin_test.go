// Package admin: reads, deletions, time, inspection.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

func TestTreeReads(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.client("a")
		tree := admin.New(a)
		if tree.Root() != "/locks" || tree.Path("") != "/locks" || tree.Path("x/y") != "/locks/x/y" {
			t.Errorf("root %q, paths %q and %q", tree.Root(), tree.Path(""), tree.Path("x/y"))
		}
		h := w.lock(a, "x")
		data, stat, err := tree.Get(w.ctx, h.EntryPath())
		isTrue(t, err == nil && string(data) == string(w.node(h.EntryPath()).Data) && stat.Czxid == h.Token().Parts().Czxid, "%s, %+v, %v", data, stat, err)
		names, stat, err := tree.Children(w.ctx, "/locks/x")
		if err != nil || len(names) != 2 || !slices.Contains(names, h.EntryPath()[len("/locks/x/"):]) || stat.NumChildren != 2 { // the entry and the anchor
			t.Errorf("%q, %+v, %v", names, stat, err)
		}
		_, _, err = tree.Get(w.ctx, "/locks/none")
		mustBe(t, err, zk.ErrNoNode)
		_, _, err = tree.Children(w.ctx, "/locks/none")
		mustBe(t, err, zk.ErrNoNode)
		w.unlock(h)
	})
}

// TestTreeRefuses: calls with a nil context, of the zero Tree, or of a Tree without a usable client
// return ErrInvalid. None panics.
func TestTreeRefuses(t *testing.T) {
	calls := map[string]func(admin.Tree, context.Context) error{
		"get": func(tree admin.Tree, ctx context.Context) error { _, _, err := tree.Get(ctx, "/locks"); return err },
		"children": func(tree admin.Tree, ctx context.Context) error {
			_, _, err := tree.Children(ctx, "/locks")
			return err
		},
		"delete": func(tree admin.Tree, ctx context.Context) error {
			return tree.Delete(ctx, []admin.Deletion{{Path: "/locks/x"}})
		},
		"now": func(tree admin.Tree, ctx context.Context) error { _, err := tree.Now(ctx); return err },
		"prove": func(tree admin.Tree, ctx context.Context) error {
			_, err := tree.Prove(ctx, tree.Estimate(), 1)
			return err
		},
		"inspect": func(tree admin.Tree, ctx context.Context) error { _, err := tree.Inspect(ctx, "x"); return err },
		"purge":   func(tree admin.Tree, ctx context.Context) error { return second(tree.Purge(ctx, "/locks/x", terms)) },
		"carries": func(tree admin.Tree, ctx context.Context) error { return tree.Carries(ctx, 1) },
	}
	for _, tree := range []admin.Tree{{}, admin.New(nil), admin.New(new(lock.Client))} {
		if tree.Root() != "" || tree.Path("x") != "" || tree.Estimate() != (admin.Time{}) {
			t.Errorf("root %q, path %q, time %+v", tree.Root(), tree.Path("x"), tree.Estimate())
		}
		for what, call := range calls {
			err := call(tree, t.Context())
			if mustBe(t, err, lock.ErrInvalid); what != "prove" {
				mustSay(t, err, "tree", "must come from a client")
			}
		}
	}
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.client("a")
		w.unlock(w.lock(a, "x"))
		for _, call := range calls {
			fails(t, call(admin.New(a), nil), lock.ErrInvalid, "context", "must not be nil")
		}
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

		if err := admin.New(a).Delete(w.ctx, []admin.Deletion{{Path: "/locks/x"}}); !errors.As(err, &refused) || refused.Index != 0 {
			t.Errorf("error is %#v", err)
		}
	})
}

func TestTreeDeleteWithoutServer(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.client("a")
		w.Stop(w.Servers()[0])
		ctx := w.limited(ttl)
		mustBe(t, admin.New(a).Delete(ctx, []admin.Deletion{{Path: "/locks/x"}}), context.DeadlineExceeded, lock.ErrUnavailable)
		_, err := admin.New(a).Now(ctx)
		mustBe(t, err, context.DeadlineExceeded, lock.ErrUnavailable)
		_, _, err = admin.New(a).Get(ctx, "/locks")
		mustBe(t, err, context.DeadlineExceeded)
		w.Start(w.Servers()[0])
	})
}

func TestTreeTime(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const ahead = 5 * time.Hour
		w.ok(w.SetClock(w.Servers()[0], ahead))
		a := w.client("a")
		if at := admin.New(a).Estimate(); at.Zxid == 0 {
			t.Error("no sample by Dial's look at the server")
		}
		mustBe(t, second(admin.New(a).Now(w.ctx)), zk.ErrNoNode)
		z := w.raw("other")
		w.create(z, "/locks", "", 0)
		before := w.Dump("/locks")[0]
		at, err := admin.New(a).Now(w.ctx)
		w.ok(err)
		covers := func(at admin.Time) {
			t.Helper()
			now := time.Now().Add(ahead)
			if now.Before(at.Earliest()) || now.After(at.Latest()) || at.Latest().Sub(at.Earliest()) > 10*time.Millisecond || at.Zxid <= before.Stat.Czxid {
				t.Errorf("it is %v, %+v", now, at)
			}
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
		if second := s.Contenders[1]; !second.Ours || second.Owner != "b" || !second.Acquired.IsZero() {
			t.Errorf("waiter: %+v", second)
		}
		for i, path := range []string{theirs, damaged} {
			c := s.Contenders[2+i]
			isTrue(t, c.Token.Parts().Czxid == w.node(path).Stat.Czxid && c.Path == path && !c.Ours && c.TTL == 0 && c.Expires.IsZero(), "theirs: %+v", c)
		}
		root, err := tree.Inspect(w.ctx, "")
		isTrue(t, err == nil && root.Kind == znode.Dir && slices.Equal(root.Children, []string{"x"}), "%+v, %v", root, err)
		nested, err := tree.Inspect(w.ctx, "x/nested")
		isTrue(t, err == nil && slices.Equal(nested.Children, []string{znode.EpochMark}), "%+v, %v", nested, err)
		mustBe(t, second(tree.Inspect(w.ctx, "/x")), lock.ErrInvalid)

		// An entry that is deleted during the read is not in the result.
		w.faults(func(r locktest.Request) bool { return r.Label == "b" && r.Op == "getData" && touches(r, theirs) }, locktest.Fault{Code: codeNoNode})
		if s, err := tree.Inspect(w.ctx, "x"); err != nil || len(s.Contenders) != 3 {
			t.Errorf("%+v, %v", s, err)
		}
		w.faults(func(r locktest.Request) bool { return r.Label == "b" && r.Op == "getChildren2" }, locktest.Fault{Code: codeNoAuth})
		fails(t, second(tree.Inspect(w.ctx, "x")), zk.ErrNoAuth, "list /locks/x")
		w.Intercept(nil)
		w.unlock(w.pass(h, ch))
	})
}
