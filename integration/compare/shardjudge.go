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
	fullness float64 // seconds times fullest
}

// state is the state of a shard.
type state struct {
	working map[string]bool
	owner   string        // the process that began last
	highest string        // token
	none    time.Duration // for how long no process has been at work
}

// judgeShards returns what a history shows between two moments. The order of its writes in time is that of
// the store.
func judgeShards(records []*crew.Record, from, to monotonic.Instant) *ledger {
	j := &ledger{from: from, to: to, stopped: map[string]bool{}}
	for i := range j.shards {
		j.shards[i].working = map[string]bool{}
	}
	for _, r := range slices.SortedStableFunc(slices.Values(records), func(a, b *crew.Record) int { return cmp.Compare(a.Call, b.Call) }) {
		j.pass(r.Call)
		j.record(r)
	}
	j.pass(to)
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
	own, double := j.own(func(i int, s *state) {
		j.None += d
		if s.none += d; s.none > j.Longest {
			j.Longest, j.Whose = s.none, fmt.Sprintf("shard %d, after %s", i, s.owner)
		}
	})
	j.Double += time.Duration(double) * d
	if len(own) > 0 {
		j.fullness += d.Seconds() * float64(most(own)) * float64(len(own)) / float64(sum(own))
	}
}

// own returns how many shards each process works on, and how many have several at work. It calls none for
// those that have none now. A stopped process is not at work.
func (j *ledger) own(none func(i int, s *state)) (own map[string]int, double int) {
	own = map[string]int{}
	for i := range j.shards {
		s, atWork := &j.shards[i], 0
		for process := range s.working {
			if !j.stopped[process] {
				own[process]++
				atWork++
			}
		}
		switch {
		case s.owner == "": // the race has not begun
		case atWork == 0:
			none(i, s)
		default:
			if s.none = 0; atWork > 1 {
				double++
			}
		}
	}
	return own, double
}

func (j *ledger) record(r *crew.Record) {
	within := j.now >= j.from && j.now < j.to
	switch r.Op {
	case crew.OpKilled, crew.OpStopped, crew.OpContinued:
		j.stopped[r.Worker] = r.Op != crew.OpContinued
		for i := range j.shards {
			if r.Op == crew.OpKilled {
				delete(j.shards[i].working, r.Worker)
			}
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
		delete(s.working, r.Worker)
		return
	case opBegin:
		if s.owner != r.Worker && within {
			j.Moves++
		}
		s.working[r.Worker], s.owner = true, r.Worker
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
