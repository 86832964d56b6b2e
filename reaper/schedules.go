package reaper

import (
	"context"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock"
)

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
