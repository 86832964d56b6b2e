// Tickrace runs the same job, due each second, by package schedule and by gocron v2 with locks on
// Redis. Each has several replicas, as processes. The same faults hit all replicas at the same
// moments, and the wall clocks of most replicas are hours off:
//
//	tickrace [-duration 10m] [-seed N] [-servers 1] [-out FILE]
//	tickrace -from FILE
//
// It counts which ticks ran, and prints a table; README.md explains it. The exit status is 1 if
// package schedule broke a promise, and 2 if the race could not be run. It must run in the folder
// of its module, because it builds the replicas.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Exit statuses.
const (
	exitBroken  = 1
	exitUnknown = 2
)

func main() {
	if config := os.Getenv(replicaEnv); config != "" {
		if err := runReplica(config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	os.Exit(command(ctx))
}

func command(ctx context.Context) int {
	duration := flag.Duration("duration", 10*time.Minute, "for how long faults are made")
	seed := flag.Uint64("seed", 0, "of the faults and the clocks; 0: a new one")
	servers := flag.Int("servers", 1, "ZooKeeper servers; with 3 or more the leader is killed at times, and so is Redis")
	out := flag.String("out", "", "add the result to this `FILE`")
	from := flag.String("from", "", "run nothing, print the table of the results in this `FILE`")
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		return unknown(fmt.Errorf("unexpected argument %q", flag.Arg(0)))
	case *duration < time.Second:
		return unknown(fmt.Errorf("-duration %v: must be at least a second", *duration))
	case *servers != 1 && *servers < 3:
		return unknown(fmt.Errorf("-servers %d: must be 1, or 3 or more", *servers))
	}
	var results []result
	var err error
	if *from != "" {
		results, err = readResults(*from)
	} else {
		var one result
		one, err = run(ctx, settings{Seed: cmp.Or(*seed, uint64(rand.Uint32())), Duration: *duration, Servers: *servers}, os.Stdout)
		results = []result{one}
		if err == nil && *out != "" {
			err = one.addTo(*out)
		}
	}
	if err != nil {
		return unknown(err)
	}
	fmt.Print("\n", table(results))
	var broken []error
	for _, r := range results {
		broken = append(broken, r.broken()...)
	}
	if len(broken) > 0 {
		fmt.Println("\nbroken:\n  " + strings.ReplaceAll(errors.Join(broken...).Error(), "\n", "\n  "))
		return exitBroken
	}
	return 0
}

func unknown(err error) int {
	fmt.Fprintln(os.Stderr, "tickrace:", err)
	return exitUnknown
}
