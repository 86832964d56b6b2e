package audit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/txnlog"
)

// Findings are what an audit of servers' logs has found.
type Findings struct {
	Report
	// Problems are the problems of the files, in the order in which the audit has met them.
	Problems []*txnlog.Problem
	// Disagree is the first zxid at which the servers have different transactions; 0: none. Violations
	// from it on are left out: the clients did not all see the same data.
	Disagree int64
	// Snapshot is the first file that shows the audit a state; "": the log alone.
	Snapshot string
}

// Logs audits the logs of one or several servers of an ensemble, from the first transaction at the
// time since or later; zero: from the beginning. The state comes from a snapshot, see
// [txnlog.Log.Follow]. Logs fails only if ctx ends.
func Logs(ctx context.Context, l *txnlog.Log, since time.Time, o Options) (*Findings, error) {
	f := &Findings{}
	a := New(o)
	a.since = since
	var err error
	f.Snapshot, err = l.Follow(ctx, txnlog.Range{Since: since}, a, func(err error) {
		var p *txnlog.Problem
		if !errors.As(err, &p) {
			p = &txnlog.Problem{Kind: txnlog.ProblemUnreadable, Err: err}
		}
		f.Problems = append(f.Problems, p)
		if p.Kind == txnlog.ProblemDisagree {
			f.Disagree = cmp.Or(f.Disagree, p.Zxid)
		}
	})
	if err != nil {
		return nil, err
	}
	f.Report = *a.Report()
	if f.Disagree != 0 {
		f.Violations = slices.DeleteFunc(f.Violations, func(v Violation) bool { return v.Zxid >= f.Disagree })
	}
	return f, nil
}
