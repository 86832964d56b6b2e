// The surroundings of the snippets of package otel, which are compiled in its module.
package main

import (
	"context"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

var (
	start          = context.Background()
	servers        []string
	tracerProvider trace.TracerProvider
	meterProvider  metric.MeterProvider
	_              = snippets
)

func main() {}
