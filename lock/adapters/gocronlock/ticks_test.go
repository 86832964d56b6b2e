package gocronlock_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/adapters/gocronlock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/schedule"
)

// TestTicks: each tick runs once, although the clocks of three processes differ by 300 ms, the job
// is shorter than that, and one process's client closes.
func TestTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ensemble := locktest.Start(t, locktest.Options{})
		var mu sync.Mutex
		runs := map[int64]int{}
		var recorded []schedule.Run
		begun := time.Now()
		var all []gocron.Scheduler
		var clients []*lock.Client
		for range 3 {
			locks := dial(t, ensemble)
			clients = append(clients, locks)
			ticks, err := gocronlock.NewTicks(locks, map[string]schedule.Schedule{"tick": cron.Every(time.Second)}, schedule.Options{
				Report: func(r schedule.Run) {
					mu.Lock()
					defer mu.Unlock()
					recorded = append(recorded, r)
				},
			})
			iferr.Fatal(t, err)
			all = append(all, everySecond(t, gocron.WithDistributedLocker(ticks), func() {
				mu.Lock()
				runs[time.Now().Unix()]++
				mu.Unlock()
				time.Sleep(20 * time.Millisecond)
			}))
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(20*time.Second + 50*time.Millisecond)
		iferr.Error(t, clients[0].Close())
		time.Sleep(20 * time.Second)
		for i, s := range all {
			shutDown(t, s)
			iferr.Error(t, clients[i].Close())
		}
		for at := begun.Unix() + 2; at < begun.Unix()+40; at++ {
			if runs[at] != 1 {
				t.Errorf("%d runs at %v", runs[at], time.Unix(at, 0))
			}
		}
		seen := map[time.Time]bool{}
		for _, r := range recorded {
			if seen[r.Tick] || r.Outcome != schedule.Done {
				t.Errorf("recorded twice, or not as done: %+v", r)
			}
			seen[r.Tick] = true
		}
	})
}

// TestTicksThatWait: if runs are longer than the interval, each recorded tick was run.
func TestTicksThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := dial(t, locktest.Start(t, locktest.Options{}))
		defer locks.Close()
		recorded, runs := 0, 0
		ticks, err := gocronlock.NewTicks(locks, map[string]schedule.Schedule{"tick": cron.Every(time.Second)}, schedule.Options{
			Report: func(schedule.Run) { recorded++ },
		})
		iferr.Fatal(t, err)
		for range 10 {
			run, err := ticks.Lock(t.Context(), "tick")
			if errors.Is(err, gocronlock.ErrTaken) {
				continue
			}
			iferr.Fatal(t, err)
			runs++
			time.Sleep(2500 * time.Millisecond)
			iferr.Error(t, run.Unlock(t.Context()))
		}
		if runs != 10 || recorded != runs {
			t.Errorf("%d runs, %d recorded", runs, recorded)
		}
	})
}

// TestTicksLost: if the lock is lost during a run, Unlock returns ErrLost, and the run is recorded
// as unfinished.
func TestTicksLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ensemble := locktest.Start(t, locktest.Options{})
		locks, other := dial(t, ensemble), dial(t, ensemble)
		defer other.Close()
		ticks, err := gocronlock.NewTicks(locks, map[string]schedule.Schedule{"tick": cron.Every(time.Second)}, schedule.Options{})
		iferr.Fatal(t, err)
		run, err := ticks.Lock(t.Context(), "tick")
		iferr.Fatal(t, err)
		iferr.Error(t, locks.Close())
		if err := run.Unlock(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Unlock returns %v", err)
		}
		if _, err := ticks.Lock(t.Context(), "tick"); !errors.Is(err, lock.ErrClosed) {
			t.Errorf("Lock returns %v", err)
		}
		jobs, err := schedule.List(t.Context(), other, "")
		if err != nil || len(jobs) != 1 || jobs[0].Runs[0].Outcome != schedule.Unfinished {
			t.Errorf("recorded: %+v, %v", jobs, err)
		}
	})
}

func TestTicksBadInput(t *testing.T) {
	locks := dial(t, locktest.Start(t, locktest.Options{}))
	defer locks.Close()
	hourly := func(name string) map[string]schedule.Schedule {
		return map[string]schedule.Schedule{name: cron.Every(time.Hour)}
	}
	none, err := gocronlock.NewTicks(locks, nil, schedule.Options{})
	iferr.Fatal(t, err)
	for says, err := range map[string]error{
		"client nil":           iferr.Of(gocronlock.NewTicks(nil, hourly("a"), schedule.Options{})),
		"must not start with":  iferr.Of(gocronlock.NewTicks(locks, hourly("/a"), schedule.Options{})),
		"overlap beside":       iferr.Of(gocronlock.NewTicks(locks, hourly("a"), schedule.Options{Overlap: schedule.OverlapBeside})),
		`job "a": must have a`: iferr.Of(none.Lock(t.Context(), "a")),
	} {
		if !errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want one that says %q", err, says)
		}
	}
}
