package zkserver

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/wait"
)

// TestPartedLeader: if the leader is partitioned from the other members, they elect another leader.
// The old leader stops serving, and is a follower after Heal.
func TestPartedLeader(t *testing.T) {
	e := EnsembleForTest(t, 3, Options{Links: true, Config: []string{"syncLimit=4"}})
	leader, err := e.Leader(t.Context())
	iferr.Fatal(t, err)
	e.Isolate(leader)
	next := leader
	for next == leader { // the old leader leads until its followers time out
		if next, err = e.Leader(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	awaitMode(t, leader, "not currently serving")
	e.Heal()
	awaitMode(t, leader, "follower")
}

func awaitMode(t *testing.T, s *Server, want string) {
	t.Helper()
	var last string
	err := wait.Until(t.Context(), 2*patience, "server "+s.Addr()+" gets to "+want, func() (bool, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // wall clock: the limit of one of many tries
		defer cancel()
		answer, err := fourLetter(ctx, s.Addr(), "srvr")
		last = fmt.Sprint(answer, err)
		return strings.Contains(last, want), nil
	})
	if err != nil {
		t.Fatalf("%v; it answers %q", err, last)
	}
}
