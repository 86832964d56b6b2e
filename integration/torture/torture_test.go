package main

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/judge"
	"github.com/holdfast-io/holdfast/lock/history/audit"
)

// TestTasksRepeat: a worker with the same seed, index and life has the same tasks; otherwise it has
// different ones.
func TestTasksRepeat(t *testing.T) {
	tasks := func(c workerConfig) (tasks []task) {
		r := c.tasks()
		for range 20 {
			tasks = append(tasks, draw(r, 0))
		}
		return tasks
	}
	first := workerConfig{Seed: 1, Index: 2, Life: 3}
	if a, b := tasks(first), tasks(first); !reflect.DeepEqual(a, b) {
		t.Errorf("%+v draws %v, then %v", first, a, b)
	}
	for _, other := range []workerConfig{{Seed: 2, Index: 2, Life: 3}, {Seed: 1, Index: 3, Life: 3}, {Seed: 1, Index: 2, Life: 4}} {
		if a, b := tasks(first), tasks(other); reflect.DeepEqual(a, b) {
			t.Errorf("%+v and %+v draw the same", first, other)
		}
	}
}

// TestLocksChange: after each lockSpan, workers use new locks.
func TestLocksChange(t *testing.T) {
	names := map[string]bool{}
	r := stream(1, 0)
	for i := range 1000 {
		names[draw(r, time.Duration(i)*time.Second).lock] = true
	}
	if want := len(bases) * int(1+1000*time.Second/lockSpan); len(names) != want {
		t.Errorf("locks %v, want %d", names, want)
	}
}

// TestSurprises: errors that faults do not explain are unexpected. Removed and overwritten entries
// are reported separately.
func TestSurprises(t *testing.T) {
	for result, want := range map[string]map[string]string{ // by operation
		"":           {},
		crew.Taken:   {judge.OpShown: "unexpected", crew.OpLeft: "unexpected", crew.OpLost: "unexpected"},
		crew.GaveUp:  {crew.OpLeft: "unexpected", crew.OpLost: "unexpected"},
		crew.Expired: {crew.OpTry: "unexpected", judge.OpShown: "unexpected"},
		crew.Written: {crew.OpTry: "unexpected", judge.OpShown: "unexpected", crew.OpLeft: "removed", crew.OpLost: "removed"},
		"other":      {crew.OpTry: "unexpected", judge.OpShown: "unexpected", crew.OpLeft: "unexpected", crew.OpLost: "unexpected"},
	} {
		for _, op := range []string{crew.OpTry, judge.OpShown, crew.OpLeft, crew.OpLost, crew.OpFault} {
			removed, unexpected := surprises([]*crew.Record{{Op: op, Result: result}})
			got := ""
			if len(removed) > 0 {
				got += "removed"
			}
			if len(unexpected) > 0 {
				got += "unexpected"
			}
			if got != want[op] {
				t.Errorf("%s with %q is %q, want %q", op, result, got, want[op])
			}
		}
	}
}

// TestDivergedServers: diverged finds ZooKeeper's message about digests in the servers' logs, and
// nowhere else.
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

// TestContradiction: violations in logs that contradict themselves, as of a server that lost nodes when it
// started, are told, and void the run.
func TestContradiction(t *testing.T) {
	run, r := &torture{findings: &audit.Findings{}}, new(report)
	run.findings.Judged = map[audit.Rule]int{audit.Purge: 1}
	run.findings.Violations = []audit.Violation{{Rule: audit.Purge}}
	run.findings.Restored = []int64{7}
	if run.tellAudit(r); len(r.wrong) != 2 || !strings.Contains(run.diverged(), "contradict themselves at [0x7]") {
		t.Errorf("wrong: %q; void: %q", r.wrong, run.diverged())
	}
}

// TestVoidIsNoFailure: the report says VOID instead of FAILED if the servers' data differed.
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
