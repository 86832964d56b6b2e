package prometheus_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	observe "github.com/holdfast-io/holdfast/lock/observe/prometheus"
)

func Example() {
	ensemble, err := locktest.New(locktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer ensemble.Close()
	ctx := context.Background()

	observer, registry := observe.New(), prometheus.NewRegistry()
	registry.MustRegister(observer)
	locks, err := lock.Dial(ctx, ensemble.Servers(), lock.WithObserver(observer), lock.WithDialer(ensemble.Dial))
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		if err := locks.Mutex("orders/42").Do(ctx, func(context.Context) error { return nil }); err != nil {
			log.Fatal(err)
		}
	}
	locks.Close() // all events are counted

	metrics, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range metrics {
		if m.GetName() == "holdfast_lock_hold_seconds" {
			fmt.Println(m.GetName(), m.GetMetric()[0].GetLabel()[0].GetValue(), m.GetMetric()[0].GetHistogram().GetSampleCount())
		}
	}
	// Output: holdfast_lock_hold_seconds default 3
}

// TestOddInput: if bounds are unsorted or the name of a policy is not UTF-8, Observe does not panic. A
// panic would end the process.
func TestOddInput(t *testing.T) {
	o := observe.New(5, 1, 5)
	for kind := range lock.EventDisplaced + 2 {
		o.Observe(t.Context(), lock.Event{Kind: kind, Policy: "jobs\xff", Waited: 2 * time.Second})
	}
	want := `# HELP holdfast_lock_wait_seconds Time from the call until the lock was acquired.
# TYPE holdfast_lock_wait_seconds histogram
holdfast_lock_wait_seconds_bucket{policy="jobs\uFFFD",le="1"} 0
holdfast_lock_wait_seconds_bucket{policy="jobs\uFFFD",le="5"} 1
holdfast_lock_wait_seconds_bucket{policy="jobs\uFFFD",le="+Inf"} 1
holdfast_lock_wait_seconds_sum{policy="jobs\uFFFD"} 2
holdfast_lock_wait_seconds_count{policy="jobs\uFFFD"} 1
`
	iferr.Error(t, testutil.CollectAndCompare(o, strings.NewReader(strings.ReplaceAll(want, `\uFFFD`, "\uFFFD")), "holdfast_lock_wait_seconds"))
}

// TestMetrics: the metrics have the numbers of the events of all kinds.
func TestMetrics(t *testing.T) {
	o := observe.New()
	jobs := func(e lock.Event) lock.Event {
		e.Lock, e.Policy = "jobs/secret", "jobs"
		return e
	}
	for _, e := range []lock.Event{
		{Kind: lock.EventAcquired, Waited: time.Second}, // at once
		{Kind: lock.EventWaiting}, {Kind: lock.EventWaiting}, {Kind: lock.EventWaiting}, {Kind: lock.EventWaiting},
		{Kind: lock.EventAcquired, Queued: true, Waited: time.Minute},
		{Kind: lock.EventAcquired, Queued: true, Waited: time.Minute},
		{Kind: lock.EventWithdrawn, Queued: true},
		{Kind: lock.EventAtRisk, Reason: lock.ErrExpired},
		{Kind: lock.EventReleased, Held: 2 * time.Minute},
		{Kind: lock.EventLost, Held: time.Minute, Reason: &lock.LostError{Why: lock.ErrExpired}},
		{Kind: lock.EventPurged}, {Kind: lock.EventDisplaced, By: time.Hour},
	} {
		o.Observe(t.Context(), jobs(e))
	}
	want := `# HELP holdfast_lock_at_risk_total Times that a hold became at risk of being lost, by reason.
# TYPE holdfast_lock_at_risk_total counter
holdfast_lock_at_risk_total{policy="jobs",reason="expired"} 1
# HELP holdfast_lock_displacements_total Steps of the ZooKeeper leader's clock.
# TYPE holdfast_lock_displacements_total counter
holdfast_lock_displacements_total 1
# HELP holdfast_lock_held Holds that have not ended.
# TYPE holdfast_lock_held gauge
holdfast_lock_held{policy="jobs"} 1
# HELP holdfast_lock_lost_total Holds that were lost, by reason.
# TYPE holdfast_lock_lost_total counter
holdfast_lock_lost_total{policy="jobs",reason="expired"} 1
# HELP holdfast_lock_purged_total Deleted expired entries of other contenders.
# TYPE holdfast_lock_purged_total counter
holdfast_lock_purged_total{policy="jobs"} 1
# HELP holdfast_lock_waiting Waiters for a lock.
# TYPE holdfast_lock_waiting gauge
holdfast_lock_waiting{policy="jobs"} 1
# HELP holdfast_lock_withdrawn_total Waits that were given up.
# TYPE holdfast_lock_withdrawn_total counter
holdfast_lock_withdrawn_total{policy="jobs"} 1
`
	if err := testutil.CollectAndCompare(o, strings.NewReader(want), "holdfast_lock_at_risk_total", "holdfast_lock_displacements_total",
		"holdfast_lock_held", "holdfast_lock_lost_total", "holdfast_lock_purged_total", "holdfast_lock_waiting", "holdfast_lock_withdrawn_total"); err != nil {
		t.Error(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(o)
	metrics, err := registry.Gather()
	iferr.Fatal(t, err)
	sums := map[string]float64{}
	for _, m := range metrics {
		if h := m.GetMetric()[0].GetHistogram(); h != nil {
			sums[m.GetName()] = h.GetSampleSum()
		}
		if strings.Contains(m.String(), "secret") {
			t.Errorf("the lock's name is in %v", m)
		}
	}
	if got := fmt.Sprint(sums); got != "map[holdfast_lock_hold_seconds:180 holdfast_lock_wait_seconds:121]" {
		t.Errorf("sums %s", got)
	}
}
