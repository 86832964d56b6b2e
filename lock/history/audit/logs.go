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
	// Disagree is the first transaction at which the servers' logs differ; 0: they agree. Violations
	// from it on are left out: the clients did not all see the same data.
	Disagree int64
	// Snapshot is the file that the audit begins with; "": the log's first transaction.
	Snapshot string
}

// Logs audits the logs of one or several servers of an ensemble, from the first transaction at the
// time since or later; zero: from the beginning. It begins with a snapshot if it can read one that
// is older than the first transaction to judge. Where a problem may hide transactions
// ([txnlog.Problem.Lost]), it calls [Audit.Gap], except where the servers' logs differ. Logs fails
// only if ctx ends.
func Logs(ctx context.Context, l *txnlog.Log, since time.Time, o Options) (*Findings, error) {
	f := &Findings{}
	r := txnlog.Range{Since: since}
	var initial []txnlog.Node
	for _, s := range l.SnapshotsFor(r) {
		if nodes, err := nodesOf(s); err != nil {
			f.problem(s, err)
		} else {
			initial, f.Snapshot, r = nodes, s.Path, txnlog.Range{From: s.Zxid + 1}
			break
		}
	}
	if initial == nil {
		r = txnlog.Range{}
	}
	a := New(initial, o)
	a.since = since
	for txn, err := range l.Txns(r) {
		var p *txnlog.Problem
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil:
			a.Apply(&txn)
			continue
		case !errors.As(err, &p):
			p = &txnlog.Problem{Kind: txnlog.ProblemUnreadable, Err: err}
		}
		f.Problems = append(f.Problems, p)
		if p.Kind == txnlog.ProblemDisagree {
			f.Disagree = cmp.Or(f.Disagree, p.Zxid)
		} else if p.Lost() {
			a.Gap()
		}
	}
	f.Report = *a.Report()
	if f.Disagree != 0 {
		f.Violations = slices.DeleteFunc(f.Violations, func(v Violation) bool { return v.Zxid >= f.Disagree })
	}
	return f, nil
}

func nodesOf(s *txnlog.Snapshot) ([]txnlog.Node, error) {
	nodes := []txnlog.Node{}
	for n, err := range s.Nodes() {
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// problem adds a problem for a snapshot that cannot be read.
func (f *Findings) problem(s *txnlog.Snapshot, err error) {
	var p *txnlog.Problem
	if !errors.As(err, &p) {
		p = &txnlog.Problem{Kind: txnlog.ProblemUnreadable, File: s.Path, Err: err}
	}
	f.Problems = append(f.Problems, p)
}
