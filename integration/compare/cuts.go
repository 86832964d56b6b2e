package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

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
	times: func(c *contender) int { return c.cuts },
	begin: func(*contender, int) outcome { return &cutsRun{turns: new(turns)} },
}

// cutsRun has the observations of clients that took turns, before and after the cuts.
type cutsRun struct {
	turns       *turns
	served      int           // number of clients that held the lock after the cuts
	pause       time.Duration // longest time in which no client got the lock, from the first cut on
	newSessions int           // number of clients whose sessions did not survive
}

// wedged reports whether some clients did not get the lock after the cuts.
func (r *cutsRun) wedged() bool { return r.served < takers }

// broken lists the promises of Holdfast that were broken.
func (r *cutsRun) broken() (promises []string) {
	fails := func(format string, args ...any) { promises = append(promises, fmt.Sprintf(format, args...)) }
	if r.wedged() {
		fails("the queue is wedged: after the cuts only %d of %d clients came in", r.served, takers)
	}
	if !r.wedged() && r.pause >= longPause {
		fails("no client came in for %s, though all were alive", seconds(r.pause))
	}
	if n := r.turns.doubles(); n > 0 {
		fails("a client came in %d times while another was in", n)
	}
	if r.turns.failedLocks > 0 || r.turns.failedUnlocks > 0 {
		fails("Lock failed %d times, and Unlock %d times, though no context had ended", r.turns.failedLocks, r.turns.failedUnlocks)
	}
	return promises
}

func (r *cutsRun) cells() []string {
	queue := "moves"
	if r.wedged() {
		queue = fmt.Sprintf("**wedged**: %d of %d came in", r.served, takers)
	}
	if r.newSessions > 0 {
		queue += fmt.Sprintf("; %d sessions did not survive", r.newSessions)
	}
	return []string{queue, seconds(r.pause), fmt.Sprint(r.turns.failedLocks), fmt.Sprint(r.turns.failedUnlocks), fmt.Sprint(r.turns.doubles())}
}

func (r *cutsRun) happen(ctx context.Context, b *bench, p *peers.Peer, lockPath string) error {
	measured := sync.OnceFunc(b.alone.Unlock)
	b.alone.Lock()
	defer measured()
	var clients []*peers.Client
	for range takers {
		c, err := p.Open(ctx, b.server, lockPath, peers.Mutex)
		if err != nil {
			return err
		}
		clients = append(clients, c)
	}
	start := time.Now()

	ctx, cancel := context.WithCancelCause(ctx)
	var taking sync.WaitGroup
	defer taking.Wait()
	defer cancel(nil)
	for _, c := range clients {
		taking.Go(func() { cancel(r.turns.take(ctx, c)) })
	}
	if err := r.turns.awaitAll(ctx, start); err != nil {
		return err
	}
	if n := r.turns.served(start); n < takers {
		return fmt.Errorf("before the cuts only %d of %d clients came in", n, takers)
	}

	sessions := make(map[*peers.Client]int64)
	for _, c := range clients {
		sessions[c], _, _ = c.Tap.Session()
	}
	first := time.Now()
	for range cutTimes {
		if err := cut(ctx, clients[1:]); err != nil {
			return err
		}
	}
	last := time.Now()
	measured() // what follows is mostly waiting

	if err := r.turns.awaitAll(ctx, last); err != nil {
		return err
	}
	r.served, r.pause = r.turns.served(last), r.turns.pause(first)
	for _, c := range clients {
		if id, _, _ := c.Tap.Session(); id != sessions[c] {
			r.newSessions++
		}
	}
	return nil
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

// turns records the turns of all clients.
type turns struct {
	mu                         sync.Mutex
	all                        []turn
	failedLocks, failedUnlocks int
}

// turn is a client's turn: from the report that it holds the lock, until just before the command to
// unlock.
type turn struct {
	client  string
	in, out time.Time
}

// take runs a client's turns until ctx ends. It repeats failed calls, as any program does, but
// calls Unlock at most unlockTries times.
func (t *turns) take(ctx context.Context, c *peers.Client) error {
	for {
		answer, err := c.Tell("lock")
		if err != nil {
			return err
		}
		in, err := c.Hear(ctx, answer)
		if err != nil {
			return err
		}
		if in.Text != ok {
			if err := t.failed(ctx, &t.failedLocks); err != nil {
				return err
			}
			continue
		}
		if err := wait.Sleep(ctx, turnTime); err != nil {
			return err
		}
		t.mu.Lock()
		t.all = append(t.all, turn{c.Name, in.At, time.Now()})
		t.mu.Unlock()
		for range unlockTries {
			out, err := c.Ask(ctx, "unlock")
			if err != nil {
				return err
			}
			if out == ok {
				break
			}
			if err := t.failed(ctx, &t.failedUnlocks); err != nil {
				return err
			}
		}
	}
}

// failed counts a failed call, and waits before the next one.
func (t *turns) failed(ctx context.Context, count *int) error {
	t.mu.Lock()
	*count++
	t.mu.Unlock()
	return wait.Sleep(ctx, retryAfter)
}

// inOrder returns the turns that began after start, the earliest first.
func (t *turns) inOrder(start time.Time) []turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	later := slices.DeleteFunc(slices.Clone(t.all), func(one turn) bool { return !one.in.After(start) })
	slices.SortFunc(later, func(a, b turn) int { return a.in.Compare(b.in) })
	return later
}

// served returns how many clients have begun a turn after start.
func (t *turns) served(start time.Time) int {
	clients := make(map[string]bool)
	for _, one := range t.inOrder(start) {
		clients[one.client] = true
	}
	return len(clients)
}

// awaitAll waits until all clients have had a turn after start. It gives up and returns nil if no
// turn begins for wedgedAfter, or after twice that time.
func (t *turns) awaitAll(ctx context.Context, start time.Time) error {
	for last := start; t.served(start) < takers && time.Since(last) < wedgedAfter && time.Since(start) < 2*wedgedAfter; {
		if err := wait.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
		if all := t.inOrder(start); len(all) > 0 {
			last = all[len(all)-1].in
		}
	}
	return nil
}

// pause returns the longest time since start in which no turn began.
func (t *turns) pause(start time.Time) (longest time.Duration) {
	end := time.Now()
	for _, one := range t.inOrder(start) {
		longest, start = max(longest, one.in.Sub(start)), one.in
	}
	return max(longest, end.Sub(start))
}

// doubles returns the number of turns that began before an earlier one had ended.
func (t *turns) doubles() (n int) {
	var end time.Time
	for _, one := range t.inOrder(time.Time{}) {
		if one.in.Before(end) {
			n++
		}
		if one.out.After(end) {
			end = one.out
		}
	}
	return n
}
