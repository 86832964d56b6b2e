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
	{zkLock, []string{lockWorkload, lockSetWorkload}, startZooKeeper, openZKLock},
	{etcd, []string{lockWorkload, lockSetWorkload, fencedWorkload}, startEtcd, openEtcd},
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
	return func(workload string) locker { return (&zkLocker{servers: servers, path: root + "/" + workload}).take }, nil
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
	return func(workload string) locker { return (&etcdLocker{client: c, key: root + "/" + workload}).take }, err
}

// zkLocker takes locks of go-zookeeper, with a session of its own: after an error it closes the
// session, because a Lock that fails leaves its node in the queue.
type zkLocker struct {
	servers []string
	path    string
	conn    *zk.Conn
}

func (l *zkLocker) take(ctx context.Context) (_ crew.Held, err error) {
	defer func() {
		if err != nil {
			l.hangUp()
		}
	}()
	if l.conn == nil {
		if l.conn, _, err = zkserver.Connect(ctx, l.servers, ttl, nil); err != nil {
			return crew.Held{}, err
		}
	}
	conn, session := l.conn, l.conn.SessionID()
	lock := zk.NewLock(conn, l.path, zk.WorldACL(zk.PermAll))
	if err := lock.Lock(); err != nil {
		return crew.Held{}, err
	}
	if conn.SessionID() != session {
		return crew.Held{}, zk.ErrSessionExpired
	}
	return crew.Held{
		// The lock is held if the client is connected with the session that it had at the grant.
		Ask: func() (*monotonic.Claim, error) {
			return moment(func() bool { return conn.State() == zk.StateHasSession && conn.SessionID() == session })
		},
		Unlock: func() error {
			err := lock.Unlock()
			if err != nil {
				l.hangUp()
			}
			return err
		},
	}, nil
}

func (l *zkLocker) hangUp() {
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}

// etcdLocker takes locks of etcd's package concurrency, with a session of its own for each
// workload. After an error it uses a new session.
type etcdLocker struct {
	client  *clientv3.Client
	key     string
	session *concurrency.Session
}

func (l *etcdLocker) take(ctx context.Context) (_ crew.Held, err error) {
	if l.session != nil && closed(l.session.Done()) {
		l.session = nil
	}
	if l.session == nil {
		lease, err := l.client.Grant(ctx, int64(ttl.Seconds()))
		if err != nil {
			return crew.Held{}, err
		}
		if l.session, err = concurrency.NewSession(l.client, concurrency.WithLease(lease.ID), concurrency.WithTTL(int(ttl.Seconds()))); err != nil {
			return crew.Held{}, err
		}
	}
	session, mutex := l.session, concurrency.NewMutex(l.session, l.key)
	if err := mutex.Lock(ctx); err != nil {
		return crew.Held{}, errors.Join(err, l.hangUp())
	}
	return crew.Held{
		Ask:   func() (*monotonic.Claim, error) { return moment(func() bool { return !closed(session.Done()) }) },
		Token: fmt.Sprintf("%016x", mutex.Header().Revision), // at which the lock was acquired, as in etcd's documentation
		Unlock: func() error {
			ctx, cancel := context.WithTimeout(context.Background(), leavePatience)
			defer cancel()
			err := mutex.Unlock(ctx)
			if err != nil {
				err = errors.Join(err, l.hangUp())
			}
			return err
		},
	}, nil
}

// hangUp ends the session and revokes its lease. If the revoke fails, the lease expires.
func (l *etcdLocker) hangUp() error {
	session := l.session
	l.session = nil
	return session.Close()
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
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
