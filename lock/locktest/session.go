package locktest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// A session is the leader's state of a session. It outlives connections and leaders.
type session struct {
	id       int64
	password []byte
	timeout  time.Duration
	heard    time.Time // arrival of its last request
	alarm    *alarm    // goes off when the session ends, or before
	owner    *member   // member where it was last attached; nil: unknown to a new leader
	label    string    // label of its last connection
}

// handshake handles the first frame of a connection: it creates a session, or attaches an existing
// one to the connection.
func (s *serverConn) handshake(r *request) {
	req := &r.connect
	if s.closed || r.malformed {
		s.end()
		return
	}
	if req.lastZxid > s.member.tree.zxid {
		s.trace("disconnect", "the client has seen a later transaction than this member")
		s.end()
		return
	}
	timeout := s.e.opts.negotiate(time.Duration(req.timeout) * time.Millisecond)
	if req.session != 0 && !s.e.opts.Quirks.Keeper {
		s.reattach(req, timeout)
		return
	}
	sess := s.e.newSession(timeout)
	s.attach(sess)
	x := s.e.begin(sess.id, nil)
	x.begins = sess.timeout
	s.e.commit(x)
	s.wait(pending{zxid: x.zxid, done: func() {
		s.open = true
		s.welcome(req, sess)
		s.e.wake(s)
	}})
}

// reattach attaches the session that a client asks for to the client's new connection. First it ends
// the session's older connection to the same member. If there is no such session, or the password is
// wrong, it refuses the handshake.
func (s *serverConn) reattach(req *connectRequest, timeout time.Duration) {
	if old := s.member.conns[req.session]; old != nil {
		old.trace("disconnect", "the client has another connection")
		old.end()
	}
	sess := s.e.sessions[req.session]
	if sess == nil || !bytes.Equal(sess.password, req.password) {
		s.welcome(req, &session{password: make([]byte, passwordBytes)})
		s.end()
		return
	}
	sess.timeout = timeout
	s.attach(sess)
	s.open = true
	s.welcome(req, sess)
}

func (s *serverConn) attach(sess *session) {
	for old := range s.e.delayed {
		if old.session == sess.id {
			old.ended, old.arrivals = true, nil
		}
	}
	s.session = sess.id
	s.member.conns[sess.id] = s
	sess.owner = s.member
	sess.label = s.label.name
	s.e.touch(s)
	s.e.watchOver(sess)
}

// welcome replies to a handshake. If the client's session has ended, the id of sess is 0.
func (s *serverConn) welcome(req *connectRequest, sess *session) {
	s.trace("connect", fmt.Sprintf("session %#x, timeout %v", sess.id, sess.timeout))
	out := &s.e.out
	out.start()
	out.int32(0)
	out.int32(int32(sess.timeout / time.Millisecond))
	out.int64(sess.id)
	out.buffer(sess.password)
	if req.hasReadOnly {
		out.bool(false)
	}
	s.sendAfter(out.frame(), 0)
}

// newSession creates a session. Its id and password come from a counter and the seed.
func (e *Ensemble) newSession(timeout time.Duration) *session {
	e.lastSession++
	id := 1<<56 | int64(e.opts.Seed&0xffffffff)<<24 | e.lastSession
	if e.opts.Quirks.Keeper {
		id = e.lastSession
	}
	sess := &session{id: id, timeout: timeout, password: make([]byte, 0, passwordBytes)}
	for x := e.opts.Seed ^ uint64(id); len(sess.password) < passwordBytes; {
		// SplitMix64: a password here only needs to be well mixed.
		x += 0x9e3779b97f4a7c15
		z := (x ^ x>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		sess.password = binary.BigEndian.AppendUint64(sess.password, z^z>>31)
	}
	e.sessions[id] = sess
	return sess
}

// touch records that the session of a connection has sent a message.
func (e *Ensemble) touch(s *serverConn) {
	if sess := e.sessions[s.session]; sess != nil {
		sess.heard = time.Now()
	}
}

// watchOver sets the alarm that ends a session if it sends no message for its timeout. A request does
// not move the alarm: the alarm goes off, and is set again.
func (e *Ensemble) watchOver(sess *session) {
	if sess.alarm != nil {
		sess.alarm.stop()
	}
	sess.alarm = e.after(time.Until(sess.heard.Add(sess.timeout)), func() {
		sess.alarm = nil
		switch {
		case e.sessions[sess.id] != sess || e.leader == nil:
			// The session has ended, or there is no leader: then no session expires.
		case time.Since(sess.heard) >= sess.timeout:
			e.expire(sess)
		default:
			e.watchOver(sess)
		}
	})
}

// expire ends a session by a transaction of the leader.
func (e *Ensemble) expire(sess *session) {
	e.trace(Event{Kind: "expire", Session: sess.id, Label: sess.label})
	x := e.begin(sess.id, nil)
	e.endSession(x)
	e.commit(x)
}

// endSession makes x the transaction that ends its session and deletes the session's ephemeral
// nodes.
func (e *Ensemble) endSession(x *txn) {
	x.ends = true
	for _, path := range e.leader.tree.ephemeralsOf(x.session) {
		x.changes = append(x.changes, change{code: opDelete, path: path})
	}
	if sess := e.sessions[x.session]; sess != nil {
		if sess.alarm != nil {
			sess.alarm.stop()
		}
		delete(e.sessions, x.session)
	}
}
