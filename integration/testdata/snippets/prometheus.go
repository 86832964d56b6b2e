// The code that the snippets of package prometheus assume. The snippets are compiled in the
// package's module, but not run.
package main

import (
	"context"

	client "github.com/prometheus/client_golang/prometheus"
)

var (
	start    = context.Background()
	servers  []string
	registry = client.NewRegistry()
	_        = snippets
)

func main() {}
