package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
)

// servers is the number of servers of each system.
const servers = 3

// cluster has the servers of one system, by index.
type cluster interface {
	addrs() []string
	leader(ctx context.Context) (int, error)
	kill(i int) error
	restart(ctx context.Context, i int) error
	pause(i int) error
	resume(i int) error
	part(i int) error // from the other servers
	heal()
	stop() error
}

// zkCluster is an ensemble of ZooKeeper servers, each with a clock of its own.
type zkCluster struct {
	*zkserver.Ensemble
	clocks []*zkserver.Clock
}

func startZooKeeper(ctx context.Context, dir string) (*zkCluster, error) {
	installation, err := zkserver.FindFixed(ctx)
	if err != nil {
		return nil, err
	}
	c := new(zkCluster)
	opts := zkserver.Options{Installation: installation, Links: true, Config: []string{"syncLimit=4", "initLimit=20"}} // in ticks of 0.5 s
	for i := range servers {
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
	c.Ensemble, err = zkserver.StartEnsemble(ctx, servers, opts)
	return c, err
}

func (c *zkCluster) addrs() []string { return c.Addrs() }

func (c *zkCluster) leader(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	s, err := c.Leader(ctx)
	return slices.Index(c.Servers(), s), err
}

func (c *zkCluster) kill(i int) error { c.Servers()[i].Kill(); return nil }
func (c *zkCluster) restart(ctx context.Context, i int) error {
	return c.Servers()[i].Restart(ctx)
}
func (c *zkCluster) pause(i int) error  { return c.Servers()[i].Pause() }
func (c *zkCluster) resume(i int) error { return c.Servers()[i].Resume() }
func (c *zkCluster) part(i int) error   { c.Isolate(c.Servers()[i]); return nil }
func (c *zkCluster) heal()              { c.Heal() }
func (c *zkCluster) stop() error        { return c.Stop() }

// step sets how far a server's clock is ahead.
func (c *zkCluster) step(i int, ahead time.Duration) error { return c.clocks[i].Step(ahead) }

// audit audits the servers' transaction logs. If the servers disagree on their data, it returns an
// error.
func (c *zkCluster) audit(ctx context.Context) (*audit.Findings, error) {
	var dirs []string
	for _, s := range c.Servers() {
		dirs = append(dirs, s.DataDir())
	}
	logs, err := txnlog.Open(dirs...)
	if err != nil {
		return nil, err
	}
	found, err := audit.Logs(ctx, logs, time.Time{}, audit.Options{Grace: grace, Skew: mostStep})
	if err == nil && found.Disagree != 0 {
		err = errors.New("the servers of Holdfast disagree on their data, which is a fault of ZooKeeper's: the run proves nothing")
	}
	return found, err
}
