package reaper_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/reaper"
)

// named returns a set of one policy for all locks.
func (w *world) named(name string) *policy.Set { return w.namedFor(name, "**") }

func (w *world) namedFor(name, match string) *policy.Set {
	w.Helper()
	set, err := policy.NewSet(policy.Rule{Match: w.pattern(match), Policy: lock.Policy{Name: name, TTL: ttl, Grace: grace}, OrphanAfter: orphan})
	iferr.Fatal(w, err)
	return set
}

// TestReloadDuringASweep: while a sweep runs, no other sweep begins by the new schedule of policies that
// have the name or the match of one of its own. What the running sweep finds and deletes counts to the
// policy that it judges by.
func TestReloadDuringASweep(t *testing.T) {
	for name, match := range map[string]string{"first": "**/*", "second": "**"} {
		simulate(t, func(w *world) {
			z, r := w.swept(reaper.Options{Policies: w.named("first"), Schedule: "@every 10s"})
			w.dead(z, "slow")
			w.fails("reaper", locktest.Fault{Delay: 5500 * time.Millisecond}, func(q locktest.Request) bool { return lists(q, "/locks/slow") })
			defer w.run(r)()
			time.Sleep(11 * time.Second)
			counted := make(chan []string, 100)
			r.Monitor().Observe(func(report reaper.Report) { counted <- slices.Collect(maps.Keys(report.Policies)) })
			iferr.Fatal(t, r.Reload(reaper.Options{Policies: w.namedFor(name, match), Schedule: "@every 1s"}))
			for range 4 {
				time.Sleep(time.Second)
				if under := r.Monitor().Progress(); len(under) != 1 {
					t.Fatalf("%s: %d sweeps at once", name, len(under))
				}
			}
			if s := r.Monitor().Status().Schedules[0]; s.Running == nil || s.Skipped == 0 {
				t.Errorf("%s: %+v", name, s)
			}
			if got := <-counted; !slices.Equal(got, []string{"first"}) {
				t.Errorf("%s: the sweep that began before the reload counts to %q", name, got)
			}
		})
	}
}

// TestReloadsMoreOftenThanSweeps: reloads do not postpone the sweeps of an unchanged schedule. A changed
// schedule counts from the reload.
func TestReloadsMoreOftenThanSweeps(t *testing.T) {
	simulate(t, func(w *world) {
		r := w.reaper("reaper", reaper.Options{Schedule: "@every 1m"})
		defer w.run(r)()
		for i := range 10 {
			time.Sleep(45 * time.Second)
			schedule := "@every 1m"
			if i == 9 {
				schedule = "@every 2m"
			}
			iferr.Fatal(t, r.Reload(reaper.Options{Policies: w.policies(), Schedule: schedule}))
		}
		if s := r.Monitor().Status(); s.Sweeps != 7 {
			t.Errorf("%d sweeps in 7 minutes and a half, want 7", s.Sweeps)
		}
		time.Sleep(115 * time.Second)
		if s := r.Monitor().Status(); s.Sweeps != 7 {
			t.Errorf("%d sweeps, want the next one two minutes after the schedule has changed", s.Sweeps)
		}
	})
}

// TestDeletesPerSecondOverAReload: while a sweep of the old and a sweep of the new configuration run,
// both together keep MaxDeletesPerSecond. No sweep fails, even if a reload lifts the limit.
func TestDeletesPerSecondOverAReload(t *testing.T) {
	simulate(t, func(w *world) {
		z := w.raw("others")
		o := reaper.Options{Policies: w.named("first"), Schedule: "@every 1s", MaxDeletesPerSecond: 10}
		r := w.reaper("reaper", o)
		w.mustSweep(r)
		for i := range 100 {
			w.dead(z, fmt.Sprint(i))
		}
		time.Sleep(ttl + grace + orphan)
		defer w.run(r)()
		time.Sleep(2 * time.Second)
		o.Policies = w.namedFor("second", "**/*") // with the same match, no second sweep would begin
		iferr.Fatal(t, r.Reload(o))
		time.Sleep(3 * time.Second)
		if n := len(r.Monitor().Progress()); n != 2 {
			t.Fatalf("%d sweeps at once, want one by each configuration", n)
		}
		before := len(w.paths())
		time.Sleep(5 * time.Second)
		if n := before - len(w.paths()); n < 20 || n > 60 {
			t.Errorf("%d deletes in 5 s, want 50", n)
		}
		o.MaxDeletesPerSecond = 0
		iferr.Fatal(t, r.Reload(o))
		time.Sleep(3 * time.Second)
		for _, line := range w.lines("sweep failed") {
			t.Errorf("%v", line)
		}
	})
}

// TestSweepOfTheActiveReaper: Sweep works while Run holds the lock of the active reaper, and leaves the
// reaper active.
func TestSweepOfTheActiveReaper(t *testing.T) {
	simulate(t, func(w *world) {
		r := w.reaper("reaper", reaper.Options{Schedule: "@every 1h"})
		stop := w.run(r)
		time.Sleep(time.Second)
		w.dead(w.raw("others"), "a")
		time.Sleep(ttl + grace + orphan)
		if report := w.mustSweep(r); report.Total.Deleted != 2 {
			t.Errorf("%+v", report.Total)
		}
		if s := r.Monitor().Status(); s.State != reaper.Active {
			t.Errorf("after it: %s", s.State)
		}
		ended, end := context.WithCancel(w.ctx)
		end()
		if _, err := r.Sweep(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
		stop()
		w.mustSweep(r)
	})
}

// TestLostReplyOfABatch: if the reply to a transaction of deletes is lost, all of its nodes count as
// deleted after one more transaction, whether the first was applied or not.
func TestLostReplyOfABatch(t *testing.T) {
	for name, drop := range map[string]locktest.Drop{"applied": locktest.AfterApply, "not applied": locktest.BeforeApply} {
		for _, locks := range []int{1, 100} {
			t.Run(fmt.Sprintf("%s, %d locks", name, locks), func(t *testing.T) {
				simulate(t, func(w *world) {
					z, r := w.swept(reaper.Options{Batch: 2 * locks})
					for i := range locks {
						w.dead(z, fmt.Sprintf("dead-%d", i))
					}
					time.Sleep(ttl + grace + orphan)
					var transactions atomic.Int64
					w.fails("reaper", locktest.Fault{Drop: drop}, func(q locktest.Request) bool { return deletesDead(q) && transactions.Add(1) == 1 })
					report := w.mustSweep(r)
					w.Intercept(nil)
					if c := report.Total; c.Deleted != 2*locks || c.Missed != 0 || c.Purged != locks || transactions.Load() != 2 {
						t.Errorf("%d deleted, %d purged, %d missed in %d transactions", c.Deleted, c.Purged, c.Missed, transactions.Load())
					}
				})
			})
		}
	}
}

// deletesDead reports whether a request deletes locks whose names begin with "dead-".
func deletesDead(q locktest.Request) bool {
	return q.Op == "multi" && strings.HasPrefix(q.Paths[0], "/locks/dead-")
}

// TestBatchPartlyPurgedByAnotherClient: if another client deletes some nodes of a batch, these nodes
// count as missed, and one more transaction deletes the rest.
func TestBatchPartlyPurgedByAnotherClient(t *testing.T) {
	simulate(t, func(w *world) {
		z, r := w.swept(reaper.Options{})
		for i := range 40 {
			w.dead(z, fmt.Sprintf("dead-%d", i))
		}
		time.Sleep(ttl + grace + orphan)
		transactions := w.meanwhile(1, deletesDead, func() {
			for i := range 20 {
				for _, n := range slices.Backward(w.Dump(fmt.Sprintf("/locks/dead-%d", i))) {
					iferr.Error(t, z.Delete(n.Path, -1))
				}
			}
		})
		report := w.mustSweep(r)
		w.Intercept(nil)
		if c := report.Total; c.Deleted != 40 || c.Missed != 40 || transactions.Load() != 2 {
			t.Errorf("%d deleted, %d missed in %d transactions", c.Deleted, c.Missed, transactions.Load())
		}
	})
}

// TestEntryRecreatedWhileItsDeleteWaits: if another program replaces an entry by its own node of the
// same path and version while the delete waits, the reaper does not delete the node.
func TestEntryRecreatedWhileItsDeleteWaits(t *testing.T) {
	simulate(t, func(w *world) {
		z, r := w.swept(reaper.Options{MaxDeletesPerSecond: 1})
		var entries []string
		for i := range 5 {
			entries = append(entries, w.dead(z, fmt.Sprint(i)))
		}
		time.Sleep(ttl + grace + orphan)
		var again []string
		time.AfterFunc(2500*time.Millisecond, func() {
			for _, entry := range entries {
				if err := z.Delete(entry, -1); errors.Is(err, zk.ErrNoNode) {
					continue
				} else if err != nil {
					t.Error(err)
				}
				again = append(again, entry)
				w.create(z, entry, "foreign", 0)
			}
		})
		report := w.mustSweep(r)
		if len(again) < 3 {
			t.Fatalf("%d entries were made again", len(again))
		}
		for _, entry := range again {
			if data, _, err := z.Get(entry); err != nil || string(data) != "foreign" {
				t.Errorf("%s: %q, %v", entry, data, err)
			}
		}
		if report.Total.Missed == 0 {
			t.Errorf("%+v", report.Total)
		}
	})
}
