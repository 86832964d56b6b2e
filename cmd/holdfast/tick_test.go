package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/golden"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/schedule"
)

// TestRunTick: of several calls for a tick, only the first one runs the command. holdfast jobs shows
// the run, and holdfast jobs forget deletes its record.
func TestRunTick(t *testing.T) {
	served(t)
	file := filepath.Join(t.TempDir(), "ran")
	tick := time.Now().UTC().Truncate(time.Minute)
	daily := fmt.Sprintf("%d %d * * *", tick.Minute(), tick.Hour())
	for _, c := range []struct {
		name, script string
		first        int
	}{{"nightly/ok", "exit 0", 0}, {"nightly/fails", "exit 3", 3}} {
		for i := range 3 {
			want := 0
			if i == 0 {
				want = c.first
			}
			if _, errs, status := holdfast(t, "run", "--tick", daily, c.name, "--", "sh", "-c", `echo "$HOLDFAST_LOCK $HOLDFAST_TICK" >>`+file+"; "+c.script); status != want {
				t.Errorf("%s, call %d: status %d, want %d: %s", c.name, i, status, want, errs)
			}
		}
	}
	want := fmt.Sprintf("jobs/nightly/ok %[1]s\njobs/nightly/fails %[1]s\n", tick.Format(time.RFC3339))
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("the commands wrote %q, %v; want %q", got, err, want)
	}
	out, errs, status := holdfast(t, "jobs")
	if status != 0 || !strings.Contains(out, "nightly/fails  ") || !strings.Contains(out, "  failed ") || !strings.Contains(out, "  done ") {
		t.Errorf("jobs: status %d, %s%s", status, out, errs)
	}
	out, errs, status = holdfast(t, "jobs", "--json")
	var doc struct{ Jobs []schedule.Status }
	if err := json.Unmarshal([]byte(out), &doc); status != 0 || err != nil || len(doc.Jobs) != 2 || doc.Jobs[0].Runs[0].Error != "exit status 3" {
		t.Errorf("jobs --json: status %d, %v, %s%s", status, err, out, errs)
	}
	for _, c := range []struct {
		name   string
		status int
		says   string
	}{
		{"nightly/ok", 0, ""}, {"nightly/ok", 1, `job "nightly/ok": there is no record of it below /holdfast-jobs`}, {"/x", app.StatusUsage, "must not start"},
	} {
		if _, errs, status := holdfast(t, "jobs", "forget", c.name); status != c.status || !strings.Contains(errs, c.says) {
			t.Errorf("jobs forget %s: status %d, %s", c.name, status, errs)
		}
	}
	if out, _, status := holdfast(t, "jobs"); status != 0 || strings.Contains(out, "nightly/ok") || !strings.Contains(out, "nightly/fails") {
		t.Errorf("jobs after one was forgotten: status %d, %s", status, out)
	}
	if out, _, status := holdfast(t, "jobs", "--jobs", "/elsewhere"); status != 0 || out != "no jobs below /elsewhere\n" {
		t.Errorf("jobs elsewhere: status %d, %s", status, out)
	}
}

// TestRunTickMissed: if the tick was missed, run says so, and jobs shows it. With -q run says nothing.
func TestRunTickMissed(t *testing.T) {
	served(t)
	tick := time.Now().UTC().Add(-4 * time.Hour).Truncate(time.Minute)
	daily := fmt.Sprintf("%d %d * * *", tick.Minute(), tick.Hour())
	said := stderrOf(t, func() {
		for _, args := range [][]string{{"-q", "quiet"}, {"loud"}} {
			args = append(append([]string{"run", "--tick", daily}, args...), "--", "false")
			if _, errs, status := holdfast(t, args...); status != 0 {
				t.Errorf("%v: status %d: %s", args, status, errs)
			}
		}
	})
	want := `job "loud": missed: the tick of ` + tick.Format(time.RFC3339)
	if !strings.Contains(said, want) || !strings.Contains(said, "CRON_TZ=") || strings.Contains(said, "quiet") {
		t.Errorf("it said %q, want %q", said, want)
	}
	if out, _, status := holdfast(t, "jobs"); status != 0 || !strings.Contains(out, tick.Format(time.RFC3339)+" missed") {
		t.Errorf("jobs: status %d, %s", status, out)
	}
}

// TestRunTickWaits: run prints that it waits for the next tick, but not while the command runs. If the
// tick is further away than --wait, run exits with the status of a lock not acquired, and names the tick.
func TestRunTickWaits(t *testing.T) {
	defer func(old time.Duration) { patience = old }(patience)
	patience = time.Second
	served(t)
	now := time.Now().UTC()
	said := stderrOf(t, func() {
		holdfast(t, "run", "--tick", fmt.Sprintf("%d %d * * *", now.Minute(), now.Hour()), "x", "--", "sh", "-c", "echo it has begun >&2; sleep 1.1")
	})
	if _, after, ran := strings.Cut(said, "it has begun\n"); !ran || strings.Contains(after, "waiting") {
		t.Errorf("it said %q", said)
	}
	tick := now.Add(2 * time.Hour)
	said = stderrOf(t, func() {
		_, errs, status := holdfast(t, "run", "--wait", "1100ms", "--tick", fmt.Sprintf("0 %d * * *", tick.Hour()), "x", "--", "true")
		if says := "wait for the tick at " + tick.Format("2006-01-02T15:00:00Z"); status != statusNotAcquired || !strings.Contains(errs, says) {
			t.Errorf("status %d, want %d: %s", status, statusNotAcquired, errs)
		}
	})
	if !strings.Contains(said, "waiting for the next tick") {
		t.Errorf("it said %q", said)
	}
}

// TestRunTickRefuses: options that package schedule refuses are a usage error.
func TestRunTickRefuses(t *testing.T) {
	served(t)
	for flags, says := range map[string]string{
		"--jobs /locks/x":                  "path /locks/x: must be apart from the root",
		"--overlap beside --at-least-once": "overlap beside: must not be given with AtLeastOnce",
	} {
		args := append([]string{"run", "x", "--tick", "@daily"}, strings.Fields(flags)...)
		if _, errs, status := holdfast(t, append(args, "--", "true")...); status != app.StatusUsage || !strings.Contains(errs, says) {
			t.Errorf("%s: status %d, says %q; want %q", flags, status, errs, says)
		}
	}
}

func TestPrintJobs(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ran := func(outcome schedule.Outcome, took time.Duration) []schedule.Run {
		run := schedule.Run{Tick: noon, Outcome: outcome, Started: noon.Add(time.Second), Owner: "export", Host: "node3", PID: 4711}
		if took > 0 {
			run.Ended = run.Started.Add(took)
		}
		return []schedule.Run{run}
	}
	var got bytes.Buffer
	now := admin.Time{Zxid: 1, Lower: time.Duration(noon.Add(time.Minute).UnixNano())}
	err := printJobs(&got, schedule.DefaultPath, []schedule.Status{
		{Job: "done", Next: noon.Add(24 * time.Hour), Runs: ran(schedule.Done, 90*time.Second)},
		{Job: "failed\x1b", Next: noon.Add(time.Hour), Runs: ran(schedule.Failed, time.Millisecond)},
		{Job: "new", Next: noon.Add(time.Hour)},
		{Job: "never", Next: noon.Add(time.Hour), Skipped: &schedule.Skipped{First: noon, Last: noon, Why: schedule.Missing}},
		{Job: "overlaps", Next: noon.Add(time.Hour), Runs: ran(schedule.Done, time.Hour), Skipped: &schedule.Skipped{First: noon, Last: noon.Add(time.Minute), Why: schedule.Overlapped}},
		{Job: "over", Runs: ran(schedule.Unfinished, time.Hour)},
		{Job: "running", Next: noon.Add(time.Hour), Runs: ran(schedule.Running, 0)},
	}, now, false)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "jobs.txt", got.Bytes())
}

// TestJobsThatCannotBeRead: holdfast jobs does not say that there are no jobs if it cannot tell.
func TestJobsThatCannotBeRead(t *testing.T) {
	served(t)
	out, errs, status := holdfast(t, "jobs", "--jobs", "/locks/a")
	if status != app.StatusUsage || out != "" || !strings.Contains(errs, "must be apart from the root") {
		t.Errorf("status %d, prints %q, says %q", status, out, errs)
	}
}
