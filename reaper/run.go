package reaper

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/robfig/cron/v3"
	"github.com/rs/zerolog"
)

// The pause before the next attempt to become the active reaper doubles after each error that can pass.
const (
	firstPause = 5 * time.Second
	mostPause  = 5 * time.Minute
)

// Run sweeps by the policies' schedules while this reaper is the active one, until ctx ends. If a
// sweep is still running when the next one is due, the next one is skipped. If a sweep panics, Run
// logs that and continues. An outage of ZooKeeper does not end Run, nor does another error that can
// pass, such as an exceeded quota: Run logs it and tries again, after pauses of 5 s to 5 min.
//
// When ctx has ended, Run finishes the deletes in flight, releases its lock, and returns nil. If there
// is no session, Run returns nil too, and the lock's entry expires. Run returns an error if the release
// fails for another reason, or if Run cannot acquire its lock, for example because an ACL denies it.
// After a loss of the lock, the reaper stands by, and Run continues.
func (r *Reaper) Run(ctx context.Context) error {
	if ctx == nil {
		return errNoContext
	}
	aside, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() { r.watchSession(aside) })
	watching.Go(func() { r.summarize(aside) })
	watching.Go(func() { r.watchLeader(aside) })
	r.noRoot(ctx) // only to log it: the lock of the active reaper creates the root
	for pause := firstPause; ; {
		hold, err := r.turn(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case admin.Mends(err):
			r.log.Error().Err(err).Int("failures", r.monitor.fails(err)).Stringer("again_in", pause).
				Msg("cannot become the active reaper: trying again")
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil
			}
			pause = min(2*pause, mostPause)
			continue
		default:
			return fmt.Errorf("become the active reaper: %w", err)
		}
		pause = firstPause
		r.hold.Store(hold)
		r.serve(ctx, hold)
		r.hold.Store(nil)
		err = hold.Unlock()
		switch {
		case ctx.Err() != nil && (err == nil || errors.Is(err, lock.ErrLost)):
			return nil
		case ctx.Err() != nil && !r.tree.Session().Connected:
			r.log.Warn().Err(err).Msg("stopped without a session: its entry is left to expire, and another reaper is active after the TTL and the grace of its policy")
			return nil
		case ctx.Err() != nil:
			return err
		}
		r.monitor.step(Standby, "")
		r.log.Warn().Err(err).Msg("no longer the active reaper; standing by")
	}
}

// turn waits until this reaper is the active one, and returns its hold of the reaper's lock. It records
// and logs whether this reaper stands by or is active.
func (r *Reaper) turn(ctx context.Context) (*lock.Hold, error) {
	hold, err := r.leader.TryLock(ctx)
	if held := (*lock.HeldError)(nil); errors.As(admin.Answer(err), &held) {
		self, active := "", nameOf(held.Owner, held.Host, held.PID)
		if last := r.last.Load(); last != nil && last.EntryPath() == held.Entry {
			self, active = active, ""
		}
		r.monitor.step(Standby, active)
		switch announced := r.monitor.announce(r.log, r.setup.Load().options, Standby, active); {
		case self != "":
			r.log.Info().Time("lease_ends", held.Expires.UTC()).Msg("standing by: this reaper's own entry of before has not expired yet")
		case !announced:
			r.log.Info().Str("active", active).Msg("standing by: another reaper is the active one")
		}
		hold, err = r.leader.Lock(ctx)
	}
	if err != nil {
		return nil, err
	}
	r.last.Store(hold)
	r.monitor.step(Active, "")
	r.monitor.announce(r.log, r.setup.Load().options, Active, "")
	r.log.Info().Str("lock", hold.Name()).Stringer("token", hold.Token()).Msg("active: sweeping by schedule")
	return hold, nil
}

// nameOf returns the name of a reaper for logs; "unknown" without an owner.
func nameOf(owner, host string, pid int) string {
	if owner == "" {
		return "unknown"
	}
	return fmt.Sprintf("%s (host %s, pid %d)", owner, host, pid)
}

// serve runs the schedules, after a reload the new ones, until the hold or ctx ends. Then it waits
// for the running sweeps.
func (r *Reaper) serve(ctx context.Context, hold *lock.Hold) {
	active, cancel := context.WithCancelCause(hold.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	defer r.monitor.schedules(nil)
	var under sync.WaitGroup // running sweeps
	defer under.Wait()
	for active.Err() == nil {
		in := r.setup.Load()
		r.monitor.schedules(in.groups)
		c := newCron(r.log)
		for _, g := range in.groups {
			c.Schedule(&timing{r.monitor, g, false}, cron.FuncJob(func() { r.scheduled(active, in, g) }))
		}
		c.Start()
		select {
		case <-active.Done():
		case <-in.replaced:
		}
		stopped := c.Stop() // before the next cron starts
		under.Go(func() { <-stopped.Done() })
	}
}

// scheduled runs the due sweep of a group. If a scheduled sweep of one of its policies is still
// running, scheduled skips this one.
func (r *Reaper) scheduled(ctx context.Context, in *setup, g *group) {
	p := newProgress(g)
	if skipped, before := r.monitor.begin(p); before != nil {
		r.tellSkipped(g, skipped, before)
		return
	}
	defer r.monitor.over(p)    // also after a panic
	_, _ = r.sweep(ctx, in, p) // sweep logs the error
}

// tellSkipped logs that a sweep is skipped, and what the running sweep waits for. It logs only the
// first, second, fourth skipped sweep in a row, and so on.
func (r *Reaper) tellSkipped(g *group, inARow int, before *Progress) {
	if !again(inARow) {
		return
	}
	event := r.log.Warn().Str("schedule", g.text).Int("skipped_in_a_row", inARow).
		Stringer("runs_for", time.Since(before.Began).Round(time.Millisecond)).Int("visited", before.Done).Int("found", before.Found)
	if before.WaitsFor != "" {
		event.Str("waits_for", before.WaitsFor).Stringer("waits", seconds(before.Waits))
	}
	if !r.tree.Session().Connected {
		event.Bool("session", false)
	}
	event.Msg("the sweep before is still running: this one is skipped")
}

// again reports whether to log an event that has occurred inARow times in a row: true for 1, 2, 4, 8
// and so on.
func again(inARow int) bool { return bits.OnesCount(uint(inARow)) == 1 }

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

// newCron returns a cron that continues after a job panics.
func newCron(log zerolog.Logger) *cron.Cron {
	l := cronLog{log}
	return cron.New(cron.WithLogger(l), cron.WithChain(cron.Recover(l)))
}

// cronLog writes cron's log lines to the reaper's log: panics as errors, other lines as debug.
type cronLog struct{ log zerolog.Logger }

func (l cronLog) Info(msg string, pairs ...any) { l.log.Debug().Fields(pairs).Msg(msg) }

func (l cronLog) Error(err error, msg string, pairs ...any) {
	l.log.Error().Err(err).Fields(pairs).Msg("sweep: " + msg)
}
