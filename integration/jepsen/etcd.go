package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// etcdEnv is the environment variable that makes this program an etcd server. Its value is an
// etcdConfig in JSON.
const etcdEnv = "HOLDFAST_JEPSEN_ETCD"

const (
	startPatience = 5 * time.Minute // on a busy machine
	pollInterval  = 50 * time.Millisecond
	askPatience   = time.Second
)

// etcdConfig is the configuration of a member.
type etcdConfig struct {
	Name, Dir    string
	Client, Peer string // addresses at which it listens
	Advertised   string // address at which the other members reach it
	Cluster      string
}

func at(addr string) []url.URL { return []url.URL{{Scheme: "http", Host: addr}} }

// serveEtcd runs a member until it ends.
func serveEtcd(config string) error {
	var own etcdConfig
	if err := json.Unmarshal([]byte(config), &own); err != nil {
		return err
	}
	c := embed.NewConfig()
	c.Name, c.Dir, c.LogLevel = own.Name, own.Dir, "error"
	c.ListenClientUrls, c.AdvertiseClientUrls = at(own.Client), at(own.Client)
	c.ListenPeerUrls, c.AdvertisePeerUrls = at(own.Peer), at(own.Advertised)
	c.InitialCluster = own.Cluster
	c.UnsafeNoFsync = true // the ZooKeeper servers here do not sync either; a killed process loses nothing by it
	c.GRPCKeepAliveMinTime = askPatience / 2
	server, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	return <-server.Err()
}

// etcdCluster is a cluster of three members, as processes.
type etcdCluster struct {
	members []*etcdMember
	network *peerNetwork
	version string
}

type etcdMember struct {
	etcdConfig
	look *clientv3.Client // connected directly, without a relay
	proc *zkserver.Process
}

func startEtcd(ctx context.Context, dir string) (_ *etcdCluster, err error) {
	ports, err := zkserver.FreePorts(2 * servers)
	if err != nil {
		return nil, err
	}
	addr := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	c := &etcdCluster{network: &peerNetwork{index: map[string]int{}, relays: map[link]*zkserver.Relay{}, parted: -1}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	var list []string
	for i := range servers {
		m := &etcdMember{etcdConfig: etcdConfig{Name: fmt.Sprintf("m%d", i), Client: addr(i), Peer: addr(servers + i)}}
		m.Dir = filepath.Join(dir, m.Name)
		if m.Advertised, err = c.network.listen(i, m.Peer); err != nil {
			return nil, err
		}
		if m.look, err = clientv3.New(clientv3.Config{Endpoints: []string{m.Client}, Logger: zap.NewNop()}); err != nil {
			return nil, err
		}
		c.members = append(c.members, m)
		list = append(list, fmt.Sprintf("%s=http://%s", m.Name, m.Advertised))
	}
	for _, m := range c.members {
		m.Cluster = strings.Join(list, ",")
	}
	if err := wait.All(servers, func(i int) error { return c.restart(ctx, i) }); err != nil {
		return nil, err
	}
	for i, m := range c.members {
		s, err := m.status(ctx)
		if err != nil {
			return nil, err
		}
		c.version = s.Version
		c.network.know(fmt.Sprintf("%x", s.Header.MemberId), i)
	}
	return c, nil
}

func (m *etcdMember) status(ctx context.Context) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	return m.look.Status(ctx, m.Client)
}

func (c *etcdCluster) addrs() (addrs []string) {
	for _, m := range c.members {
		addrs = append(addrs, m.Client)
	}
	return addrs
}

// leader waits until a member reports that it leads, and returns its index.
func (c *etcdCluster) leader(ctx context.Context) (leader int, err error) {
	err = wait.Until(ctx, startPatience, "etcd has a leader", func() (bool, error) {
		for i, m := range c.members {
			if s, err := m.status(ctx); err == nil && s.Leader == s.Header.MemberId {
				leader = i
				return true, nil
			}
		}
		return false, ctx.Err()
	})
	return leader, err
}

// restart starts a member that does not run, and waits until it knows a leader.
func (c *etcdCluster) restart(ctx context.Context, i int) error {
	m := c.members[i]
	cmd, err := zkserver.Command("", etcdEnv, m.etcdConfig)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(m.Dir+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if m.proc, err = zkserver.StartProcess(cmd); err != nil {
		return err
	}
	return wait.Until(ctx, startPatience, "etcd's "+m.Name+" serves", func() (bool, error) {
		select {
		case <-m.proc.Exited():
			text, err := os.ReadFile(m.Dir + ".log")
			return false, errors.Join(fmt.Errorf("etcd's %s has ended: %w: %s", m.Name, m.proc.Err(), text), err)
		default:
		}
		s, err := m.status(ctx)
		if err != nil && wait.Sleep(ctx, pollInterval) != nil {
			return false, err
		}
		return err == nil && s.Leader != 0, nil
	})
}

func (c *etcdCluster) kill(i int) error   { c.members[i].proc.Kill(); return nil }
func (c *etcdCluster) pause(i int) error  { return c.members[i].proc.Signal(syscall.SIGSTOP) }
func (c *etcdCluster) resume(i int) error { return c.members[i].proc.Signal(syscall.SIGCONT) }
func (c *etcdCluster) part(i int) error   { c.network.part(i); return nil }
func (c *etcdCluster) heal()              { c.network.heal() }

// stop kills the members, because their data is not needed any more, and closes all connections.
func (c *etcdCluster) stop() (err error) {
	for _, m := range c.members {
		if m.proc != nil {
			m.proc.Kill()
		}
		err = errors.Join(err, m.look.Close())
	}
	c.network.close()
	return err
}

// peerNetwork connects the members of a cluster. Each member has a hub, and the other members use
// the hub's address as the member's address. From the header of the first request the hub learns
// which member calls. Then the hub forwards the connection through the relay for the two members.
type peerNetwork struct {
	hubs    []net.Listener
	serving sync.WaitGroup

	mu      sync.Mutex
	targets []string
	index   map[string]int           // index of a member, by the id in the header
	relays  map[link]*zkserver.Relay // from "" for callers without an id
	parted  int                      // index of the member that is parted from the others; -1: none
}

// link has the id of the member that calls, and the index of the member that is called.
type link struct {
	from string
	to   int
}

// listen starts the hub of a member that listens at target, and returns the hub's address.
func (n *peerNetwork) listen(to int, target string) (string, error) {
	hub, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	n.hubs = append(n.hubs, hub)
	n.mu.Lock()
	n.targets = append(n.targets, target)
	n.mu.Unlock()
	n.serving.Go(func() {
		for {
			conn, err := hub.Accept()
			if err != nil {
				return
			}
			n.serving.Go(func() { n.serve(conn, to) })
		}
	})
	return hub.Addr().String(), nil
}

// know sets the index of the member with an id.
func (n *peerNetwork) know(id string, i int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.index[id] = i
}

// serve connects a caller with the relay to a member, until either end closes.
func (n *peerNetwork) serve(conn net.Conn, to int) {
	defer conn.Close()
	var first bytes.Buffer
	request, err := http.ReadRequest(bufio.NewReader(io.TeeReader(conn, &first)))
	if err != nil {
		return
	}
	relay, err := n.relay(link{request.Header.Get("X-Server-From"), to})
	if err != nil {
		return
	}
	server, err := net.Dial("tcp", relay.Addr())
	if err != nil {
		return
	}
	n.serving.Go(func() {
		_, _ = io.Copy(conn, server)
		conn.Close()
	})
	_, _ = io.Copy(server, io.MultiReader(&first, conn))
	server.Close()
}

func (n *peerNetwork) relay(l link) (_ *zkserver.Relay, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.relays[l]
	if r == nil {
		if r, err = zkserver.NewRelay(n.targets[l.to], zkserver.RelayOptions{}); err != nil {
			return nil, err
		}
		n.relays[l] = r
		if n.stalls(l) {
			r.Stall()
		}
	}
	return r, nil
}

// stalls reports whether a link must be stalled now. A caller with an unknown id may be the parted
// member, so its link is stalled. n.mu must be held.
func (n *peerNetwork) stalls(l link) bool {
	from, known := n.index[l.from]
	return n.parted >= 0 && (!known || from == n.parted || l.to == n.parted)
}

func (n *peerNetwork) part(i int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.parted = i
	for l, r := range n.relays {
		if n.stalls(l) {
			r.Stall()
		}
	}
}

func (n *peerNetwork) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.parted = -1
	for _, r := range n.relays {
		r.Resume()
	}
}

// close closes the hubs and the relays, and waits until all connections have ended. The members
// must have ended.
func (n *peerNetwork) close() {
	for _, hub := range n.hubs {
		_ = hub.Close() // fails only if it was closed before
	}
	n.mu.Lock()
	for _, r := range n.relays {
		r.Close()
	}
	n.mu.Unlock()
	n.serving.Wait()
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
