package prometheus_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	observe "github.com/holdfast-io/holdfast/lock/observe/prometheus"
	"github.com/holdfast-io/holdfast/lock/schedule"
)

// TestJobs: runs and skipped ticks are counted by job and outcome, and the gauge is the last run's start.
func TestJobs(t *testing.T) {
	jobs := observe.NewJobs()
	report := jobs.Report("nightly/export")
	report(schedule.Run{Outcome: schedule.Done, Started: time.Unix(1000, 0)})
	report(schedule.Run{Outcome: schedule.NotRun})
	report(schedule.Run{Outcome: schedule.NotRun})
	want := `# HELP holdfast_job_last_run_timestamp_seconds Start of the last run, in seconds since 1970.
# TYPE holdfast_job_last_run_timestamp_seconds gauge
holdfast_job_last_run_timestamp_seconds{job="nightly/export"} 1000
# HELP holdfast_job_runs_total Runs of jobs, by outcome; skipped: ticks that never run.
# TYPE holdfast_job_runs_total counter
holdfast_job_runs_total{job="nightly/export",outcome="done"} 1
holdfast_job_runs_total{job="nightly/export",outcome="failed"} 0
holdfast_job_runs_total{job="nightly/export",outcome="skipped"} 2
holdfast_job_runs_total{job="nightly/export",outcome="unfinished"} 0
`
	if err := testutil.CollectAndCompare(jobs, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
