package reaper_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// TestDamagedNodeIsLoggedOnce: a damaged node is logged once, not by each sweep. After the node is
// deleted, the end of the problem is logged once.
func TestDamagedNodeIsLoggedOnce(t *testing.T) {
	const damaged = "damaged or of a newer version: the node is left alone, blocks its lock, and is logged once"
	simulate(t, func(w *world) {
		z, r := w.raw("others"), w.reaper("reaper", reaper.Options{Schedule: "@every 10s"})
		w.create(z, "/locks/a", string(znode.Parent{Kind: znode.Mutex}.Encode()), 0)
		entry := w.create(z, "/locks/a/"+znode.Prefix(znode.NewID(), znode.Exclusive), "garbage", zk.FlagSequence)
		defer w.run(r)()
		time.Sleep(10 * time.Minute)
		if line := w.one(damaged); line["path"] != entry || line["level"] != "warn" {
			t.Errorf("%v", line)
		}
		for _, line := range w.lines("swept") {
			if line["level"] != "debug" {
				t.Errorf("a sweep that did nothing: %v", line)
			}
		}
		iferr.Fatal(t, z.Delete(entry, -1))
		time.Sleep(11 * time.Second)
		if line := w.one("damaged no more: the node has gone, or was written anew"); line["path"] != entry {
			t.Errorf("%v", line)
		}
	})
}

// TestReaperThatWaitsForItsOwnEntry: a reaper that was cut off and finds its own entry logs that it
// waits for the entry to expire, not that another reaper is active. The sweep that the outage ended
// counts as failed.
func TestReaperThatWaitsForItsOwnEntry(t *testing.T) {
	simulate(t, func(w *world) {
		own := policy.Rule{Match: w.pattern(reaper.DefaultLock), Policy: lock.Policy{Name: "own", TTL: ttl, Grace: time.Minute}}
		r := w.reaper("reaper", reaper.Options{Policies: w.policies(own), Schedule: "@every 1s"})
		defer w.run(r)()
		time.Sleep(time.Second)
		// The client cannot delete its lost entry, which stays for the grace after its lease.
		begun, entry := time.Now(), ""
		for _, n := range w.Dump("/locks/" + reaper.DefaultLock) {
			if strings.Contains(n.Path, "-lock-") {
				entry = n.Path
			}
		}
		w.Intercept(func(q locktest.Request) (f locktest.Fault) {
			if (q.Op == "delete" || q.Op == "multi") && slices.Contains(q.Paths, entry) && time.Since(begun) < time.Minute {
				f.Code = -127 // throttled
			}
			return f
		})
		w.Partition("reaper")
		// The client gives up its hold before the lease ends in ZooKeeper.
		for r.Monitor().Status().ActiveSince != (time.Time{}) {
			time.Sleep(100 * time.Millisecond)
		}
		w.Heal("reaper")
		time.Sleep(3 * time.Minute)
		w.one("standing by: this reaper's own entry of before has not expired yet")
		for _, not := range []string{"standing by: another reaper is the active one", "another reaper is the active one now"} {
			for _, line := range w.lines(not) {
				t.Errorf("%v", line)
			}
		}
		if s := r.Monitor().Status(); s.State != reaper.Active {
			t.Errorf("in the end: %s", s.State)
		}
		for _, msg := range []string{"swept", "sweep stopped before its end"} {
			for _, line := range w.lines(msg) {
				if line["incomplete"] != nil {
					t.Errorf("%v", line)
				}
			}
		}
		if len(w.lines("sweep failed")) == 0 {
			t.Error("no sweep failed")
		}
	})
}

// TestStatusOfAStandby: after a failover, the status of the former active reaper has no failures in a
// row, no schedules and no ActiveSince.
func TestStatusOfAStandby(t *testing.T) {
	simulate(t, func(w *world) {
		first := w.reaper("first", reaper.Options{Schedule: "@every 1s"})
		defer w.run(first)()
		time.Sleep(time.Second)
		if s := first.Monitor().Status(); s.ActiveSince.IsZero() {
			t.Errorf("the active one: %+v", s)
		}
		second := w.reaper("second", reaper.Options{Schedule: "@every 1s"})
		defer w.run(second)()
		w.dead(w.raw("others"), "a")
		w.fails("first", locktest.Fault{Code: -8}, func(q locktest.Request) bool { return lists(q, "/locks/a") })
		time.Sleep(5 * time.Second)
		if s := first.Monitor().Status(); s.LastFailure.InARow == 0 {
			t.Errorf("while its sweeps fail: %+v", s)
		}
		w.Partition("first")
		time.Sleep(ttl + grace + 5*time.Second)
		w.Heal("first")
		time.Sleep(10 * time.Second)
		s := first.Monitor().Status()
		if s.State != reaper.Standby || !s.ActiveSince.IsZero() || s.LastFailure.InARow != 0 || len(s.Schedules) != 0 {
			t.Errorf("after the failover: %+v, %+v", s, s.LastFailure)
		}
		if s := second.Monitor().Status(); s.State != reaper.Active || s.ActiveSince.IsZero() {
			t.Errorf("the other one: %+v", s)
		}
	})
}

// TestWaitersAndHolds: a report has the number of waiters, the longest wait and the oldest hold, even
// if the lock is remembered and not read again.
func TestWaitersAndHolds(t *testing.T) {
	simulate(t, func(w *world) {
		r := w.reaper("reaper", reaper.Options{})
		w.mustSweep(r)
		w.lock("holder", "a")
		time.Sleep(time.Minute)
		for i := range 2 {
			c := w.dial(fmt.Sprintf("waiter-%d", i), lock.WithPolicies(w.policies()))
			go c.Mutex("a").Lock(w.ctx)
			time.Sleep(time.Minute)
		}
		for range 2 {
			got := w.mustSweep(r).Policies["all"]
			if got.Live != 3 || got.Waiting != 2 || got.LongestWait < 118 || got.LongestWait > 125 || got.OldestHold < 178 || got.OldestHold > 185 {
				t.Errorf("%+v", got)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestPoliciesBeforeTheFirstSession: the monitor of a daemon has the policies before there is a session, also
// those of a reload.
func TestPoliciesBeforeTheFirstSession(t *testing.T) {
	dial := func(context.Context) (*lock.Client, error) { return nil, lock.ErrUnavailable }
	set := new(policy.Set)
	d, err := reaper.NewDaemon(dial, reaper.Options{Policies: set})
	iferr.Fatal(t, err)
	if got := d.Monitor().Policies(); got != set {
		t.Errorf("policies %v", got)
	}
	next := new(policy.Set)
	iferr.Fatal(t, d.Reload(reaper.Options{Policies: next}))
	if got := d.Monitor(); got.Policies() != next || got.Status().Reloads != 1 {
		t.Errorf("policies %v after a reload, %+v", got.Policies(), got.Status())
	}
}

// TestStatusAfterAFailure: if an error has ended a daemon, its status has the error, and no session, and
// the session does not count as lost. A second run counts its failures from 0 again.
func TestStatusAfterAFailure(t *testing.T) {
	simulate(t, func(w *world) {
		w.create(w.raw("other"), "/locks/"+reaper.DefaultLock, "foreign", 0)
		dial := func(ctx context.Context) (*lock.Client, error) {
			return lock.Dial(ctx, w.Servers(), lock.WithDialer(w.Dialer("reaper")))
		}
		d, err := reaper.NewDaemon(dial, reaper.Options{Policies: w.policies()})
		iferr.Fatal(t, err)
		for range 2 {
			err = d.Run(w.ctx)
			s := d.Monitor().Status()
			if err == nil || s.LastFailure == nil || s.LastFailure.InARow != 1 || s.LastFailure.Error != err.Error() {
				t.Errorf("ended with %v, last failure %+v", err, s.LastFailure)
			}
			if s.State != reaper.Disconnected || s.Session.Connected || s.Session.Losses != 0 {
				t.Errorf("%s, session %+v", s.State, s.Session)
			}
			time.Sleep(time.Minute)
		}
	})
}

// TestDaemonTriesAgain: while servers are unavailable, refuse the SASL credentials or fail, also while
// lock.Dial checks them, or a quota is exceeded, a daemon retries. Meanwhile its status has the error, and
// afterwards it sweeps. If dial itself fails, for example because there is no file with a password, the
// daemon ends.
func TestDaemonTriesAgain(t *testing.T) {
	_, missing := os.Open("/no/such/file")
	for name, test := range map[string]struct {
		code  int32  // of the servers' transactions, for a minute
		dial  error  // of dial, for a minute
		after string // node that dial reads after lock.Dial
		ends  error  // of Run
	}{
		"unavailable":         {dial: lock.ErrUnavailable},
		"SASL":                {dial: fmt.Errorf("%w: %w", lock.ErrSASL, lock.ErrDenied)},
		"the server fails":    {code: -1},
		"a quota is exceeded": {code: -125},
		"no file":             {dial: fmt.Errorf("read the configuration: %w", missing), ends: missing},
		"refused":             {dial: lock.ErrDenied, ends: lock.ErrDenied},
		"no node":             {after: "/missing", ends: zk.ErrNoNode},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				mends := time.Now().Add(time.Minute)
				broken := func() bool { return time.Now().Before(mends) }
				w.fails("reaper", locktest.Fault{Code: test.code}, func(q locktest.Request) bool { return q.Op == "multi" && broken() })
				d, err := reaper.NewDaemon(func(ctx context.Context) (*lock.Client, error) {
					if test.dial != nil && broken() {
						return nil, test.dial
					}
					c, err := lock.Dial(ctx, w.Servers(), lock.WithDialer(w.Dialer("reaper")))
					if err == nil && test.after != "" {
						_, _, err = admin.New(c).Get(ctx, test.after)
						return nil, errors.Join(err, c.Close())
					}
					return c, err
				}, reaper.Options{Policies: w.policies()})
				iferr.Fatal(t, err)
				time.AfterFunc(time.Minute/2, func() {
					if s := d.Monitor().Status(); s.State != reaper.Disconnected || s.LastFailure == nil || test.dial != nil && s.LastFailure.Error != test.dial.Error() {
						t.Errorf("%s, last failure %+v", s.State, s.LastFailure)
					}
				})
				ctx, cancel := context.WithTimeout(w.ctx, 5*time.Minute)
				defer cancel()
				if err := d.Run(ctx); !errors.Is(err, test.ends) {
					t.Errorf("Run: %v, want %v", err, test.ends)
				}
				if swept := d.Monitor().Status().Sweeps > 0; swept == (test.ends != nil) {
					t.Errorf("swept: %v", swept)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestGroups: each sweep names the nodes with a child plan, also while their locks are live and
// remembered.
func TestGroups(t *testing.T) {
	simulate(t, func(w *world) {
		z, r := w.raw("others"), w.reaper("r", reaper.Options{})
		w.dead(z, "orders/partitions/plan")
		w.dead(z, "orders/partitions/0")
		w.dead(z, "orders/planned")
		w.dead(z, "plan")
		for range 2 {
			if got := w.mustSweep(r).Groups; !slices.Equal(got, []string{"orders/partitions"}) {
				t.Errorf("the groups are %q", got)
			}
		}
	})
}
