package audit

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Audit judges the transactions of a log, one after the other. Make one with [New]. It is not safe
// for concurrent use.
type Audit struct {
	tree
	opts    Options
	report  Report
	settled int64     // the last transaction that the initial nodes may show: judge only later ones
	since   time.Time // judge only from the first transaction of that time on
	judges  bool

	txn  *txnlog.Txn   // the present one
	real time.Duration // time of txn by Options.Clock
	now  time.Duration // time of txn by a clock that rises at least as much as any judge's
	gaps int           // number of times at which now may have risen by less than a judge's clock

	steady  time.Duration // like now, but rises by at most 5 s at a time: the servers may have been down
	led     time.Duration // steady when the present leader began to lead, or its clock went back
	pending []*removal    // deletions that are not judged yet
}

// New returns an audit of a log that begins with the nodes initial, for example of a snapshot, in
// any order. Pass an empty slice for an ensemble without data. Pass nil if the state before the log
// is unknown: then the log begins in the middle, unless its first transaction is an ensemble's
// first.
func New(initial []txnlog.Node, o Options) *Audit {
	a := &Audit{tree: newTree(), opts: o, report: newReport(o)}
	a.report.InMiddle = initial == nil
	initial = slices.Clone(initial)
	slices.SortFunc(initial, func(x, y txnlog.Node) int { return strings.Compare(x.Path, y.Path) })
	for _, n := range initial {
		a.settled = max(a.settled, n.Czxid, n.Mzxid, n.Pzxid)
		if old := a.nodes[n.Path]; old != nil { // the root, for example
			old.fill(n.Data)
			continue
		}
		added, _ := a.add(n.Path, n.Data, moment{zxid: n.Mzxid, gaps: -1}) // how long ago is unknown
		if added.entry != nil {
			added.entry.Stat.Czxid = n.Czxid
		}
		if n.EphemeralOwner != 0 {
			a.own(added, n.EphemeralOwner)
		}
	}
	return a
}

// Apply judges the next transaction, which must have a higher zxid than the last one. The caller
// must not change x.Ops until the next call.
func (a *Audit) Apply(x *txnlog.Txn) {
	if a.report.Txns == 0 && x.Zxid&0xffffffff == 1 && znode.Epoch(x.Zxid) <= 1 {
		a.report.InMiddle = false
	}
	a.clock(x)
	a.txn = &txnlog.Txn{Zxid: x.Zxid, Time: x.Time, Session: x.Session, Ops: x.Ops}
	a.report.saw(x)
	a.judges = a.judges || x.Zxid > a.settled && !x.Time.Before(a.since)
	_, known := a.sessions[x.Session]
	s := a.session(x.Session)
	if !known {
		s.since, s.open = a.steady, a.report.InMiddle || a.settled > 0 // the session may have begun earlier
	}
	for i := range x.Ops {
		switch o := &x.Ops[i]; o.Kind {
		case txnlog.OpBeginSession:
			s.open, s.timeout, s.since = true, o.Timeout, a.steady
		case txnlog.OpCloseSession:
			for p := range s.ephemerals {
				a.delete(p, true)
			}
			a.resolve()
			s.open = false
			delete(a.sessions, x.Session)
		case txnlog.OpCreate:
			a.create(o)
		case txnlog.OpSetData:
			a.set(o)
		case txnlog.OpDelete:
			a.delete(o.Path, false)
		}
	}
	a.held()
}

// Gap tells the audit that transactions are missing before the next one. The audit continues as
// with a log that begins in the middle.
func (a *Audit) Gap() {
	a.resolve()
	a.tree, a.pending, a.report.InMiddle = newTree(), nil, true
	a.gaps++
}

// clock advances the audit's times to those of x, and resolves the pending deletions once a second.
// The stamps show the time only while one server leads and its clock does not go back.
func (a *Audit) clock(x *txnlog.Txn) {
	var real, passed time.Duration
	if a.opts.Clock != nil {
		t := a.opts.Clock(x)
		real, a.real = t-a.real, t
	}
	if a.txn == nil {
		return
	}
	stamps, led := x.Time.Sub(a.txn.Time), znode.Epoch(x.Zxid) == znode.Epoch(a.txn.Zxid)
	switch {
	case a.opts.Clock != nil && led:
		passed = max(real, stamps, 0)
	case a.opts.Clock != nil:
		passed = max(real, 0)
	case led && stamps >= 0:
		passed = stamps
	case !led && a.opts.Skew > 0:
		passed = max(stamps, 0) + a.opts.Skew
	default:
		a.gaps++
	}
	a.now += passed
	before := a.steady
	if a.steady += min(passed, 5*time.Second); !led || stamps < 0 {
		a.led = a.steady
	}
	if len(a.pending) > 0 && a.steady/time.Second > before/time.Second {
		a.resolve()
	}
}

func (a *Audit) moment() moment {
	return moment{zxid: a.txn.Zxid, session: a.txn.Session, now: a.now, gaps: a.gaps}
}

// lasted reports whether the lease of an entry and the grace may have ended for a judge. counted is
// the longest time that a judge may have counted since the entry's last write. unknown: over is
// false, but a judge may have counted more than now shows.
func (a *Audit) lasted(n *node) (over, unknown bool, counted time.Duration) {
	counted = a.now - n.written.now
	over = counted+time.Millisecond >= n.entry.TTL()+a.report.Grace
	return over, !over && n.written.gaps != a.gaps, counted
}

// stays reports whether the log proves that s and other are sessions of different clients: s is still
// open, although it would have expired if its client had begun other. A new leader, and a server that
// starts, begin the timeout of each session again.
func (a *Audit) stays(s, other *session) bool {
	if s == nil || !s.open {
		return false
	}
	timeout := s.timeout
	if timeout == 0 {
		timeout = 40 * time.Second // the longest that servers grant by default
	}
	return a.steady-max(other.since, a.led) > 3*timeout+5*time.Second
}

// resolve reports the violations of the pending deletions that are proven, because the session of
// the entry's owner stayed open. It counts a deletion as not judged if the owner's session has
// ended.
func (a *Audit) resolve() {
	a.pending = slices.DeleteFunc(a.pending, func(r *removal) bool {
		if r.proven = a.stays(r.owner, r.by); r.proven {
			for _, v := range r.violations {
				a.found(v)
			}
		} else if !r.owner.open {
			a.skip(bySession)
		}
		return r.proven || !r.owner.open
	})
}
