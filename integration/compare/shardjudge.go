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
	System   string
	Writes   int
	Refused  int           // writes of a past owner that the store refuses by their tokens
	Accepted int           // writes of a past owner, while its successor works, that the store cannot refuse
	InTime   int           // refused writes of a process that surely owned the shard
	Double   time.Duration // with two processes at work, summed over the shards
	None     time.Duration // with none, summed over the shards
	Longest  time.Duration // the longest time without one, of any shard
	Whose    string        // the shard of Longest, and its past owner
	Moves    int           // shards that went to another process
	Fullest  float64       // share of the process with the most shards, of the mean share; the mean over time
	Uneven   string        // at the end: shares, if a shard has no owner or several, or if Holdfast's are not equal
}

// ledger is what is known at a record of the history.
type ledger struct {
	shardFigures
	from, to monotonic.Instant
	now      monotonic.Instant
	shards   [shards]state
	stopped  map[string]bool
	own      map[string]int // how many shards each process works on
	none     int            // shards with no process at work
	double   int            // shards with several
	fullness float64        // seconds times fullest
}

// state is the state of a shard.
type state struct {
	working map[string]bool
	owner   string            // the process that began last
	highest string            // token
	atWork  int               // processes that work on it, and are not stopped
	none    monotonic.Instant // since when that is 0
}

// judgeShards returns what a history shows between two moments. The order of its writes in time is that of
// the store.
func judgeShards(records []*crew.Record, from, to monotonic.Instant) *ledger {
	j := &ledger{from: from, to: to, stopped: map[string]bool{}, own: map[string]int{}}
	for i := range j.shards {
		j.shards[i].working = map[string]bool{}
	}
	for _, r := range slices.SortedStableFunc(slices.Values(records), func(a, b *crew.Record) int { return cmp.Compare(a.Call, b.Call) }) {
		j.pass(r.Call)
		j.record(r)
	}
	j.pass(to)
	for i := range j.shards {
		j.gap(i)
	}
	if j.fullness > 0 {
		j.Fullest = j.fullness / time.Duration(min(j.now, to)-from).Seconds()
	}
	return j
}

// pass adds the time up to a moment.
func (j *ledger) pass(at monotonic.Instant) {
	since, until := max(j.now, j.from), min(at, j.to)
	if j.now = max(j.now, at); until <= since {
		return
	}
	d := time.Duration(until - since)
	j.None += time.Duration(j.none) * d
	j.Double += time.Duration(j.double) * d
	if len(j.own) > 0 {
		j.fullness += d.Seconds() * float64(most(j.own)) * float64(len(j.own)) / float64(sum(j.own))
	}
}

// gap takes note of the time since which a shard has no process at work.
func (j *ledger) gap(i int) {
	s := &j.shards[i]
	since, until := max(s.none, j.from), min(j.now, j.to)
	if s.owner != "" && s.atWork == 0 && time.Duration(until-since) > j.Longest {
		j.Longest, j.Whose = time.Duration(until-since), fmt.Sprintf("shard %d, after %s", i, s.owner)
	}
}

// change makes a change of a process and a shard, and counts anew.
func (j *ledger) change(i int, process string, working bool) {
	s := &j.shards[i]
	j.count(i, -1)
	if working {
		s.working[process], s.owner = true, process
	} else {
		delete(s.working, process)
	}
	j.count(i, 1)
}

// count takes a shard out of the counts (-1), or into them (1).
func (j *ledger) count(i, n int) {
	s := &j.shards[i]
	if s.owner == "" {
		return // the race has not begun
	}
	before := s.atWork
	s.atWork = 0
	for process := range s.working {
		if !j.stopped[process] {
			s.atWork++
			if j.own[process] += n; j.own[process] == 0 {
				delete(j.own, process)
			}
		}
	}
	switch {
	case s.atWork == 0:
		j.none += n
		if n > 0 && before > 0 {
			s.none = j.now
		}
	case s.atWork > 1:
		j.double += n
	}
}

func (j *ledger) record(r *crew.Record) {
	within := j.now >= j.from && j.now < j.to
	switch r.Op {
	case crew.OpKilled, crew.OpStopped, crew.OpContinued:
		for i := range j.shards {
			j.gap(i)
			j.count(i, -1)
		}
		j.stopped[r.Worker] = r.Op != crew.OpContinued
		for i := range j.shards {
			if r.Op == crew.OpKilled {
				delete(j.shards[i].working, r.Worker)
			}
			j.count(i, 1)
		}
		return
	}
	i, err := strconv.Atoi(r.Lock)
	if err != nil {
		return // of no shard
	}
	s := &j.shards[i]
	switch r.Op {
	case opEnd:
		j.change(i, r.Worker, false)
		return
	case opBegin:
		j.gap(i)
		if s.owner != r.Worker && within {
			j.Moves++
		}
		j.change(i, r.Worker, true)
	}
	if within {
		j.Writes++
		switch {
		case r.Token != "" && r.Token < s.highest:
			if j.Refused++; r.Claim != nil {
				j.InTime++
			}
		case s.owner != r.Worker && s.working[s.owner] && !j.stopped[s.owner]:
			j.Accepted++
		}
	}
	s.highest = max(s.highest, r.Token)
}

func sum(own map[string]int) (n int) {
	for _, o := range own {
		n += o
	}
	return n
}

func most(own map[string]int) int { return slices.Max(append(slices.Collect(maps.Values(own)), 0)) }
