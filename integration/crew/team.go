// Package crew runs client processes behind relays and the servers that they use, makes faults of
// both by a seed, and keeps what the clients say. torture and compare are made of it, and package
// judge judges the histories.
package crew

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/locktest/wire"
)

// Team has the clients of one system, what they say, and the servers that they use.
type Team struct {
	Name    string
	Servers Cluster // faults of servers hit these; nil: there are none
	Clients []*Client
	History History

	mu   sync.Mutex
	died []string
}

// Places are those of a team's clients.
type Places struct {
	N       int
	Servers []string // each client has a relay of its own to each
	Tapped  bool     // the relays know ZooKeeper's sessions, for [Client.Expire]
	Logs    string   // folder for the standard errors; "": they are in the errors of clients that fail
	// Command makes the command of the next process in a place. Its first life is 1. relays are the
	// addresses of its relays.
	Command func(index, life int, relays []string) (*exec.Cmd, error)
}

// Name is the name of a client's process.
func Name(index, life int) string { return fmt.Sprintf("w%d.%d", index, life) }

// Start starts the team's clients. With an error, some may have started.
func (t *Team) Start(p Places) error {
	for i := range p.N {
		c := &Client{team: t, Index: i, places: p}
		t.Clients = append(t.Clients, c)
		var opts zkserver.RelayOptions
		if p.Tapped {
			opts.Dialer = c.Tap.Dial
		}
		var err error
		if c.Relays, err = zkserver.NewRelays(p.Servers, opts); err != nil {
			return err
		}
		if p.Logs != "" {
			if c.log, err = os.OpenFile(filepath.Join(p.Logs, fmt.Sprintf("w%d.log", i)), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
				return err
			}
		}
		if err := c.Start(); err != nil {
			return err
		}
	}
	return nil
}

func (t *Team) addDied(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.died = append(t.died, fmt.Sprintf(format, args...))
}

// Died says which clients have ended by themselves with an error.
func (t *Team) Died() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.died[:len(t.died):len(t.died)]
}

// Finish closes the clients' inputs and waits until all have ended. If ctx ends first, Finish kills
// the others, and tells of each its last record.
func (t *Team) Finish(ctx context.Context) (stuck []string) {
	for _, c := range t.Clients {
		c.worker.EndInput()
	}
	for _, c := range t.Clients {
		if !c.finish(ctx) {
			last := new(Record)
			for _, r := range t.History.All() {
				if c.Said(r) {
					last = r
				}
			}
			stuck = append(stuck, fmt.Sprintf("client %d of %s did not end; its last record is %+v", c.Index, t.Name, *last))
		}
	}
	return stuck
}

// Close kills the clients, closes their relays, and stops the servers.
func (t *Team) Close() error {
	err := wait.All(len(t.Clients), func(i int) error { return t.Clients[i].close() })
	if t.Servers != nil {
		err = errors.Join(err, t.Servers.Stop())
	}
	return err
}

// Client is a place of a process that can be killed and started again; each process is one life. Its
// messages to the servers pass relays of its own. Methods may be called concurrently.
type Client struct {
	Index  int
	Relays zkserver.Relays // one to each server; may be empty
	Tap    zkserver.Tap    // between the relays and the servers

	team   *Team
	places Places
	log    *os.File

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
	cmd, err := c.places.Command(c.Index, c.life, c.Relays.Addrs())
	if err != nil {
		return err
	}
	if c.log != nil {
		cmd.Stderr = c.log
	}
	worker, err := zkserver.StartWorker(cmd)
	if err != nil {
		return err
	}
	life, killed := c.life, new(atomic.Bool)
	c.worker, c.killed = worker, killed
	c.lives.Go(func() {
		err := zkserver.HearAll(worker, c.team.History.Add)
		<-worker.Exited()
		if err = errors.Join(err, worker.Err()); err != nil && !killed.Load() {
			c.team.addDied("%s of %s ended: %v %s", Name(c.Index, life), c.team.Name, err, worker.Stderr())
		}
		worker.Close(0)
	})
	return nil
}

// Said reports whether a record is of one of the client's processes.
func (c *Client) Said(r *Record) bool {
	var index int
	n, _ := fmt.Sscanf(r.Worker, "w%d.", &index)
	return n == 1 && index == c.Index
}

// note adds a record of what is done to the present process.
func (c *Client) note(op string) { c.team.History.Add(NewRecord(op, Name(c.Index, c.life))) }

// Kill kills the present process, if there is one, and waits for its end.
func (c *Client) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.worker != nil {
		c.killed.Store(true)
		c.worker.Kill()
		c.note(OpKilled)
	}
}

// Pause stops the process, until Resume. It is no error if the process has ended.
func (c *Client) Pause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.note(OpStopped)
	return c.signal(syscall.SIGSTOP)
}

// Resume continues a process that Pause has stopped.
func (c *Client) Resume() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(OpContinued)
	return c.signal(syscall.SIGCONT)
}

// Signal sends the process a signal. It is no error if the process has ended.
func (c *Client) Signal(s syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.signal(s)
}

func (c *Client) signal(s syscall.Signal) error {
	if err := c.worker.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// End asks the process to end, and kills it after patience.
func (c *Client) End(ctx context.Context, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.worker.EndInput()
	c.finish(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(OpKilled) // after the patience it was
}

// Expire ends the client's session at the first server that answers. done is false if there is no
// session or no server answers. It needs [Places.Tapped].
func (c *Client) Expire(ctx context.Context, patience time.Duration) (done bool) {
	for _, addr := range c.places.Servers {
		bound, cancel := context.WithTimeout(ctx, patience)
		err := c.Tap.Expire(bound, addr)
		cancel()
		if err == nil || errors.Is(err, wire.ErrSessionGone) {
			return err == nil
		}
	}
	return false
}

// finish waits until the process has ended. If ctx ends first, finish kills the process and returns
// false.
func (c *Client) finish(ctx context.Context) (ended bool) {
	select {
	case <-c.worker.Exited():
		ended = true
	case <-ctx.Done():
		c.Kill()
	}
	c.lives.Wait()
	return ended
}

// close kills the process and closes the relays.
func (c *Client) close() error {
	c.Kill()
	c.lives.Wait()
	c.Relays.Close()
	if c.log == nil {
		return nil
	}
	return c.log.Close()
}
