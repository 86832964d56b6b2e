package zkconn

import (
	"testing"
	"time"
)

// TestGroup: tasks can enter a sealed group until the group is empty, but not afterwards.
func TestGroup(t *testing.T) {
	var g Group
	if !g.Enter() {
		t.Fatal("cannot enter")
	}
	idle := g.Seal()
	if WaitFor(idle, 0) || !g.Enter() {
		t.Fatal("closed with a task inside")
	}
	g.Leave()
	g.Leave()
	if !WaitFor(idle, 0) || !WaitFor(g.Seal(), time.Hour) {
		t.Fatal("not idle")
	}
	if g.Enter() {
		t.Fatal("entered after the end")
	}
	var empty Group
	if !WaitFor(empty.Seal(), -time.Second) || empty.Enter() {
		t.Fatal("an empty one is not closed at once")
	}
}
