package audit

import (
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/txnlog"
)

// Rule is a rule of the protocol, see the package's doc.
type Rule string

// The rules. The table in the package's doc has what each of them permits.
const (
	Exclusion  Rule = "exclusion"
	Permits    Rule = "permits"
	Leader     Rule = "leader"
	Overlap    Rule = "overlap"
	Token      Rule = "token"
	Delete     Rule = "delete"
	Purge      Rule = "purge"
	Owner      Rule = "owner"
	Attach     Rule = "attach"
	Break      Rule = "break"
	Record     Rule = "record"
	Holder     Rule = "holder"
	Generation Rule = "generation"
	Empty      Rule = "empty"
	Resize     Rule = "resize"
	Foreign    Rule = "foreign"
	Tick       Rule = "tick"
)

// Rules returns all rules, in the order of the package's doc.
func Rules() []Rule {
	return []Rule{Exclusion, Permits, Leader, Overlap, Token, Delete, Purge, Owner, Attach, Break, Record, Holder, Generation, Empty, Resize, Foreign, Tick}
}

// Options are the settings of an audit. The zero value knows nothing of the clocks.
type Options struct {
	// Grace is the shortest grace of any policy. 0 means the shortest that a policy may have, 100
	// ms: then the audit does not notice entries that were purged within a longer grace.
	Grace time.Duration
	// Skew is the largest difference between the clocks of two leaders; 0: unknown. Without it,
	// purges and attaches over a change of the leader are not judged.
	Skew time.Duration
	// Clock returns the true time of a transaction, since any fixed time. It is for simulations,
	// whose leaders' clocks are wrong. nil: there are only the leaders' stamps.
	Clock func(*txnlog.Txn) time.Duration
}

// Violation is a write that the protocol does not permit.
type Violation struct {
	Rule  Rule
	Zxid  int64     // of the write
	Time  time.Time // of the write, by the leader's clock
	Path  string    // of the written node
	Other int64     // zxid of the earlier write that it conflicts with; 0: none
	Text  string
}

// String returns the violation in one line.
func (v Violation) String() string {
	s := fmt.Sprintf("0x%x %s: %s: %s", v.Zxid, v.Rule, v.Path, v.Text)
	if v.Other != 0 {
		s += fmt.Sprintf(" (0x%x)", v.Other)
	}
	return s
}

// Report is what an audit has found.
type Report struct {
	Violations []Violation
	Judged     map[Rule]int   // number of verdicts, by rule; violations included
	Unjudged   map[string]int // number of writes that could not be judged, by reason
	Pending    int            // number of deletions that later transactions must show to be right or wrong
	Txns       int64
	First      int64     // zxid of the first transaction
	Last       int64     // zxid of the last transaction
	From       time.Time // time of the first transaction, by the leader's clock
	Until      time.Time // time of the last transaction
	InMiddle   bool      // the log begins in the middle, or has a gap: contenders and permits from before are unknown
	// Restored has the transactions that contradict the log before them: others are missing in between, or the
	// servers' data was replaced, as by a restore through the admin server. There the audit forgets what was
	// before.
	Restored []int64
	Grace    time.Duration
}

func newReport(o Options) Report {
	if o.Grace == 0 {
		o.Grace = 100 * time.Millisecond
	}
	return Report{Judged: map[Rule]int{}, Unjudged: map[string]int{}, Grace: o.Grace}
}

func (r *Report) saw(x *txnlog.Txn) {
	if r.Txns == 0 {
		r.First, r.From = x.Zxid, x.Time
	}
	r.Txns++
	r.Last, r.Until = x.Zxid, x.Time
}

// Total returns the number of verdicts. If Total is 0, the audit has shown nothing.
func (r *Report) Total() (n int) {
	for _, count := range r.Judged {
		n += count
	}
	return n
}

// Report returns what the audit has found so far. The next call of a method of a changes it.
func (a *Audit) Report() *Report {
	a.report.Pending = len(a.pending)
	return &a.report
}

// Reasons why a write is not judged.
const (
	byBeginning  = "nodes from before the log"
	bySnapshot   = "nodes that changed while the server saved the snapshot"
	byClock      = "deletes and attaches over a change of the leader, or a step of its clock"
	bySession    = "deletes of living entries whose owner's session had ended"
	byContenders = "grants of locks whose contenders, kind or permits are not known"
	byFormat     = "entries without a record of this format"
)

// judge counts a verdict on a write of n, and if ok is false reports a violation. It does nothing
// before the first transaction to judge. other is the node whose last write conflicts with the
// write, or nil.
func (a *Audit) judge(rule Rule, ok bool, n, other *node, format string, args ...any) {
	switch {
	case !a.judges:
	case ok:
		a.report.Judged[rule]++
	default:
		a.found(a.violation(rule, n, other, format, args...))
	}
}

func (a *Audit) violation(rule Rule, n, other *node, format string, args ...any) Violation {
	v := Violation{Rule: rule, Zxid: a.txn.Zxid, Time: a.txn.Time, Path: n.path, Text: fmt.Sprintf(format, args...)}
	if other != nil {
		v.Other = other.written
	}
	return v
}

func (a *Audit) found(v Violation) {
	if !a.judges {
		return
	}
	a.report.Judged[v.Rule]++
	a.report.Violations = append(a.report.Violations, v)
}

// skip counts a write that cannot be judged.
func (a *Audit) skip(why string) {
	if a.judges {
		a.report.Unjudged[why]++
	}
}

// NotJudged returns the number of writes that could not be judged, pending ones included.
func (r *Report) NotJudged() int {
	n := r.Pending
	for _, count := range r.Unjudged {
		n += count
	}
	return n
}
