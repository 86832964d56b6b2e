package lock

import (
	"slices"
	"testing"
	"time"
)

func TestHosts(t *testing.T) {
	cfg, err := newConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &hosts{cfg: cfg}
	servers := []string{"192.0.2.1:2181", "192.0.2.2:2181", "[2001:db8::1]:2181"}
	if err := h.Init(servers); err != nil || h.Len() != 3 {
		t.Fatalf("Init = %v, %d addresses", err, h.Len())
	}
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
	if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, servers) {
		t.Fatalf("a round goes to %q", sorted)
	}
	for i := range 5 {
		again, paused := round()
		if !slices.Equal(again, order) || paused != 1 {
			t.Errorf("round %d goes to %q with %d pauses, want %q with one", i+2, again, paused, order)
		}
	}
}

// hostsAt returns hosts and what their monotonic clock shows.
func hostsAt(t *testing.T, servers []string) (*hosts, *time.Duration) {
	t.Helper()
	cfg, err := newConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	now := new(time.Duration)
	cfg.now = func() instant { return instant{mono: *now} }
	h := &hosts{cfg: cfg}
	if err := h.Init(servers); err != nil {
		t.Fatal(err)
	}
	return h, now
}

// TestHostsAfterALoss: who loses a connection tries the other servers first, and then
// all of them without a pause; but not over and over.
func TestHostsAfterALoss(t *testing.T) {
	for _, servers := range [][]string{{"192.0.2.1:2181"}, {"192.0.2.1:2181", "192.0.2.2:2181", "192.0.2.3:2181"}} {
		h, now := hostsAt(t, servers)
		first, _ := h.Next()
		for range 3 { // it is connected to, and goes down with all the others
			h.Connected()
			tries := len(servers) - 1 + mostAtOnce/len(servers)*len(servers)
			for i := range tries + len(servers) { // the last round is one with a pause
				address, wait := h.Next()
				if (i%len(servers) == len(servers)-1) != (address == first) {
					t.Errorf("%d servers: try %d is of %s, and %s was lost", len(servers), i+1, address, first)
				}
				if wait != (i == tries) {
					t.Errorf("%d servers: pauses before try %d: %v, want after %d", len(servers), i+1, wait, tries)
				}
			}
			h.Next() // the first one
			*now += pause
		}
	}
}

// TestHostsAfterManyLosses: servers that drop their clients are not tried more often
// than some times a second.
func TestHostsAfterManyLosses(t *testing.T) {
	h, now := hostsAt(t, []string{"192.0.2.1:2181"})
	const seconds = 10
	pauses, tries := 0, 0
	for h.Next(); *now < seconds*pause; tries++ {
		h.Connected()
		if _, wait := h.Next(); wait {
			*now += pause
			pauses++
		} else {
			*now += time.Millisecond
		}
	}
	if tries > seconds*(mostAtOnce+1) || pauses < seconds-1 {
		t.Errorf("%d tries with %d pauses in %d s", tries, pauses, seconds)
	}
}

// TestHostsOrderDiffers from client to client, to spread them over the servers.
func TestHostsOrderDiffers(t *testing.T) {
	first := map[string]int{}
	for range 300 {
		cfg, err := newConfig(nil)
		if err != nil {
			t.Fatal(err)
		}
		h := &hosts{cfg: cfg}
		if err := h.Init([]string{"192.0.2.1:2181", "192.0.2.2:2181", "192.0.2.3:2181"}); err != nil {
			t.Fatal(err)
		}
		address, _ := h.Next()
		first[address]++
	}
	for address, n := range first {
		if n < 50 || len(first) != 3 {
			t.Errorf("%s is first for %d of 300 clients: %v", address, n, first)
		}
	}
}

// TestHostsFollowNames: what a name stands for is looked up anew in each round,
// and one that stands for nothing is handed on as it is.
func TestHostsFollowNames(t *testing.T) {
	cfg, err := newConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &hosts{cfg: cfg}
	if err := h.Init([]string{"no.such.host.invalid:2181"}); err == nil {
		t.Error("a list of which no name is known is taken")
	}
	if err := h.Init([]string{"no.such.host.invalid:2181", "192.0.2.1:2181"}); err != nil {
		t.Error(err)
	}
	a, _ := h.Next()
	b, _ := h.Next()
	if got := []string{a, b}; !slices.Contains(got, "no.such.host.invalid:2181") || !slices.Contains(got, "192.0.2.1:2181") {
		t.Errorf("a round goes to %q, want the unknown name in it too", got)
	}
	h.mu.Lock()
	h.servers = []string{"localhost:2181"}
	h.mu.Unlock()
	if got, _ := h.Next(); got != "127.0.0.1:2181" && got != "[::1]:2181" {
		t.Errorf("the name's new address is tried as %q", got)
	}
}

func TestParseServer(t *testing.T) {
	for s, want := range map[string]string{
		"a": "a:2181", "a:1": "a:1", "zk-1.example.com:65535": "zk-1.example.com:65535", "10.0.0.1": "10.0.0.1:2181",
		"[::1]": "[::1]:2181", "[::1]:2182": "[::1]:2182", "zk_1": "zk_1:2181",
		"": "", ":": "", "a:": "", "a:x": "", "a:0": "", "a:-1": "", "a:65536": "", "a b": "", "::1": "", "[::1": "", "[]": "", "a/b": "", "a\n": "",
	} {
		got, err := ParseServer(s)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParseServer(%q) = %q, %v, want %q", s, got, err, want)
		}
	}
}
