package history

import "github.com/holdfast-io/holdfast/lock/history/txnlog"

// Reasons of Removed.
const (
	byUnknown = "by a session that wrote no entry: by hand, unless it is a new session of the entry's client"
	byEither  = "by a session that wrote no entry: its client's next one, or by hand"
	byAnother = "by another client, during the lease"
	byLate    = "after its lease, by a session that wrote no entry: its client's next one, or another client's"
	byOwner   = "by its client; the log does not show whether it held the lock or waited"
)

// left makes e the end of an entry that its own client has deleted.
func (e *Event) left() {
	switch e.Kind, e.Reason, e.By, e.Early = Withdrawn, "", (Client{}), false; {
	case e.In:
		e.Kind = Released
	case e.unsure:
		e.Kind, e.Reason = Ended, byOwner
	}
}

// emitEnd emits the event for an entry that was deleted. ended: the entry's session has ended.
func (m *Machine) emitEnd(q *queue, c *contender, ended bool) {
	m.lapse(q, c)
	e := m.about(Removed, q, c)
	e.Late = c.lapsed
	s := m.sessions[m.txn.Session]
	unknown := s == nil || !s.client.Known()
	// Other clients delete an entry only after its lease: in doubt it had ended.
	e.over = c.lapsed || c.Leased() && m.clock.most(c.written, m.clock.point) > c.TTL()
	own := m.txn.Session == c.session || !unknown && s.client == c.client()
	switch {
	case ended:
		e.Kind = SessionEnded
	case own:
		e.left()
		e.Again = m.does(txnlog.OpCreate, entryNode, q.name)
	case e.over && s != nil && s.reaps:
		e.Kind, e.Early = Swept, m.early(q, c)
	case e.over && unknown:
		e.Kind, e.Reason, e.Early = Ended, byLate, m.early(q, c)
		m.nameless[m.txn.Session] = Client{}
	case e.over:
		e.Kind, e.Early = Purged, m.early(q, c)
	case c.breaker != 0 && m.txn.Session == c.breaker:
		e.Reason = "by the client that broke it, before the end of the lease"
		if c.Record.Detached {
			e.Reason = "by the client that broke it; no process had it"
		}
	case unknown && m.does(txnlog.OpDelete, anchorNode, q.name):
		// Only a client that leaves the lock also deletes the lock's anchor. A client deletes other
		// clients' entries only after their leases.
		e.left()
	case !e.By.Known():
		e.Reason = byUnknown
		if m.sessions[c.session] == nil { // its client's session has ended, or is not known
			e.Kind, e.Reason = Ended, byEither
		}
		m.nameless[m.txn.Session] = Client{}
	default:
		e.Reason = byAnother
	}
	m.tell(q, e)
}

// early reports whether an expired entry was certainly deleted before the grace was over.
func (m *Machine) early(q *queue, c *contender) bool {
	return m.clock.most(c.written, m.clock.point) < c.TTL()+m.o.Grace(q.name)
}
