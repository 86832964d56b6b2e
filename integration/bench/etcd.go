package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// etcdCommand, as the first argument, makes this program etcd's server: a process
// of its own, as all servers are here.
const etcdCommand = "etcd-server"

// serveEtcd does nothing unless this program is etcd's server; then it does not
// return.
func serveEtcd() {
	if len(os.Args) != 5 || os.Args[1] != etcdCommand {
		return
	}
	if err := runEtcd(os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runEtcd runs the embedded server until SIGINT. It keeps its data in a folder and
// syncs its log to disk.
func runEtcd(dir, clientAddr, peerAddr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, peer := url.URL{Scheme: "http", Host: clientAddr}, url.URL{Scheme: "http", Host: peerAddr}
	config := embed.NewConfig()
	config.Dir, config.LogLevel = dir, "warn"
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return err
	}
}

type etcdServer struct {
	*daemon
	look *clientv3.Client
}

// startEtcd starts the server: this program, with other arguments.
func startEtcd(ctx context.Context) (server, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	addr, _, err := freeAddr()
	if err != nil {
		return nil, "", err
	}
	peerAddr, _, err := freeAddr()
	if err != nil {
		return nil, "", err
	}
	look, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		return nil, "", err
	}
	dir, err := os.MkdirTemp("", "holdfast-bench-etcd-")
	if err != nil {
		return nil, "", errors.Join(err, look.Close())
	}
	var version string
	d, err := startDaemon(ctx, "etcd", dir, addr, exec.Command(self, etcdCommand, dir, addr, peerAddr), func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		status, err := look.Status(ctx, addr)
		if err == nil {
			version = fmt.Sprintf("etcd %s (one server, fsync on)", status.Version)
		}
		return err
	})
	if err != nil {
		return nil, "", errors.Join(err, look.Close())
	}
	return &etcdServer{d, look}, version, nil
}

// transactions tells how many entries are in the log: those that made leases, and
// failed attempts, too.
func (s *etcdServer) transactions(ctx context.Context) (int64, error) {
	status, err := s.look.Status(ctx, s.address)
	if err != nil {
		return 0, err
	}
	return int64(status.RaftIndex), nil
}

func (s *etcdServer) queued(ctx context.Context, path string) (int, error) {
	found, err := s.look.Get(ctx, path+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return int(found.Count), nil
}

func (s *etcdServer) close() error { return errors.Join(s.look.Close(), s.daemon.close()) }

type etcdSession struct {
	wire
	client  *clientv3.Client
	session *concurrency.Session
}

func openEtcd(ctx context.Context, addr string) (session, error) {
	s := new(etcdSession)
	var err error
	s.client, err = clientv3.New(clientv3.Config{
		Endpoints: []string{addr}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return s.dial(ctx, "tcp", addr) }),
			grpc.WithStatsHandler(messages{&s.wire}),
		},
	})
	if err != nil {
		return nil, err
	}
	granted, err := s.client.Grant(ctx, int64(lease.Seconds()))
	if err == nil {
		s.session, err = concurrency.NewSession(s.client, concurrency.WithLease(granted.ID))
	}
	if err != nil {
		return nil, errors.Join(err, s.client.Close())
	}
	return s, nil
}

func (s *etcdSession) close() error { return errors.Join(s.session.Close(), s.client.Close()) }

// locker returns a lock that is the session's: two of the same path do not lock
// each other out.
func (s *etcdSession) locker(path string) locker {
	return etcdLocker{concurrency.NewMutex(s.session, path), s.client}
}

type etcdLocker struct {
	mutex  *concurrency.Mutex
	client *clientv3.Client
}

func (l etcdLocker) lock(ctx context.Context) error { return l.mutex.Lock(ctx) }
func (l etcdLocker) unlock() error                  { return l.mutex.Unlock(l.client.Ctx()) }

func (l etcdLocker) try(ctx context.Context) (bool, error) {
	err := l.mutex.TryLock(ctx)
	if errors.Is(err, concurrency.ErrLocked) {
		return false, nil
	}
	return err == nil, err
}

// messages counts what a client says, as requests: gRPC tells it of each message.
type messages struct{ wire *wire }

func (m messages) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, said := s.(*stats.OutPayload); said {
		m.wire.requests.Add(1)
	}
}

func (messages) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (messages) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (messages) HandleConn(context.Context, stats.ConnStats)                       {}
