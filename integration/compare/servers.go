package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// startPatience is the limit of waits for servers and processes, on a busy machine.
const startPatience = 5 * time.Minute

// cluster has the servers of a system, by index.
type cluster interface {
	addrs() []string
	leader(ctx context.Context) (int, error)
	kill(i int) error
	restart(ctx context.Context, i int) error
	pause(i int) error
	resume(i int) error
	part(i int) error // from the other servers
	heal(i int) error
	step(i int, ahead time.Duration) error // sets how far a server's clock is ahead
	stop() error
}

// given has servers that run already. No fault can be made of them. The other clusters inherit what
// they cannot do.
type given []string

func (g given) addrs() []string                   { return g }
func (given) leader(context.Context) (int, error) { return 0, nil }
func (given) kill(int) error                      { return nil }
func (given) restart(context.Context, int) error  { return nil }
func (given) pause(int) error                     { return nil }
func (given) resume(int) error                    { return nil }
func (given) part(int) error                      { return nil }
func (given) heal(int) error                      { return nil }
func (given) step(int, time.Duration) error       { return nil }
func (given) stop() error                         { return nil }

// zkCluster is an ensemble of ZooKeeper servers.
type zkCluster struct {
	*zkserver.Ensemble
	clocks []*zkserver.Clock // of each server; nil: the machine's
}

// startZooKeeper starts n servers without syncs of their logs to disk, and with clocks and links of
// their own if there are several.
func startZooKeeper(ctx context.Context, dir string, n int) (cluster, error) {
	installation, err := zkserver.FindFixed(ctx)
	if err != nil {
		return nil, err
	}
	c := new(zkCluster)
	opts := zkserver.Options{Installation: installation, Links: n > 1, Config: []string{"syncLimit=4", "initLimit=20"}} // in ticks of 0.5 s
	for i := 0; n > 1 && i < n; i++ {
		own := fmt.Sprintf("%s/clock%d", dir, i)
		if err := os.MkdirAll(own, 0o700); err != nil {
			return nil, err
		}
		clock, err := zkserver.NewClock(ctx, own, 0)
		if err != nil {
			return nil, err
		}
		c.clocks = append(c.clocks, clock)
		opts.MemberEnv = append(opts.MemberEnv, clock.Env())
	}
	c.Ensemble, err = zkserver.StartEnsemble(ctx, n, opts)
	return c, err
}

// startDurable starts n servers that sync each write to disk.
func startDurable(ctx context.Context, _ string, n int) (cluster, error) {
	e, err := zkserver.StartEnsemble(ctx, n, zkserver.Options{Fsync: true, Optimize: true})
	return &zkCluster{Ensemble: e}, err
}

func (c *zkCluster) addrs() []string { return c.Addrs() }

func (c *zkCluster) leader(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	s, err := c.Leader(ctx)
	return slices.Index(c.Servers(), s), err
}

func (c *zkCluster) kill(i int) error                         { c.Servers()[i].Kill(); return nil }
func (c *zkCluster) restart(ctx context.Context, i int) error { return c.Servers()[i].Restart(ctx) }
func (c *zkCluster) pause(i int) error                        { return c.Servers()[i].Pause() }
func (c *zkCluster) resume(i int) error                       { return c.Servers()[i].Resume() }
func (c *zkCluster) part(i int) error                         { c.Isolate(c.Servers()[i]); return nil }
func (c *zkCluster) heal(int) error                           { c.Heal(); return nil }
func (c *zkCluster) step(i int, ahead time.Duration) error    { return c.clocks[i].Step(ahead) }
func (c *zkCluster) stop() error                              { return c.Stop() }
