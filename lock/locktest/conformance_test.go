package locktest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

// The conformance tests compare the ensemble with a real server. Each scenario of the tables runs
// against both. Its observations are a transcript, which must equal the one in the table.
//
// Transcripts name nodes relative to the scenario's own root. Each zxid is replaced by its rank
// among the scenario's zxids, so that other clients may use the real server at the same time.
// Transcripts have no times; script.checkTimes checks the times of every Stat.

const (
	realServer = "HOLDFAST_ZOOKEEPER" // host:port of a real server
	embedded   = "HOLDFAST_EMBEDDED"  // if not empty, the server is this package's own
	notRun     = "HOLDFAST_NOT_RUN"   // a file for tests that are skipped, and why: see zkserver.NotRun
)

// scenarios has the tables of cases_*_test.go.
var scenarios = slices.Concat(dataCases, requestsCases, watchCases, sessionCases)

type scenario struct {
	name  string
	alone bool // other clients would disturb it
	run   func(s *script)
	want  string
	older map[string][]string // other lines that old real servers may return, by line
}

func TestConformanceInMemory(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ens := locktest.Start(t, locktest.Options{})
				sc.check(t, newScript(t, ens.Servers(), ens.Dial))
			})
		})
	}
}

// TestConformanceFollower: through a follower, over a slow network, all scenarios have the same
// transcripts.
func TestConformanceFollower(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ens := locktest.Start(t, locktest.Options{
					Members: 3,
					Latency: func(string, string) time.Duration { return time.Millisecond },
				})
				follower := slices.DeleteFunc(ens.Servers(), func(m string) bool { return m == ens.Leader() })[:1]
				if err := ens.Lag(follower[0], 5*time.Millisecond); err != nil {
					t.Fatal(err)
				}
				sc.check(t, newScript(t, follower, ens.Dial))
			})
		})
	}
}

func TestConformanceRealServer(t *testing.T) {
	addr := realAddress(t)
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			if !sc.alone {
				t.Parallel() // the test mostly waits for sessions to expire
			}
			s := newScript(t, []string{addr}, net.DialTimeout)
			s.shared = true
			sc.checkReal(t, s)
		})
	}
}

// TestConformanceRandom: random requests have the same transcript in memory and on a real server.
// The seed is printed.
func TestConformanceRandom(t *testing.T) {
	addr := realAddress(t)
	for range 30 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			ens := locktest.Start(t, locktest.Options{})
			fake, real := newScript(t, ens.Servers(), ens.Dial), newScript(t, []string{addr}, net.DialTimeout)
			fake.random(seed)
			real.random(seed)
			compare(t, fake.transcript(), real.transcript())
		})
	}
}

func realAddress(t *testing.T) string {
	addr, _, _ := strings.Cut(os.Getenv(realServer), ",")
	if path := os.Getenv(notRun); path != "" && os.Getenv(embedded) != "" {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = fmt.Fprintf(f, "needs a real ZooKeeper\t%s\n", t.Name())
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if os.Getenv(embedded) != "" {
		t.Skip("not run: needs a real ZooKeeper")
	}
	if addr == "" {
		t.Skipf("set %s=host:port to compare with a real ZooKeeper server", realServer)
	}
	return addr
}

func (sc *scenario) check(t *testing.T, s *script) {
	sc.run(s)
	compare(t, s.transcript(), strings.TrimSpace(sc.want))
}

// checkReal is like check, but for a real server. It also accepts the lines of sc.older.
func (sc *scenario) checkReal(t *testing.T, s *script) {
	sc.run(s)
	got, want := s.transcript(), strings.Split(strings.TrimSpace(sc.want), "\n")
	for i, line := range strings.Split(got, "\n") {
		if i < len(want) && slices.Contains(sc.older[want[i]], line) {
			want[i] = line
		}
	}
	compare(t, got, strings.Join(want, "\n"))
}

func compare(t *testing.T, got, want string) {
	if got != want {
		t.Errorf("observed:\n%s\nwant:\n%s\nfirst difference: %s", got, want, firstDifference(got, want))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		switch {
		case i >= len(g):
			return fmt.Sprintf("line %d is missing: %s", i+1, w[i])
		case i >= len(w):
			return fmt.Sprintf("line %d is one too many: %s", i+1, g[i])
		case g[i] != w[i]:
			return fmt.Sprintf("line %d is %q, want %q", i+1, g[i], w[i])
		}
	}
	return "none"
}
