// Compare shows what locks lose under the same faults: Holdfast's, zk.Lock of go-zookeeper, etcd's,
// and those of Curator, kazoo and gocron; and shards, beside a list of members.
//
//	compare [-kind locks] [-duration 60m] [-seed N] [-servers 3]
//
// It prints tables in Markdown; README.md explains them, and ends with published ones. The exit status is 1
// if Holdfast broke a promise, and 2 if the run could not be made or judged. Compare must run in the folder of
// its module.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/peers"
)

const (
	exitBroken  = 1
	exitUnknown = 2
)

// kind is what is compared, and how: clients of all peers work under the same faults, or play scenarios.
type kind struct {
	name, title string
	duration    time.Duration // for which faults are made
	servers     int           // ZooKeeper's, and etcd's
	peers       []peer

	clients int // of each peer
	faults  func(faults) []crew.Series
	// due returns what breaks a promise if it lasts. Until there is nothing, faults do not begin, and
	// clients do not end.
	due  func(s *system, p period) breaches
	head []string
	// judge returns a system's rows of the table, and what Holdfast would have broken.
	judge func(s *system, p period) (rows [][]any, broken breaches)
	grace time.Duration // of the locks whose servers' log is audited; 0: none is

	scenarios []scenario
}

// kinds has the kinds, with the default duration and number of servers.
var kinds = []kind{
	{name: "locks", title: "Locks under faults", duration: time.Hour, servers: 3, peers: lockPeers,
		clients: clients, faults: lockFaults, due: nothingDue, head: lockHead, judge: judgeLocks, grace: grace},
	{name: "flaps", title: "Flaps", duration: 15 * time.Second, servers: 1, peers: flapPeers, scenarios: scenarios},
	{name: "ticks", title: "A job each second", duration: 10 * time.Minute, servers: 1, peers: tickPeers,
		clients: clients, faults: tickFaults, due: ticksDue, head: tickHead, judge: judgeTicks},
	{name: "shards", title: "256 shards of eight processes", duration: 10 * time.Minute, servers: 1, peers: shardPeers,
		clients: processes, faults: shardFaults, due: sharesDue, head: shardHead, judge: judgeShards},
}

func kindIndex(name string) int {
	return slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
}

func main() {
	if child() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends this process at once
	os.Exit(command(ctx, os.Args[1:]))
}

// child reports whether this process was started as a client or as an etcd server. If so, child
// first does the work of the client or server until its end.
func child() bool {
	peers.ServeIfPeer()
	return crew.Serve(clientEnv, client.main) || crew.Serve(etcdEnv, serveEtcd)
}

func command(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	name := flags.String("kind", "locks", "what is compared: locks, flaps, ticks or shards")
	duration := flags.Duration("duration", 0, "for how long faults are made; 0: as the kind has it")
	seed := flags.Uint64("seed", 0, "of all that is drawn; 0: a new one")
	servers := flags.Int("servers", 0, "ZooKeeper servers; with one, only clients have faults; 0: as the kind has it")
	if err := flags.Parse(args); err != nil {
		return exitUnknown
	}
	i := kindIndex(*name)
	switch {
	case flags.NArg() > 0:
		return unknown(fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	case i < 0:
		return unknown(fmt.Errorf("-kind %q: must be locks, flaps, ticks or shards", *name))
	case *servers != 0 && *servers != 1 && *servers != 3:
		return unknown(fmt.Errorf("-servers %d: must be 1 or 3", *servers))
	}
	k := kinds[i]
	k.duration, k.servers = cmp.Or(*duration, k.duration), cmp.Or(*servers, k.servers)
	r, err := k.run(ctx, cmp.Or(*seed, uint64(rand.Uint32())), os.Stderr)
	if r.tables != nil {
		fmt.Print(r.text())
	}
	if err != nil {
		return unknown(err)
	}
	if len(r.broken) > 0 {
		fmt.Fprintln(os.Stderr, "compare: broken:\n  "+strings.Join(r.broken, "\n  "))
		return exitBroken
	}
	fmt.Fprintln(os.Stderr, "compare: Holdfast kept its promises")
	return 0
}

func unknown(err error) int {
	fmt.Fprintln(os.Stderr, "compare: nothing was found out:", err)
	return exitUnknown
}
