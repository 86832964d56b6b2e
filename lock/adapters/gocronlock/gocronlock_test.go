package gocronlock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/adapters/gocronlock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// dial returns the client of a process. The caller closes it.
func dial(t *testing.T, ensemble *locktest.Ensemble) *lock.Client {
	t.Helper()
	locks, err := lock.Dial(t.Context(), ensemble.Servers(), lock.WithDialer(ensemble.Dial))
	iferr.Fatal(t, err)
	return locks
}

// everySecond returns a started scheduler that runs job each second, like that of a separate process.
func everySecond(t *testing.T, with gocron.SchedulerOption, job func()) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(with)
	iferr.Fatal(t, err)
	iferr.Fatal(t, iferr.Of(s.NewJob(gocron.DurationJob(time.Second), gocron.NewTask(job), gocron.WithName("tick"))))
	s.Start()
	return s
}

func shutDown(t *testing.T, s gocron.Scheduler) {
	t.Helper()
	iferr.Error(t, s.Shutdown())
}

// TestLocker: three processes, whose clocks differ by 200 ms, run each tick once. Without splay
// they run some ticks more often.
func TestLocker(t *testing.T) {
	for _, splay := range []time.Duration{500 * time.Millisecond, 0} {
		t.Run(splay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ensemble := locktest.Start(t, locktest.Options{})
				begun := time.Now()
				var mu sync.Mutex
				runs := map[int]int{}
				const seconds = 60
				var all []gocron.Scheduler
				var clients []*lock.Client
				for range 3 {
					locks := dial(t, ensemble)
					clients = append(clients, locks)
					locker, err := gocronlock.NewLocker(locks, "jobs", splay)
					iferr.Fatal(t, err)
					all = append(all, everySecond(t, gocron.WithDistributedLocker(locker), func() {
						mu.Lock()
						defer mu.Unlock()
						runs[int(time.Since(begun).Seconds())]++
					}))
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(seconds*time.Second + 300*time.Millisecond)
				for _, s := range all {
					shutDown(t, s)
				}
				time.Sleep(5 * time.Second)
				for _, n := range ensemble.Dump("/locks/jobs/tick") {
					t.Errorf("left behind: %s", n.Path)
				}
				for _, c := range clients {
					iferr.Error(t, c.Close())
				}
				twice := 0
				for tick := 1; tick <= seconds; tick++ {
					if runs[tick] == 0 {
						t.Errorf("tick %d was missed", tick)
					}
					if runs[tick] > 1 {
						twice++
					}
				}
				if splay > 0 && twice > 0 || splay == 0 && twice == 0 {
					t.Errorf("%d ticks ran twice with splay %v: %v", twice, splay, runs)
				}
			})
		})
	}
}

// TestLostInTheRun: if the lock is lost during a run, Unlock returns ErrLost, also before the splay is over.
func TestLostInTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := dial(t, locktest.Start(t, locktest.Options{}))
		locker, err := gocronlock.NewLocker(locks, "jobs", time.Hour)
		iferr.Fatal(t, err)
		run, err := locker.Lock(t.Context(), "tick")
		iferr.Fatal(t, err)
		iferr.Error(t, locks.Close())
		if err := run.Unlock(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Unlock returns %v", err)
		}
		time.Sleep(2 * time.Hour) // until the splay is over
	})
}

// TestElector: of three processes the leader runs all ticks. When it resigns, or its client closes,
// another process leads.
func TestElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ensemble := locktest.Start(t, locktest.Options{})
		runs := make([]int, 3)
		var mu sync.Mutex
		var clients []*lock.Client
		var electors []*gocronlock.Elector
		var all []gocron.Scheduler
		for i := range runs {
			locks := dial(t, ensemble)
			elector, err := gocronlock.NewElector(locks.Election("jobs"), "process")
			iferr.Fatal(t, err)
			time.Sleep(100 * time.Millisecond) // until it leads or waits
			clients, electors = append(clients, locks), append(electors, elector)
			all = append(all, everySecond(t, gocron.WithDistributedElector(elector), func() {
				mu.Lock()
				defer mu.Unlock()
				runs[i]++
			}))
		}
		during := func(d time.Duration) []int {
			mu.Lock()
			clear(runs)
			mu.Unlock()
			time.Sleep(d)
			mu.Lock()
			defer mu.Unlock()
			return append([]int(nil), runs...)
		}
		want := func(leader int) {
			t.Helper()
			for i, n := range during(10 * time.Second) {
				if i == leader && n != 10 || i != leader && n != 0 {
					t.Errorf("%d runs by process %d, while process %d leads", n, i, leader)
				}
			}
			for i, e := range electors {
				if err := e.IsLeader(t.Context()); (err == nil) != (i == leader) {
					t.Errorf("process %d: %v, while process %d leads", i, err, leader)
				}
			}
		}
		time.Sleep(50 * time.Millisecond) // no tick at the ends of the counted times
		want(0)
		iferr.Error(t, electors[0].Close())
		time.Sleep(time.Second)
		want(1)
		iferr.Error(t, clients[1].Close()) // the leadership is lost
		time.Sleep(time.Second)
		want(2)
		if err := electors[1].IsLeader(t.Context()); !errors.Is(err, lock.ErrClosed) {
			t.Errorf("the client is closed, and IsLeader returns %v", err)
		}
		for _, s := range all {
			shutDown(t, s)
		}
		for i, e := range electors {
			if err := e.Close(); err != nil && i != 0 {
				t.Errorf("close elector %d: %v", i, err)
			}
			if err := e.IsLeader(t.Context()); err != gocronlock.ErrNotLeader {
				t.Errorf("elector %d is closed, and IsLeader returns %v", i, err)
			}
			iferr.Error(t, clients[i].Close())
		}
	})
}

// TestElectorAgain: if the leader's lease ends during an outage, IsLeader returns ErrNotLeader.
// After the outage the process campaigns again, and leads.
func TestElectorAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ensemble := locktest.Start(t, locktest.Options{})
		locks, err := lock.Dial(t.Context(), ensemble.Servers(), lock.WithDialer(ensemble.Dialer("a")), lock.WithTTL(20*time.Second))
		iferr.Fatal(t, err)
		defer locks.Close()
		e, err := gocronlock.NewElector(locks.Election("jobs"), "a")
		iferr.Fatal(t, err)
		time.Sleep(time.Second)
		iferr.Error(t, e.IsLeader(t.Context()))
		iferr.Fatal(t, ensemble.Partition("a"))
		time.Sleep(30 * time.Second)
		if err := e.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) {
			t.Errorf("its lease has ended, and IsLeader returns %v", err)
		}
		ensemble.Heal("a")
		time.Sleep(30 * time.Second)
		iferr.Error(t, e.IsLeader(t.Context()))
		iferr.Error(t, e.Close())
	})
}

// TestElectorTriesAgain: a campaign that fails for a reason that can pass is tried again. IsLeader
// returns the reason meanwhile.
func TestElectorTriesAgain(t *testing.T) {
	for says, code := range map[string]int32{"not authenticated": -102, "the server failed": -1, "a quota is exceeded": -125} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ensemble := locktest.Start(t, locktest.Options{})
				locks := dial(t, ensemble)
				defer locks.Close()
				var refuses atomic.Bool
				refuses.Store(true)
				ensemble.Intercept(func(r locktest.Request) locktest.Fault {
					if refuses.Load() && (r.Op == "multi" || r.Op == "create") {
						return locktest.Fault{Code: code}
					}
					return locktest.Fault{}
				})
				e, err := gocronlock.NewElector(locks.Election("jobs"), "a")
				iferr.Fatal(t, err)
				time.Sleep(5 * time.Second)
				if err := e.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) || !strings.Contains(err.Error(), says) {
					t.Errorf("IsLeader returns %v", err)
				}
				refuses.Store(false)
				time.Sleep(10 * time.Second)
				iferr.Error(t, e.IsLeader(t.Context()))
				iferr.Error(t, e.Close())
			})
		})
	}
}

func export() { time.Sleep(time.Second) }

// TestUnnamedJobs: two jobs without names, of one function, drop each other's runs. A listener sees that.
func TestUnnamedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ensemble := locktest.Start(t, locktest.Options{})
		locks := dial(t, ensemble)
		defer locks.Close()
		locker, err := gocronlock.NewLocker(locks, "jobs", 0)
		iferr.Fatal(t, err)
		s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
		iferr.Fatal(t, err)
		dropped := make(chan error, 100)
		for range 2 {
			_, err := s.NewJob(gocron.DurationJob(2*time.Second), gocron.NewTask(export), gocron.WithEventListeners(
				gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { dropped <- err })))
			iferr.Fatal(t, err)
		}
		s.Start()
		time.Sleep(5 * time.Second)
		shutDown(t, s)
		if err := <-dropped; !errors.Is(err, lock.ErrHeld) || !strings.Contains(err.Error(), "another job of the same name") {
			t.Errorf("dropped because %v", err)
		}
		time.Sleep(time.Second)
	})
}

func TestBadInput(t *testing.T) {
	locks := dial(t, locktest.Start(t, locktest.Options{}))
	defer locks.Close()
	for says, err := range map[string]error{
		"client nil":              iferr.Of(gocronlock.NewLocker(nil, "jobs", 0)),
		"splay -1ns":              iferr.Of(gocronlock.NewLocker(locks, "jobs", -1)),
		"must not start with":     iferr.Of(gocronlock.NewLocker(locks, "/jobs", 0)),
		"election nil":            iferr.Of(gocronlock.NewElector(nil, "")),
		"must come from a client": iferr.Of(gocronlock.NewElector(new(lock.Election), "")),
		`component "lock-0000000001`: func() error {
			l, err := gocronlock.NewLocker(locks, "jobs", 0)
			if err != nil {
				return err
			}
			return iferr.Of(l.Lock(context.Background(), "lock-0000000001"))
		}(),
	} {
		if !errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want one that says %q", err, says)
		}
	}
}
