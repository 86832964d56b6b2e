package locktest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// A member is one server of the ensemble, with its own view of the data.
type member struct {
	e       *Ensemble
	addr    string
	running bool
	tree    *tree
	clock   time.Duration // how far its clock is ahead of time.Now

	lag   time.Duration
	queue []arrival // transactions that it has received, but not applied
	alarm *alarm    // goes off when the head of the queue is due

	watches watchTable
	conns   map[int64]*serverConn // newest connection of each session
	waiting []*serverConn         // connections with requests in flight
}

// An arrival is a transaction that a member has to apply.
type arrival struct {
	at  time.Time // earliest time to apply it
	txn *txn
}

// begin makes the next transaction of the log. taken is the member that received the request for it;
// nil: the leader makes it by itself.
func (e *Ensemble) begin(session int64, taken *member) *txn {
	e.counter++
	return &txn{
		zxid:    e.epoch<<32 | e.counter,
		time:    e.stamp(taken),
		taken:   time.Now(),
		session: session,
		stale:   e.opts.Quirks.StaleStat,
	}
}

// commit makes every running member apply a transaction, each after its lag. The leader applies
// it at once.
func (e *Ensemble) commit(x *txn) {
	e.txns++
	e.observe(x)
	e.leader.apply(x)
	for _, m := range e.members {
		if m.running && m != e.leader {
			m.learn(x)
		}
	}
	e.tendContainers(x)
}

func (m *member) learn(x *txn) {
	if m.lag == 0 && len(m.queue) == 0 {
		m.apply(x)
		return
	}
	m.queue = append(m.queue, arrival{time.Now().Add(m.lag), x})
	if len(m.queue) == 1 {
		m.schedule()
	}
}

// schedule sets the alarm for the head of the queue.
func (m *member) schedule() {
	if m.alarm != nil {
		m.alarm.stop()
		m.alarm = nil
	}
	if len(m.queue) > 0 {
		m.alarm = m.e.after(time.Until(m.queue[0].at), func() { m.catchUp(0) })
	}
}

// catchUp applies the transactions that are due within d.
func (m *member) catchUp(d time.Duration) {
	until := time.Now().Add(d)
	for len(m.queue) > 0 && !m.queue[0].at.After(until) {
		x := m.queue[0].txn
		m.queue = m.queue[1:]
		m.apply(x)
	}
	m.schedule()
}

func (m *member) catchUpAll() { m.catchUp(math.MaxInt64) }

// apply applies a transaction to the member's view. First it fires watches, then it answers the
// requests that waited for the transaction.
func (m *member) apply(x *txn) {
	m.tree.apply(x, m.watches.fire)
	if x.ends {
		if s := m.conns[x.session]; s != nil && !s.leaving {
			s.trace("disconnect", "session ended")
			s.end()
		}
	}
	waiting := m.waiting
	m.waiting = nil
	for _, s := range waiting {
		s.waiting = false
		s.drain()
	}
}

// disconnect ends all connections of the member.
func (m *member) disconnect(why string) {
	for _, s := range slices.Clone(m.e.conns) {
		if s.member == m && !s.closed {
			s.trace("disconnect", why)
			s.end()
		}
	}
}

// Stop stops a member, like a killed process. Its clients lose their connections, and dials are
// refused. If it was the leader, or no majority is left, all clients of the ensemble lose their
// connections, until there is a new leader.
func (e *Ensemble) Stop(member string) error {
	m, err := e.find("Stop", member)
	if err != nil {
		return err
	}
	e.lock()
	defer e.unlock()
	e.stop(m)
	return nil
}

// StopLeader stops the leader and returns its name; "" if there is none.
func (e *Ensemble) StopLeader() string {
	e.lock()
	defer e.unlock()
	m := e.leader
	if m == nil {
		return ""
	}
	e.stop(m)
	return m.addr
}

func (e *Ensemble) stop(m *member) {
	if !m.running {
		return
	}
	e.trace(Event{Kind: "stop", Member: m.addr})
	m.running = false
	m.disconnect("member stopped")
	m.catchUpAll() // its log keeps the queued transactions
	if e.leader != nil && (e.leader == m || !e.quorum()) {
		e.leader = nil
		for _, o := range e.members {
			o.disconnect("no leader")
		}
	}
	e.callElection()
}

// Start starts a stopped member. It gets the leader's data before it serves clients; without a
// leader it serves none.
func (e *Ensemble) Start(member string) error {
	m, err := e.find("Start", member)
	if err != nil {
		return err
	}
	e.lock()
	defer e.unlock()
	if m.running {
		return nil
	}
	e.trace(Event{Kind: "start", Member: m.addr})
	m.running = true
	if e.leader != nil {
		m.tree = e.leader.tree.clone()
	}
	e.callElection()
	return nil
}

func (e *Ensemble) quorum() bool {
	running := 0
	for _, m := range e.members {
		if m.running {
			running++
		}
	}
	return running > len(e.members)/2
}

// callElection starts the election of a leader, if there is none and a majority runs.
func (e *Ensemble) callElection() {
	switch {
	case e.leader != nil || e.electing != nil || !e.quorum():
	case e.opts.ElectionTime == 0:
		e.elect()
	default:
		e.electing = e.after(e.opts.ElectionTime, func() {
			e.electing = nil
			if e.quorum() {
				e.elect()
			}
		})
	}
}

// elect makes the running member with the latest transaction the leader; of several the last one in
// order. Unless the ensemble is a single server, it begins a new epoch. A majority knows each
// acknowledged write, so at least one running member does.
func (e *Ensemble) elect() {
	for _, m := range e.members {
		if m.running {
			m.catchUpAll()
			if e.leader == nil || m.tree.zxid >= e.leader.tree.zxid {
				e.leader = m
			}
		}
	}
	if len(e.members) > 1 {
		e.epoch, e.counter = e.epoch+1, 0
	}
	latest := e.leader.tree.zxid
	for _, m := range e.members {
		if !m.running {
			continue
		}
		if m.tree.zxid != latest {
			m.tree = e.leader.tree.clone()
		}
		m.tree.zxid = e.epoch<<32 | e.counter
	}
	e.trace(Event{Kind: "lead", Member: e.leader.addr, Zxid: e.leader.tree.zxid})
	for _, sess := range e.sessionsByID() {
		// The new leader does not know when the session last sent a message: its timeout begins again.
		sess.owner, sess.heard = nil, time.Now()
		e.watchOver(sess)
	}
}

func (e *Ensemble) sessionsByID() []*session {
	return slices.SortedFunc(maps.Values(e.sessions), func(a, b *session) int { return cmp.Compare(a.id, b.id) })
}

// Lag makes a follower apply each later transaction only after d. Its clients read stale data,
// their watches fire late, and the replies to their writes and syncs wait. Transactions that are
// already queued wait at most d from now; with d = 0 they are applied before Lag returns. A
// leader does not lag while it leads, and has all transactions when it begins.
func (e *Ensemble) Lag(member string, d time.Duration) error {
	m, err := e.find("Lag", member)
	if err != nil {
		return err
	}
	if d < 0 {
		return fmt.Errorf("locktest: Lag: %v; it must not be negative", d)
	}
	e.lock()
	defer e.unlock()
	m.lag = d
	latest := time.Now().Add(d)
	for i := range m.queue {
		if m.queue[i].at.After(latest) {
			m.queue[i].at = latest
		}
	}
	m.catchUp(0)
	return nil
}

// StepClock moves the leader's clock, which stamps the times of nodes, by d. Without a leader it
// does nothing.
func (e *Ensemble) StepClock(d time.Duration) {
	e.lock()
	defer e.unlock()
	if e.leader != nil {
		e.leader.clock += d
	}
}

// SetClock sets how far a member's clock is ahead of time.Now; behind, if d is negative. If the
// clocks of members differ, the times of nodes jump when the leader changes.
func (e *Ensemble) SetClock(member string, d time.Duration) error {
	m, err := e.find("SetClock", member)
	if err != nil {
		return err
	}
	e.lock()
	defer e.unlock()
	m.clock = d
	return nil
}
