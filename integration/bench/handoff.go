package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
)

const (
	shortHold = 2 * time.Millisecond // duration of a hold, in experiments with holds
	// mostOfAll is the largest number of clients with which every peer takes part. With more, only
	// the Go peers on ZooKeeper do, in fewer rounds.
	mostOfAll = 128
)

// contest describes how contenders take turns at one lock.
type contest struct {
	contenders int
	clients    int // sessions, shared evenly by the contenders; 0: one for each
	room       int // number of holders at a time; 0: one
	hold       time.Duration
	telling    bool // also report the average number of holders
}

// handoffAmong is workload C: n clients, each with a session of its own, take turns at one lock and
// hold it for the given time.
func handoffAmong(n int, hold time.Duration, bars ...bar) *experiment {
	return handoff(handoffTitle(n, hold), contest{contenders: n, hold: hold}, bars...)
}

// handoff is workload C for any contest.
func handoff(title string, how contest, bars ...bar) *experiment {
	how.clients, how.room = cmp.Or(how.clients, how.contenders), cmp.Or(how.room, 1)
	e := &experiment{
		table: table{"C", title, []figure{{"handoffs", perSecond}, {"unlock to next holder, median", milliseconds}, {"99th percentile", milliseconds}, {"bytes to clients", kilobytes}, {"bytes to server", kilobytes}, {"requests", decimals}, {"transactions", decimals}, {"share to another client", decimals}}, bars},
		takes: locks,
		prepare: func(ctx context.Context, s *site, p *peer) (trial, error) {
			if p.open == nil {
				return startProcess(ctx, s, p, how.contenders, task{
					command: []any{"handoff", how.hold.Nanoseconds(), s.window.Nanoseconds()}, handoff: true, figures: how.figures})
			}
			return withClients(how.clients, how.begin)(ctx, s, p)
		},
	}
	if how.telling {
		e.Figures = append(e.Figures, figure{"held at once, on average", decimals})
	}
	if how.contenders > mostOfAll {
		e.takes, e.rounds = goLocks, 3
	}
	return e
}

func (how contest) begin(_ context.Context, c *crew) (round, error) {
	var lockers []locker
	path := c.newPath()
	for i := range how.contenders {
		lockers = append(lockers, c.sessions[i%len(c.sessions)].locker(path))
	}
	return func(ctx context.Context) (turn, error) {
		// Each contender has a turn before the measurement, and another after it.
		team := c.team(ctx, patience+2*time.Duration(how.contenders)*how.hold)
		defer team.end()
		turns := &turns{room: how.room}
		team.run(how.contenders, func(i int) error { return turns.play(team.ctx, i, lockers[i], how.hold) })
		done, err := turns.watch(team.ctx, c, how.contenders)
		if err != nil {
			team.fail(err)
		}
		if err := team.wait(); err != nil {
			return nil, err
		}
		return how.figures(done), nil
	}, nil
}

func (how contest) figures(done performance) turn {
	t := turn{
		float64(len(done.times)) / done.took, median(done.times), quantile(done.times, 0.99), done.each.in, done.each.out,
		done.each.requests, done.each.transactions, done.passed,
	}
	if how.telling {
		t = append(t, done.held)
	}
	return t
}

// turns is the shared state of a handoff's contenders.
type turns struct {
	room int // number of contenders that can hold the lock at the same time

	mu        sync.Mutex
	had       int // number of turns so far
	inside    int
	held      time.Duration // total time of all turns that ended during the measurement
	last      int           // contender of the last turn
	unlocked  time.Time     // time of the last call of unlock
	measuring bool
	stopped   bool
	latencies []float64 // in seconds
	passed    int       // number of handoffs to another contender
}

// play locks and unlocks for one contender until its first turn after the measurement has ended.
func (t *turns) play(ctx context.Context, contender int, l locker, hold time.Duration) error {
	for {
		if err := l.lock(ctx); err != nil {
			return err
		}
		entered := time.Now()
		last, err := t.enter(contender, entered)
		if err != nil {
			return err
		}
		if hold > 0 {
			time.Sleep(hold)
		}
		t.leave(entered, time.Now())
		if err := l.unlock(); err != nil || last {
			return err
		}
	}
}

var errTwo = errors.New("more hold the lock at once than may")

// enter records that a contender holds the lock, and reports whether this is its last turn. If room
// contenders already hold the lock, it returns errTwo.
func (t *turns) enter(contender int, now time.Time) (last bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inside >= t.room {
		return true, errTwo
	}
	t.inside++
	if t.measuring {
		t.latencies = append(t.latencies, now.Sub(t.unlocked).Seconds())
		if contender != t.last {
			t.passed++
		}
	}
	t.last = contender
	t.had++
	return t.stopped, nil
}

// leave records that a holder is about to call unlock. The holder acquired the lock at entered.
func (t *turns) leave(entered, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.measuring {
		t.held += now.Sub(entered)
	}
	t.inside--
	t.unlocked = now
}

// measure begins or ends the measurement. After the end, each contender stops after its next turn.
func (t *turns) measure(begin bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.measuring, t.stopped = begin, !begin
}

// progress returns the number of turns, and the number of measured handoffs.
func (t *turns) progress() (had, measured int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.had, len(t.latencies)
}

// watch waits until the number of turns has reached contenders, so that all contenders queue. Then
// it measures for a window, or longer if the window has no handoff, and returns the results.
func (t *turns) watch(ctx context.Context, c *crew, contenders int) (done performance, err error) {
	err = wait.Until(ctx, patience, "all queue", func() (bool, error) {
		had, _ := t.progress()
		return had >= contenders, nil
	})
	if err != nil {
		return done, err
	}
	var start time.Time
	done.each, err = c.costOf(ctx, c.sessions, func() (int, error) {
		t.measure(true)
		start = time.Now()
		_ = wait.Sleep(ctx, c.window)
		err := wait.Until(ctx, patience, "the lock is handed on", func() (bool, error) {
			_, measured := t.progress()
			return measured > 0, nil
		})
		t.measure(false)
		done.took = time.Since(start).Seconds()
		return len(t.latencies), err
	})
	done.times, done.held = t.latencies, t.held.Seconds()/done.took
	done.passed = float64(t.passed) / float64(len(t.latencies))
	return done, err
}

// perSession is the number of waiters of a session, like goroutines of one service.
const perSession = 10

func drainTitle(n int) string {
	return fmt.Sprintf("%d waiters of %d sessions join and are drained, loopback", n, n/perSession)
}

// drain is workload D: n waiters queue behind a holder. Then the holder unlocks, and each waiter
// unlocks as soon as it has the lock.
func drain(n int, bars ...bar) *experiment {
	e := &experiment{
		table: table{"D", drainTitle(n), []figure{{"joining", milliseconds}, {"draining", milliseconds}, {"bytes to clients, for each waiter", kilobytes}, {"of these joining", kilobytes}, {"requests, for each", decimals}, {"transactions, for each", decimals}}, bars},
		takes: goLocks, role: apart, // in that role each contender has an entry of its own
		prepare: withClients(n/perSession, func(_ context.Context, c *crew) (round, error) {
			return func(ctx context.Context) (turn, error) { return c.drain(ctx, n) }, nil
		}),
	}
	if n > 1000 {
		e.rounds = 1 // in a round of zk.Lock the server sends more than a gigabyte
	}
	return e
}

func (c *crew) drain(ctx context.Context, waiters int) (turn, error) {
	team := c.team(ctx, patience)
	defer team.end()
	path := c.newPath()
	holder := c.sessions[0].locker(path)
	if err := holder.lock(ctx); err != nil {
		return nil, err
	}
	start, err := c.spent(ctx, c.sessions...)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	team.run(waiters, func(i int) error { return c.sessions[i%len(c.sessions)].locker(path).cycle(team.ctx) })
	err = c.zookeeper.awaitWatches(team.ctx, waiters)
	joining := time.Since(begin)
	joined, counting := c.spent(ctx, c.sessions...)
	begin = time.Now()
	if err := errors.Join(err, counting, holder.unlock()); err != nil {
		team.fail(err)
	}
	if err := team.wait(); err != nil {
		return nil, err
	}
	draining := time.Since(begin)
	after, err := c.spent(ctx, c.sessions...)
	each := after.per(waiters, start)
	return turn{joining.Seconds(), draining.Seconds(), each.in, joined.per(waiters, start).in, each.requests, each.transactions}, err
}
