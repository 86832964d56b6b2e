package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// etcdEnv is the environment variable that makes this program an etcd server. Its value is an
// etcdConfig in JSON.
const etcdEnv = "HOLDFAST_COMPARE_ETCD"

// askPatience is the limit of a question to a member, which may be paused.
const askPatience = time.Second

// etcdConfig is the configuration of a member.
type etcdConfig struct {
	Name, Dir    string
	Client, Peer string // addresses at which it listens
	Cluster      string
}

func at(addr string) []url.URL { return []url.URL{{Scheme: "http", Host: addr}} }

// Commands to a member on its standard input. A parted member drops all messages from and to other
// members, as etcd's own tests have it.
const partMember, healMember = "part", "heal"

// serveEtcd runs a member until it ends. It listens to its standard input itself.
func serveEtcd(own etcdConfig) error {
	c := embed.NewConfig()
	c.Name, c.Dir, c.LogLevel = own.Name, own.Dir, "error"
	c.ListenClientUrls, c.AdvertiseClientUrls = at(own.Client), at(own.Client)
	c.ListenPeerUrls, c.AdvertisePeerUrls = at(own.Peer), at(own.Peer)
	c.InitialCluster = own.Cluster
	c.UnsafeNoFsync = true // the ZooKeeper servers here do not sync either; a killed process loses nothing by it
	c.GRPCKeepAliveMinTime = askPatience / 2
	server, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			switch in.Text() {
			case partMember:
				server.Server.PauseSending()
			case healMember:
				server.Server.ResumeSending()
			}
			fmt.Println(in.Text())
		}
	}()
	return <-server.Err()
}

// etcdCluster is a cluster of members, as processes. Its addresses are for clients.
type etcdCluster struct {
	crew.Given
	look    *clientv3.Client
	members []*etcdMember
}

type etcdMember struct {
	etcdConfig
	proc *zkserver.Worker
}

func startEtcd(ctx context.Context, dir string, n int) (_ crew.Cluster, err error) {
	ports, err := zkserver.FreePorts(2 * n)
	if err != nil {
		return nil, err
	}
	addr := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	c := new(etcdCluster)
	var list []string
	for i := range n {
		m := &etcdMember{etcdConfig: etcdConfig{Name: fmt.Sprintf("m%d", i), Client: addr(i), Peer: addr(n + i)}}
		m.Dir = filepath.Join(dir, m.Name)
		c.members = append(c.members, m)
		c.Given = append(c.Given, m.Client)
		list = append(list, fmt.Sprintf("%s=http://%s", m.Name, m.Peer))
	}
	if c.look, err = clientv3.New(clientv3.Config{Endpoints: c.Given, Logger: zap.NewNop()}); err != nil {
		return nil, err
	}
	err = wait.All(n, func(i int) error {
		c.members[i].Cluster = strings.Join(list, ",")
		return c.Restart(ctx, i)
	})
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *etcdCluster) status(ctx context.Context, i int) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	return c.look.Status(ctx, c.Given[i])
}

// Leader waits until a member reports that it leads, and returns its index.
func (c *etcdCluster) Leader(ctx context.Context) (leader int, err error) {
	err = wait.Until(ctx, crew.StartPatience, "etcd has a leader", func() (bool, error) {
		for i := range c.members {
			if s, err := c.status(ctx, i); err == nil && s.Leader == s.Header.MemberId {
				leader = i
				return true, nil
			}
		}
		return false, ctx.Err()
	})
	return leader, err
}

// Restart starts a member that does not run, and waits until it knows a leader.
func (c *etcdCluster) Restart(ctx context.Context, i int) error {
	m := c.members[i]
	cmd, err := zkserver.Command("", etcdEnv, m.etcdConfig)
	if err != nil {
		return err
	}
	if m.proc != nil {
		m.proc.Close(0)
	}
	if m.proc, err = zkserver.StartWorker(cmd); err != nil {
		return err
	}
	return wait.Until(ctx, crew.StartPatience, "etcd's "+m.Name+" serves", func() (bool, error) {
		if err := m.proc.Running(); err != nil {
			return false, fmt.Errorf("etcd's %s: %w: %s", m.Name, err, m.proc.Stderr())
		}
		s, err := c.status(ctx, i)
		return err == nil && s.Leader != 0, nil
	})
}

// tell tells a member something, and waits until it has obeyed.
func (c *etcdCluster) tell(i int, word string) error {
	ctx, cancel := context.WithTimeout(context.Background(), crew.StartPatience)
	defer cancel()
	if err := c.members[i].proc.Tell(word); err != nil {
		return err
	}
	_, err := c.members[i].proc.Hear(ctx)
	return err
}

func (c *etcdCluster) Version() string    { return "etcd " + version.Version }
func (c *etcdCluster) Kill(i int) error   { c.members[i].proc.Kill(); return nil }
func (c *etcdCluster) Pause(i int) error  { return c.members[i].proc.Signal(syscall.SIGSTOP) }
func (c *etcdCluster) Resume(i int) error { return c.members[i].proc.Signal(syscall.SIGCONT) }
func (c *etcdCluster) Part(i int) error   { return c.tell(i, partMember) }
func (c *etcdCluster) Heal(i int) error   { return c.tell(i, healMember) }

// Stop kills the members, because their data is not needed any more.
func (c *etcdCluster) Stop() error {
	for _, m := range c.members {
		if m.proc != nil {
			m.proc.Close(0)
		}
	}
	return c.look.Close()
}

// code returns the gRPC code of an error; Unknown if it has none.
func code(err error) codes.Code {
	if e := (rpctypes.EtcdError{}); errors.As(err, &e) {
		return e.Code()
	}
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return codes.Unknown
}
