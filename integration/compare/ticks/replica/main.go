// Replica runs a job that is due each second: a process of make compare KIND=ticks, which builds it
// with another time.Now.
package main

import "github.com/holdfast-io/holdfast/integration/compare/ticks"

func main() { ticks.Serve() }
