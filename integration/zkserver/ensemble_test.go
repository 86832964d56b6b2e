package zkserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestEnsemble(t *testing.T) {
	e := EnsembleForTest(t, 3, Options{})
	if n := len(e.Servers()); n != 3 {
		t.Fatalf("%d servers", n)
	}
	leader, err := e.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A slow server may not answer as a follower yet.
	awaitFollowers := func(n int) (followers []*Server) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d follow and answer", n), func() bool {
			var err error
			if followers, err = e.await(t.Context(), "follower", 1); err != nil {
				t.Fatal(err)
			}
			return len(followers) == n
		})
		return followers
	}
	if followers := awaitFollowers(2); slices.Contains(followers, leader) {
		t.Fatalf("leader %s, followers %v", leader.Addr(), followers)
	}
	conn := connect(t, lasting, new(Tap), e.Addrs()...)
	create(t, conn, "/kept", "data", 0)
	epoch := func(s *Server) int64 {
		t.Helper()
		zxid, err := s.Zxid(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return zxid >> 32
	}
	before := epoch(leader)

	leader.Kill()
	next, err := e.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if leader.Pid() != 0 || next == leader {
		t.Errorf("%s was killed, and %s leads", leader.Addr(), next.Addr())
	}
	if after := epoch(next); after <= before {
		t.Errorf("epoch %d after %d", after, before)
	}

	if err := leader.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if followers := awaitFollowers(2); !slices.Contains(followers, leader) {
		t.Errorf("the old leader %s follows none: %v", leader.Addr(), followers)
	}
	data, _, err := connect(t, lasting, new(Tap), leader.Addr()).Get("/kept")
	if err != nil || string(data) != "data" {
		t.Errorf("Get from the old leader: %q, %v", data, err)
	}

	if err := leader.Pause(); err != nil {
		t.Fatal(err)
	}
	if followers := awaitFollowers(1); followers[0] == leader {
		t.Errorf("followers while %s is paused: %v", leader.Addr(), followers)
	}
}

func TestEnsembleIsThreeOrMore(t *testing.T) {
	if _, err := StartEnsemble(t.Context(), 2, Options{}); err == nil || !strings.Contains(err.Error(), "2 servers: must be 3 or more") {
		t.Errorf("StartEnsemble(2): %v", err)
	}
}
