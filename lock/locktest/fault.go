package locktest

import (
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"time"
)

// A label groups the connections of one client.
type label struct {
	name   string
	frozen bool
	cutOff map[*member]bool // members that Partition cuts it off from
	number int              // number of its last request, see Request.Number
	counts Counts
}

func (l *label) held(m *member) bool { return l.frozen || l.cutOff[m] }

func (e *Ensemble) label(name string) *label {
	l := e.labels[name]
	if l == nil {
		l = &label{name: name, cutOff: make(map[*member]bool), counts: Counts{Requests: make(map[string]int)}}
		e.labels[name] = l
	}
	return l
}

// Dial connects to a member, with the label "". It is a zk.Dialer; timeout 0 means none.
func (e *Ensemble) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	return e.dial("", address, timeout)
}

// Dialer returns a zk.Dialer whose connections have the label. Faults and counters name a client by
// its label.
func (e *Ensemble) Dialer(label string) func(network, address string, timeout time.Duration) (net.Conn, error) {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		return e.dial(label, address, timeout)
	}
}

func (e *Ensemble) dial(name, address string, timeout time.Duration) (net.Conn, error) {
	m, err := e.find("Dial", address)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: addr(address), Err: err}
	}
	var expired <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		expired = timer.C
	}
	answered := false // the round trip has passed
	for {
		e.lock()
		l := e.label(name)
		var answer <-chan time.Time
		switch {
		case e.closed:
			e.unlock()
			return fail(net.ErrClosed)
		case l.held(m):
		case !answered && e.latencyFor(l, m) > 0:
			answer = time.After(2 * e.latencyFor(l, m))
		case !m.running:
			e.unlock()
			return fail(syscall.ECONNREFUSED)
		default:
			defer e.unlock()
			return e.connect(l, m).client, nil
		}
		released, frozen := e.released, l.frozen
		e.unlock()
		ends := expired
		if frozen {
			ends = nil
		}
		select {
		case <-answer:
			answered = true
		case <-released:
		case <-ends:
			return fail(os.ErrDeadlineExceeded)
		}
	}
}

func (e *Ensemble) connect(l *label, m *member) *serverConn {
	s := newServerConn(e, m, l)
	e.conns = append(e.conns, s)
	return s
}

// forget drops a connection that is closed on both ends.
func (e *Ensemble) forget(s *serverConn) {
	if s.closed && s.gone {
		if i := slices.Index(e.conns, s); i >= 0 {
			e.conns = slices.Delete(e.conns, i, i+1)
		}
	}
}

// release lets hanging dials check again whether they can reach their members.
func (e *Ensemble) release() {
	close(e.released)
	e.released = make(chan struct{})
}

func (e *Ensemble) connsOf(l *label) []*serverConn {
	var conns []*serverConn
	for _, s := range e.conns {
		if s.label == l {
			conns = append(conns, s)
		}
	}
	return conns
}

// Cut closes a client's connections now, like a reset: data in flight is lost, in both
// directions. Requests that have arrived are still applied.
func (e *Ensemble) Cut(label string) {
	e.lock()
	defer e.unlock()
	for _, s := range e.connsOf(e.label(label)) {
		s.trace("disconnect", "cut")
		s.cut(syscall.ECONNRESET)
	}
}

// Partition cuts a client off from some members, or from all if none is named. Bytes and closes of
// connections are held in both directions until [Ensemble.Heal], and dials hang until their
// timeout. Neither side notices at once: after their timeouts the leader ends the session, and the
// client its connection. Partition fails if a name is no member's.
func (e *Ensemble) Partition(label string, servers ...string) error {
	members := e.members
	if len(servers) > 0 {
		members = nil
		for _, name := range servers {
			m, err := e.find("Partition", name)
			if err != nil {
				return err
			}
			members = append(members, m)
		}
	}
	e.lock()
	defer e.unlock()
	l := e.label(label)
	for _, m := range members {
		l.cutOff[m] = true
	}
	e.reroute(l)
	return nil
}

// Heal ends a client's partitions. Held bytes arrive, in order.
func (e *Ensemble) Heal(label string) {
	e.lock()
	defer e.unlock()
	l := e.label(label)
	clear(l.cutOff)
	e.reroute(l)
}

// Freeze makes a client's connections look as if its process were stopped. Bytes are held in both
// directions, and no deadline of a connection or dial passes, until [Ensemble.Thaw]. The members do
// not notice; the leader ends the client's session after its timeout.
func (e *Ensemble) Freeze(label string) { e.freeze(label, true) }

// Thaw ends the freeze of [Ensemble.Freeze]. Held bytes arrive, in order, and deadlines are delayed
// by the length of the freeze.
func (e *Ensemble) Thaw(label string) { e.freeze(label, false) }

func (e *Ensemble) freeze(name string, frozen bool) {
	e.lock()
	defer e.unlock()
	l := e.label(name)
	l.frozen = frozen
	e.reroute(l)
}

// reroute applies a label's partitions and freeze to its connections.
func (e *Ensemble) reroute(l *label) {
	for _, s := range e.connsOf(l) {
		held := l.held(s.member)
		s.in.hold(held)
		s.out.hold(held)
		s.client.freeze(l.frozen)
	}
	e.release()
}

// SetLatency sets the one-way time of packets between a client and a member; nil means no time.
// From then on latency is called for each packet, with the ensemble locked, so it must not call
// the ensemble. Packets of a connection keep their order. A dial takes the time of two packets.
func (e *Ensemble) SetLatency(latency func(label, member string) time.Duration) {
	e.lock()
	defer e.unlock()
	e.latency = latency
}

func (e *Ensemble) latencyFor(l *label, m *member) time.Duration {
	if e.latency == nil {
		return 0
	}
	return e.latency(l.name, m.addr)
}

func (e *Ensemble) latencyOf(s *serverConn) time.Duration { return e.latencyFor(s.label, s.member) }

// ExpireLabel ends the sessions that last connected with a label, as the leader does after their
// timeouts, deletes their ephemeral nodes, and returns their number: 0 without a leader. A session's
// connection ends when its member has applied the transaction.
func (e *Ensemble) ExpireLabel(label string) int {
	e.lock()
	defer e.unlock()
	n := 0
	for _, sess := range e.sessionsByID() {
		if sess.label == label && e.leader != nil {
			e.expire(sess)
			n++
		}
	}
	return n
}

// LoseWatches makes the members forget the watches of a client, and returns their number. The
// connections stay, and the client does not notice that it misses events.
func (e *Ensemble) LoseWatches(label string) int {
	e.lock()
	defer e.unlock()
	n := 0
	for _, s := range e.connsOf(e.label(label)) {
		n += len(s.watching)
		s.member.watches.remove(s)
	}
	return n
}

// Forget makes the ensemble lose all its data, like servers that restart without their disks. All
// nodes and sessions are lost, and epochs and transactions are numbered from the start. All
// connections are cut. If a client has seen a later transaction than a member has, the member
// ends the connection at the handshake, without an answer. Otherwise the client gets a new session.
// Clocks and stopped members stay as they are.
func (e *Ensemble) Forget() {
	e.lock()
	defer e.unlock()
	e.trace(Event{Kind: "forget"})
	for s := range e.delayed {
		s.ended, s.arrivals = true, nil
	}
	for _, m := range e.members {
		m.disconnect("data lost")
		m.queue = nil
		m.schedule()
		m.tree = newTree()
		e.opts.Quirks.adopt(m.tree)
	}
	for _, sess := range e.sessions {
		if sess.alarm != nil {
			sess.alarm.stop()
		}
	}
	clear(e.sessions)
	e.epoch, e.counter, e.leader = 0, 0, nil
	e.callElection()
}

// SetSequence sets a node's counter of sequential children to next, by a transaction of its own.
// next must be in 0..2147483647; a real server's counter stops at that maximum. SetSequence fails
// if there is no such node, or no leader.
func (e *Ensemble) SetSequence(path string, next int32) error {
	if next < 0 {
		return fmt.Errorf("locktest: SetSequence %s: %d; it must not be negative", path, next)
	}
	return e.set("SetSequence", path, func(*node) change {
		return change{code: opSetSequence, path: path, cversion: next}
	})
}

// SetConfig sets the content of /zookeeper/config, by a transaction of its own, as a dynamic
// reconfiguration does. At first the content is empty, as on a standalone server. The ensemble's members
// stay the same. SetConfig fails if there is no leader, or no such node because of [Quirks].Keeper.
func (e *Ensemble) SetConfig(text string) error {
	const path = "/zookeeper/config"
	return e.set("SetConfig", path, func(n *node) change {
		return change{code: opSetData, path: path, data: []byte(text), version: n.version + 1}
	})
}

// set changes an existing node by a transaction of its own. call is the caller's method, for errors.
func (e *Ensemble) set(call, path string, to func(n *node) change) error {
	e.lock()
	defer e.unlock()
	if e.leader == nil {
		return fmt.Errorf("locktest: %s %s: there is no leader", call, path)
	}
	n := e.leader.tree.get(path)
	if n == nil {
		return fmt.Errorf("locktest: %s %s: there is no such node", call, path)
	}
	x := e.begin(0, nil)
	x.changes = []change{to(n)}
	x.results = make([]result, 1)
	e.commit(x)
	return nil
}

// A Request is the argument of the hook of [Ensemble.Intercept].
type Request struct {
	Label   string
	Session int64
	Member  string // name of the member that received it
	Op      string // "create", "multi", "getData", "setWatches", "closeSession", ...
	Paths   []string
	Number  int // number among the requests of its label, from 1
}

// A Fault changes the handling of a request. The zero value changes nothing.
type Fault struct {
	// Delay delays the request, and all later requests of its connection behind it. The request
	// is applied even if the client ends the connection meanwhile. The request is not applied if
	// the member ends the connection, or if the session gets another connection, before the end of
	// the delay: a real server never applies a request after the session has reconnected.
	Delay time.Duration
	// Drop closes the connection without a reply, before or after the request is applied.
	Drop Drop
	// Code, if not 0, is the ZooKeeper error code with which the request is answered instead of
	// being applied, such as -127 (throttled).
	Code int32
	// Op is the operation of a transaction that fails with Code; 1 is the first. 0, or an
	// operation that does not exist, means the request as a whole.
	Op int
	// NoResults makes the reply report success and nothing else, which no ZooKeeper does: the reply
	// to a transaction lacks the results of all its operations.
	NoResults bool
	// DelayReply delays the reply, and later frames of the connection behind it.
	DelayReply time.Duration
}

// Drop says when a [Fault] closes the connection.
type Drop int

const (
	NoDrop      Drop = iota
	BeforeApply      // the request is lost, and all data sent after it
	AfterApply       // the reply is lost
)

// Intercept calls hook for each later request except handshakes and pings, before the member
// handles the request; a nil hook ends the calls. The hook may call the ensemble. It may be called
// from several goroutines concurrently, mostly from those that wrote the requests. While it runs,
// later requests of the same connection wait.
func (e *Ensemble) Intercept(hook func(Request) Fault) {
	e.lock()
	defer e.unlock()
	e.intercept = hook
}

// faultFor returns the hook's fault for a request; the zero Fault without a hook. It calls the hook
// with the lock released.
func (e *Ensemble) faultFor(s *serverConn, r *request) Fault {
	hook := e.intercept
	if hook == nil || r.number == 0 {
		return Fault{}
	}
	req := Request{
		Label: s.label.name, Session: s.session, Member: s.member.addr,
		Op: opName(r.code), Paths: r.paths(), Number: r.number,
	}
	e.mu.Unlock()
	defer e.mu.Lock()
	return hook(req)
}

func (r *request) paths() []string {
	switch r.code {
	case opMulti:
		paths := make([]string, len(r.ops))
		for i := range r.ops {
			paths[i] = r.ops[i].path
		}
		return paths
	case opSetWatches:
		return slices.Concat(r.setWatches.data, r.setWatches.exists, r.setWatches.childs)
	}
	if r.path == "" {
		return nil
	}
	return []string{r.path}
}
