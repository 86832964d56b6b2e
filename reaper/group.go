package reaper

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/robfig/cron/v3"
)

// group has the policies with one schedule, which one sweep covers. A reload creates new groups.
type group struct {
	text     string
	schedule cron.Schedule // nil: a single sweep on request
	chosen   []policy.Rule
	*history
}

// history has the results of a schedule's sweeps, since the schedule came into force or this reaper
// became the active one. Monitor.mu guards it.
type history struct {
	from    time.Time // time at which the schedule came into force, or this reaper became active
	next    time.Time // time of the next sweep; zero: cron has not asked yet
	last    time.Time // start of the last complete sweep; zero: there was none
	skipped int       // number of skipped sweeps in a row
	failed  int       // number of failed sweeps in a row
	why     string    // error of the last sweep; "" if it was complete
	seen    Counts    // counts of the last complete sweep
}

func newGroup(text string, schedule cron.Schedule, policies []policy.Rule) *group {
	return &group{text: text, schedule: schedule, chosen: policies, history: new(history)}
}

// timing is the schedule of a group for cron. A reload does not change when the next sweep is due: if
// "@every" counted from the reload, frequent reloads would postpone all sweeps.
type timing struct {
	monitor *Monitor
	group   *group
	begun   bool
}

// Next implements [cron.Schedule]. The first call returns the due time from before a reload, if
// there is one.
func (t *timing) Next(now time.Time) time.Time {
	t.monitor.mu.Lock()
	defer t.monitor.mu.Unlock()
	if t.begun || t.group.next.IsZero() {
		t.group.next = t.group.schedule.Next(now)
	}
	t.begun = true
	return t.group.next
}

// sharesPolicy reports whether both groups have a policy of the same name, or of the same locks under
// another name.
func (g *group) sharesPolicy(other *group) bool {
	return slices.ContainsFunc(g.chosen, func(p policy.Rule) bool {
		return slices.ContainsFunc(other.chosen, func(q policy.Rule) bool { return p.Name == q.Name || p.Match == q.Match })
	})
}

// status returns the status of the group. running is the current sweep of its policies, nil if there is
// none.
func (g *group) status(now time.Time, running *progress) Schedule {
	s := Schedule{Schedule: g.text, Last: g.last, Skipped: g.skipped, Failed: g.failed, Next: g.next}
	for _, p := range g.chosen {
		s.Policies = append(s.Policies, p.Name)
	}
	var moved time.Time // when the running sweep last made progress
	if running != nil {
		s.Running, moved = running.status(now)
		if g.failed > 0 {
			moved = time.Time{}
		}
	}
	begun := g.from
	if g.last.After(begun) {
		begun = g.last
	}
	if late := overdue(g.schedule, begun, moved, now); late > 0 {
		s.Overdue, s.Late = true, late.Seconds()
	}
	return s
}

// A sweep may be late by the time between two sweeps, but at least by leastLate, and at most by
// mostLate.
const (
	leastLate = time.Minute
	mostLate  = time.Hour
)

// overdue returns how long a sweep has exceeded the allowed delay; 0 means it has not. last is when
// the last complete sweep began, moved when the running sweep last made progress.
func overdue(schedule cron.Schedule, last, moved, now time.Time) time.Duration {
	due := schedule.Next(last)
	if due.IsZero() {
		return 0
	}
	allowed := mostLate
	if next := schedule.Next(due); !next.IsZero() {
		allowed = min(max(next.Sub(due), leastLate), mostLate)
	}
	if now.Sub(moved) <= allowed {
		return 0
	}
	return max(0, now.Sub(due)-allowed)
}

// progress is the progress of a sweep: what its walkers and its deleter wait for, and the number of
// finished nodes.
type progress struct {
	group *group // group that is swept
	began time.Time
	found atomic.Int64 // known nodes
	done  atomic.Int64 // finished nodes

	mu     sync.Mutex
	moved  time.Time // when a wait last ended
	flight map[*waiting]struct{}
}

// waiting is a request in flight, or another wait of a sweep.
type waiting struct {
	what  string
	since time.Time
}

func newProgress(g *group) *progress {
	now := time.Now()
	return &progress{group: g, began: now, moved: now, flight: map[*waiting]struct{}{}}
}

// begin records the start of a wait, and returns the function that ends it.
func (p *progress) begin(what string) (end func()) {
	w := &waiting{what, time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flight[w] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.flight, w)
		p.moved = time.Now()
	}
}

// status returns the progress, and when a wait last ended.
func (p *progress) status(now time.Time) (s *Progress, moved time.Time) {
	s = &Progress{Began: p.began.UTC(), Found: int(p.found.Load()), Done: int(p.done.Load())}
	p.mu.Lock()
	defer p.mu.Unlock()
	since := now
	for w := range p.flight {
		if s.WaitsFor == "" || w.since.Before(since) {
			s.WaitsFor, since = w.what, w.since
		}
	}
	s.Waits = now.Sub(since).Seconds()
	return s, p.moved
}
