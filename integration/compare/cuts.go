package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/judge"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/peers"
	"github.com/holdfast-io/holdfast/integration/wait"
)

const (
	takers      = 17
	cutTimes    = 4
	turnTime    = time.Millisecond       // time of work under the lock
	cutEvery    = 500 * time.Millisecond // pause after all clients have reconnected
	retryAfter  = 100 * time.Millisecond // time until a failed call is repeated
	unlockTries = 3
	wedgedAfter = 25 * time.Second // time for all to come in; longer than the session or the lease of a dead client
)

// cut lets clients take turns, and cuts the connections of all but one.
func cut(ctx context.Context, t *trial) ([]any, breaches) {
	clients := t.open(ctx, takers)
	ctx, cancel := context.WithCancelCause(ctx)
	var taking sync.WaitGroup
	defer taking.Wait()
	defer cancel(nil)
	var history crew.History
	start := monotonic.Now()
	for _, c := range clients {
		taking.Go(func() { cancel(unless(func() { takeTurns(ctx, c, &history) })) })
	}
	allIn := func(since monotonic.Instant) error {
		return wait.Until(ctx, wedgedAfter, "all clients come in", func() (bool, error) { return served(history.All(), since) == takers, nil })
	}
	check(allIn(start))
	sessions := make([]int64, takers)
	for i, c := range clients {
		sessions[i] = session(c)
	}
	first := monotonic.Now()
	for range cutTimes {
		check(wait.All(takers-1, func(i int) error {
			c := clients[1+i]
			links := c.Links.Load()
			c.Relay.Cut()
			return wait.Until(ctx, flapPatience, "all clients have connected again", func() (bool, error) { return c.Links.Load() != links, nil })
		}))
		check(wait.Sleep(ctx, cutEvery))
	}
	last := monotonic.Now()
	if allIn(last) != nil {
		check(context.Cause(ctx)) // otherwise the row shows that it is wedged
	}
	for i, c := range clients {
		if session(c) != sessions[i] {
			check(fmt.Errorf("the session of client %d did not survive", i))
		}
	}
	return judgeCuts(history.All(), first, last, monotonic.Now())
}

// judgeCuts judges clients' records. first and last are the times of cuts.
func judgeCuts(records []*crew.Record, first, last, end monotonic.Instant) (cells []any, b breaches) {
	n := served(records, last)
	pause := judge.Gap(records, first, end)
	doubles, _ := judge.Doubles(judge.ByBegin(judge.Holds(records)[""]))
	ops := map[string]int{}
	for _, r := range records {
		ops[r.Op]++
	}
	locks, unlocks, queue := ops[crew.OpTry], ops[crew.OpLeft], "moves"
	if n < takers {
		queue = fmt.Sprintf("**wedged**: %d of %d came in", n, takers)
	}
	b.add(n < takers, "the queue is wedged: after the cuts only %d of %d clients came in", n, takers)
	// All clients are alive, so none has to wait for a lease to end.
	b.add(n == takers && pause >= flapTimeout, "no client came in for %s, though all were alive", seconds(pause))
	b.add(len(doubles) > 0, "a client came in %d times while another was in", len(doubles))
	b.add(locks+unlocks > 0, "Lock failed %d times, and Unlock %d times, though no context had ended", locks, unlocks)
	return []any{queue, seconds(pause), locks, unlocks, len(doubles)}, b
}

// takeTurns runs a client's turns until ctx ends. A turn lasts from the report that the client holds
// the lock until just before the command to unlock. takeTurns repeats failed calls, as any program
// does, but calls Unlock at most unlockTries times.
func takeTurns(ctx context.Context, c *peers.Client, h *crew.History) {
	failed := func(op, why string) {
		r := crew.NewRecord(op, c.Name)
		r.Result = why
		h.Add(r)
		check(wait.Sleep(ctx, retryAfter))
	}
	for n := 0; ; n++ {
		in := must(c.Hear(ctx, must(c.Tell("lock"))))
		if in.Text != peers.OK {
			failed(crew.OpTry, in.Text)
			continue
		}
		check(wait.Sleep(ctx, turnTime))
		r := crew.NewRecord(crew.OpGrant, c.Name)
		out := r.Return
		r.Return = out - monotonic.Instant(time.Since(in.At))
		r.Hold, r.Claim = fmt.Sprint(c.Name, "/", n), &monotonic.Claim{From: r.Return, To: r.Return, Until: out}
		h.Add(r)
		for range unlockTries {
			answer := must(c.Ask(ctx, "unlock"))
			if answer == peers.OK {
				break
			}
			failed(crew.OpLeft, answer)
		}
	}
}

// served returns how many clients have had a turn that began after start.
func served(records []*crew.Record, start monotonic.Instant) int {
	clients := map[string]bool{}
	for _, r := range records {
		if r.Op == crew.OpGrant && r.Return > start {
			clients[r.Worker] = true
		}
	}
	return len(clients)
}
