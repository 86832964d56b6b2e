package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// server is what clients lock with: a ZooKeeper server, an ensemble of them, or
// another system.
type server interface {
	// addr is where clients connect: host:port, several separated by commas.
	addr() string
	// transactions tells how many are in its log so far.
	transactions(ctx context.Context) (int64, error)
	close() error
}

// queueing is a server that can tell how many queue for a lock, the holder
// included.
type queueing interface {
	queued(ctx context.Context, path string) (int, error)
}

// Variants are how many servers there are and how far away.
const (
	standalone = "standalone"
	three      = "three" // of ZooKeeper: an ensemble
	delayed    = "delay" // one, each of whose replies takes roundTrip longer
)

// on lets an experiment run on another variant. It has no bars there, other than
// those that are given.
func (e *experiment) on(variant string, bars ...bar) *experiment {
	e.variant, e.bars = variant, bars
	e.title = strings.TrimSuffix(e.title, loopback) + map[string]string{
		three:   ", three servers on loopback",
		delayed: fmt.Sprintf(", %v more for each round trip", roundTrip),
	}[variant]
	return e
}

const loopback = ", loopback"

// elsewhere returns the experiments on other variants than one server nearby.
func elsewhere(s size) []*experiment {
	queue := slices.Max(slices.DeleteFunc(slices.Clone(s.queues), func(n int) bool { return n > 16 }))
	list := []*experiment{
		many(64).on(delayed),
		handoff(queue, shortHold).on(delayed),
		free(freeNear).on(three),
		many(64).on(three),
		handoff(queue, shortHold).on(three),
	}
	bars := asOften
	if s.quick { // and what has a bar takes part
		bars = nil
	}
	for _, n := range s.queues {
		if (n >= queue || !s.quick) && n <= mostOfAll {
			list = append(list, handoff(n, 0).on(three, bars...))
		}
	}
	return list
}

// chooseVariants returns the experiments on the variants of those names. Without
// any it returns all, or only those nearby and those with a bar if it is to be quick.
func chooseVariants(list []*experiment, names string, quick bool) ([]*experiment, error) {
	if names == "" {
		return slices.DeleteFunc(list, func(e *experiment) bool { return quick && e.variant != "" && e.bars == nil }), nil
	}
	all := []string{standalone, delayed, three}
	chosen := strings.Split(names, ",")
	for _, name := range chosen {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("-variants: unknown variant %q; there are %s", name, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(list, func(e *experiment) bool {
		return !slices.Contains(chosen, cmp.Or(e.variant, standalone))
	}), nil
}

// roundTrip is what the far server's replies take longer.
const roundTrip = time.Millisecond

// relays returns those to each of a server's addresses.
func relays(to server, opts zkserver.RelayOptions) (zkserver.Relays, error) {
	return zkserver.NewRelays(strings.Split(to.addr(), ","), opts)
}

// servers are those that have been started, and the ways to them.
type servers struct {
	three *zookeeper
	far   map[server]zkserver.Relays
}

// site returns what the clients of a peer connect to in an experiment: the bench
// as seen from there. What is not there yet, it starts.
func (b *bench) site(ctx context.Context, e *experiment, p *peer) (*bench, error) {
	at := *b
	if p.server != nil {
		at.on = p.server
	}
	switch e.variant {
	case three:
		if b.servers.three == nil {
			var err error
			if b.servers.three, err = startZooKeeper(ctx, 3, 1024); err != nil {
				return nil, err
			}
		}
		at.on = b.servers.three
		at.at = at.on.addr()
	case delayed:
		if b.servers.far[at.on] == nil {
			way, err := relays(at.on, zkserver.RelayOptions{Delay: roundTrip})
			if err != nil {
				return nil, err
			}
			b.servers.far[at.on] = way
		}
		at.at = strings.Join(b.servers.far[at.on].Addrs(), ",")
	default:
		at.at = at.on.addr()
	}
	return &at, nil
}

func (s *servers) close() error {
	for _, way := range s.far {
		way.Close()
	}
	if s.three == nil {
		return nil
	}
	return s.three.close()
}

// zookeeper is a server, or an ensemble with the leader at the end: the first
// client connects to a follower, as most do.
type zookeeper struct {
	members []*zkserver.Server
	stop    func() error
	look    *plain // to look with
	version string

	questions int64 // of ours that the members have counted
}

// startZooKeeper starts n servers with heaps of so many MiB. They sync their logs, as in production.
func startZooKeeper(ctx context.Context, n, heap int) (_ *zookeeper, err error) {
	options := zkserver.Options{Fsync: true, Optimize: true, HeapMB: heap, TickTime: 2 * time.Second}
	z := new(zookeeper)
	if n == 1 {
		one, err := zkserver.Start(ctx, options)
		if err != nil {
			return nil, err
		}
		z.members, z.stop = []*zkserver.Server{one}, one.Stop
	} else {
		ensemble, err := zkserver.StartEnsemble(ctx, n, options)
		if err != nil {
			return nil, err
		}
		z.members, z.stop = slices.Clone(ensemble.Servers()), ensemble.Stop
		leader, err := ensemble.Leader(ctx)
		if err != nil {
			return nil, errors.Join(err, z.stop())
		}
		slices.SortStableFunc(z.members, func(a, b *zkserver.Server) int {
			return cmp.Compare(place(a, leader), place(b, leader))
		})
	}
	stats, err := z.leader().Mntr(ctx)
	if err == nil {
		z.version, _, _ = strings.Cut(stats["zk_version"], "-")
		z.look, err = openPlain(ctx, z.leader().Addr())
	}
	if err != nil {
		return nil, errors.Join(err, z.stop())
	}
	if _, err := z.look.conn.Create(root, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		return nil, errors.Join(err, z.close())
	}
	return z, nil
}

// place is 1 for the leader and 0 for a follower.
func place(s, leader *zkserver.Server) int {
	if s == leader {
		return 1
	}
	return 0
}

func (z *zookeeper) leader() *zkserver.Server { return z.members[len(z.members)-1] }

func (z *zookeeper) addr() string {
	var addrs []string
	for _, m := range z.members {
		addrs = append(addrs, m.Addr())
	}
	return strings.Join(addrs, ",")
}

// transactions asks the leader, which knows of all before any other server.
func (z *zookeeper) transactions(ctx context.Context) (int64, error) {
	z.questions++
	return z.leader().Zxid(ctx)
}

// requests tells how many requests the members have received of all clients, their
// pings included. They count our questions too; those are taken off.
func (z *zookeeper) requests(ctx context.Context) (int64, error) {
	sum := -z.questions
	for _, m := range z.members {
		z.questions++
		stats, err := m.Mntr(ctx)
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseInt(stats["zk_packets_received"], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func (z *zookeeper) queued(_ context.Context, path string) (int, error) {
	children, _, err := z.look.conn.Children(path)
	if err != nil {
		return 0, err
	}
	return len(znode.Contenders(children)), nil
}

func (z *zookeeper) close() error { return errors.Join(z.look.close(), z.stop()) }
