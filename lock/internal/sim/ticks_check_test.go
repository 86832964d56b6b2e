// Jobs, and the promises about their ticks.

package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/schedule"
)

func (s *tickSim) job(c *lock.Client, killed func() bool) *schedule.Job {
	opts := s.opts
	opts.Report = func(run schedule.Run) {
		if killed() {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tally["runs "+string(run.Outcome)]++
		switch run.Outcome {
		case schedule.Unfinished:
			s.told[run.Tick.UnixNano()] = true
			for _, known := range s.runs[run.Tick.UnixNano()] {
				if known.token.String() == run.Token && s.kept(known) {
					s.violated("the run of %v by %s is told as unfinished, which had ended, and which nothing disturbed", run.Tick, known.replica)
				}
			}
		default:
			s.recorded[run.Tick.UnixNano()] = true
		}
	}
	job, err := schedule.New(c, "job", cron.Every(s.interval), opts)
	if err != nil {
		s.Fatal(err)
	}
	return job
}

// work returns the function of a replica's job, which checks that it may run now.
func (s *tickSim) work(label string, killed func() bool, r *rand.Rand) schedule.Func {
	return func(ctx context.Context, turn *schedule.Turn) error {
		if killed() {
			return nil
		}
		run := &tickRun{replica: label, token: turn.Hold.Token(), ctx: ctx, killed: killed, began: time.Now()}
		s.begin(turn, run)
		s.mu.Lock()
		lasts := between(r, 0, s.lasts)
		s.mu.Unlock()
		var err error
		select {
		case <-time.After(lasts):
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		run.ended, run.whole = true, err == nil
		return err
	}
}

// begin checks a run when it begins, and records it.
func (s *tickSim) begin(turn *schedule.Turn, run *tickRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tick := turn.Tick.UnixNano()
	if early := time.Until(turn.Tick); early > s.grace && !s.displaced {
		s.violated("%s runs %v %v before its time", run.replica, turn.Tick, early)
	}
	if n := len(s.runs[tick]); n > 0 && !s.opts.AtLeastOnce {
		s.violated("%s runs %v, which %s has run", run.replica, turn.Tick, s.runs[tick][n-1].replica)
	}
	if s.recorded[tick] {
		s.violated("%s runs %v again, whose end was recorded", run.replica, turn.Tick)
	}
	for _, earlier := range s.runs[tick] {
		if s.kept(earlier) {
			s.violated("%s runs %v again, although the run by %s had ended, and nothing disturbed that", run.replica, turn.Tick, earlier.replica)
		}
	}
	for at, runs := range s.runs {
		for _, other := range runs {
			going := !other.ended && !other.killed() && other.ctx.Err() == nil
			if s.opts.Overlap != schedule.OverlapBeside && going {
				s.violated("%s runs %v while %s runs %v", run.replica, turn.Tick, other.replica, time.Unix(0, at))
			}
			if at == tick && run.token.Compare(other.token) <= 0 {
				s.violated("%s runs %v with token %v, after token %v", run.replica, turn.Tick, run.token, other.token)
			}
		}
	}
	s.runs[tick] = append(s.runs[tick], run)
	s.tally["runs"]++
}

// kept reports whether a run has ended by itself, and nothing has disturbed its replica since it
// began; s.mu is held.
func (s *tickSim) kept(run *tickRun) bool {
	since, undisturbed := s.since[run.replica]
	return run.whole && undisturbed && since.Before(run.began)
}

// check checks that no tick was missed that a replica could have run.
func (s *tickSim) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ticks []int64
	for tick := range s.runs {
		ticks = append(ticks, tick)
	}
	if len(ticks) == 0 {
		s.violated("no tick ran")
		return
	}
	slices.Sort(ticks)
	last := ticks[len(ticks)-1]
	if end, _ := s.until.Deadline(); !s.displaced {
		last = max(last, end.Add(-s.opts.Late).Truncate(s.interval).UnixNano())
	}
	for tick := ticks[0]; tick <= last; tick += int64(s.interval) {
		s.tally["ticks"]++
		if _, promised := s.undisturbed(time.Unix(0, tick)); promised && !s.displaced {
			s.tally["ticks that must not be missed"]++
		}
		if s.runs[tick] != nil || s.told[tick] {
			continue
		}
		if s.displaced {
			s.tally["ticks over which clocks jumped"]++
			continue
		}
		s.tally["ticks missed while none could run them"]++
		switch free, enough := s.undisturbed(time.Unix(0, tick)); {
		case enough:
			s.violated("%v was missed, although a replica and the servers were undisturbed for %v", time.Unix(0, tick).UTC(), free)
		case s.opts.Missed == schedule.RunAll && tick < ticks[len(ticks)-1]:
			s.violated("%v was missed, although a later tick ran, and all were to run", time.Unix(0, tick).UTC())
		}
	}
}

// undisturbed returns for how long a replica and the servers were undisturbed while a tick could
// start, and whether that was long enough.
func (s *tickSim) undisturbed(tick time.Time) (longest time.Duration, enough bool) {
	for _, span := range s.spans {
		from, to := span.from, span.to
		if begin := tick.Add(s.grace); from.Before(begin) { // the leader's clock may be so far off
			from = begin
		}
		if end := tick.Add(s.opts.Late - s.grace); to.After(end) {
			to = end
		}
		longest = max(longest, to.Sub(from))
	}
	return longest, longest > s.patience
}
