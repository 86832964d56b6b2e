// Jepsen runs the lock workloads of Jepsen's tests of etcd and of Hazelcast against Holdfast,
// go-zookeeper's zk.Lock and etcd's locks, each on three servers of its own. The same faults hit
// all three systems at the same time:
//
//	jepsen [-duration 60m] [-seed N] [-update]
//	jepsen -from FILE [-update]
//
// It counts the failures of each system, and prints a table; README.md explains it. The exit status
// is 1 if Holdfast broke a promise, and 2 if the run could not be made or judged.
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

// Files of this folder.
const (
	page        = "README.md"
	resultsFile = "results.jsonl"
)

func main() {
	if child() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends this process at once
	os.Exit(command(ctx))
}

// child reports whether this process was started as a client or as an etcd server. If so, child
// first does the work of the client or server until its end. An error ends the process with status
// 1.
func child() bool {
	run, config := work, os.Getenv(workerEnv)
	if config == "" {
		run, config = serveEtcd, os.Getenv(etcdEnv)
	}
	if config == "" {
		return false
	}
	if err := run(config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func command(ctx context.Context) int {
	duration := flag.Duration("duration", time.Hour, "for how long faults are made")
	seed := flag.Uint64("seed", 0, "of all that is drawn; 0: a new one")
	from := flag.String("from", "", "run nothing, print the table of the results in this `FILE`")
	update := flag.Bool("update", false, "write the results to "+resultsFile+" and "+page+" of the present folder")
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		return unknown(fmt.Errorf("unexpected argument %q", flag.Arg(0)))
	case *duration < time.Second:
		return unknown(fmt.Errorf("-duration %v: must be at least a second", *duration))
	}
	var results []result
	var err error
	if *from != "" {
		results, err = readResults(*from)
	} else {
		var one *result
		if one, err = run(ctx, cmp.Or(*seed, uint64(rand.Uint32())), *duration, os.Stdout); err == nil {
			results = []result{*one}
		}
	}
	if err == nil && *from == "" && len(results[0].Faults) == 0 {
		err = errors.New("there was no time for a fault")
	}
	if err != nil {
		return unknown(err)
	}
	fmt.Print("\n", table(results))
	var broken []string
	for _, r := range results {
		broken = append(broken, r.broken()...)
	}
	if *update && len(broken) == 0 {
		if err := publish(".", results); err != nil {
			return unknown(err)
		}
	}
	if len(broken) > 0 {
		fmt.Println("\nbroken:\n  " + strings.Join(broken, "\n  "))
		return exitBroken
	}
	return 0
}

func unknown(err error) int {
	fmt.Fprintln(os.Stderr, "jepsen: nothing was found out:", err)
	return exitUnknown
}
