package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/wire"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// client is one worker as the controller sees it, over all its lives, and its
// network.
type client struct {
	index   int
	config  workerConfig
	relays  zkserver.Relays // to each of the servers
	log     string          // file
	servers []string
	control *controller                  // serves it
	gone    func(name string, err error) // told when a life ended by itself
	lives   sync.WaitGroup               // those that are served

	granted chan struct{} // a token: it has got a lock, since the last look

	mu       sync.Mutex
	life     int
	worker   *zkserver.Worker
	killed   *atomic.Bool // the process is to be killed, or was
	session  int64
	password []byte
	doing    request // the last
}

func newClient(index int, servers []string, dir string, control *controller, gone func(string, error)) (c *client, err error) {
	c = &client{index: index, servers: servers, control: control, gone: gone, granted: make(chan struct{}, 1), log: filepath.Join(dir, fmt.Sprintf("w%d.log", index))}
	c.relays, err = zkserver.NewRelays(servers, zkserver.RelayOptions{})
	c.config.Servers = c.relays.Addrs()
	return c, err
}

// start starts the next life.
func (c *client) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.life++
	config := c.config
	config.Name = fmt.Sprintf("w%d.%d", c.index, c.life)
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	cmd.Stderr = log
	worker, err := zkserver.StartWorker(cmd)
	if err != nil {
		return err
	}
	killed := new(atomic.Bool)
	c.worker, c.killed = worker, killed
	c.lives.Go(func() {
		c.control.serve(c, config.Name, worker)
		worker.EndInput() // in case it says what is not understood
		<-worker.Exited()
		if err := worker.Err(); err != nil && !killed.Load() {
			c.gone(config.Name, err)
		}
		worker.Close(0)
	})
	return nil
}

// kill ends the life at hand, if there is one.
func (c *client) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.worker != nil {
		c.killed.Store(true)
		c.worker.Kill()
	}
}

// signal stops the worker or lets it go on, if it lives just now.
func (c *client) signal(s syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.worker.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// inside reports whether the worker has a lock, by the last it told.
func (c *client) inside() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.doing.Op {
	case opGrant, opRead, opWrite, opTake, opPut, opShare, opShown:
		return true
	}
	return false
}

// exited is closed when the life at hand has ended.
func (c *client) exited() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.worker.Exited()
}

// saw takes what a request tells of the worker.
func (c *client) saw(q request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doing = q
	c.session, c.password = q.Session, q.Password
	if q.Op == opGrant {
		select {
		case c.granted <- struct{}{}:
		default: // there is one
		}
	}
}

// awaitGrant waits until the worker gets a lock, for a while.
func (c *client) awaitGrant(ctx context.Context, patience time.Duration) {
	select {
	case <-c.granted: // of long ago
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-c.granted:
	case <-ctx.Done():
	}
}

// expire ends the worker's session at whichever server will do it.
func (c *client) expire(ctx context.Context) (done bool) {
	c.mu.Lock()
	session, password := c.session, c.password
	c.mu.Unlock()
	if session == 0 {
		return false
	}
	for _, addr := range c.servers {
		bound, cancel := context.WithTimeout(ctx, sessionTimeout)
		err := wire.Expire(bound, addr, session, password)
		cancel()
		if err == nil {
			return true
		}
		if errors.Is(err, wire.ErrSessionGone) {
			return false
		}
	}
	return false // no server serves
}

// heal undoes what was done to the client's network.
func (c *client) heal() {
	for _, r := range c.relays {
		r.Resume()
	}
}

// close ends the worker and its network.
func (c *client) close() {
	c.kill()
	c.lives.Wait()
	c.relays.Close()
}
