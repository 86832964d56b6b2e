package reaper

import (
	"context"
	"time"

	"github.com/rs/zerolog"
)

// announce writes the first log line of a reaper. It returns false if the line was written before.
func (m *Monitor) announce(log zerolog.Logger, o Options, state State, active string) bool {
	if m.announced.Swap(true) {
		return false
	}
	event := log.Info().Str("version", m.status.About.Version).Str("configuration", m.status.About.File).
		Strs("servers", m.status.About.Servers).Str("root", m.status.About.Root).Strs("schedules", o.schedules()).Str("lock", o.Lock).Str("state", string(state))
	if state == Standby {
		event.Str("active", active)
	}
	event.Msg("reaper started")
	return true
}

// tell logs the result of a sweep. before is the history of its schedule without this sweep.
func (r *Reaper) tell(ctx context.Context, report *Report, found *findings, err error, before history) {
	r.tellFound(report, found, err == nil)
	if err == nil && before.failed > 0 {
		r.log.Info().Str("schedule", report.Schedule).Int("failed_in_a_row", before.failed).Msg("sweeps succeed again")
	}
	t := report.Total
	event, message := r.log.Debug(), "swept"
	switch {
	case report.Skipped != "":
		event, message = r.log.Info(), "sweep skipped: another reaper is the active one"
	case err != nil && ctx.Err() != nil && !r.lost():
		event, message = r.log.Info(), "sweep stopped before its end"
	case err != nil && (before.why != err.Error() || again(before.failed+1)):
		event, message = r.log.Error(), "sweep failed"
	case err != nil:
		message = "sweep failed"
	case t.Deleted > 0 || len(report.Planned) > 0 || before.skipped > 0:
		// If sweeps were skipped, the log has said that this one is still running: log its end, too.
		event = r.log.Info()
	}
	if len(report.Undecodable) > 0 {
		event.Str("first_undecodable", report.Undecodable[0])
	}
	if len(report.Denied) > 0 {
		event.Str("first_denied", report.Denied[0].Path)
	}
	if err != nil && before.failed > 0 {
		event.Int("failed_in_a_row", before.failed+1)
	}
	if before.skipped > 0 {
		event.Int("skipped_meanwhile", before.skipped)
	}
	if report.Schedule != "" {
		event.Str("schedule", report.Schedule)
	}
	event.AnErr("incomplete", err).Bool("dry_run", report.DryRun).Int("locks", t.Locks).Int("live", t.Live).
		Int("expired", t.Expired).Int("orphans", t.Orphans).Int("ancestors", t.Ancestors).Int("stale", t.Stale).
		Int("deleted", t.Deleted).Int("missed", t.Missed).Int("foreign", t.Foreign).Int("undecodable", t.Undecodable).Int("denied", t.Denied).
		Stringer("took", report.Duration).Msg(message)
}

// lost reports whether the hold of this active reaper is lost.
func (r *Reaper) lost() bool {
	hold := r.hold.Load()
	return hold != nil && hold.Err() != nil
}

// tellings has the log messages of each finding: what it is, when it first appears, and when it
// ends.
var tellings = [kinds]struct{ is, appears, goes string }{
	{"denied", "denied by an ACL: the node is left alone, and logged once", "the ACL lets us now, or the node has gone"},
	{"damaged", "damaged or of a newer version: the node is left alone, blocks its lock, and is logged once", "the node has gone, or was written anew"},
	{"worn", "worn: the lock has used up more than half of the counter of its entries, because its node never goes; end the use of locks below it, or of a policy that keeps it", "the node was made anew"},
	{"copied", "copied: the entry was copied with its lock's node, and other clients wait until its lease is over", "the entry has gone"},
}

// tellFound logs the nodes that an operator should look at: each when it first appears, and when its
// problem has ended. Of more than maxNamed nodes at a time, it logs the first ones and the number of
// the rest.
func (r *Reaper) tellFound(report *Report, found *findings, complete bool) {
	tell := func(level zerolog.Level, nodes []Denial, message, more string) {
		for _, n := range nodes[:min(len(nodes), maxNamed)] {
			event := r.log.WithLevel(level).Str("path", n.Path).Str("what", n.What)
			if n.Error != "" {
				event.Str("error", n.Error)
			}
			event.Msg(message)
		}
		if n := len(nodes) - maxNamed; n > 0 {
			r.log.WithLevel(level).Int("more", n).Msg(more)
		}
	}
	for i, says := range tellings {
		appeared, gone := r.told[i].update(report.Schedule, &found[i], complete)
		tell(zerolog.WarnLevel, appeared, says.appears, "and more are "+says.is)
		tell(zerolog.InfoLevel, gone, says.is+" no more: "+says.goes, "and more are "+says.is+" no more")
	}
}

// summaryInterval is the interval of a reaper's log summaries.
const summaryInterval = time.Hour

// summarize logs a summary of each hour, until ctx ends.
func (r *Reaper) summarize(ctx context.Context) {
	hourly := time.NewTicker(summaryInterval)
	defer hourly.Stop()
	var last Status
	var before Counts
	for {
		select {
		case <-hourly.C:
		case <-ctx.Done():
			return
		}
		s, totals, seen := r.monitor.tally()
		r.log.Info().Str("state", string(s.State)).Time("since", s.Since.UTC()).Str("active", s.ActiveReaper).
			Uint64("sweeps", s.Sweeps-last.Sweeps).Uint64("failed", s.Failed-last.Failed).Uint64("skipped", s.Skipped-last.Skipped).
			Int("purged", totals.Purged-before.Purged).Int("pruned", totals.Pruned-before.Pruned).
			Int("deleted", totals.Deleted-before.Deleted).Int("missed", totals.Missed-before.Missed).
			Int("locks", seen.Locks).Int("live", seen.Live).Int("denied", seen.Denied).Int("undecodable", seen.Undecodable).
			Uint64("sessions_lost", s.Session.Losses-last.Session.Losses).Stringer("without_session", seconds(s.Session.Away-last.Session.Away)).
			Msg("summary of the last hour")
		last, before = s, totals
	}
}

// tally returns the data of a summary: the status, the counts since the start, and the sum of the
// counts of each schedule's last complete sweep.
func (m *Monitor) tally() (s Status, totals, seen Counts) {
	s = m.Status()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.groups {
		seen.Locks += g.seen.Locks
		seen.Live += g.seen.Live
		seen.Denied += g.seen.Denied
		seen.Undecodable += g.seen.Undecodable
	}
	return s, m.totals, seen
}
