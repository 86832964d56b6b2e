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

	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// server is the system on which the clients lock: one ZooKeeper server, an ensemble, or another
// system.
type server struct {
	addr    string // address for clients: host:port, several separated by commas
	version string // name and version of the system
	// transactions counts the transactions in the log so far, requests the requests of all clients
	// so far, and queued the contenders for a lock, holders included. requests and queued are nil
	// if the system cannot count them.
	transactions func(ctx context.Context) (int64, error)
	requests     func(ctx context.Context) (float64, error)
	queued       func(ctx context.Context, path string) (int, error)
	close        func() error
}

// relays returns a relay to each of the server's addresses.
func (s *server) relays(opts zkserver.RelayOptions) (zkserver.Relays, error) {
	return zkserver.NewRelays(strings.Split(s.addr, ","), opts)
}

// Variants of the number and the distance of the servers.
const (
	standalone = "standalone"
	three      = "three" // a ZooKeeper ensemble
	delayed    = "delay" // one server, with roundTrip added to each reply
)

// roundTrip is the delay of the far server's replies.
const roundTrip = time.Millisecond

const loopback = ", loopback"

// on changes the experiment's variant, title and bars, and returns the experiment.
func (e *experiment) on(variant string, bars ...bar) *experiment {
	e.variant, e.Bars = variant, bars
	e.Title = strings.TrimSuffix(e.Title, loopback) + map[string]string{
		three:   ", three servers on loopback",
		delayed: fmt.Sprintf(", %v more for each round trip", roundTrip),
	}[variant]
	return e
}

// elsewhere returns the experiments on other variants than standalone that the functions of the
// other workloads do not return.
func elsewhere(s size) []*experiment {
	const queue = 16
	list := []*experiment{
		many(64).on(delayed),
		handoffAmong(queue, shortHold).on(delayed),
		free(freeNear).on(three),
		many(64).on(three),
		handoffAmong(queue, shortHold).on(three),
	}
	bars := asOften
	if s.quick { // with bars, a quick run would include these experiments
		bars = nil
	} else {
		few := bar{Figure: 2, Limit: 0.1, Counted: true}
		list = append(list,
			many(256).on(delayed, bar{Figure: 0, Against: zkLockName, Least: true, Limit: 1.5}, few),
			many(256).on(three, bar{Figure: 0, Against: zkLockName, Least: true, Limit: 2.4}, few))
	}
	for _, n := range s.queues {
		if (n >= queue || !s.quick) && n <= mostOfAll {
			list = append(list, handoffAmong(n, 0).on(three, bars...))
		}
	}
	return list
}

// site is where the clients of a peer connect in an experiment.
type site struct {
	*bench
	on *server // the system on which the clients lock
	at string  // address for the clients
}

// site returns the site of a peer on a variant. It starts the variant's ensemble or relays when
// they are first needed.
func (b *bench) site(ctx context.Context, variant string, p *peer) (_ *site, err error) {
	on := cmp.Or(p.server, b.zookeeper.server)
	if variant == three {
		if b.three == nil {
			if b.three, err = startZooKeeper(ctx, 3, 1024); err != nil {
				return nil, err
			}
		}
		on = b.three.server
	}
	if variant != delayed {
		return &site{b, on, on.addr}, nil
	}
	if b.far[on] == nil {
		if b.far[on], err = on.relays(zkserver.RelayOptions{Delay: roundTrip}); err != nil {
			return nil, err
		}
	}
	return &site{b, on, strings.Join(b.far[on].Addrs(), ",")}, nil
}

// zookeeper is a server, or an ensemble. The leader is last, so that the first client connects to a
// follower, as most clients do.
type zookeeper struct {
	*server
	members []*zkserver.Server
	leader  *zkserver.Server
	look    *plain // session that reads the servers' state

	questions int // number of queries of this program that the members have counted
}

// startZooKeeper starts n servers, each with a heap of the given MiB. They sync their logs, as in
// production.
func startZooKeeper(ctx context.Context, n, heap int) (_ *zookeeper, err error) {
	options := zkserver.Options{Fsync: true, Optimize: true, HeapMB: heap, TickTime: 2 * time.Second}
	ensemble, err := zkserver.StartEnsemble(ctx, n, options)
	if err != nil {
		return nil, err
	}
	stop := ensemble.Stop
	leader, err := ensemble.Leader(ctx)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	z := &zookeeper{leader: leader}
	z.members = slices.DeleteFunc(slices.Clone(ensemble.Servers()), func(s *zkserver.Server) bool { return s == leader })
	z.members = append(z.members, leader)
	var addrs []string
	for _, m := range z.members {
		addrs = append(addrs, m.Addr())
	}
	z.server = &server{addr: strings.Join(addrs, ","), transactions: z.transactions, requests: z.requests, queued: z.queued, close: stop}
	stats, err := leader.Mntr(ctx)
	if err == nil {
		z.version, _, _ = strings.Cut(stats["zk_version"], "-")
		z.look, err = openPlain(ctx, leader.Addr())
	}
	if err == nil {
		_, err = z.look.Create(root, nil, 0, acl)
	}
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	z.close = func() error { return errors.Join(z.look.hangUp(), stop()) }
	return z, nil
}

// transactions returns the leader's last zxid; the difference of two counts transactions. The
// leader applies a transaction before its followers do.
func (z *zookeeper) transactions(ctx context.Context) (int64, error) {
	z.questions++
	return z.leader.Zxid(ctx)
}

// requests returns the number of requests that the members have received from all clients, with
// their pings. The members also count this program's queries, so these are subtracted.
func (z *zookeeper) requests(ctx context.Context) (float64, error) {
	sum := float64(-z.questions)
	for _, m := range z.members {
		z.questions++
		n, err := statistic(ctx, m, "zk_packets_received")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// watches returns the number of watches of clients at the leader.
func (z *zookeeper) watches(ctx context.Context) (float64, error) {
	return statistic(ctx, z.leader, "zk_watch_count")
}

// awaitWatches waits until clients have n watches at the leader. A waiter has joined once it
// watches its predecessor.
func (z *zookeeper) awaitWatches(ctx context.Context, n int) error {
	return wait.Until(ctx, patience, "all wait", func() (bool, error) {
		watches, err := z.watches(ctx)
		return watches == float64(n), err
	})
}

// statistic returns the number with the given name in a member's answer to mntr.
func statistic(ctx context.Context, member *zkserver.Server, name string) (float64, error) {
	stats, err := member.Mntr(ctx)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(stats[name], 64)
}

func (z *zookeeper) queued(_ context.Context, path string) (int, error) {
	children, _, err := z.look.Children(path)
	return len(znode.Contenders(children)), err
}
