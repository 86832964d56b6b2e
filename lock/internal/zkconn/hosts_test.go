package zkconn

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// testHosts returns hosts, and the reading of their monotonic clock, which the test may change.
func testHosts(t *testing.T, servers ...string) (*hosts, *time.Duration) {
	t.Helper()
	cfg, now := testConfig(t), new(time.Duration)
	cfg.Now = func() time.Duration { return *now }
	cfg.lookup = net.DefaultResolver.LookupHost
	h := &hosts{ctx: t.Context(), cfg: cfg, began: func([]string, map[string]error) {}}
	if err := h.Init(servers); err != nil {
		t.Fatal(err)
	}
	return h, now
}

// failures returns a channel of the failures that hosts reports.
func failures(h *hosts) <-chan error {
	told := make(chan error, 10)
	h.began = func(_ []string, unknown map[string]error) {
		for _, err := range unknown {
			told <- err
		}
	}
	return told
}

var errUnknown = errors.New("unknown")

// lookupIn returns a lookup that resolves the names in a map, and fails for other names.
func lookupIn(names map[string][]string) lookup {
	return func(_ context.Context, host string) ([]string, error) {
		if names[host] == nil {
			return nil, errUnknown
		}
		return slices.Clone(names[host]), nil
	}
}

func TestHosts(t *testing.T) {
	servers := []string{"192.0.2.1:2181", "192.0.2.2:2181", "[2001:db8::1]:2181"}
	h, _ := testHosts(t, servers...)
	round := func() (round []string, paused int) {
		for range servers {
			address, pause := h.Next()
			round = append(round, address)
			if pause {
				paused++
			}
		}
		return round, paused
	}
	order, paused := round()
	if paused != 0 {
		t.Errorf("the first round has %d pauses", paused)
	}
	if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, servers) || h.Len() != 3 {
		t.Fatalf("a round goes to %q", sorted)
	}
	for i := range 5 {
		again, paused := round()
		if !slices.Equal(again, order) || paused != 1 {
			t.Errorf("round %d goes to %q with %d pauses, want %q with one", i+2, again, paused, order)
		}
	}
}

// TestHostsAfterALoss: after a loss, a client first tries the other servers, and then all of them
// without a pause. After a number of rounds it pauses.
func TestHostsAfterALoss(t *testing.T) {
	for _, servers := range [][]string{{"192.0.2.1:2181"}, {"192.0.2.1:2181", "192.0.2.2:2181", "192.0.2.3:2181"}} {
		h, now := testHosts(t, servers...)
		first, _ := h.Next()
		for range 3 { // its server accepts, and then all servers fail
			h.Connected()
			tries := len(servers) - 1 + mostBurst/len(servers)*len(servers)
			for i := range tries + len(servers) { // the last round begins with a pause
				address, wait := h.Next()
				if (i%len(servers) == len(servers)-1) != (address == first) {
					t.Errorf("%d servers: try %d is of %s, and %s was lost", len(servers), i+1, address, first)
				}
				if wait != (i == tries) {
					t.Errorf("%d servers: pauses before try %d: %v, want after %d", len(servers), i+1, wait, tries)
				}
			}
			h.Next() // the first one
			*now += pauseTime
		}
	}
}

// TestHostsAfterManyLosses: servers that drop their clients are tried at most mostBurst+1 times in
// each pauseTime.
func TestHostsAfterManyLosses(t *testing.T) {
	h, now := testHosts(t, "192.0.2.1:2181")
	const seconds = 10
	pauses, tries := 0, 0
	for h.Next(); *now < seconds*pauseTime; tries++ {
		h.Connected()
		if _, wait := h.Next(); wait {
			*now += pauseTime
			pauses++
		} else {
			*now += time.Millisecond
		}
	}
	if tries > seconds*(mostBurst+1) || pauses < seconds-1 {
		t.Errorf("%d tries with %d pauses in %d s", tries, pauses, seconds)
	}
}

// TestHostsOrderDiffers: the order differs between clients, to spread them over the servers.
func TestHostsOrderDiffers(t *testing.T) {
	first := map[string]int{}
	for range 300 {
		h, _ := testHosts(t, "192.0.2.1:2181", "192.0.2.2:2181", "192.0.2.3:2181")
		address, _ := h.Next()
		first[address]++
	}
	for address, n := range first {
		if n < 50 || len(first) != 3 {
			t.Errorf("%s is first for %d of 300 clients: %v", address, n, first)
		}
	}
}

// TestHostsFollowNames: each round looks the names up again. A name that cannot be resolved is
// returned unchanged, and reported.
func TestHostsFollowNames(t *testing.T) {
	h, _ := testHosts(t, "moved:2181", "192.0.2.1:2181")
	names := map[string][]string{"192.0.2.1": {"192.0.2.1"}}
	told := failures(h)
	h.cfg.lookup = lookupIn(names)
	round := func() []string {
		a, _ := h.Next()
		b, _ := h.Next()
		return slices.Sorted(slices.Values([]string{a, b}))
	}
	if got := round(); !slices.Equal(got, []string{"192.0.2.1:2181", "moved:2181"}) {
		t.Errorf("a round goes to %q, want the unknown name in it too", got)
	}
	err := <-told
	mustBe(t, err, errUnknown)
	mustSay(t, err, "moved:2181")
	for _, ip := range []string{"192.0.2.2", "192.0.2.3"} {
		names["moved"] = []string{ip}
		if got := round(); !slices.Contains(got, ip+":2181") {
			t.Errorf("a round goes to %q, and the name stands for %s", got, ip)
		}
	}
}

// TestHostsWithSlowNames: a slow look-up does not delay other look-ups. It ends at its limit, or with
// the connection.
func TestHostsWithSlowNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := testHosts(t, "slow:2181", "quick:2181", "slower:2181")
		ctx, cancel := context.WithCancel(t.Context())
		h.ctx = ctx
		told := failures(h)
		h.cfg.lookup = func(ctx context.Context, host string) ([]string, error) {
			if host == "quick" && ctx.Err() == nil {
				return []string{"192.0.2.1"}, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		var round []string
		began := time.Now()
		for range 3 {
			address, _ := h.Next()
			round = append(round, address)
		}
		if took := time.Since(began); took != lookupTimeout || !slices.Contains(round, "192.0.2.1:2181") {
			t.Errorf("%q after %v", round, took)
		}
		mustBe(t, <-told, context.DeadlineExceeded)

		began = time.Now()
		time.AfterFunc(time.Second, cancel)
		if _, wait := h.Next(); !wait || time.Since(began) != time.Second {
			t.Errorf("after %v, to pause: %v", time.Since(began), wait)
		}
		if _, wait := h.Next(); !wait || time.Since(began) != time.Second {
			t.Errorf("again after %v, to pause: %v", time.Since(began), wait)
		}
	})
}
