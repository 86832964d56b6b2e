// Replica runs a job that is due each second: a process of make compare KIND=ticks, which builds it
// with another time.Now.
package main

import (
	"fmt"
	"os"

	"github.com/holdfast-io/holdfast/integration/compare/ticks"
)

func main() {
	if err := ticks.Serve(os.Getenv(ticks.ReplicaEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
