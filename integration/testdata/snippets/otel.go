// The code that the snippets of package otel assume. The snippets are compiled in the package's
// module, but not run.
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
