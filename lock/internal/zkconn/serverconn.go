package zkconn

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"
)

// The reply to a handshake has at least the protocol's version, the session timeout
// in ms, the session id and the length of its password. Real ones have some 40 bytes.
const (
	leastGreeting = 20
	mostGreeting  = 64 << 10
)

var errNotZooKeeper = errors.New("not ZooKeeper")

// handshakeConn is a connection of which nothing is read before the whole of the first
// frame, the reply to the handshake, has come, is sane, and came before a deadline
// that cannot be put off. Reads are buffered: go-zookeeper reads every packet's length
// and body apart. Reads and deadlines belong to one goroutine, as go-zookeeper uses
// them.
type handshakeConn struct {
	net.Conn
	reader  *bufio.Reader
	limit   time.Time           // for the first frame
	granted func(time.Duration) // is told the session timeout
	failed  func(error)         // is told why there is no first frame
	greeted bool
	left    int // bytes of the frame that is being read
}

func newHandshakeConn(nc net.Conn, limit time.Time, granted func(time.Duration), failed func(error)) (*handshakeConn, error) {
	h := &handshakeConn{
		Conn: nc, reader: bufio.NewReaderSize(nc, 4+mostGreeting),
		limit: limit, granted: granted, failed: failed,
	}
	return h, nc.SetReadDeadline(limit)
}

func (c *handshakeConn) Read(p []byte) (int, error) {
	if !c.greeted {
		timeout, err := c.greeting()
		if err != nil {
			c.failed(err)
			return 0, err
		}
		c.greeted = true
		if timeout > 0 { // 0: the session has expired
			c.granted(timeout)
		}
	}
	if c.left == 0 {
		if err := c.frame(); err != nil {
			return 0, err
		}
	}
	n, err := c.reader.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// leastReply is the header of a reply, which go-zookeeper takes for granted.
const leastReply = 16

// frame waits for the length of the next frame, and refuses one that can be none.
func (c *handshakeConn) frame() error {
	head, err := c.reader.Peek(4)
	if err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(head)
	if length < leastReply || length > largestReply {
		return fmt.Errorf("%w: it sends a frame of %d bytes; must be %d to %d", errNotZooKeeper, length, leastReply, largestReply)
	}
	c.left = 4 + int(length)
	return nil
}

// greeting waits for the first frame and returns the session timeout in it.
func (c *handshakeConn) greeting() (time.Duration, error) {
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
	return time.Duration(timeout) * time.Millisecond, nil
}

func (c *handshakeConn) SetReadDeadline(t time.Time) error {
	if !c.greeted && (t.IsZero() || t.After(c.limit)) {
		t = c.limit
	}
	return c.Conn.SetReadDeadline(t)
}
