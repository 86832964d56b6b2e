package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// startZooKeeper starts n servers that sync each write to disk, as all servers here do. Several ones have
// clocks and links of their own.
func startZooKeeper(ctx context.Context, dir string, n int) (crew.Cluster, error) {
	opts := zkserver.Options{Fsync: true, Optimize: true, Links: n > 1, Config: []string{"syncLimit=4", "initLimit=20"}} // in ticks of 0.5 s
	if n == 1 {
		return crew.Start(ctx, n, nil, opts)
	}
	clocks, err := crew.Clocks(ctx, dir, make([]time.Duration, n)...)
	if err != nil {
		return nil, err
	}
	return crew.Start(ctx, n, clocks, opts)
}

// programs is a cluster of processes. They end with this program, also if not all of them start.
type programs struct {
	crew.Given // their addresses
	team       crew.Team
	serves     func(ctx context.Context, i int) bool
}

func (p *programs) start(ctx context.Context, command func(i int) (*exec.Cmd, error)) error {
	err := p.team.Start(crew.Places{N: len(p.Given), Command: func(i, _ int, _ []string) (*exec.Cmd, error) { return command(i) }})
	for i := range p.team.Clients {
		err = errors.Join(err, p.await(ctx, i))
	}
	return err
}

func (p *programs) await(ctx context.Context, i int) error {
	return wait.Until(ctx, crew.StartPatience, "the server at "+p.Given[i]+" serves", func() (bool, error) {
		if died := p.team.Died(); len(died) > 0 {
			return false, errors.New(strings.Join(died, "; "))
		}
		return p.serves(ctx, i), nil
	})
}

// Restart starts a process that does not run, and waits until it serves.
func (p *programs) Restart(ctx context.Context, i int) error {
	if err := p.team.Clients[i].Start(); err != nil {
		return err
	}
	return p.await(ctx, i)
}

func (p *programs) Kill(i int) error   { p.team.Clients[i].Kill(); return nil }
func (p *programs) Pause(i int) error  { return p.team.Clients[i].Pause() }
func (p *programs) Resume(i int) error { return p.team.Clients[i].Resume() }
func (p *programs) Stop() error        { return p.team.Close() }

// startRedis starts a Redis with its data in dir. It installs Redis if it is missing.
func startRedis(ctx context.Context, dir string, _ int) (crew.Cluster, error) {
	program, err := zkserver.Program(ctx, "redis-server")
	if err != nil {
		return nil, err
	}
	ports, err := zkserver.FreePorts(1)
	if err != nil {
		return nil, err
	}
	addr, port := fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprint(ports[0])
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	p := &programs{Given: crew.Given{addr}, serves: func(ctx context.Context, _ int) bool { return client.Ping(ctx).Err() == nil }}
	return p, p.start(ctx, func(int) (*exec.Cmd, error) {
		return exec.Command(program, "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--loglevel", "warning",
			"--save", "", "--appendonly", "yes", "--appendfsync", "always"), nil
	})
}

// etcdEnv is the environment variable that makes this program an etcd server. Its value is an
// etcdConfig in JSON.
const etcdEnv = "HOLDFAST_COMPARE_ETCD"

// askPatience is the limit of a question to a member, which may be paused.
const askPatience = time.Second

type etcdConfig struct {
	Index          int
	Dir            string
	Clients, Peers []string // addresses at which the members listen
}

// Signals to a member. A parted member drops all messages from and to other members, as etcd's own
// tests have it.
const partMember, healMember = syscall.SIGUSR1, syscall.SIGUSR2

func serveEtcd(own etcdConfig) error {
	told := make(chan os.Signal, 1)
	signal.Notify(told, partMember, healMember)
	at := func(addrs []string) []url.URL { return []url.URL{{Scheme: "http", Host: addrs[own.Index]}} }
	var members []string
	for i, addr := range own.Peers {
		members = append(members, fmt.Sprintf("m%d=http://%s", i, addr))
	}
	c := embed.NewConfig()
	c.Name, c.Dir, c.LogLevel = fmt.Sprint("m", own.Index), own.Dir, "error"
	c.ListenClientUrls, c.AdvertiseClientUrls = at(own.Clients), at(own.Clients)
	c.ListenPeerUrls, c.AdvertisePeerUrls = at(own.Peers), at(own.Peers)
	c.InitialCluster = strings.Join(members, ",")
	c.GRPCKeepAliveMinTime = askPatience / 2
	server, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	for {
		select {
		case err := <-server.Err():
			return err
		case s := <-told:
			if s == partMember {
				server.Server.PauseSending()
			} else {
				server.Server.ResumeSending()
			}
		}
	}
}

type etcdCluster struct {
	programs
	look *clientv3.Client
}

func startEtcd(ctx context.Context, dir string, n int) (crew.Cluster, error) {
	ports, err := zkserver.FreePorts(2 * n)
	if err != nil {
		return nil, err
	}
	var addrs []string
	for _, port := range ports {
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", port))
	}
	c := &etcdCluster{programs: programs{Given: addrs[:n]}}
	c.serves = func(ctx context.Context, i int) bool {
		s, err := c.status(ctx, i)
		return err == nil && s.Leader != 0
	}
	if c.look, err = clientv3.New(clientv3.Config{Endpoints: c.Given, Logger: zap.NewNop()}); err != nil {
		return nil, err
	}
	return c, c.start(ctx, func(i int) (*exec.Cmd, error) {
		return zkserver.Command("", etcdEnv, etcdConfig{i, filepath.Join(dir, fmt.Sprint("m", i)), addrs[:n], addrs[n:]})
	})
}

func (c *etcdCluster) status(ctx context.Context, i int) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	return c.look.Status(ctx, c.Given[i])
}

// Leader waits until a member reports that it leads, and returns its index.
func (c *etcdCluster) Leader(ctx context.Context) (leader int, err error) {
	err = wait.Until(ctx, crew.StartPatience, "etcd has a leader", func() (bool, error) {
		for i := range c.Given {
			if s, err := c.status(ctx, i); err == nil && s.Leader == s.Header.MemberId {
				leader = i
				return true, nil
			}
		}
		return false, nil
	})
	return leader, err
}

func (c *etcdCluster) Version() string  { return "etcd " + version.Version }
func (c *etcdCluster) Part(i int) error { return c.team.Clients[i].Signal(partMember) }
func (c *etcdCluster) Heal(i int) error { return c.team.Clients[i].Signal(healMember) }
func (c *etcdCluster) Stop() error      { return errors.Join(c.programs.Stop(), c.look.Close()) }
