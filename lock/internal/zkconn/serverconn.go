package zkconn

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"
)

// Limits of the reply to a handshake, in bytes. It has at least the protocol's version, the session
// timeout in ms, the session id and the length of its password. ZooKeeper's has about 40 bytes.
const (
	leastGreeting = 20
	mostGreeting  = 64 << 10
)

var errNotZooKeeper = errors.New("not ZooKeeper")

// serverConn is a connection to a server, as go-zookeeper sees it.
//
// Read returns nothing before the whole first frame, the reply to the handshake, has arrived and is
// valid. It fails if that takes longer than a fixed deadline. If the server closes the connection
// instead, the owner may take the session for expired, see handshakes.unanswered.
//
// On a new connection go-zookeeper sets its watches again by the request setWatches. Write does not
// forward that request: a server may refuse the request, or close the connection because the
// request is too long. Then go-zookeeper would go on without watches, or never keep a connection.
// Instead all watches of the request fire, so their waiters read again. Write sends a ping instead
// of the request, because the reply to the ping wakes the reader.
//
// The SASL exchange runs after the first frame, and before go-zookeeper sends its first request. If
// there is a newer credential later, the connection ends between two requests, so that the next
// connection uses that credential. It does not end before a request opAuth, see [serverConn.forward].
//
// Reads are buffered, because go-zookeeper reads every packet's length and body separately. Reads
// and deadlines belong to one goroutine, and so does the first write; go-zookeeper works that
// way.
type serverConn struct {
	net.Conn
	reader  *bufio.Reader
	limit   time.Time // deadline of the first frame
	told    handshakes
	overdue func() []watchKey // returns the watches that must fire, see Conn.overdue
	login   *login            // nil: no SASL

	asked   *handshake // the client's handshake; nil: not sent yet
	greeted bool       // the first frame has arrived, or expired() replaces it
	left    int        // bytes to read of the present frame from the server
	reply   bool       // the present frame is the reply to a request
	ahead   []byte     // frames made here, which go-zookeeper reads before the present frame

	mu      sync.Mutex
	pending []byte        // frames made here that are not in ahead yet
	sent    int           // number of requests without a reply; counted only with SASL
	idle    chan struct{} // closed when sent is 0; nil: drain does not wait
}

// handshakes receives the result of a connection's handshake.
type handshakes interface {
	// answered: the server grants a session; timeout 0: the session has expired.
	answered(timeout time.Duration)
	// unanswered: the server has closed the connection without a reply. It returns true if the
	// session must be taken for expired.
	unanswered(asked handshake, why error) (expired bool)
	// failed: the peer is no ZooKeeper server, or too slow.
	failed(why error)
	// authenticated: the SASL exchange has ended; nil: with success.
	authenticated(err error)
}

func newServerConn(nc net.Conn, limit time.Time, told handshakes, overdue func() []watchKey, login *login) (*serverConn, error) {
	c := &serverConn{Conn: nc, reader: bufio.NewReaderSize(nc, 4+mostGreeting), limit: limit, told: told, overdue: overdue, login: login}
	return c, nc.SetReadDeadline(limit)
}

// Write sends one request: go-zookeeper writes each request by one call.
func (c *serverConn) Write(p []byte) (int, error) {
	if c.asked == nil {
		c.asked = parseHandshake(p)
		_, _ = c.Conn.Write(p) // if it fails, greet reads the end of the connection, and reports that
		return len(p), nil
	}
	op := operation(p)
	if op != opClose && op != opAuth && c.login.due() {
		c.drain()
		c.Close()
		return 0, NotSent(fmt.Errorf("%w: for a newer SASL credential", zk.ErrConnectionClosed))
	}
	if c.login != nil {
		c.mu.Lock()
		c.sent++
		c.mu.Unlock()
	}
	if op != opSetWatches {
		return c.forward(p, p)
	}
	xid, keys, err := parseSetWatches(p)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	c.pending = append(append(c.pending, firings(keys)...), reply(xid)...)
	c.mu.Unlock()
	return c.forward(ping(), p)
}

// forward writes p, and tells go-zookeeper that asked is written, even if that fails: the reader
// sees the end of the connection. go-zookeeper answers the request of a failed write at once, and
// again when the connection has ended. Without a reader of the second answer, as for credentials that
// it sends again, it never connects again.
func (c *serverConn) forward(p, asked []byte) (int, error) {
	if _, err := c.Conn.Write(p); err != nil {
		c.Close()
	}
	return len(asked), nil
}

// drainLimit is the longest wait for replies before a connection ends for a newer credential.
const drainLimit = time.Second

// drain waits until all requests have their replies, or the connection has failed, but at most for
// drainLimit. Without drain, callers would not know whether their requests were applied.
func (c *serverConn) drain() {
	c.mu.Lock()
	idle := make(chan struct{})
	if c.idle = idle; c.sent == 0 {
		close(idle)
		c.idle = nil
	}
	c.mu.Unlock()
	WaitFor(idle, drainLimit)
}

// replied records that n requests have their replies, and ends a drain after the last one.
func (c *serverConn) replied(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent = max(0, c.sent-n); c.sent == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

func (c *serverConn) Read(p []byte) (n int, err error) {
	defer func() {
		if err != nil {
			c.replied(math.MaxInt32) // no more replies will come
		}
	}()
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
	n, err = c.reader.Read(p[:min(len(p), c.left)])
	if c.left -= n; c.left == 0 && c.reply && c.login != nil {
		c.replied(1)
	}
	return n, err
}

// leastReply is the length of a reply's header. go-zookeeper does not check that it is there.
const leastReply = 16

// frame waits for the next frame from the server, and refuses an impossible length. It puts the
// pending frames ahead of that frame, and before the reply to a ping also events that fire the
// overdue watches.
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
	xid := int32(binary.BigEndian.Uint32(head[4:]))
	if c.reply = xid != xidEvent; xid == xidPing {
		c.ahead = append(c.ahead, firings(c.overdue())...)
	}
	return nil
}

// greet waits for the first frame, reports the result to told, and authenticates. If the server has
// closed the connection and the owner takes the session for expired, go-zookeeper gets the answer
// that the session has expired.
func (c *serverConn) greet() error {
	timeout, err := c.greeting()
	switch {
	case err == nil:
		if c.told.answered(timeout); timeout > 0 && c.login != nil {
			if err := c.authenticate(); err != nil {
				return err
			}
		}
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

// authenticate runs the SASL exchange, before go-zookeeper gets the first frame.
func (c *serverConn) authenticate() error {
	greeting := make([]byte, c.left)
	if _, err := io.ReadFull(c.reader, greeting); err != nil {
		return err
	}
	err := c.SetWriteDeadline(c.limit)
	if err == nil {
		err = c.login.run(struct {
			io.Reader
			io.Writer
		}{c.reader, c.Conn})
	}
	if c.told.authenticated(err); err != nil {
		return err
	}
	c.ahead, c.left = greeting, 0
	return c.SetWriteDeadline(time.Time{})
}

// isClosing reports whether the peer has closed the connection.
func isClosing(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// greeting waits for the first frame, checks it, and returns the session timeout in it; 0: the
// session has expired.
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
