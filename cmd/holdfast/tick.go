package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/supervise"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/schedule"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// envTick is the variable that run --tick adds to the environment of the command.
const envTick = "HOLDFAST_TICK"

// tickFlags are the flags of run for a command that runs once a tick.
type tickFlags struct {
	tick        string // the schedule; "": none
	ticks       schedule.Schedule
	missed      schedule.Missed
	overlap     schedule.Overlap
	limit       int // how many missed ticks run at most
	atLeastOnce bool
	late        time.Duration
	lateIsGiven bool
	jobs        string      // the node below which the jobs' records are
	began       func() bool // stops the timer of --wait; nil: --wait was not given
}

func (f *tickFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.tick, "tick", "", "run the command once for each tick of this `SCHEDULE`, such as @daily or \"30 4 * * *\"")
	cmd.Flags().Var(app.Parse(&f.missed, schedule.ParseMissed), "missed", "with --tick: `which` missed ticks run, skip, last or all")
	cmd.Flags().IntVar(&f.limit, "limit", schedule.DefaultLimit, "with --missed all: how many missed ticks run at most, the last ones")
	cmd.Flags().Var(app.Parse(&f.overlap, schedule.ParseOverlap), "overlap", "with --tick: `what` a tick does while an earlier one runs, wait, skip or beside")
	cmd.Flags().BoolVar(&f.atLeastOnce, "at-least-once", false, "with --tick: run a tick again if its command was interrupted")
	cmd.Flags().DurationVar(&f.late, "late", schedule.DefaultLate, "with --tick: how late a tick may start, else it is missed; by default twice TTL and grace if that is more")
	addJobs(cmd, &f.jobs)
}

// addJobs adds the flag with the node below which the records of jobs are.
func addJobs(cmd *cobra.Command, path *string) {
	*path = schedule.DefaultPath
	cmd.Flags().Var(app.Parse(path, func(node string) (string, error) { return node, znode.CheckRoot(node) }), "jobs", "the `node` below which the records of jobs are")
}

// check reads the schedule. It refuses flags that do not go together, and values out of range.
func (f *tickFlags) check(cmd *cobra.Command) (err error) {
	f.lateIsGiven = cmd.Flags().Changed("late")
	if f.tick == "" {
		for _, flag := range []string{"missed", "limit", "overlap", "at-least-once", "late", "jobs"} {
			if cmd.Flags().Changed(flag) {
				return app.Usage("--%s: is for --tick", flag)
			}
		}
		if cmd.Flags().Changed("tick") {
			return app.Usage("--tick \"\": must be a schedule, such as @daily")
		}
		return nil
	}
	for _, flag := range []string{"at-least", "attach", "detach"} {
		if cmd.Flags().Changed(flag) {
			return app.Usage("--%s: does not go with --tick", flag)
		}
	}
	if wait := cmd.Flags().Lookup("wait"); wait.Changed && wait.Value.String() == "0s" {
		return app.Usage("--wait 0: does not go with --tick, which may have to wait for the tick; see --overlap skip")
	}
	if f.ticks, err = policy.ParseSchedule(f.tick); err != nil {
		return app.Usage("--tick %q: %w", f.tick, err)
	}
	switch {
	case f.late <= 0:
		return app.Usage("--late %v: must be positive", f.late)
	case cmd.Flags().Changed("limit") && f.missed != schedule.RunAll:
		return app.Usage("--limit: is for --missed %v", schedule.RunAll)
	case f.limit < 1 || f.limit > schedule.MaxLimit:
		return app.Usage("--limit %d: must be from 1 to %d", f.limit, schedule.MaxLimit)
	}
	return nil
}

// job returns the named job. If --late is not given, a tick may be late by the longer of the default and
// 2*(ttl+grace), because two crashes block the lock for 2*(ttl+grace).
func (f *tickFlags) job(locks *lock.Client, name string, ttl, grace time.Duration, report func(schedule.Run)) (*schedule.Job, error) {
	late := f.late
	if !f.lateIsGiven {
		late = max(late, 2*(ttl+grace))
	}
	return schedule.New(locks, name, f.ticks, schedule.Options{
		AtLeastOnce: f.atLeastOnce, Missed: f.missed, Limit: f.limit, Overlap: f.overlap, Late: late, Path: f.jobs,
		Lock: []lock.LockOption{lock.WithTTL(ttl)}, Report: report,
	})
}

// tellSkipped returns a function that tells of skipped ticks, unless run is to be quiet.
func (f *runFlags) tellSkipped(name string) func(schedule.Run) {
	return func(run schedule.Run) {
		if run.Outcome == schedule.NotRun && !f.quiet {
			tell("job %q: %s%s", name, run.Error, f.inUTC())
		}
	}
}

// tellWaiting tells after a while that run waits, unless it is to be quiet, or the timer is stopped.
func (f *runFlags) tellWaiting(name string) *time.Timer {
	return time.AfterFunc(patience, func() {
		if !f.quiet {
			tell("waiting for the next tick of job %q, or for its lock; holdfast jobs tells more", name)
		}
	})
}

// inUTC returns a hint for a tick that was missed, unless the schedule names a time zone.
func (f *tickFlags) inUTC() string {
	if strings.Contains(f.tick, "TZ=") || strings.HasPrefix(f.tick, "@every") {
		return ""
	}
	return "; the schedule is in UTC: for another time zone begin it with CRON_TZ=, such as CRON_TZ=Europe/Berlin"
}

// runTick runs the command once for each tick that this process takes; see [schedule.Job.Once].
func (f *runFlags) runTick(ctx context.Context, cfg *config.Config, name string, args []string) error {
	ttl, err := effectiveTTL(cfg, "jobs/"+name, f.ttl)
	if err != nil {
		return err
	}
	path, err := executable(args[0])
	if err != nil {
		return err
	}
	var busy atomic.Bool // a command runs
	taking, stop := untilFatal(ctx, func(s os.Signal) bool { return busy.Load() && s != syscall.SIGQUIT })
	defer stop()
	waiting, giveUp := context.WithCancelCause(taking)
	defer giveUp(nil)
	connecting := waiting
	if f.wait > 0 {
		var connected func()
		connecting, connected = context.WithTimeout(waiting, f.wait) // the error of app.Dial names the deadline
		defer connected()
		limit := time.AfterFunc(f.wait, func() { giveUp(context.DeadlineExceeded) })
		defer limit.Stop()
		f.began = limit.Stop
	}
	locks, err := dial(connecting, cfg, ttl, args[0])
	if err != nil {
		return interrupted(taking, notAcquired(taking, err))
	}
	job, err := f.job(locks, name, ttl, cfg.Policies.For("jobs/"+name).Grace, f.tellSkipped(name))
	if err != nil {
		return errors.Join(err, locks.Close())
	}
	told := f.tellWaiting(name)
	defer told.Stop()
	var running sync.Mutex // supervise runs one command at a time
	var failed error       // error of the last command that failed
	err = job.Once(waiting, func(_ context.Context, turn *schedule.Turn) error {
		running.Lock()
		defer running.Unlock()
		busy.Store(true)
		defer busy.Store(false)
		told.Stop()
		if f.began != nil {
			f.began()
		}
		ended := f.runTurn(ctx, taking, turn, ttl, supervise.Command{Path: path, Args: args, Env: environment(os.Environ(), turn.Hold.Name(), turn.Hold.Token(), cfg.PasswordVariables())})
		if app.Status(ctx, ended) == 0 {
			return nil
		}
		failed = ended
		if ended.Error() != "" {
			return ended
		}
		return fmt.Errorf("exit status %d", app.Status(ctx, ended))
	})
	err = unanswered(err, cfg, locks)
	closed := locks.Close()
	switch {
	case failed != nil: // also if the wait for a further tick has failed
		return failed
	case err != nil:
		return interrupted(taking, f.held(notAcquired(taking, err)))
	}
	return closed
}

// runTurn runs the command for a tick.
func (f *runFlags) runTurn(ctx, taking context.Context, turn *schedule.Turn, ttl time.Duration, cmd supervise.Command) error {
	cmd.Env = append(cmd.Env, envTick+"="+turn.Tick.Format(time.RFC3339Nano))
	return f.supervise(ctx, taking, turn.Hold, ttl, cmd, func(bool, int) error { return turn.Hold.Err() })
}
