// The surroundings of the snippets of package prometheus, which are compiled in its module.
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
