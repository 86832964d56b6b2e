package locktest

import (
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// sendBuffer is the number of a client's bytes in flight after which its Write blocks, like the
// buffers of a TCP connection. Servers have no limit: they queue their replies.
const sendBuffer = 256 << 10

// A clientConn is the client's end of a connection. Arrived bytes are kept until the client reads
// them. If nothing delays its writes, the server handles them in the same call, so a connection
// needs no goroutine.
//
// Its lock may be taken while the ensemble's is held, but not the other way around.
type clientConn struct {
	server *serverConn

	mu       sync.Mutex
	readable sync.Cond
	writable sync.Cond
	in       []byte // arrived bytes
	off      int    // number of bytes read from in
	end      error  // result of Read after in; nil while the server's end is open
	closed   bool
	frozen   time.Time // start of a freeze; zero: not frozen
	unsent   int       // number of bytes written that have not arrived
	read     deadline
	write    deadline
}

func newClientConn(s *serverConn) *clientConn {
	c := &clientConn{server: s}
	c.readable.L = &c.mu
	c.writable.L = &c.mu
	return c
}

func (c *clientConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, c.opError("read", net.ErrClosed)
		case c.frozen.IsZero() && c.read.passed():
			return 0, c.opError("read", os.ErrDeadlineExceeded)
		case len(p) == 0:
			return 0, nil
		case c.off < len(c.in):
			n := copy(p, c.in[c.off:])
			if c.off += n; c.off == len(c.in) {
				c.in, c.off = c.in[:0], 0
			}
			return n, nil
		case c.end == io.EOF:
			return 0, io.EOF
		case c.end != nil:
			return 0, c.opError("read", c.end)
		}
		c.await(&c.read, &c.readable)
	}
}

func (c *clientConn) Write(p []byte) (int, error) {
	if err := c.mayWrite(); err != nil {
		return 0, err
	}
	e := c.server.e
	e.lock()
	defer e.unlock()
	c.server.label.counts.BytesFromClient += int64(len(p))
	c.server.in.send(p, false, e.latencyOf(c.server))
	return len(p), nil
}

// mayWrite waits for room to write.
func (c *clientConn) mayWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return c.opError("write", net.ErrClosed)
		case c.end != nil:
			return c.opError("write", syscall.EPIPE)
		case c.frozen.IsZero() && c.write.passed():
			return c.opError("write", os.ErrDeadlineExceeded)
		case c.unsent < sendBuffer:
			return nil
		}
		c.await(&c.write, &c.writable)
	}
}

func (c *clientConn) await(d *deadline, cond *sync.Cond) {
	if c.frozen.IsZero() {
		d.wait(cond)
	} else {
		cond.Wait()
	}
}

func (c *clientConn) Close() error {
	if !c.finish() {
		return c.opError("close", net.ErrClosed)
	}
	e := c.server.e
	e.lock()
	defer e.unlock()
	c.server.clientLeft()
	return nil
}

// finish closes the client's end: every later call fails. It returns false if the end was closed
// before.
func (c *clientConn) finish() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.closed = true
	c.read.stop()
	c.write.stop()
	c.wake()
	return true
}

func (c *clientConn) wake() {
	c.readable.Broadcast()
	c.writable.Broadcast()
}

// arrive takes bytes, or the end, from the server.
func (c *clientConn) arrive(b []byte, end error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.end != nil {
		return
	}
	if len(c.in)+len(b) > cap(c.in) { // reuse the room of bytes already read
		c.in, c.off = append(c.in[:0], c.in[c.off:]...), 0
	}
	c.in = append(c.in, b...)
	if c.end = end; end != nil {
		c.writable.Broadcast()
	}
	c.readable.Broadcast()
}

// freeze stops the deadlines, or restarts them and delays them by the length of the freeze.
func (c *clientConn) freeze(frozen bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case frozen == !c.frozen.IsZero():
		return
	case frozen:
		c.frozen = time.Now()
		return
	}
	c.read.putOff(time.Since(c.frozen))
	c.write.putOff(time.Since(c.frozen))
	c.frozen = time.Time{}
	c.wake()
}

func (c *clientConn) setUnsent(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unsent = n
	c.writable.Broadcast()
}

func (c *clientConn) SetDeadline(t time.Time) error      { return c.setDeadlines(t, &c.read, &c.write) }
func (c *clientConn) SetReadDeadline(t time.Time) error  { return c.setDeadlines(t, &c.read) }
func (c *clientConn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, &c.write) }

func (c *clientConn) setDeadlines(t time.Time, deadlines ...*deadline) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	for _, d := range deadlines {
		d.at = t
	}
	c.wake()
	return nil
}

func (c *clientConn) LocalAddr() net.Addr  { return addr(c.server.label.name) }
func (c *clientConn) RemoteAddr() net.Addr { return addr(c.server.member.addr) }

func (c *clientConn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

// A deadline limits waits on a condition. Clients move it with each packet, so moving it costs
// nothing: a timer is armed only for a wait. If the timer was armed for an earlier deadline, it
// wakes the waiter too early, and the waiter waits again.
type deadline struct {
	at    time.Time // zero: none
	armed time.Time // time at which the timer fires; zero: not armed
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) putOff(by time.Duration) {
	if !d.at.IsZero() {
		d.at = d.at.Add(by)
	}
}

// wait waits for the condition, at most until the deadline.
func (d *deadline) wait(c *sync.Cond) {
	if !d.at.IsZero() && (d.armed.IsZero() || d.at.Before(d.armed)) {
		d.armed = d.at
		if d.timer == nil {
			d.timer = time.AfterFunc(time.Until(d.at), func() {
				c.L.Lock()
				defer c.L.Unlock()
				d.armed = time.Time{}
				c.Broadcast()
			})
		} else {
			d.timer.Reset(time.Until(d.at))
		}
	}
	c.Wait()
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// A link carries the bytes of one direction of a connection, in order. The ensemble's lock guards
// it.
type link struct {
	e       *Ensemble
	deliver func(b []byte, end bool)
	resized func(size int) // called with the number of bytes in flight; may be nil
	held    bool           // nothing arrives
	queue   []packet
	size    int
	alarm   *alarm // goes off when the head of the queue is due
}

// A packet was sent, but has not arrived.
type packet struct {
	at  time.Time // earliest arrival
	b   []byte
	end bool
}

// send sends bytes, or the end of the connection, to arrive after a delay. Packets arrive in the
// order in which they were sent.
func (l *link) send(b []byte, end bool, delay time.Duration) {
	if len(l.queue) == 0 && !l.held && delay <= 0 {
		l.deliver(b, end)
		return
	}
	l.queue = append(l.queue, packet{time.Now().Add(delay), slices.Clone(b), end})
	l.resize(len(b))
	l.schedule()
}

func (l *link) resize(by int) {
	l.size += by
	if l.resized != nil {
		l.resized(l.size)
	}
}

func (l *link) schedule() {
	if l.alarm == nil && !l.held && len(l.queue) > 0 {
		l.alarm = l.e.after(time.Until(l.queue[0].at), l.flush)
	}
}

// flush delivers the packets that are due.
func (l *link) flush() {
	l.stop()
	for now := time.Now(); len(l.queue) > 0 && !l.held && !l.queue[0].at.After(now); {
		p := l.queue[0]
		l.queue = l.queue[1:]
		l.resize(-len(p.b))
		l.deliver(p.b, p.end)
	}
	l.schedule()
}

// hold stops all deliveries, or allows them again.
func (l *link) hold(held bool) {
	if l.held = held; held {
		l.stop()
	} else {
		l.flush()
	}
}

// drop loses the packets in flight.
func (l *link) drop() {
	l.stop()
	l.queue = nil
	l.resize(-l.size)
}

func (l *link) stop() {
	if l.alarm != nil {
		l.alarm.stop()
		l.alarm = nil
	}
}
