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

	"github.com/holdfast-io/holdfast/integration/iferr"
	runner "github.com/holdfast-io/holdfast/integration/script"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// The conformance tests run each script of testdata/conformance in memory and on a real server, with the
// same results.

const (
	realServer = "HOLDFAST_ZOOKEEPER" // host:port of a real server
	embedded   = "HOLDFAST_EMBEDDED"  // if not empty, the server is this package's own
	notRun     = "HOLDFAST_NOT_RUN"   // a file for tests that are skipped, and why: see zkserver.NotRun
)

func TestConformanceInMemory(t *testing.T) {
	runner.Each(t, "testdata/conformance", func(t *testing.T, sc *runner.Scenario) {
		synctest.Test(t, func(t *testing.T) {
			ens := locktest.Start(t, locktest.Options{})
			newScript(t, ens.Servers(), ens.Dial).check(sc, runner.First)
		})
	})
}

// TestConformanceFollower: through a follower, over a slow network, all scenarios have the same results.
func TestConformanceFollower(t *testing.T) {
	runner.Each(t, "testdata/conformance", func(t *testing.T, sc *runner.Scenario) {
		synctest.Test(t, func(t *testing.T) {
			ens := locktest.Start(t, locktest.Options{
				Members: 3,
				Latency: func(string, string) time.Duration { return time.Millisecond },
			})
			follower := slices.DeleteFunc(ens.Servers(), func(m string) bool { return m == ens.Leader() })[:1]
			iferr.Fatal(t, ens.Lag(follower[0], 5*time.Millisecond))
			newScript(t, follower, ens.Dial).check(sc, runner.First)
		})
	})
}

func TestConformanceRealServer(t *testing.T) {
	addr := realAddress(t)
	runner.Each(t, "testdata/conformance", func(t *testing.T, sc *runner.Scenario) {
		if !slices.Contains(sc.Lines, "alone") {
			t.Parallel() // the test mostly waits for sessions to expire
		}
		s := newScript(t, []string{addr}, net.DialTimeout)
		s.shared = true
		s.check(sc, runner.Any)
	})
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
			got, want := fake.transcript(), real.transcript()
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || got[i] != want[i] {
					t.Fatalf("in memory\n%s\non the server\n%s\nfirst difference in line %d", strings.Join(got, "\n"), strings.Join(want, "\n"), i+1)
				}
			}
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
		iferr.Fatal(t, err)
	}
	if os.Getenv(embedded) != "" {
		t.Skip("not run: needs a real ZooKeeper")
	}
	if addr == "" {
		t.Skipf("set %s=host:port to compare with a real ZooKeeper server", realServer)
	}
	return addr
}
