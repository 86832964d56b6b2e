package history

import (
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// queue is a lock with its contenders.
type queue struct {
	name      string
	data      digest // of the data of the lock's node; 0: unknown
	rules     znode.Rules
	entries   []*contender // in the order of the queue
	ephemeral int32        // number of entries that end with their session
	unseen    int32        // number of entries whose data is not known
	created   int32        // number of children that it has ever had; 0: unknown
	made      *Event       // the event Made, until it is emitted; nil: none

	adopted  bool
	touched  bool                        // it is in Machine.touched
	partial  bool                        // it may have entries that the files have not shown
	disputed bool                        // a disputed transaction would have changed it
	blurred  bool                        // it was not sure before the present transaction
	vague    struct{ node, anchor bool } // whose data is not known: that of the snapshot is missing, or of later
}

func (q *queue) setParent(data []byte, p znode.Parent) {
	q.data, q.adopted, q.rules.Kind = digestOf(data, nil), p.Adopted, p.Kind
}

// begins makes the lock one whose node is created now, without entries.
func (q *queue) begins() {
	q.partial, q.disputed, q.blurred = false, false, false
	q.vague.node, q.vague.anchor, q.created = false, false, 0
}

func (q *queue) find(node string) int {
	return slices.IndexFunc(q.entries, func(c *contender) bool { return c.Node == node })
}

// add adds a contender at its place. It replaces a contender of the same name: a snapshot may show a
// node that a later transaction of the log creates.
func (q *queue) add(e *contender) {
	if i := q.find(e.Node); i >= 0 {
		q.remove(i)
	}
	i := len(q.entries)
	for i > 0 && znode.CompareAt(q.entries[i-1].Name, q.entries[i-1].czxid, e.Name, e.czxid) > 0 {
		i--
	}
	q.entries = slices.Insert(q.entries, i, e)
	if e.owner != 0 {
		q.ephemeral++
	}
	if e.unseen {
		q.unseen++
	}
}

func (q *queue) remove(i int) {
	if q.entries[i].unseen {
		q.unseen--
	}
	if q.entries[i].owner != 0 {
		q.ephemeral--
	}
	q.entries = slices.Delete(q.entries, i, i+1)
}

// tell emits an event of a lock. If the lock's event Made has not been emitted yet, tell emits Made
// first.
func (m *Machine) tell(q *queue, e Event) {
	m.tellMade(q)
	m.emit(e)
}

func (m *Machine) tellMade(q *queue) {
	if e := q.made; e != nil {
		q.made, e.By = nil, m.by()
		m.emit(*e)
	}
}

// capacity takes a semaphore's number of permits from its anchor, and emits Permits if the number
// has changed.
func (m *Machine) capacity(q *queue, to int32) {
	from := q.rules.Capacity
	q.rules.Capacity = to
	m.touch(q)
	if q.made != nil {
		q.made.To = to
		return
	}
	if from != to && from != 0 {
		e := m.event(Permits, q.name)
		e.From, e.To, e.By = from, to, m.by()
		m.tell(q, e)
	}
}

// admit emits Granted for the contenders whose turn has come. First it emits Made if Made was not
// emitted yet, and Vanished for the entries that giveUp removes. If the lock is not sure, only a
// recorded grant shows a turn. Then, and if it was not sure before, it is not known when the turn came.
func (m *Machine) admit(q *queue, at time.Time) {
	m.tellMade(q)
	m.giveUp(q)
	quiet := m.txn == nil || q.blurred || !q.sure()
	m.names = m.names[:0]
	for _, c := range q.entries {
		m.names = append(m.names, c.Name)
	}
	for i, c := range q.entries {
		sure := q.sure()
		if !c.in && sure && !q.turn(m.names, i) {
			break
		}
		enters := m.enters(c)
		if quiet && sure && !c.in && !enters {
			c.vague = c.Leased() && !c.candidate() && !c.Overflowed()
		}
		if !c.in && enters && (sure || c.Granted()) {
			c.in, c.granted = true, m.clock.zxid
			if quiet {
				if m.txn != nil {
					m.record(q, c)
				}
				continue
			}
			c.since = stampOf(at)
			e := m.about(Granted, q, c)
			if e.By = (Client{}); e.Session != c.session {
				e.Session = 0 // the transaction is not of this entry's client
			}
			m.emit(e)
			m.record(q, c)
		}
	}
	q.blurred = !q.sure()
}

// giveUp lets the entries vanish that were not seen since a gap and whose leases and grace have ended.
func (m *Machine) giveUp(q *queue) {
	for i := len(q.entries) - 1; i >= 0; i-- {
		c := q.entries[i]
		if !c.doubted || !c.Leased() || m.clock.between(c.written, m.clock.point) <= c.TTL()+m.o.Grace(q.name) {
			continue
		}
		m.vanish(q, i)
	}
}

// vanish removes an entry that the log has not shown since a gap. It emits Vanished, except before the
// first transaction.
func (m *Machine) vanish(q *queue, i int) {
	if m.txn != nil {
		e := m.about(Vanished, q, q.entries[i])
		e.Session, e.By = 0, Client{}
		m.tell(q, e)
	}
	q.remove(i)
}

// turn reports whether nothing excludes the contender i any more. names are those of the entries.
func (q *queue) turn(names []znode.Name, i int) bool {
	ahead := znode.WaitsFor(names, i, q.rules)
	return ahead < 0 || q.rules.Kind == znode.RW && names[i].Role == znode.Shared && q.entries[ahead].Shares()
}

// enters reports whether the client of an entry whose turn has come may enter, or has.
func (m *Machine) enters(c *contender) bool {
	switch {
	case c.Overflowed() || c.unseen:
		return false
	case !c.Leased():
		return !c.Ours() // a damaged Holdfast entry is never granted
	case c.Granted(): // it has
		return true
	case c.candidate():
		return false
	}
	return m.clock.between(c.written, m.clock.point) <= c.TTL()
}
