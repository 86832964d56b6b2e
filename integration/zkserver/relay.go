package zkserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// relayDialTimeout bounds how long a relay waits for the server to accept.
const relayDialTimeout = 5 * time.Second

// Relay stands between a server and the clients that connect to it by way of the relay's
// address, in other processes too. It can hold back what passes, as a network does
// that swallows packets, or cut the connections. One that dials by way of a [Tap]
// or a [Meter] has that know what passes.
type Relay struct {
	target   string
	opts     RelayOptions
	opening  func(io.Reader) ([]byte, error) // if set: reads what a connection begins with, and returns what to pass on in its place
	listener net.Listener
	valve    valve
	running  sync.WaitGroup

	mu     sync.Mutex
	pipes  map[*pipe]struct{}
	closed bool
}

// RelayOptions is what a relay does beside passing on; the zero value is nothing.
type RelayOptions struct {
	// Dialer makes the connections to the server; default net.DialTimeout.
	Dialer zk.Dialer
	// Delay is what all that the server says takes longer, however much of it is
	// under way: so a round trip takes that much longer. A stall does not hold back
	// what is.
	Delay time.Duration
}

// pipe is one connection through a relay.
type pipe struct {
	client, server net.Conn // server: nil while it is dialed
	closed         chan struct{}
}

// NewRelay returns a relay to a server's address. It listens on a free port of
// 127.0.0.1 until Close.
func NewRelay(target string, opts RelayOptions) (*Relay, error) {
	r, err := newRelay(target)
	if err == nil {
		r.opts = opts
		r.start()
	}
	return r, err
}

// newRelay returns a relay that has its address, and serves no client before start.
func newRelay(target string) (*Relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &Relay{target: target, listener: listener, pipes: map[*pipe]struct{}{}}, nil
}

func (r *Relay) start() { r.running.Go(r.accept) }

// Addr returns the address to connect to, 127.0.0.1:port.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Stall holds back all bytes in both directions, the news of a closed connection
// included, and leaves new connections without an answer. Nothing is lost.
func (r *Relay) Stall() { r.valve.close() }

// Resume ends a stall and delivers what it held back.
func (r *Relay) Resume() { r.valve.open() }

// Cut closes the connections now, stalled or not. New ones may be made.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.pipes {
		r.close(p)
	}
}

// Close cuts the connections, gives the port back and waits until all is done.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	_ = r.listener.Close() // fails only if closed before
	r.Cut()
	r.running.Wait()
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files: others may close some
			time.Sleep(pollInterval)
			continue
		}
		p := &pipe{client: client, closed: make(chan struct{})}
		r.mu.Lock()
		r.pipes[p] = struct{}{}
		if r.closed {
			r.close(p)
		}
		r.mu.Unlock()
		r.running.Go(func() { r.serve(p) })
	}
}

// end closes a pipe's ends.
func (r *Relay) end(p *pipe) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.close(p)
}

// close closes a pipe's ends; r.mu is held.
func (r *Relay) close(p *pipe) {
	if _, open := r.pipes[p]; !open {
		return
	}
	delete(r.pipes, p)
	close(p.closed)
	p.client.Close()
	if p.server != nil {
		p.server.Close()
	}
}

// serve passes on what one connection says until either end closes it.
func (r *Relay) serve(p *pipe) {
	defer r.end(p)
	if !r.valve.pass(p.closed) {
		return
	}
	dial := r.opts.Dialer
	if dial == nil {
		dial = net.DialTimeout
	}
	server, err := dial("tcp", r.target, relayDialTimeout)
	if err != nil {
		return
	}
	r.mu.Lock()
	p.server = server
	_, open := r.pipes[p]
	r.mu.Unlock()
	if !open {
		server.Close()
		return
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		r.forward(p, server, p.client, r.opts.Delay)
	}()
	if r.opening == nil || r.open(p) {
		r.forward(p, p.client, server, 0)
	}
	<-back
}

// open passes on what a connection begins with.
func (r *Relay) open(p *pipe) bool {
	first, err := r.opening(p.client)
	if r.valve.pass(p.closed) && err == nil {
		_, err = p.server.Write(first)
		if err == nil {
			return true
		}
	}
	r.end(p)
	return false
}

// forward passes bytes on in one direction, until either end closes.
func (r *Relay) forward(p *pipe, from, to net.Conn, delay time.Duration) {
	defer r.end(p)
	write := to.Write
	if delay > 0 {
		var flush func()
		write, flush = later(to, delay)
		defer flush()
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		// A stalled network does not tell of a closed connection either.
		if !r.valve.pass(p.closed) {
			return
		}
		if n > 0 {
			if _, err := write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// later returns a write that returns at once and takes effect after a delay, and what
// waits until all is written.
func later(to io.Writer, delay time.Duration) (write func([]byte) (int, error), flush func()) {
	type chunk struct {
		due  time.Time
		data []byte
	}
	queue, done := make(chan chunk, 1024), make(chan struct{})
	go func() {
		defer close(done)
		var err error
		for c := range queue {
			if err == nil { // else its reader has gone, which ends the other direction
				sleepUntil(c.due)
				_, err = to.Write(c.data)
			}
		}
	}()
	write = func(p []byte) (int, error) {
		queue <- chunk{time.Now().Add(delay), bytes.Clone(p)}
		return len(p), nil
	}
	return write, func() { close(queue); <-done }
}

// Relays are those to several servers.
type Relays []*Relay

// NewRelays returns a relay to each of the servers.
func NewRelays(targets []string, opts RelayOptions) (Relays, error) {
	var all Relays
	for _, target := range targets {
		r, err := NewRelay(target, opts)
		if err != nil {
			all.Close()
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// Addrs returns the addresses to connect to.
func (all Relays) Addrs() []string {
	var addrs []string
	for _, r := range all {
		addrs = append(addrs, r.Addr())
	}
	return addrs
}

// Close closes all, as [Relay.Close] does.
func (all Relays) Close() {
	for _, r := range all {
		r.Close()
	}
}

// valve lets bytes pass, or holds them back. Its zero value is open.
type valve struct {
	mu   sync.Mutex
	shut chan struct{} // closed when it opens; nil while it is open
}

func (v *valve) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut == nil {
		v.shut = make(chan struct{})
	}
}

func (v *valve) open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut != nil {
		close(v.shut)
		v.shut = nil
	}
}

// stalled returns a channel that closes when the valve opens, nil if it is open.
func (v *valve) stalled() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shut
}

// pass waits until the valve is open. It reports false if the connection was
// closed before.
func (v *valve) pass(closed <-chan struct{}) bool {
	for shut := v.stalled(); shut != nil; shut = v.stalled() {
		select {
		case <-shut:
		case <-closed:
			return false
		}
	}
	return true
}
