package zkserver

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/locktest/wire"
)

// Tap is between one client and its servers. It knows the client's session, counts the traffic, and
// can hold or cut the connection, also at a chosen request. Its zero value is ready for use. Each
// client needs its own:
//
//	var tap zkserver.Tap
//	conn, _, err := zk.Connect(servers, timeout, zk.WithDialer(tap.Dial))
//
// A stalled tap keeps its connections open: end it with Resume or Cut.
type Tap struct {
	// Dialer connects to servers; default net.DialTimeout.
	Dialer zk.Dialer
	// Virtual uses connections that work in a bubble of testing/synctest, but do not buffer. Dialer must
	// be one of package locktest.
	Virtual bool

	pipes
	meter Meter

	mu     sync.Mutex
	id     int64
	passwd []byte
	strike *strike // nil: no fault is planned
}

// Dial is a [zk.Dialer]. While the tap is stalled Dial waits, until the timeout, as in a network
// that swallows packets.
func (t *Tap) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	start := time.Now()
	if stalled := t.valve.stalled(); stalled != nil {
		select {
		case <-stalled:
		case <-time.After(timeout):
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.ErrDeadlineExceeded}
		}
	}
	server, err := dialer(t.Dialer)(network, address, timeout-time.Since(start))
	if err != nil {
		return nil, err
	}
	conn, client, err := t.pair()
	if err != nil {
		server.Close()
		return nil, err
	}
	p := t.add(client)
	if p.join(&meteredConn{Conn: server, meter: &t.meter}) {
		go t.requests(p)
		go t.answers(p)
	}
	return conn, nil
}

// requests passes on the client's traffic, until either end closes.
func (t *Tap) requests(p *pipe) {
	defer t.end(p)
	r := bufio.NewReader(p.client)
	for first := true; ; first = false {
		packet, err := wire.ReadFrame(r)
		if err == nil && !first && t.strikeRequest(p, packet) {
			return
		}
		// A stalled network does not report a closed connection either.
		if !t.valve.pass(p.ctx.Done()) || err != nil {
			return
		}
		if _, err := p.server.Write(packet); err != nil {
			<-p.ctx.Done() // answers ends the pipe when it has delivered the server's earlier data
			return
		}
	}
}

// answers passes on the server's traffic, until either end closes.
func (t *Tap) answers(p *pipe) {
	defer t.end(p)
	r := bufio.NewReader(p.server)
	for first := true; ; first = false {
		packet, err := wire.ReadFrame(r)
		if err == nil && !first && t.strikeReply(p, packet) {
			return
		}
		if !p.replies.pass(p.ctx.Done()) || !t.valve.pass(p.ctx.Done()) || err != nil {
			return
		}
		if first {
			t.learn(packet)
		}
		if _, err := p.client.Write(packet); err != nil {
			return
		}
	}
}

// learn takes the session from the answer to a handshake.
func (t *Tap) learn(handshake []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id, passwd, err := wire.ParseConnectResponse(handshake); err == nil {
		t.id, t.passwd = id, passwd
	}
}

// Session returns the session of the last handshake, for [wire.Expire]. ok is false before the
// first handshake, and after the server has refused an expired session until there is a new one.
func (t *Tap) Session() (id int64, passwd []byte, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id, t.passwd, t.id != 0
}

// Expire ends the client's session at a server, as [wire.Expire] does. Between two sessions the
// error is [wire.ErrSessionGone].
func (t *Tap) Expire(ctx context.Context, addr string) error {
	id, passwd, ok := t.Session()
	if !ok {
		return wire.ErrSessionGone
	}
	return wire.Expire(ctx, addr, id, passwd)
}

// Counts returns the counts so far, over all connections.
func (t *Tap) Counts() Counts { return t.meter.Counts() }

// pair returns two ends of a connection within this process.
func (t *Tap) pair() (a, b net.Conn, err error) {
	if t.Virtual {
		a, b = net.Pipe()
		return a, b, nil
	}
	return socketPair()
}

// socketPair returns two ends of a connection. Unlike net.Pipe, it buffers, as a network does.
func socketPair() (a, b net.Conn, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	var ends [2]net.Conn
	var errs [2]error
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socketpair")
		ends[i], errs[i] = net.FileConn(f) // duplicates the descriptor
		f.Close()
	}
	return ends[0], ends[1], errors.Join(errs[:]...)
}
