package zkserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/wait"
)

// relayDialTimeout limits the time until the server accepts a relay's connection.
const relayDialTimeout = 5 * time.Second

// Relay passes connections to its address on to a server. Clients in other processes can use it
// too. It can hold back traffic, as a network does that swallows packets, or cut the connections.
// If it dials through a [Tap] or a [Meter], those observe the traffic.
type Relay struct {
	pipes
	target string
	opts   RelayOptions
	// opening reads a connection's first bytes, and returns their replacement; nil: none is replaced.
	opening   func(io.Reader) ([]byte, error)
	patient   bool // a refused connection is dialed again, for relayDialTimeout
	listener  net.Listener
	accepting sync.WaitGroup
	serving   sync.WaitGroup
}

// RelayOptions has additional behavior of a relay; the zero value has none.
type RelayOptions struct {
	// Dialer connects to the server; default net.DialTimeout.
	Dialer zk.Dialer
	// Delay is the delay of everything that the server sends, so a round trip takes longer by Delay.
	// The delays of concurrent replies do not add up. A stall does not hold back bytes that are
	// already delayed.
	Delay time.Duration
}

// NewRelay returns a relay to a server's address. The relay listens on a free port of 127.0.0.1
// until Close.
func NewRelay(target string, opts RelayOptions) (*Relay, error) {
	r, err := newRelay(target)
	if err == nil {
		r.opts = opts
		r.start()
	}
	return r, err
}

// newRelay returns a relay that listens. It serves clients from start on.
func newRelay(target string) (*Relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &Relay{target: target, listener: listener}, nil
}

func (r *Relay) start() { r.accepting.Go(r.accept) }

// Addr returns the address to connect to, 127.0.0.1:port.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Close cuts the connections, releases the port and waits for its goroutines.
func (r *Relay) Close() {
	_ = r.listener.Close() // fails only if it was closed before
	r.accepting.Wait()
	r.Cut()
	r.serving.Wait()
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files: other connections may close some
			time.Sleep(pollInterval)
			continue
		}
		p := r.add(client)
		r.serving.Go(func() { r.serve(p) })
	}
}

// serve passes on the traffic of one connection until either end closes it.
func (r *Relay) serve(p *pipe) {
	defer r.end(p)
	if !r.valve.pass(p.ctx.Done()) {
		return
	}
	server, err := r.dial(p.ctx)
	if err != nil || !p.join(server) {
		return
	}
	r.serving.Go(func() { r.forward(p, server, p.client, r.opts.Delay) })
	if r.opening != nil {
		first, err := r.opening(p.client)
		if !r.valve.pass(p.ctx.Done()) || err != nil {
			return
		}
		if _, err := server.Write(first); err != nil {
			return
		}
	}
	r.forward(p, p.client, server, 0)
}

func (r *Relay) dial(ctx context.Context) (net.Conn, error) {
	for end := time.Now().Add(relayDialTimeout); ; {
		server, err := dialer(r.opts.Dialer)("tcp", r.target, relayDialTimeout)
		if err == nil || !r.patient || time.Now().After(end) || wait.Sleep(ctx, pollInterval) != nil {
			return server, err
		}
	}
}

// dialer returns d, or the default if d is nil.
func dialer(d zk.Dialer) zk.Dialer {
	if d == nil {
		return net.DialTimeout
	}
	return d
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
		// A stalled network does not report a closed connection either.
		if !r.valve.pass(p.ctx.Done()) {
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

// later returns a write that takes effect after a delay. It does not wait, unless 1,024 writes are
// pending. flush waits until all is written.
func later(to io.Writer, delay time.Duration) (write func([]byte) (int, error), flush func()) {
	type chunk struct {
		due  time.Time
		data []byte
	}
	queue, done := make(chan chunk, 1024), make(chan struct{})
	go func() {
		defer close(done)
		sleepUntil, end := newSleeper()
		defer end()
		var err error
		for c := range queue {
			if err == nil { // after an error nothing reads any more; the other direction ends the pipe
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

// Relays has relays to several servers.
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

// Close closes all relays, as [Relay.Close] does.
func (all Relays) Close() {
	for _, r := range all {
		r.Close()
	}
}
