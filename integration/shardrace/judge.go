package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/holdfast-io/holdfast/integration/monotonic"
)

// numbers are what the log of a team shows, between two moments.
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

// ledger is what is known at a line of the log.
type ledger struct {
	numbers
	from, to monotonic.Instant
	now      monotonic.Instant
	shards   [shards]state
	stopped  map[string]bool
	refused  map[refusal]bool // writes that were refused, until it is known whether they were in time
	fullness float64          // seconds times fullest
	longest  gapOf            // of numbers.Longest
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

type refusal struct {
	process string
	shard   int
}

// judge returns what a log shows at its end, without numbers.
func judge(file string) (*ledger, error) { return judgeBetween(file, math.MaxInt64, math.MaxInt64) }

// judgeBetween reads the log of a team. Its order is that of the store.
func judgeBetween(file string, from, to monotonic.Instant) (*ledger, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	j := &ledger{from: from, to: to, stopped: map[string]bool{}, refused: map[refusal]bool{}}
	for i := range j.shards {
		j.shards[i].working = map[string]bool{}
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var word, process, token string
		var at monotonic.Instant
		var shard, inTime int
		if _, err := fmt.Sscan(lines.Text(), &word, &at, &shard, &process, &token, &inTime); err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		j.pass(at)
		j.line(word, shard, process, token, inTime == 1)
	}
	j.pass(to)
	if j.fullness > 0 {
		j.Fullest = j.fullness / time.Duration(min(j.now, to)-from).Seconds()
	}
	return j, lines.Err()
}

// pass adds the time up to a moment.
func (j *ledger) pass(at monotonic.Instant) {
	since, until := max(j.now, j.from), min(at, j.to)
	if j.now = max(j.now, at); until <= since || at == math.MaxInt64 {
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

func (j *ledger) line(word string, shard int, process, token string, inTime bool) {
	within := j.now >= j.from && j.now < j.to
	switch word {
	case wordKilled, wordStopped, wordContinued:
		j.stopped[process] = word != wordContinued
		for i := range j.shards {
			if word == wordKilled {
				delete(j.shards[i].working, process)
			}
			j.note(&j.shards[i])
		}
		return
	}
	s := &j.shards[shard]
	if r := (refusal{process, shard}); j.refused[r] {
		delete(j.refused, r)
		if inTime {
			j.InTime++
		}
	}
	if word == wordEnd {
		delete(s.working, process)
		j.note(s)
		return
	}
	if word == wordBegin {
		s.working[process] = true
		j.note(s)
		if s.owner != process && within {
			j.Moves++
		}
		s.owner = process
	}
	if within {
		j.Writes++
	}
	switch {
	case token != "-" && token < s.highest:
		j.refused[refusal{process, shard}] = true
		if within {
			j.Refused++
		}
	case s.owner != process && s.working[s.owner] && !j.stopped[s.owner] && within:
		j.Accepted++
	}
	s.highest = max(s.highest, token)
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
