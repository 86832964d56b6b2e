package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
)

// shardFigures are what the history of a system shows, between two moments.
type shardFigures struct {
	writes   int
	refused  int           // writes of a past owner that the store refuses by their tokens
	accepted int           // writes of a past owner, while its successor works, that the store cannot refuse
	inTime   int           // refused writes of a process that surely owned the shard
	double   time.Duration // with two processes at work, summed over the shards
	none     time.Duration // with none, summed over the shards
	longest  time.Duration // the longest time without one, of any shard
	whose    string        // the shard of longest, and its past owner
	moves    int           // shards that went to another process
}

// ledger is what is known at a record of the history.
type ledger struct {
	shardFigures
	from, to monotonic.Instant
	now      monotonic.Instant
	shards   [shards]state
	stopped  map[string]bool
	own      map[string]int // number of shards at which each process is at work
	fullness float64        // seconds, each times the share of the process with the most shards, of the mean share
}

// state is the state of a shard.
type state struct {
	working map[string]bool
	atWork  int           // of these, those that are not stopped
	owner   string        // the process that began last
	highest string        // token
	none    time.Duration // for how long no process has been at work
}

// judgeShards returns what a history shows between two moments, and what is known at the second one. The
// order of its writes in time is that of the store.
func judgeShards(records []*crew.Record, from, to monotonic.Instant) *ledger {
	l := &ledger{from: from, to: to, stopped: map[string]bool{}}
	for i := range l.shards {
		l.shards[i].working = map[string]bool{}
	}
	for _, r := range slices.SortedStableFunc(slices.Values(records), func(a, b *crew.Record) int { return cmp.Compare(a.Call, b.Call) }) {
		if r.Call > to {
			break
		}
		l.pass(r.Call)
		l.record(r)
	}
	l.pass(to)
	return l
}

func (l *ledger) cells() []any {
	fullest := l.fullness / time.Duration(l.to-l.from).Seconds()
	return []any{l.writes, l.refused, l.accepted, l.inTime, fmt.Sprintf("%.3f", l.double.Seconds()), fmt.Sprintf("%.1f", l.none.Seconds()),
		fmt.Sprintf("%.1f s (%s)", l.longest.Seconds(), l.whose), l.moves, fmt.Sprintf("%.2f", fullest)}
}

// uneven tells the shares of a system's processes at a moment, if a shard has no owner or several, or if
// Holdfast's shares are not equal.
func uneven(t *crew.Team, at monotonic.Instant) string {
	l := judgeShards(t.History.All(), at, at)
	wrong := 0
	for i := range l.shards {
		if l.shards[i].atWork != 1 {
			wrong++
		}
	}
	if wrong == 0 && (!ours(t.Name) || len(l.own) == processes && l.most() == shards/processes) {
		return ""
	}
	return fmt.Sprintf("%v, and %d shards have no owner or several", l.own, wrong)
}

// most returns the number of shards of the process with the most.
func (l *ledger) most() int { return slices.Max(append(slices.Collect(maps.Values(l.own)), 0)) }

// count counts which processes work on which shards. A stopped process does not work.
func (l *ledger) count() {
	l.own = map[string]int{}
	for i := range l.shards {
		s := &l.shards[i]
		s.atWork = 0
		for process := range s.working {
			if !l.stopped[process] {
				l.own[process]++
				s.atWork++
			}
		}
	}
}

// pass adds the time up to a moment.
func (l *ledger) pass(at monotonic.Instant) {
	since, until := max(l.now, l.from), min(at, l.to)
	if l.now = max(l.now, at); until <= since {
		return
	}
	d, all := time.Duration(until-since), 0
	for i := range l.shards {
		s := &l.shards[i]
		all += s.atWork
		switch {
		case s.atWork > 1:
			l.double += d
			fallthrough
		case s.atWork == 1:
			s.none = 0
		case s.owner != "": // otherwise the race has not begun
			l.none += d
			if s.none += d; s.none > l.longest {
				l.longest, l.whose = s.none, fmt.Sprintf("shard %d, after %s", i, s.owner)
			}
		}
	}
	if all > 0 {
		l.fullness += d.Seconds() * float64(l.most()*len(l.own)) / float64(all)
	}
}

func (l *ledger) record(r *crew.Record) {
	within := l.now >= l.from && l.now < l.to
	switch r.Op {
	case crew.OpKilled, crew.OpStopped, crew.OpContinued:
		l.stopped[r.Worker] = r.Op != crew.OpContinued
		for i := range l.shards {
			if r.Op == crew.OpKilled {
				delete(l.shards[i].working, r.Worker)
			}
		}
		l.count()
		return
	}
	i, err := strconv.Atoi(r.Lock)
	if err != nil {
		return // of no shard
	}
	s := &l.shards[i]
	switch r.Op {
	case opEnd:
		delete(s.working, r.Worker)
		l.count()
		return
	case opBegin:
		if s.owner != r.Worker && within {
			l.moves++
		}
		s.working[r.Worker], s.owner = true, r.Worker
		l.count()
	}
	if within {
		l.writes++
		switch {
		case r.Token != "" && r.Token < s.highest:
			if l.refused++; r.Claim != nil {
				l.inTime++
			}
		case s.owner != r.Worker && s.working[s.owner] && !l.stopped[s.owner]:
			l.accepted++
		}
	}
	s.highest = max(s.highest, r.Token)
}
