package zkserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/wait"
)

func opening(words ...any) []byte {
	var b bytes.Buffer
	for _, w := range words {
		if s, ok := w.(string); ok {
			b.WriteString(s)
		} else {
			_ = binary.Write(&b, binary.BigEndian, w) // a write to memory cannot fail
		}
	}
	return b.Bytes()
}

func TestRedirectElection(t *testing.T) {
	const addr = "127.0.0.1:12345"
	for name, test := range map[string]struct{ in, want []byte }{
		"with an address": {
			opening(int64(-65536), int64(3), int32(13), "10.0.0.1:3888", "more"),
			opening(int64(-65536), int64(3), int32(len(addr)), addr),
		},
		"the id alone": {opening(int64(3), "more"), opening(int64(3))},
	} {
		rest := bytes.NewReader(test.in)
		got, err := redirectElection(rest, addr)
		if err != nil || !bytes.Equal(got, test.want) {
			t.Errorf("%s: %q, %v: want %q", name, got, err, test.want)
		}
		if rest.Len() != len("more") {
			t.Errorf("%s: %d bytes left, want %d", name, rest.Len(), len("more"))
		}
	}
	for name, in := range map[string][]byte{
		"nothing":   nil,
		"half":      opening(int64(-65536), int64(3), int32(13), "10.0"),
		"too long":  opening(int64(-65536), int64(3), int32(maxElectionAddr+1), strings.Repeat("x", maxElectionAddr+1)),
		"below 0":   opening(int64(-65536), int64(3), int32(-1)),
		"no length": opening(int64(-65536), int64(3)),
	} {
		if got, err := redirectElection(bytes.NewReader(in), addr); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

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
