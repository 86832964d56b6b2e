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
	return c.reader.Read(p)
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
	return time.Duration(int32(binary.BigEndian.Uint32(frame[8:]))) * time.Millisecond, nil
}

func (c *handshakeConn) SetReadDeadline(t time.Time) error {
	if !c.greeted && (t.IsZero() || t.After(c.limit)) {
		t = c.limit
	}
	return c.Conn.SetReadDeadline(t)
}
