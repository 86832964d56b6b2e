package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// The names of the peers. Each peer whose name begins with "Holdfast" is held to the promises.
const (
	holdfast = "Holdfast"
	zkLock   = "zk.Lock"
	etcd     = "etcd"
)

func ours(name string) bool { return strings.HasPrefix(name, holdfast) }

// lockPeer is a library with locks, and the servers that it needs.
type lockPeer struct {
	name   string
	offers []string // workloads that the library has locks for
	start  func(ctx context.Context, dir string, servers int) (crew.Cluster, error)
	// open connects a client of a name to servers, and returns its lockers, by workload.
	open func(servers []string, name string) (func(workload string) locker, error)
}

// locker takes the lock of one workload, for one client.
type locker func(ctx context.Context) (crew.Held, error)

var lockPeers = []lockPeer{
	{holdfast, workloads, startZooKeeper, openHoldfast},
	{zkLock, workloads[:2], startZooKeeper, openZKLock},
	{etcd, workloads, startEtcd, openEtcd},
}

func peerOf(name string) lockPeer {
	return lockPeers[slices.IndexFunc(lockPeers, func(p lockPeer) bool { return p.name == name })]
}

// Times of all clients.
const (
	ttl           = 4 * time.Second  // of a lease, or a session
	grace         = 3 * time.Second  // Holdfast's: the time that other clients wait after a lease has expired before they delete the entry
	patience      = 20 * time.Second // for a lock, if the library takes a context
	leavePatience = 5 * time.Second
	// sessionTimeout is the timeout of Holdfast's session. Holdfast's leases do not end with the
	// session.
	sessionTimeout = 2500 * time.Millisecond
	root           = "/compare"
)

// startZooKeeper starts n servers without syncs of their logs to disk, and with clocks and links of
// their own if there are several.
func startZooKeeper(ctx context.Context, dir string, n int) (crew.Cluster, error) {
	opts := zkserver.Options{Links: n > 1, Config: []string{"syncLimit=4", "initLimit=20"}} // in ticks of 0.5 s
	var ahead []time.Duration
	if n > 1 {
		ahead = make([]time.Duration, n)
	}
	clocks, err := crew.Clocks(ctx, dir, ahead...)
	if err != nil {
		return nil, err
	}
	return crew.Start(ctx, n, clocks, opts)
}

// moment returns the claim of a library that does not know for how long a lock stays held. If ask
// returns false, the error is [crew.ErrNotHeld].
func moment(ask func() bool) (*monotonic.Claim, error) {
	from := monotonic.Now()
	if !ask() {
		return nil, crew.ErrNotHeld
	}
	return &monotonic.Claim{From: from, To: monotonic.Now(), Until: from}, nil
}

func openHoldfast(servers []string, name string) (func(workload string) locker, error) {
	c, err := lock.Dial(context.Background(), servers, lock.WithRoot(root), lock.WithOwner(name),
		lock.WithTTL(ttl), lock.WithGrace(grace), lock.WithSessionTimeout(sessionTimeout), lock.WithUnlockTimeout(leavePatience))
	return func(workload string) locker {
		return func(ctx context.Context) (crew.Held, error) {
			h, err := c.Mutex(workload).Lock(ctx)
			return crew.Holdfast(h, err)
		}
	}, err
}

func openZKLock(servers []string, _ string) (func(workload string) locker, error) {
	return func(workload string) locker { return zkLocker(servers, root+"/"+workload) }, nil
}

func openEtcd(servers []string, _ string) (func(workload string) locker, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints: servers, Logger: zap.NewNop(), DialTimeout: time.Second,
		// Without these options a client stays with a silent server.
		DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}, MinConnectTimeout: time.Second,
		})},
	})
	return func(workload string) locker { return etcdLocker(c, root+"/"+workload) }, err
}

// zkLocker takes locks of go-zookeeper, with a session of its own: after an error it closes the
// session, because a Lock that fails leaves its node in the queue.
func zkLocker(servers []string, path string) locker {
	var conn *zk.Conn
	closeAfter := func(err error) error {
		if err != nil && conn != nil {
			conn.Close()
			conn = nil
		}
		return err
	}
	return func(ctx context.Context) (_ crew.Held, err error) {
		defer func() { err = closeAfter(err) }()
		if conn == nil {
			if conn, _, err = zkserver.Connect(ctx, servers, ttl, nil); err != nil {
				return crew.Held{}, err
			}
		}
		own, session, lock := conn, conn.SessionID(), zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
		if err := lock.Lock(); err != nil {
			return crew.Held{}, err
		}
		if own.SessionID() != session {
			return crew.Held{}, zk.ErrSessionExpired
		}
		return crew.Held{
			// The lock is held if the client is connected with the session that it had at the grant.
			Ask: func() (*monotonic.Claim, error) {
				return moment(func() bool { return own.State() == zk.StateHasSession && own.SessionID() == session })
			},
			Unlock: func() error { return closeAfter(lock.Unlock()) },
		}, nil
	}
}

// etcdLocker takes locks of etcd's package concurrency, with a session of its own. After an error it
// uses a new session, and revokes the lease of the old one. If that fails, the lease expires.
func etcdLocker(client *clientv3.Client, key string) locker {
	var session *concurrency.Session
	closeAfter := func(err error) error {
		if err != nil && session != nil {
			err = errors.Join(err, session.Close())
			session = nil
		}
		return err
	}
	return func(ctx context.Context) (crew.Held, error) {
		if session == nil || session.Ctx().Err() != nil {
			lease, err := client.Grant(ctx, int64(ttl.Seconds()))
			if err != nil {
				return crew.Held{}, err
			}
			if session, err = concurrency.NewSession(client, concurrency.WithLease(lease.ID), concurrency.WithTTL(int(ttl.Seconds()))); err != nil {
				return crew.Held{}, err
			}
		}
		own, mutex := session, concurrency.NewMutex(session, key)
		if err := mutex.Lock(ctx); err != nil {
			return crew.Held{}, closeAfter(err)
		}
		return crew.Held{
			Ask:   func() (*monotonic.Claim, error) { return moment(func() bool { return own.Ctx().Err() == nil }) },
			Token: fmt.Sprintf("%016x", mutex.Header().Revision), // at which the lock was acquired, as in etcd's documentation
			Unlock: func() error {
				ctx, cancel := context.WithTimeout(context.Background(), leavePatience)
				defer cancel()
				return closeAfter(mutex.Unlock(ctx))
			},
		}, nil
	}
}

// connError is the class of errors when the connection to the servers broke, or they could not serve.
// The others are those of package crew.
const connError = "connection"

// classes has all classes. A result that is not in classes is the text of an error.
var classes = []string{crew.GaveUp, crew.Expired, crew.NotHeld, crew.Unsure, crew.Removed, crew.Written, connError}

// classify returns the class of an error, or the text of an error without a class. It returns ""
// for nil.
func classify(err error) string {
	var network *net.OpError
	class := crew.Classify(err)
	switch {
	case slices.Contains([]string{"", crew.Removed, crew.Written, crew.NotHeld}, class):
		return class
	case errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrNoNode), errors.Is(err, concurrency.ErrSessionExpired), code(err) == codes.NotFound:
		return crew.Expired
	case code(err) == codes.DeadlineExceeded:
		return crew.GaveUp
	case slices.Contains(classes, class):
		return class
	case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrClosing),
		errors.As(err, &network), code(err) == codes.Unavailable:
		return connError
	}
	return class
}
