package crew

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// StartPatience is the limit of waits for servers and processes, on a busy machine.
const StartPatience = 5 * time.Minute

// Cluster has servers, by index.
type Cluster interface {
	Addrs() []string
	Leader(ctx context.Context) (int, error) // waits until there is one
	Kill(i int) error
	Restart(ctx context.Context, i int) error // stops it first if it runs
	Pause(i int) error
	Resume(i int) error
	Part(i int) error // from the other servers
	Heal(i int) error
	Step(i int, ahead time.Duration) error // sets how far a server's clock is ahead
	Version() string
	Stop() error
}

// Given has servers that run already. No fault can be made of them. Other clusters inherit what they
// cannot do.
type Given []string

func (g Given) Addrs() []string                   { return g }
func (Given) Leader(context.Context) (int, error) { return 0, nil }
func (Given) Kill(int) error                      { return nil }
func (Given) Restart(context.Context, int) error  { return nil }
func (Given) Pause(int) error                     { return nil }
func (Given) Resume(int) error                    { return nil }
func (Given) Part(int) error                      { return nil }
func (Given) Heal(int) error                      { return nil }
func (Given) Step(int, time.Duration) error       { return nil }
func (Given) Version() string                     { return "" }
func (Given) Stop() error                         { return nil }

// ZooKeeper is an ensemble of servers. Methods that a fault calls must not be called concurrently.
type ZooKeeper struct {
	*zkserver.Ensemble
	Release zkserver.Version
	Clocks  []*zkserver.Clock // of each server; nil: the machine's
	Changes int               // of the leader, between the calls of Leader

	led int
}

// Clocks makes clocks that are ahead by the given times, for [Start]. They keep files in dir.
func Clocks(ctx context.Context, dir string, ahead ...time.Duration) (clocks []*zkserver.Clock, err error) {
	for i, d := range ahead {
		own := filepath.Join(dir, fmt.Sprint("clock", i))
		if err := os.MkdirAll(own, 0o700); err != nil {
			return nil, err
		}
		c, err := zkserver.NewClock(ctx, own, d)
		if err != nil {
			return nil, err
		}
		clocks = append(clocks, c)
	}
	return clocks, nil
}

// Start starts n servers of a release that does not diverge, if there is one. clocks may be nil.
func Start(ctx context.Context, n int, clocks []*zkserver.Clock, opts zkserver.Options) (*ZooKeeper, error) {
	for _, c := range clocks {
		opts.MemberEnv = append(opts.MemberEnv, c.Env())
	}
	opts.JVMArgs = append(opts.JVMArgs, "-Dzookeeper.preAllocSize=1024") // so that the logs that KeepLogs copies are short
	z := &ZooKeeper{Clocks: clocks, led: -1}
	var err error
	if opts.Installation, err = zkserver.FindFixed(ctx); err != nil {
		return nil, err
	}
	if z.Ensemble, err = zkserver.StartEnsemble(ctx, n, opts); err != nil {
		return nil, err
	}
	if z.Release, err = z.Servers()[0].Version(ctx); err != nil {
		return nil, errors.Join(err, z.Stop())
	}
	return z, nil
}

// Leader waits until there is a leader, and returns its index.
func (z *ZooKeeper) Leader(ctx context.Context) (int, error) {
	s, err := z.Ensemble.Leader(ctx)
	if err != nil {
		return 0, err
	}
	i := slices.Index(z.Servers(), s)
	if z.led >= 0 && z.led != i {
		z.Changes++
	}
	z.led = i
	return i, nil
}

// Restart starts a server, also if it runs. Without a quorum it waits for the others.
func (z *ZooKeeper) Restart(ctx context.Context, i int) (err error) {
	for range 3 { // on a slow machine one server may not serve in time
		if err = z.Servers()[i].Restart(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

func (z *ZooKeeper) Kill(i int) error                      { z.Servers()[i].Kill(); return nil }
func (z *ZooKeeper) Pause(i int) error                     { return z.Servers()[i].Pause() }
func (z *ZooKeeper) Resume(i int) error                    { return z.Servers()[i].Resume() }
func (z *ZooKeeper) Part(i int) error                      { z.Isolate(z.Servers()[i]); return nil }
func (z *ZooKeeper) Heal(int) error                        { z.Ensemble.Heal(); return nil }
func (z *ZooKeeper) Step(i int, ahead time.Duration) error { return z.Clocks[i].Step(ahead) }
func (z *ZooKeeper) Version() string                       { return "ZooKeeper " + z.Release.String() }
