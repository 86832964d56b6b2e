package reaper_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// reads sweeps, and returns the number of reads, during the sweep, of the node at path and the nodes
// below it.
func (w *world) reads(r *reaper.Reaper, path string) int {
	w.Helper()
	var mu sync.Mutex
	n := 0
	w.Intercept(func(q locktest.Request) locktest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(q.Op, "get") && (q.Paths[0] == path || strings.HasPrefix(q.Paths[0], path+"/")) {
			n++
		}
		return locktest.Fault{}
	})
	w.mustSweep(r)
	w.Intercept(nil)
	return n
}

// TestReadsOfALock: a sweep that deletes a lock reads its list, each of its entries and its parent
// once. If only a guard proves the parent, the sweep reads the parent twice.
func TestReadsOfALock(t *testing.T) {
	simulate(t, func(w *world) {
		z, r := w.swept(reaper.Options{Batch: 1})
		mutex := string(znode.Parent{Kind: znode.Mutex}.Encode())
		record := &znode.Record{Owner: "dead", TTL: ttl.Milliseconds()}

		w.dead(z, "dead")
		w.parent(z, "empty", znode.Mutex)
		w.dead(z, "queue")
		w.dead(z, "queue")
		w.create(z, "/locks/plain", mutex, 0) // without an anchor
		w.create(z, "/locks/plain/"+znode.Prefix(znode.NewID(), znode.Exclusive), string(record.Encode()), zk.FlagSequence)
		w.create(z, "/locks/bare", mutex, 0)
		time.Sleep(ttl + grace + orphan)
		want := map[string]int{
			"dead": 3, "queue": 4, // list, entries, parent
			"empty": 2, // list, parent
			// With one node in a transaction, only a guard proves a parent without an anchor.
			"plain": 4, "bare": 3,
			znode.Inbox: 1,
		}
		before := w.paths()
		got := map[string]int{}
		var mu sync.Mutex
		w.Intercept(func(q locktest.Request) locktest.Fault {
			if name, ok := strings.CutPrefix(q.Paths[0], "/locks/"); ok && strings.HasPrefix(q.Op, "get") && q.Label == "reaper" {
				name, _, _ = strings.Cut(name, "/")
				mu.Lock()
				got[name]++
				mu.Unlock()
			}
			return locktest.Fault{}
		})
		w.mustSweep(r)
		w.Intercept(nil)
		delete(got, "holdfast-reaper")
		if !maps.Equal(got, want) {
			t.Errorf("read %v of %q, want %v", got, before, want)
		}
		if left := w.paths(); len(left) != 1 {
			t.Errorf("left %q", left)
		}
	})
}

func (w *world) delete(z *zk.Conn, path string) {
	w.Helper()
	if err := z.Delete(path, -1); err != nil {
		w.Fatalf("delete %s: %v", path, err)
	}
}

// TestLiveLockIsNotReadAgain: while no entry of a remembered lock can have expired, sweeps count the
// lock without a read. The first sweep after the entries have expired deletes them.
func TestLiveLockIsNotReadAgain(t *testing.T) {
	simulate(t, func(w *world) {
		z, r := w.swept(reaper.Options{})
		w.dead(z, "dir/a")
		w.dead(z, "dir/a")
		first := w.mustSweep(r)
		if n := w.reads(r, "/locks/dir/a"); n != 0 {
			t.Errorf("it is read %d times at once after", n)
		}
		again := w.mustSweep(r)
		if seen(again) != seen(first) {
			t.Errorf("without reading it counts %+v, and by reading %+v", again.Total, first.Total)
		}
		// A new reaper has no memory, like a reaper after a restart.
		if n := w.reads(w.reaper("restarted", reaper.Options{}), "/locks/dir/a"); n != 3 {
			t.Errorf("a new reaper reads it %d times, want 3", n)
		}
		time.Sleep(ttl + grace - 2*time.Second)
		if n := w.reads(r, "/locks/dir/a"); n != 0 {
			t.Errorf("it is read %d times before it can be expired", n)
		}
		time.Sleep(2*time.Second + 20*time.Millisecond) // 20 ms for the width of the estimate
		if report := w.mustSweep(r); report.Total.Expired != 2 || report.Total.Deleted != 2 {
			t.Errorf("as soon as it is expired: %+v", report.Total)
		}
	})
}

// TestRememberedLockThatChanges: if the entry of a remembered lock is deleted or replaced, or its lease
// is shortened, the reaper cleans up orphan_after later, although the remembered lease was longer.
func TestRememberedLockThatChanges(t *testing.T) {
	long := znode.Record{Owner: "o", TTL: (20 * time.Minute).Milliseconds()}
	short := znode.Record{Owner: "o", TTL: 1000}
	for name, change := range map[string]func(w *world, z *zk.Conn, entry string){
		"replaced": func(w *world, z *zk.Conn, entry string) {
			w.delete(z, entry)
			w.create(z, "/locks/a/"+znode.Prefix(znode.NewID(), znode.Exclusive), string(short.Encode()), zk.FlagSequence)
		},
		"replaced with its parent": func(w *world, z *zk.Conn, entry string) {
			w.delete(z, entry)
			w.delete(z, "/locks/a")
			w.dead(z, "a")
		},
		"shortened": func(w *world, z *zk.Conn, entry string) {
			if _, err := z.Set(entry, short.Encode(), -1); err != nil {
				w.Fatal(err)
			}
		},
		"left": func(w *world, z *zk.Conn, entry string) { w.delete(z, entry) },
	} {
		simulate(t, func(w *world) {
			z, r := w.swept(reaper.Options{})
			w.create(z, "/locks/a", string(znode.Parent{Kind: znode.Mutex}.Encode()), 0)
			entry := w.create(z, "/locks/a/"+znode.Prefix(znode.NewID(), znode.Exclusive), string(long.Encode()), zk.FlagSequence)
			if n := w.reads(r, "/locks/a"); n != 2 {
				t.Fatalf("%s: read %d times, want 2", name, n)
			}
			change(w, z, entry)
			time.Sleep(orphan + 20*time.Millisecond)
			if w.mustSweep(r); len(w.paths()) != 1 {
				t.Errorf("%s: orphan_after later there are %q", name, w.paths())
			}
		})
	}
}

// TestOnlyLocksAreRemembered: a lock with another lock or a foreign entry below it is read in each
// sweep.
func TestOnlyLocksAreRemembered(t *testing.T) {
	simulate(t, func(w *world) {
		z, r := w.swept(reaper.Options{})
		w.dead(z, "a/b")
		w.dead(z, "a") // a lock with another lock below it
		w.dead(z, "c")
		w.create(z, "/locks/c/_c_0123456789abcdef0123456789abcdef-lock-", "", zk.FlagSequence)
		first := w.mustSweep(r)
		if n := w.reads(r, "/locks/a"); n != 2 { // its list and its entry
			t.Errorf("a lock with another one below it is read %d times, want 2", n)
		}
		if n := w.reads(r, "/locks/c"); n != 3 {
			t.Errorf("a lock with a foreign entry is read %d times, want 3", n)
		}
		if again := w.mustSweep(r); seen(again) != seen(first) {
			t.Errorf("counted %+v, and then %+v", first.Total, again.Total)
		}
	})
}

// TestLeaderSteps: after a step of the leader's clock, a reaper that remembers a lock counts the same
// as a reaper that reads it.
func TestLeaderSteps(t *testing.T) {
	for _, step := range []time.Duration{-8 * time.Second, 8 * time.Second} {
		simulate(t, func(w *world) {
			z, c := w.raw("others"), w.dial("reapers", lock.WithPolicies(w.policies()))
			dry := func() *reaper.Reaper {
				r, err := reaper.New(c, reaper.Options{Policies: w.policies(), DryRun: true})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			remembers := dry()
			w.dead(z, "a")
			w.mustSweep(remembers)
			w.StepClock(step)
			time.Sleep(time.Second / 2) // so that no lease ends at the moment of a sweep
			expired := 0
			for range 25 {
				time.Sleep(time.Second)
				got, want := seen(w.mustSweep(remembers)), seen(w.mustSweep(dry()))
				if got != want {
					t.Errorf("set by %v: counted %+v, and by reading %+v", step, got, want)
				}
				expired += want.Expired
			}
			// The first sweep detects the step, and the lease counts from that sweep.
			if want := 25 - 1 - int((ttl + grace).Seconds()); expired != want {
				t.Errorf("set by %v: expired at %d sweeps, want the last %d", step, expired, want)
			}
		})
	}
}

// TestDeletesKeepTheirOrder: a directory is deleted after its locks, and a parent after its entries,
// even if transactions of deletes fail at first, so that later transactions overtake them.
func TestDeletesKeepTheirOrder(t *testing.T) {
	simulate(t, func(w *world) {
		z, r := w.swept(reaper.Options{Batch: 10})
		for i := range 10 {
			w.dead(z, fmt.Sprintf("dir/%d", i))
		}
		for range 25 {
			w.dead(z, "queue")
		}
		time.Sleep(ttl + grace + orphan)
		nodes := len(w.paths()) - 1
		const throttled = -127
		var mu sync.Mutex
		tries := map[string]int{}
		w.Intercept(func(q locktest.Request) locktest.Fault {
			last := len(q.Paths) == 0 || slices.Contains(q.Paths, "/locks/dir") || slices.Contains(q.Paths, "/locks/queue")
			if q.Label != "reaper" || q.Op != "multi" || len(q.Paths) < 5 || last {
				return locktest.Fault{}
			}
			mu.Lock()
			defer mu.Unlock()
			if tries[q.Paths[0]]++; tries[q.Paths[0]] > 3 {
				return locktest.Fault{}
			}
			return locktest.Fault{Code: throttled}
		})
		report := w.mustSweep(r)
		if report.Total.Deleted != nodes || report.Total.Missed != 0 {
			t.Errorf("deleted %d of %d nodes, missed %d; left %q", report.Total.Deleted, nodes, report.Total.Missed, w.paths())
		}
		if len(tries) == 0 {
			t.Error("no transaction was held up")
		}
	})
}

// TestRememberedByItsPolicy: a lock is remembered for at most the orphan_after of its own policy.
func TestRememberedByItsPolicy(t *testing.T) {
	simulate(t, func(w *world) {
		z := w.raw("others")
		quick := policy.Rule{Match: w.pattern("quick/*"), Policy: lock.Policy{Name: "quick", TTL: ttl, Grace: grace}, OrphanAfter: 2 * time.Second}
		r := w.reaper("reaper", reaper.Options{Policies: w.policies(quick)})
		w.mustSweep(r)
		w.dead(z, "quick/a")
		w.dead(z, "slow/a")
		w.mustSweep(r)
		time.Sleep(3 * time.Second)
		if n := w.reads(r, "/locks/quick/a"); n != 2 {
			t.Errorf("read %d times after orphan_after, want 2", n)
		}
		if n := w.reads(r, "/locks/slow/a"); n != 0 {
			t.Errorf("read %d times before orphan_after, want 0", n)
		}
	})
}

// seen returns a report's total counts without costs and times.
func seen(r reaper.Report) reaper.Counts {
	c := r.Total
	c.Scanned, c.Bytes, c.Seconds, c.OldestOverdue, c.LongestWait, c.OldestHold = 0, 0, 0, 0, 0, 0
	return c
}
