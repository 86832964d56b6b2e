package reaper_test

import (
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// FuzzHostileTree: among nodes of any name, data and ACL, a sweep deletes only expired or empty nodes
// of Holdfast. It names each denied node, and cleans up the other locks. Each line of names is a path
// below the root, and a byte of kinds describes the node.
func FuzzHostileTree(f *testing.F) {
	expired := (&znode.Record{Owner: "o", TTL: 1, ExpiresAt: 1, AcquiredAt: 1}).Encode()
	ours := "x\nx/0123456789abcdef-lock-0000000000"
	for _, seed := range []struct {
		names, kinds string
		data         []byte
	}{
		{"", "", nil},
		{"config\nx\nx/lock-\nx/lock-12\nx/-lock-00000000zz\nx/_c_", "\x00", nil},
		{ours, "\x02\x01", nil},
		{ours, "\x02\x05", nil}, // ephemeral
		{ours, "\x02\x09", nil}, // unreadable
		{ours, "\x12\x01", nil}, // in a read-only parent
		{ours, "\x0a\x01", nil}, // in an unreadable parent
		{ours, "\x02\x00", expired[:len(expired)-3]},
		{ours, "\x00\x01", []byte(`{"holdfast":3,"kind":["mutex"]}`)},
		{ours + "\n" + "x/0123456789abcdef-lock-0000000000/below", "\x02\x01\x02", nil},
		{"x\nx/lock-0000000000", "\x02\x01", nil},
		{"a\na/b\na/b/c\na/b/c/d", "\x03\x03\x03\x02", nil},
		{"a\na/b\na/b/c", "\x03\x13\x02", nil},
		{"x\nx/" + znode.Anchor("0123456789abcdef"), "\x02", nil},
		{"x\nx/" + znode.Anchor("0123456789abcdef") + "\nx/" + znode.Anchor("0123456789abcdef") + "/below", "\x02", nil},
		{"x\nx/" + znode.Anchor("0123456789abcdef"), "\x00\x06", nil}, // an ephemeral one below a foreign node
		{ours, "\x02\x00", []byte(`{"holdfast":1,"owner":"o","ttl_ms":1}`)},
	} {
		f.Add(seed.names, []byte(seed.kinds), seed.data)
	}
	f.Fuzz(func(t *testing.T, names string, kinds, data []byte) {
		simulate(t, func(w *world) {
			r := w.reaper("reaper", reaper.Options{})
			w.mustSweep(r) // makes the root
			z := w.raw("others")
			denials := w.hostile(z, names, kinds, data)
			c := w.dial("service", lock.WithPolicies(w.policies()))
			held, err := c.Mutex("fuzz-live/1").Lock(w.ctx)
			iferr.Fatal(t, err)
			w.dead(z, "fuzz-dead/1")
			time.Sleep(ttl + grace + orphan)

			before := w.Dump("/locks")
			report := w.mustSweep(r)
			after := make(map[string]locktest.Node)
			for _, n := range w.Dump("/locks") {
				after[n.Path] = n
			}
			deleted := 0
			for _, n := range before {
				left, there := after[n.Path]
				switch {
				case strings.HasPrefix(n.Path, "/locks/fuzz-"):
				case !there && !deletable(n):
					t.Errorf("%s was deleted: %s", n.Path, n.Data)
				case there && (string(left.Data) != string(n.Data) || left.Stat.Version != n.Stat.Version):
					t.Errorf("%s was written: %s", n.Path, left.Data)
				}
				if _, anchor := znode.AnchorOf(path.Base(n.Path)); !there && !anchor {
					deleted++
				}
			}
			if held.Remaining() == 0 {
				t.Errorf("the hold is lost: %v", held.Err())
			}
			for _, gone := range []string{"/locks/fuzz-dead/1", "/locks/fuzz-dead"} {
				if _, there := after[gone]; there {
					t.Errorf("%s is still there", gone)
				}
			}
			if report.Total.Deleted != deleted {
				t.Errorf("%d nodes went, and the report says %d", deleted, report.Total.Deleted)
			}
			var denied []string
			for _, d := range report.Denied {
				denied = append(denied, d.What+" "+d.Path)
			}
			for _, want := range denials {
				if !slices.Contains(denied, want) {
					t.Errorf("%q is not among the denials %q", want, denied)
				}
			}
			if n := report.Total.Denied; n != len(denied) {
				t.Errorf("%d were denied, and the report says %d", len(denied), n)
			}
			iferr.Error(t, held.Unlock())
		})
	})
}

// deletable reports whether the reaper may ever delete the node.
func deletable(n locktest.Node) bool {
	if n.Stat.EphemeralOwner != 0 {
		return false
	}
	if _, anchor := znode.AnchorOf(path.Base(n.Path)); anchor {
		return true
	}
	if name, ok := znode.Parse(path.Base(n.Path)); ok {
		_, err := znode.DecodeRecord(n.Data)
		return name.Ours() && err == nil
	}
	parent, err := znode.DecodeParent(n.Data)
	return err == nil && parent.Kind != "" && !parent.Adopted
}

// hostile creates the fuzzer's nodes, as far as the server permits, and returns the denials that a
// sweep must report. The lowest two bits of a kind select the data; the others make the node
// ephemeral, unreadable or read-only.
func (w *world) hostile(z *zk.Conn, names string, kinds, data []byte) (denials []string) {
	w.Helper()
	iferr.Fatal(w, z.AddAuth("digest", []byte("u:p")))
	all, mine := zk.WorldACL(zk.PermAll), zk.DigestACL(zk.PermAll, "u", "p")
	hidden := make(map[string]bool) // nodes whose children a sweep does not list
	placed := 0
	for i, name := range strings.Split(names, "\n") {
		first, _, nested := strings.Cut(name, "/")
		if strings.HasPrefix(first, "fuzz-") || first == "holdfast-reaper" || placed == 20 {
			continue // the name is one of the test's, or there are enough nodes
		}
		var kind byte
		if len(kinds) > 0 {
			kind = kinds[i%len(kinds)]
		}
		content := [][]byte{
			data,
			(&znode.Record{Owner: "o", TTL: 1, ExpiresAt: 1}).Encode(),
			znode.Parent{Kind: znode.Mutex}.Encode(),
			znode.Parent{Kind: znode.Dir}.Encode(),
		}[kind&3]
		unreadable := kind&8 != 0
		acl := all
		switch {
		case unreadable:
			acl = mine
		case kind&16 != 0:
			acl = append(zk.WorldACL(zk.PermRead), mine...)
		}
		var flags int32
		if kind&4 != 0 {
			flags = zk.FlagEphemeral
		}
		node := "/locks/" + name
		if _, err := z.Create(node, content, flags, acl); err != nil {
			continue // not a valid path, or the node exists
		}
		placed++
		_, entry := znode.Parse(path.Base(node))
		above := hidden[path.Dir(node)]
		hidden[node] = above || unreadable || entry
		switch {
		case above || !unreadable:
		case !entry:
			denials = append(denials, "list "+node)
		case nested:
			denials = append(denials, "read "+node)
		}
	}
	return denials
}
