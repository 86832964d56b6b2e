package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/integration/peers"
)

const (
	cutsName  = "cuts" // on the command line
	cutsTitle = "17 clients take turns, and the connections of 16 are cut four times, while their sessions survive"

	takers      = 17
	cuts        = 4
	turnTime    = time.Millisecond       // of work under the lock
	cutEvery    = 500 * time.Millisecond // after all have connected again
	retryAfter  = 100 * time.Millisecond // a call that failed
	unlockTries = 3
	window      = 2 * time.Second  // in which handoffs are counted
	wedgedAfter = 15 * time.Second // without a handoff: longer than a session or a lease of the dead lasts

	// longPause is what no queue of Holdfast's may make: all clients are alive, so
	// none has to wait until a lease has run out.
	longPause = shortTTL
)

// cutsRun is what was seen of clients that took turns, before and after the cuts.
type cutsRun struct {
	contender *contender
	round     int
	err       error // it could not be carried out

	before, after float64       // handoffs per second
	served        int           // how many of the clients came in after the cuts
	pause         time.Duration // the longest from the first cut on, without a handoff
	turns         *turns
	newSessions   int // clients whose sessions did not survive
	told          int // holders that were told that they have lost the lock
}

// wedged reports whether some clients did not come in after the cuts.
func (r *cutsRun) wedged() bool { return r.served < takers }

// broken lists the promises of Holdfast's that were not kept.
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
	if r.told > 0 {
		fails("%d holds were lost", r.told)
	}
	return promises
}

// run carries the run out. It calls measured when from then on it only looks
// whether the queue moves.
func (r *cutsRun) run(ctx context.Context, b *bench, measured func()) error {
	lockPath := lockPath(cutsName, r.contender, r.round)
	p, err := r.contender.start(b.overhear(lockPath))
	if err != nil {
		return err
	}
	defer p.Close()
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
	if r.turns.served(start) < takers {
		return fmt.Errorf("before the cuts only %d of %d clients came in", r.turns.served(start), takers)
	}
	if r.before, err = r.turns.rate(ctx); err != nil {
		return err
	}

	first, last, err := r.cutAll(ctx, clients)
	if err != nil {
		return err
	}
	measured()

	if err := r.turns.awaitAll(ctx, last); err != nil {
		return err
	}
	r.served, r.pause = r.turns.served(last), r.turns.pause(first)
	for _, c := range clients {
		if _, told := c.FirstSince(start); !told.At.IsZero() {
			r.told++
		}
	}
	return nil
}

// cutAll cuts the connections of all but one, several times, and returns when it began and
// when it was done. It notes what came of that.
func (r *cutsRun) cutAll(ctx context.Context, clients []*peers.Client) (first, last time.Time, err error) {
	sessions := make(map[*peers.Client]int64)
	for _, c := range clients {
		sessions[c], _, _ = c.Tap.Session()
	}
	first = time.Now()
	for range cuts {
		if err := cut(ctx, clients[1:]); err != nil {
			return first, last, err
		}
	}
	last = time.Now()
	if r.after, err = r.turns.rate(ctx); err != nil {
		return first, last, err
	}
	for _, c := range clients {
		if id, _, _ := c.Tap.Session(); id != sessions[c] {
			r.newSessions++
		}
	}
	return first, last, nil
}

// cut cuts the clients' connections, and waits until they have new ones.
func cut(ctx context.Context, clients []*peers.Client) error {
	links := make([]int64, len(clients))
	for i, c := range clients {
		links[i] = c.Links.Load()
	}
	for _, c := range clients {
		c.Relay.Cut()
	}
	err := await(ctx, "all clients have connected again", func() (bool, error) {
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
	return sleep(ctx, cutEvery)
}

// turns is the record of which client was in when.
type turns struct {
	news chan struct{} // one token: a client was in

	mu                         sync.Mutex
	all                        []turn
	failedLocks, failedUnlocks int
}

// turn is one client's: from when we heard that it was in, until just before it was
// told to unlock.
type turn struct {
	client  string
	in, out time.Time
}

func newTurns() *turns { return &turns{news: make(chan struct{}, 1)} }

// take has a client take turns until ctx ends. A call that fails is made again, as
// any program would; Unlock only a few times.
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
			t.failed(&t.failedLocks)
			if err := sleep(ctx, retryAfter); err != nil {
				return err
			}
			continue
		}
		if err := sleep(ctx, turnTime); err != nil {
			return err
		}
		t.add(turn{c.Name, in.At, time.Now()})
		for try := 1; ; try++ {
			out, err := c.Ask(ctx, "unlock")
			if err != nil {
				return err
			}
			if out == ok {
				break
			}
			t.failed(&t.failedUnlocks)
			if try == unlockTries {
				break
			}
			if err := sleep(ctx, retryAfter); err != nil {
				return err
			}
		}
	}
}

func (t *turns) add(one turn) {
	t.mu.Lock()
	t.all = append(t.all, one)
	t.mu.Unlock()
	select {
	case t.news <- struct{}{}:
	default:
	}
}

func (t *turns) failed(count *int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*count++
}

// inOrder returns the turns that began after a time, the earliest first.
func (t *turns) inOrder(start time.Time) []turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	var later []turn
	for _, one := range t.all {
		if one.in.After(start) {
			later = append(later, one)
		}
	}
	slices.SortFunc(later, func(a, b turn) int { return a.in.Compare(b.in) })
	return later
}

// served returns how many clients have been in since a time.
func (t *turns) served(start time.Time) int {
	clients := make(map[string]bool)
	for _, one := range t.inOrder(start) {
		clients[one.client] = true
	}
	return len(clients)
}

// rate measures handoffs per second.
func (t *turns) rate(ctx context.Context) (float64, error) {
	start := time.Now()
	err := sleep(ctx, window)
	return float64(len(t.inOrder(start))) / time.Since(start).Seconds(), err
}

// awaitAll waits until all clients have been in since a time. It gives up when none was in
// for wedgedAfter, or some were not for twice that.
func (t *turns) awaitAll(ctx context.Context, start time.Time) error {
	enough := time.NewTimer(2 * wedgedAfter)
	defer enough.Stop()
	for t.served(start) < takers {
		select {
		case <-t.news:
		case <-time.After(wedgedAfter):
			return nil
		case <-enough.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// pause is the longest time since start in which no client came in.
func (t *turns) pause(start time.Time) (longest time.Duration) {
	end := time.Now()
	for _, one := range t.inOrder(start) {
		longest, start = max(longest, one.in.Sub(start)), one.in
	}
	return max(longest, end.Sub(start))
}

// doubles counts the turns that began before an earlier one had ended.
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
