package history

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// queue is a lock with its contenders.
type queue struct {
	name      string
	raw       []byte // data of its node; nil: unknown
	adopted   bool
	rules     znode.Rules
	entries   []*contender // sorted
	names     []znode.Name // theirs
	ephemeral int          // contenders that end with their session
	made      Event        // not told yet, if it has a kind
	touched   bool
}

// contender is an entry.
type contender struct {
	znode.Entry
	client   Client
	written  point // the last write by its owner, from which the lease counts
	stamp    time.Time
	session  int64 // that wrote it last as its owner
	in       bool
	granted  point     // if in: when nothing excluded it any more
	since    time.Time // its stamp; zero: before the log begins
	recorded bool
	risk     bool  // AtRisk was told, for this lease
	lapsed   bool  // Expired was told, for this lease
	breaker  int64 // the session that broke it
	doubted  bool  // not seen since a gap in the log

	raw     []byte // data of the last write by its owner, if it is Leased
	expires [2]int // where the number of its expires_at begins and ends; 0: nowhere
}

func (q *queue) setParent(data []byte, p znode.Parent) {
	q.raw, q.adopted, q.rules.Kind = append(q.raw[:0], data...), p.Adopted, p.Kind
}

func (q *queue) find(node string) int {
	return slices.IndexFunc(q.names, func(n znode.Name) bool { return n.Node == node })
}

// add adds a contender at its place. One of the same name is replaced: a snapshot may show a node
// of a later transaction.
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
}

func (q *queue) remove(i int) {
	if q.entries[i].Stat.EphemeralOwner != 0 {
		q.ephemeral--
	}
	q.entries, q.names = slices.Delete(q.entries, i, i+1), slices.Delete(q.names, i, i+1)
}

// candidate reports whether the entry stands for election: it leads only once its grant is
// recorded.
func (e *contender) candidate() bool {
	_, ok := e.Record.Metadata[znode.ValueKey]
	return ok && e.Err == nil
}

// role returns what the entry asks for.
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

// ends returns the end of the entry's lease by the clock of the leader that stamped it; zero if it
// has none.
func (e *contender) ends() time.Time {
	if !e.Leased() {
		return time.Time{}
	}
	return e.stamp.Add(e.TTL())
}

// tell emits an event of a lock, after the one that its node was made.
func (m *Machine) tell(q *queue, e Event) {
	m.tellMade(q)
	m.emit(e)
}

func (m *Machine) tellMade(q *queue) {
	if e := q.made; e.Kind != "" {
		q.made, e.By = Event{}, m.by()
		m.emit(e)
	}
}

// about returns an event of the present transaction about an entry.
func (m *Machine) about(kind Kind, q *queue, c *contender) Event {
	e := m.event(kind, q.name)
	e.Entry, e.Who, e.In, e.Lease = c.Node, c.client, c.in, c.ends()
	if c.Leased() {
		e.TTL = c.TTL()
	}
	if by := m.by(); by != c.client {
		e.By = by
	}
	return e
}

// derived returns an event that follows from the last write of an entry, that much later.
func (m *Machine) derived(kind Kind, q *queue, c *contender, later time.Duration) Event {
	return Event{Kind: kind, Zxid: c.written.zxid, Time: c.stamp.Add(later), Session: c.session, Lock: q.name, Entry: c.Node,
		Who: c.client, In: c.in, Lease: c.ends(), TTL: c.TTL(), mono: c.written.mono + later}
}

func clientOf(r *znode.Record) Client { return Client{r.Owner, r.Host, r.PID} }

// join is an entry that was created.
func (m *Machine) join(lock string, name znode.Name, op *txnlog.Op) {
	t := m.txn
	stat := znode.Stat{Czxid: t.Zxid, Mzxid: t.Zxid, Ctime: t.Time.UnixMilli(), Mtime: t.Time.UnixMilli()}
	if op.Ephemeral {
		stat.EphemeralOwner = t.Session
	}
	matches := m.o.Match(lock)
	if !matches && m.by().Known() && lock != m.o.Reaper || m.scratch(lock) {
		return
	}
	e := &contender{Entry: znode.ReadEntry(name, op.Data, stat), written: m.clock.point, stamp: t.Time, session: t.Session}
	if e.Leased() {
		e.client = clientOf(&e.Record)
		m.estimated(lock, e)
	}
	if !matches {
		return
	}
	if e.Leased() {
		e.keep(op.Data)
	}
	q := m.queue(lock)
	q.add(e)
	joined := m.about(Joined, q, e)
	joined.Role = e.role(q.rules.Kind)
	m.tell(q, joined)
	m.touch(q)
}

// scratch reports whether the transaction creates and deletes the lock's node: clients sample the
// leader's clock, and test servers, by such writes.
func (m *Machine) scratch(lock string) bool {
	var made, deleted bool
	for _, op := range m.txn.Ops {
		if name, ok := m.name(op.Path); ok && name == lock {
			made, deleted = made || op.Kind == txnlog.OpCreate, deleted || op.Kind == txnlog.OpDelete
		}
	}
	return made && deleted
}

// estimated notes whose session wrote the entry, and learns of the leader's clock from the
// estimate in its record.
func (m *Machine) estimated(lock string, e *contender) {
	s := m.knows(lock, e.client)
	if s.knew == 0 || e.Record.ExpiresAt == 0 {
		return
	}
	if step, ok := m.clock.learn(s.knew, time.UnixMilli(e.Record.ExpiresAt-e.Record.TTL)); ok {
		m.emit(step)
	}
}

// write is an entry that was written.
func (m *Machine) write(lock string, name znode.Name, op *txnlog.Op) {
	t := m.txn
	q, matches := m.locks[lock], m.o.Match(lock)
	i := -1
	if q != nil {
		i = q.find(name.Node)
	}
	if i < 0 {
		if !matches && m.by().Known() && lock != m.o.Reaper {
			return
		}
		r, err := znode.DecodeRecord(op.Data)
		if err != nil || !name.Ours() {
			return
		}
		if !matches {
			if r.Broken == nil { // whose session it is is of use for other locks
				m.knows(lock, clientOf(&r))
			}
			return
		}
		// Created before the log begins, or in a gap.
		m.found(lock, name, &txnlog.Node{Data: op.Data, Mtime: t.Time, Version: op.Version}).written = m.clock.point
		q = m.locks[lock]
		i = q.find(name.Node)
		q.entries[i].written.zxid--
	}
	c := q.entries[i]
	c.doubted = false
	before := c.Entry
	stat := c.Stat
	stat.Mzxid, stat.Mtime, stat.Version = t.Zxid, t.Time.UnixMilli(), op.Version
	after, ok := c.renewal(op.Data, stat)
	if !ok {
		after = znode.ReadEntry(name, op.Data, stat)
	}
	if !c.in || after.Record.Shared {
		m.touch(q)
	}
	if !after.Leased() {
		c.Entry, c.raw = after, nil
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
		c.raw = nil
		again := before.Record.Broken != nil
		c.Entry, c.breaker = after, t.Session
		m.knows("", Client{b.Owner, b.Host, b.PID})
		if !again { // a break writes twice
			e := m.about(Broken, q, c)
			e.By, e.Reason = Client{b.Owner, b.Host, b.PID}, b.Reason
			m.tell(q, e)
		}
		return
	}
	m.renew(q, c, after, op.Data, ok)
}

// expiresKey comes before the number in a record that changes with each renewal.
var expiresKey = []byte(`"expires_at":`)

// keep keeps a record, to recognize the next renewal without decoding it.
func (c *contender) keep(data []byte) {
	c.raw, c.expires = append(c.raw[:0], data...), [2]int{}
	if i := bytes.Index(data, expiresKey); i >= 0 {
		begin := i + len(expiresKey)
		c.expires = [2]int{begin, begin + digits(data[begin:])}
	}
}

// digits returns the number of digits at the beginning.
func digits(b []byte) (n int) {
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return n
}

// renewal returns the entry after a write whose data is that of the last one, but for expires_at.
// It is not needed, but most writes are renewals, and decoding them takes most of the time.
func (c *contender) renewal(data []byte, stat znode.Stat) (znode.Entry, bool) {
	begin, end := c.expires[0], c.expires[1]
	if len(c.raw) == 0 || begin == end || len(data) <= begin || !bytes.Equal(data[:begin], c.raw[:begin]) {
		return znode.Entry{}, false
	}
	n := digits(data[begin:])
	if n == 0 || n > 15 || !bytes.Equal(data[begin+n:], c.raw[end:]) {
		return znode.Entry{}, false
	}
	e := c.Entry
	e.Stat, e.Record.ExpiresAt = stat, 0
	for _, d := range data[begin : begin+n] {
		e.Record.ExpiresAt = e.Record.ExpiresAt*10 + int64(d-'0')
	}
	return e, true
}

// renew is an entry that its owner wrote. With plain, only expires_at has changed.
func (m *Machine) renew(q *queue, c *contender, after znode.Entry, data []byte, plain bool) {
	t := m.txn
	before := c.Entry
	m.estimated(q.name, &contender{Entry: after, client: clientOf(&after.Record)})
	m.lapse(q, c)
	late, again := c.lapsed, c.written.zxid == t.Zxid
	c.Entry, c.client, c.session = after, clientOf(&after.Record), t.Session
	c.written, c.stamp, c.risk, c.lapsed = m.clock.point, t.Time, false, false
	if !plain {
		c.keep(data)
	}
	if again {
		return // an attach writes twice
	}
	kind := Renewed
	switch was, is := before.Record, after.Record; {
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
		e.By = clientOf(&before.Record) // from which it was taken
	}
	m.tell(q, e)
	m.record(q, c)
}

// lapse tells of an entry's lease as far as it has gone by without a write.
func (m *Machine) lapse(q *queue, c *contender) {
	if !c.Leased() {
		return
	}
	lasted, ttl := m.clock.between(c.written, m.clock.point), c.TTL()
	if c.in && !c.risk && lasted > ttl/2+ttl/20 { // a renewal that was due at a third can take a little
		c.risk = true
		m.tell(q, m.derived(AtRisk, q, c, ttl/2))
	}
	if !c.lapsed && lasted > ttl {
		c.lapsed = true
		m.tell(q, m.derived(Expired, q, c, ttl))
	}
}

// Reasons of Removed.
const (
	byUnknown = "by a session that wrote no entry: by hand, unless it is a new session of the entry's client"
	byAnother = "by another client, during the lease"
)

// left is an entry that was deleted, or whose session has ended.
func (m *Machine) left(q *queue, c *contender, ended bool) {
	m.lapse(q, c)
	e := m.about(Removed, q, c)
	e.Late = c.lapsed
	s := m.sessions[m.txn.Session]
	unknown := s == nil || !s.client.Known()
	own := m.txn.Session == c.session || !unknown && s.client == c.client || unknown && c.session == 0 // as far as a log that begins later can tell
	switch {
	case ended:
		e.Kind = SessionEnded
	case own && m.txn.Session != c.breaker:
		e.Kind, e.By = Withdrawn, Client{}
		if e.In {
			e.Kind = Released
		}
		e.Again = m.rejoins(q.name)
	case c.lapsed && s != nil && s.reaps:
		e.Kind, e.Early = Swept, m.early(q, c)
	case c.lapsed:
		e.Kind, e.Early = Purged, m.early(q, c)
	case c.breaker != 0 && m.txn.Session == c.breaker:
		e.Reason = "by the client that broke it, before the end of the lease"
		if c.Record.Detached {
			e.Reason = "by the client that broke it; no process had it"
		}
	case unknown && m.tidies(q.name):
		e.Kind = Withdrawn // only clients delete the lock's node in the same transaction, and of others' entries only expired ones
		if e.In {
			e.Kind = Released
		}
	case !e.By.Known():
		e.Reason = byUnknown
		m.nameless[m.txn.Session] = Client{}
	default:
		e.Reason = byAnother
	}
	m.tell(q, e)
}

// early reports whether an expired entry was deleted before the grace was over.
func (m *Machine) early(q *queue, c *contender) bool {
	return m.clock.between(c.written, m.clock.point) < c.TTL()+m.o.Grace(q.name)
}

// rejoins reports whether the transaction also creates an entry of the lock.
func (m *Machine) rejoins(lock string) bool {
	return slices.ContainsFunc(m.txn.Ops, func(op txnlog.Op) bool {
		name, ok := m.name(op.Path)
		above, node := split(name)
		_, entry := znode.Parse(node)
		return ok && op.Kind == txnlog.OpCreate && above == lock && entry
	})
}

// tidies reports whether the transaction also deletes the lock's anchor.
func (m *Machine) tidies(lock string) bool {
	return slices.ContainsFunc(m.txn.Ops, func(op txnlog.Op) bool {
		name, ok := m.name(op.Path)
		above, node := split(name)
		return ok && op.Kind == txnlog.OpDelete && above == lock && strings.HasPrefix(node, "anchor-")
	})
}

// capacity is the number of permits of an anchor.
func (m *Machine) capacity(q *queue, to int32) {
	from := q.rules.Capacity
	q.rules.Capacity = to
	m.touch(q)
	if q.made.Kind != "" {
		q.made.To = to
		return
	}
	if from != to && from != 0 {
		e := m.event(Permits, q.name)
		e.From, e.To, e.By = from, to, m.by()
		m.tell(q, e)
	}
}

// admit tells which contenders are in now.
func (m *Machine) admit(q *queue, stamp time.Time) {
	m.tellMade(q)
	m.giveUp(q)
	for i, c := range q.entries {
		if !c.in && !q.turn(i) {
			break
		}
		if !c.in && m.enters(c) {
			c.in, c.granted = true, m.clock.point
			if m.txn == nil {
				continue // it was in before the log begins, as far as is known
			}
			c.since = stamp
			e := m.about(Granted, q, c)
			if e.By = (Client{}); e.Session != c.session {
				e.Session = 0 // that of the one that left
			}
			m.emit(e)
			m.record(q, c)
		}
	}
}

// giveUp removes the entries that were not seen since a gap, once their leases are over.
func (m *Machine) giveUp(q *queue) {
	for i := len(q.entries) - 1; i >= 0; i-- {
		c := q.entries[i]
		if !c.doubted || !c.Leased() || m.clock.between(c.written, m.clock.point) <= c.TTL()+m.o.Grace(q.name) {
			continue
		}
		if m.txn != nil {
			e := m.about(Vanished, q, c)
			e.Session, e.By = 0, Client{}
			m.tell(q, e)
		}
		q.remove(i)
	}
}

// turn reports whether nothing excludes the contender of that index any more.
func (q *queue) turn(i int) bool {
	ahead := znode.WaitsFor(q.names, i, q.rules)
	return ahead < 0 || q.rules.Kind == znode.RW && q.names[i].Role == znode.Shared && q.entries[ahead].Shares()
}

// record tells once that the entry's record has the grant.
func (m *Machine) record(q *queue, c *contender) {
	if !c.in || c.recorded || !c.Granted() {
		return
	}
	c.recorded = true
	e := m.about(Recorded, q, c)
	e.At = time.UnixMilli(c.Record.AcquiredAt)
	m.tell(q, e)
}

// enters reports whether the client of an entry whose turn has come may enter.
func (m *Machine) enters(c *contender) bool {
	switch {
	case c.Overflowed():
		return false
	case !c.Leased():
		return !c.Ours() // damaged ones are only in the way
	case c.candidate() && !c.Granted():
		return false
	}
	return m.clock.between(c.written, m.clock.point) <= c.TTL()
}
