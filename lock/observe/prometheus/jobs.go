package prometheus

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-io/holdfast/lock/schedule"
)

// Jobs is a Prometheus collector that counts the runs of jobs (package lock/schedule). Make one with
// [NewJobs], register it, and give each job its [Jobs.Report]. It is safe for concurrent use.
//
//	holdfast_job_runs_total                  counter  job, outcome  runs that this process has reported
//	holdfast_job_last_run_timestamp_seconds  gauge    job           start of the last such run
//
// The outcomes are those of [schedule.Outcome]: done, failed and unfinished, and skipped for ticks
// that never run. A job that no replica runs reports nothing: alert on
// time() - max by (job) (holdfast_job_last_run_timestamp_seconds), over all replicas.
type Jobs struct {
	runs *prometheus.CounterVec
	last *prometheus.GaugeVec
}

// NewJobs returns a collector without jobs; register it.
func NewJobs() *Jobs {
	return &Jobs{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "holdfast", Subsystem: "job", Name: "runs_total", Help: "Runs of jobs, by outcome; skipped: ticks that never run."}, []string{"job", "outcome"}),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "holdfast", Subsystem: "job", Name: "last_run_timestamp_seconds", Help: "Start of the last run, in seconds since 1970."}, []string{"job"}),
	}
}

// Report returns a function for [schedule.Options].Report of the named job. It begins the job's
// counters at 0.
func (j *Jobs) Report(job string) func(schedule.Run) {
	job = strings.ToValidUTF8(job, "\uFFFD") // Prometheus panics at invalid UTF-8
	for _, outcome := range []schedule.Outcome{schedule.Done, schedule.Failed, schedule.Unfinished, schedule.NotRun} {
		j.runs.WithLabelValues(job, string(outcome))
	}
	return func(run schedule.Run) {
		j.runs.WithLabelValues(job, string(run.Outcome)).Inc()
		if !run.Started.IsZero() {
			j.last.WithLabelValues(job).Set(float64(run.Started.UnixNano()) / 1e9)
		}
	}
}

// Describe sends the descriptions of the metrics, as a Prometheus collector does.
func (j *Jobs) Describe(ch chan<- *prometheus.Desc) {
	j.runs.Describe(ch)
	j.last.Describe(ch)
}

// Collect sends the metrics, as a Prometheus collector does.
func (j *Jobs) Collect(ch chan<- prometheus.Metric) {
	j.runs.Collect(ch)
	j.last.Collect(ch)
}
