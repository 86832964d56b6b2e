package schedule

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/robfig/cron/v3"

	"github.com/holdfast-io/holdfast/lock"
)

const (
	// precision is how far apart the bounds of ensemble time may be. An estimate is that imprecise
	// after somewhat less than a minute.
	precision = 50 * time.Millisecond
	// glance is the longest time between two looks at the leader's clock: a new leader's may be ahead.
	glance = time.Minute
	// headStart is the longest wait of a replica that has not run the last tick, before it tries to
	// take the next one. So the replicas seldom try all at once.
	headStart = 50 * time.Millisecond
)

// ErrNoTick says that a schedule has no later tick.
var ErrNoTick = errors.New("the schedule has no tick")

// Func is the work of a job. Its context ends with that of [Job.Run], or when the turn's hold is
// lost. Its error is recorded; it does not make the tick run again.
type Func func(ctx context.Context, turn *Turn) error

// Run runs f at each tick that this replica takes, until ctx ends. All replicas of a job call it.
// It waits out an outage of ZooKeeper. It always returns an error: one that matches the cause of
// ctx's end, or one that waiting cannot mend, such as [ErrNoTick], [lock.ErrInvalid],
// [lock.ErrDenied] or [lock.ErrClosed]. It returns only after its runs have ended. If f panics,
// the hold is unlocked, the run is unfinished, and Run panics, too. With OverlapBeside it runs f in
// other goroutines, so such a panic ends the process: recover in f.
func (j *Job) Run(ctx context.Context, f Func) error { return j.loop(ctx, f, false) }

// Once runs f for the tick that is nearest to the present, and for earlier ones that are due, if
// no other replica has taken them. It waits for that tick if it is yet to come. So a program that
// another scheduler starts at about the time of a tick runs f once, on one host, although the
// hosts' clocks differ. Once returns nil if other replicas have taken the ticks, or if they were
// missed and do not run. Its errors are those of Run.
func (j *Job) Once(ctx context.Context, f Func) error { return j.loop(ctx, f, true) }

func (j *Job) loop(ctx context.Context, f Func, once bool) error {
	if f == nil {
		return invalid("function", "nil", "must not be nil")
	}
	begin := func(now time.Time) time.Time { return now }
	if once {
		begin = func(now time.Time) time.Time { return earliest(now, j.nearest(now).Add(-1)) }
	}
	var runs sync.WaitGroup
	defer runs.Wait()
	var until time.Time // the tick with which Once ends
	if once {
		if now, err := j.now(ctx); err == nil { // else there is no root yet, or take fails too
			until = j.nearest(now)
		}
	}
	ran := false // the last tick ran here
	for {
		t, err := j.take(ctx, begin)
		switch {
		case err != nil && passes(err) && ctx.Err() == nil:
			continue // no pause is needed: Lock waits for ZooKeeper
		case err != nil:
			return err
		}
		if until.IsZero() {
			until = j.nearest(t.now)
		}
		switch {
		case t.turn != nil && j.overlap == OverlapBeside:
			runs.Go(func() { t.turn.do(ctx, f) })
			ran = true
			continue
		case t.turn != nil:
			if t.turn.do(ctx, f) != Unfinished && once && !until.IsZero() && !t.turn.Tick.Before(until) {
				return nil
			}
			ran = true
			continue
		case once && !until.IsZero() && (t.next.IsZero() || t.next.After(until)):
			return nil
		case t.next.IsZero():
			return fmt.Errorf("job %q: %w after %v", j.name, ErrNoTick, t.now.Format(time.RFC3339))
		}
		if err := j.sleep(ctx, t.next); err != nil {
			return err
		}
		if !ran {
			if err := j.pause(ctx, rand.N(headStart), nil, t.next); err != nil {
				return err
			}
		}
		ran = false
	}
}

// passes reports whether another try may succeed.
func passes(err error) bool {
	return errors.Is(err, errAgain) || errors.Is(err, lock.ErrInDoubt) || errors.Is(err, lock.ErrUnavailable)
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// do runs f, and records what came of it, which it returns.
func (t *Turn) do(ctx context.Context, f Func) Outcome {
	returned := false
	defer func() {
		if !returned { // f has panicked
			giveBack(t.Hold)
		}
	}()
	inner, stop := during(ctx, t.Hold)
	err := f(inner, t)
	stop()
	returned = true
	switch {
	case err == nil:
		return t.finish(Done, nil)
	case t.job.atLeastOnce && ctx.Err() != nil: // another replica runs it again
		return t.finish(Unfinished, err)
	}
	return t.finish(Failed, err)
}

// sleep waits until the leader's clock has surely reached that time.
func (j *Job) sleep(ctx context.Context, until time.Time) error {
	for {
		changed := j.tree.Session().Changed // closed also by Client.Close; nil with lock.New
		now, err := j.now(ctx)
		if errors.Is(err, zk.ErrNoNode) { // the root is gone; the next lock creates it again
			return nil
		}
		if err != nil {
			return err
		}
		if !now.Before(until) {
			return nil
		}
		if err := j.pause(ctx, min(until.Sub(now), glance), changed, until); err != nil {
			return err
		}
	}
}

// pause waits for d, or until something has changed. If ctx ends first, the error names the tick.
func (j *Job) pause(ctx context.Context, d time.Duration, changed <-chan struct{}, tick time.Time) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-changed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("job %q: wait for the tick at %s: %w", j.name, tick.Format(time.RFC3339), context.Cause(ctx))
	}
}

// now returns ensemble time: a time that the leader's clock has surely reached. All jobs of a
// client share the samples for it.
func (j *Job) now(ctx context.Context) (time.Time, error) {
	if now := j.tree.Estimate(); now.Zxid != 0 && now.Upper-now.Lower <= precision && !j.tree.Outdated() {
		return now.Earliest(), nil
	}
	return j.sample(ctx)
}

// sample returns ensemble time as now does, but from a new sample. If the session is lost meanwhile,
// the client drops the sample: then the time is unknown or of an earlier leader, and sample repeats.
func (j *Job) sample(ctx context.Context) (time.Time, error) {
	for {
		now, err := j.tree.Now(ctx)
		if err != nil {
			return time.Time{}, fmt.Errorf("job %q: learn ensemble time: %w", j.name, err)
		}
		if now.Zxid != 0 && !j.tree.Outdated() {
			return now.Earliest(), nil
		}
	}
}

// Wrapper returns a wrapper for the jobs of a [cron.Cron] with the same schedule as this job's:
//
//	jobs := cron.New()
//	jobs.Schedule(daily, cron.NewChain(job.Wrapper(ctx, failed)).Then(nightly))
//
// All hosts may run such a cron: of each tick, one of them does the work, see [Job.Once]. Errors
// of Once, other than the end of ctx, go to failed. The runs of a cron.Job have no error, so each
// that returns is [Done].
func (j *Job) Wrapper(ctx context.Context, failed func(error)) cron.JobWrapper {
	return func(work cron.Job) cron.Job {
		return cron.FuncJob(func() {
			err := j.Once(ctx, func(context.Context, *Turn) error {
				work.Run()
				return nil
			})
			if err != nil && ctx.Err() == nil {
				failed(err)
			}
		})
	}
}
