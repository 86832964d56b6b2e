package zkserver

import (
	"encoding/binary"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Meter counts what passes between one client and its servers, as a [Tap] does,
// and does nothing else: no goroutine, no copy, so that what is timed is hardly
// slower for it. Its zero value is ready for use, one for each client.
type Meter struct {
	// Dialer makes the connections to servers; default net.DialTimeout.
	Dialer zk.Dialer

	mu     sync.Mutex
	counts Counts
}

// Dial is a [zk.Dialer].
func (m *Meter) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	dial := m.Dialer
	if dial == nil {
		dial = net.DialTimeout
	}
	conn, err := dial(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return &meteredConn{Conn: conn, meter: m}, nil
}

// Counts returns what has passed so far, over all connections.
func (m *Meter) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts
}

type meteredConn struct {
	net.Conn
	meter   *Meter
	in, out packets
}

func (c *meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.meter.mu.Lock()
	defer c.meter.mu.Unlock()
	counts := &c.meter.counts
	counts.BytesIn += int64(n)
	c.in.pass(p[:n], func([]byte, bool) { counts.PacketsIn++ })
	return n, err
}

func (c *meteredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.meter.mu.Lock()
	defer c.meter.mu.Unlock()
	counts := &c.meter.counts
	counts.BytesOut += int64(n)
	c.out.pass(p[:n], func(head []byte, first bool) {
		counts.PacketsOut++
		if !first && isRequest(head) {
			counts.Requests++
		}
	})
	return n, err
}

// packets finds the packets in one direction of a connection, however they are
// cut into reads and writes.
type packets struct {
	head  [12]byte // how the current one begins: its length, xid and type
	have  int      // bytes of it that have passed
	size  int      // of it, its length field included; known once that has passed
	begun bool     // the first one, the handshake, has passed
}

// pass takes the next bytes, and calls saw at the end of each packet with how it
// began.
func (s *packets) pass(p []byte, saw func(head []byte, first bool)) {
	for len(p) > 0 {
		end := 4
		if s.have >= 4 {
			end = s.size
		}
		n := min(len(p), end-s.have)
		if s.have < len(s.head) {
			copy(s.head[s.have:], p[:n])
		}
		s.have += n
		p = p[n:]
		if s.have == 4 {
			s.size = 4 + int(binary.BigEndian.Uint32(s.head[:]))
		}
		if s.have >= 4 && s.have == s.size {
			saw(s.head[:min(s.size, len(s.head))], !s.begun)
			s.have, s.begun = 0, true
		}
	}
}
