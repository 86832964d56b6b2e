package locktest

// reply answers a request with only a code.
func (s *serverConn) reply(p pending, code int32) {
	s.e.out.header(p.xid, s.member.tree.zxid, code)
	s.send(p, code)
}

// send sends the encoded reply, unless a fault drops it.
func (s *serverConn) send(p pending, code int32) {
	if p.fault.Drop == AfterApply {
		s.traceRequest(p, code, "dropped before its reply")
		s.end()
		return
	}
	s.traceRequest(p, code, "")
	s.sendAfter(s.e.out.frame(), p.fault.DelayReply)
}

// answer encodes the body of a reply, and returns the code for its header.
func (s *serverConn) answer(out *encoder, p pending) int32 {
	switch {
	case p.fault.Code != codeOK && 0 < p.fault.Op && p.fault.Op <= len(p.ops):
		results := make([]result, len(p.ops))
		fail(results, p.fault.Op-1, p.fault.Code)
		out.multi(results)
		return codeOK
	case p.fault.Code != codeOK:
		return p.fault.Code
	case p.malformed:
		return codeMarshalling
	case p.fault.NoResults:
		return codeOK
	case p.code == opMulti:
		out.multi(p.txn.results)
		return codeOK
	case p.code == opCloseSession:
		return codeOK
	case p.txn != nil:
		r := &p.txn.results[0]
		if r.err == codeOK {
			out.result(r)
		}
		return r.err
	}
	return s.read(out, p.request)
}

// read encodes the answer to a request from the member's own view, sets the request's watch, and
// returns the code for the reply's header.
func (s *serverConn) read(out *encoder, r *request) int32 {
	switch r.code {
	case opPing:
		return codeOK
	case opSetWatches:
		s.reset(&r.setWatches)
		return codeOK
	case opSync:
		out.string(r.path)
		return codeOK
	case opCheckWatches, opRemoveWatches:
		return s.watchers(r)
	}
	n := s.member.tree.get(r.path)
	if n == nil {
		if r.code == opExists && r.watch {
			s.watch(r.path, false)
		}
		return codeNoNode
	}
	perm := int32(permRead)
	if r.code == opGetACL {
		perm |= permAdmin
	}
	if !permits(n.acl, perm, s.identity) {
		return codeNoAuth
	}
	if r.watch {
		s.watch(r.path, r.code == opGetChildren || r.code == opGetChildren2)
	}
	stat := n.stat()
	switch r.code {
	case opGetData:
		out.buffer(n.data)
	case opGetACL:
		out.acl(shownACL(n.acl, s.identity))
	case opGetChildren, opGetChildren2:
		names := n.childNames()
		out.int32(int32(len(names)))
		for _, name := range names {
			out.string(name)
		}
		if r.code == opGetChildren {
			return codeOK
		}
	}
	out.stat(&stat)
	return codeOK
}

func (s *serverConn) watch(path string, children bool) {
	s.member.watches.add(s, watchKey{path, children})
}

// authenticate handles a setAuth. It does not wait behind requests in flight.
func (s *serverConn) authenticate(p pending) {
	if p.auth.scheme == "digest" {
		s.identity = append(s.identity, ACL{Scheme: "digest", ID: digestID(p.auth.auth)})
		s.reply(p, codeOK)
		return
	}
	s.reply(p, codeAuthFailed)
	s.end()
}

// noSASL answers a client's SASL token with no token, as a server without SASL does.
func (s *serverConn) noSASL(p pending) {
	s.e.out.header(p.xid, 0, codeOK)
	s.e.out.int32(-1)
	s.send(p, codeOK)
}

func (s *serverConn) sendEvent(kind int32, path string) {
	s.traceWatch(kind, path)
	var out encoder
	s.sendAfter(out.event(kind, path), 0)
}
