package main

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestStore(t *testing.T) {
	at := instant(100)
	s := newStore(func() instant { return at })
	if !s.write("x", 2, "v", 200) {
		t.Error("a write was refused")
	}
	if s.write("x", 1, "w", 50) || s.fenced != 1 {
		t.Error("a late write with an older token was let through, or not counted")
	}
	if s.write("x", 1, "w", 200) || s.contradicted != 1 {
		t.Error("a write in time with an older token was let through, or not counted")
	}
	if !s.write("x", 3, "w", 50) || s.unopposed != 1 {
		t.Error("a late write with the newest token was refused, or not counted")
	}
	if token, value := s.read("x"); token != 3 || value != "w" {
		t.Errorf("read %d, %q", token, value)
	}

	for range 2 {
		if n := s.take("x"); !s.put("x", n+1, 200) {
			t.Error("a put was refused")
		}
	}
	if s.put("x", 7, 50) || s.overdue != 1 {
		t.Error("a put after its deadline was let through, or not counted")
	}
	if n := s.lostUpdates(); n != 0 {
		t.Errorf("%d lost updates", n)
	}
	a, b := s.take("x"), s.take("x")
	s.put("x", a+1, 200)
	s.put("x", b+1, 200)
	if n := s.lostUpdates(); n != 1 {
		t.Errorf("%d lost updates after one", n)
	}
}

// TestTasksRepeat has the same seed draw the same tasks, whatever others draw.
func TestTasksRepeat(t *testing.T) {
	draw := func(seed uint64, others int) (tasks []task) {
		c := newController(seed, 2)
		for range 20 {
			for range others {
				c.draw(1)
			}
			next := c.draw(0)
			next.Lock, _, _ = strings.Cut(next.Lock, "/0")
			tasks = append(tasks, next)
		}
		return tasks
	}
	if a, b := draw(1, 0), draw(1, 3); !reflect.DeepEqual(a, b) {
		t.Errorf("seed 1 draws %v, then %v", a, b)
	}
	if a, b := draw(1, 0), draw(2, 0); reflect.DeepEqual(a, b) {
		t.Error("seeds 1 and 2 draw the same")
	}
}

// TestLocksChange has the history of a lock stay within what porcupine can do.
func TestLocksChange(t *testing.T) {
	c := newController(1, 1)
	records := map[string]int{}
	for range 20 * maxRecords / 10 {
		next := c.draw(0)
		records[next.Lock] += 2*len(next.Steps) + 3
	}
	for name, n := range records {
		if n > maxRecords+100 {
			t.Errorf("lock %s has up to %d records", name, n)
		}
	}
	if len(records) < 2*len(bases) {
		t.Errorf("only the locks %s", fmt.Sprint(records))
	}
}

// TestDivergedServers: only what a server says of its data makes a run void.
func TestDivergedServers(t *testing.T) {
	const said = "20:41:45.473 [CommitProcessor:3] WARN org.apache.zookeeper.server.DataTree - Message:Digests are not matching. Value is Zxid. Value:47244640257"
	for logs, want := range map[[2]string]string{
		{"server-3.log", "one line\n" + said + "\n"}:          "server-3.log: " + said,
		{"w3.log", said + "\n"}:                               "",
		{"server-1.log", "zookeeper.digest.enabled = true\n"}: "",
	} {
		run := &torture{logs: map[string][]byte{logs[0]: []byte(logs[1])}}
		if got := run.diverged(); got != want {
			t.Errorf("%q: %q, want %q", logs, got, want)
		}
	}
}

// TestVoidIsNoFailure: the same finding is a failure of the locks, or void if the
// servers are to blame.
func TestVoidIsNoFailure(t *testing.T) {
	for void, want := range map[string]string{
		"": "\nFAILED\nnodes left: 2\n",
		"server-3.log: digests": "\nVOID, for the servers did not agree on their data, which is a fault of ZooKeeper's:\n" +
			"server-3.log: digests\nWhat clients saw of them:\nnodes left: 2\n",
	} {
		var out strings.Builder
		(&report{wrong: []string{"nodes left: 2"}, void: void}).print(&out)
		if out.String() != want {
			t.Errorf("%q is reported as %q, want %q", void, &out, want)
		}
	}
}
