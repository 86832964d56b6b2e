package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/url"
	"os"
	"os/exec"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// etcdCommand is the first argument that makes this program etcd's server, so that the server has a
// process of its own.
const etcdCommand = "etcd-server"

// serveEtcd runs etcd's embedded server if this program was started with etcdCommand, a folder for
// the data and two addresses. Then it does not return: SIGINT or an error of the server ends the
// process. Otherwise it returns at once.
func serveEtcd() {
	if len(os.Args) != 5 || os.Args[1] != etcdCommand {
		return
	}
	at := func(addr string) []url.URL { return []url.URL{{Scheme: "http", Host: addr}} }
	config := embed.NewConfig()
	config.Dir, config.LogLevel = os.Args[2], "warn"
	config.ListenClientUrls, config.AdvertiseClientUrls = at(os.Args[3]), at(os.Args[3])
	config.ListenPeerUrls, config.AdvertisePeerUrls = at(os.Args[4]), at(os.Args[4])
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err == nil {
		err = <-server.Err()
	}
	log.Fatal("etcd: ", err)
}

// startEtcd starts this program again as etcd's server.
func startEtcd(ctx context.Context) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startDaemon(ctx, "etcd", func(d *daemon) error {
		look, err := clientv3.New(clientv3.Config{Endpoints: []string{d.addr}, Logger: zap.NewNop()})
		if err != nil {
			return err
		}
		d.hangUp = look.Close
		d.cmd = exec.Command(self, etcdCommand, d.dir, d.addr, d.other)
		d.ready = func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			status, err := look.Status(ctx, d.addr)
			if err == nil {
				d.version = fmt.Sprintf("etcd %s (one server, fsync on)", status.Version)
			}
			return err
		}
		// The index counts the entries of the log, also those of leases and failed attempts.
		d.transactions = func(ctx context.Context) (int64, error) {
			status, err := look.Status(ctx, d.addr)
			if err != nil {
				return 0, err
			}
			return int64(status.RaftIndex), nil
		}
		d.queued = func(ctx context.Context, path string) (int, error) {
			found, err := look.Get(ctx, path+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err != nil {
				return 0, err
			}
			return int(found.Count), nil
		}
		return nil
	})
}

func openEtcd(ctx context.Context, addr string) (session, error) {
	w := new(wire)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{addr}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return w.dial(ctx, "tcp", addr) }),
			grpc.WithStatsHandler(messages{w}),
		},
	})
	if err != nil {
		return session{}, err
	}
	var leased *concurrency.Session
	granted, err := client.Grant(ctx, int64(lease.Seconds()))
	if err == nil {
		leased, err = concurrency.NewSession(client, concurrency.WithLease(granted.ID))
	}
	if err != nil {
		return session{}, errors.Join(err, client.Close())
	}
	return session{
		counts: w.counts,
		close:  func() error { return errors.Join(leased.Close(), client.Close()) },
		// A lock belongs to its session: two locks of the same session and path do not exclude each
		// other.
		locker: func(path string) locker {
			mutex := concurrency.NewMutex(leased, path)
			return locker{
				lock:   mutex.Lock,
				unlock: func() error { return mutex.Unlock(client.Ctx()) },
				try:    func(ctx context.Context) (bool, error) { return got(mutex.TryLock(ctx), concurrency.ErrLocked) },
			}
		},
	}, nil
}

// messages receives gRPC's statistics, and counts each message that a client sends as a request.
type messages struct{ wire *wire }

func (m messages) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, said := s.(*stats.OutPayload); said {
		m.wire.requests.Add(1)
	}
}

func (messages) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (messages) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (messages) HandleConn(context.Context, stats.ConnStats)                       {}
