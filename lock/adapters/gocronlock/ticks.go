package gocronlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/schedule"
)

var _ gocron.Locker = (*Ticks)(nil)

// ErrTaken says that another process has the tick, or that its job does not run at this tick.
var ErrTaken = errors.New("another process has the tick")

// Ticks is a locker of gocron for jobs that must run once a tick, as package schedule runs them:
// ticks are points in ensemble time, and a tick that was taken is recorded. Pass it to
// gocron.WithDistributedLocker.
//
// When gocron starts a run, Ticks takes the nearest tick, see [schedule.Job.Once]. So a tick never
// runs twice, whatever the processes' clocks say. It is missed if no clock is right within half an
// interval. gocron does not say whether a job failed: the record says that its run is done.
type Ticks struct {
	jobs map[string]*schedule.Job
}

// NewTicks returns a locker for jobs of these names, see gocron.WithName, with their schedules. A
// schedule without a time zone is in UTC, so use gocron.WithLocation(time.UTC) or the same time zone
// in both. The options apply to all jobs; OverlapBeside is refused.
func NewTicks(locks *lock.Client, schedules map[string]cron.Schedule, opts schedule.Options) (*Ticks, error) {
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

// Lock takes a tick of the job. If the tick is yet to come, it waits for that. If another process
// has it, the error is [ErrTaken], and gocron skips the run.
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

// run is a run of a job.
type run struct {
	begun, end chan struct{} // closed at the begin of the run, and by Unlock
	done       chan error    // result of Once
	err        error         // why the run's context ended before Unlock; nil: it did not
}

// Unlock records the end of the run. If the lock was lost before, it returns the [lock.LostError].
func (r *run) Unlock(context.Context) error {
	close(r.end)
	<-r.done
	return r.err
}
