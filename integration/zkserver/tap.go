package zkserver

import (
	"bufio"
	"context"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/wire"
)

// Types of requests that belong to the connection, not to what its user asked;
// ZooDefs.OpCode.
const (
	opPing         = 11
	opAuth         = 100
	opSetWatches   = 101
	opSetWatches2  = 105
	opCloseSession = -11
)

// Tap stands between one client and its servers: it knows the client's session,
// counts what passes, and can hold or cut the connection, at a chosen request if
// need be. Its zero value is ready for use, one for each client:
//
//	var tap zkserver.Tap
//	conn, _, err := zk.Connect(servers, timeout, zk.WithDialer(tap.Dial))
//
// A tap that is stalled keeps its connections: end with Resume or Cut.
type Tap struct {
	// Dialer makes the connections to servers; default net.DialTimeout.
	Dialer zk.Dialer

	valve valve

	mu     sync.Mutex
	links  map[*link]struct{}
	id     int64
	passwd []byte
	counts Counts
	strike *strike // nil: no fault to come
}

// Counts is what passed through a tap. It counts when a packet is passed on: what
// a stall holds back comes later. A request that was answered is counted.
type Counts struct {
	// Requests are those that the client's user made: not the handshake, pings,
	// credentials, watches armed again after a reconnection, or the session's end.
	Requests int64
	// PacketsOut and BytesOut went to the server, PacketsIn and BytesIn to the
	// client; all kinds, their length fields included.
	PacketsOut, BytesOut int64
	PacketsIn, BytesIn   int64
}

// link is one connection through a tap.
type link struct {
	client, server net.Conn // client: our end of the client's connection
	closed         chan struct{}
	cut            func()
	replies        valve // for what the server says, beside the tap's
}

// Dial is a [zk.Dialer]. While the tap is stalled it hangs, as in a network that
// swallows packets.
func (t *Tap) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	start := time.Now()
	if stalled := t.valve.stalled(); stalled != nil {
		select {
		case <-stalled:
		case <-time.After(timeout):
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.ErrDeadlineExceeded}
		}
	}
	dial := t.Dialer
	if dial == nil {
		dial = net.DialTimeout
	}
	server, err := dial(network, address, timeout-time.Since(start))
	if err != nil {
		return nil, err
	}
	conn, client, err := socketPair()
	if err != nil {
		server.Close()
		return nil, err
	}
	l := &link{client: client, server: server, closed: make(chan struct{})}
	l.cut = sync.OnceFunc(func() {
		close(l.closed)
		client.Close()
		server.Close()
	})
	t.mu.Lock()
	if t.links == nil {
		t.links = make(map[*link]struct{})
	}
	t.links[l] = struct{}{}
	t.mu.Unlock()
	go t.forward(l, client, server, outbound)
	go t.forward(l, server, client, inbound)
	return conn, nil
}

// direction is one of the two in which packets pass: what is done about a packet
// when it comes, how it waits until it may pass, and what is done when it does.
type direction struct {
	strike func(t *Tap, l *link, packet []byte) (cut bool)
	pass   func(t *Tap, l *link) bool // false: the connection is closed
	saw    func(t *Tap, packet []byte, first bool)
}

var (
	outbound = direction{(*Tap).strikeRequest, (*Tap).passRequest, (*Tap).sawRequest}
	inbound  = direction{(*Tap).strikeReply, (*Tap).passReply, (*Tap).sawReply}
)

// forward passes packets on in one direction, until either end closes.
func (t *Tap) forward(l *link, from, to net.Conn, d direction) {
	defer t.forget(l)
	r := bufio.NewReader(from)
	for first := true; ; first = false {
		packet, err := wire.ReadFrame(r)
		if err == nil && !first && d.strike(t, l, packet) {
			return
		}
		// A stalled network does not tell of a closed connection either.
		if !d.pass(t, l) || err != nil {
			return
		}
		d.saw(t, packet, first)
		if _, err := to.Write(packet); err != nil {
			if to == l.server {
				<-l.closed // when what the server said before has been delivered
			}
			return
		}
	}
}

func (t *Tap) passRequest(l *link) bool { return t.valve.pass(l.closed) }

func (t *Tap) passReply(l *link) bool { return l.replies.pass(l.closed) && t.valve.pass(l.closed) }

// forget ends a connection.
func (t *Tap) forget(l *link) {
	l.cut()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.links, l)
}

func (t *Tap) sawRequest(packet []byte, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.PacketsOut++
	t.counts.BytesOut += int64(len(packet))
	if !first && isRequest(packet) {
		t.counts.Requests++
	}
}

func (t *Tap) sawReply(packet []byte, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.PacketsIn++
	t.counts.BytesIn += int64(len(packet))
	if first {
		if id, passwd, err := wire.ParseConnectResponse(packet); err == nil {
			t.id, t.passwd = id, passwd
		}
	}
}

// Session returns the session of the last handshake, as [wire.Expire] needs it. It is
// not ok before the first one, and after the server refused an expired session
// until there is a new one.
func (t *Tap) Session() (id int64, passwd []byte, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id, t.passwd, t.id != 0
}

// Expire ends the client's session at a server, as [wire.Expire] does; one that is not
// there, as between two sessions, gives [wire.ErrSessionGone].
func (t *Tap) Expire(ctx context.Context, addr string) error {
	id, passwd, ok := t.Session()
	if !ok {
		return wire.ErrSessionGone
	}
	return wire.Expire(ctx, addr, id, passwd)
}

// Counts returns what has passed so far, over all connections.
func (t *Tap) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

// Stall holds back all bytes in both directions, the news of a closed connection
// included, and makes Dial hang. Nothing is lost.
func (t *Tap) Stall() { t.valve.close() }

// Resume ends a stall, and the hold on replies of a fault, and delivers what they
// held back.
func (t *Tap) Resume() {
	t.valve.open()
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := range t.links {
		l.replies.open()
	}
}

// Cut closes the connections now, stalled or not. The client may dial again.
func (t *Tap) Cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := range t.links {
		l.cut()
	}
}

// socketPair returns two ends of a connection within this process. Unlike those
// of net.Pipe they buffer, as a network does.
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
	if a, err = fileConn(fds[0]); err != nil {
		syscall.Close(fds[1])
		return nil, nil, err
	}
	if b, err = fileConn(fds[1]); err != nil {
		a.Close()
		return nil, nil, err
	}
	return a, b, nil
}

// fileConn makes a connection of a socket, which it takes over.
func fileConn(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "socketpair")
	defer f.Close() // net.FileConn has a copy
	return net.FileConn(f)
}
