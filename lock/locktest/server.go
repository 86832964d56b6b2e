package locktest

import (
	"encoding/binary"
	"io"
	"time"
)

// A serverConn is a member's end of a connection. The ensemble's lock guards it.
//
// Frames become requests in arrivals. serve takes them in turn: it asks for the fault, and sends
// writes to the leader. Then requests wait in inFlight until the member has applied the transactions
// that they need. So replies keep the order of the requests, and a read sees the writes before it.
// Only a setAuth and a SASL token are answered at once.
type serverConn struct {
	e      *Ensemble
	member *member
	label  *label
	client *clientConn
	in     link // bytes from the client
	out    link // bytes to the client

	partial  []byte // received part of a frame
	greeted  bool   // the first frame has arrived
	arrivals []*request
	queued   bool // the connection is in Ensemble.ready
	serving  bool
	delayed  bool // a fault delays a request, and the arrivals behind it
	inFlight []pending
	waiting  bool // the connection is in member.waiting

	session  int64 // 0 until the handshake
	open     bool  // the handshake is done
	leaving  bool  // a closeSession is in flight
	identity []ACL // identities from setAuth
	watching map[watchKey]bool

	closed bool // no request is accepted and no reply sent
	ended  bool // arrived requests are not served either
	gone   bool // the client's end is closed, or knows that the member's is
}

// pending is a request that waits until its member has applied a transaction.
type pending struct {
	*request
	fault Fault
	zxid  int64  // transaction to wait for
	txn   *txn   // transaction of a write; nil: a read
	done  func() // called instead of a reply; nil: reply
}

func newServerConn(e *Ensemble, m *member, l *label) *serverConn {
	s := &serverConn{e: e, member: m, label: l, watching: make(map[watchKey]bool)}
	s.client = newClientConn(s)
	s.in = link{e: e, deliver: s.receive, resized: s.client.setUnsent}
	s.out = link{e: e, deliver: s.delivered}
	return s
}

// receive takes bytes, or the end of the connection, from the client.
func (s *serverConn) receive(b []byte, end bool) {
	if s.closed {
		return
	}
	if end {
		s.trace("disconnect", "by the client")
		s.close()
		return
	}
	if len(s.partial) > 0 {
		s.partial = append(s.partial, b...)
		b = s.partial
	}
	for len(b) >= 4 {
		n := binary.BigEndian.Uint32(b)
		if n > uint32(s.e.opts.MaxFrame) {
			s.trace("disconnect", "frame too long")
			s.close()
			return
		}
		if len(b)-4 < int(n) {
			break
		}
		if !s.decode(b[4 : 4+n]) {
			s.trace("disconnect", "frame too short")
			s.close()
			return
		}
		b = b[4+n:]
	}
	s.partial = append(s.partial[:0], b...)
}

// decode decodes a frame, and queues the request to be served. It returns false if the frame is no
// request.
func (s *serverConn) decode(frame []byte) bool {
	var r *request
	if s.greeted {
		r = decodeRequest(frame)
	} else {
		r = decodeConnect(frame)
		s.greeted = true
	}
	if r == nil {
		return false
	}
	s.e.touch(s)
	s.label.count(r)
	s.arrivals = append(s.arrivals, r)
	s.e.wake(s)
	return true
}

// serve handles the arrived requests, in turn. The ensemble's lock is released while the hook
// decides on a request.
func (s *serverConn) serve() {
	if s.serving {
		return
	}
	s.serving = true
	defer func() { s.serving = false }()
	for len(s.arrivals) > 0 && !s.delayed && (s.open || s.session == 0) {
		r := popFront(&s.arrivals)
		fault := s.e.faultFor(s, r)
		if s.ended {
			return
		}
		if fault.Delay <= 0 {
			s.handle(r, fault)
			continue
		}
		s.delayed = true
		s.e.delayed[s] = true
		s.e.after(fault.Delay, func() {
			s.delayed = false
			delete(s.e.delayed, s)
			s.handle(r, fault)
			s.e.wake(s)
		})
	}
}

// handle executes a request when its turn has come.
func (s *serverConn) handle(r *request, f Fault) {
	p := pending{request: r, fault: f}
	switch {
	case s.ended:
		s.traceRequest(p, codeOK, "never served: its connection had ended")
		return
	case s.e.leader == nil:
		s.end()
		return
	case f.Drop == BeforeApply:
		s.traceRequest(p, codeOK, "dropped before it was applied")
		s.end()
		return
	case f.Code != codeOK || r.malformed && r.code != opConnect:
		s.wait(p)
		return
	}
	switch r.code {
	case opConnect:
		s.handshake(r)
	case opAuth:
		s.authenticate(p)
	case opSASL:
		s.noSASL(p)
	case opCreate, opCreate2, opCreateContainer, opDelete, opSetData, opSetACL, opMulti, opCloseSession:
		s.write(p)
	case opSync:
		p.zxid = s.e.leader.tree.zxid
		s.wait(p)
	case opPing:
		r.xid = xidPing // the reply has this xid, whatever the client sent
		s.wait(p)
	case opExists, opGetData, opGetACL, opGetChildren, opGetChildren2, opSetWatches, opCheckWatches, opRemoveWatches:
		if s.member == s.e.leader && s.rejected() == codeSessionMoved {
			s.trace("disconnect", "session moved")
			s.end()
			return
		}
		s.wait(p)
	default:
		if code, known := refusedOps[r.code]; known {
			p.fault.Code = code
			s.wait(p)
			return
		}
		s.reply(p, codeUnimplemented)
		s.end()
	}
}

// rejected returns the code with which the leader would reject a request of this session; codeOK:
// it would not. It makes this member the session's owner if a new leader does not know the owner.
func (s *serverConn) rejected() int32 {
	switch sess := s.e.sessions[s.session]; {
	case sess == nil:
		return codeSessionExpired
	case sess.owner == nil: // a new leader learns the owner from the first request
		sess.owner = s.member
	case sess.owner != s.member:
		return codeSessionMoved
	}
	return codeOK
}

// write makes the leader create a transaction for a request.
func (s *serverConn) write(p pending) {
	p.txn = s.e.begin(s.session, s.member)
	p.txn.cxid = p.xid
	p.zxid = p.txn.zxid
	prep := preparer{
		tree: s.e.leader.tree, quirks: s.e.opts.Quirks, session: s.session,
		identity: s.identity, rejected: s.rejected(),
	}
	switch {
	case p.code == opMulti:
		prep.multi(p.txn, p.ops)
	case p.code == opCloseSession:
		s.leaving = true
		s.e.endSession(p.txn)
	default:
		prep.single(p.txn, &p.op)
	}
	s.e.commit(p.txn)
	if prep.rejected == codeSessionMoved {
		s.trace("disconnect", "session moved")
		s.end()
		return
	}
	s.wait(p)
}

// wait queues a request behind those in flight.
func (s *serverConn) wait(p pending) {
	if s.closed {
		if p.request != nil {
			s.traceRequest(p, codeOK, "served when its connection had ended")
		}
		return
	}
	s.inFlight = append(s.inFlight, p)
	s.drain()
}

// drain replies to the requests in flight that are ready.
func (s *serverConn) drain() {
	for len(s.inFlight) > 0 && s.inFlight[0].zxid <= s.member.tree.zxid {
		s.finish(popFront(&s.inFlight))
	}
	if len(s.inFlight) > 0 && !s.waiting {
		s.waiting = true
		s.member.waiting = append(s.member.waiting, s)
	}
}

// finish answers a request whose transaction the member has applied.
func (s *serverConn) finish(p pending) {
	if p.done != nil {
		p.done()
		return
	}
	out := &s.e.out
	out.header(p.xid, s.member.tree.zxid, codeOK)
	if code := s.answer(out, p); code != codeOK {
		s.reply(p, code)
	} else {
		s.send(p, codeOK)
	}
	if p.code == opCloseSession && p.txn != nil {
		s.end()
	}
}

// sendAfter sends a frame to the client, after the latency and an additional delay.
func (s *serverConn) sendAfter(frame []byte, delay time.Duration) {
	if s.closed {
		return
	}
	s.label.counts.BytesToClient += int64(len(frame))
	s.out.send(frame, false, s.e.latencyOf(s)+delay)
}

// delivered passes arrived bytes, or the end of the connection, to the client.
func (s *serverConn) delivered(b []byte, end bool) {
	if !end {
		s.client.arrive(b, nil)
		return
	}
	s.client.arrive(nil, io.EOF)
	s.gone = true
	s.e.forget(s)
}

// close ends the member's side of a lost connection. Requests that have arrived are still served,
// as by a real server.
func (s *serverConn) close() {
	if s.closed {
		return
	}
	s.closed = true
	s.inFlight = nil
	s.member.watches.remove(s)
	if s.member.conns[s.session] == s {
		delete(s.member.conns, s.session)
	}
	s.out.send(nil, true, s.e.latencyOf(s))
	s.e.forget(s)
}

// end closes the connection, and drops the requests that have arrived.
func (s *serverConn) end() {
	s.ended = true
	s.arrivals = nil
	s.close()
}

// clientLeft handles the client's close. The member notices it after all earlier bytes have
// arrived.
func (s *serverConn) clientLeft() {
	s.gone = true
	s.in.send(nil, true, s.e.latencyOf(s))
	s.e.forget(s)
}

// cut ends both sides now, and loses the data in flight.
func (s *serverConn) cut(err error) {
	s.client.arrive(nil, err)
	s.gone = true
	s.close()
	s.in.drop()
	s.out.drop()
	s.e.forget(s)
}
