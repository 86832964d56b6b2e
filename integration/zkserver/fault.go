package zkserver

import "encoding/binary"

// Fault is what a tap does to one request of its client. It is as true to life
// as a proxy in a process of its own would make it: a tap reads whole frames from
// one socket and writes them to another, a reply that has come in is one to a
// request that the server has applied, and a cut closes the sockets of both sides.
type Fault int

const (
	// CutBefore cuts the connection instead of passing the request on: it never
	// reaches the server.
	CutBefore Fault = iota + 1
	// CutAfter cuts the connection instead of passing the reply on: the server
	// has applied the request, and the client cannot know.
	CutAfter
	// HoldReply holds back the reply and all that the server says after it, the
	// end of the connection included. What the client says passes.
	HoldReply
)

func (f Fault) String() string {
	return [...]string{CutBefore: "cut before", CutAfter: "cut after", HoldReply: "hold reply"}[f]
}

// strike is a fault that waits for its request, and then for the reply to it.
type strike struct {
	fault Fault
	left  int   // requests until then, itself included
	pipe  *pipe // that the request took; nil before
	xid   uint32
	hit   chan struct{}
}

// Inject has a fault happen to the k-th request from now on, as [Counts] counts
// them, once; it takes the place of one that has not happened yet. The channel is
// closed when the fault has happened. From then on replies are held, or after a
// cut the tap is stalled, so that the client cannot connect again: until Resume.
func (t *Tap) Inject(f Fault, k int) (hit <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.strike = &strike{fault: f, left: k, hit: make(chan struct{})}
	return t.strike.hit
}

// Disarm takes back a fault. It reports false if it is too late: if it has happened,
// or its request is on its way and it will.
func (t *Tap) Disarm() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.strike == nil || t.strike.left == 0 {
		return false
	}
	t.strike = nil
	return true
}

// strikeRequest sees to the fault if the packet is the request that it waits for.
// It reports whether the connection was cut.
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

// strikeReply sees to the fault if the packet is the reply that it waits for. It
// reports whether the connection was cut.
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

// end ends a pipe. If a fault waits for a reply by it, which cannot come any more, it waits for the
// next request instead.
func (t *Tap) end(p *pipe) {
	t.pipes.end(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.strike; s != nil && s.pipe == p {
		s.pipe, s.left = nil, 1
	}
}

// cutLocked cuts a connection and lets no client connect; t.mu is held.
func (t *Tap) cutLocked(p *pipe, s *strike) {
	t.strike = nil
	t.valve.close()
	p.cut()
	close(s.hit)
}

// xid is what a reply has in common with its request: the first field of
// zookeeper.jute's RequestHeader and ReplyHeader, after the length of the frame.
func xid(packet []byte) uint32 { return binary.BigEndian.Uint32(packet[4:]) }
