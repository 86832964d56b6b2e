package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// sessions are those of several clients of one peer.
type sessions []session

// openAll opens n sessions of a peer.
func openAll(ctx context.Context, p *peer, addr string, n int) (sessions, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var all sessions
	for range n {
		s, err := p.open(ctx, addr)
		if err != nil {
			return nil, errors.Join(err, all.close())
		}
		all = append(all, s)
	}
	return all, nil
}

// close closes all at once: each waits for an answer of the server.
func (all sessions) close() error {
	return together(len(all), func(i int) error { return all[i].close() })
}

// guard returns a context that ends when something takes too long, or with fail;
// and closes the sessions then, because not every peer's lock heeds a context.
func (all sessions) guard(ctx context.Context) (_ context.Context, fail context.CancelCauseFunc, done func()) {
	ctx, fail = context.WithCancelCause(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it is not done in %v", patience))
	stop := context.AfterFunc(ctx, func() { _ = all.close() }) // why it ended is what is told
	return ctx, fail, func() {
		stop()
		cancel()
		fail(nil)
	}
}

// together runs f for 0 to n-1 at once.
func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { errs[i] = f(i) })
	}
	running.Wait()
	return errors.Join(errs...)
}
