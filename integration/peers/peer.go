// Package peers runs clients of four lock libraries on ZooKeeper, in processes of their own, each
// in its library's language: Holdfast, zk.Lock of go-zookeeper, Curator and kazoo. All processes
// use the same lines for commands and answers.
package peers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/integration/foreign"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// patience is the limit of the wait for an answer. No correct answer takes that long.
const patience = 30 * time.Second

// Peer is a process with clients. It executes the lines on its standard input, and ends when the
// input ends:
//
//	CLIENT open ADDRESS PATH KIND [OPTION]...   connect to this one server, for the lock of
//	                                            that path
//	CLIENT lock           wait for the lock
//	CLIENT rlock          wait for the lock, for reading
//	CLIENT downgrade      continue as a reader
//	CLIENT unlock         unlock
//	CLIENT held           ask the library, without asking the server, whether the lock is held
//
// KIND is [Mutex] or [RW]; for OPTION see [KeepParent], [Reused], [Mixed] and [MixedRW]. A command
// is answered when it is done, so answers can come in another order:
//
//	CLIENT COMMAND ok     or, instead of ok, the library's error;
//	                      for held: yes, no, or unknown
//
// Between answers, a client reports the library's spontaneous messages:
//
//	CLIENT warned TEXT    there is trouble with the connection
//	CLIENT told TEXT      the lock is lost
type Peer struct {
	*zkserver.Worker
	gone  chan struct{} // closed when the peer's output ends
	ended error         // reason why the output ended; read it only after gone is closed

	mu      sync.Mutex
	waiting map[string]chan zkserver.Line // receivers of the answers, by "CLIENT COMMAND"
	clients map[string]*Client
}

// OK is the answer to a command that succeeded.
const OK = "ok"

// Client is one client in a peer, with its own connection.
type Client struct {
	Name  string          // unique within its peer
	Relay *zkserver.Relay // passes the client's connections on to the server
	Tap   zkserver.Tap    // knows the client's session
	Links atomic.Int64    // number of connections that have reached the server

	peer   *Peer
	warned []zkserver.Line // guarded by peer.mu
	told   []zkserver.Line // guarded by peer.mu
}

// Start starts a peer. It calls overhear for every line that the peer prints, after handling it.
func Start(cmd *exec.Cmd, overhear func(line string)) (*Peer, error) {
	w, err := zkserver.StartWorker(cmd)
	if err != nil {
		return nil, err
	}
	p := &Peer{Worker: w, gone: make(chan struct{}), waiting: make(map[string]chan zkserver.Line), clients: make(map[string]*Client)}
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

// hear handles a line from the peer.
func (p *Peer) hear(line zkserver.Line) {
	words := strings.SplitN(line.Text, " ", 3)
	if len(words) < 3 {
		return // no line of the protocol
	}
	name, word, s := words[0], words[1], zkserver.Line{Text: words[2], At: line.At}
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

// Close ends the peer. The sessions of its clients are not closed: they expire.
func (p *Peer) Close() {
	p.Worker.Close(5 * time.Second)
	<-p.gone
	for _, c := range p.clients {
		c.Relay.Close()
	}
}

// Open adds a client for the lock at path, connected to the server through a relay. kind is [Mutex]
// or [RW]; options are [KeepParent], [Reused], and those in [Mixed] and [MixedRW].
func (p *Peer) Open(ctx context.Context, server, path, kind string, options ...string) (_ *Client, err error) {
	c := &Client{peer: p}
	if c.Relay, err = zkserver.NewRelay(server, zkserver.RelayOptions{Dialer: c.dial}); err != nil {
		return nil, err
	}
	p.mu.Lock()
	c.Name = fmt.Sprint(len(p.clients))
	p.clients[c.Name] = c
	p.mu.Unlock()
	return c, c.Must(ctx, append([]string{"open", c.Relay.Addr(), path, kind}, options...)...)
}

// dial connects the relay to the server, and counts the connection.
func (c *Client) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := c.Tap.Dial(network, address, timeout)
	if err == nil {
		c.Links.Add(1)
	}
	return conn, err
}

// Tell sends the client a command, and returns the channel of the answer. Do not send the same
// command again before its answer.
func (c *Client) Tell(command ...string) (<-chan zkserver.Line, error) {
	answer := make(chan zkserver.Line, 1)
	c.peer.mu.Lock()
	c.peer.waiting[c.Name+" "+command[0]] = answer
	c.peer.mu.Unlock()
	if err := c.peer.Tell(c.Name, strings.Join(command, " ")); err != nil {
		return nil, fmt.Errorf("client %s, %s: %w", c.Name, command[0], err)
	}
	return answer, nil
}

// Hear waits for an answer. If the peer ends first, the error says why.
func (c *Client) Hear(ctx context.Context, answer <-chan zkserver.Line) (zkserver.Line, error) {
	select {
	case s := <-answer:
		return s, nil
	case <-c.peer.gone:
		return zkserver.Line{}, fmt.Errorf("client %s: %w", c.Name, c.peer.ended)
	case <-ctx.Done():
		return zkserver.Line{}, context.Cause(ctx)
	}
}

var errNoAnswer = fmt.Errorf("no answer in %v", patience)

// Ask sends the client a command and waits for the answer. If no answer comes in 30 s, Ask returns
// "no answer in 30s" as the answer, and no error.
func (c *Client) Ask(ctx context.Context, command ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errNoAnswer)
	defer cancel()
	answer, err := c.Tell(command...)
	if err != nil {
		return "", err
	}
	s, err := c.Hear(ctx, answer)
	if errors.Is(err, errNoAnswer) {
		return errNoAnswer.Error(), nil // the report shows that the library did not answer
	}
	return s.Text, err
}

// Must sends the client a command, and returns an error unless the answer is [OK].
func (c *Client) Must(ctx context.Context, command ...string) error {
	answer, err := c.Ask(ctx, command...)
	if err == nil && answer != OK {
		err = fmt.Errorf("client %s cannot %s: %s", c.Name, command[0], answer)
	}
	return err
}

// FirstSince returns the client's first warning and first report of a loss after t. A zero Line
// means that there was none.
func (c *Client) FirstSince(t time.Time) (warned, told zkserver.Line) {
	first := func(all []zkserver.Line) zkserver.Line {
		for _, s := range all {
			if s.At.After(t) {
				return s
			}
		}
		return zkserver.Line{}
	}
	c.peer.mu.Lock()
	defer c.peer.mu.Unlock()
	return first(c.warned), first(c.told)
}

// Kinds of locks.
const (
	// Mutex is Holdfast's, zk.Lock, InterProcessMutex or kazoo's Lock.
	Mutex = "mutex"
	// RW is Holdfast's RWMutex, InterProcessReadWriteLock, or kazoo's WriteLock and ReadLock.
	RW = "rw"
)

// Options of a client.
const (
	// KeepParent sets Holdfast's policy keep_parent.
	KeepParent = "keep_parent"
	// Reused makes kazoo use one Lock object for all lock commands, as a program does that keeps
	// its Lock. Otherwise each lock command has a new object.
	Reused = "reused"
)

// Mixed has the options with which a client of [Mutex] waits for all other libraries. The patterns
// are kazoo's extra_lock_patterns, and the names that Curator's lock driver accepts. Without them
// kazoo waits only for kazoo, and Curator for all but kazoo.
var Mixed = []string{KeepParent, "-lock-", "__lock__"}

// MixedRW has the same kinds of options for [RW]. kazoo's ReadLock uses only the pattern of
// writers. Curator's lock has no such options, and recognizes Holdfast's entries without them.
var MixedRW = []string{KeepParent, "-__READ__", "-__WRIT__"}

// Terms are the settings of all clients of a peer.
type Terms struct {
	SessionTimeout time.Duration
	TTL            time.Duration // TTL of Holdfast's entries
}

// Program makes commands that start peers of one library.
type Program struct {
	Version string // name and version of the library; "": Holdfast, of this module
	Command func(Terms) *exec.Cmd
}

const holdfastName, zkLockName = "holdfast", "zk.Lock"

// Holdfast returns the Program for peers of Holdfast. They are copies of the calling program, which
// must call [ServeIfPeer].
func Holdfast(context.Context, string) (Program, error) { return self("", holdfastName) }

// ZKLock returns the Program for peers of zk.Lock. They are copies of the calling program, which
// must call [ServeIfPeer].
func ZKLock(context.Context, string) (Program, error) {
	return self(zkserver.ClientVersion(), zkLockName)
}

func self(version, name string) (Program, error) {
	path, err := os.Executable()
	return Program{version, func(terms Terms) *exec.Cmd {
		cmd, _ := zkserver.Command(path, selfEnv, selfConfig{name, terms}) // fails only for values that JSON does not have
		return cmd
	}}, err
}

//go:embed CuratorPeer.java
var curatorPeer []byte

//go:embed kazoo_peer.py
var kazooPeer []byte

// Curator compiles the peer for Curator in dir and returns its Program. dir must exist as long as
// the Program is used.
func Curator(ctx context.Context, dir string) (Program, error) {
	program, err := foreign.Curator(ctx, dir, "CuratorPeer", curatorPeer)
	return Program{program.Version, func(terms Terms) *exec.Cmd {
		return program.Command(fmt.Sprint(terms.SessionTimeout.Milliseconds()))
	}}, err
}

// Kazoo writes the peer for kazoo to dir and returns its Program. dir must exist as long as the
// Program is used.
func Kazoo(ctx context.Context, dir string) (Program, error) {
	program, err := foreign.Kazoo(ctx, dir, "kazoo_peer.py", kazooPeer)
	return Program{program.Version, func(terms Terms) *exec.Cmd {
		return program.Command(fmt.Sprint(terms.SessionTimeout.Seconds()))
	}}, err
}
