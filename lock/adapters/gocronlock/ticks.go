package gocronlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/schedule"
)

var _ gocron.Locker = (*Ticks)(nil)

// ErrTaken says that another process took the tick, or that the policies of [schedule.Options] skip
// it. gocron then skips the run.
var ErrTaken = errors.New("another process has the tick")

// Ticks is a locker of gocron for jobs that must run once a tick, as package schedule runs them:
// ticks are points in ensemble time, and each tick that was taken is recorded. Pass it to
// gocron.WithDistributedLocker. It is safe for concurrent use.
//
// When gocron starts a run, Ticks takes the nearest tick, see [schedule.Job.Once]. So no tick runs
// twice, whatever the processes' clocks show, unless the options have AtLeastOnce. A tick is missed
// if no clock is right within half an interval. gocron does not report whether a job failed, so
// each run that ends is recorded as done.
type Ticks struct {
	jobs map[string]*schedule.Job
}

// NewTicks returns a locker for the jobs in schedules. A key is a job's name, see gocron.WithName,
// and its value is the job's schedule. A schedule without a time zone is in UTC. So use
// gocron.WithLocation(time.UTC), or the same time zone in both. The options apply to all jobs;
// OverlapBeside is refused. NewTicks fails with [lock.ErrInvalid] if an argument is not allowed.
func NewTicks(locks *lock.Client, schedules map[string]schedule.Schedule, opts schedule.Options) (*Ticks, error) {
	if opts.Overlap == schedule.OverlapBeside {
		return nil, fmt.Errorf("%w: overlap %v: must be wait or skip", lock.ErrInvalid, opts.Overlap)
	}
	t := &Ticks{map[string]*schedule.Job{}}
	for name, s := range schedules {
		job, err := schedule.New(locks, name, s, opts)
		if err != nil {
			return nil, err
		}
		t.jobs[name] = job
	}
	return t, nil
}

// Lock takes the tick of the named job that is nearest to the present. If the tick is in the
// future, Lock waits for it. If another process took the tick, or the tick is skipped, Lock fails
// with [ErrTaken], and gocron skips the run.
func (t *Ticks) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	job := t.jobs[name]
	if job == nil {
		return nil, fmt.Errorf("%w: job %q: must have a schedule in NewTicks", lock.ErrInvalid, name)
	}
	once, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &run{begun: make(chan struct{}), end: make(chan struct{}), done: make(chan error, 1)}
	waits := context.AfterFunc(ctx, cancel) // a shutdown of gocron ends the wait, but not the run
	go func() {
		defer cancel()
		r.done <- job.Once(once, func(held context.Context, _ *schedule.Turn) error {
			defer cancel() // Once must not run another tick
			if !waits() {
				return context.Cause(ctx)
			}
			close(r.begun)
			select {
			case <-r.end:
			case <-held.Done():
			}
			if held.Err() != nil { // even if the job has ended, too
				r.err = context.Cause(held)
			}
			return r.err
		})
	}()
	select {
	case <-r.begun:
		return r, nil
	case err := <-r.done:
		if err == nil {
			err = fmt.Errorf("job %q: %w", name, ErrTaken)
		}
		return nil, err
	}
}

// run is a run of a job that gocron has started.
type run struct {
	begun, end chan struct{} // begun is closed when the run may begin, end by Unlock
	done       chan error    // result of Once
	err        error         // why the run's context ended before Unlock; nil: it did not
}

// Unlock records the end of the run. If the lock was lost before, Unlock returns the
// [lock.LostError].
func (r *run) Unlock(context.Context) error {
	close(r.end)
	<-r.done
	return r.err
}
