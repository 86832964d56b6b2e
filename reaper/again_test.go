package reaper_test

import (
	"fmt"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// remake deletes a node with its children, and creates it again with foreign data. writes is the number
// of further writes of the node.
func (w *world) remake(z *zk.Conn, node string, writes int32) {
	for _, n := range slices.Backward(w.Dump(node)) {
		iferr.Error(w, z.Delete(n.Path, -1))
	}
	w.create(z, node, "foreign", 0)
	for range writes {
		iferr.Error(w, iferr.Of(z.Set(node, []byte("foreign"), -1)))
	}
}

// TestNodeRecreatedBeforeItsDelete: if another client replaces the judged node by its own node of the
// same path and version, right before one of the reaper's transactions, the reaper does not delete the
// new node. No guard stays below the new node.
func TestNodeRecreatedBeforeItsDelete(t *testing.T) {
	dir, lock := znode.Parent{Kind: znode.Dir}, znode.Parent{Kind: znode.Mutex}
	for name, test := range map[string]struct {
		parent   znode.Parent
		anchored bool
		writes   int32
	}{
		"ancestor": {dir, false, 0}, "lock": {lock, true, 0}, "written lock": {lock, true, 3},
		"lock without anchor": {lock, false, 0}, "written lock without anchor": {lock, false, 3},
	} {
		for _, moment := range []int64{1, 2} { // the number of the reaper's transaction that follows
			if test.anchored && moment == 2 {
				continue // the first transaction deletes the node
			}
			t.Run(fmt.Sprintf("%s before transaction %d", name, moment), func(t *testing.T) {
				simulate(t, func(w *world) {
					z, r := w.swept(reaper.Options{})
					if test.anchored {
						w.parent(z, "a", znode.Mutex)
					} else {
						w.create(z, "/locks/a", string(test.parent.Encode()), 0)
					}
					for range test.writes {
						data, _, err := z.Get("/locks/a")
						if err == nil {
							_, err = z.Set("/locks/a", data, -1)
						}
						iferr.Fatal(t, err)
					}
					w.dead(z, "b")
					time.Sleep(ttl + grace + orphan)
					w.meanwhile(moment, touches("/locks/a"), func() { w.remake(z, "/locks/a", test.writes) })
					report := w.mustSweep(r)
					w.Intercept(nil)
					left := w.Dump("/locks/a")
					if len(left) != 1 || string(left[0].Data) != "foreign" || left[0].Stat.Version != test.writes {
						t.Errorf("the foreign node is there, and nothing below it: %+v, %+v", left, report.Total)
					}
					if report.Total.Missed != 1 || len(w.Dump("/locks/b")) != 0 {
						t.Errorf("missed %d, want 1; left %q", report.Total.Missed, w.paths())
					}
				})
			})
		}
	}
}

// TestOrphanUsedDuringItsDelete: if a client locks an orphan while the reaper's delete is in flight,
// the reaper deletes nothing. The same holds if the orphan was replaced by a foreign node, which the
// client adopts.
func TestOrphanUsedDuringItsDelete(t *testing.T) {
	for name, remade := range map[string]bool{"used": false, "remade and adopted": true} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				z, user, r := w.raw("others"), w.dial("user"), w.reaper("reaper", reaper.Options{})
				w.mustSweep(r)
				w.parent(z, "a", znode.Mutex)
				time.Sleep(orphan + time.Second)
				held := make(chan struct{})
				w.meanwhile(1, touches("/locks/a"), func() {
					defer close(held)
					if remade {
						w.remake(z, "/locks/a", 0)
						iferr.Error(t, iferr.Of(z.Set("/locks/a", nil, -1)))
					}
					iferr.Error(t, iferr.Of(user.Mutex("a").Lock(w.ctx)))
				})
				report := w.mustSweep(r)
				<-held
				left := w.Dump("/locks/a")
				if len(left) != 3 || report.Total.Missed != 1 {
					t.Errorf("the lock's node, its anchor and the entry are there: %+v, %+v", left, report.Total)
				}
			})
		})
	}
}

// TestGuardsAreDeleted: a sweep deletes each guard that it created: together with the guarded node, or
// alone if the guarded node has changed. The next sweep deletes a guard that a crash left behind.
func TestGuardsAreDeleted(t *testing.T) {
	simulate(t, func(w *world) {
		z, r := w.swept(reaper.Options{})
		dir := string(znode.Parent{Kind: znode.Dir}.Encode())
		w.create(z, "/locks/a", dir, 0)
		w.create(z, "/locks/b", dir, 0)
		w.create(z, "/locks/b/"+znode.Anchor(znode.NewID()), "", 0)
		w.create(z, "/locks/c", dir, 0)
		w.create(z, "/locks/x", dir, 0, zk.WorldACL(zk.PermRead)...) // no guard can be created below this node
		w.create(z, "/locks/stranger", "foreign", 0)
		w.create(z, "/locks/stranger/"+znode.Anchor(znode.NewID()), "", 0)
		time.Sleep(orphan + time.Second)
		guarded := func(q locktest.Request) bool {
			return touches("/locks/a")(q) && slices.ContainsFunc(q.Paths, func(p string) bool { _, ok := znode.AnchorOf(path.Base(p)); return ok })
		}
		guards := w.meanwhile(1, guarded, func() {
			iferr.Error(t, iferr.Of(z.Set("/locks/a", []byte(dir), -1)))
		})
		report := w.mustSweep(r)
		w.Intercept(nil)
		if report.Total.Deleted != 3 || report.Total.Missed != 1 || report.Total.Foreign != 1 || guards.Load() == 0 {
			t.Errorf("%+v, in %d transactions with guards", report.Total, guards.Load())
		}
		if left := w.Dump("/locks/a"); len(left) != 1 {
			t.Errorf("a guard is left: %+v", left)
		}
		if left, want := w.paths(), []string{"", "/a", "/stranger"}; !slices.Equal(left, want) {
			t.Errorf("left %q, want %q", left, want)
		}
	})
}

// TestGuardsThatStayAreLoggedInOneLine: if the servers are away when a batch of guards is to be deleted,
// one line tells how many stay.
func TestGuardsThatStayAreLoggedInOneLine(t *testing.T) {
	simulate(t, func(w *world) {
		z, r := w.swept(reaper.Options{})
		for i := range 20 {
			w.create(z, fmt.Sprint("/locks/", i), string(znode.Parent{Kind: znode.Dir}.Encode()), 0)
		}
		time.Sleep(orphan + time.Second)
		var once sync.Once
		w.Intercept(func(q locktest.Request) locktest.Fault {
			if q.Label == "reaper" && touches("/locks/0")(q) && len(q.Paths) == 40 {
				once.Do(func() { // the guards are there, and are to be deleted with their nodes
					iferr.Error(t, w.Partition("reaper"))
				})
			}
			return locktest.Fault{}
		})
		if _, err := r.Sweep(w.ctx); err == nil {
			t.Fatal("the sweep succeeded without a server")
		}
		w.Intercept(nil)
		w.Heal("reaper")
		line := w.one("guards of the reaper could not be deleted; a later sweep deletes them with the nodes above them")
		if line["guards"] != 20.0 || line["error"] == nil {
			t.Errorf("%v", line)
		}
	})
}
