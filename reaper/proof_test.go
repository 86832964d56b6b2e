package reaper

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// holding returns a client that holds the lock. The client closes at the end of the test.
func holding(t *testing.T, name string) *lock.Client {
	t.Helper()
	e := locktest.Start(t, locktest.Options{})
	c, err := lock.Dial(t.Context(), e.Servers(), lock.WithDialer(e.Dialer("reaper")))
	iferr.Fatal(t, err)
	t.Cleanup(func() { c.Close() })
	iferr.Fatal(t, iferr.Of(c.Mutex(name).Lock(t.Context())))
	return c
}

// TestUnprovenVerdictIsUndecided: if a verdict stays unproven, judge returns the undecided verdict
// after maxProofs requests, and does not stop the sweep.
func TestUnprovenVerdictIsUndecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := holding(t, "a")
		for _, undecided := range []Verdict{Live, Young} {
			in, err := newSetup(Options{}.withDefaults(), newMemory())
			iferr.Fatal(t, err)
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			s := &sweep{
				stop: stop, Reaper: &Reaper{tree: admin.New(c)}, setup: in, progress: newProgress(newGroup("", nil, nil)), looked: map[string]time.Time{},
			}
			s.report.Policies = map[string]*Counts{"all": {}}
			var known []int64
			d := s.judge(ctx, "/locks/a", znode.Stat{Version: 7}, s.time(), "all", undecided, func(now admin.Time, _ time.Duration) Verdict {
				known = append(known, now.Zxid)
				return Unproven
			})
			if d.verdict != undecided || d.verdict.Deletes() || ctx.Err() != nil {
				t.Errorf("%v, want %v", d.verdict, undecided)
			}
			if len(known) != 1+maxProofs || known[0] >= known[maxProofs] {
				t.Errorf("judged by %v, want %d samples after the first", known, maxProofs)
			}
			if got := *s.report.Policies["all"]; got.Young > 1 || got.Expired+got.Orphans+got.Ancestors > 0 {
				t.Errorf("counted %+v", got)
			}
		}
	})
}
