package reaper_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// TestDeletesPerSecond: with 10 deletes a second, a sweep takes at least 9 s for 100 nodes, and no
// second has more than 20 deletes, anchors included.
func TestDeletesPerSecond(t *testing.T) {
	simulate(t, func(w *world) {
		z, r := w.swept(reaper.Options{MaxDeletesPerSecond: 10})
		for i := range 50 {
			w.dead(z, fmt.Sprint(i))
		}
		time.Sleep(ttl + grace + orphan)
		var mu sync.Mutex
		deletes := map[int]int{} // by second
		begun := time.Now()
		w.Intercept(func(q locktest.Request) locktest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if q.Label == "reaper" && q.Op == "multi" && strings.Count(fmt.Sprint(q.Paths), "/locks/") > 0 && !strings.Contains(q.Paths[0], "clock-") && !strings.Contains(q.Paths[0], "holdfast-reaper") {
				deletes[int(time.Since(begun)/time.Second)] += len(q.Paths)
			}
			return locktest.Fault{}
		})
		report := w.mustSweep(r)
		if report.Total.Deleted != 100 || report.Duration < 9*time.Second || report.Duration > 12*time.Second {
			t.Errorf("deleted %d in %v, want 100 in 9 s or a little more", report.Total.Deleted, report.Duration)
		}
		for second, n := range deletes {
			if n > 20 {
				t.Errorf("%d deletes in second %d", n, second)
			}
		}
	})
}

// TestReadsInFlight: the largest number of a sweep's reads in flight is Concurrency.
func TestReadsInFlight(t *testing.T) {
	simulate(t, func(w *world) {
		z, r := w.swept(reaper.Options{Concurrency: 4, DryRun: true})
		for i := range 100 {
			w.dead(z, fmt.Sprint(i))
		}
		time.Sleep(ttl + grace + orphan)
		const latency = time.Millisecond
		w.SetLatency(func(string, string) time.Duration { return latency })
		var mu sync.Mutex
		at := map[time.Duration]int{} // reads by their arrival; all are answered before the next ones arrive
		begun := time.Now()
		w.Intercept(func(q locktest.Request) locktest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if q.Label == "reaper" && (q.Op == "getData" || q.Op == "getChildren2") {
				at[time.Since(begun)]++
			}
			return locktest.Fault{}
		})
		w.mustSweep(r)
		most := 0
		for _, n := range at {
			most = max(most, n)
		}
		if most != 4 {
			t.Errorf("%d reads at once, want 4", most)
		}
	})
}

// TestDenialIsLoggedOnce: a denial is logged once when it appears, and once when it ends. A denied
// delete, and a parent that stays because of the denied delete, do not count as missed. What is not
// denied is deleted.
func TestDenialIsLoggedOnce(t *testing.T) {
	const appears, goes = "denied by an ACL: the node is left alone, and logged once", "denied no more: the ACL lets us now, or the node has gone"
	simulate(t, func(w *world) {
		z := w.raw("others")
		if err := z.AddAuth("digest", []byte("u:p")); err != nil {
			t.Fatal(err)
		}
		r := w.reaper("reaper", reaper.Options{Schedule: "@every 1m"})
		w.mustSweep(r)
		mine, read := zk.DigestACL(zk.PermAll, "u", "p")[0], zk.WorldACL(zk.PermRead)[0]
		for _, name := range []string{"y", "x", "w"} {
			w.create(z, "/locks/unlisted-"+name, "", 0, mine)
		}
		w.create(z, "/locks/undeletable", string(znode.Parent{Kind: znode.Mutex}.Encode()), 0, mine, read)
		record := znode.Record{Owner: "dead", TTL: 1}
		stuck := w.create(z, "/locks/undeletable/"+znode.Prefix(znode.NewID(), znode.Exclusive), string(record.Encode()), zk.FlagSequence)
		w.create(z, "/locks/unread", string(znode.Parent{Kind: znode.Mutex}.Encode()), 0)
		unread := w.create(z, "/locks/unread/"+znode.Prefix(znode.NewID(), znode.Exclusive), string(record.Encode()), zk.FlagSequence, mine)
		w.dead(z, "a")
		w.dead(z, "z")
		time.Sleep(ttl + grace + orphan)
		stop := w.run(r)
		defer stop()
		time.Sleep(10 * time.Minute)
		paths := func(msg string) (paths []any) {
			for _, line := range w.lines(msg) {
				paths = append(paths, fmt.Sprint(line["what"], " ", line["path"]))
			}
			return paths
		}
		want := []any{"delete " + stuck, "list /locks/unlisted-w", "list /locks/unlisted-x", "list /locks/unlisted-y", "read " + unread}
		if got := paths(appears); !slices.Equal(got, want) {
			t.Errorf("told of %v, want %v", got, want)
		}
		reports := r.Monitor().Status().Reports
		if c := reports[1].Total; c.Denied != 5 || c.Deleted != 4 {
			t.Errorf("the first of these sweeps counted %+v, and left %q", c, w.paths())
		}
		if c := reports[len(reports)-1].Total; c.Denied != 5 || c.Missed != 0 || c.Expired != 1 || c.Deleted != 0 {
			t.Errorf("counted %+v", c)
		}
		if got := paths(goes); len(got) != 0 {
			t.Errorf("told that it is over: %v", got)
		}
		time.Sleep(30 * time.Second) // between two sweeps, so that the next one sees both changes
		for _, p := range []string{"/locks/unlisted-x", "/locks/undeletable"} {
			if _, err := z.SetACL(p, zk.WorldACL(zk.PermAll), -1); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		if got, want := paths(goes), []any{"delete " + stuck, "list /locks/unlisted-x"}; !slices.Equal(got, want) {
			t.Errorf("told that it is over: %v, want %v", got, want)
		}
		if n := len(paths(appears)); n != 5 {
			t.Errorf("told of %d denied nodes, want 5", n)
		}
	})
}

// TestReportCountsEachPolicy: a report has the counts and the longest delay of each policy.
func TestReportCountsEachPolicy(t *testing.T) {
	simulate(t, func(w *world) {
		z, r := w.swept(reaper.Options{})
		w.dead(z, "kept/1")
		w.dead(z, "a")
		w.dead(z, "a")
		time.Sleep(ttl + grace + time.Minute)
		w.SetLatency(func(string, string) time.Duration { return time.Millisecond })
		report := w.mustSweep(r)
		for name, want := range map[string]reaper.Counts{
			"kept": {Locks: 1, Expired: 1, Kept: 1, Deleted: 1, Purged: 1, Scanned: 2},
			"all":  {Locks: 1, Expired: 2, Orphans: 1, Deleted: 3, Purged: 2, Pruned: 1, Scanned: 3},
		} {
			got := *report.Policies[name]
			if got.Bytes == 0 || got.Seconds <= 0 || got.OldestOverdue < 59 || got.OldestOverdue > 62 {
				t.Errorf("%s: %d bytes, %v s, overdue for %v s", name, got.Bytes, got.Seconds, got.OldestOverdue)
			}
			got.Bytes, got.Seconds, got.OldestOverdue = 0, 0, 0
			if name == "all" { // this policy also counts the directory above kept/1
				got.Scanned--
			}
			if got != want {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
		if report.Total.Seconds != report.Seconds || report.Seconds <= 0 {
			t.Errorf("%v s in total, %v s", report.Total.Seconds, report.Seconds)
		}
	})
}
