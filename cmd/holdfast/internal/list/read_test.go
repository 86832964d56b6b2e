package list

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestSlowListing: a listing that takes longer than the leases of the locks shows none of
// them as expired, because each is judged by the time at which it was read.
func TestSlowListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens := locktest.Start(t, locktest.Options{})
		dial := func(label string, opts ...lock.Option) *lock.Client {
			c, err := lock.Dial(t.Context(), ens.Servers(), append(opts, lock.WithDialer(ens.Dialer(label)))...)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		holder := dial("holder", lock.WithTTL(3*time.Second))
		defer holder.Close()
		names := []string{"a", "a/b", "a/b/c", "a/b/c/d"} // read one after the other
		for _, name := range names {
			hold, err := holder.Mutex(name).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
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
