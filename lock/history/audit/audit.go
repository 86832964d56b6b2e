package audit

import (
	"iter"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Audit judges the transactions of a log, one after the other. Make one with [New]. It is not safe
// for concurrent use.
type Audit struct {
	tree
	opts   Options
	report Report
	begun  int64     // the zxid of the last Begin
	since  time.Time // judge only from the first transaction of that time on
	judges bool

	txn  *txnlog.Txn   // the present one, or the last that is not disputed
	last stamp         // of the present one
	real time.Duration // time of txn by Options.Clock
	now  time.Duration // time of txn by a clock that rises at least as much as any judge's
	gaps int32         // number of times at which now may have risen by less than a judge's clock

	steady  time.Duration // like now, but rises by at most 5 s at a time: the servers may have been down
	led     time.Duration // steady when the present leader began to lead, or its clock went back
	pending []*removal    // deletions that are not judged yet
	names   []znode.Name  // of the contenders of the lock that in judges
}

// stamp is the time of a transaction by its leader's clock.
type stamp struct {
	zxid int64
	time time.Time
}

// New returns an audit of a log that begins in the middle: the state before it is not known. Call
// [Audit.Begin] if it is.
func New(o Options) *Audit {
	a := &Audit{opts: o, report: newReport(o)}
	a.Gap()
	return a
}

// Keep reports true: the audit needs all nodes.
func (a *Audit) Keep(string) bool { return true }

// Blind reports whether there may be nodes that the log has not shown.
func (a *Audit) Blind() bool { return a.nodes["/"].hidden }

// Begin tells the audit which nodes existed after the transaction zxid, see [txnlog.Exact], before the
// first call of Apply or between two. nil: none, the ensemble is new. After an error, call
// [Audit.Gap].
func (a *Audit) Begin(zxid int64, nodes iter.Seq2[txnlog.Node, error]) error {
	a.resolve()
	a.tree, a.pending, a.begun = newTree(), nil, zxid
	if nodes == nil {
		nodes = func(func(txnlog.Node, error) bool) {}
	}
	for n, err := range nodes {
		if err != nil {
			return err
		}
		written := moment{n.Mzxid, write{gaps: -1}} // how long ago is unknown
		added := a.nodes[n.Path]
		if added == nil {
			added, _ = a.add(n.Path, n.Data, written)
		} else { // the root, for example
			added.hidden = false
			added.wrote(written)
			added.fill(n.Data)
		}
		if added.unseen = n.Lost || n.Mzxid > zxid; !added.unseen {
			added.next = n.Version + 1
		}
		if added.entry != nil {
			added.entry.czxid = n.Czxid
		}
		if n.EphemeralOwner != 0 {
			a.own(added, n.EphemeralOwner)
		}
	}
	a.report.InMiddle = a.report.InMiddle && a.report.Txns > 0
	return nil
}

// Opened tells the audit of a session that was open after the transaction of the last Begin.
func (a *Audit) Opened(s txnlog.Session) {
	known := a.session(s.ID)
	known.open, known.timeout, known.since = true, s.Timeout, a.steady
}

// Gap tells the audit that the state is not known here: transactions are missing. The audit goes on as
// with a log that begins in the middle.
func (a *Audit) Gap() {
	a.resolve()
	a.tree, a.pending, a.report.InMiddle = newTree(), nil, true
	a.nodes["/"].hidden = true
	a.gaps++
}

// Apply judges the next transaction, which must have a higher zxid than the last one. The caller
// must not change x.Ops until the next call.
func (a *Audit) Apply(x *txnlog.Txn) {
	a.clock(x)
	a.last = stamp{x.Zxid, x.Time}
	if x.Disputed {
		a.dispute(x)
		return
	}
	a.txn = &txnlog.Txn{Zxid: x.Zxid, Time: x.Time, Session: x.Session, Ops: x.Ops}
	a.report.saw(x)
	a.judges = a.judges || !x.Time.Before(a.since)
	if a.contradicts(x) {
		a.report.Restored = append(a.report.Restored, x.Zxid)
		a.Gap()
	}
	_, known := a.sessions[x.Session]
	s := a.session(x.Session)
	if !known {
		s.since, s.open = a.steady, a.report.InMiddle || a.begun > 0 // the session may have begun earlier
	}
	for i := range x.Ops {
		switch o := &x.Ops[i]; o.Kind {
		case txnlog.OpBeginSession:
			s.open, s.timeout, s.since = true, o.Timeout, a.steady
		case txnlog.OpCloseSession:
			for _, p := range a.ending(x.Session, o) {
				if a.nodes[p] != nil {
					a.delete(p, true)
				}
			}
			a.resolve()
			s.open = false
			delete(a.sessions, x.Session)
		case txnlog.OpCreate:
			a.create(o)
		case txnlog.OpSetData:
			a.set(o)
			a.nodes[o.Path].next = o.Version + 1
		case txnlog.OpDelete:
			a.delete(o.Path, false)
		}
	}
	a.held()
}

// clock advances the audit's times to those of x, and resolves the pending deletions once a second.
// The stamps show the time only while one server leads and its clock does not go back.
func (a *Audit) clock(x *txnlog.Txn) {
	var real, passed time.Duration
	if a.opts.Clock != nil {
		t := a.opts.Clock(x)
		real, a.real = t-a.real, t
	}
	if a.last.zxid == 0 {
		return
	}
	stamps, led := x.Time.Sub(a.last.time), !znode.Elected(a.last.zxid, x.Zxid)
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
	return moment{a.txn.Zxid, write{session: a.txn.Session, now: a.now, gaps: a.gaps}}
}

// lasted reports whether the lease of an entry and the grace may have ended for a judge. counted is
// the longest time since the entry's last write, by stamps; a judge's clock may be faster. unknown: over
// is false, but a judge may have counted more than now shows.
func (a *Audit) lasted(n *node) (over, unknown bool, counted time.Duration) {
	counted = a.now - n.entry.last.now
	most := counted + counted/znode.RateError + time.Millisecond // stamps drop fractions
	over = most >= n.entry.TTL()+a.report.Grace
	return over, !over && n.entry.last.gaps != a.gaps, counted
}

// stays reports whether the log proves that s and other are sessions of different clients: s is still
// open, although it would have expired if its client had begun other. A new leader, and a server that
// starts, begin the timeout of each session again.
func (a *Audit) stays(s, other *session) bool {
	if s == nil || !s.open || s.timeout == 0 { // without its timeout, nothing shows that it would have expired
		return false
	}
	return a.steady-max(other.since, a.led) > 3*s.timeout+5*time.Second
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
