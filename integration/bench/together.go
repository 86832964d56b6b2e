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
)

// sessions are those of several clients of one peer.
type sessions []session

// openAll opens n sessions of a peer, which take the addresses in turn.
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

// enoughFiles returns an error if this process cannot open so many more files and
// some: without them, clients would try to connect again and again.
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

// close closes all at once: each waits for an answer of the server.
func (all sessions) close() error {
	return together(len(all), func(i int) error { return all[i].close() })
}

// guard returns a context that ends when something takes too long, or with fail;
// and closes the sessions then, because not every peer's lock heeds a context.
func (all sessions) guard(ctx context.Context) (_ context.Context, fail context.CancelCauseFunc, done func()) {
	return all.guardFor(ctx, patience)
}

// guardFor is guard with another limit.
func (all sessions) guardFor(ctx context.Context, limit time.Duration) (_ context.Context, fail context.CancelCauseFunc, done func()) {
	ctx, fail = context.WithCancelCause(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it is not done in %v", limit))
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
