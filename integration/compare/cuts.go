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
	wedgedAfter = 15 * time.Second // time without a handoff; longer than the session or the lease of a dead client

	// longPause is the shortest pause that breaks a promise of Holdfast: all clients are alive, so
	// none has to wait for a lease to end.
	longPause = shortTTL
)

var cuts = &scenario{
	name:  "cuts",
	title: "17 clients take turns, and the connections of 16 are cut four times, while their sessions survive",
	head:  []string{"lock", "queue", "longest pause", "Lock failed", "Unlock failed", "two in at once"},
	run:   runCuts,
}

// cutsRun has the figures of clients that took turns.
type cutsRun struct {
	served                     int           // number of clients that held the lock after the cuts
	pause                      time.Duration // longest time in which no client got the lock, from the first cut on
	doubles                    int           // turns that began before an earlier one had ended
	failedLocks, failedUnlocks int
}

// wedged reports whether some clients did not get the lock after the cuts.
func (r *cutsRun) wedged() bool { return r.served < takers }

func (r *cutsRun) broken() (b breaches) {
	b.add(r.wedged(), "the queue is wedged: after the cuts only %d of %d clients came in", r.served, takers)
	b.add(!r.wedged() && r.pause >= longPause, "no client came in for %s, though all were alive", seconds(r.pause))
	b.add(r.doubles > 0, "a client came in %d times while another was in", r.doubles)
	b.add(r.failedLocks > 0 || r.failedUnlocks > 0,
		"Lock failed %d times, and Unlock %d times, though no context had ended", r.failedLocks, r.failedUnlocks)
	return b
}

func (r *cutsRun) cells() []any {
	queue := "moves"
	if r.wedged() {
		queue = fmt.Sprintf("**wedged**: %d of %d came in", r.served, takers)
	}
	return []any{queue, seconds(r.pause), r.failedLocks, r.failedUnlocks, r.doubles}
}

func runCuts(ctx context.Context, t trial, peer *peers.Peer, path string) (cells []any, broken breaches, err error) {
	measured := sync.OnceFunc(t.alone.Unlock)
	t.alone.Lock()
	defer measured()
	var clients []*peers.Client
	for range takers {
		c, err := peer.Open(ctx, t.server, path, peers.Mutex)
		if err != nil {
			return nil, nil, err
		}
		clients = append(clients, c)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var taking sync.WaitGroup
	defer taking.Wait()
	defer cancel(nil)
	var history crew.History
	start := monotonic.Now()
	for _, c := range clients {
		taking.Go(func() { cancel(takeTurns(ctx, c, &history)) })
	}
	if err := awaitTurns(ctx, &history, start); err != nil {
		return nil, nil, err
	}
	if n, _ := served(history.All(), start); n < takers {
		return nil, nil, fmt.Errorf("before the cuts only %d of %d clients came in", n, takers)
	}
	sessions := make([]int64, takers)
	for i, c := range clients {
		sessions[i] = session(c)
	}
	first := monotonic.Now()
	for range cutTimes {
		if err := cut(ctx, clients[1:]); err != nil {
			return nil, nil, err
		}
	}
	last := monotonic.Now()
	measured() // what follows is mostly waiting
	if err := awaitTurns(ctx, &history, last); err != nil {
		return nil, nil, err
	}
	for i, c := range clients {
		if session(c) != sessions[i] {
			return nil, nil, fmt.Errorf("the session of client %d did not survive", i)
		}
	}
	r := judgeCuts(history.All(), first, last, monotonic.Now())
	return r.cells(), r.broken(), nil
}

// judgeCuts returns the figures of clients' records. first and last are the times of cuts.
func judgeCuts(records []*crew.Record, first, last, end monotonic.Instant) *cutsRun {
	r := &cutsRun{pause: judge.Gap(records, first, end)}
	r.served, _ = served(records, last)
	double, _ := judge.Doubles(judge.ByBegin(judge.Holds(records)[""]))
	r.doubles = len(double)
	for _, rec := range records {
		switch rec.Op {
		case crew.OpTry:
			r.failedLocks++
		case crew.OpLeft:
			r.failedUnlocks++
		}
	}
	return r
}

// cut cuts the clients' connections, waits until they have reconnected, and then pauses.
func cut(ctx context.Context, clients []*peers.Client) error {
	links := make([]int64, len(clients))
	for i, c := range clients {
		links[i] = c.Links.Load()
		c.Relay.Cut()
	}
	err := wait.Until(ctx, flapPatience, "all clients have connected again", func() (bool, error) {
		for i, c := range clients {
			if c.Links.Load() == links[i] {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	return wait.Sleep(ctx, cutEvery)
}

// takeTurns runs a client's turns until ctx ends. A turn lasts from the report that the client holds
// the lock until just before the command to unlock. takeTurns repeats failed calls, as any program
// does, but calls Unlock at most unlockTries times.
func takeTurns(ctx context.Context, c *peers.Client, h *crew.History) error {
	failed := func(op, why string) error {
		r := crew.NewRecord(op, c.Name)
		r.Result = why
		h.Add(r)
		return wait.Sleep(ctx, retryAfter)
	}
	for n := 0; ; n++ {
		answer, err := c.Tell("lock")
		if err != nil {
			return err
		}
		in, err := c.Hear(ctx, answer)
		if err != nil {
			return err
		}
		if in.Text != ok {
			if err := failed(crew.OpTry, in.Text); err != nil {
				return err
			}
			continue
		}
		if err := wait.Sleep(ctx, turnTime); err != nil {
			return err
		}
		r := crew.NewRecord(crew.OpGrant, c.Name)
		out := r.Return
		r.Return = out - monotonic.Instant(time.Since(in.At))
		r.Hold, r.Claim = fmt.Sprint(c.Name, "/", n), &monotonic.Claim{From: r.Return, To: r.Return, Until: out}
		h.Add(r)
		for range unlockTries {
			out, err := c.Ask(ctx, "unlock")
			if err != nil {
				return err
			}
			if out == ok {
				break
			}
			if err := failed(crew.OpLeft, out); err != nil {
				return err
			}
		}
	}
}

// served returns how many clients have had a turn that began after start, and when the last one began.
func served(records []*crew.Record, start monotonic.Instant) (n int, last monotonic.Instant) {
	clients := map[string]bool{}
	for _, r := range records {
		if r.Op == crew.OpGrant && r.Return > start {
			clients[r.Worker], last = true, max(last, r.Return)
		}
	}
	return len(clients), last
}

// awaitTurns waits until all clients have had a turn after start. It gives up and returns nil if no
// turn begins for wedgedAfter, or after twice that time.
func awaitTurns(ctx context.Context, h *crew.History, start monotonic.Instant) error {
	const patience = monotonic.Instant(wedgedAfter)
	for {
		n, last := served(h.All(), start)
		if now := monotonic.Now(); n == takers || now >= max(last, start)+patience || now >= start+2*patience {
			return nil
		}
		if err := wait.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
