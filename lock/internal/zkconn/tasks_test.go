package zkconn

import (
	"testing"
	"time"
)

// TestTasks: tasks can enter after the seal until none runs, but not afterwards.
func TestTasks(t *testing.T) {
	var tasks Tasks
	if !tasks.Enter() {
		t.Fatal("cannot enter")
	}
	idle := tasks.Seal()
	if WaitFor(idle, 0) || !tasks.Enter() {
		t.Fatal("closed with a task inside")
	}
	tasks.Leave()
	tasks.Leave()
	if !WaitFor(idle, 0) || !WaitFor(tasks.Seal(), time.Hour) {
		t.Fatal("not idle")
	}
	if tasks.Enter() {
		t.Fatal("entered after the end")
	}
	var empty Tasks
	if !WaitFor(empty.Seal(), -time.Second) || empty.Enter() {
		t.Fatal("an empty one is not closed at once")
	}
}
