package history

import (
	"iter"
	"slices"

	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// This file decides what is known. What the files cannot show is not known: entries from before the
// log or from a gap, and what a snapshot lacks because the server saved it while it wrote. A lock
// whose entries are not all known has no turns: only a record that shows the grant makes its client a
// holder.

// Machine follows a log.
var _ txnlog.Follower = (*Machine)(nil)

// Keep reports whether Begin needs the node at the path.
func (m *Machine) Keep(path string) bool {
	if job, ok := m.jobOf(path); ok {
		return m.matchesJob(job)
	}
	s := m.spot(path)
	return s.what > requestNode && m.o.Match(s.lock)
}

// Begin gives the Machine the nodes that existed after the transaction zxid, in any order, see
// [txnlog.Exact]: before the first call of Apply, or between two, if the Machine was blind. After an
// error the state is not known: call [Machine.Gap].
func (m *Machine) Begin(zxid int64, nodes iter.Seq2[txnlog.Node, error]) error {
	there := map[string]bool{} // names of entries and locks' nodes, if some are known already
	anew := len(m.locks) > 0
	for n, err := range nodes {
		if err != nil {
			return err
		}
		if n.Czxid > zxid {
			continue
		}
		if name, ok := m.name(n.Path); ok && anew {
			there[name] = true
		}
		m.resume(zxid, &n)
	}
	m.begun = zxid
	for name, q := range m.locks {
		for i := len(q.entries) - 1; i >= 0 && anew; i-- {
			if !there[name+"/"+q.entries[i].Node] {
				m.vanish(q, i)
			}
		}
		if anew && !there[name] && len(q.entries) == 0 {
			delete(m.locks, name)
			continue
		}
		q.partial, q.disputed, q.blurred = false, false, true
		m.touch(q)
	}
	if m.blind && m.txn != nil && m.known == (Known{}) {
		m.known = Known{m.clock.stamp, m.clock.zxid}
	}
	m.blind = false
	if m.txn != nil {
		m.settle(m.clock.stamp)
	}
	return nil
}

// Opened does nothing: the Machine needs no timeouts.
func (m *Machine) Opened(txnlog.Session) {}

// Blind reports whether there may be locks or entries that the files have not shown.
func (m *Machine) Blind() bool { return m.blind }

// Gap tells the Machine that the state is not known here: transactions are missing. Entries that do not
// appear again count as vanished after their leases and the grace.
func (m *Machine) Gap() {
	m.unknown()
	if c := &m.moments; c.gap == nil && m.txn != nil && len(c.asked) > 0 {
		lost := m.states()
		c.gap = &lost
	}
}

// unknown takes all that is known as doubtful.
func (m *Machine) unknown() {
	m.blind = true
	for _, q := range m.locks {
		q.partial, q.created = true, 0
		for _, c := range q.entries {
			c.doubted, c.fresh = true, false
		}
	}
}

// resume replaces what is known of a node by what a snapshot shows.
func (m *Machine) resume(zxid int64, n *txnlog.Node) {
	s := m.spot(n.Path)
	q := m.locks[s.lock]
	if s.what != entryNode || q == nil || q.find(s.node) < 0 {
		m.begin(zxid, n)
		return
	}
	c := q.entries[q.find(s.node)]
	if c.doubted = false; n.Lost || n.Mzxid <= c.written.zxid {
		return
	}
	q.remove(q.find(s.node))
	m.begin(zxid, n)
	if i := q.find(s.node); i >= 0 {
		q.entries[i].in, q.entries[i].since, q.entries[i].granted = c.in, c.since, c.granted
	}
}

// dispute marks the locks that a disputed transaction would change: their state is not known.
func (m *Machine) dispute(t *txnlog.Txn) {
	for i := range t.Ops {
		op := &t.Ops[i]
		paths := []string{op.Path}
		switch op.Kind {
		case txnlog.OpCloseSession:
			paths = m.ending(t.Session, op)
		case txnlog.OpCheck:
			continue
		}
		for _, path := range paths {
			s := m.spot(path)
			_, made := lockOf(op.Data)
			if s.what <= requestNode || !m.o.Match(s.lock) || s.what == otherNode && !made && m.locks[s.lock] == nil {
				continue // it is nothing of a lock
			}
			q := m.queue(s.lock)
			q.partial, q.disputed, q.blurred = true, true, true
			for _, c := range q.entries {
				c.doubted, c.fresh = c.doubted || s.what == otherNode || c.Node == s.node, false
			}
		}
	}
}

// contradicted returns the lock whose node the transaction writes as of another generation, which only a new
// node can be of; nil if there is none.
func (m *Machine) contradicted(t *txnlog.Txn) *queue {
	for i := range t.Ops {
		op := &t.Ops[i]
		name, ok := m.name(op.Path)
		if q := m.locks[name]; ok && op.Kind == txnlog.OpSetData && q != nil && q.data != 0 && !q.adopted && q.sure() && q.data != digestOf(op.Data, nil) {
			p, ok := lockOf(op.Data)
			made := slices.ContainsFunc(t.Ops[:i], func(o txnlog.Op) bool { return o.Kind == txnlog.OpCreate && o.Path == op.Path })
			if ok && !p.Adopted && !made {
				return q
			}
		}
	}
	return nil
}

// restored tells that this transaction contradicts what is known of the lock. Then nothing is known any more.
func (m *Machine) restored(q *queue) {
	m.tell(q, m.event(Restored, q.name))
	m.unknown()
}

// sure reports whether all entries of the lock, its kind and permits are known.
func (q *queue) sure() bool { return !q.partial && q.unseen == 0 && !q.vague.node && !q.vague.anchor }

// complete takes note of a recorded grant. Nothing excludes an entry whose record shows the grant. If it
// excludes all others, and was created since the lock became partial, all entries are known: those that
// were doubted are gone.
func (m *Machine) complete(q *queue, c *contender) {
	alone := q.rules.Kind == znode.Mutex && c.Role == znode.Exclusive || q.rules.Kind == znode.RW && c.Role == znode.Writer
	if q.partial && q.data != 0 && c.fresh && !c.doubted && alone && c.Granted() && !c.Record.Shared {
		q.partial, q.disputed, q.blurred = false, false, true
		for i := len(q.entries) - 1; i >= 0; i-- {
			if q.entries[i].doubted {
				m.vanish(q, i)
			}
		}
	}
}
