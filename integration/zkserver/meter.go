package zkserver

import (
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Meter counts the traffic between one client and its servers, as a [Tap] does. It does nothing
// else, without a goroutine or a copy, so that it hardly delays timed requests. Its zero value is
// ready for use. Each client needs its own.
type Meter struct {
	// Dialer connects to servers; default net.DialTimeout.
	Dialer zk.Dialer

	mu     sync.Mutex
	counts Counts
}

// Counts has the traffic to and from servers. An answered request is counted; traffic that a
// stalled tap holds back is not.
type Counts struct {
	// Requests counts the requests of the client's user, without the handshake, pings, credentials,
	// watches set again after a reconnect, and the end of the session.
	Requests int64
	// BytesOut counts the traffic to the server, BytesIn that to the client, also of what Requests
	// leaves out.
	BytesOut, BytesIn int64
}

// Dial is a [zk.Dialer].
func (m *Meter) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := dialer(m.Dialer)(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return &meteredConn{Conn: conn, meter: m}, nil
}

// Counts returns the counts so far, over all connections.
func (m *Meter) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts
}

type meteredConn struct {
	net.Conn
	meter *Meter
	out   packets
}

func (c *meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.meter.mu.Lock()
	defer c.meter.mu.Unlock()
	c.meter.counts.BytesIn += int64(n)
	return n, err
}

// Write counts first, because the answer may arrive before it returns.
func (c *meteredConn) Write(p []byte) (int, error) {
	c.meter.mu.Lock()
	counts := &c.meter.counts
	counts.BytesOut += int64(len(p))
	c.out.pass(p, func(head []byte, first bool) {
		if !first && isRequest(head) {
			counts.Requests++
		}
	})
	c.meter.mu.Unlock()
	return c.Conn.Write(p)
}

// packets finds the packets in one direction of a connection, however writes split them.
type packets struct {
	head  [12]byte // start of the current packet: length, xid and type
	have  int      // number of the current packet's bytes that have passed
	size  int      // the packet's size with the length field; known when that has passed
	begun bool     // the first packet, the handshake, has passed
}

// pass takes the next bytes. At the end of each packet it calls saw with the packet's beginning.
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

// housekeeping has the types of requests of the connection itself, not of its user: ping, auth,
// setWatches, setWatches2 and closeSession; ZooDefs.OpCode.
var housekeeping = []int32{11, 100, 101, 105, -11}

// isRequest reports whether a packet to the server is a request of the client's user. The packet
// must not be the first one of its connection.
func isRequest(packet []byte) bool {
	return len(packet) >= 12 && !slices.Contains(housekeeping, int32(binary.BigEndian.Uint32(packet[8:])))
}
