// Fuzz test: arbitrary nodes of other programs below a lock.

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
			a, z := w.dial("a", riding()), w.raw("other")
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
			for _, take := range []func(context.Context) (*lock.Hold, error){a.Mutex("x").TryLock, a.Mutex("x").Lock} {
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
