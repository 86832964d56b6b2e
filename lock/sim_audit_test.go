// Simulation: the audit of what the servers have logged.

package lock_test

import (
	"os"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// auditOnly says that only violations that the audit finds fail a history: AUDIT_ONLY=1. "make
// mutants" shows so what the audit alone notices.
var auditOnly = os.Getenv("AUDIT_ONLY") != ""

// auditor audits the log of an ensemble. If the servers lose their data, a new audit begins.
type auditor struct {
	grace time.Duration
	found func(audit.Violation)

	mu     sync.Mutex
	begun  time.Time
	slept  time.Duration // time that all machines have slept, which time.Now does not show
	last   int64
	audits []*audit.Audit
	seen   int // violations of the last audit that were reported
}

// newAuditor audits all later transactions. It calls found, with the ensemble locked, for each
// violation.
func newAuditor(e *locktest.Ensemble, grace time.Duration, found func(audit.Violation)) *auditor {
	a := &auditor{grace: grace, found: found, begun: time.Now()}
	e.Observe(a.observe)
	return a
}

func (a *auditor) observe(x txnlog.Txn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x.Zxid <= a.last || a.last == 0 {
		a.audits, a.seen = append(a.audits, audit.New([]txnlog.Node{}, audit.Options{Grace: a.grace, Clock: a.clock})), 0
	}
	a.last = x.Zxid
	now := a.audits[len(a.audits)-1]
	now.Apply(&x)
	for _, v := range now.Report().Violations[a.seen:] {
		a.seen++
		a.found(v)
	}
}

// clock returns the true time; a.mu is held.
func (a *auditor) clock(*txnlog.Txn) time.Duration { return time.Since(a.begun) + a.slept }

// sleep says that all machines but the servers have slept.
func (a *auditor) sleep(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.slept += d
}

// judged returns the number of verdicts, by rule.
func (a *auditor) judged() map[audit.Rule]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[audit.Rule]int{}
	for _, each := range a.audits {
		for rule, n := range each.Report().Judged {
			all[rule] += n
		}
	}
	return all
}
