package history

import (
	"strings"

	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// begin adds a node that existed after the transaction zxid.
func (m *Machine) begin(zxid int64, n *txnlog.Node) {
	later := n.Lost || n.Mzxid > zxid // its data is not known, see [txnlog.Exact]
	if m.o.Jobs != "" {
		if job, ok := strings.CutPrefix(n.Path, m.o.Jobs+"/"); ok {
			if m.matchesJob(job) {
				m.jobs[job] = append([]byte(nil), n.Data...)
			}
			return
		}
	}
	name, ok := m.name(n.Path)
	if !ok {
		return
	}
	lock, node := split(name)
	if entry, ok := znode.Parse(node); ok && lock != znode.Inbox {
		if m.o.Match(lock) {
			m.found(lock, entry, n, later)
		}
		return
	}
	if isAnchor(node) {
		if a, err := znode.DecodeAnchor(n.Data); m.o.Match(lock) && (err == nil || later) {
			q := m.queue(lock)
			q.rules.Capacity, q.vague.anchor = a.Capacity(), later
		}
		return
	}
	if p, err := znode.DecodeParent(n.Data); err == nil && m.o.Match(name) && p.Kind.IsLock() {
		q := m.queue(name)
		q.setParent(n.Data, p)
		q.vague.node = later
	}
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
	name, ok := m.name(op.Path)
	if !ok {
		m.elsewhere(op)
		return
	}
	lock, node := split(name)
	if lock == znode.Inbox {
		m.revoke(node, op)
		return
	}
	if entry, ok := znode.Parse(node); ok {
		m.join(lock, entry, op)
		return
	}
	if isAnchor(node) {
		if !m.o.Match(lock) {
			if len(m.unasked) < fewNames {
				m.unasked[lock] = true
			}
		} else if a, err := znode.DecodeAnchor(op.Data); err == nil {
			m.capacity(m.queue(lock), a.Capacity())
		}
		return
	}
	if !m.o.Match(name) {
		return
	}
	if p, err := znode.DecodeParent(op.Data); err == nil && p.Kind.IsLock() {
		q := m.queue(name)
		if q.data != 0 && q.sure() {
			m.restored(q)
		}
		for i := len(q.entries) - 1; i >= 0; i-- { // a new node has none
			m.vanish(q, i)
		}
		q.begins()
		q.setParent(op.Data, p)
		e := m.event(Made, name)
		e.Of = string(p.Kind)
		q.made = &e // emitted later, when the transaction has shown its permits and client
		m.touch(q)
	}
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
	name, ok := m.name(op.Path)
	if !ok {
		return
	}
	q := m.locks[name]
	if q != nil {
		q.vague.node = false
	}
	if q != nil && q.data == digestOf(op.Data, nil) {
		return // a join writes the same data again, to get the Stat in the reply
	}
	lock, node := split(name)
	if lock == znode.Inbox {
		m.revoke(node, op)
		return
	}
	if entry, ok := znode.Parse(node); ok {
		m.write(lock, entry, op)
		return
	}
	if isAnchor(node) {
		if a, err := znode.DecodeAnchor(op.Data); err == nil && m.o.Match(lock) {
			q = m.queue(lock)
			q.vague.anchor = false
			m.capacity(q, a.Capacity())
		}
		return
	}
	if !m.o.Match(name) {
		return
	}
	p, err := znode.DecodeParent(op.Data)
	if err != nil || !p.Kind.IsLock() {
		return
	}
	q = m.queue(name)
	fresh := q.data == 0 || p.Adopted && !q.adopted
	q.setParent(op.Data, p)
	if fresh {
		e := m.event(Adopted, name)
		e.Of, e.By = string(p.Kind), m.by()
		m.emit(e)
	}
	m.touch(q)
}

func (m *Machine) delete(path string) {
	name, ok := m.name(path)
	if !ok {
		return
	}
	if q := m.locks[name]; q != nil {
		if q.data != 0 && q.sure() && len(q.entries) > 0 { // servers delete no node with others below it
			m.restored(q)
		}
		if q.data != 0 {
			e := m.event(Deleted, name)
			e.Of, e.By = string(q.rules.Kind), m.by()
			m.tell(q, e)
		}
		delete(m.locks, name)
		return
	}
	lock, node := split(name)
	q := m.locks[lock]
	if q == nil {
		return
	}
	if i := q.find(node); i >= 0 {
		m.end(q, i, false)
	} else if _, ok := znode.Parse(node); ok && q.data != 0 && q.sure() {
		m.restored(q)
	}
}

// closed handles a session that has ended, and its nodes.
func (m *Machine) closed(op *txnlog.Op) {
	for _, path := range m.ending(m.txn.Session, op) {
		name, _ := m.name(path)
		lock, node := split(name)
		if q := m.locks[lock]; q != nil {
			if i := q.find(node); i >= 0 {
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
