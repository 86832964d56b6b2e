// Package prometheus has an observer that counts locks for Prometheus.
//
//	observer := prometheus.New()
//	registry.MustRegister(observer)
//	locks, err := lock.Dial(start, servers, lock.WithObserver(observer))
//
// The label policy is the name of the lock's policy (package lock/policy), or "default" if there
// are no policies. No label has the names of locks, because there may be any number of locks.
//
//	holdfast_lock_wait_seconds        histogram  policy          time from the call to the grant
//	holdfast_lock_hold_seconds        histogram  policy          time from the grant until the hold was unlocked or lost
//	holdfast_lock_waiting             gauge      policy          waiters
//	holdfast_lock_held                gauge      policy          holds that have not ended
//	holdfast_lock_withdrawn_total     counter    policy          waits that were given up
//	holdfast_lock_at_risk_total       counter    policy, reason  times that a hold became at risk
//	holdfast_lock_lost_total          counter    policy, reason  holds that were lost
//	holdfast_lock_purged_total        counter    policy          deleted expired entries of other contenders
//	holdfast_lock_displacements_total counter                    steps of the ZooKeeper leader's clock
//
// The reasons are those of [lock.Event.ReasonLabel]: expired, removed, taken, broken, max_hold and
// closed. The package is a separate module, so the library does not depend on Prometheus.
// cmd/reaper/deploy/prometheus has a scrape configuration for the reaper; add a job for your
// service.
package prometheus

import (
	"context"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-io/holdfast/lock"
)

// buckets are the default bounds of the histograms, in seconds, from the fastest grant of a free
// lock to half a day.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 43200}

// Observer is a [lock.Observer] and a Prometheus collector. Make one with [New], and use the same
// one for all clients of the process. It is safe for concurrent use.
type Observer struct {
	waited, held      *prometheus.HistogramVec
	waiting, holding  *prometheus.GaugeVec
	withdrawn, purged *prometheus.CounterVec
	atRisk, lost      *prometheus.CounterVec
	displacements     prometheus.Counter
	all               []prometheus.Collector
}

// New returns an observer; register it. bounds are the bounds of the histograms' buckets, in
// seconds and in any order. Without bounds they go from 1 ms to 12 h.
func New(bounds ...float64) *Observer {
	if len(bounds) == 0 {
		bounds = buckets
	}
	// Prometheus panics at the first event if bounds are unsorted or repeat.
	bounds = slices.Compact(slices.Sorted(slices.Values(bounds)))
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "holdfast", Subsystem: "lock", Name: name, Help: help, Buckets: bounds}, []string{"policy"})
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "holdfast", Subsystem: "lock", Name: name, Help: help}, []string{"policy"})
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "holdfast", Subsystem: "lock", Name: name, Help: help}, append([]string{"policy"}, labels...))
	}
	o := &Observer{
		waited:    histogram("wait_seconds", "Time from the call until the lock was acquired."),
		held:      histogram("hold_seconds", "Time from when the lock was acquired until it was unlocked or lost."),
		waiting:   gauge("waiting", "Waiters for a lock."),
		holding:   gauge("held", "Holds that have not ended."),
		withdrawn: counter("withdrawn_total", "Waits that were given up."),
		purged:    counter("purged_total", "Deleted expired entries of other contenders."),
		atRisk:    counter("at_risk_total", "Times that a hold became at risk of being lost, by reason.", "reason"),
		lost:      counter("lost_total", "Holds that were lost, by reason.", "reason"),
		displacements: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "holdfast", Subsystem: "lock", Name: "displacements_total", Help: "Steps of the ZooKeeper leader's clock.",
		}),
	}
	o.all = []prometheus.Collector{o.waited, o.held, o.waiting, o.holding, o.withdrawn, o.purged, o.atRisk, o.lost, o.displacements}
	return o
}

// Describe sends the descriptions of the metrics, as a Prometheus collector does.
func (o *Observer) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range o.all {
		c.Describe(ch)
	}
}

// Collect sends the metrics, as a Prometheus collector does.
func (o *Observer) Collect(ch chan<- prometheus.Metric) {
	for _, c := range o.all {
		c.Collect(ch)
	}
}

// Observe counts an event.
func (o *Observer) Observe(_ context.Context, e lock.Event) {
	e.Policy = strings.ToValidUTF8(e.Policy, "\uFFFD") // Prometheus panics at invalid UTF-8
	switch e.Kind {
	case lock.EventWaiting:
		o.waiting.WithLabelValues(e.Policy).Inc()
	case lock.EventAcquired:
		if e.Queued {
			o.waiting.WithLabelValues(e.Policy).Dec()
		}
		o.waited.WithLabelValues(e.Policy).Observe(e.Waited.Seconds())
		o.holding.WithLabelValues(e.Policy).Inc()
	case lock.EventWithdrawn:
		o.waiting.WithLabelValues(e.Policy).Dec()
		o.withdrawn.WithLabelValues(e.Policy).Inc()
	case lock.EventAtRisk:
		o.atRisk.WithLabelValues(e.Policy, e.ReasonLabel()).Inc()
	case lock.EventReleased, lock.EventLost:
		o.holding.WithLabelValues(e.Policy).Dec()
		o.held.WithLabelValues(e.Policy).Observe(e.Held.Seconds())
		if e.Kind == lock.EventLost {
			o.lost.WithLabelValues(e.Policy, e.ReasonLabel()).Inc()
		}
	case lock.EventPurged:
		o.purged.WithLabelValues(e.Policy).Inc()
	case lock.EventDisplaced:
		o.displacements.Inc()
	}
}
