package list

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestSlowListing: a listing that takes longer than the locks' leases shows none as expired,
// because each is judged by the time of its read.
func TestSlowListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens := locktest.Start(t, locktest.Options{})
		dial := func(label string, opts ...lock.Option) *lock.Client {
			c, err := lock.Dial(t.Context(), ens.Servers(), append(opts, lock.WithDialer(ens.Dialer(label)))...)
			iferr.Fatal(t, err)
			return c
		}
		holder := dial("holder", lock.WithTTL(3*time.Second))
		defer holder.Close()
		names := []string{"a", "a/b", "a/b/c", "a/b/c/d"} // read one after the other
		for _, name := range names {
			hold, err := holder.Mutex(name).Lock(t.Context())
			iferr.Fatal(t, err)
			defer hold.Unlock()
		}
		reader := dial("reader")
		defer reader.Close()
		ens.SetLatency(func(label, _ string) time.Duration {
			return map[string]time.Duration{"reader": 500 * time.Millisecond}[label]
		})
		begun := time.Now()
		var progress Progress
		l, err := Read(t.Context(), admin.New(reader), "", &progress)
		if took := time.Since(begun); err != nil || took < 4*time.Second || len(l.Nodes) != len(names) {
			t.Fatalf("%d locks in %v, %v", len(l.Nodes), took, err)
		}
		for _, s := range l.Nodes {
			if d, known := left(s.Contenders[0]); !known || d <= 0 || d > 3*time.Second {
				t.Errorf("%s: left %v, %v", s.Name, d, known)
			}
		}
		if found, done := progress.Found.Load(), progress.Done.Load(); found != int64(len(names)+1) || done != found {
			t.Errorf("progress: %d of %d nodes", done, found)
		}
	})
}

// TestDamagedEntry: a damaged entry is shown as damaged, and not as another library's.
func TestDamagedEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens := locktest.Start(t, locktest.Options{})
		conn, events, err := zk.Connect(ens.Servers(), time.Minute, zk.WithDialer(ens.Dial), zk.WithLogInfo(false))
		iferr.Fatal(t, err)
		defer func() {
			conn.Close()
			for range events {
			}
		}()
		c, err := lock.New(conn)
		iferr.Fatal(t, err)
		defer c.Close()
		for _, n := range [][2]string{
			{"/locks", string(znode.Parent{Kind: znode.Dir}.Encode())}, {"/locks/x", string(znode.Parent{Kind: znode.Mutex}.Encode())},
			{"/locks/x/9f86d081884c7d65-lock-0000000000", "{to"}, {"/locks/x/_c_8fb1c83d8d1e4a02a1b1b1c1d1e1f1a1-lock-0000000001", "{to"},
		} {
			iferr.Fatal(t, iferr.Of(conn.Create(n[0], []byte(n[1]), 0, zk.WorldACL(zk.PermAll))))
		}
		l, err := Read(t.Context(), admin.New(c), "", new(Progress))
		if err != nil || len(l.Nodes) != 1 || len(l.Nodes[0].Contenders) != 2 {
			t.Fatalf("%+v, %v", l.Nodes, err)
		}
		damaged, other := l.Nodes[0].Contenders[0], l.Nodes[0].Contenders[1]
		if !errors.Is(damaged.Err, znode.ErrForeign) || !strings.HasPrefix(Who(damaged), "unreadable: ") {
			t.Errorf("%s: %+v", Who(damaged), damaged)
		}
		if other.Err != nil || !strings.HasPrefix(Who(other), "no session: ") {
			t.Errorf("%s: %+v", Who(other), other)
		}
	})
}
