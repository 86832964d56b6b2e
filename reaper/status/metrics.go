package status

import (
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/reaper"
)

// newSweepSeconds returns the metric of the duration of sweeps.
func newSweepSeconds() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "holdfast_reaper_sweep_duration_seconds", Help: "Duration of sweeps that ended, by whether everything was swept.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600},
	}, []string{"root", "complete"})
}

// swept has the results of a root's sweeps, by policy.
type swept struct {
	seconds prometheus.ObserverVec
	groups  *groups // of shards

	mu     sync.Mutex
	found  map[string]found         // results of the last sweep
	totals map[string]reaper.Counts // totals of all sweeps, also by policies that are no longer in force
}

// found has a sweep's counts for one policy, and the report of that sweep.
type found struct {
	reaper.Counts
	report *reaper.Report
}

// watch returns a swept that receives the results of a root's sweeps from now on.
func watch(r Root, seconds *prometheus.HistogramVec, groups *groups) *swept {
	s := &swept{
		groups:  groups,
		seconds: seconds.MustCurryWith(prometheus.Labels{"root": r.label()}),
		found:   map[string]found{}, totals: map[string]reaper.Counts{},
	}
	for _, complete := range []string{"true", "false"} { // create both, so that rates begin at 0
		s.seconds.WithLabelValues(complete)
	}
	r.Monitor.Observe(s.observe)
	return s
}

// observe adds the report of a sweep that has ended. It ignores skipped sweeps and dry runs.
func (s *swept) observe(r reaper.Report) {
	if r.Skipped != "" || r.DryRun {
		return
	}
	s.seconds.WithLabelValues(strconv.FormatBool(r.Complete)).Observe(r.Duration.Seconds())
	s.groups.observe(r)
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

// of returns the last sweep's result for a policy's locks. The result is nil if there was no sweep
// since this reaper became the active one. Earlier results may be out of date, because another reaper
// may have swept since.
func (s *swept) of(policy string, activeSince time.Time) *found {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.found[policy]; ok && !activeSince.IsZero() && !f.report.Started.Before(activeSince) {
		return &f
	}
	return nil
}

// all returns the totals of all sweeps: of the policies in force, and of all that were swept by.
func (s *swept) all(inForce []policy.Rule) map[string]reaper.Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	totals := maps.Clone(s.totals)
	for _, p := range inForce {
		totals[p.Name] = s.totals[p.Name]
	}
	return totals
}

// collect is a [prometheus.CollectorFunc] of all metrics except the duration of sweeps. doc.go
// lists them. The labels are the version, and roots and policies of the configuration, never names
// of locks. The set of metrics changes with the roots and their state; only a pedantic registry
// refuses that.
func (s *Server) collect(ch chan<- prometheus.Metric) {
	for i, r := range s.shown() {
		state := RootState{Status: r.Monitor.Status()}
		if i == 0 {
			version := sink{ch, []string{"version"}, []string{strings.ToValidUTF8(state.Version, "?")}}
			version.put("build_info", "1, with the version of the reaper.", 1)
		}
		if locks := r.Monitor.Locks(); locks != nil {
			state.Clock = clockOf(locks, state.Since)
		}
		ofRoot := sink{ch, []string{"root"}, []string{r.label()}}
		ofRoot.state(state)
		for _, g := range state.Schedules {
			for _, policy := range g.Policies {
				ofRoot.policy(policy).schedule(g)
			}
		}
		inForce := r.Monitor.Policies().All()
		for name, total := range r.swept.all(inForce) { // a counter must not vanish with its policy
			ofRoot.policy(name).totals(total)
		}
		for _, p := range inForce {
			if last := r.swept.of(p.Name, state.ActiveSince); last != nil { // only the active reaper has it
				ofRoot.policy(p.Name).found(last.Counts)
			}
			if shared, ok := r.groups.of(p.Name, state.ActiveSince); ok {
				ofRoot.policy(p.Name).shards(shared)
			}
		}
	}
}

// sink takes metrics with the same labels.
type sink struct {
	ch             chan<- prometheus.Metric
	labels, values []string
}

// policy returns a sink for a policy of the sink's root.
func (s sink) policy(name string) sink {
	return sink{s.ch, []string{"root", "policy"}, []string{s.values[0], name}}
}

// put sends a metric: a counter if the name ends in "_total", otherwise a gauge.
func (s sink) put(name, help string, value float64) {
	kind := prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	desc := prometheus.NewDesc("holdfast_reaper_"+name, help, s.labels, nil)
	s.ch <- prometheus.MustNewConstMetric(desc, kind, value, s.values...)
}

// is returns 1 for true, 0 for false.
func is(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// state sends the metrics of a root.
func (s sink) state(r RootState) {
	s.put("active", "1 if this is the active reaper of the root, 0 if it stands by or is disconnected.", is(r.State == reaper.Active))
	if l := r.Leader; l != nil && l.TTL > 0 {
		s.put("leader_lease_age_seconds", "Time since the active reaper, this one or another, renewed its lease.", l.LeaseAge)
	}
	if r.State == reaper.Active && r.Leader != nil { // others would count this one
		s.put("standbys", "Reapers that stand by, as the active one sees them.", float64(r.Leader.Standbys))
	}
	s.put("session_up", "1 if there is a session with ZooKeeper.", is(r.Session.Connected))
	s.put("session_losses_total", "Times that the session with ZooKeeper was gone.", float64(r.Session.Losses))
	s.put("session_away_seconds_total", "Time without a session with ZooKeeper.", r.Session.Away)
	s.put("sweeps_skipped_total", "Sweeps that were not begun because the one before was under way.", float64(r.Skipped))
	s.put("config_reloads_total", "Configurations that were put in force after the first.", float64(r.Reloads))
	s.put("config_refused", "1 if the last configuration was refused, and the one before is in force.", is(r.Refused != nil))
	s.put("clock_known", "1 if there was a sample of the clock of ZooKeeper's leader.", is(r.Clock.Known))
	s.put("clock_window_seconds", "Between what the clock of ZooKeeper's leader shows at least, and at most.", r.Clock.Window)
	s.put("clock_displacements_total", "Times that the clock of ZooKeeper's leader was seen to jump.", float64(r.Clock.Displacements))
	s.put("epoch", "Number of ZooKeeper's leader.", float64(r.Clock.Epoch))
	if r.Clock.Known {
		s.put("term_transactions_left", "Transactions that ZooKeeper's leader can still number before an election.", float64(r.Clock.Left))
	}
}

// schedule sends the metrics of a schedule, for one of its policies.
func (s sink) schedule(g reaper.Schedule) {
	s.put("sweep_overdue_seconds", "For how long a sweep should have been complete; 0 if it is not overdue.", g.Late)
	s.put("sweep_failures_in_a_row", "Sweeps that have failed since the last one that was complete.", float64(g.Failed))
	s.put("sweep_running", "1 while a sweep is under way.", is(g.Running != nil))
	last := 0.0
	if !g.Last.IsZero() {
		last = float64(g.Last.UnixMilli()) / 1000
	}
	s.put("last_complete_sweep_timestamp_seconds", "When the last complete sweep began; 0 if there was none.", last)
}

// found sends the metrics of the last sweep's result for a policy's locks.
func (s sink) found(c reaper.Counts) {
	s.put("locks", "Locks that the last sweep has seen.", float64(c.Locks))
	s.put("live_entries", "Entries whose lease ran when the last sweep has seen them.", float64(c.Live))
	s.put("waiting_entries", "Live entries without a recorded grant, when the last sweep has seen them.", float64(c.Waiting))
	s.put("longest_wait_seconds", "For how long the longest of them had waited; 0 if none waits.", c.LongestWait)
	s.put("oldest_hold_seconds", "For how long the oldest of the other live entries had the lock; 0 if there is none.", c.OldestHold)
	s.put("expired_entries", "Entries past their lease and the grace, in the last sweep.", float64(c.Expired))
	s.put("foreign_nodes", "Nodes that are not Holdfast's, in the last sweep.", float64(c.Foreign))
	s.put("undecodable_nodes", "Nodes of Holdfast's that are damaged or of a newer version, in the last sweep.", float64(c.Undecodable))
	s.put("worn_locks", "Locks that have used up more than half of the counter of their entries, in the last sweep.", float64(c.Worn))
	s.put("copied_entries", "Entries that were copied with their lock's node, in the last sweep.", float64(c.Copied))
	s.put("denied_nodes", "Nodes that an ACL kept from the last sweep.", float64(c.Denied))
	s.put("oldest_overdue_seconds", "For how long the oldest node could have been deleted, in the last sweep.", c.OldestOverdue)
}

// totals sends the metrics of all sweeps for a policy's locks.
func (s sink) totals(c reaper.Counts) {
	s.put("scanned_nodes_total", "Nodes that were read by sweeps.", float64(c.Scanned))
	s.put("read_bytes_total", "Data of nodes that was read by sweeps.", float64(c.Bytes))
	s.put("purged_entries_total", "Expired entries that were deleted.", float64(c.Purged))
	s.put("pruned_nodes_total", "Empty nodes of locks, and ancestors, that were deleted.", float64(c.Pruned))
	s.put("missed_nodes_total", "Nodes that changed before they could be deleted.", float64(c.Missed))
}
