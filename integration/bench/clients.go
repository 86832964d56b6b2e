package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// session is one client's session.
type session struct {
	locker func(path string) locker // returns the lock at path, for one goroutine
	counts func() zkserver.Counts
	close  func() error
	settle func(ctx context.Context) error // waits until the work after the last unlock has ended; nil: there is none
}

type locker struct {
	lock   func(ctx context.Context) error
	unlock func() error
	try    func(ctx context.Context) (got bool, err error) // locks without waiting; nil: unsupported
}

// cycle locks and unlocks.
func (l locker) cycle(ctx context.Context) error {
	if err := l.lock(ctx); err != nil {
		return err
	}
	return l.unlock()
}

// cycleUntil locks and unlocks until done returns true, at least once.
func (l locker) cycleUntil(ctx context.Context, done func() bool) error {
	for {
		if err := l.cycle(ctx); err != nil || done() {
			return err
		}
	}
}

// got converts err, the error of an attempt to lock, to the results of try. held is the error of an
// attempt while another client holds the lock.
func got(err, held error) (bool, error) {
	if errors.Is(err, held) {
		return false, nil
	}
	return err == nil, err
}

// opener opens a session of a peer in this process.
type opener func(ctx context.Context, addr string) (session, error)

// sessions has the sessions of several clients of one peer.
type sessions []session

// openAll opens n sessions of a peer, and distributes them over the addresses in addr.
func openAll(ctx context.Context, p *peer, addr string, n int) (sessions, error) {
	if err := enoughFiles(n); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	addrs := strings.Split(addr, ",")
	var all sessions
	for i := range n {
		s, err := p.open(ctx, addrs[i%len(addrs)])
		if err != nil {
			return nil, errors.Join(err, all.close())
		}
		all = append(all, s)
	}
	return all, nil
}

// enoughFiles returns an error if this process cannot open more additional files, and some spare
// ones. If files were missing, clients would reconnect again and again.
func enoughFiles(more int) error {
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	if need := uint64(len(open) + more + 100); need > limit.Cur {
		return fmt.Errorf("%d open files are needed and %d allowed: raise the limit (ulimit -n %[1]d)", need, limit.Cur)
	}
	return nil
}

// close closes all sessions, in parallel because each waits for the server's answer.
func (all sessions) close() error {
	return wait.All(len(all), func(i int) error { return all[i].close() })
}

// settle waits until all sessions have finished the work after their last unlocks, so that its
// requests do not count in another peer's turn.
func (all sessions) settle(ctx context.Context) error {
	return wait.All(len(all), func(i int) error {
		if all[i].settle == nil {
			return nil
		}
		return all[i].settle(ctx)
	})
}

// crew has a peer's clients in an experiment.
type crew struct {
	*site
	*peer
	sessions
	end func() error // runs before the sessions are closed
}

// add adds n clients of p, which may be another peer than the crew's.
func (c *crew) add(ctx context.Context, p *peer, n int) error {
	more, err := openAll(ctx, p, c.at, n)
	c.sessions = append(c.sessions, more...)
	return err
}

func (c *crew) close() error { return errors.Join(c.end(), c.sessions.close()) }

// withClients returns a preparation that opens n clients of a peer in this process. ready prepares
// them further, and returns the round that measures.
func withClients(n int, ready func(ctx context.Context, c *crew) (round, error)) preparation {
	return func(ctx context.Context, s *site, p *peer) (trial, error) {
		c := &crew{site: s, peer: p, end: func() error { return nil }}
		if err := c.add(ctx, p, n); err != nil {
			return trial{}, err
		}
		measure, err := ready(ctx, c)
		if err != nil {
			return trial{}, errors.Join(err, c.sessions.close())
		}
		return trial{measure, c.close}, nil
	}
}

// cost is what clients have used up to a moment, or what one operation used. out and in are bytes.
type cost struct{ requests, transactions, out, in float64 }

// spent returns the cost so far: the transactions of all clients, and the requests and bytes of the
// sessions. So no other client may use the server between two calls.
func (s *site) spent(ctx context.Context, sessions ...session) (cost, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	transactions, err := s.on.transactions(ctx)
	c := cost{transactions: float64(transactions)}
	for _, one := range sessions {
		n := one.counts()
		c.requests += float64(n.Requests)
		c.out += float64(n.BytesOut)
		c.in += float64(n.BytesIn)
	}
	return c, err
}

// spentByAll returns the cost so far as ZooKeeper counts it: transactions, and the requests of all
// clients, with their pings.
func (s *site) spentByAll(ctx context.Context) (cost, error) {
	c, err := s.spent(ctx)
	if err == nil {
		c.requests, err = s.on.requests(ctx)
	}
	return c, err
}

// per returns the cost since an earlier moment, for each of n operations.
func (c cost) per(n int, since cost) cost {
	each := func(now, then float64) float64 { return (now - then) / float64(n) }
	return cost{each(c.requests, since.requests), each(c.transactions, since.transactions), each(c.out, since.out), each(c.in, since.in)}
}

// costOf runs f, and returns the sessions' cost for each of the n operations that f did.
func (s *site) costOf(ctx context.Context, sessions sessions, f func() (n int, err error)) (cost, error) {
	before, err := s.spent(ctx, sessions...)
	if err != nil {
		return cost{}, err
	}
	n, err := f()
	if err != nil {
		return cost{}, err
	}
	after, err := s.spent(ctx, sessions...)
	return after.per(n, before), err
}

// timed calls f for 0 to n-1, and returns the duration of each call in seconds.
func timed(n int, f func(i int) error) (times []float64, err error) {
	for i := range n {
		start := time.Now()
		if err := f(i); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start).Seconds())
	}
	return times, nil
}

// spread splits 0 to n-1 into parts of at most each numbers, and calls f(first, end) for each part;
// end is not in the part. The given number of workers run in parallel.
func spread(workers, n, each int, f func(first, end int) error) error {
	return wait.All(workers, func(w int) error {
		for first := w * each; first < n; first += workers * each {
			if err := f(first, min(first+each, n)); err != nil {
				return err
			}
		}
		return nil
	})
}

// team has the goroutines of a turn. Their context ends with the first error or at the time limit.
type team struct {
	ctx     context.Context
	fail    context.CancelCauseFunc
	end     func() // must be called at the end of the turn
	running sync.WaitGroup
}

// team returns a team with a time limit. If its context ends before end is called, the sessions are
// closed, because some peers' locks ignore a context.
func (all sessions) team(ctx context.Context, limit time.Duration) *team {
	ctx, fail := context.WithCancelCause(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it is not done in %v", limit))
	stop := context.AfterFunc(ctx, func() { _ = all.close() }) // the error of the context is reported
	return &team{ctx: ctx, fail: fail, end: func() {
		stop()
		cancel()
		fail(nil)
	}}
}

// run starts f for 0 to n-1, each in a goroutine.
func (t *team) run(n int, f func(i int) error) {
	for i := range n {
		t.running.Go(func() {
			if err := f(i); err != nil {
				t.fail(err)
			}
		})
	}
}

// wait waits until all goroutines have ended, and returns the first error. After the end of the
// context it waits for at most patience, because go-zookeeper's Close can hang if many goroutines
// use the connection. Then calls of zk.Lock hang too.
func (t *team) wait() error {
	ended := make(chan struct{})
	go func() {
		t.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return context.Cause(t.ctx)
	case <-t.ctx.Done():
	}
	err := context.Cause(t.ctx)
	select {
	case <-ended:
	case <-time.After(patience):
		err = fmt.Errorf("%w; its goroutines hang %v after their sessions were closed", err, patience)
	}
	return err
}
