package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/locktest/wire"
)

// client is the controller's side of one worker. Each process of the worker is one life; a new one
// starts after each kill.
type client struct {
	relays  zkserver.Relays // a relay to each server
	tap     zkserver.Tap    // between the relays and the servers: it knows the session
	servers []string
	log     string // name of the log file
	history *history
	gone    func(name string, err error) // called when a process that was not killed fails
	lives   sync.WaitGroup               // goroutines that listen to the worker's processes
	granted chan struct{}                // has a token if the worker got a lock since the last awaitGrant

	mu     sync.Mutex
	config workerConfig // configuration of the present process
	worker *zkserver.Worker
	killed *atomic.Bool // the present process was killed, or will be
	last   record       // last record from the worker
}

func newClient(config workerConfig, servers []string, dir string, h *history, gone func(string, error)) (c *client, err error) {
	c = &client{config: config, servers: servers, history: h, gone: gone, granted: make(chan struct{}, 1)}
	c.log = filepath.Join(dir, fmt.Sprintf("w%d.log", config.Index))
	c.relays, err = zkserver.NewRelays(servers, zkserver.RelayOptions{Dialer: c.tap.Dial})
	c.config.Servers = c.relays.Addrs()
	return c, err
}

// start starts the worker's next process.
func (c *client) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.config.Life++
	cmd, err := zkserver.Command("", workerEnv, c.config)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = log
	worker, err := zkserver.StartWorker(cmd)
	if err != nil {
		return err
	}
	name, killed := c.config.name(), new(atomic.Bool)
	c.worker, c.killed = worker, killed
	c.lives.Go(func() {
		err := c.listen(worker)
		<-worker.Exited()
		if err = errors.Join(err, worker.Err()); err != nil && !killed.Load() {
			c.gone(name, err)
		}
		worker.Close(0)
	})
	return nil
}

// listen adds the worker's records to the history until the process has ended.
func (c *client) listen(w *zkserver.Worker) error {
	return zkserver.HearAll(w, func(r *record) {
		c.history.add(r)
		c.mu.Lock()
		c.last = *r
		c.mu.Unlock()
		if r.Op == opGrant {
			select {
			case c.granted <- struct{}{}:
			default: // there is a token already
			}
		}
	})
}

// finish waits until the worker has ended; its input must be closed. If ctx ends first, finish
// kills the worker, and stuck describes the worker with its last record. Otherwise stuck is empty.
func (c *client) finish(ctx context.Context) (stuck string) {
	select {
	case <-c.worker.Exited():
	case <-ctx.Done():
		c.mu.Lock()
		stuck = fmt.Sprintf("%s, whose last record was %+v", c.config.name(), c.last)
		c.mu.Unlock()
		c.kill()
	}
	c.lives.Wait()
	return stuck
}

// kill kills the present process, if there is one, and waits for its end.
func (c *client) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.worker != nil {
		c.killed.Store(true)
		c.worker.Kill()
	}
}

// signal sends the worker a signal. It is no error if the worker has ended.
func (c *client) signal(s syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.worker.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// inside reports whether the worker holds a lock, according to its last record.
func (c *client) inside() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains([]string{opGrant, opCheck, opShare, opShown}, c.last.Op)
}

// awaitGrant waits until the worker gets a lock, for at most patience, or until ctx ends.
func (c *client) awaitGrant(ctx context.Context, patience time.Duration) {
	select {
	case <-c.granted: // drop the token of an earlier grant
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-c.granted:
	case <-ctx.Done():
	}
}

// expire ends the worker's session, at the first server that answers. done is false if there is no
// session or no server answers.
func (c *client) expire(ctx context.Context) (done bool) {
	for _, addr := range c.servers {
		bound, cancel := context.WithTimeout(ctx, sessionTimeout)
		err := c.tap.Expire(bound, addr)
		cancel()
		if err == nil || errors.Is(err, wire.ErrSessionGone) {
			return err == nil
		}
	}
	return false
}

// close kills the worker and closes its relays.
func (c *client) close() {
	c.kill()
	c.lives.Wait()
	c.relays.Close()
}
