package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// A peer is a process in which clients of one lock live, all of them contenders
// for the same lock. It does what the lines on its standard input say, and ends
// with them:
//
//	CLIENT open ADDRESS   connect to this server, the client's only one
//	CLIENT lock           wait for the lock
//	CLIENT unlock         give it back
//	CLIENT held           what does the library say, without asking the server?
//
// Each is answered when it is done, in whatever order:
//
//	CLIENT COMMAND ok     or, instead of ok, what the library said: an error;
//	                      to held: yes, no, or unknown
//
// and in between the client passes on what its library says of its own accord:
//
//	CLIENT warned TEXT    there is trouble with the connection
//	CLIENT told TEXT      the lock is lost
type peer struct {
	*zkserver.Worker
	gone  chan struct{} // closed when it says nothing more
	ended error         // how it ended; set when gone

	mu      sync.Mutex
	waiting map[string]chan said // for the answers, by "CLIENT COMMAND"
	clients map[string]*client
}

// said is something that a peer said, and when that was heard.
type said struct {
	at   time.Time
	text string
}

// ok is the answer to a command that succeeded.
const ok = "ok"

// client is one client in a peer, with a connection of its own.
type client struct {
	peer   *peer
	name   string
	relay  *zkserver.Relay // in the way to the server
	tap    zkserver.Tap    // and behind it
	links  atomic.Int64    // connections that have reached the server, ever
	warned []said          // guarded by peer.mu
	told   []said          // guarded by peer.mu
}

// startPeer starts a peer. All that it says is passed to overhear too.
func startPeer(cmd *exec.Cmd, overhear func(line string)) (*peer, error) {
	w, err := zkserver.StartWorker(cmd)
	if err != nil {
		return nil, err
	}
	p := &peer{Worker: w, gone: make(chan struct{}), waiting: make(map[string]chan said), clients: make(map[string]*client)}
	go func() {
		defer close(p.gone)
		for {
			line, err := w.Hear(context.Background())
			if err != nil {
				p.ended = err
				return
			}
			p.hear(line)
			overhear(line.Text)
		}
	}()
	return p, nil
}

// hear takes a line that the peer said.
func (p *peer) hear(line zkserver.Line) {
	words := strings.SplitN(line.Text, " ", 3)
	if len(words) < 3 {
		return // not of the protocol: somebody's print
	}
	name, word, s := words[0], words[1], said{line.At, words[2]}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch c := p.clients[name]; {
	case c != nil && word == "warned":
		c.warned = append(c.warned, s)
	case c != nil && word == "told":
		c.told = append(c.told, s)
	default:
		if answer := p.waiting[name+" "+word]; answer != nil {
			delete(p.waiting, name+" "+word)
			answer <- s
		}
	}
}

// close ends the peer, without letting its clients say goodbye to the server.
func (p *peer) close() {
	p.Close(5 * time.Second)
	<-p.gone
	for _, c := range p.clients {
		c.relay.Close()
	}
}

// open adds a client, connected to the server through a relay.
func (p *peer) open(ctx context.Context, server string) (_ *client, err error) {
	c := &client{peer: p}
	if c.relay, err = zkserver.NewRelay(server, zkserver.RelayOptions{Dialer: c.dial}); err != nil {
		return nil, err
	}
	p.mu.Lock()
	c.name = fmt.Sprint(len(p.clients))
	p.clients[c.name] = c
	p.mu.Unlock()
	return c, c.must(ctx, "open", c.relay.Addr())
}

// dial is how the relay reaches the server.
func (c *client) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := c.tap.Dial(network, address, timeout)
	if err == nil {
		c.links.Add(1)
	}
	return conn, err
}

// tell gives the client a command, and returns what the answer will come on. A
// command is not given again before it was answered.
func (c *client) tell(command ...string) (<-chan said, error) {
	answer := make(chan said, 1)
	c.peer.mu.Lock()
	c.peer.waiting[c.name+" "+command[0]] = answer
	c.peer.mu.Unlock()
	if err := c.peer.Tell(c.name, strings.Join(command, " ")); err != nil {
		return nil, fmt.Errorf("client %s, %s: %w", c.name, command[0], err)
	}
	return answer, nil
}

// hear waits for an answer.
func (c *client) hear(ctx context.Context, answer <-chan said) (said, error) {
	select {
	case s := <-answer:
		return s, nil
	case <-c.peer.gone:
		return said{}, fmt.Errorf("client %s: %w", c.name, c.peer.ended)
	case <-ctx.Done():
		return said{}, context.Cause(ctx)
	}
}

var errNoAnswer = fmt.Errorf("no answer in %v", patience)

// ask gives the client a command and waits for the answer.
func (c *client) ask(ctx context.Context, command ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errNoAnswer)
	defer cancel()
	answer, err := c.tell(command...)
	if err != nil {
		return "", err
	}
	s, err := c.hear(ctx, answer)
	if errors.Is(err, errNoAnswer) {
		return errNoAnswer.Error(), nil // that, too, is something to tell of a library
	}
	return s.text, err
}

// must gives the client a command that has to succeed.
func (c *client) must(ctx context.Context, command ...string) error {
	answer, err := c.ask(ctx, command...)
	if err == nil && answer != ok {
		err = fmt.Errorf("client %s cannot %s: %s", c.name, command[0], answer)
	}
	return err
}

// firstSince returns the first warning, and the first news of a loss, that the
// client has passed on since a time; zero if there was none.
func (c *client) firstSince(t time.Time) (warned, told said) {
	first := func(all []said) said {
		for _, s := range all {
			if s.at.After(t) {
				return s
			}
		}
		return said{}
	}
	c.peer.mu.Lock()
	defer c.peer.mu.Unlock()
	return first(c.warned), first(c.told)
}
