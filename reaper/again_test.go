package reaper_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// meanwhile has something happen while a sweep reads what a dead holder has left, which
// takes it 3.5 s.
func (w *world) meanwhile(z *zk.Conn, happens func()) {
	w.Helper()
	slow := w.dead(z, "slow")
	time.Sleep(ttl + grace + orphan)
	var once sync.Once
	w.Intercept(func(q locktest.Request) locktest.Fault {
		if q.Label != "reaper" || q.Op != "getData" || !slices.Contains(q.Paths, slow) {
			return locktest.Fault{}
		}
		once.Do(func() { time.AfterFunc(time.Second, happens) })
		return locktest.Fault{DelayReply: 3500 * time.Millisecond}
	})
}

// orphaned makes a node of ours that nobody needs, which was written so often.
func (w *world) orphaned(z *zk.Conn, kind znode.Kind, writes int) {
	w.Helper()
	data := znode.Parent{Kind: kind}.Encode()
	w.create(z, "/locks/a", string(data), 0)
	for range writes {
		if _, err := z.Set("/locks/a", data, -1); err != nil {
			w.Fatal(err)
		}
	}
}

// TestMadeAgainMeanwhile: what a sweep has read and judged somebody else deletes, and makes
// again for something else, while the delete waits for the rest of its transaction.
func TestMadeAgainMeanwhile(t *testing.T) {
	for name, test := range map[string]struct {
		kind   znode.Kind
		writes int
	}{"ancestor": {znode.Dir, 0}, "lock": {znode.Mutex, 1}} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				z, r := w.raw("others"), w.reaper("reaper", reaper.Options{})
				w.mustSweep(r)
				w.orphaned(z, test.kind, test.writes)
				w.meanwhile(z, func() {
					w.delete(z, "/locks/a")
					w.create(z, "/locks/a", "somebody else's", 0)
					for range test.writes {
						if _, err := z.Set("/locks/a", []byte("somebody else's, changed"), -1); err != nil {
							t.Error(err)
						}
					}
				})
				report := w.mustSweep(r)
				if exists, _, err := z.Exists("/locks/a"); err != nil || !exists {
					t.Errorf("somebody else's node is there: %v, %v, %+v", exists, err, report.Total)
				}
				if report.Total.Missed != 1 {
					t.Errorf("missed %d, want 1", report.Total.Missed)
				}
			})
		})
	}
}

// TestAdoptedMeanwhile: an orphan is used again, made by a stranger then, and adopted: at the
// version that was judged, and never to be deleted.
func TestAdoptedMeanwhile(t *testing.T) {
	simulate(t, func(w *world) {
		z, user, r := w.raw("others"), w.dial("user"), w.reaper("reaper", reaper.Options{})
		w.mustSweep(r)
		w.orphaned(z, znode.Mutex, 1)
		w.meanwhile(z, func() {
			use := func() {
				var h *lock.Hold
				h, err := user.Mutex("a").Lock(w.ctx)
				if err == nil {
					err = h.Unlock()
				}
				if err != nil {
					t.Error(err)
				}
				time.Sleep(200 * time.Millisecond)
			}
			use() // deletes it
			w.create(z, "/locks/a", "", 0)
			use()
		})
		w.mustSweep(r)
		data, stat, err := z.Get("/locks/a")
		if err != nil || stat.Version != 1 {
			t.Errorf("the node that was adopted is there: %q, %+v, %v", data, stat, err)
		}
	})
}

// TestAdoptedAtOnce is TestAdoptedMeanwhile within the second for which a sweep trusts what it has read.
func TestAdoptedAtOnce(t *testing.T) {
	simulate(t, func(w *world) {
		z, user, r := w.raw("others"), w.dial("user"), w.reaper("reaper", reaper.Options{})
		w.mustSweep(r)
		w.orphaned(z, znode.Mutex, 1)
		slow := w.dead(z, "slow")
		time.Sleep(ttl + grace + orphan)
		var once sync.Once
		done := make(chan struct{})
		happens := func() {
			defer close(done)
			use := func() {
				h, err := user.Mutex("a").Lock(w.ctx)
				if err == nil {
					err = h.Unlock()
				}
				if err != nil {
					t.Error(err)
				}
				time.Sleep(100 * time.Millisecond)
			}
			use()
			w.create(z, "/locks/a", "", 0)
			use()
		}
		w.Intercept(func(q locktest.Request) locktest.Fault {
			if q.Label != "reaper" || q.Op != "getData" || !slices.Contains(q.Paths, slow) {
				return locktest.Fault{}
			}
			once.Do(func() { time.AfterFunc(100*time.Millisecond, happens) })
			return locktest.Fault{DelayReply: 800 * time.Millisecond}
		})
		report := w.mustSweep(r)
		<-done
		data, stat, err := z.Get("/locks/a")
		if err != nil || stat.Version != 1 {
			t.Errorf("the node that was adopted is there: %q, %+v, %v; %+v", data, stat, err, report.Total)
		}
	})
}
