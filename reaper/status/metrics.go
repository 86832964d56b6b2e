package status

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-io/holdfast/reaper"
)

// metrics collects the metrics. The labels are roots and policies of the configuration, never
// names of locks. doc.go lists them.
type metrics struct {
	roots   func() []*shown // present roots
	seconds *prometheus.HistogramVec
}

func newMetrics(roots func() []*shown) *metrics {
	return &metrics{roots: roots, seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "holdfast_reaper_sweep_duration_seconds", Help: "Time that sweeps took which ended, by whether all was swept.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600},
	}, []string{"root", "complete"})}
}

// swept has the results of a root's sweeps, by policy.
type swept struct {
	seconds prometheus.ObserverVec

	mu     sync.Mutex
	found  map[string]found         // of the last sweep
	totals map[string]reaper.Counts // of all sweeps
}

// found has a sweep's counts for one policy, and the report of that sweep.
type found struct {
	reaper.Counts
	report *reaper.Report
}

// watch registers for the results of a root's later sweeps.
func (m *metrics) watch(r Root) *swept {
	s := &swept{
		seconds: m.seconds.MustCurryWith(prometheus.Labels{"root": r.label()}),
		found:   map[string]found{}, totals: map[string]reaper.Counts{},
	}
	for _, complete := range []string{"true", "false"} { // so that rates begin at 0
		s.seconds.WithLabelValues(complete)
	}
	r.Monitor.Observe(s.observe)
	return s
}

// forget removes a root without running sweeps.
func (m *metrics) forget(r Root) { m.seconds.DeletePartialMatch(prometheus.Labels{"root": r.label()}) }

// observe adds the report of a sweep that has ended.
func (s *swept) observe(r reaper.Report) {
	if r.Skipped != "" || r.DryRun {
		return
	}
	s.seconds.WithLabelValues(strconv.FormatBool(r.Complete)).Observe(r.Duration.Seconds())
	s.mu.Lock()
	defer s.mu.Unlock()
	for policy, c := range r.Policies {
		if r.Complete || c.Scanned > 0 {
			s.found[policy] = found{*c, &r}
		}
		t := s.totals[policy]
		t.Scanned += c.Scanned
		t.Bytes += c.Bytes
		t.Purged += c.Purged
		t.Pruned += c.Pruned
		t.Missed += c.Missed
		s.totals[policy] = t
	}
}

// of returns the last sweep's result for a policy's locks, and the totals of all sweeps. The
// result is nil if there was no sweep since this reaper became the active one: earlier results
// may be out of date, because another reaper has swept since.
func (s *swept) of(policy string, activeSince time.Time) (last *found, total reaper.Counts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.found[policy]; ok && !activeSince.IsZero() && !f.report.Started.Before(activeSince) {
		last = &f
	}
	return last, s.totals[policy]
}

// series is a metric that is computed when it is collected.
type series[From any] struct {
	name, help string
	kind       prometheus.ValueType
	value      func(From) float64
	desc       *prometheus.Desc
}

func gauge[From any, N int | int64 | uint64 | float64](name, help string, value func(From) N) series[From] {
	return series[From]{name: "holdfast_reaper_" + name, help: help, kind: prometheus.GaugeValue, value: func(f From) float64 { return float64(value(f)) }}
}

func counter[From any, N int | int64 | uint64 | float64](name, help string, value func(From) N) series[From] {
	s := gauge(name+"_total", help, value)
	s.kind = prometheus.CounterValue
	return s
}

// labelled gives several series the same labels.
func labelled[From any](labels []string, all ...series[From]) []series[From] {
	for i, s := range all {
		all[i].desc = prometheus.NewDesc(s.name, s.help, labels, nil)
	}
	return all
}

func is(b bool) int {
	if b {
		return 1
	}
	return 0
}

var buildInfo = prometheus.NewDesc("holdfast_reaper_build_info", "1, with the version of the reaper.", []string{"version"}, nil)

var rootAndPolicy = []string{"root", "policy"}

// rootSeries are the metrics of a root.
var rootSeries = labelled([]string{"root"},
	gauge("active", "1 if this is the active reaper of the root, 0 if it stands by or is disconnected.",
		func(r RootState) int { return is(r.State == reaper.Active) }),
	gauge("session_up", "1 if there is a session with ZooKeeper.",
		func(r RootState) int { return is(r.Session.Connected) }),
	counter("session_losses", "Times that the session with ZooKeeper was gone.",
		func(r RootState) uint64 { return r.Session.Losses }),
	counter("session_away_seconds", "Time without a session with ZooKeeper.",
		func(r RootState) float64 { return r.Session.Away }),
	counter("sweeps_skipped", "Sweeps that were not begun because the one before was under way.",
		func(r RootState) uint64 { return r.Skipped }),
	counter("config_reloads", "Configurations that were put in force after the first.",
		func(r RootState) uint64 { return r.Reloads }),
	gauge("config_refused", "1 if the last configuration was refused, and the one before is in force.",
		func(r RootState) int { return is(r.Refused != nil) }),
	gauge("clock_known", "1 if there was a sample of the clock of ZooKeeper's leader.",
		func(r RootState) int { return is(r.Clock.Known) }),
	gauge("clock_window_seconds", "Between what the clock of ZooKeeper's leader shows at least, and at most.",
		func(r RootState) float64 { return r.Clock.Window }),
	counter("clock_displacements", "Times that the clock of ZooKeeper's leader was seen to jump.",
		func(r RootState) uint64 { return r.Clock.Displacements }),
	gauge("epoch", "Number of ZooKeeper's leader.",
		func(r RootState) int64 { return r.Clock.Epoch }),
)

// planSeries are the metrics of a schedule, collected for each of its policies.
var planSeries = labelled(rootAndPolicy,
	gauge("sweep_overdue_seconds", "For how long a sweep should have been complete; 0 if it is not overdue.",
		func(g reaper.Schedule) float64 { return g.Late }),
	gauge("sweep_failures_in_a_row", "Sweeps that have failed since the last one that was complete.",
		func(g reaper.Schedule) int { return g.Failed }),
	gauge("sweep_running", "1 while a sweep is under way.",
		func(g reaper.Schedule) int { return is(g.Running != nil) }),
	gauge("last_complete_sweep_timestamp_seconds", "When the last complete sweep began; 0 if there was none.", func(g reaper.Schedule) float64 {
		if g.Last.IsZero() {
			return 0
		}
		return float64(g.Last.UnixMilli()) / 1000
	}),
)

// foundSeries are the metrics of the last sweep's result for a policy's locks. Only the active
// reaper has them.
var foundSeries = labelled(rootAndPolicy,
	gauge("locks", "Locks that the last sweep has seen.",
		func(c reaper.Counts) int { return c.Locks }),
	gauge("live_entries", "Entries whose lease ran when the last sweep has seen them.",
		func(c reaper.Counts) int { return c.Live }),
	gauge("waiting_entries", "Live entries without a recorded grant, when the last sweep has seen them.",
		func(c reaper.Counts) int { return c.Waiting }),
	gauge("longest_wait_seconds", "For how long the longest of them had waited; 0 if none waits.",
		func(c reaper.Counts) float64 { return c.LongestWait }),
	gauge("oldest_hold_seconds", "For how long the oldest of the other live entries had the lock; 0 if there is none.",
		func(c reaper.Counts) float64 { return c.OldestHold }),
	gauge("expired_entries", "Entries past their lease and the grace, in the last sweep.",
		func(c reaper.Counts) int { return c.Expired }),
	gauge("foreign_nodes", "Nodes that are not Holdfast's, in the last sweep.",
		func(c reaper.Counts) int { return c.Foreign }),
	gauge("undecodable_nodes", "Nodes of Holdfast's that are damaged or of a newer version, in the last sweep.",
		func(c reaper.Counts) int { return c.Undecodable }),
	gauge("format_1_nodes", "Nodes of format 1, from before the first release, in the last sweep.",
		func(c reaper.Counts) int { return c.Format1 }),
	gauge("denied_nodes", "Nodes that an ACL kept from the last sweep.",
		func(c reaper.Counts) int { return c.Denied }),
	gauge("oldest_overdue_seconds", "For how long the oldest node could have been deleted, in the last sweep.",
		func(c reaper.Counts) float64 { return c.OldestOverdue }),
)

// totalSeries are the metrics of all sweeps for a policy's locks.
var totalSeries = labelled(rootAndPolicy,
	counter("scanned_nodes", "Nodes that were read by sweeps.",
		func(c reaper.Counts) int { return c.Scanned }),
	counter("read_bytes", "Data of nodes that was read by sweeps.",
		func(c reaper.Counts) int64 { return c.Bytes }),
	counter("purged_entries", "Expired entries that were deleted.",
		func(c reaper.Counts) int { return c.Purged }),
	counter("pruned_nodes", "Empty nodes of locks, and ancestors, that were deleted.",
		func(c reaper.Counts) int { return c.Pruned }),
	counter("missed_nodes", "Nodes that changed before they could be deleted.",
		func(c reaper.Counts) int { return c.Missed }),
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	m.seconds.Describe(ch)
	ch <- buildInfo
	describe(ch, rootSeries)
	describe(ch, planSeries)
	describe(ch, foundSeries)
	describe(ch, totalSeries)
}

func describe[From any](ch chan<- *prometheus.Desc, all []series[From]) {
	for _, s := range all {
		ch <- s.desc
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	m.seconds.Collect(ch)
	for i, r := range m.roots() {
		state, label := RootState{Status: r.Monitor.Status()}, r.label()
		if i == 0 {
			ch <- prometheus.MustNewConstMetric(buildInfo, prometheus.GaugeValue, 1, strings.ToValidUTF8(state.Version, "?"))
		}
		if locks := r.Monitor.Locks(); locks != nil {
			state.Clock = clockOf(locks, state.Since)
		}
		collect(ch, rootSeries, state, label)
		for _, g := range state.Schedules {
			for _, policy := range g.Policies {
				collect(ch, planSeries, g, label, policy)
			}
		}
		for _, p := range policiesOf(r.Monitor) {
			last, total := r.swept.of(p.Name, state.ActiveSince)
			if last != nil {
				collect(ch, foundSeries, last.Counts, label, p.Name)
			}
			collect(ch, totalSeries, total, label, p.Name)
		}
	}
}

func collect[From any](ch chan<- prometheus.Metric, all []series[From], from From, labels ...string) {
	for _, s := range all {
		ch <- prometheus.MustNewConstMetric(s.desc, s.kind, s.value(from), labels...)
	}
}
