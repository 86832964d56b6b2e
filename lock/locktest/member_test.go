package locktest_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// three starts an ensemble of three members, and returns the leader and the followers.
func three(t *testing.T, opts locktest.Options) (ens *locktest.Ensemble, leader string, followers []string) {
	t.Helper()
	opts.Members = 3
	ens = locktest.Start(t, opts)
	leader = ens.Leader()
	followers = slices.DeleteFunc(ens.Servers(), func(m string) bool { return m == leader })
	if leader == "" || len(followers) != 2 {
		t.Fatalf("leader %q, followers %q", leader, followers)
	}
	return ens, leader, followers
}

// TestChildrenAreNotSorted: Children does not sort the names, so that a client that relies on their
// order fails.
func TestChildrenAreNotSorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, locktest.Options{})
		mustCreate(t, c, "/p", 0)
		for range 3 {
			mustCreate(t, c, "/p/n-", sequence)
		}
		names, _, err := c.Children("/p")
		if err != nil || len(names) != 3 || slices.IsSorted(names) {
			t.Errorf("%q, %v; want 3 names that are not sorted", names, err)
		}
	})
}

// TestDeterminism: two runs with one seed and the same calls have the same trace.
func TestDeterminism(t *testing.T) {
	history := func() []string {
		var trace []string
		synctest.Test(t, func(t *testing.T) {
			ens, _, followers := three(t, locktest.Options{Seed: 42, ElectionTime: time.Second})
			ens.Trace(func(ev locktest.Event) { trace = append(trace, ev.String()) })
			ens.SetLatency(func(label, _ string) time.Duration { return time.Duration(len(label)) * time.Millisecond })
			ens.Lag(followers[0], 3*time.Millisecond)
			var conns []*rawConn
			for i, label := range []string{"a", "bb", "cccc"} {
				c := dialRaw(t, ens.Servers()[i:], ens.Dialer(label))
				iferr.Fatal(t, c.handshake(time.Second))
				conns = append(conns, c)
			}
			for i := range 30 {
				c := conns[i%3]
				c.send(1, 12, "/", true)
				c.send(2, 1, "/n-", []byte{}, open, int32(3))
				c.send(3, 4, "/n-0000000000", true)
				c.send(4, 14, int32(2), false, int32(-1), "/n-0000000001", int32(-1), int32(-1), true, int32(-1))
				time.Sleep(time.Duration(i) * 7 * time.Millisecond)
				switch i {
				case 10:
					ens.ExpireLabel("bb")
				case 15:
					ens.Partition("a")
				case 20:
					ens.StopLeader()
				}
			}
			time.Sleep(5 * time.Second)
		})
		return trace
	}
	first, second := history(), history()
	if len(first) < 50 {
		t.Errorf("only %d events were traced", len(first))
	}
	if !slices.Equal(first, second) {
		t.Errorf("two traces of one history:\n%s\n\n%s", strings.Join(first, "\n"), strings.Join(second, "\n"))
	}
	kinds := make(map[string]int)
	for _, line := range first {
		kinds[strings.Fields(line)[1]]++
	}
	for _, kind := range []string{"connect", "request", "watch", "expire", "disconnect", "stop", "lead"} {
		if kinds[kind] == 0 {
			t.Errorf("no event of the kind %q among %v", kind, kinds)
		}
	}
}
