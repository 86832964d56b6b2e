package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/locktest/wire"
)

// client is the controller's side of one worker.
type client struct {
	crew.Client
	tap     zkserver.Tap // between the relays and the servers: it knows the session
	servers []string
	log     *os.File // standard error of its processes
	history *history
	granted chan struct{} // has a token if the worker got a lock since the last awaitGrant

	mu   sync.Mutex
	last record // last record from the worker
}

// newClient returns the client of a worker. gone is called if a process that was not killed fails.
func newClient(config workerConfig, servers []string, dir string, h *history, gone func(name string, err error)) (c *client, err error) {
	c = &client{servers: servers, history: h, granted: make(chan struct{}, 1)}
	if c.Relays, err = zkserver.NewRelays(servers, zkserver.RelayOptions{Dialer: c.tap.Dial}); err != nil {
		return nil, err
	}
	config.Servers = c.Relays.Addrs()
	of := func(life int) workerConfig { config.Life = life; return config }
	log, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("w%d.log", config.Index)), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	c.log = log
	c.Command = func(life int) (*exec.Cmd, error) {
		cmd, err := zkserver.Command("", workerEnv, of(life))
		cmd.Stderr = log
		return cmd, err
	}
	c.Hear = func(w *zkserver.Worker) error { return zkserver.HearAll(w, c.add) }
	c.Gone = func(life int, err error) { gone(of(life).name(), err) }
	return c, nil
}

// add adds a record of the worker to the history.
func (c *client) add(r *record) {
	c.history.Add(r)
	c.mu.Lock()
	c.last = *r
	c.mu.Unlock()
	if r.Op == opGrant {
		select {
		case c.granted <- struct{}{}:
		default: // there is a token already
		}
	}
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

// close kills the worker and closes its relays and its log.
func (c *client) close() {
	c.Close()
	c.log.Close()
}
