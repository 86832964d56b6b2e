package queue

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestCrowdIsHeardAgain: go-zookeeper sends a watch's event, and closes its channel a moment
// later. Whoever looks in between finds the same watch, and is to have it reported again.
func TestCrowdIsHeardAgain(t *testing.T) {
	name, _ := znode.Parse("b80fa64bd5c99f3f-lock-0000000001")
	for _, node := range []string{name.Node, ""} {
		c := crowdOf([]znode.Name{name}, nil)
		c.seen[name.Node] = &observation{}
		reported := &c.grows
		if node != "" {
			reported = &c.seen[node].reported
		}
		var reports int
		report := func(of string, _ <-chan zk.Event) {
			if reports++; of != node {
				t.Errorf("%q was reported, want %q", of, node)
			}
		}
		changed := make(chan zk.Event)
		listen(reported, node, changed, report)
		if listen(reported, node, changed, report); reports != 1 {
			t.Errorf("%q: one watch has %d reports, want 1", node, reports)
		}
		c.read, c.seen[name.Node].changed = true, changed
		c.heard(node)
		if node == "" && c.read || node != "" && c.seen[node].changed != nil {
			t.Errorf("%q was heard of, and is not read again", node)
		}
		if listen(reported, node, changed, report); reports != 2 {
			t.Errorf("%q: a watch that still looks armed after its report has %d reports in all, want 2", node, reports)
		}
	}
}
