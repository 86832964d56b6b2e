package main

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
)

// numbers are what the history of a team shows, between two moments.
type numbers struct {
	Writes   int
	Refused  int           // writes of a past owner that the store refuses by their tokens
	Accepted int           // writes of a past owner, while its successor works, that the store cannot refuse
	InTime   int           // refused writes of a process that surely owned the shard
	Double   time.Duration // with two processes at work, summed over the shards
	None     time.Duration // with none, summed over the shards
	Longest  time.Duration // the longest time without one, of any shard
	Moves    int           // shards that went to another process
	Fullest  float64       // share of the process with the most shards, of the mean share; the mean over time
}

// ledger is what is known at a record of the history.
type ledger struct {
	numbers
	from, to monotonic.Instant
	now      monotonic.Instant
	shards   [shards]state
	stopped  map[string]bool
	fullness float64 // seconds times fullest
	longest  gapOf   // of numbers.Longest
}

// gapOf says which shard had no process at work, since when, and whose it had been.
type gapOf struct {
	shard int
	owner string
	since monotonic.Instant
}

// state is the state of a shard.
type state struct {
	working map[string]bool
	owner   string // the process that began last
	highest string // token
	none    monotonic.Instant
}

// judge returns what a history shows between two moments. The order of its writes in time is that of
// the store.
func judge(records []*crew.Record, from, to monotonic.Instant) *ledger {
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
	for i := range j.shards {
		s := &j.shards[i]
		switch n := j.atWork(s); {
		case s.owner == "": // the race has not begun
		case n == 0:
			s.none = max(s.none, j.from)
			j.None += d
			if gap := time.Duration(until - s.none); gap > j.Longest {
				j.Longest, j.longest = gap, gapOf{i, s.owner, s.none}
			}
		case n > 1:
			j.Double += d
		}
	}
	if own := j.owns(); len(own) > 0 {
		j.fullness += d.Seconds() * float64(most(own)) * float64(len(own)) / float64(sum(own))
	}
}

// atWork returns the number of processes that work on a shard now.
func (j *ledger) atWork(s *state) (n int) {
	for process := range s.working {
		if !j.stopped[process] {
			n++
		}
	}
	return n
}

// owns returns how many shards each process works on.
func (j *ledger) owns() map[string]int {
	own := map[string]int{}
	for i := range j.shards {
		for process := range j.shards[i].working {
			if !j.stopped[process] {
				own[process]++
			}
		}
	}
	return own
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
			j.note(&j.shards[i])
		}
		return
	}
	index, err := strconv.Atoi(r.Lock)
	if err != nil {
		return // of no shard
	}
	s := &j.shards[index]
	switch r.Op {
	case opEnd:
		delete(s.working, r.Worker)
		j.note(s)
		return
	case opBegin:
		s.working[r.Worker] = true
		j.note(s)
		if s.owner != r.Worker && within {
			j.Moves++
		}
		s.owner = r.Worker
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

// note takes note of the moment since which a shard has no process at work.
func (j *ledger) note(s *state) {
	switch {
	case j.atWork(s) > 0:
		s.none = 0
	case s.none == 0:
		s.none = j.now
	}
}

func sum(own map[string]int) (n int) {
	for _, o := range own {
		n += o
	}
	return n
}

func most(own map[string]int) int { return slices.Max(append(slices.Collect(maps.Values(own)), 0)) }
