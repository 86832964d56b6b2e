package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
)

// Turn is a tick that this replica runs.
type Turn struct {
	Tick    time.Time
	Attempt int        // 1, or one more than that of the last run of the same tick
	Hold    *lock.Hold // hold of the run, for its token and Hold.Txn; do not unlock it

	job *Job
	run Run // the run as it was recorded
}

// taken is the result of take.
type taken struct {
	turn *Turn     // nil: no tick is due
	now  time.Time // ensemble time of the decision
	next time.Time // the first undecided tick; zero: there is none
}

// take decides on due ticks. It waits for the job's lock first, unless idle shows that no tick is
// due. If a tick is to run, take records the start of its run. take unlocks the lock again, unless
// the turn has the job's hold. If there is no record, the job begins at the time that begin
// returns: earlier ticks never run.
func (j *Job) take(ctx context.Context, begin func(now time.Time) time.Time) (taken, error) {
	if t, idle := j.idle(ctx); idle {
		return t, nil
	}
	var came time.Time // ensemble time before the wait for the lock; zero: unknown
	if e := j.tree.Estimate(); e.Zxid != 0 {
		came = e.Earliest()
	}
	hold, err := j.mutex.Lock(ctx)
	if err != nil {
		return taken{}, err
	}
	t, err := j.takeHeld(ctx, hold, came, begin)
	if err != nil && hold.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errAgain, err)
	}
	if t.turn == nil || t.turn.Hold != hold {
		unlock(hold)
	}
	return t, err
}

// idle reports whether the record, read without the lock, shows that no tick is due and no run goes
// on. This saves the requests for the lock. If something cannot be read, idle returns false. If it
// returns true, t is the result of take.
func (j *Job) idle(ctx context.Context) (t taken, idle bool) {
	rec, _, err := j.read(ctx)
	if err != nil || rec.Upto.IsZero() || rec.last().Tick.After(rec.Upto) {
		return t, false
	}
	if slices.ContainsFunc(rec.Runs, func(run Run) bool { return run.Outcome == Running }) {
		return t, false
	}
	if t.now, err = j.now(ctx); err != nil {
		return t, false
	}
	t.next = j.next(rec.Upto)
	return t, t.next.IsZero() || t.next.After(t.now)
}

// errAgain says that a hold ended before the decision was recorded, as far as is known. Run then
// tries again.
var errAgain = errors.New("the hold has ended")

// takeHeld does the rest of take, while hold holds the job's lock. came is the ensemble time before
// the wait for the lock.
func (j *Job) takeHeld(ctx context.Context, hold *lock.Hold, came time.Time, begin func(time.Time) time.Time) (taken, error) {
	ctx, stop := during(ctx, hold)
	defer stop()
	now, err := j.now(ctx) // the create of the hold's entry was a sample, 10 ms ago at most if the hold was handed off
	if err != nil {
		return taken{}, err
	}
	t := taken{now: now}
	for {
		rec, version, err := j.read(ctx)
		if err != nil {
			return t, err
		}
		changed := rec.settle(j.atLeastOnce)
		if rec.Upto.IsZero() {
			rec.Upto, changed = begin(t.now), true
		}
		crashed, err := j.abandon(ctx, rec, t.now)
		if err != nil {
			return t, err
		}
		at := moment{now: t.now}
		if len(crashed) > 0 {
			if at.waited = t.now; !came.IsZero() && came.Before(t.now) {
				at.waited = came
			}
		}
		tick, skipped := j.decide(rec, at)
		rec.skip(skipped, tick)
		t.next = j.next(rec.Upto)
		if tick.IsZero() && skipped == nil && len(crashed) == 0 && !changed {
			return t, nil
		}
		report := crashed
		if skipped != nil && skipped.Why != Rescheduled {
			report = append(report, skipped.notRun(t.now, j.late))
		}
		if !tick.IsZero() {
			if t.turn, err = j.turn(ctx, hold, rec, tick, t.now); err != nil {
				return t, err
			}
		}
		if err := j.write(ctx, hold, rec, version); err != nil {
			if t.turn != nil && t.turn.Hold != hold {
				unlock(t.turn.Hold)
			}
			t.turn = nil
			if err == errChanged {
				continue
			}
			if errors.Is(admin.Answer(err), lock.ErrInDoubt) { // if the write was applied, no other replica will report this
				j.tell(report...)
			}
			return t, err
		}
		j.tell(report...)
		return t, nil
	}
}

// turn adds the start of a tick's run to the record, and returns the turn. The run has the job's
// hold, or with OverlapBeside a hold of its own.
func (j *Job) turn(ctx context.Context, hold *lock.Hold, rec *record, tick, now time.Time) (*Turn, error) {
	if j.overlap == OverlapBeside {
		var err error
		if hold, err = j.beside(tick).Lock(ctx); err != nil {
			return nil, err
		}
	}
	us := j.tree.Identity()
	run := rec.start(Run{
		Tick: tick, Started: now, Owner: us.Owner, Host: us.Host, PID: us.PID,
		Lock: hold.Name(), Token: hold.Token().String(),
	}, j.atLeastOnce)
	return &Turn{Tick: tick, Attempt: run.Attempt, Hold: hold, job: j, run: run}, nil
}

// abandon marks the runs of crashed replicas as Unfinished, and returns them. While this replica
// holds the job's lock, only runs with a lock of their own can be going on.
func (j *Job) abandon(ctx context.Context, rec *record, now time.Time) (crashed []Run, err error) {
	for i := range rec.Runs {
		run := &rec.Runs[i]
		if run.Outcome != Running {
			continue
		}
		if run.Lock != j.mutex.Name() {
			hold, err := j.beside(run.Tick).TryLock(ctx)
			if errors.Is(admin.Answer(err), lock.ErrHeld) {
				continue
			}
			if err != nil {
				return nil, err
			}
			unlock(hold)
		}
		run.Outcome, run.Ended = Unfinished, now
		crashed = append(crashed, *run)
	}
	return crashed, nil
}

// finish records the end of the run, unlocks its hold, calls Report, and returns the outcome. If
// finish cannot record the end, for example because the hold is lost, the outcome is Unfinished:
// only a later replica can record the end.
func (t *Turn) finish(outcome Outcome, why error) Outcome {
	run := t.run
	run.Outcome = outcome
	if why != nil {
		run.Error = textOf(why)
	}
	if err := t.record(&run); err != nil {
		run.Outcome, run.Error = Unfinished, textOf(errors.Join(err, why))
	}
	unlock(t.Hold)
	t.job.tell(run)
	return run.Outcome
}

// record writes the run's end into the job's record. It tries again until the hold ends: during an outage,
// and for a minute after another error that can pass.
func (t *Turn) record(run *Run) error {
	ctx := t.Hold.Context()
	for failed := 0; ; {
		err := t.recordOnce(ctx, run)
		switch {
		case err == errChanged:
		case err == nil || ctx.Err() != nil || !mends(err) || failed == 60:
			return err
		case !errors.Is(err, lock.ErrUnavailable):
			failed++
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// recordOnce tries once. It fails with errChanged as write does.
func (t *Turn) recordOnce(ctx context.Context, run *Run) error {
	now, err := t.job.now(ctx)
	if err != nil {
		return err
	}
	rec, version, err := t.job.read(ctx)
	if err != nil {
		return err
	}
	run.Ended = now
	rec.finish(*run)
	return t.job.write(ctx, t.Hold, rec, version)
}

// tell calls Report for runs that have ended.
func (j *Job) tell(runs ...Run) {
	for _, run := range runs {
		if j.report != nil {
			j.report(run)
		}
	}
}

// unlock unlocks a hold. It ignores an error, which the client has logged: the entry then expires.
func unlock(hold *lock.Hold) { _ = hold.Unlock() }

// during returns a context that ends with ctx, with the hold, or when the caller calls the
// function.
func during(ctx context.Context, hold *lock.Hold) (context.Context, func()) {
	inner, cancel := context.WithCancelCause(hold.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return inner, func() {
		stop()
		cancel(nil)
	}
}
