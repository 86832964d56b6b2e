package reaper

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/rs/zerolog"
)

// announce writes the one line with which a reaper begins, and reports whether it has:
// it is written once.
func (m *Monitor) announce(log zerolog.Logger, o Options, state State) bool {
	m.mu.Lock()
	first := !m.announced
	m.announced = true
	active := m.active
	m.mu.Unlock()
	if !first {
		return false
	}
	event := log.Info().Str("version", m.about.Version).Str("configuration", m.about.File).
		Strs("servers", m.about.Servers).Str("root", m.about.Root).Strs("schedules", o.schedules()).Str("lock", o.Lock).Str("state", string(state))
	if state == Standby {
		event.Str("active", active)
	}
	event.Msg("reaper started")
	return true
}

func (r *Reaper) announce(state State) bool {
	in, _ := r.now()
	return r.monitor.announce(r.log, in.options, state)
}

// tell logs what came of a sweep.
func (r *Reaper) tell(ctx context.Context, report *Report, found *findings, err error, row row) {
	r.tellFound(report, found, err == nil)
	if err == nil && row.before > 0 {
		r.log.Info().Str("schedule", report.Schedule).Int("failed_in_a_row", row.before).Msg("sweeps succeed again")
	}
	t := report.Total
	event, message := r.log.Debug(), "swept"
	switch {
	case errors.Is(err, lock.ErrHeld):
		event, message = r.log.Info(), "sweep skipped: another reaper is the active one"
	case err != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), lock.ErrLost):
		event, message = r.log.Info(), "sweep stopped before its end"
	case err != nil && (row.news || again(row.failed)):
		event, message = r.log.Error(), "sweep failed"
	case err != nil:
		message = "sweep failed"
	case t.Deleted > 0 || len(report.Planned) > 0 || row.skipped > 0: // or the log has said that it still runs
		event = r.log.Info()
	}
	if len(report.Undecodable) > 0 {
		event.Str("first_undecodable", report.Undecodable[0])
	}
	if len(report.Format1) > 0 {
		event.Int("format_1", t.Format1).Str("first_format_1", report.Format1[0])
	}
	if len(report.Denied) > 0 {
		event.Str("first_denied", report.Denied[0].Path)
	}
	if row.failed > 1 {
		event.Int("failed_in_a_row", row.failed)
	}
	if row.skipped > 0 {
		event.Int("skipped_meanwhile", row.skipped)
	}
	if report.Schedule != "" {
		event.Str("schedule", report.Schedule)
	}
	event.AnErr("incomplete", err).Bool("dry_run", report.DryRun).Int("locks", t.Locks).Int("live", t.Live).
		Int("expired", t.Expired).Int("orphans", t.Orphans).Int("ancestors", t.Ancestors).Int("moot", t.Moot).
		Int("deleted", t.Deleted).Int("missed", t.Missed).Int("foreign", t.Foreign).Int("undecodable", t.Undecodable).Int("denied", t.Denied).
		Stringer("took", report.Duration).Msg(message)
}

// tellFound logs the nodes that an operator should look at: each once when it is first met,
// and once when it is no more.
func (r *Reaper) tellFound(report *Report, found *findings, complete bool) {
	for _, f := range []struct {
		told                        *told
		seen                        *denials
		all                         int
		appears, more, goes, goMore string
	}{{
		&r.toldDenied, &found.denied, report.Total.Denied,
		"denied by an ACL: what it forbids is left alone, and told of once", "and more are denied",
		"denied no more: the ACL lets us now, or the node has gone", "and more are denied no more",
	}, {
		&r.toldUndecodable, &found.undecodable, report.Total.Undecodable,
		"damaged or of a newer version: the node is left alone, blocks its lock, and is told of once", "and more are damaged or of a newer version",
		"damaged no more: the node has gone, or was written anew", "and more are damaged no more",
	}, {
		&r.toldFormat1, &found.format1, report.Total.Format1,
		"of format 1: the node is left alone, blocks its lock, and is told of once", "and more are of format 1",
		"of format 1 no more: the node has gone, or was written anew", "and more are of format 1 no more",
	}} {
		appeared, gone := f.told.update(report.Schedule, f.seen, complete)
		for i, n := range appeared {
			if i == maxNamed {
				r.log.Warn().Int("more", len(appeared)-i).Int("all", f.all).Msg(f.more)
				break
			}
			event := r.log.Warn().Str("path", n.Path).Str("what", n.What)
			if n.Error != "" {
				event.Str("error", n.Error)
			}
			event.Msg(f.appears)
		}
		for i, n := range gone {
			if i == maxNamed {
				r.log.Info().Int("more", len(gone)-i).Msg(f.goMore)
				break
			}
			r.log.Info().Str("path", n.Path).Str("what", n.What).Msg(f.goes)
		}
	}
}

// summaryInterval is how often a reaper says that it is there.
const summaryInterval = time.Hour

// summarize logs what came of each hour, until ctx ends.
func (r *Reaper) summarize(ctx context.Context) {
	hourly := time.NewTicker(summaryInterval)
	defer hourly.Stop()
	var last tally
	for {
		select {
		case <-hourly.C:
		case <-ctx.Done():
			return
		}
		now := r.monitor.tally()
		r.log.Info().Str("state", string(now.state)).Time("since", now.since.UTC()).Str("active", now.active).
			Uint64("sweeps", now.sweeps-last.sweeps).Uint64("failed", now.failed-last.failed).Uint64("skipped", now.skipped-last.skipped).
			Int("purged", now.counts.Purged-last.counts.Purged).Int("pruned", now.counts.Pruned-last.counts.Pruned).
			Int("deleted", now.counts.Deleted-last.counts.Deleted).Int("missed", now.counts.Missed-last.counts.Missed).
			Int("locks", now.locks).Int("live", now.live).Int("denied", now.denied).Int("undecodable", now.undecodable).
			Uint64("sessions_lost", now.losses-last.losses).Stringer("without_session", (now.away - last.away).Round(time.Millisecond)).
			Msg("summary of the last hour")
		last = now
	}
}

// tally is what a summary is made of: numbers since the start, and what the last sweep
// of each schedule has seen.
type tally struct {
	state                            State
	since                            time.Time
	active                           string
	sweeps, failed, skipped, losses  uint64
	away                             time.Duration
	counts                           Counts
	locks, live, denied, undecodable int
}

func (m *Monitor) tally() tally {
	s := m.Status()
	m.mu.Lock()
	defer m.mu.Unlock()
	t := tally{
		state: s.State, since: s.Since, active: s.ActiveReaper, sweeps: s.Sweeps, failed: s.Failed, skipped: s.Skipped,
		losses: s.Session.Losses, away: seconds(s.Session.Away), counts: m.totals,
	}
	for _, g := range m.groups {
		t.locks += g.seen.Locks
		t.live += g.seen.Live
		t.denied += g.seen.Denied
		t.undecodable += g.seen.Undecodable
	}
	return t
}
