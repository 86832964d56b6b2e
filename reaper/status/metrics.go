package status

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-io/holdfast/reaper"
)

// metrics are what Prometheus is told. Labels are the roots and the names of policies,
// which the configuration has, and never names of locks. Doc.go lists them.
type metrics struct {
	roots []Root

	mu      sync.Mutex
	found   []map[string]reaper.Counts // by root and policy: what the last sweep has found
	totals  []map[string]reaper.Counts // what all of them have done
	seconds *prometheus.HistogramVec
}

// newMetrics returns metrics that listen to the roots' monitors.
func newMetrics(roots []Root) *metrics {
	m := &metrics{roots: roots, seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "holdfast_reaper_sweep_duration_seconds", Help: "Time that sweeps took which ended, by whether all was swept.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600},
	}, []string{"root", "complete"})}
	for i, r := range roots {
		m.found = append(m.found, map[string]reaper.Counts{})
		m.totals = append(m.totals, map[string]reaper.Counts{})
		for _, complete := range []string{"true", "false"} { // so that rates begin at 0
			m.seconds.WithLabelValues(r.label(), complete)
		}
		r.Monitor.Observe(func(report reaper.Report) { m.observe(i, report) })
	}
	return m
}

// observe takes the report of a sweep that has ended.
func (m *metrics) observe(root int, r reaper.Report) {
	if r.Skipped != "" || r.DryRun {
		return
	}
	complete := "false"
	if r.Complete {
		complete = "true"
	}
	m.seconds.WithLabelValues(m.roots[root].label(), complete).Observe(r.Duration.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	for policy, c := range r.Policies {
		if r.Complete || c.Scanned > 0 {
			m.found[root][policy] = *c
		}
		t := m.totals[root][policy]
		t.Scanned += c.Scanned
		t.Bytes += c.Bytes
		t.Purged += c.Purged
		t.Pruned += c.Pruned
		t.Missed += c.Missed
		m.totals[root][policy] = t
	}
}

// last is what the last sweep has found of a policy's locks; nil if there was none.
func (m *metrics) last(root int, policy string) *reaper.Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.found[root][policy]; ok {
		return &c
	}
	return nil
}

// series is a metric that is collected when it is asked for.
type series[From any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(From) float64
}

func gauge[From any](name, help string, value func(From) float64, labels ...string) series[From] {
	return series[From]{prometheus.NewDesc("holdfast_reaper_"+name, help, labels, nil), prometheus.GaugeValue, value}
}

func counter[From any](name, help string, value func(From) float64, labels ...string) series[From] {
	s := gauge(name+"_total", help, value, labels...)
	s.kind = prometheus.CounterValue
	return s
}

func is(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var buildInfo = prometheus.NewDesc("holdfast_reaper_build_info", "1, with the version of the reaper.", []string{"version"}, nil)

// rootSeries are of a root.
var rootSeries = []series[RootState]{
	gauge("active", "1 if this is the active reaper of the root, 0 if it stands by or is disconnected.",
		func(r RootState) float64 { return is(r.State == reaper.Active) }, "root"),
	gauge("session_up", "1 if there is a session with ZooKeeper.",
		func(r RootState) float64 { return is(r.Session.Connected) }, "root"),
	counter("session_losses", "Times that the session with ZooKeeper was gone.",
		func(r RootState) float64 { return float64(r.Session.Losses) }, "root"),
	counter("session_away_seconds", "Time without a session with ZooKeeper.",
		func(r RootState) float64 { return r.Session.Away }, "root"),
	counter("sweeps_skipped", "Sweeps that were not begun because the one before was under way.",
		func(r RootState) float64 { return float64(r.Skipped) }, "root"),
	counter("config_reloads", "Configurations that were put in force after the first.",
		func(r RootState) float64 { return float64(r.Reloads) }, "root"),
	gauge("config_refused", "1 if the last configuration was refused, and the one before is in force.",
		func(r RootState) float64 { return is(r.Refused != nil) }, "root"),
	gauge("clock_known", "1 if there was a sample of the clock of ZooKeeper's leader.",
		func(r RootState) float64 { return is(r.Clock.Known) }, "root"),
	gauge("clock_window_seconds", "Between what the clock of ZooKeeper's leader shows at least, and at most.",
		func(r RootState) float64 { return r.Clock.Window }, "root"),
	counter("clock_displacements", "Times that the clock of ZooKeeper's leader was seen to jump.",
		func(r RootState) float64 { return float64(r.Clock.Displacements) }, "root"),
	gauge("epoch", "Number of ZooKeeper's leader.",
		func(r RootState) float64 { return float64(r.Clock.Epoch) }, "root"),
}

// planSeries are of a schedule, told of each of its policies.
var planSeries = []series[reaper.Schedule]{
	gauge("sweep_overdue_seconds", "For how long a sweep should have been complete; 0 if it is not overdue.",
		func(g reaper.Schedule) float64 { return g.Late }, "root", "policy"),
	gauge("sweep_failures_in_a_row", "Sweeps that have failed since the last one that was complete.",
		func(g reaper.Schedule) float64 { return float64(g.Failed) }, "root", "policy"),
	gauge("sweep_running", "1 while a sweep is under way.",
		func(g reaper.Schedule) float64 { return is(g.Running != nil) }, "root", "policy"),
	gauge("last_complete_sweep_timestamp_seconds", "When the last complete sweep began; 0 if there was none.",
		func(g reaper.Schedule) float64 {
			if g.Last.IsZero() {
				return 0
			}
			return float64(g.Last.UnixMilli()) / 1000
		}, "root", "policy"),
}

// foundSeries are what the last sweep has found of a policy's locks.
var foundSeries = []series[reaper.Counts]{
	gauge("locks", "Locks that the last sweep has seen.",
		func(c reaper.Counts) float64 { return float64(c.Locks) }, "root", "policy"),
	gauge("live_entries", "Entries whose lease ran when the last sweep has seen them.",
		func(c reaper.Counts) float64 { return float64(c.Live) }, "root", "policy"),
	gauge("expired_entries", "Entries past their lease and the grace, in the last sweep.",
		func(c reaper.Counts) float64 { return float64(c.Expired) }, "root", "policy"),
	gauge("foreign_nodes", "Nodes that are not Holdfast's, in the last sweep.",
		func(c reaper.Counts) float64 { return float64(c.Foreign) }, "root", "policy"),
	gauge("undecodable_nodes", "Nodes of Holdfast's that are damaged or of a newer version, in the last sweep.",
		func(c reaper.Counts) float64 { return float64(c.Undecodable) }, "root", "policy"),
	gauge("denied_nodes", "Nodes that an ACL kept from the last sweep.",
		func(c reaper.Counts) float64 { return float64(c.Denied) }, "root", "policy"),
	gauge("oldest_overdue_seconds", "For how long the oldest node could have been deleted, in the last sweep.",
		func(c reaper.Counts) float64 { return c.OldestOverdue }, "root", "policy"),
}

// totalSeries are what all sweeps have done with a policy's locks.
var totalSeries = []series[reaper.Counts]{
	counter("scanned_nodes", "Nodes that were read by sweeps.",
		func(c reaper.Counts) float64 { return float64(c.Scanned) }, "root", "policy"),
	counter("read_bytes", "Data of nodes that was read by sweeps.",
		func(c reaper.Counts) float64 { return float64(c.Bytes) }, "root", "policy"),
	counter("purged_entries", "Expired entries that were deleted.",
		func(c reaper.Counts) float64 { return float64(c.Purged) }, "root", "policy"),
	counter("pruned_nodes", "Empty nodes of locks, and ancestors, that were deleted.",
		func(c reaper.Counts) float64 { return float64(c.Pruned) }, "root", "policy"),
	counter("missed_nodes", "Nodes that changed before they could be deleted.",
		func(c reaper.Counts) float64 { return float64(c.Missed) }, "root", "policy"),
}

// Describe implements prometheus.Collector: what it collects follows from the monitors.
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
	for i, r := range m.roots {
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
			m.mu.Lock()
			found, swept := m.found[i][p.Name]
			total := m.totals[i][p.Name]
			m.mu.Unlock()
			if swept {
				collect(ch, foundSeries, found, label, p.Name)
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
