package history

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Asked is a moment to report: a time by the leader's clock, or right after a transaction.
type Asked struct {
	Time time.Time
	Zxid int64 // the transaction, if Time is zero
}

// Moment is the state of the matching locks at a moment. If the leader's clock was stepped back, it
// showed some times twice. Then there are several Moments of one Asked.
type Moment struct {
	Asked Asked
	Index int       // index of Asked in Options.At
	Zxid  int64     // the last transaction until the moment; 0: none
	Time  time.Time // stamp of that transaction
	Where Where
	Locks []State // the locks that have contenders, sorted by name
	Blind bool    // there may have been other locks, which the files have not shown
}

// Where is the place of a moment in the log.
type Where string

// The places of moments.
const (
	Within Where = "within"
	Before Where = "before" // the log, or the snapshot that it begins with, is later: the state is not known
	After  Where = "after"  // the log ends earlier: the state is that of its end
	// Skipped: no transaction shows that a leader's clock showed that time: the leader changed, or stood
	// still, or its clock was stepped over it.
	Skipped Where = "skipped"
)

// State is a lock at a moment.
type State struct {
	Lock    string
	Kind    znode.Kind
	Permits int32
	Holders []Holder // contenders whose turn had come; their leases had not ended, but see Holder.Doubt
	Lapsed  []Holder // contenders whose turn had come; their leases had ended, but they blocked the lock
	Waiters []Holder
	// Unknown: not all entries of the lock were known at the moment. Then Holders and Lapsed have only
	// those whose records show the grant, and Unclear has the others: each may have held or waited.
	Unknown bool
	Unclear []Holder
}

// Holder is a contender at a moment.
type Holder struct {
	Entry    string
	Client   Client
	Role     string
	Since    time.Time // when its turn came; zero: it waits, or the files do not show when
	Granted  int64     // transaction at Since; 0 if Since is zero
	Recorded time.Time // time of the grant, as the client recorded it; zero: not recorded before the moment
	Written  time.Time // stamp of its last write
	Write    int64     // transaction of its last write
	Lease    time.Time // end of the lease; zero: none, because the entry is another library's
	// Left is what was left of the lease, at most. It may have been less, by up to Doubt, where the log
	// does not show whether the leader stood still or its clock was stepped ahead. If Doubt is greater
	// than Left, it is not known whether the lease had ended.
	Left     time.Duration
	Doubt    time.Duration
	Broken   string // which client force-released it, and why; "": none
	Detached bool

	ttl time.Duration // length of the lease; 0: none
	at  point         // point of its last write
}

// moments has the moments to report, and the results so far.
type moments struct {
	asked []Asked
	found []found
	last  int64    // the last disputed transaction
	gap   *[]State // the locks where transactions are missing before the next one; nil: none are
}

// found is a moment, and its place between two transactions.
type found struct {
	Moment
	last  point         // the transaction before the moment
	next  int64         // the transaction after it
	rose  time.Duration // time from the stamp before to the stamp after
	after time.Duration // time from the stamp before to the moment, at least
	doubt time.Duration // how much longer it may have been
}

// A moment within afterLast of a leader's last stamp still belongs to that leader. The same holds
// for the last stamp before a clock was stepped back.
const afterLast = time.Minute

// before adds the moments between the last transaction and the next one, t.
func (c *moments) before(m *Machine, t *txnlog.Txn) {
	prev, last := m.clock.stamp, m.Zxid()
	for i, a := range c.asked {
		byZxid := a.Time.IsZero()
		switch {
		case prev.IsZero():
			if byZxid && a.Zxid >= t.Zxid || !byZxid && !a.Time.Before(t.Time) {
				continue
			}
			where := Before
			if byZxid && m.begun > 0 && a.Zxid >= m.begun {
				where = Within // the snapshot shows it; it has no stamp
			}
			c.add(m, i, where, t)
		case t.Disputed && !byZxid:
		case byZxid && a.Zxid >= last && a.Zxid < t.Zxid, !byZxid && !a.Time.Before(prev) && a.Time.Before(t.Time):
			c.add(m, i, Within, t)
		case byZxid || a.Time.Before(prev) || !t.Time.Before(prev):
		// The stamps fall here, so the old clock may have shown a time right after its last stamp.
		case a.Time.Equal(prev):
			c.add(m, i, Within, t)
		case a.Time.Sub(prev) <= afterLast:
			c.add(m, i, Skipped, t)
		}
	}
}

// add adds the present state as that of moment i. next is the transaction after the moment; nil:
// none.
func (c *moments) add(m *Machine, i int, where Where, next *txnlog.Txn) {
	f := found{Moment: Moment{Asked: c.asked[i], Index: i, Where: where, Blind: m.blind || where == Before}, last: m.clock.point, next: m.clock.zxid}
	if where == Within && m.clock.stamp.IsZero() {
		f.Zxid = m.begun
	} else if stamp := m.clock.stamp; !stamp.IsZero() {
		f.Zxid, f.Moment.Time = m.clock.zxid, stamp
		if !f.Asked.Time.IsZero() {
			f.after = max(0, f.Asked.Time.Sub(stamp))
		}
		f.rose = f.after
		if next != nil {
			if f.next = next.Zxid; next.Time.After(stamp) {
				f.rose = next.Time.Sub(stamp)
			}
			if c.gap != nil || c.last > m.clock.zxid { // when in that time is not known
				f.doubt = f.rose - f.after
			}
		}
	}
	switch asked := c.asked[i]; {
	case where == Before:
	case c.gap != nil && (!asked.Time.IsZero() || asked.Zxid < m.begun): // a snapshot from after the gap shows a later state
		f.Blind = true
		for _, s := range *c.gap {
			s.Unclear = slices.Clone(s.Unclear)
			f.Locks = append(f.Locks, s)
		}
	default:
		f.Locks = m.states()
	}
	c.found = append(c.found, f)
}

// states returns the states of the locks that have contenders, or may have, sorted by name.
func (m *Machine) states() (all []State) {
	for name, q := range m.locks {
		if (len(q.entries) > 0 || !q.sure()) && m.o.Match(name) {
			all = append(all, q.state())
		}
	}
	slices.SortFunc(all, func(a, b State) int { return strings.Compare(a.Lock, b.Lock) })
	return all
}

// end adds the moments after the last transaction, and judges the leases at all moments, because
// now all steps of the clock are known.
func (c *moments) end(m *Machine) {
	for i := range c.found {
		c.found[i].skip(&m.clock)
	}
	for i, a := range c.asked {
		seen, skipped := false, true
		for _, f := range c.found {
			seen, skipped = seen || f.Index == i, skipped && (f.Index != i || f.Where == Skipped)
		}
		// A time that the clock skipped earlier may also be right after the end of the log.
		late := a.Time.Sub(m.clock.stamp)
		switch {
		case seen && (!skipped || a.Time.IsZero() || late < 0 || late > afterLast):
		case m.first.IsZero():
			c.add(m, i, Before, nil)
		case a.Time.IsZero() && a.Zxid == m.Zxid(), !a.Time.IsZero() && late == 0:
			c.add(m, i, Within, nil)
		default:
			c.add(m, i, After, nil)
		}
	}
	for i := range c.found {
		f := &c.found[i]
		for j := range f.Locks {
			f.Locks[j].judge(&m.clock, f)
		}
	}
	shown := make([]bool, len(c.asked))
	for _, f := range c.found {
		shown[f.Index] = shown[f.Index] || f.Where != Skipped
	}
	c.found = slices.DeleteFunc(c.found, func(f found) bool { return f.Where == Skipped && shown[f.Index] })
	slices.SortStableFunc(c.found, func(a, b found) int { return a.Index - b.Index })
}

// skip marks the moment as Skipped if the clock was stepped over it, or the leader stood still.
func (f *found) skip(c *clock) {
	passed := f.rose - max(0, c.stepped(f.last.zxid, f.next))
	if f.after > passed {
		f.doubt = f.after - max(0, passed)
		f.after, f.Where = max(0, passed), Skipped
	}
}

// judge computes what is left of each lease at f. It moves holders whose leases have certainly ended to
// Lapsed.
func (s *State) judge(c *clock, f *found) {
	for i := range s.Waiters {
		s.Waiters[i].judge(c, f)
	}
	for i := range s.Unclear {
		s.Unclear[i].judge(c, f)
	}
	all := s.Holders
	s.Holders = nil
	for _, h := range all {
		if h.judge(c, f); h.Left < 0 {
			s.Lapsed = append(s.Lapsed, h)
		} else {
			s.Holders = append(s.Holders, h)
		}
	}
}

func (h *Holder) judge(c *clock, f *found) {
	if h.ttl > 0 {
		h.Left, h.Doubt = h.ttl-c.between(h.at, f.last)-f.after, c.doubt(h.at, f.last)+f.doubt
	}
}

// Moments returns the results for Options.At, in its order. Call it after [Machine.End].
func (m *Machine) Moments() (all []Moment) {
	for _, f := range m.moments.found {
		all = append(all, f.Moment)
	}
	return all
}

// Now returns the state at the end of the log. Call it after [Machine.End].
func (m *Machine) Now() Moment {
	c := moments{asked: []Asked{{Zxid: m.Zxid()}}}
	c.end(m)
	return c.found[0].Moment
}

// state returns the lock's present state. All contenders whose turn has come are in Holders; judge
// moves some of them to Lapsed.
func (q *queue) state() State {
	s := State{Lock: q.name, Kind: q.rules.Kind, Permits: q.rules.Capacity, Unknown: !q.sure()}
	for _, c := range q.entries {
		h := Holder{Entry: c.Node, Client: c.client(), Role: c.role(q.rules.Kind), Written: c.stamp.time(), Write: c.written.zxid,
			Lease: c.ends(), Detached: c.Record.Detached, at: c.written}
		if c.Leased() {
			h.ttl = c.TTL()
		}
		if c.Record.Broken != nil {
			h.Broken = c.Record.Broken.String()
		}
		if c.Granted() {
			h.Recorded = time.UnixMilli(c.acquired)
		}
		if s.Unknown && (!c.in || c.doubted) {
			s.Unclear = append(s.Unclear, h)
			continue
		}
		if !c.in && !c.vague {
			s.Waiters = append(s.Waiters, h)
			continue
		}
		if h.Since = c.since.time(); c.since != 0 {
			h.Granted = c.granted
		}
		s.Holders = append(s.Holders, h)
	}
	return s
}
