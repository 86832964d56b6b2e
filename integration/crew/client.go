// Package crew runs client processes behind relays, makes faults of them and of servers by a seed,
// and keeps what the clients say. torture and compare are made of it.
package crew

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// Client is a place of a process that can be killed and started again; each process is one life. Its
// messages to the servers pass relays of its own. The exported fields do not change after the first
// Start. Methods may be called concurrently.
type Client struct {
	Relays  zkserver.Relays                   // one to each server; may be empty
	Command func(life int) (*exec.Cmd, error) // makes the command of a life; the first one is 1
	Hear    func(w *zkserver.Worker) error    // reads what a process says, until it has ended
	Gone    func(life int, err error)         // called if a process that was not killed failed

	mu     sync.Mutex
	life   int
	worker *zkserver.Worker
	killed *atomic.Bool   // the present process was killed, or will be
	lives  sync.WaitGroup // goroutines that listen to the processes
}

// Start starts the client's next process.
func (c *Client) Start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.life++
	cmd, err := c.Command(c.life)
	if err != nil {
		return err
	}
	worker, err := zkserver.StartWorker(cmd)
	if err != nil {
		return err
	}
	life, killed := c.life, new(atomic.Bool)
	c.worker, c.killed = worker, killed
	c.lives.Go(func() {
		err := c.Hear(worker)
		<-worker.Exited()
		if err = errors.Join(err, worker.Err()); err != nil && !killed.Load() {
			if said := worker.Stderr(); said != "" {
				err = errors.Join(err, errors.New(said))
			}
			c.Gone(life, err)
		}
		worker.Close(0)
	})
	return nil
}

// Kill kills the present process, if there is one, and waits for its end.
func (c *Client) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.worker != nil {
		c.killed.Store(true)
		c.worker.Kill()
	}
}

// Signal sends the process a signal. It is no error if the process has ended.
func (c *Client) Signal(s syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.worker.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Part holds back all messages between the client and the servers, until Rejoin.
func (c *Client) Part() {
	for _, r := range c.Relays {
		r.Stall()
	}
}

// Rejoin delivers what Part has held back, and what follows.
func (c *Client) Rejoin() {
	for _, r := range c.Relays {
		r.Resume()
	}
}

// EndInput closes the process's standard input, which asks the process to end.
func (c *Client) EndInput() { c.worker.EndInput() }

// Finish waits until the process has ended. If ctx ends first, Finish kills the process and returns
// false.
func (c *Client) Finish(ctx context.Context) (ended bool) {
	select {
	case <-c.worker.Exited():
		ended = true
	case <-ctx.Done():
		c.Kill()
	}
	c.lives.Wait()
	return ended
}

// Close kills the process and closes the relays.
func (c *Client) Close() {
	c.Kill()
	c.lives.Wait()
	c.Relays.Close()
}

// History has the records of all clients, in the order in which they arrived.
type History[R any] struct {
	mu      sync.Mutex
	records []R
}

// Add appends a record.
func (h *History[R]) Add(r R) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, r)
}

// All returns the records so far. The caller must not change them.
func (h *History[R]) All() []R {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.records[:len(h.records):len(h.records)]
}

// Count returns how many records are of a kind.
func (h *History[R]) Count(is func(R) bool) (n int) {
	for _, r := range h.All() {
		if is(r) {
			n++
		}
	}
	return n
}

// Write writes the records as JSON lines.
func (h *History[R]) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	for _, r := range h.All() {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
