package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/schedule"
)

// serve serves a ZooKeeper in memory until the end of the test, and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	ens, err := locktest.New(locktest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- ens.Serve(l, ens.Servers()[0]) }()
	t.Cleanup(func() {
		ens.Close()
		<-ended // of its listener, which is closed
	})
	return l.Addr().String()
}

// TestRunTick: of several calls for a tick, only the first one runs the command. holdfast jobs shows
// the run, and holdfast jobs forget deletes its record.
func TestRunTick(t *testing.T) {
	server := serve(t)
	file := filepath.Join(t.TempDir(), "ran")
	command := func(args ...string) (status int, out, errs string) {
		var o, e bytes.Buffer
		status = run(t.Context(), append([]string{"--servers", server}, args...), strings.NewReader(""), &o, &e)
		return status, o.String(), e.String()
	}
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
			if status, _, errs := command("run", "--tick", daily, c.name, "--", "sh", "-c", `echo "$HOLDFAST_LOCK $HOLDFAST_TICK" >>`+file+"; "+c.script); status != want {
				t.Errorf("%s, call %d: status %d, want %d: %s", c.name, i, status, want, errs)
			}
		}
	}
	want := fmt.Sprintf("jobs/nightly/ok %[1]s\njobs/nightly/fails %[1]s\n", tick.Format(time.RFC3339))
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("the commands wrote %q, %v; want %q", got, err, want)
	}
	status, out, errs := command("jobs")
	if status != 0 || !strings.Contains(out, "nightly/fails  ") || !strings.Contains(out, "  failed ") || !strings.Contains(out, "  done ") {
		t.Errorf("jobs: status %d, %s%s", status, out, errs)
	}
	status, out, errs = command("jobs", "--json")
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
		if status, _, errs := command("jobs", "forget", c.name); status != c.status || !strings.Contains(errs, c.says) {
			t.Errorf("jobs forget %s: status %d, %s", c.name, status, errs)
		}
	}
	if status, out, _ := command("jobs"); status != 0 || strings.Contains(out, "nightly/ok") || !strings.Contains(out, "nightly/fails") {
		t.Errorf("jobs after one was forgotten: status %d, %s", status, out)
	}
	if status, out, _ := command("jobs", "--jobs", "/elsewhere"); status != 0 || out != "no jobs below /elsewhere\n" {
		t.Errorf("jobs elsewhere: status %d, %s", status, out)
	}
}

// TestRunTickMissed: if the tick was missed, run says so, and jobs shows it. With -q run says nothing.
func TestRunTickMissed(t *testing.T) {
	server := serve(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	old := os.Stderr
	defer func() { os.Stderr = old }()
	os.Stderr = file
	tick := time.Now().UTC().Add(-4 * time.Hour).Truncate(time.Minute)
	daily := fmt.Sprintf("%d %d * * *", tick.Minute(), tick.Hour())
	for _, args := range [][]string{{"-q", "quiet"}, {"loud"}} {
		status := run(t.Context(), append(append([]string{"run", "--servers", server, "--tick", daily}, args...), "--", "false"), strings.NewReader(""), io.Discard, io.Discard)
		if status != 0 {
			t.Errorf("%v: status %d", args, status)
		}
	}
	said, err := os.ReadFile(file.Name())
	want := `job "loud": missed: the tick of ` + tick.Format(time.RFC3339)
	if err != nil || !strings.Contains(string(said), want) || !strings.Contains(string(said), "CRON_TZ=") || strings.Contains(string(said), "quiet") {
		t.Errorf("it said %q, %v, want %q", said, err, want)
	}
	var out bytes.Buffer
	if status := run(t.Context(), []string{"jobs", "--servers", server}, strings.NewReader(""), &out, io.Discard); status != 0 || !strings.Contains(out.String(), tick.Format(time.RFC3339)+" missed") {
		t.Errorf("jobs: status %d, %s", status, &out)
	}
}

// TestRunTickWaits: if the tick is further away than --wait, run exits with the status of a lock not
// acquired, and names the tick.
func TestRunTickWaits(t *testing.T) {
	tick := time.Now().UTC().Add(2 * time.Hour)
	var errs bytes.Buffer
	status := run(t.Context(), []string{"run", "--servers", serve(t), "--wait", "100ms", "--tick", fmt.Sprintf("0 %d * * *", tick.Hour()), "x", "--", "true"}, strings.NewReader(""), io.Discard, &errs)
	if says := "wait for the tick at " + tick.Format("2006-01-02T15:00:00Z"); status != statusNotAcquired || !strings.Contains(errs.String(), says) {
		t.Errorf("status %d, want %d: %s", status, statusNotAcquired, &errs)
	}
}

// TestRunTickPrintsThatItWaits: run prints that it waits for the next tick, but not while the
// command runs.
func TestRunTickPrintsThatItWaits(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stderr, quiet := os.Stderr, patience
	defer func() { os.Stderr, patience = stderr, quiet }()
	os.Stderr, patience = file, time.Second
	server := serve(t)
	command := func(script string, args ...string) (said string) {
		run(t.Context(), append(append([]string{"run", "--servers", server}, args...), "x", "--", "sh", "-c", script), strings.NewReader(""), io.Discard, io.Discard)
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	begun := "the command has begun\n"
	now := time.Now().UTC()
	said := command("echo the command has begun >&2; sleep 1.1", "--tick", fmt.Sprintf("%d %d * * *", now.Minute(), now.Hour()))
	if _, after, ran := strings.Cut(said, begun); !ran || strings.Contains(after, "waiting") {
		t.Errorf("it said %q", said)
	}
	if said = command("true", "--wait", "1100ms", "--tick", fmt.Sprintf("0 %d * * *", now.Add(2*time.Hour).Hour())); !strings.Contains(said, "waiting for the next tick") {
		t.Errorf("it said %q", said)
	}
}

// TestRunTickRefuses: a wrong value, or flags that do not go together, are a usage error that names the
// flag and the rule.
func TestRunTickRefuses(t *testing.T) {
	server := serve(t)
	for flags, says := range map[string]string{
		"--missed all":                                   "--missed: is for --tick",
		"--at-least-once":                                "--at-least-once: is for --tick",
		"--tick @daily --at-least 1m":                    "--at-least: does not go with --tick",
		"--tick @daily --wait 0":                         "--wait 0: does not go with --tick",
		"--tick @daily --late 0s":                        "--late 0s: must be positive",
		"--limit 3":                                      "--limit: is for --tick",
		"--tick @daily --limit 3":                        "--limit: is for --missed all",
		"--tick @daily --missed all --limit 0":           "--limit 0: must be from 1 to 1000",
		"--tick often":                                   `--tick "often": must be a cron expression`,
		"--tick @daily --missed most":                    `missed "most": must be one of skip, last, all`,
		"--tick @daily --overlap most":                   `overlap "most": must be one of wait, skip, beside`,
		"--tick @daily --jobs /locks/x":                  "path /locks/x: must be apart from the root",
		"--tick @daily --overlap beside --at-least-once": "overlap beside: must not be given with AtLeastOnce",
	} {
		var errs bytes.Buffer
		args := append([]string{"run", "--servers", server}, strings.Fields(flags)...)
		status := run(t.Context(), append(args, "x", "--", "true"), strings.NewReader(""), io.Discard, &errs)
		if status != app.StatusUsage || !strings.Contains(errs.String(), says) {
			t.Errorf("%s: status %d, says %q; want %q", flags, status, &errs, says)
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
	golden(t, "jobs.txt", got.Bytes())
}

// TestJobsThatCannotBeRead: holdfast jobs does not say that there are no jobs if it cannot tell.
func TestJobsThatCannotBeRead(t *testing.T) {
	served(t)
	var out, errs bytes.Buffer
	status := run(t.Context(), []string{"jobs", "--jobs", "/locks/a"}, strings.NewReader(""), &out, &errs)
	if status != app.StatusUsage || out.Len() > 0 || !strings.Contains(errs.String(), "must be apart from the root") {
		t.Errorf("status %d, prints %q, says %q", status, &out, &errs)
	}
}
