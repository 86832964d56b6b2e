package zkserver

import "encoding/binary"

// Fault is a fault of one request of a tap's client, as a proxy in another process could cause it.
// The tap passes on whole frames. If a reply has arrived, the server has applied the request. A cut
// closes the sockets of both sides.
type Fault int

const (
	// CutBefore cuts the connection before the request is passed on: it never reaches the server.
	CutBefore Fault = iota + 1
	// CutAfter cuts the connection before the reply is passed on: the server has applied the
	// request, and the client cannot know.
	CutAfter
	// HoldReply holds back the reply and everything that the server sends later, including the end
	// of the connection. The client's requests still pass.
	HoldReply
)

func (f Fault) String() string {
	return [...]string{CutBefore: "cut before", CutAfter: "cut after", HoldReply: "hold reply"}[f]
}

// strike is a fault that waits for its request, and then for the reply.
type strike struct {
	fault Fault
	left  int   // number of requests until the strike, including the struck one
	pipe  *pipe // pipe of the struck request; nil before it
	xid   uint32
	hit   chan struct{}
}

// Inject arms a fault for the k-th request from now on, as [Counts] counts them. It replaces a
// fault that has not happened yet. The channel closes when the fault has happened. From then on
// HoldReply holds back replies, and a cut stalls the tap, so that the client cannot reconnect.
// Resume ends both.
func (t *Tap) Inject(f Fault, k int) (hit <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.strike = &strike{fault: f, left: k, hit: make(chan struct{})}
	return t.strike.hit
}

// Disarm disarms the fault and returns true. It returns false if no fault is armed, or if the
// fault's request is in flight.
func (t *Tap) Disarm() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.strike == nil || t.strike.left == 0 {
		return false
	}
	t.strike = nil
	return true
}

// strikeRequest applies the fault if packet is the fault's request. It returns true if it has cut
// the connection.
func (t *Tap) strikeRequest(p *pipe, packet []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.strike
	if s == nil || s.left == 0 || !isRequest(packet) {
		return false
	}
	if s.left--; s.left > 0 {
		return false
	}
	if s.fault == CutBefore {
		t.cutLocked(p, s)
		return true
	}
	s.pipe, s.xid = p, xid(packet)
	return false
}

// strikeReply applies the fault if packet is the reply to the fault's request. It returns true if
// it has cut the connection.
func (t *Tap) strikeReply(p *pipe, packet []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.strike
	if s == nil || s.pipe != p || len(packet) < 8 || s.xid != xid(packet) {
		return false
	}
	if s.fault == CutAfter {
		t.cutLocked(p, s)
		return true
	}
	t.strike = nil
	p.replies.close()
	close(s.hit)
	return false
}

// end ends a pipe. A fault that waits for a reply on this pipe then waits for the next request,
// because the reply can no longer arrive.
func (t *Tap) end(p *pipe) {
	t.pipes.end(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.strike; s != nil && s.pipe == p {
		s.pipe, s.left = nil, 1
	}
}

// cutLocked cuts a connection and prevents reconnects; t.mu is held.
func (t *Tap) cutLocked(p *pipe, s *strike) {
	t.strike = nil
	t.valve.close()
	p.cut()
	close(s.hit)
}

// xid returns the field that a reply shares with its request: the first of zookeeper.jute's
// RequestHeader and ReplyHeader, after the frame's length.
func xid(packet []byte) uint32 { return binary.BigEndian.Uint32(packet[4:]) }
