package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// experiment is one workload under one condition. It makes one table.
type experiment struct {
	table
	variant string // variant of the servers; "": standalone
	turns   int    // turns of each peer in a round, if turns are short; 0: one turn
	rounds  int    // largest number of rounds, if rounds are long; 0: no limit
	takes   func(p *peer) bool
	role    string  // role in which peers take part, if they have it
	own     []*peer // peers of this experiment only
	prepare preparation
}

// preparation connects the clients of a peer and makes them ready.
type preparation func(ctx context.Context, s *site, p *peer) (trial, error)

// trial is one peer's part in an experiment, connected and warmed up.
type trial struct {
	round round
	close func() error
}

// round measures once, and returns the figures.
type round func(ctx context.Context) (turn, error)

// as changes the experiment's letter and returns the experiment. Only peers with the role take
// part, in that role.
func (e *experiment) as(workload, role string) *experiment {
	e.Workload, e.role, e.takes = workload, role, plays(role)
	return e
}

// among changes the experiment's letter and returns the experiment. Only the peers that takes
// accepts take part.
func (e *experiment) among(workload string, takes func(*peer) bool) *experiment {
	e.Workload, e.takes = workload, takes
	return e
}

func all(*peer) bool       { return true }
func locks(p *peer) bool   { return !p.Bare }
func goPeers(p *peer) bool { return p.open != nil }
func goLocks(p *peer) bool { return p.open != nil && !p.Bare && p.start == nil } // only on ZooKeeper

// tries accepts the peers that can try a lock without waiting.
func tries(p *peer) bool { return p.Name == holdfastName || p.start != nil }

// holdfastAlone accepts Holdfast only, for experiments on its renewals, its reaper and its read
// locks in Go.
func holdfastAlone(p *peer) bool { return p.Name == holdfastName }

// Titles that charts and bars refer to.
var (
	freeNear = "free lock, one client" + loopback
	freeFar  = free(freeNear).on(delayed).Title

	freeAnewTitle = "free lock, another one each time, one client" + loopback
)

func handoffTitle(n int, hold time.Duration) string {
	return fmt.Sprintf("handoff among %d clients that hold for %v"+loopback, n, hold)
}

func experiments(s size) []*experiment {
	return slices.Concat(mutexes(s), otherRecipes(s), local(s), elsewhere(s))
}

// mutexes returns the workloads A to H.
func mutexes(s size) []*experiment {
	list := []*experiment{
		free(freeNear,
			bar{Figure: 0, Against: zkLockName, Limit: 0.85}, bar{Figure: 0, Against: bareName, Limit: 1.15}, bar{Figure: 0, Against: curatorName, Limit: 0.85},
			bar{Figure: 1, Limit: 2, Counted: true}, bar{Figure: 2, Limit: 2, Counted: true}),
		free(freeNear).on(delayed, bar{Figure: 0, Against: zkLockName, Limit: 0.72}),
		freeAnew(freeAnewTitle, bar{Figure: 1, Limit: 2, Counted: true}, bar{Figure: 2, Limit: 2, Counted: true}),
		many(4),
		many(64, bar{Figure: 0, Against: zkLockName, Least: true, Limit: 1.8}, bar{Figure: 2, Limit: 0.25, Counted: !s.quick}),
		many(256, bar{Figure: 0, Against: zkLockName, Least: true, Limit: 2.0}, bar{Figure: 2, Limit: 0.1, Counted: !s.quick}),
		manyContended(64),
		manyAnew(64, bar{Figure: 0, Against: zkLockName, Least: true, Limit: 2.5}, bar{Figure: 3, Against: zkLockName, Limit: 1}),
	}
	for _, hold := range []time.Duration{shortHold, 0} {
		for _, n := range s.queues {
			if hold > 0 || n <= mostOfAll {
				list = append(list, handoffAmong(n, hold, s.handoffBars(n, hold)...))
			}
		}
	}
	for i, n := range s.drained {
		bars := []bar{
			{Figure: 2, Against: zkLockName, Limit: 0.25, Counted: !s.quick}, {Figure: 1, Against: zkLockName, Limit: 0.80},
			{Figure: 0, Against: zkLockName, Limit: 1.5},
		}
		if i > 0 {
			// Only joining has a bar: in the drain a hold is so short that the next waiter lists
			// the queue.
			bars = []bar{{Figure: 3, Beside: drainTitle(s.drained[0]), Limit: 1.5, Counted: !s.quick}}
		}
		list = append(list, drain(n, bars...))
	}
	return append(list,
		keep(s.holds, s.keep, s.rounds,
			bar{Figure: 0, Limit: 850, Counted: s.holds >= 10_000}, bar{Figure: 1, Limit: 0, Counted: s.holds >= 10_000}, bar{Figure: 2, Least: true, Limit: 50, Counted: true}),
		keepBusy(s.holds, s.keep/2, s.rounds, bar{Figure: 2, Least: true, Limit: 0.5}),
		closeHolding(s.holds, bar{Figure: 2, Limit: 0.05, Counted: true}),
		tryLock(bar{Figure: 1, Limit: 3, Counted: true}, bar{Figure: 2, Limit: 0, Counted: true}),
		sweepOrphans(s.trees, "flat"), sweepOrphans(s.trees, "nested"),
		sweepLive(s.trees, time.Hour, bar{Figure: 3, Limit: 0.1, Counted: true}))
}

// asOften is the bar of handoffs without a hold time.
var asOften = []bar{{Figure: 0, Against: zkLockName, Least: true, Limit: 1}}

// handoffBars returns the bars of handoffs among n clients that hold the lock for the given time.
func (s size) handoffBars(n int, hold time.Duration) (bars []bar) {
	counted := !s.quick
	if hold == 0 {
		bars = append(slices.Clone(asOften), bar{Figure: 5, Limit: 4.1, Counted: counted})
		if n == mostOfAll {
			bars = append(bars, bar{Figure: 3, Against: zkLockName, Limit: 0.40, Counted: counted})
		}
		return bars
	}
	if n <= mostOfAll {
		bars = append(bars, bar{Figure: 1, Against: zkLockName, Limit: 0.58})
	}
	bars = append(bars, bar{Figure: 5, Limit: 5.3, Counted: counted})
	if n >= 16 {
		bars = append(bars, bar{Figure: 3, Limit: 1600, Counted: counted})
	}
	if n > 16 {
		bars = append(bars, bar{Figure: 3, Beside: handoffTitle(16, hold), Limit: 1.5, Counted: counted})
	}
	return bars
}

// chooseExperiments returns the experiments whose workload, title and variant are selected, and in
// which at least one of the peers takes part. It fails if there is none. If no variants are
// selected, a quick run omits an experiment without bars unless it is standalone.
func chooseExperiments(s size, letters, pattern, variants string, peers []*peer) ([]*experiment, error) {
	titles, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	all := []string{standalone, delayed, three}
	chosen := strings.Split(cmp.Or(variants, strings.Join(all, ",")), ",")
	for _, name := range chosen {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("-variants: unknown variant %q; there are %s", name, strings.Join(all, ", "))
		}
	}
	list := slices.DeleteFunc(experiments(s), func(e *experiment) bool {
		return letters != "" && !strings.Contains(letters, e.Workload) ||
			!titles.MatchString(e.Title) || !slices.ContainsFunc(peers, e.takes) ||
			!slices.Contains(chosen, cmp.Or(e.variant, standalone)) ||
			variants == "" && s.quick && e.variant != "" && e.Bars == nil
	})
	if len(list) == 0 {
		return nil, fmt.Errorf("-workloads %q -run %q -variants %q: no such experiment for these peers", letters, pattern, variants)
	}
	return list, nil
}
