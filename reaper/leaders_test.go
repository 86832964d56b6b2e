package reaper_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// offs are the steps of a leader's clock, and the differences between leaders' clocks.
var offs = []time.Duration{-time.Hour, -90 * time.Second, 90 * time.Second, time.Hour}

// sweepOver holds 60 locks, creates the entry of a crashed client, and calls displace, which changes
// the leader's clock. Then it sweeps every half second; with once, each sweep has a new client. No
// holder may lose its lock. The crashed client's entry must be deleted at least TTL after displace,
// and at most TTL + grace + TTL/3 + 2 s after it.
func (w *world) sweepOver(displace func(), once bool) {
	w.Helper()
	policies := lock.WithPolicies(w.policies())
	service, z := w.dial("service", policies), w.raw("others")
	standing := w.reaper("standing", reaper.Options{})
	var holds []*lock.Hold
	for i := range 60 {
		h, err := service.Mutex(fmt.Sprint("live/", i)).Lock(w.ctx)
		iferr.Fatal(w, err)
		holds = append(holds, h)
		time.Sleep(ttl / 180)
	}
	dead := w.dead(z, "dead")
	if !once {
		w.mustSweep(standing) // samples the clock before its displacement
	}
	displace()
	displaced := time.Now()
	gone := time.Duration(0)
	for i := 0; time.Since(displaced) < 3*ttl; i++ {
		if once {
			c, err := lock.Dial(w.ctx, w.Servers(), policies, lock.WithDialer(w.Dialer("once")))
			iferr.Fatal(w, err)
			r, err := reaper.New(c, reaper.Options{Policies: w.policies()})
			iferr.Fatal(w, err)
			w.mustSweep(r)
			iferr.Fatal(w, c.Close())
		} else {
			w.mustSweep(standing)
		}
		if gone == 0 && len(w.Dump(dead)) == 0 {
			gone = time.Since(displaced)
		}
		time.Sleep(500 * time.Millisecond)
	}
	synctest.Wait()
	lost := 0
	for _, h := range holds {
		if h.Remaining() == 0 || h.Err() != nil {
			lost++
			continue
		}
		iferr.Error(w, h.Unlock())
	}
	if lost > 0 {
		w.Errorf("%d of %d holders have lost their locks", lost, len(holds))
	}
	if gone < ttl || gone > ttl+grace+ttl/3+2*time.Second {
		w.Errorf("the dead one's entry went after %v", gone)
	}
}

// TestSweepsAfterAnElection: if the new leader's clock is ahead or behind, no holder loses its lock,
// and an expired entry is deleted in time.
func TestSweepsAfterAnElection(t *testing.T) {
	for _, off := range offs {
		for _, once := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v once %v", off, once), func(t *testing.T) {
				simulateOf(t, locktest.Options{Members: 3}, func(w *world) {
					w.sweepOver(func() {
						for _, s := range w.Servers() {
							if s != w.Leader() {
								iferr.Fatal(w, w.SetClock(s, off))
							}
						}
						w.StopLeader()
					}, once)
				})
			})
		}
	}
}

// TestSweepsAfterAStep: if the leader's clock steps, and the reaper has sampled it before, no holder
// loses its lock, and an expired entry is deleted in time.
func TestSweepsAfterAStep(t *testing.T) {
	for _, off := range offs {
		t.Run(fmt.Sprint(off), func(t *testing.T) {
			simulate(t, func(w *world) { w.sweepOver(func() { w.StepClock(off) }, false) })
		})
	}
}

// depose makes another member the leader, by a stop and a start of the present leader.
func (w *world) depose() {
	w.Helper()
	iferr.Fatal(w, w.Start(w.StopLeader()))
}

// TestSweepsWhileLeadersFollowEachOther: if leaders change faster than a lease or orphan_after ends, a
// reaper that keeps running deletes expired entries and orphans in time, by its own clock. The holder
// keeps its lock.
func TestSweepsWhileLeadersFollowEachOther(t *testing.T) {
	simulateOf(t, locktest.Options{Members: 3}, func(w *world) {
		for i, s := range w.Servers() {
			iferr.Fatal(t, w.SetClock(s, offs[i]))
		}
		z, r := w.raw("others"), w.reaper("reaper", reaper.Options{})
		held := w.lock("service", "live")
		dead := strings.TrimPrefix(w.dead(z, "dead"), "/locks")
		w.create(z, "/locks/orphan", string(znode.Parent{Kind: znode.Mutex}.Encode()), 0)
		w.mustSweep(r)
		went := map[string]time.Duration{dead: 0, "/orphan": 0}
		first := time.Now()
		for elections := 0; time.Since(first) < 2*orphan; elections++ {
			if elections%8 == 0 {
				w.depose()
			}
			time.Sleep(time.Second / 2)
			w.mustSweep(r)
			for path, at := range went {
				if at == 0 && !slices.Contains(w.paths(), path) {
					went[path] = time.Since(first)
				}
			}
		}
		for path, want := range map[string]time.Duration{dead: ttl + grace, "/orphan": orphan} {
			if got := went[path]; got < want || got > want+2*time.Second {
				t.Errorf("%s went after %v, want %v", path, got, want)
			}
		}
		iferr.Error(t, held.Unlock())
	})
}

// TestMarkIsNotDeleted: sweeps neither count nor delete the epoch's mark below the root, however old it
// is. Below another node, a node of the same name is foreign.
func TestMarkIsNotDeleted(t *testing.T) {
	simulateOf(t, locktest.Options{Members: 3}, func(w *world) {
		z, r := w.raw("others"), w.reaper("reaper", reaper.Options{})
		mark := "/locks/" + znode.EpochMark
		w.mustSweep(r)
		w.dead(z, "dead")
		for range 2 {
			w.depose()
			w.mustSweep(r)
			time.Sleep(ttl)
		}
		marks := w.Dump(mark)
		if len(marks) != 1 || marks[0].Stat.Version != 2 { // created, written, and written again
			t.Fatalf("the mark: %+v", marks)
		}
		time.Sleep(2 * orphan)
		w.mustSweep(r) // deletes what is left of the crashed client's lock
		if n := w.reads(r, mark); n != 0 {
			t.Errorf("the mark is read %d times", n)
		}
		if got := w.mustSweep(w.reaper("dry", reaper.Options{DryRun: true})); got.Total != (reaper.Counts{}) || len(got.Planned) > 0 {
			t.Errorf("counted %+v, planned %v", got.Total, got.Planned)
		}
		if left := w.Dump(mark); len(left) != 1 || left[0].Stat != marks[0].Stat {
			t.Errorf("the mark was %+v, and is %+v", marks, left)
		}
		w.create(z, "/locks/theirs", "x", 0)
		w.create(z, "/locks/theirs/"+znode.EpochMark, "x", 0)
		if got := w.mustSweep(r).Total; got.Foreign != 2 {
			t.Errorf("counted %+v, want two foreign nodes: elsewhere the name is like any other", got)
		}
	})
}

// TestDataLostUnseen: while the reaper is cut off, the servers lose their data and then make more
// transactions than before, so that no number shows the loss. The reaper does not delete the entry of
// a holder that locked after the loss.
func TestDataLostUnseen(t *testing.T) {
	simulateOf(t, locktest.Options{}, func(w *world) {
		r := w.reaper("reaper", reaper.Options{})
		w.mustSweep(r)
		z := w.raw("before")
		for i := range 50 {
			w.dead(z, fmt.Sprint(i))
		}
		w.mustSweep(r)
		w.StepClock(time.Hour) // begins a term
		w.mustSweep(r)
		time.Sleep(4 * ttl) // until the term is older than a lease
		iferr.Fatal(w, w.Partition("reaper"))
		time.Sleep(time.Minute) // its session ends
		w.Forget()
		h := w.lock("service", "x")
		z = w.raw("after")
		iferr.Fatal(w, iferr.Of(z.Create("/other", nil, 0, zk.WorldACL(zk.PermAll))))
		for range 300 {
			iferr.Fatal(w, iferr.Of(z.Set("/other", nil, -1)))
		}
		w.Heal("reaper")
		w.mustSweep(r)
		if err := h.Unlock(); err != nil {
			t.Errorf("the holder: %v", err)
		}
	})
}

// TestDataLostInTheMidstOfASweep: during a sweep, the reaper's session expires, and the servers lose
// their data. The sweep does not judge a live entry as a write of an earlier term.
func TestDataLostInTheMidstOfASweep(t *testing.T) {
	simulateOf(t, locktest.Options{}, func(w *world) {
		r := w.reaper("reaper", reaper.Options{})
		w.lock("before", "before")
		w.mustSweep(r)
		w.StepClock(time.Hour) // begins a term
		w.mustSweep(r)
		time.Sleep(4 * ttl) // until the term is older than a lease

		var mu sync.Mutex
		cutOff, tried := true, 0
		w.Intercept(func(q locktest.Request) locktest.Fault {
			mu.Lock()
			defer mu.Unlock()
			listing := q.Op == "getChildren2" && slices.Contains(q.Paths, "/locks")
			switch own := slices.ContainsFunc(q.Paths, func(p string) bool { return strings.HasPrefix(p, "/locks/holdfast-reaper") }); {
			case q.Label != "reaper":
			case listing && cutOff:
				tried++
				return locktest.Fault{Drop: locktest.BeforeApply}
			case tried > 0 && (cutOff || own): // so the reaper does not learn that its own lock is lost
				return locktest.Fault{Drop: locktest.BeforeApply}
			}
			return locktest.Fault{}
		})
		ended := make(chan error, 1)
		go func() {
			_, err := r.Sweep(w.ctx)
			ended <- err
		}()
		listed := func(least int) {
			for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				mu.Lock()
				n := tried
				mu.Unlock()
				switch {
				case n >= least:
					return
				case time.Now().After(end):
					t.Fatalf("the sweep has tried to list %d times, want %d", n, least)
				}
			}
		}
		listed(1)
		w.ExpireLabel("reaper")
		listed(5) // in its next session, too
		w.Forget()
		h := w.lock("service", "x")
		mu.Lock()
		cutOff = false
		mu.Unlock()
		if err := <-ended; err != nil {
			t.Errorf("the sweep: %v", err)
		}
		w.Intercept(nil)
		iferr.Error(t, h.Unlock())
	})
}
