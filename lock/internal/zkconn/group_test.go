package zkconn

import (
	"testing"
	"time"
)

// TestGroup: after Close, tasks that are inside may let others enter. The group is idle when all
// have left, and then no task can enter.
func TestGroup(t *testing.T) {
	var g Group
	if !g.Enter() {
		t.Fatal("cannot enter")
	}
	idle := g.Close()
	if WaitFor(idle, 0) || !g.Enter() {
		t.Fatal("closed with a task inside")
	}
	g.Leave()
	g.Leave()
	if !WaitFor(idle, 0) || !WaitFor(g.Close(), time.Hour) {
		t.Fatal("not idle")
	}
	if g.Enter() {
		t.Fatal("entered after the end")
	}
	var empty Group
	if !WaitFor(empty.Close(), -time.Second) || empty.Enter() {
		t.Fatal("an empty one is not closed at once")
	}
}
