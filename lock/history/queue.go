package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// queue is a lock with its contenders.
type queue struct {
	name      string
	raw       []byte // data of the lock's node; nil: unknown
	adopted   bool
	rules     znode.Rules
	entries   []*contender // in the order of the queue
	names     []znode.Name // names of the entries, in the same order
	ephemeral int          // number of entries that end with their session
	made      *Event       // the event Made, until it is emitted; nil: none
	touched   bool         // it is in Machine.touched

	partial  bool                        // it may have entries that the files have not shown
	disputed bool                        // a disputed transaction would have changed it
	vague    struct{ node, anchor bool } // whose data is not known: that of the snapshot is missing, or of later
	unseen   int                         // number of entries whose data is not known
	blurred  bool                        // it was not sure before the present transaction
}

// contender is an entry.
type contender struct {
	znode.Entry
	client   Client
	written  point     // the last write by its owner, from which the lease counts
	stamp    time.Time // stamp of that write
	session  int64     // session of that write
	in       bool      // its turn has come
	granted  point     // if in: when its turn came
	since    time.Time // stamp of granted; zero: before the log began
	recorded bool      // its record has the grant
	risk     bool      // AtRisk was emitted, for this lease
	lapsed   bool      // Expired was emitted, for this lease
	breaker  int64     // the session that force-released it; 0: none
	doubted  bool      // not seen since a gap in the log
	fresh    bool      // created since the lock became partial
	unseen   bool      // its data is not known: the snapshot lacks it, or has that of a later write

	raw     []byte // data of the last write by its owner; empty: decode the next write
	expires [2]int // begin and end of the number of expires_at in raw; equal: there is none
}

func (q *queue) setParent(data []byte, p znode.Parent) {
	q.raw, q.adopted, q.rules.Kind = append(q.raw[:0], data...), p.Adopted, p.Kind
}

// begins makes the lock one whose node is created now, without entries.
func (q *queue) begins() {
	q.partial, q.disputed, q.blurred = false, false, false
	q.vague.node, q.vague.anchor = false, false
}

func (q *queue) find(node string) int {
	return slices.IndexFunc(q.names, func(n znode.Name) bool { return n.Node == node })
}

// add adds a contender at its place. It replaces a contender of the same name: a snapshot may show a
// node that a later transaction of the log creates.
func (q *queue) add(e *contender) {
	if i := q.find(e.Node); i >= 0 {
		q.remove(i)
	}
	i := len(q.entries)
	for i > 0 && znode.CompareAt(q.names[i-1], q.entries[i-1].Stat.Czxid, e.Name, e.Stat.Czxid) > 0 {
		i--
	}
	q.entries, q.names = slices.Insert(q.entries, i, e), slices.Insert(q.names, i, e.Name)
	if e.Stat.EphemeralOwner != 0 {
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
	if q.entries[i].Stat.EphemeralOwner != 0 {
		q.ephemeral--
	}
	q.entries, q.names = slices.Delete(q.entries, i, i+1), slices.Delete(q.names, i, i+1)
}

// candidate reports whether the entry is of a candidate in an election. A candidate leads only once
// its grant is recorded.
func (e *contender) candidate() bool {
	_, ok := e.Record.Metadata[znode.ValueKey]
	return ok && e.Err == nil
}

// role returns Event.Role of the entry.
func (e *contender) role(k znode.Kind) string {
	switch {
	case e.Role == znode.Shared:
		return "reads"
	case e.Role == znode.Writer:
		return "writes"
	case e.candidate():
		return fmt.Sprintf("priority %d", e.Priority())
	case k == znode.Semaphore && e.Permits > 1:
		return fmt.Sprintf("%d permits", e.Permits)
	case k == znode.Semaphore:
		return "1 permit"
	}
	return ""
}

// ends returns the end of the entry's lease, by the clock of the leader that stamped its last write;
// zero if the entry has no lease.
func (e *contender) ends() time.Time {
	if !e.Leased() {
		return time.Time{}
	}
	return e.stamp.Add(e.TTL())
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
func (m *Machine) admit(q *queue, stamp time.Time) {
	m.tellMade(q)
	m.giveUp(q)
	quiet := m.txn == nil || q.blurred || !q.sure()
	for i, c := range q.entries {
		sure := q.sure()
		if !c.in && sure && !q.turn(i) {
			break
		}
		if !c.in && m.enters(c) && (sure || c.Granted()) {
			c.in, c.granted = true, m.clock.point
			if quiet {
				if m.txn != nil {
					m.record(q, c)
				}
				continue
			}
			c.since = stamp
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

// turn reports whether nothing excludes the contender i any more.
func (q *queue) turn(i int) bool {
	ahead := znode.WaitsFor(q.names, i, q.rules)
	return ahead < 0 || q.rules.Kind == znode.RW && q.names[i].Role == znode.Shared && q.entries[ahead].Shares()
}

// enters reports whether the client of an entry whose turn has come may enter.
func (m *Machine) enters(c *contender) bool {
	switch {
	case c.Overflowed() || c.unseen:
		return false
	case !c.Leased():
		return !c.Ours() // a damaged Holdfast entry is never granted
	case c.candidate() && !c.Granted():
		return false
	}
	return m.clock.between(c.written, m.clock.point) <= c.TTL()
}
