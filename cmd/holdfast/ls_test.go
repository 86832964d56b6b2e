package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/policy"
)

// TestMatcher: patterns match as in policies, and a ? matches one character.
func TestMatcher(t *testing.T) {
	names := []string{"a", "ab", "order-1", "order-12", "orders/1", "orders/1/x", "x/orders/1", "注文", "a.b", "order-?", "[a]", "a\nb"}
	for _, pattern := range []string{"*", "**", "a*", "order-*", "orders/*", "orders/**", "**/1", "**/orders/**", "*/*", "a.b", "[a]*", "*文"} {
		p := policy.MustPattern(pattern)
		match := matcher(pattern)
		for _, name := range names {
			if got, want := match(name), p.Match(name); got != want {
				t.Errorf("%s matches %s: %v, as a policy %v", pattern, name, got, want)
			}
		}
	}
	for pattern, want := range map[string]map[string]bool{
		"order-?":    {"order-1": true, "order-?": true, "order-12": false, "order-": false},
		"orders/?/*": {"orders/1/x": true, "orders/12/x": false, "orders/1": false},
		"??":         {"注文": true, "ab": true, "a": false, "a/b": false},
	} {
		s, err := chosen(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range want {
			if got := s.match(name); got != want {
				t.Errorf("%s matches %s: %v", pattern, name, got)
			}
		}
	}
	if s, err := chosen("a/b/c?d/*"); err != nil || s.start != "a/b" {
		t.Errorf("starts at %q, %v", s.start, err)
	}
}

// TestWatchOfAnIncompleteListing: ls --watch names each node that could not be read on a line of its own.
func TestWatchOfAnIncompleteListing(t *testing.T) {
	served(t)
	create(t, "/locks", "", 0, zk.WorldACL(zk.PermAll))
	create(t, "/locks/secret", "", 0, zk.DigestACL(zk.PermAll, "other", "password"))
	ctx, stop := context.WithCancel(t.Context())
	out := &stopping{stop: stop}
	if status := run(ctx, []string{"ls", "--watch"}, strings.NewReader(""), out, io.Discard); status != 0 || !strings.Contains(out.all.String(), "could not be read:\n/locks/secret: ") {
		t.Errorf("status %d, prints %q", status, &out.all)
	}
}

// stopping calls stop once something is written.
type stopping struct {
	all  bytes.Buffer
	stop func()
}

func (s *stopping) Write(p []byte) (int, error) {
	defer s.stop()
	return s.all.Write(p)
}
