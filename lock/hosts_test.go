package lock

import (
	"slices"
	"testing"
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
	h.Next()
	h.Connected()
	if again, paused := round(); paused != 1 || again[2] != order[0] {
		t.Errorf("after a connection: %q with %d pauses, want the others first", again, paused)
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
