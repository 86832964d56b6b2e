package reaper

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/robfig/cron/v3"
	"github.com/rs/zerolog"
)

// Run sweeps by the policies' schedules, while this reaper is the active one,
// until ctx ends. A sweep that is still going when its time comes again is not
// started twice, and one that panics is logged and does not end the others. An
// outage of ZooKeeper is waited out. It returns nil when ctx has ended and the
// batch at hand is finished; what an outage keeps from being deleted then expires.
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
	r.noRoot(ctx) // which logs it; our own lock makes one
	for {
		hold, err := r.turn(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		default:
			return fmt.Errorf("become the active reaper: %w", err)
		}
		r.lends(hold)
		r.serve(ctx, hold)
		r.lends(nil)
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
		r.log.Warn().Err(err).Msg("not the active reaper any more; standing by")
	}
}

// turn waits until this reaper is the active one.
func (r *Reaper) turn(ctx context.Context) (*lock.Hold, error) {
	hold, err := r.leader.TryLock(ctx)
	if held := (*lock.HeldError)(nil); errors.As(err, &held) {
		self, active := "", nameOf(held.Owner, held.Host, held.PID)
		if r.isOwn(held.Entry) {
			self, active = active, ""
		}
		r.monitor.step(Standby, active)
		switch announced := r.announce(Standby); {
		case self != "":
			r.log.Info().Time("lease_ends", held.Expires.UTC()).Msg("standing by: this reaper's own entry of before has not expired yet")
		case !announced:
			r.log.Info().Str("active", active).Msg("standing by: another reaper is the active one")
		}
		waiting, stop := context.WithCancel(ctx)
		var following sync.WaitGroup
		following.Go(func() { r.followActive(waiting, self) })
		hold, err = r.leader.Lock(ctx)
		stop()
		following.Wait()
	}
	if err != nil {
		return nil, err
	}
	r.entered(hold)
	r.monitor.step(Active, "")
	r.announce(Active)
	r.log.Info().Str("lock", hold.Name()).Stringer("token", hold.Token()).Msg("active: sweeping by schedule")
	return hold, nil
}

// nameOf is what a reaper is called in logs.
func nameOf(owner, host string, pid int) string {
	if owner == "" {
		return "unknown"
	}
	return fmt.Sprintf("%s (host %s, pid %d)", owner, host, pid)
}

// followInterval is how often a reaper that stands by checks which one is active.
const followInterval = time.Minute

// followActive keeps track of which reaper is active, until ctx ends. Self is what this reaper
// is called, if an entry of its own is in the lock; otherwise "".
func (r *Reaper) followActive(ctx context.Context, self string) {
	again := time.NewTicker(followInterval)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
		limited, cancel := context.WithTimeout(ctx, followInterval/2)
		s, err := r.tree.Inspect(limited, r.lock)
		cancel()
		if err != nil || len(s.Contenders) == 0 { // an outage is told of elsewhere
			continue
		}
		first := s.Contenders[0]
		if name := nameOf(first.Owner, first.Host, first.PID); name != self && r.monitor.activeIs(name) {
			r.log.Info().Str("active", name).Msg("another reaper is the active one now")
		}
	}
}

// serve runs the schedules until the hold or ctx ends, and waits for the sweeps
// that run.
func (r *Reaper) serve(ctx context.Context, hold *lock.Hold) {
	active, cancel := context.WithCancelCause(hold.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	defer r.monitor.schedules(nil)
	var under sync.WaitGroup // way
	defer under.Wait()
	for active.Err() == nil {
		in, reloaded := r.now()
		c := newCron(r.log)
		groups := in.groups()
		r.monitor.schedules(groups)
		for _, g := range groups {
			c.Schedule(&timing{r.monitor, g, false}, cron.FuncJob(func() { r.scheduled(active, in, g) }))
		}
		c.Start()
		select {
		case <-active.Done():
		case <-reloaded:
		}
		stopped := c.Stop() // before another one asks what is due
		under.Go(func() { <-stopped.Done() })
	}
}

// scheduled makes the sweep of a group that is due, unless the one before is under way.
func (r *Reaper) scheduled(ctx context.Context, in *setup, g *group) {
	p := newProgress(g)
	if skipped, before := r.monitor.begin(p); before != nil {
		r.tellSkipped(g, skipped, before)
		return
	}
	defer r.monitor.over(p)    // also after a panic
	_, _ = r.sweep(ctx, in, p) // which tells of its error
}

// tellSkipped says that a sweep is not begun, and why.
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

// again says which of many that are alike in a row are told: the first, the second, the
// fourth and so on.
func again(inARow int) bool { return bits.OnesCount(uint(inARow)) == 1 }

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

// newCron returns a cron that goes on after a job that panics.
func newCron(log zerolog.Logger) *cron.Cron {
	l := cronLog{log}
	return cron.New(cron.WithLogger(l), cron.WithChain(cron.Recover(l)))
}

// cronLog passes on what cron logs: panics.
type cronLog struct{ log zerolog.Logger }

func (l cronLog) Info(msg string, pairs ...any) { l.log.Debug().Fields(pairs).Msg(msg) }

func (l cronLog) Error(err error, msg string, pairs ...any) {
	l.log.Error().Err(err).Fields(pairs).Msg("sweep: " + msg)
}
