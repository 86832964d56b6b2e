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
	"github.com/holdfast-io/holdfast/lock/admin"
)

const (
	// precision is the largest allowed distance of the bounds of ensemble time. A sample is that
	// imprecise after somewhat less than a minute.
	precision = 50 * time.Millisecond
	// maxSleep is the longest sleep between two reads of ensemble time: a new leader's clock may be
	// ahead.
	maxSleep = time.Minute
	// headStart is the longest wait of a replica that did not run the last tick, before it tries to
	// take the next one. The wait is random, so that the replicas seldom try all at once.
	headStart = 50 * time.Millisecond
	// againAfter is the pause before Run tries again after an error.
	againAfter = 5 * time.Second
)

// ErrNoTick says that the schedule has no further tick. [Job.Run] then ends.
var ErrNoTick = errors.New("the schedule has no tick")

// Func is the work of a job. Its context ends with that of [Job.Run], or when the turn's hold is
// lost. Its error is recorded; the error does not make the tick run again.
type Func func(ctx context.Context, turn *Turn) error

// Run runs f at each tick that this replica takes, until ctx ends. All replicas of a job call it.
// Run waits out an outage of ZooKeeper. After another error that can pass, such as an exceeded quota,
// it tries again, and logs a warning. It returns only after its runs have ended.
//
// Run always returns an error. It matches the cause of ctx's end, or is an error that waiting
// cannot mend, such as [ErrNoTick], [lock.ErrInvalid], [lock.ErrDenied] or [lock.ErrClosed]. If f
// panics, the hold is unlocked, the run is Unfinished, and Run panics too. With OverlapBeside Run
// calls f in other goroutines, so a panic of f ends the process: recover in f.
func (j *Job) Run(ctx context.Context, f Func) error {
	var runs sync.WaitGroup
	defer runs.Wait()
	for {
		err := j.loop(ctx, f, false, &runs)
		if !mends(err) || ctx.Err() != nil {
			return err
		}
		j.tree.Log().Warn().Err(err).Str("job", j.name).Stringer("after", againAfter).Msg("no tick of the job was taken; tried again")
		select {
		case <-time.After(againAfter):
		case <-ctx.Done():
		}
	}
}

// Once runs f for the tick that is nearest to the present, and for earlier ticks that are due, if
// no other replica has taken them. If the nearest tick is in the future, Once waits for it. So a
// program that another scheduler starts at about the time of a tick runs f once, on one host,
// although the hosts' clocks differ. Once returns nil when the ticks have run, here or on another
// host, even if f failed. It also returns nil if the ticks were missed and do not run. Its errors
// are those of Run, and others that can pass: only an outage of ZooKeeper is waited out.
func (j *Job) Once(ctx context.Context, f Func) error {
	var runs sync.WaitGroup
	defer runs.Wait()
	return j.loop(ctx, f, true, &runs)
}

// loop does the work of Run and Once until an error. It adds runs beside others to runs.
func (j *Job) loop(ctx context.Context, f Func, once bool, runs *sync.WaitGroup) error {
	if f == nil {
		return invalid("function", "nil", "must not be nil")
	}
	begin := func(now time.Time) time.Time { return now }
	if once {
		begin = func(now time.Time) time.Time { return earliest(now, j.nearest(now).Add(-1)) }
	}
	var until time.Time // with the end of this tick, Once ends; zero: unknown
	if once {
		if now, err := j.now(ctx); err == nil { // an error is no loss: take creates a missing root, or fails too
			until = j.nearest(now)
		}
	}
	ran := false // this replica ran the last tick
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

// mends reports whether another try may succeed after the error.
func mends(err error) bool {
	return admin.Mends(err) && !errors.Is(err, ErrNoTick) && !errors.Is(err, errFormat)
}

// passes reports whether another try may succeed at once after the error.
func passes(err error) bool {
	return errors.Is(err, errAgain) || errors.Is(err, lock.ErrInDoubt) || errors.Is(err, lock.ErrUnavailable)
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// do runs f, records the end of the run, unlocks its hold, and returns the outcome. If f panics, do
// only unlocks the hold.
func (t *Turn) do(ctx context.Context, f Func) Outcome {
	returned := false
	defer func() {
		if !returned { // f has panicked
			unlock(t.Hold)
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

// sleep returns nil when the leader's clock has surely reached until, or when the root has been
// deleted.
func (j *Job) sleep(ctx context.Context, until time.Time) error {
	for {
		changed := j.tree.Session().Changed // closed also by Client.Close; nil with lock.New
		now, err := j.now(ctx)
		if errors.Is(err, zk.ErrNoNode) { // the root was deleted; the next lock creates it again
			return nil
		}
		if err != nil {
			return err
		}
		if !now.Before(until) {
			return nil
		}
		if err := j.pause(ctx, min(until.Sub(now), maxSleep), changed, until); err != nil {
			return err
		}
	}
}

// pause waits for d, or until changed is closed. If ctx ends first, the error names the tick.
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

// now returns a time that the leader's clock has surely reached, and not long ago. All jobs of a
// client share the samples for it.
func (j *Job) now(ctx context.Context) (time.Time, error) {
	if now := j.tree.Estimate(); now.Zxid != 0 && now.Upper-now.Lower <= precision && !j.tree.Outdated() {
		return now.Earliest(), nil
	}
	return j.sample(ctx)
}

// sample returns ensemble time as now does, but from a new sample. If the session is lost during
// the request, the result is not usable, and sample tries again.
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

// Wrapper returns a wrapper for the jobs of a [cron.Cron] that has the same schedule as this job, in
// the same time zone:
//
//	jobs := cron.New(cron.WithLocation(time.UTC))
//	jobs.Schedule(daily, cron.NewChain(job.Wrapper(ctx, failed)).Then(nightly))
//
// All hosts may run this cron: for each tick, one host runs the work, see [Job.Once]. Errors of
// Once, other than the end of ctx, go to failed. The Run method of a cron.Job has no error, so each
// run that returns is [Done].
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
