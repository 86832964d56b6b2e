package history

import (
	"time"

	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// about returns an event of the present transaction about an entry.
func (m *Machine) about(kind Kind, q *queue, c *contender) Event {
	e := m.event(kind, q.name)
	e.Entry, e.Who, e.In, e.unsure, e.Lease = c.Node, c.client(), c.in, c.vague || !q.sure(), c.ends()
	if c.Leased() {
		e.TTL = c.TTL()
	}
	if by := m.by(); by != c.client() {
		e.By = by
	}
	return e
}

// derived returns an event that follows from the last write of an entry. Its time is the write's
// stamp plus later.
func (m *Machine) derived(kind Kind, q *queue, c *contender, later time.Duration) Event {
	return Event{Kind: kind, Zxid: c.written.zxid, Time: c.stamp.time().Add(later), Session: c.session, Lock: q.name, Entry: c.Node,
		Who: c.client(), In: c.in, Lease: c.ends(), TTL: c.TTL(), mono: c.written.mono + later}
}

// join handles an entry that was created.
func (m *Machine) join(lock string, name znode.Name, op *txnlog.Op) {
	t := m.txn
	matches := m.o.Match(lock)
	if !matches && !m.instructive(lock) || m.scratch(lock) {
		return
	}
	e := &contender{Name: name, czxid: t.Zxid, written: m.clock.point, stamp: stampOf(t.Time), session: t.Session, fresh: true}
	if op.Ephemeral {
		e.owner = t.Session
	}
	made := znode.ReadEntry(name, op.Data, e.stat())
	if made.Leased() {
		m.estimated(lock, &made.Record)
		e.plain, _ = plain(op.Data)
	}
	if !matches {
		return
	}
	m.take(e, made)
	q := m.queue(lock)
	if (q.find(name.Node) >= 0 || op.CVersion > 0 && op.CVersion <= q.created) && q.sure() {
		m.restored(q)
	}
	q.created = op.CVersion
	q.add(e)
	m.mortal = m.mortal || op.Ephemeral
	joined := m.about(Joined, q, e)
	joined.Role = e.role(q.rules.Kind)
	m.tell(q, joined)
	m.touch(q)
}

// instructive reports whether an entry of a lock that does not match may tell something that matters to others:
// the client of the present session, that it is the reaper, or a step of the leader's clock.
func (m *Machine) instructive(lock string) bool {
	s := m.sessions[m.txn.Session]
	return s == nil || !s.client.Known() || lock == m.o.Reaper || m.clock.torn(s.knew)
}

// scratch reports whether the transaction creates and deletes the lock's node: clients do that to
// sample the leader's clock, or to test a server.
func (m *Machine) scratch(lock string) bool {
	return m.does(txnlog.OpCreate, otherNode, lock) && m.does(txnlog.OpDelete, otherNode, lock)
}

// estimated records which client's session wrote the entry. By the estimate in the entry's record
// it detects a step of the leader's clock, and emits the event.
func (m *Machine) estimated(lock string, r *znode.Record) {
	s := m.identify(lock, clientOf(r))
	if s.knew == 0 || r.ExpiresAt == 0 {
		return
	}
	if step, ok := m.clock.learn(s.knew, time.UnixMilli(r.ExpiresAt-r.TTL)); ok {
		m.emit(step)
	}
}

// write handles an entry that was written.
func (m *Machine) write(lock string, name znode.Name, op *txnlog.Op) {
	t := m.txn
	q, matches := m.locks[lock], m.o.Match(lock)
	i := -1
	if q != nil {
		i = q.find(name.Node)
	}
	if i < 0 {
		if !matches && !m.instructive(lock) {
			return
		}
		r, err := znode.DecodeRecord(op.Data)
		if err != nil || !name.Ours() {
			return
		}
		if !matches {
			if r.Broken == nil {
				m.estimated(lock, &r)
			}
			return
		}
		if q = m.queue(lock); q.sure() {
			m.restored(q)
		}
		// The entry was created before the log began, or in a gap.
		m.found(lock, name, &txnlog.Node{Data: op.Data, Mtime: t.Time, Version: op.Version}, false).written = m.clock.point
		q = m.locks[lock]
		i = q.find(name.Node)
		q.entries[i].written.zxid--
	}
	c := q.entries[i]
	c.doubted = false
	after, ok := c.renewal(op.Data)
	if !ok {
		after = znode.ReadEntry(name, op.Data, c.stat())
	}
	if c.unseen {
		if !after.Leased() || after.Record.Broken != nil {
			return // when its client wrote it last is still not known
		}
		c.unseen, c.recorded = false, after.Granted()
		q.unseen--
		m.take(c, after)
	}
	if !c.in || after.Record.Shared || q.partial {
		m.touch(q)
	}
	if !after.Leased() {
		c.damaged, c.acquired, c.plain = after.Err != nil, 0, 0
		if name.Ours() {
			e := m.about(Overwritten, q, c)
			if after.Err != nil {
				e.Reason = after.Err.Error()
			}
			m.tell(q, e)
		}
		return
	}
	if b := after.Record.Broken; b != nil {
		again := c.Record.Broken != nil
		m.take(c, after)
		c.plain, c.breaker = 0, t.Session
		m.identify("", Client{b.Owner, b.Host, b.PID})
		if !again { // a break writes twice
			e := m.about(Broken, q, c)
			e.By, e.Reason = Client{b.Owner, b.Host, b.PID}, b.Reason
			m.tell(q, e)
		}
		return
	}
	if !ok {
		c.plain, _ = plain(op.Data)
	}
	m.renew(q, c, after)
}

// renewal returns the entry after a write that has changed only expires_at; false for any other
// write. It compares digests: most writes are renewals, and decoding all of them would take most of
// the Machine's time.
func (c *contender) renewal(data []byte) (znode.Entry, bool) {
	same, expires := plain(data)
	if same == 0 || same != c.plain {
		return znode.Entry{}, false
	}
	e := znode.Entry{Name: c.Name, Stat: c.stat(), Record: *c.Record}
	e.Record.ExpiresAt, e.Record.AcquiredAt = expires, c.acquired
	return e, true
}

// renew handles an entry that its owner wrote.
func (m *Machine) renew(q *queue, c *contender, after znode.Entry) {
	t := m.txn
	was, is := c.Record, &after.Record
	m.estimated(q.name, is)
	m.lapse(q, c)
	late, again := c.lapsed, c.written.zxid == t.Zxid
	m.take(c, after)
	c.session = t.Session
	c.written, c.stamp, c.lapsed = m.clock.point, stampOf(t.Time), false
	if again {
		return // an attach writes twice
	}
	kind := Renewed
	switch {
	case is.Detached && !was.Detached:
		kind = Detached
	case is.Incarnation != was.Incarnation:
		kind = Attached
	case is.Shared && !was.Shared:
		kind = Shared
	}
	e := m.about(kind, q, c)
	e.Late = late
	if kind == Attached {
		e.By = clientOf(was) // the previous owner
	}
	m.tell(q, e)
	m.complete(q, c)
	m.record(q, c)
}

// lapse emits AtRisk and Expired if half of the lease or all of it has certainly passed without a write, and
// before that InDoubt if all of it may have. AtRisk is only for an entry whose turn has come. Call lapse once
// for each lease, when it ends.
func (m *Machine) lapse(q *queue, c *contender) {
	if !c.Leased() {
		return
	}
	lasted, ttl := m.clock.between(c.written, m.clock.point), c.TTL()
	doubt, stamp, doubtful := m.clock.mayEnd(c.written, m.clock.point, ttl)
	if c.in && lasted > ttl/2+ttl/20 && !(doubtful && doubt <= ttl/2) { // ttl/20 is a margin for the duration of a write
		m.tell(q, m.derived(AtRisk, q, c, ttl/2))
	}
	if doubtful {
		e := m.derived(InDoubt, q, c, doubt)
		e.Time = stamp
		m.tell(q, e)
	}
	if c.lapsed = lasted > ttl; c.lapsed {
		m.tell(q, m.derived(Expired, q, c, ttl))
	}
}

// record emits Recorded, once, if the entry's record has the grant.
func (m *Machine) record(q *queue, c *contender) {
	if !c.in || c.recorded || !c.Granted() {
		return
	}
	c.recorded = true
	e := m.about(Recorded, q, c)
	e.At = time.UnixMilli(c.acquired)
	m.tell(q, e)
}
