// Compare shows what locks lose under the same faults: Holdfast's, zk.Lock of go-zookeeper, etcd's,
// and those of Curator, kazoo and gocron; and shards, beside a list of members.
//
//	compare [-kind locks] [-duration 60m] [-seed N] [-servers 3] [-peers holdfast,etcd] [-update]
//
// It prints tables; README.md explains them. The exit status is 1 if Holdfast broke a promise, and 2
// if the run could not be made or judged. Compare must run in the folder of its module.
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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/compare/ticks"
	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/peers"
)

// Exit statuses.
const (
	exitBroken  = 1
	exitUnknown = 2
)

// kind is what is compared, and how.
type kind struct {
	name, title string
	duration    time.Duration // default
	servers     int           // default; ZooKeeper's, and etcd's
	peers       []string      // all that can take part
	// play runs the peers, and fills in the tables and the broken promises.
	play func(ctx context.Context, r *run, peers []string) error
}

var kinds = []kind{
	{"locks", "Locks under faults", time.Hour, 3, namesOf(lockPeers, func(p lockPeer) string { return p.name }), playLocks},
	{"flaps", "Flaps", time.Second, 1, namesOf(contenders, func(c contender) string { return c.title }), playFlaps},
	{"ticks", "A job each second", 10 * time.Minute, 1, namesOf(ticks.Groups, func(g ticks.Group) string { return g.Name }), playTicks},
	{"shards", "256 shards of eight processes", 10 * time.Minute, 1, namesOf(shardPeers, func(p shardPeer) string { return p.name }), playShards},
}

func namesOf[T any](all []T, name func(T) string) (names []string) {
	for _, one := range all {
		names = append(names, name(one))
	}
	return names
}

func kindIndex(name string) int {
	return slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
}

// choose returns the peers of the kind that a list names. A name stands for all peers whose names
// have it before the first comma. The empty list names all.
func (k kind) choose(list string) (chosen []string, err error) {
	short := func(name string) string { name, _, _ = strings.Cut(name, ","); return strings.ToLower(name) }
	named := strings.Split(strings.ToLower(list), ",")
	for _, name := range named {
		if list != "" && !slices.ContainsFunc(k.peers, func(p string) bool { return short(p) == name }) {
			return nil, fmt.Errorf("-peers: unknown peer %q of %s; there are %s", name, k.name, strings.Join(k.peers, "; "))
		}
	}
	return slices.DeleteFunc(slices.Clone(k.peers), func(p string) bool { return list != "" && !slices.Contains(named, short(p)) }), nil
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
	return crew.Serve(clientEnv, client.work) || crew.Serve(etcdEnv, serveEtcd)
}

func command(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	name := flags.String("kind", "locks", "what is compared: locks, flaps, ticks or shards")
	duration := flags.Duration("duration", 0, "for how long faults are made; 0: as the kind has it")
	seed := flags.Uint64("seed", 0, "of all that is drawn; 0: a new one")
	servers := flags.Int("servers", 0, "ZooKeeper servers; with one, only clients have faults; 0: as the kind has it")
	list := flags.String("peers", "", "the peers that take part, comma separated `names`; empty: all")
	update := flags.Bool("update", false, "write the result to "+resultsFile+" and "+page+" of the present folder")
	if err := flags.Parse(args); err != nil {
		return exitUnknown
	}
	i := kindIndex(*name)
	switch {
	case flags.NArg() > 0:
		return unknown(fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	case i < 0:
		return unknown(fmt.Errorf("-kind %q: must be locks, flaps, ticks or shards", *name))
	case *duration != 0 && *duration < time.Second:
		return unknown(fmt.Errorf("-duration %v: must be at least a second", *duration))
	case *servers != 0 && *servers != 1 && *servers != 3:
		return unknown(fmt.Errorf("-servers %d: must be 1 or 3", *servers))
	case *servers == 3 && *name == "flaps":
		return unknown(errors.New("-servers 3: flaps has one server"))
	}
	k := kinds[i]
	chosen, err := k.choose(*list)
	if err != nil {
		return unknown(err)
	}
	if *name != "flaps" { // nothing of flaps is drawn
		*seed = cmp.Or(*seed, uint64(rand.Uint32()))
	}
	r, err := k.run(ctx, settings{k.name, *seed, cmp.Or(*duration, k.duration), cmp.Or(*servers, k.servers)}, chosen, os.Stdout)
	if err == nil && !slices.ContainsFunc(chosen, ours) {
		err = errors.New("no Holdfast took part: its promises were not put to the test")
	}
	if err != nil {
		return unknown(err)
	}
	if len(r.broken) > 0 {
		fmt.Println("\nbroken:\n  " + strings.Join(r.broken, "\n  "))
		return exitBroken
	}
	fmt.Println("\nHoldfast kept its promises.")
	if *update {
		if err := publish(".", r.result); err != nil {
			return unknown(err)
		}
	}
	return 0
}

func unknown(err error) int {
	fmt.Fprintln(os.Stderr, "compare: nothing was found out:", err)
	return exitUnknown
}
