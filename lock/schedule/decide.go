package schedule

import "time"

// plan is a schedule and the policies for its ticks.
type plan struct {
	ticks
	atLeastOnce bool
	missed      Missed
	limit       int           // Options.Limit
	late        time.Duration // Options.Late
	overlap     Overlap
}

// moment is the time at which a replica decides, in ensemble time.
type moment struct {
	now time.Time
	// waited is the time from which this replica waited for a run that has crashed; zero if no run
	// has crashed. Ticks after waited were not missed: no replica could take them while that run
	// seemed to go on.
	waited time.Time
}

// span is an interval of time that excludes after and includes until.
type span struct{ after, until time.Time }

func (s span) has(t time.Time) bool { return t.After(s.after) && !t.After(s.until) }

// decide returns the tick to run now, which is zero if none is due, and the ticks after rec.Upto
// that never run, nil if there are none. No other code decides this.
//
//	a tick that                                 decision
//	was interrupted, with AtLeastOnce           runs again, before all other ticks
//	came due during the last run                runs, or with OverlapSkip is skipped
//	is older than Late, as is the last          is missed: see afterMissed
//	  run's end
//	is due otherwise                            runs
//
// If the record was written with another schedule, ticks older than Late were never due: none of
// them runs, whatever the policy for missed ticks is.
//
// When a tick runs again, the ticks after it are decided in the same call. Otherwise they would
// look missed once that run has ended.
func (p *plan) decide(rec *record, at moment) (tick time.Time, skip *Skipped) {
	run, from, again := rec.last(), rec.Upto, time.Time{}
	if run.Tick.After(from) && run.Outcome == Unfinished {
		again, from = run.Tick, rec.after(run.Tick)
	}
	first := p.next(from)
	if first.IsZero() || first.After(at.now) {
		return again, nil
	}
	busy := span{run.Started, run.Ended}
	if p.overlap == OverlapBeside {
		busy.until = busy.after
	}
	missed, until := at.now.Add(-p.late), at.now
	if !missed.After(busy.until) {
		missed = time.Time{}
	}
	if !at.waited.IsZero() {
		busy = span{at.waited, at.now}
		missed = at.waited.Add(-p.late)
		if p.overlap == OverlapSkip {
			until = at.waited
		}
	}
	tick = p.afterBusy(first, busy)
	policy, why, reason := p.missed, Overlapped, Missing
	if rec.planned && !rec.Next.Equal(p.next(rec.Upto)) {
		policy, reason, missed = Skip, Rescheduled, at.now.Add(-p.late)
	}
	if kept := p.afterMissed(tick, missed, until, policy); !kept.Equal(tick) {
		tick, why = kept, reason
	}
	tick = p.afterBusy(tick, busy)

	due := !tick.IsZero() && !tick.After(at.now)
	if !due {
		tick = time.Time{}
	}
	switch {
	case !due:
		skip = &Skipped{First: first, Last: p.last(from, at.now), Why: why}
	case tick.After(first):
		skip = &Skipped{First: first, Last: p.last(from, tick.Add(-1)), Why: why}
	}
	if !again.IsZero() {
		tick = again
	}
	return tick, skip
}

// afterBusy returns the given tick, or with OverlapSkip the first one after busy if the given tick
// lies within busy.
func (p *plan) afterBusy(tick time.Time, busy span) time.Time {
	if p.overlap == OverlapSkip && busy.has(tick) {
		return p.next(busy.until)
	}
	return tick
}

// afterMissed returns the first tick, from the given one on, that the policy for missed ticks runs.
// Ticks up to the time missed were missed. RunLast runs none of them if another tick is due by
// until.
func (p *plan) afterMissed(tick, missed, until time.Time, policy Missed) time.Time {
	if tick.After(missed) {
		return tick
	}
	before := tick.Add(-1)
	switch next := p.next(missed); {
	case policy == RunAll:
		return p.newest(p.limit, before, missed)
	case policy == RunLast && (next.IsZero() || next.After(until)):
		return p.last(before, missed)
	default:
		return next
	}
}
