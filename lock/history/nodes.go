package history

import (
	"strings"

	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// begin adds a node that existed after the transaction zxid.
func (m *Machine) begin(zxid int64, n *txnlog.Node) {
	later := n.Lost || n.Mzxid > zxid // its data is not known, see [txnlog.Exact]
	if job, ok := m.jobOf(n.Path); ok {
		if m.matchesJob(job) {
			m.jobs[job] = append([]byte(nil), n.Data...)
		}
		return
	}
	s := m.spot(n.Path)
	if s.what == outside || !m.o.Match(s.lock) {
		return
	}
	switch s.what {
	case entryNode:
		m.found(s.lock, s.entry, n, later)
	case anchorNode:
		if a, err := znode.DecodeAnchor(n.Data); err == nil || later {
			q := m.queue(s.lock)
			q.rules.Capacity, q.vague.anchor = a.Capacity(), later
		}
	case otherNode:
		if p, ok := lockOf(n.Data); ok {
			q := m.queue(s.lock)
			q.setParent(n.Data, p)
			q.vague.node = later
		}
	}
}

// lockOf decodes the data of a lock's node; false if it is not one's.
func lockOf(data []byte) (znode.Parent, bool) {
	p, err := znode.DecodeParent(data)
	return p, err == nil && p.Kind.IsLock()
}

// found adds an entry that was created before the log began, or in a gap. later: its data is not known.
func (m *Machine) found(lock string, name znode.Name, n *txnlog.Node, later bool) *contender {
	q := m.queue(lock)
	c := &contender{Name: name, czxid: n.Czxid, owner: n.EphemeralOwner, written: point{zxid: n.Mzxid}, stamp: stampOf(n.Mtime), session: n.EphemeralOwner}
	if c.unseen = later; later {
		c.Record = &none
	} else {
		m.take(c, znode.ReadEntry(name, n.Data, c.stat()))
		c.recorded = c.Granted()
	}
	if !m.clock.stamp.IsZero() { // otherwise start sets it
		rose := n.Mtime.Sub(m.clock.stamp)
		if n.Mzxid > m.clock.zxid { // by another leader, whose clock may show less
			rose = max(0, rose)
		}
		c.written.mono = m.clock.mono + rose
	}
	q.add(c)
	m.mortal = m.mortal || n.EphemeralOwner != 0
	m.touch(q)
	return c
}

func (m *Machine) create(op *txnlog.Op) {
	if m.job(op) {
		return
	}
	if m.blind && (op.Path == m.o.Root || strings.HasPrefix(m.o.Root, op.Path+"/")) {
		m.blind = false // there are no locks below a new root
	}
	switch s := m.spot(op.Path); s.what {
	case outside:
		m.elsewhere(op)
	case requestNode:
		m.revoke(s.node, op)
	case entryNode:
		m.join(s.lock, s.entry, op)
	case anchorNode:
		if !m.o.Match(s.lock) {
			if len(m.unasked) < fewNames {
				m.unasked[s.lock] = true
			}
		} else if a, err := znode.DecodeAnchor(op.Data); err == nil {
			m.capacity(m.queue(s.lock), a.Capacity())
		}
	case otherNode:
		if p, ok := lockOf(op.Data); ok && m.o.Match(s.lock) {
			m.makeLock(s.lock, op.Data, p)
		}
	}
}

// makeLock handles a lock's node that was created.
func (m *Machine) makeLock(name string, data []byte, p znode.Parent) {
	q := m.queue(name)
	if q.data != 0 && q.sure() {
		m.restored(q)
	}
	for i := len(q.entries) - 1; i >= 0; i-- { // a new node has none
		m.vanish(q, i)
	}
	q.begins()
	q.setParent(data, p)
	e := m.event(Made, name)
	e.Of = string(p.Kind)
	q.made = &e // emitted later, when the transaction has shown its permits and client
	m.touch(q)
}

// fewNames is the largest number of names of other locks, and of other roots, that are kept.
const fewNames = 8

// elsewhere records a root of locks outside of the configured root.
func (m *Machine) elsewhere(op *txnlog.Op) {
	root, node := split(op.Path)
	if len(m.others) >= fewNames || !strings.HasPrefix(node, "anchor-") && !znode.Reserved(node) {
		return
	}
	if _, ok := znode.AnchorOf(node); ok {
		root, _ = split(root) // the node above the lock's: the root, or below it
	} else if !znode.Reserved(node) {
		return
	}
	if root != "" {
		m.others[root] = true
	}
}

func (m *Machine) set(op *txnlog.Op) {
	if m.job(op) {
		return
	}
	s := m.spot(op.Path)
	q := m.locks[s.name]
	if q != nil {
		q.vague.node = false
		if q.data == digestOf(op.Data, nil) {
			return // a join writes the same data again, to get the Stat in the reply
		}
	}
	switch s.what {
	case requestNode:
		m.revoke(s.node, op)
	case entryNode:
		m.write(s.lock, s.entry, op)
	case anchorNode:
		if a, err := znode.DecodeAnchor(op.Data); err == nil && m.o.Match(s.lock) {
			q := m.queue(s.lock)
			q.vague.anchor = false
			m.capacity(q, a.Capacity())
		}
	case otherNode:
		if p, ok := lockOf(op.Data); ok && m.o.Match(s.lock) {
			m.adopt(s.lock, op.Data, p)
		}
	}
}

// adopt handles other data of a lock's node.
func (m *Machine) adopt(name string, data []byte, p znode.Parent) {
	q := m.queue(name)
	fresh := q.data == 0 || p.Adopted && !q.adopted
	q.setParent(data, p)
	if fresh {
		e := m.event(Adopted, name)
		e.Of, e.By = string(p.Kind), m.by()
		m.emit(e)
	}
	m.touch(q)
}

func (m *Machine) delete(path string) {
	s := m.spot(path)
	q := m.locks[s.lock]
	switch {
	case q == nil:
	case s.what == otherNode:
		if q.data != 0 && q.sure() && len(q.entries) > 0 { // servers delete no node with others below it
			m.restored(q)
		}
		if q.data != 0 {
			e := m.event(Deleted, s.lock)
			e.Of, e.By = string(q.rules.Kind), m.by()
			m.tell(q, e)
		}
		delete(m.locks, s.lock)
	case s.what == entryNode:
		if i := q.find(s.node); i >= 0 {
			m.end(q, i, false)
		} else if q.data != 0 && q.sure() {
			m.restored(q)
		}
	}
}

// closed handles a session that has ended, and its nodes.
func (m *Machine) closed(op *txnlog.Op) {
	for _, path := range m.ending(m.txn.Session, op) {
		s := m.spot(path)
		if q := m.locks[s.lock]; q != nil && s.what == entryNode {
			if i := q.find(s.node); i >= 0 {
				m.end(q, i, true)
			}
		}
	}
	delete(m.sessions, m.txn.Session)
}

// ending returns the paths of the nodes that end with a session, in its last transaction. Some releases of
// the server do not log them.
func (m *Machine) ending(session int64, op *txnlog.Op) []string {
	paths := op.Ended
	if paths != nil || !m.mortal {
		return paths
	}
	for _, q := range m.locks {
		if q.ephemeral == 0 {
			continue
		}
		for _, c := range q.entries {
			if c.owner == session {
				paths = append(paths, m.o.Root+"/"+q.name+"/"+c.Node)
			}
		}
	}
	return paths
}

// end emits the end of entry i, and removes the entry. closed: its session has ended.
func (m *Machine) end(q *queue, i int, closed bool) {
	m.emitEnd(q, q.entries[i], closed)
	q.remove(i)
	m.touch(q)
	m.forget(q)
}

// forget drops a lock that has no entries and whose node the log has not shown.
func (m *Machine) forget(q *queue) {
	if len(q.entries) == 0 && q.data == 0 && !q.disputed {
		delete(m.locks, q.name)
	}
}
