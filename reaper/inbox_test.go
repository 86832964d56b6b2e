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

// asked returns the ids of the requests to release locks.
func (w *world) asked() (ids []string) {
	for _, p := range w.paths() {
		if id, ok := strings.CutPrefix(p, "/"+znode.Inbox+"/"); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// revoke requests the release of a lock, and returns the id of the request: the name of the holder's
// entry.
func (w *world) revoke(c *lock.Client, name, entry string) (id string) {
	w.Helper()
	iferr.Fatal(w, c.Revoke(w.ctx, name, "why"))
	id = path.Base(entry)
	if !slices.Contains(w.asked(), id) {
		w.Fatalf("asked %q, not %q", w.asked(), id)
	}
	return id
}

// staleRequests creates requests to release locks that are then unlocked.
func (w *world) staleRequests(c *lock.Client, names ...string) {
	w.Helper()
	var holds []*lock.Hold
	for _, name := range names {
		h, err := c.Mutex(name).Lock(w.ctx)
		iferr.Fatal(w, err)
		w.revoke(c, name, h.EntryPath())
		holds = append(holds, h)
	}
	time.Sleep(time.Second) // c deletes stale requests, too: until it has read the inbox
	for _, h := range holds {
		iferr.Fatal(w, h.Unlock())
	}
}

// TestStaleRequestsAreSwept: a sweep deletes requests for entries that no longer exist, even if it has
// deleted the entry itself. It keeps requests for existing entries, and nodes that are no requests.
func TestStaleRequestsAreSwept(t *testing.T) {
	simulate(t, func(w *world) {
		z, r := w.raw("others"), w.reaper("reaper", reaper.Options{Batch: 2})
		c := w.dial("service", lock.WithPolicies(w.policies()))
		held, err := c.Mutex("held").Lock(w.ctx)
		iferr.Fatal(t, err)
		stands := w.revoke(c, "held", held.EntryPath())
		w.revoke(c, "dead", w.dead(z, "dead"))
		w.staleRequests(c, "kept/1", "a", "b/c", "d", "e")
		odd := []string{"0123456789abcdef", "odd", "odder"}
		w.create(z, "/locks/"+znode.Inbox+"/"+odd[0], `{"holdfast":3}`, 0)
		w.create(z, "/locks/"+znode.Inbox+"/"+odd[1], "", 0)
		w.create(z, "/locks/"+znode.Inbox+"/"+odd[2], "{", zk.FlagEphemeral)
		all := w.asked()

		dry := w.mustSweep(w.reaper("dry", reaper.Options{DryRun: true}))
		planned := 0
		for _, p := range dry.Planned {
			if p.Verdict == "stale" && strings.HasPrefix(p.Path, "/locks/"+znode.Inbox+"/") {
				planned++
			}
		}
		if dry.Total.Stale != 5 || planned != 5 || len(w.asked()) != len(all) {
			t.Errorf("dry: %+v; left %q", dry, w.asked())
		}
		got := w.mustSweep(r)
		if got.Total.Stale != 5 || got.Total.Deleted != 5 || got.Total.Foreign != 3 || got.Policies["kept"].Stale != 1 || got.Policies["all"].Stale != 4 {
			t.Errorf("counted %+v", got.Total)
		}
		if left := w.asked(); len(left) != len(all)-5 || len(w.Dump("/locks/dead")) != 3 {
			t.Errorf("left %q", left)
		}
		time.Sleep(ttl + 2*grace)
		if got := w.mustSweep(r); got.Total.Stale != 1 || got.Total.Expired != 1 { // in the same sweep
			t.Errorf("counted %+v", got.Total)
		}
		left, want := w.asked(), append(odd, stands)
		slices.Sort(want)
		slices.Sort(left)
		if !slices.Equal(left, want) {
			t.Errorf("left %q, want %q", left, want)
		}
		select {
		case <-held.Revoked():
		case <-w.ctx.Done():
			t.Error("the one that stands was not told")
		}
	})
}

// TestDeniedRequestsAreCounted: if an ACL forbids the reaper to list the requests, the sweep is
// complete, and reports one denied node.
func TestDeniedRequestsAreCounted(t *testing.T) {
	simulate(t, func(w *world) {
		z, inbox := w.raw("others"), "/locks/"+znode.Inbox
		w.create(z, inbox, string(znode.Parent{Kind: znode.Asked}.Encode()), 0, zk.DigestACL(zk.PermAll, "services", "x")...)
		got := w.mustSweep(w.reaper("reaper", reaper.Options{}))
		if len(got.Denied) != 1 || got.Denied[0].Path != inbox || got.Total.Denied != 1 || got.Policies["all"].Denied != 1 {
			t.Errorf("denied %v, counted %d and %d", got.Denied, got.Total.Denied, got.Policies["all"].Denied)
		}
	})
}

// TestRefusedProofSkipsOneRequest: after an outage in a sweep, an ACL refuses the proof for one
// release request. The sweep keeps this request and reports it as denied, and deletes the other stale
// requests. If the server fails to do the proof, the sweep fails.
func TestRefusedProofSkipsOneRequest(t *testing.T) {
	const denied, failed = -102, -1 // no permission, system error
	for _, code := range []int32{denied, failed} {
		simulate(t, func(w *world) {
			w.raw("others") // creates the root
			r := w.reaper("reaper", reaper.Options{})
			w.staleRequests(w.dial("service"), "a", "b", "c")
			listed, refused := false, false
			w.Intercept(func(q locktest.Request) (f locktest.Fault) {
				switch {
				case q.Label != "reaper" || refused:
				case !listed && slices.Contains(q.Paths, "/locks/"+znode.Inbox):
					listed, f.Delay, f.Drop = true, time.Millisecond, locktest.BeforeApply
				case listed && q.Op == "setData": // the reaper's renewal of its own lock would be the proof
					f.Code = -127 // throttled
				case listed && strings.HasPrefix(q.Paths[0], "/locks/clock-"):
					refused, f.Code = true, code
				}
				return f
			})
			got, err := r.Sweep(w.ctx)
			if code == failed {
				if err == nil || got.Complete || got.Total.Denied != 0 {
					t.Errorf("%+v, %v", got, err)
				}
				return
			}
			left := w.asked()
			if err != nil || len(left) != 1 || got.Total.Stale != 2 || got.Total.Deleted != 2 || got.Total.Denied != 1 {
				w.Fatalf("left %q; counted %+v", left, got.Total)
			}
			if d := got.Denied; len(d) != 1 || d[0].Path != "/locks/"+znode.Inbox+"/"+left[0] || d[0].What != "prove" {
				t.Errorf("denied %v", d)
			}
			if got := w.mustSweep(r); got.Total.Stale != 1 || len(w.asked()) != 0 {
				t.Errorf("the next sweep left %q; counted %+v", w.asked(), got.Total)
			}
		})
	}
}
