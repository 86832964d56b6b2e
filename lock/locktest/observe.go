package locktest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Node is a node in the result of [Ensemble.Dump].
type Node struct {
	Path string
	Data []byte
	ACL  []ACL
	Stat Stat

	Written time.Time // time of its last write by the test's clock; Stat.Mtime is by a leader's
}

// Dump returns the nodes at and under a path in the leader's view, sorted by path. Without a
// leader it takes the view of the member with the latest transaction.
func (e *Ensemble) Dump(path string) []Node {
	e.lock()
	defer e.unlock()
	m := e.leader
	for _, o := range e.members {
		if m == nil || o.tree.zxid > m.tree.zxid {
			m = o
		}
	}
	path = key(path)
	var nodes []Node
	for p, n := range m.tree.nodes {
		if p == path || strings.HasPrefix(p, path+"/") {
			if p == "" {
				p = "/"
			}
			nodes = append(nodes, Node{
				Path: p, Data: bytes.Clone(n.data), ACL: slices.Clone(n.acl), Stat: n.stat(), Written: n.written,
			})
		}
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Path, b.Path) })
	return nodes
}

// Transactions returns the number of transactions since the ensemble was made: one for each
// write, failed ones included, for each session created or ended, for each container deleted, and
// for each [Ensemble.SetSequence] and [Ensemble.SetConfig].
func (e *Ensemble) Transactions() int64 {
	e.lock()
	defer e.unlock()
	return e.txns
}

// Txn is one transaction, as ZooKeeper's transaction logs have it.
type Txn struct {
	Zxid    int64
	Time    time.Time // by the leader's clock, in milliseconds
	Session int64     // the session that asked for it, or that began or ended
	Cxid    int32     // the client's number of the request
	Ops     []TxnOp   // all took effect, or none if the transaction failed
}

// TxnOp is one operation of a [Txn]. The fields that its kind does not name are zero.
type TxnOp struct {
	// Kind is ZooKeeper's code: 1 create, 2 delete, 5 setData, 7 setACL, 13 check, -10 a session
	// begins, -11 one ends, and deletes its nodes, -1 the transaction failed.
	Kind      int32
	Path      string
	Data      []byte        // create, setData
	ACL       []ACL         // create, setACL; do not change it
	Ephemeral bool          // create: the owner is Txn.Session
	Version   int32         // version of the data or ACL afterwards; check: the required one
	CVersion  int32         // create: how many children its parent has had
	Timeout   time.Duration // a session begins
	Ended     []string      // a session ends: the nodes that it deletes
	Err       int32         // ZooKeeper's code of the failure
}

// Observe calls f for each later transaction, in the order of ZooKeeper's transaction log; a nil f ends
// the calls. A transaction of [Ensemble.SetSequence] is
// left out, because no server logs it. f is called with the ensemble locked, so it must not call the
// ensemble, nor change the data.
func (e *Ensemble) Observe(f func(Txn)) {
	e.lock()
	defer e.unlock()
	e.observer = f
}

// observe passes a transaction to the observer, if there is one.
func (e *Ensemble) observe(x *txn) {
	if e.observer == nil {
		return
	}
	t := Txn{Zxid: x.zxid, Time: time.UnixMilli(x.time), Session: x.session, Cxid: x.cxid}
	switch {
	case x.ends:
		end := TxnOp{Kind: opCloseSession}
		for _, c := range x.changes {
			end.Ended = append(end.Ended, c.path)
		}
		t.Ops = []TxnOp{end}
	case x.begins > 0:
		t.Ops = []TxnOp{{Kind: opCreateSession, Timeout: x.begins}}
	case len(x.changes) > 0:
		t.Ops = make([]TxnOp, len(x.changes))
		for i := range x.changes {
			if x.changes[i].code == opSetSequence {
				return
			}
			t.Ops[i] = x.changes[i].logged()
		}
	default:
		t.Ops = []TxnOp{{Kind: opError, Err: x.failure()}}
	}
	e.observer(t)
}

// logged returns a change as the transaction log has it.
func (c *change) logged() TxnOp {
	o := TxnOp{Kind: c.code, Path: c.path, Data: c.data, Version: c.version, ACL: c.acl}
	switch c.code {
	case opCreate, opCreate2, opCreateContainer:
		o.Kind, o.CVersion, o.Ephemeral = opCreate, c.cversion, c.owner != 0
	}
	return o
}

// failure returns the code of a transaction that failed; codeOK if it did not fail.
func (x *txn) failure() int32 {
	for _, r := range x.results {
		if r.err != codeOK {
			return r.err
		}
	}
	return codeOK
}

// Counts are counters of the connections of one label.
type Counts struct {
	Requests        map[string]int // number by operation, without handshakes and pings
	Handshakes      int
	Pings           int
	BytesFromClient int64 // bytes in flight included
	BytesToClient   int64
}

// Total returns the sum of Requests: without handshakes and pings.
func (c Counts) Total() int {
	n := 0
	for _, count := range c.Requests {
		n += count
	}
	return n
}

// Requests returns the counters of each label since the ensemble was made.
func (e *Ensemble) Requests() map[string]Counts {
	e.lock()
	defer e.unlock()
	all := make(map[string]Counts, len(e.labels))
	for name, l := range e.labels {
		c := l.counts
		c.Requests = maps.Clone(c.Requests)
		all[name] = c
	}
	return all
}

// count counts a request that has arrived, and numbers it.
func (l *label) count(r *request) {
	switch r.code {
	case opConnect:
		l.counts.Handshakes++
	case opPing:
		l.counts.Pings++
	default:
		l.counts.Requests[opName(r.code)]++
		l.number++
		r.number = l.number
	}
}

// An Event is something that happened in an ensemble, see [Ensemble.Trace].
type Event struct {
	Time time.Time
	// Kind is one of:
	//
	//   - "request": a request was answered, dropped, or served after its connection had ended
	//   - "watch": a watch's event was sent
	//   - "connect": a handshake was answered; Note has the session, with id 0 if it was refused
	//   - "disconnect": a connection has ended; Note says why
	//   - "expire": the leader has ended Session
	//   - "lead": Member became the leader
	//   - "stop", "start": Member was stopped or started
	//   - "forget": [Ensemble.Forget] was called
	Kind    string
	Member  string
	Label   string
	Session int64
	Number  int    // number of the request; 0 for a ping
	Op      string // operation; for a watch "created", "deleted", "changed" or "children"
	Paths   []string
	Zxid    int64 // last transaction of Member when it answered, or began to lead
	Code    int32 // ZooKeeper's error code of the reply
	Note    string
	Ops     []EventOp // operations of a request with a path, more than one of a multi
}

// EventOp is one operation of a request, and the answer to it. The fields that the operation does not
// have are zero.
type EventOp struct {
	Op         string // as Event.Op
	Path       string
	Version    int32  // the version that the request names; -1 means any
	Sequential bool   // create
	Watch      bool   // the request sets a watch
	Data       []byte // what a create or setData writes, or a getData returns

	Code     int32    // ZooKeeper's error code; if it is not 0, the following fields are zero
	Created  string   // create: the path of the node
	Stat     Stat     // of a setData, getData, exists or getChildren2
	Children []string // getChildren, getChildren2
}

// String returns the event in one line.
func (ev Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-10s", ev.Time.Format("15:04:05.000000"), ev.Kind)
	for _, part := range []struct {
		format string
		value  any
		there  bool
	}{
		{" %s", ev.Member, ev.Member != ""},
		{" %q", ev.Label, ev.Label != ""},
		{" session=%#x", ev.Session, ev.Session != 0},
		{" #%d", ev.Number, ev.Number != 0},
		{" %s", ev.Op, ev.Op != ""},
		{" %s", strings.Join(ev.Paths, ","), len(ev.Paths) > 0},
		{" zxid=%#x", ev.Zxid, ev.Zxid != 0},
		{" code=%d", ev.Code, ev.Code != 0},
		{" (%s)", ev.Note, ev.Note != ""},
	} {
		if part.there {
			fmt.Fprintf(&b, part.format, part.value)
		}
	}
	return b.String()
}

// Trace calls f for each later event, in order; a nil f ends the calls. f is called with the
// ensemble locked, so it must not call the ensemble.
func (e *Ensemble) Trace(f func(Event)) {
	e.lock()
	defer e.unlock()
	e.tracer = f
}

func (e *Ensemble) trace(ev Event) {
	if e.tracer != nil {
		ev.Time = time.Now()
		e.tracer(ev)
	}
}

func (s *serverConn) event(kind string) Event {
	return Event{Kind: kind, Member: s.member.addr, Label: s.label.name, Session: s.session}
}

// trace reports an event of a connection.
func (s *serverConn) trace(kind, note string) {
	if s.e.tracer == nil {
		return
	}
	ev := s.event(kind)
	ev.Note = note
	s.e.trace(ev)
}

// traceRequest reports the result of a request.
func (s *serverConn) traceRequest(p pending, code int32, note string) {
	if s.e.tracer == nil {
		return
	}
	ev := s.event("request")
	ev.Number, ev.Op, ev.Paths = p.number, opName(p.code), p.paths()
	ev.Zxid, ev.Code, ev.Note = s.member.tree.zxid, code, note
	ev.Ops = s.eventOps(p, code)
	s.e.trace(ev)
}

// eventOps returns the operations of a request for an event.
func (s *serverConn) eventOps(p pending, code int32) (ops []EventOp) {
	asked := p.ops
	if p.code != opMulti {
		asked = []op{p.op}
	}
	for i, o := range asked {
		if o.path == "" {
			continue
		}
		ev := EventOp{
			Op: opName(o.code), Path: o.path, Version: o.version, Sequential: o.flags&flagSequential != 0,
			Watch: o.watch, Data: bytes.Clone(o.data), Code: code,
		}
		if p.txn != nil && p.fault.Code == codeOK && i < len(p.txn.results) {
			if ev.Code = p.txn.results[i].err; len(p.txn.changes) > 0 {
				ev.Created, ev.Stat = p.txn.results[i].path, p.txn.results[i].stat
			}
		}
		if n := s.member.tree.get(o.path); n != nil && p.txn == nil && ev.Code == codeOK {
			ev.read(o.code, n)
		}
		ops = append(ops, ev)
	}
	return ops
}

// read sets the answer of a read.
func (ev *EventOp) read(code int32, n *node) {
	switch code {
	case opGetData:
		ev.Data, ev.Stat = bytes.Clone(n.data), n.stat()
	case opExists:
		ev.Stat = n.stat()
	case opGetChildren2:
		ev.Children, ev.Stat = n.childNames(), n.stat()
	case opGetChildren:
		ev.Children = n.childNames()
	}
}

// traceWatch reports a watch's event.
func (s *serverConn) traceWatch(kind int32, path string) {
	if s.e.tracer == nil {
		return
	}
	ev := s.event("watch")
	ev.Op = [...]string{nodeCreated: "created", nodeDeleted: "deleted", nodeDataChanged: "changed", nodeChildrenChanged: "children"}[kind]
	ev.Paths = []string{path}
	s.e.trace(ev)
}
