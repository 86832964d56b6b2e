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

// Counts is what passed to servers and came from them. A request that was answered is
// counted; what a stalled tap holds back is not.
type Counts struct {
	// Requests are those that the client's user made: not the handshake, pings,
	// credentials, watches armed again after a reconnection, or the session's end.
	Requests int64
	// PacketsOut and BytesOut went to the server, PacketsIn and BytesIn to the
	// client; all kinds, their length fields included.
	PacketsOut, BytesOut int64
	PacketsIn, BytesIn   int64
}

// Dial is a [zk.Dialer].
func (m *Meter) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := dialer(m.Dialer)(network, address, timeout)
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

// Write counts first: the answer may be there before it returns.
func (c *meteredConn) Write(p []byte) (int, error) {
	c.count(p)
	return c.Conn.Write(p)
}

func (c *meteredConn) count(p []byte) {
	c.meter.mu.Lock()
	defer c.meter.mu.Unlock()
	counts := &c.meter.counts
	counts.BytesOut += int64(len(p))
	c.out.pass(p, func(head []byte, first bool) {
		counts.PacketsOut++
		if !first && isRequest(head) {
			counts.Requests++
		}
	})
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

// Types of requests that belong to the connection, not to what its user asked;
// ZooDefs.OpCode.
const (
	opPing         = 11
	opAuth         = 100
	opSetWatches   = 101
	opSetWatches2  = 105
	opCloseSession = -11
)

// isRequest reports whether a packet to the server, not the first one of its
// connection, is a request of the client's user.
func isRequest(packet []byte) bool {
	if len(packet) < 12 {
		return false
	}
	switch int32(binary.BigEndian.Uint32(packet[8:])) {
	case opPing, opAuth, opSetWatches, opSetWatches2, opCloseSession:
		return false
	}
	return true
}
