// Package otel has an observer that counts and traces locks with OpenTelemetry.
//
//	observer, err := otel.New(tracerProvider, meterProvider)
//	if err != nil {
//		return err
//	}
//	locks, err := lock.Dial(start, servers, lock.WithObserver(observer))
//
// A span "lock" lasts from the call until the lock was released or lost, with an event "acquired"
// at the grant. If the waiter gives up, the span ends then, with an event "withdrawn". The observer
// creates the span at its end, as a child of the span in the call's context. Its attributes are
// holdfast.lock (the lock's name), holdfast.policy, and after a grant holdfast.token. If the hold
// was lost, the span also has holdfast.reason, and an error as its status. When a hold becomes at
// risk, the observer makes a span "lock at risk" without duration, with holdfast.left in seconds.
//
// The metrics have the attribute holdfast.policy, the policy's name. They have no names of locks,
// because there may be any number of locks:
//
//	holdfast.lock.wait           histogram, s     time from the call to the grant
//	holdfast.lock.hold           histogram, s     time from the grant until the hold was unlocked or lost
//	holdfast.lock.waiting        up-down counter  waiters
//	holdfast.lock.held           up-down counter  holds that have not ended
//	holdfast.lock.withdrawn      counter          waits that were given up
//	holdfast.lock.at_risk        counter          times that a hold became at risk, by holdfast.reason
//	holdfast.lock.lost           counter          holds that were lost, by holdfast.reason
//	holdfast.lock.purged         counter          deleted expired entries of other contenders
//	holdfast.lock.displacements  counter          steps of the ZooKeeper leader's clock
//
// The package is a separate module, so the library does not depend on OpenTelemetry.
package otel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-io/holdfast/lock"
)

const scope = "github.com/holdfast-io/holdfast/lock/observe/otel"

// Observer is a [lock.Observer]. Make one with [New]. It has no state and is safe for concurrent
// use, also by several clients.
type Observer struct {
	tracer                                   trace.Tracer
	waited, held                             metric.Float64Histogram
	waiting, holding                         metric.Int64UpDownCounter
	withdrawn, atRisk, lost, purged, stepped metric.Int64Counter
}

// New returns an observer. If traces is nil, it makes no spans; if metrics is nil, it counts
// nothing. New fails if the meter refuses an instrument.
func New(traces trace.TracerProvider, metrics metric.MeterProvider) (*Observer, error) {
	if traces == nil {
		traces = tracenoop.NewTracerProvider()
	}
	if metrics == nil {
		metrics = metricnoop.NewMeterProvider()
	}
	m := metrics.Meter(scope)
	var failed []error
	histogram := func(name, help string) metric.Float64Histogram {
		h, err := m.Float64Histogram("holdfast.lock."+name, metric.WithDescription(help), metric.WithUnit("s"),
			metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 43200))
		failed = append(failed, err)
		return h
	}
	gauge := func(name, help string) metric.Int64UpDownCounter {
		c, err := m.Int64UpDownCounter("holdfast.lock."+name, metric.WithDescription(help))
		failed = append(failed, err)
		return c
	}
	counter := func(name, help string) metric.Int64Counter {
		c, err := m.Int64Counter("holdfast.lock."+name, metric.WithDescription(help))
		failed = append(failed, err)
		return c
	}
	o := &Observer{
		tracer:    traces.Tracer(scope),
		waited:    histogram("wait", "Time from the call until the lock was acquired."),
		held:      histogram("hold", "Time from when the lock was acquired until it was unlocked or lost."),
		waiting:   gauge("waiting", "Waiters for a lock."),
		holding:   gauge("held", "Holds that have not ended."),
		withdrawn: counter("withdrawn", "Waits that were given up."),
		atRisk:    counter("at_risk", "Times that a hold became at risk of being lost, by reason."),
		lost:      counter("lost", "Holds that were lost, by reason."),
		purged:    counter("purged", "Deleted expired entries of other contenders."),
		stepped:   counter("displacements", "Steps of the ZooKeeper leader's clock."),
	}
	return o, errors.Join(failed...)
}

// Observe counts an event. It makes a span if the event ends a wait or a hold, or warns of a risk.
func (o *Observer) Observe(ctx context.Context, e lock.Event) {
	o.count(ctx, e)
	if e.At.IsZero() { // the event does not come from a client
		e.At = time.Now()
	}
	o.trace(ctx, e, e.At)
}

func (o *Observer) count(ctx context.Context, e lock.Event) {
	policy := attribute.String("holdfast.policy", e.Policy)
	by := metric.WithAttributes(policy)
	reason := func() metric.MeasurementOption {
		return metric.WithAttributes(policy, attribute.String("holdfast.reason", e.ReasonLabel()))
	}
	switch e.Kind {
	case lock.EventWaiting:
		o.waiting.Add(ctx, 1, by)
	case lock.EventAcquired:
		if e.Queued {
			o.waiting.Add(ctx, -1, by)
		}
		o.waited.Record(ctx, e.Waited.Seconds(), by)
		o.holding.Add(ctx, 1, by)
	case lock.EventWithdrawn:
		o.waiting.Add(ctx, -1, by)
		o.withdrawn.Add(ctx, 1, by)
	case lock.EventAtRisk:
		o.atRisk.Add(ctx, 1, reason())
	case lock.EventReleased, lock.EventLost:
		o.holding.Add(ctx, -1, by)
		o.held.Record(ctx, e.Held.Seconds(), by)
		if e.Kind == lock.EventLost {
			o.lost.Add(ctx, 1, reason())
		}
	case lock.EventPurged:
		o.purged.Add(ctx, 1, by)
	case lock.EventDisplaced:
		o.stepped.Add(ctx, 1)
	}
}

// trace makes a span that ends at now, if the event ends a wait or a hold, or warns of a risk. The
// event has the times since the start of the span, so the observer keeps no state.
func (o *Observer) trace(ctx context.Context, e lock.Event, now time.Time) {
	attributes := []attribute.KeyValue{attribute.String("holdfast.lock", e.Lock), attribute.String("holdfast.policy", e.Policy)}
	if e.Token != (lock.Token{}) {
		attributes = append(attributes, attribute.String("holdfast.token", e.Token.String()))
	}
	if reason := e.ReasonLabel(); reason != "" {
		attributes = append(attributes, attribute.String("holdfast.reason", reason))
	}
	name, begun := "lock", now.Add(-e.Held-e.Waited)
	switch e.Kind {
	case lock.EventReleased, lock.EventLost, lock.EventWithdrawn:
	case lock.EventAtRisk:
		name, begun = "lock at risk", now
		attributes = append(attributes, attribute.Float64("holdfast.left", e.Left.Seconds()))
	default:
		return
	}
	_, span := o.tracer.Start(ctx, name, trace.WithTimestamp(begun), trace.WithAttributes(attributes...))
	switch e.Kind {
	case lock.EventReleased, lock.EventLost:
		span.AddEvent("acquired", trace.WithTimestamp(now.Add(-e.Held)))
	case lock.EventWithdrawn:
		span.AddEvent("withdrawn", trace.WithTimestamp(now))
	}
	if e.Kind == lock.EventLost {
		why := lock.ErrLost
		if e.Reason != nil { // nil: the event does not come from a client
			why = e.Reason
		}
		span.SetStatus(codes.Error, why.Error())
	}
	span.End(trace.WithTimestamp(now))
}
