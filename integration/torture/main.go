// Torture runs workers that take locks, each a process of its own, against an
// ensemble of three ZooKeeper servers, breaks both for a while in every way it
// knows, and judges what came of it:
//
//	torture [-duration 2m] [-seed N] [-workers 8] [-keep DIR]
//
// The exit status is 0 if all is as it must be, 1 if it is not, and 2 if that
// could not be found out; where the servers are to blame for that, the last line
// begins with "VOID: ". README.md tells what the figures mean.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if config := os.Getenv(workerEnv); config != "" {
		if err := work(config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var t torture
	flag.DurationVar(&t.duration, "duration", 2*time.Minute, "for how long faults are made")
	flag.Uint64Var(&t.seed, "seed", 0, "of all that is drawn; 0: a new one")
	flag.IntVar(&t.workers, "workers", 8, "number of client processes")
	flag.StringVar(&t.keep, "keep", "integration/artifacts", "`folder` in which a run that failed is kept")
	flag.Parse()
	if flag.NArg() > 0 || t.duration <= 0 || t.workers < 2 || t.workers > faultStream {
		fmt.Fprintf(os.Stderr, "torture: no arguments, a positive -duration and 2 to %d -workers, please\n", faultStream)
		os.Exit(exitUnknown)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	for try := 1; ; try++ {
		run := &torture{duration: t.duration, seed: t.seed, workers: t.workers, keep: t.keep}
		if run.seed == 0 {
			run.seed = uint64(rand.Uint32())
		}
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
	exitUnknown = 2 // nothing was found out
)

// tries is how often a run is made that is void.
const tries = 2
