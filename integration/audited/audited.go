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

// Only says that only violations that the audit finds fail a history of the simulation:
// AUDIT_ONLY=1. Other tests log theirs, see [Test]. "make mutants AUDIT=1" shows so what the audit
// alone notices.
var Only = os.Getenv("AUDIT_ONLY") != ""

// Auditor audits the log of an ensemble. If the servers lose their data, a new audit begins.
type Auditor struct {
	grace time.Duration
	found func(audit.Violation)

	mu     sync.Mutex
	begun  time.Time
	slept  time.Duration // time that all machines have slept, which time.Now does not show
	last   int64
	audits []*audit.Audit
	seen   int // violations of the last audit that were reported
}

// New audits all later transactions. It calls found, with the ensemble locked, for each violation.
func New(e *locktest.Ensemble, grace time.Duration, found func(audit.Violation)) *Auditor {
	a := &Auditor{grace: grace, found: found, begun: time.Now()}
	e.Observe(a.observe)
	return a
}

// Test runs the body of a test in virtual time. If [Only] is set, it audits the log, and logs the
// violations: "audit: ..." Some tests write by hand what no client may write, so a violation is no
// failure. Then the log goes on for two minutes, with writes of another program: it shows which
// sessions their clients have kept.
func Test(t testing.TB, e *locktest.Ensemble, body func()) {
	if Only {
		New(e, 0, func(v audit.Violation) { t.Logf("audit: %v", v) })
		defer goOn(t, e) // also after a failure
	}
	body()
}

// goOn writes for two minutes of virtual time, or until clients that the test has left at work have
// made 100,000 transactions.
func goOn(t testing.TB, e *locktest.Ensemble) {
	z, _, err := zk.Connect(e.Servers(), 10*time.Second, zk.WithDialer(e.Dialer("auditor")), zk.WithLogInfo(false))
	if err != nil {
		t.Error(err)
		return
	}
	silent := time.AfterFunc(3*time.Minute, z.Close) // no server answers
	defer func() {
		if silent.Stop() { // two calls at once would stop a bubble's time
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

func (a *Auditor) observe(x txnlog.Txn) {
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
func (a *Auditor) clock(*txnlog.Txn) time.Duration { return time.Since(a.begun) + a.slept }

// Sleep says that all machines but the servers have slept.
func (a *Auditor) Sleep(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.slept += d
}

// Judged returns the number of verdicts, by rule.
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
