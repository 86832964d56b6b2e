package zkconn

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// The reply to a handshake has at least the protocol's version, the session timeout in ms, the
// session id and the length of its password. Real ones have about 40 bytes.
const (
	leastGreeting = 20
	mostGreeting  = 64 << 10
)

var errNotZooKeeper = errors.New("not ZooKeeper")

// serverConn is a connection to a server, between it and go-zookeeper.
//
// It forwards nothing before the whole first frame, the reply to the handshake, has arrived, is
// valid, and came before a fixed deadline. If the server closes the connection instead, the owner
// may take the session for expired, see handshakes.unanswered.
//
// It does not forward setWatches, with which go-zookeeper sets its watches on a new connection. A
// server may refuse that request, or close the connection because it is too long. Then
// go-zookeeper would go on without watches, or never keep a connection. Instead all of these
// watches fire, so their waiters read again. A ping replaces the request, because its reply wakes
// the reader.
//
// Reads are buffered, because go-zookeeper reads every packet's length and body separately. Reads
// and deadlines belong to one goroutine, and so does the first write; go-zookeeper works that
// way.
type serverConn struct {
	net.Conn
	reader  *bufio.Reader
	limit   time.Time // for the first frame
	told    handshakes
	overdue func() []watchKey // watches that must fire now

	asked   *handshake // nil: not sent yet
	greeted bool
	left    int    // bytes of the frame that is being read
	ahead   []byte // our own frames, read before it

	mu      sync.Mutex
	pending []byte // frames for ahead
}

// handshakes receives the results of handshakes.
type handshakes interface {
	// answered: the server grants a session; timeout 0: the session has expired.
	answered(timeout time.Duration)
	// unanswered: the server has closed the connection. It reports whether to take the session
	// for expired.
	unanswered(asked handshake, why error) (expired bool)
	// failed: the peer is no ZooKeeper server, or too slow.
	failed(why error)
}

func newServerConn(nc net.Conn, limit time.Time, told handshakes, overdue func() []watchKey) (*serverConn, error) {
	c := &serverConn{Conn: nc, reader: bufio.NewReaderSize(nc, 4+mostGreeting), limit: limit, told: told, overdue: overdue}
	return c, nc.SetReadDeadline(limit)
}

// Write takes one request, as go-zookeeper writes them.
func (c *serverConn) Write(p []byte) (int, error) {
	if c.asked == nil {
		c.asked = parseHandshake(p)
		return c.Conn.Write(p)
	}
	if len(p) < 12 || binary.BigEndian.Uint32(p[8:]) != opSetWatches {
		return c.Conn.Write(p)
	}
	xid, keys, err := parseSetWatches(p)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	c.pending = append(append(c.pending, firings(keys)...), reply(xid)...)
	c.mu.Unlock()
	if _, err := c.Conn.Write(ping()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *serverConn) Read(p []byte) (int, error) {
	if !c.greeted {
		if err := c.greet(); err != nil {
			return 0, err
		}
	}
	if c.left == 0 && len(c.ahead) == 0 {
		if err := c.frame(); err != nil {
			return 0, err
		}
	}
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	n, err := c.reader.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// leastReply is the length of a reply's header. go-zookeeper does not check that it is there.
const leastReply = 16

// frame waits for the next frame, and refuses an impossible length. Our own frames come first.
func (c *serverConn) frame() error {
	head, err := c.reader.Peek(4)
	if err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(head)
	if length < leastReply || length > largestReply {
		return fmt.Errorf("%w: it sends a frame of %d bytes; must be %d to %d", errNotZooKeeper, length, leastReply, largestReply)
	}
	if head, err = c.reader.Peek(8); err != nil {
		return err
	}
	c.left = 4 + int(length)
	c.mu.Lock()
	c.ahead, c.pending = c.pending, nil
	c.mu.Unlock()
	if int32(binary.BigEndian.Uint32(head[4:])) == xidPing {
		c.ahead = append(c.ahead, firings(c.overdue())...)
	}
	return nil
}

// greet waits for the first frame.
func (c *serverConn) greet() error {
	timeout, err := c.greeting()
	switch {
	case err == nil:
		c.told.answered(timeout)
	case c.reader.Buffered() > 0 || !isClosing(err):
		c.told.failed(err)
		return err
	case !c.told.unanswered(*c.asked, err):
		return err
	default: // go-zookeeper begins a new session, and reads no more from this connection
		c.ahead = expired()
	}
	c.greeted = true
	return nil
}

// isClosing reports whether the peer has closed the connection.
func isClosing(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// greeting waits for the first frame and returns its session timeout.
func (c *serverConn) greeting() (time.Duration, error) {
	head, err := c.reader.Peek(4)
	if err != nil {
		return 0, err
	}
	if isAlert(head) {
		return 0, fmt.Errorf("%w on this port: it answers with an alert of TLS: set zookeeper.tls, or lock.WithTLS, or name the port for plain connections (clientPort)", errNotZooKeeper)
	}
	length := int32(binary.BigEndian.Uint32(head))
	if length < leastGreeting || length > mostGreeting {
		return 0, fmt.Errorf("%w: it answers the handshake with %q, which would be a frame of %d bytes; must be %d to %d",
			errNotZooKeeper, head, length, leastGreeting, mostGreeting)
	}
	frame, err := c.reader.Peek(4 + int(length))
	if err != nil {
		return 0, err
	}
	timeout, session := int32(binary.BigEndian.Uint32(frame[8:])), binary.BigEndian.Uint64(frame[12:])
	password := int32(binary.BigEndian.Uint32(frame[20:]))
	if timeout <= 0 && session != 0 || password > length-leastGreeting {
		return 0, fmt.Errorf("%w: it grants a session %#x of %d ms, with a password of %d bytes", errNotZooKeeper, session, timeout, password)
	}
	c.left = 4 + int(length)
	return time.Duration(timeout) * time.Millisecond, nil
}

func (c *serverConn) SetReadDeadline(t time.Time) error {
	if !c.greeted && (t.IsZero() || t.After(c.limit)) {
		t = c.limit
	}
	return c.Conn.SetReadDeadline(t)
}
