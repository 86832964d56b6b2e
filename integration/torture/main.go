// Torture runs workers that take locks, each in a process of its own, on an ensemble of three
// ZooKeeper servers. It injects faults into the workers and the servers, and judges the results:
//
//	torture [-duration 2m] [-seed N]
//
// The exit status is 0 if all promises were kept, 1 if not, and 2 if the result is unknown. If the
// result is unknown because the servers' data differed, the last line begins with "VOID: ".
// README.md explains the figures.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
)

func main() {
	if crew.Serve(workerEnv, work) {
		return
	}
	duration := flag.Duration("duration", 2*time.Minute, "for how long faults are made")
	seed := flag.Uint64("seed", 0, "of all that is drawn; 0: a new one")
	flag.Parse()
	if flag.NArg() > 0 || *duration <= 0 {
		fmt.Fprintln(os.Stderr, "torture: no arguments and a positive -duration, please")
		os.Exit(exitUnknown)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends this process at once
	for try := 1; ; try++ {
		run := &torture{duration: *duration, seed: cmp.Or(*seed, uint64(rand.Uint32()))}
		status := run.main(ctx)
		if run.void == "" {
			os.Exit(status)
		}
		if try == tries {
			fmt.Printf("VOID: the servers of %d runs did not agree on their data, so nothing is known of the locks: neither a pass nor a failure\n", tries)
			os.Exit(status)
		}
		fmt.Println("torture: again")
	}
}

// Exit statuses.
const (
	exitPassed  = 0
	exitFailed  = 1
	exitUnknown = 2 // the run failed, was interrupted, or is void
)

// tries is the number of runs, if all earlier ones are void.
const tries = 2
