package otel_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	observe "github.com/holdfast-io/holdfast/lock/observe/otel"
)

// TestLife: holds and waits have child spans of the caller's span. The metrics count them, and have no
// names of locks.
func TestLife(t *testing.T) { synctest.Test(t, life) }

func life(t *testing.T) {
	ensemble, err := locktest.New(locktest.Options{})
	iferr.Fatal(t, err)
	defer ensemble.Close()
	spans, reader := tracetest.NewSpanRecorder(), metric.NewManualReader()
	traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	observer, err := observe.New(traces, metric.NewMeterProvider(metric.WithReader(reader)))
	iferr.Fatal(t, err)
	locks, err := lock.Dial(t.Context(), ensemble.Servers(), lock.WithObserver(observer), lock.WithDialer(ensemble.Dial))
	iferr.Fatal(t, err)
	defer locks.Close()

	ctx, caller := traces.Tracer("test").Start(t.Context(), "caller")
	hold, err := locks.Mutex("orders/42").Lock(ctx)
	iferr.Fatal(t, err)
	gaveUp, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := locks.Mutex("orders/42").Lock(gaveUp); err == nil {
		t.Error("two have the lock")
	}
	caller.End()
	iferr.Fatal(t, hold.Unlock())
	lost, err := locks.Mutex("orders/43", lock.WithTTL(100*time.Millisecond), lock.WithMaxHold(100*time.Millisecond)).Lock(ctx)
	iferr.Fatal(t, err)
	<-lost.Context().Done()

	iferr.Error(t, locks.Close()) // all events are delivered

	var told []string
	for _, s := range spans.Ended() {
		line := fmt.Sprint(s.Name(), " ", s.Parent().SpanID() == caller.SpanContext().SpanID())
		for _, e := range s.Events() {
			if e.Time.Before(s.StartTime()) || e.Time.After(s.EndTime()) {
				t.Errorf("%s: %s at %v, not from %v to %v", s.Name(), e.Name, e.Time, s.StartTime(), s.EndTime())
			}
			line += " " + e.Name
		}
		for _, a := range s.Attributes() {
			if a.Key != "holdfast.token" && a.Key != "holdfast.left" {
				line += " " + a.Value.Emit()
			}
		}
		if s.Status().Code == codes.Error {
			line += " failed"
		}
		if s.Name() != "caller" {
			told = append(told, line)
		}
	}
	want := "lock true withdrawn orders/42 default; lock true acquired orders/42 default; lock at risk true orders/43 default max_hold; lock true acquired orders/43 default max_hold failed"
	if got := strings.Join(told, "; "); got != want {
		t.Errorf("spans %s\nwant  %s", got, want)
	}

	var data metricdata.ResourceMetrics
	iferr.Fatal(t, reader.Collect(t.Context(), &data))
	counted := map[string]any{}
	for _, m := range data.ScopeMetrics[0].Metrics {
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			counted[m.Name] = d.DataPoints[0].Value
		case metricdata.Histogram[float64]:
			counted[m.Name] = d.DataPoints[0].Count
		}
		if strings.Contains(fmt.Sprint(m.Data), "orders") {
			t.Errorf("the lock's name is in %+v", m)
		}
	}
	if got, want := fmt.Sprint(counted), "map[holdfast.lock.at_risk:1 holdfast.lock.held:0 holdfast.lock.hold:2 holdfast.lock.lost:1 holdfast.lock.wait:2 holdfast.lock.waiting:0 holdfast.lock.withdrawn:1]"; got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
}

// TestLostWithoutReason: an EventLost without a reason, which no client reports, does not make Observe
// panic.
func TestLostWithoutReason(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	o, err := observe.New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), nil)
	iferr.Fatal(t, err)
	o.Observe(t.Context(), lock.Event{Kind: lock.EventLost})
	if got := spans.Ended(); len(got) != 1 || got[0].Status().Code != codes.Error || got[0].Status().Description != lock.ErrLost.Error() {
		t.Errorf("spans %v", got)
	}
}

// TestOthers: a hold at risk has a span, and purges and displacements are counted. An observer
// without providers, and unknown events, do not panic.
func TestOthers(t *testing.T) {
	spans, reader := tracetest.NewSpanRecorder(), metric.NewManualReader()
	both, err := observe.New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), metric.NewMeterProvider(metric.WithReader(reader)))
	iferr.Fatal(t, err)
	neither, err := observe.New(nil, nil)
	iferr.Fatal(t, err)
	for _, e := range []lock.Event{
		{Kind: lock.EventAtRisk, Policy: "jobs", Reason: lock.ErrMaxHold, Left: time.Second},
		{Kind: lock.EventPurged, Policy: "jobs"}, {Kind: lock.EventDisplaced, By: time.Hour}, {}, {Kind: 255},
	} {
		both.Observe(t.Context(), e)
		neither.Observe(t.Context(), e)
	}
	if got := spans.Ended(); len(got) != 1 || got[0].Name() != "lock at risk" || !got[0].StartTime().Equal(got[0].EndTime()) {
		t.Errorf("spans %v", got)
	}
	var data metricdata.ResourceMetrics
	iferr.Fatal(t, reader.Collect(t.Context(), &data))
	if n := len(data.ScopeMetrics[0].Metrics); n != 3 {
		t.Errorf("%d metrics: %+v", n, data)
	}
}
