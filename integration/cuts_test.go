package integration_test

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"github.com/holdfast-io/holdfast/integration/audited"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

const (
	cutTTL  = 30 * time.Second // TTL of the client whose connection is cut: longer than the cut, even on a slow machine
	heldTTL = 4 * time.Second  // TTL of the client whose replies are held: shorter than they are held
	peerTTL = 5 * time.Minute  // TTL of the other clients: too long to wait for its end
	holdFor = heldTTL + grace + 300*time.Millisecond

	// cutSession is so long that a session survives held replies. go-zookeeper gives up a silent
	// connection after two thirds of the session timeout, and one third may have passed before.
	cutSession = 6 * holdFor
)

var cutOperations = []struct {
	name string
	do   func(c *cut)
}{
	{"lock free", lockFree},
	{"lock again", again(lockFree)},
	{"lock contended", lockContended},
	{"write free", as(write, lockFree)},
	{"write contended", as(write, lockContended)},
	{"permit free", as(permit, lockFree)},
	{"permit contended", as(permit, lockContended)},
	{"read free", reading(lockFree)},
	{"read contended", reading(lockContended)},
	{"downgrade", as(write, downgrade)},
	{"more permits", resize(1, 2)},
	{"fewer permits", resize(2, 1)},
	{"several free", several(lockFree)},
	{"several contended", several(lockContended)},
	{"detach", detach},
	{"attach", attach},
	{"lock cancelled", lockCancelled},
	{"trylock free", tryLockFree},
	{"unlock alone", unlockAlone},
	{"unlock with waiter", unlockWithWaiter},
	{"unlock of a lock used again", again(unlockAlone)},
	{"leave and join", leaveAndJoin},
	{"tidy", tidy},
	{"renewal", renewal},
	{"transaction", transaction},
	{"purge", purge},
	{"sweep", sweep},
}

var allFaults = []zkserver.Fault{zkserver.CutBefore, zkserver.CutAfter, zkserver.HoldReply}

// allCuts is the flag -cuts of go test.
var allCuts = flag.Bool("cuts", false, "interrupt operations on a real server at each of their requests, and by each fault")

// TestEveryCutPoint: each operation is interrupted at each of its requests by each fault, with a
// session that survives or expires. The operation returns a true result, and no two clients hold
// the lock at once. No node is left after TTL, grace and one sweep. Without -cuts only one request of
// four is interrupted, and no replies are held, because leases of seconds need a machine that keeps time:
// TestEveryCutPointInVirtualTime has all cases.
//
// The test does not run in parallel with other tests, because they would delay its renewals.
func TestEveryCutPoint(t *testing.T) {
	server := zkserver.AddrForTest(t, zkserver.Options{MaxSessionTimeout: cutSession})
	b := on(t, []string{server})
	b.ctx = t.Context()     // each case has its own deadline
	b.create(b.root, "", 0) // without the root, the first case would make one more request
	faults, step := []zkserver.Fault{zkserver.CutBefore, zkserver.CutAfter}, 4
	if *allCuts {
		faults, step = allFaults, 1
	}
	const atOnce = 120 // most of the cases wait most of the time
	everyCut(t, atOnce, faults, step, func(t *testing.T, test func(*bench)) {
		of := *b
		of.TB = t
		test(&of)
	})
	b.leavesNothing()
}

// TestEveryCutPointInVirtualTime is TestEveryCutPoint on servers in memory. The audit judges each write.
func TestEveryCutPointInVirtualTime(t *testing.T) {
	t.Parallel()
	everyCut(t, runtime.GOMAXPROCS(0), allFaults, 1, func(t *testing.T, test func(*bench)) {
		synctest.Test(t, func(t *testing.T) {
			ens := locktest.Start(t, locktest.Options{Latency: func(string, string) time.Duration { return time.Millisecond }})
			auditor := audited.New(ens, grace, func(v audit.Violation) { t.Errorf("audit: %v", v) })
			b := &bench{TB: t, ctx: t.Context(), servers: ens.Servers(), ens: ens, root: "/it"}
			b.raw = steady{b.connect(), b.ctx}
			b.create(b.root, "", 0)
			test(b)
			b.leavesNothing()
			if len(auditor.Judged()) == 0 {
				t.Error("the audit judged nothing")
			}
		})
	})
}

// leavesNothing: when all abandoned leases are over, no node is left after one sweep.
func (b *bench) leavesNothing() {
	b.Helper()
	time.Sleep(heldTTL + grace + 2*time.Second) // wall clock: until all abandoned leases and orphan_after are over
	report, err := b.reaper(time.Second).Sweep(b.ctx)
	iferr.Fatal(b, err)
	b.Logf("the last sweep: %+v", report.Total)
	if left := b.nodes(); len(left) > 0 {
		b.Errorf("left after TTL, grace and a sweep: %q", left)
	}
}

// everyCut runs the cases of each request, or of each step-th one, by each of the faults, atOnce of them at
// a time. each calls test with the bench of a case.
//
// A run without a fault counts the requests. Further requests are tried until the operation ends
// before the fault occurs: the number of renewals varies.
func everyCut(t *testing.T, atOnce int, faults []zkserver.Fault, step int, each func(t *testing.T, test func(*bench))) {
	slots := make(chan struct{}, atOnce)
	tally := cutTally{rows: map[string]*cutRow{}}
	var wg sync.WaitGroup
	for _, op := range cutOperations {
		// run returns nil if -run does not select the case. -run must select the clean case too: go
		// test -run 'EveryCutPoint/purge/(clean|cut_after_request_3)'.
		run := func(fault zkserver.Fault, k int, expires bool) (c *cut) {
			slots <- struct{}{}
			defer func() { <-slots }()
			name := op.name + "/clean"
			if k > 0 {
				name = fmt.Sprintf("%s/%v request %d, session %s", op.name, fault, k, map[bool]string{false: "survives", true: "expires"}[expires])
			}
			t.Run(name, func(t *testing.T) {
				each(t, func(b *bench) {
					c = newCut(b, fault, k, expires)
					op.do(c)
					c.finish()
				})
			})
			return c
		}
		wg.Go(func() {
			clean := run(0, 0, false)
			if clean == nil {
				return
			}
			for _, fault := range faults {
				for _, expires := range []bool{false, true} {
					for k := 1; k <= clean.requests; k += step {
						wg.Go(func() { tally.add(op.name, run(fault, k, expires)) })
					}
					wg.Go(func() {
						for k := clean.requests + 1; tally.add(op.name, run(fault, k, expires)); k++ {
						}
					})
				}
			}
		})
	}
	wg.Wait()
	t.Log("\n" + tally.String())
}

// cutTally counts the cases of each operation.
type cutTally struct {
	mu   sync.Mutex
	rows map[string]*cutRow
}

type cutRow struct {
	faults [3][2]int // by fault, and whether the session expired
	early  int       // cases in which the contender entered before the fault was over
}

// add counts a case whose fault occurred, and reports whether the fault occurred. A nil case is not
// counted.
func (t *cutTally) add(operation string, c *cut) bool {
	if c == nil || !c.happened {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.rows[operation]
	if row == nil {
		row = new(cutRow)
		t.rows[operation] = row
	}
	expires := 0
	if c.expires {
		expires = 1
	}
	row.faults[c.fault-zkserver.CutBefore][expires]++
	if c.early.Load() {
		row.early++
	}
	return true
}

// String returns the tally as a table.
func (t *cutTally) String() string {
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 0, 1, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "cases; session survives+expires\tcut before\tcut after\thold reply\tcontender in meanwhile\t")
	total := 0
	for _, op := range cutOperations {
		row := t.rows[op.name]
		if row == nil {
			continue // not selected by -run
		}
		fmt.Fprintf(w, "%s\t", op.name)
		for _, n := range row.faults {
			fmt.Fprintf(w, "%d+%d\t", n[0], n[1])
			total += n[0] + n[1]
		}
		fmt.Fprintf(w, "%d\t\n", row.early)
	}
	fmt.Fprintf(w, "%d in all\t\t\t\t\t\n", total)
	w.Flush()
	return s.String()
}
