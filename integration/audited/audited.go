// Package audited audits the log of an ensemble in memory while tests write it.
package audited

import (
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// Only is true if the environment variable AUDIT_ONLY is not empty. Then a history of the
// simulation fails only by violations that the audit finds, and other tests log their violations,
// see [Test]. "make mutants AUDIT=1" sets AUDIT_ONLY to show which mutants the audit alone detects.
var Only = os.Getenv("AUDIT_ONLY") != ""

// Auditor audits the log of an ensemble. If the servers lose their data, it begins a new audit.
type Auditor struct {
	grace time.Duration
	found func(audit.Violation)

	mu     sync.Mutex
	begun  time.Time
	slept  time.Duration // time that all machines but the servers have slept, which time.Now does not show
	last   int64
	audits []*audit.Audit
	seen   int // number of reported violations of the last audit
}

// New returns an Auditor of all later transactions of e. It calls found for each violation, while
// the ensemble is locked.
func New(e *locktest.Ensemble, grace time.Duration, found func(audit.Violation)) *Auditor {
	a := &Auditor{grace: grace, found: found, begun: time.Now()}
	e.Observe(a.observe)
	return a
}

// Test calls body, the body of a test in virtual time. If [Only] is set, Test audits the log, and
// logs each violation as "audit: ...". After the body, another client then writes for two minutes
// of virtual time, so that the log shows which sessions the test's clients still have. A violation
// is no failure, because some tests write by hand what no client may write.
func Test(t testing.TB, e *locktest.Ensemble, body func()) {
	if Only {
		New(e, 0, func(v audit.Violation) { t.Logf("audit: %v", v) })
		defer goOn(t, e) // also after a failure
	}
	body()
}

// goOn writes for two minutes of virtual time. It ends earlier after 100,000 transactions, because
// clients of the test may still write. If no server answers, it ends after three minutes.
func goOn(t testing.TB, e *locktest.Ensemble) {
	z, _, err := zk.Connect(e.Servers(), 10*time.Second, zk.WithDialer(e.Dialer("auditor")), zk.WithLogInfo(false))
	if err != nil {
		t.Error(err)
		return
	}
	silent := time.AfterFunc(3*time.Minute, z.Close) // ends the wait if no server answers
	defer func() {
		if silent.Stop() { // a second, concurrent Close would stop a bubble's time
			z.Close()
		}
	}()
	most := e.Transactions() + 100_000
	for range 1200 {
		if _, err := z.Set("/", nil, -1); errors.Is(err, zk.ErrClosing) || errors.Is(err, zk.ErrConnectionClosed) || e.Transactions() > most {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (a *Auditor) observe(observed locktest.Txn) {
	x := Logged(observed)
	a.mu.Lock()
	defer a.mu.Unlock()
	if x.Zxid <= a.last || a.last == 0 {
		next := audit.New(audit.Options{Grace: a.grace, Clock: a.clock})
		_ = next.Begin(0, nil) // an ensemble without data; without nodes, it cannot fail
		a.audits, a.seen = append(a.audits, next), 0
	}
	a.last = x.Zxid
	now := a.audits[len(a.audits)-1]
	now.Apply(&x)
	for _, v := range now.Report().Violations[a.seen:] {
		a.seen++
		a.found(v)
	}
}

// Logged returns a transaction as a reader of ZooKeeper's transaction logs finds it.
func Logged(x locktest.Txn) txnlog.Txn {
	t := txnlog.Txn{Zxid: x.Zxid, Time: x.Time, Session: x.Session, Ops: make([]txnlog.Op, len(x.Ops))}
	for i, o := range x.Ops {
		t.Ops[i] = txnlog.Op{
			Kind: txnlog.OpKind(o.Kind), Path: o.Path, Data: o.Data, Ephemeral: o.Ephemeral, Version: o.Version,
			CVersion: o.CVersion, Timeout: o.Timeout, Ended: o.Ended, Err: o.Err,
		}
	}
	return t
}

// clock returns the time since the audits began, plus the slept time. a.mu must be held.
func (a *Auditor) clock(*txnlog.Txn) time.Duration { return time.Since(a.begun) + a.slept }

// Sleep tells the auditor that all machines but the servers have slept for d.
func (a *Auditor) Sleep(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.slept += d
}

// Judged returns the number of verdicts of all audits, by rule.
func (a *Auditor) Judged() map[audit.Rule]int {
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
