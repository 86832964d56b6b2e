package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/foreign"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// peer is one that is measured: a lock, or the bare requests that a lock cannot
// do without.
type peer struct {
	name  string // on the command line
	title string // in the tables
	bare  bool   // excludes no other client

	open  opener          // of a peer that lives in this process
	roles map[string]role // beside that of a mutex

	// Of one that is a process of its own:
	setUp   func(ctx context.Context, dir string) (foreign.Program, error)
	program foreign.Program
	args    []string // the program's

	// Of one that locks with another system than ZooKeeper:
	start   func(ctx context.Context) (_ server, version string, _ error)
	foreign bool // its server is none of Go's: it may have to be installed
	server  server
	version string
	note    string // what it promises
}

// opener connects a session of a peer that lives in this process.
type opener func(ctx context.Context, addr string) (session, error)

// session is one client's.
type session interface {
	// locker returns the lock of that path. A locker is used by one goroutine.
	locker(path string) locker
	counts() zkserver.Counts
	close() error
}

type locker interface {
	lock(ctx context.Context) error
	unlock() error
}

// trier is a locker that can try without waiting.
type trier interface {
	locker
	try(ctx context.Context) (got bool, err error)
}

// Peers that ratios and bars refer to.
const (
	holdfastName = "holdfast"
	zkLockName   = "zk.Lock"
	curatorName  = "curator"
	bareName     = "bare"
)

var peers = []*peer{
	{name: holdfastName, title: "Holdfast", open: openHoldfast, roles: holdfastRoles},
	{name: zkLockName, title: "zk.Lock", open: openZKLock, roles: map[string]role{
		severally: {title: "zk.Lock, one after the other", open: openOneByOne},
	}},
	{name: curatorName, title: "Curator InterProcessMutex", setUp: setUpCurator, args: []string{"mutex"}, roles: map[string]role{
		reading:   {title: "Curator InterProcessReadWriteLock", args: []string{"read"}},
		permits:   {title: "Curator InterProcessSemaphoreV2", args: []string{"semaphore", strconv.Itoa(permitCount)}},
		severally: {title: "Curator InterProcessMultiLock", args: []string{"multi", strconv.Itoa(atATime)}},
		leading:   {title: "Curator LeaderLatch", args: []string{"latch"}},
	}},
	{name: "curator-semaphore", title: "Curator InterProcessSemaphoreV2", setUp: setUpCurator, args: []string{"semaphore", "1"}, roles: map[string]role{
		leading: {title: "Curator LeaderSelector", args: []string{"selector"}},
	}},
	{name: "kazoo", title: "kazoo Lock", setUp: setUpKazoo, args: []string{"mutex"}, roles: map[string]role{
		reading: {title: "kazoo ReadLock", args: []string{"read"}},
		permits: {title: "kazoo Semaphore", args: []string{"semaphore", strconv.Itoa(permitCount)}},
	}},
	{name: "requests", title: "Holdfast's requests, bare", bare: true, open: openRequests},
	{name: bareName, title: "bare create + delete", bare: true, open: openBare},
	{name: "etcd", title: "etcd concurrency.Mutex " + mark, start: startEtcd, open: openEtcd,
		note: "etcd, another system. The lock goes with the client's lease, as an ephemeral node goes with its session. Waiters queue."},
	{name: "redis", title: "redislock " + mark, start: startRedis, open: openRedis, foreign: true,
		note: "Redis, another system. The lock ends with its TTL on this one server; nothing renews it, no token orders its holders, and a replica that takes over may not know of it. No queue: a waiter asks again every 16 to 128 ms, and the client that unlocks may be the next to lock."},
	{name: "postgres", title: "PostgreSQL table " + mark, start: startPostgres, open: openPostgres, foreign: true,
		note: "PostgreSQL, another system. The lock is a row that ends when it expires by that one server's clock; nothing renews it. No queue: as with Redis."},
}

// choosePeers returns the peers of those names.
func choosePeers(names string, quick bool) ([]*peer, error) {
	if names == "" {
		if quick {
			return slices.DeleteFunc(slices.Clone(peers), func(p *peer) bool { return p.open == nil || p.foreign }), nil
		}
		return peers, nil
	}
	var chosen []*peer
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(peers, func(p *peer) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-peers: unknown peer %q", name)
		}
		chosen = append(chosen, peers[i])
	}
	return chosen, nil
}

// setUp makes ready what the peers need that is not there yet: programs, servers.
// It leaves out those whose needs are not installed, and tells which and why; or
// fails, if all must take part.
func setUp(ctx context.Context, dir string, peers []*peer, must bool) (ready []*peer, out []string, err error) {
	for _, p := range peers {
		var err error
		switch {
		case p.setUp != nil:
			p.program, err = p.setUp(ctx, dir)
			p.version = p.program.Version
		case p.start != nil:
			p.server, p.version, err = p.start(ctx)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return ready, out, context.Cause(ctx)
		case errors.Is(err, zkserver.ErrNotInstalled) && !must:
			out = append(out, fmt.Sprintf("%s: %v", p.title, err))
		case err != nil:
			return ready, out, fmt.Errorf("%s: %w (-peers leaves it out)", p.title, err)
		default:
			ready = append(ready, p)
		}
	}
	return ready, out, nil
}

// tearDown stops the servers of peers.
func tearDown(peers []*peer) error {
	var errs []error
	for _, p := range peers {
		if p.server != nil {
			errs = append(errs, p.server.close())
			p.server = nil
		}
	}
	return errors.Join(errs...)
}

// versions names what the peers are and lock with, each once.
func versions(peers []*peer) []string {
	var all []string
	for _, p := range peers {
		if p.version != "" && !slices.Contains(all, p.version) {
			all = append(all, p.version)
		}
	}
	return all
}

// sessionTimeout is what all clients ask for: long enough for a machine that is
// busy.
const sessionTimeout = 30 * time.Second

type holdfast struct {
	zkserver.Meter
	client *lock.Client
	of     func(c *lock.Client, name string) take
	names  sync.Map // of its locks
}

// take takes a lock.
type take func(ctx context.Context) (unlocker, error)

type unlocker interface{ Unlock() error }

// held is a call of the library as a take.
func held[H unlocker](call func(context.Context) (H, error)) take {
	return func(ctx context.Context) (unlocker, error) { return call(ctx) }
}

var openHoldfast = openTaking(func(c *lock.Client, name string) take { return held(c.Mutex(name).Lock) })

// openTaking opens sessions whose locks are taken that way.
func openTaking(of func(c *lock.Client, name string) take) opener {
	return func(ctx context.Context, addr string) (session, error) {
		s := &holdfast{of: of}
		var err error
		s.client, err = lock.Dial(ctx, []string{addr}, lock.WithRoot(root), lock.WithSessionTimeout(sessionTimeout),
			lock.WithUnlockTimeout(sessionTimeout), lock.WithTTL(2*sessionTimeout), lock.WithDialer(s.Dial))
		return s, err
	}
}

func (s *holdfast) counts() zkserver.Counts { return s.Counts() }
func (s *holdfast) close() error            { return s.client.Close() }

// settle waits until the nodes of locks that were taken again and again are gone, which
// stay for a second.
func (s *holdfast) settle(ctx context.Context) error {
	return await(ctx, "all locks are gone", func() (bool, error) {
		there, _, err := admin.New(s.client).Children(ctx, root)
		ours := func(name string) bool { _, ok := s.names.Load(name); return ok }
		return !slices.ContainsFunc(there, ours), err
	})
}

func (s *holdfast) locker(p string) locker {
	name := path.Base(p)
	for _, one := range namesOf(name) {
		s.names.Store(one, true)
	}
	return &holdfastLocker{take: s.of(s.client, name), mutex: s.client.Mutex(name)}
}

type holdfastLocker struct {
	take  take
	mutex *lock.Mutex // to try
	hold  unlocker
}

// lock asks with a context that cannot end, as the others have none at all. One that
// can costs a goroutine for each request.
func (l *holdfastLocker) lock(ctx context.Context) (err error) {
	l.hold, err = l.take(context.WithoutCancel(ctx))
	return err
}

func (l *holdfastLocker) unlock() error { return l.hold.Unlock() }

func (l *holdfastLocker) try(ctx context.Context) (bool, error) {
	hold, err := l.mutex.TryLock(ctx)
	if errors.Is(err, lock.ErrHeld) {
		return false, nil
	}
	l.hold = hold
	return err == nil, err
}

// plain is a session of go-zookeeper as it comes.
type plain struct {
	zkserver.Meter
	conn *zk.Conn
}

func openPlain(ctx context.Context, addr string) (*plain, error) {
	s := new(plain)
	conn, events, err := zk.Connect([]string{addr}, sessionTimeout,
		zk.WithDialer(s.Dial), zk.WithLogInfo(false), zk.WithLogger(silence{}))
	if err != nil {
		return nil, err
	}
	s.conn = conn
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return s, nil
			}
		case <-ctx.Done():
			conn.Close()
			return nil, context.Cause(ctx)
		}
	}
}

func (s *plain) counts() zkserver.Counts { return s.Counts() }

func (s *plain) close() error {
	s.conn.Close()
	return nil
}

// silence is a logger for go-zookeeper.
type silence struct{}

func (silence) Printf(string, ...any) {}

type zkLock struct{ *plain }

func openZKLock(ctx context.Context, addr string) (session, error) {
	s, err := openPlain(ctx, addr)
	return zkLock{s}, err
}

func (s zkLock) locker(p string) locker {
	return zkLocker{zk.NewLock(s.conn, p, zk.WorldACL(zk.PermAll))}
}

type zkLocker struct{ l *zk.Lock }

func (l zkLocker) lock(context.Context) error { return l.l.Lock() }
func (l zkLocker) unlock() error              { return l.l.Unlock() }

// bare makes a node and deletes it: the least that a lock in ZooKeeper can cost.
type bare struct{ *plain }

func openBare(ctx context.Context, addr string) (session, error) {
	s, err := openPlain(ctx, addr)
	return bare{s}, err
}

func (s bare) locker(p string) locker { return bareLocker{s.conn, p} }

type bareLocker struct {
	conn *zk.Conn
	path string
}

func (l bareLocker) lock(context.Context) error {
	_, err := l.conn.Create(l.path, nil, 0, zk.WorldACL(zk.PermAll))
	return err
}

func (l bareLocker) unlock() error { return l.conn.Delete(l.path, -1) }

// requests makes the requests that Holdfast makes for a free lock, and nothing
// else: what is between it and Holdfast is the library's own. From the second time on
// the parent stays.
type requests struct{ *plain }

func openRequests(ctx context.Context, addr string) (session, error) {
	s, err := openPlain(ctx, addr)
	return requests{s}, err
}

func (s requests) locker(p string) locker {
	record := znode.Record{Owner: "bench", Host: "bench.example.com", PID: 12345, TTL: 30_000, ExpiresAt: 1_800_000_000_000, AcquiredAt: 1_800_000_000_000}
	return &requestsLocker{conn: s.conn, path: p, record: record.Encode()}
}

type requestsLocker struct {
	conn           *zk.Conn
	path           string
	prefix, anchor string // of the generation
	parent, record []byte
	times          int
	version        int32 // of the parent; 0: it is not there
	entry          string
}

// generate draws a new generation.
func (l *requestsLocker) generate() {
	p := znode.Parent{Kind: znode.Mutex, Generation: znode.NewID()}
	l.parent, l.prefix, l.anchor = p.Encode(), l.path+"/"+znode.Prefix(p.Generation, znode.Exclusive), l.path+"/"+znode.Anchor(p.Generation)
}

func (l *requestsLocker) lock(context.Context) error {
	acl := zk.WorldACL(zk.PermAll)
	var ops []any
	if l.version == 0 {
		l.generate()
		ops = append(ops, &zk.CreateRequest{Path: l.path, Data: l.parent, Acl: acl},
			&zk.CreateRequest{Path: l.anchor, Data: znode.AnchorData{}.Encode(), Acl: acl})
	} else {
		ops = append(ops, &zk.CheckVersionRequest{Path: l.anchor, Version: -1})
	}
	at := len(ops)
	ops = append(ops, &zk.CreateRequest{Path: l.prefix, Data: l.record, Acl: acl, Flags: zk.FlagSequence},
		&zk.SetDataRequest{Path: l.path, Data: l.parent, Version: -1})
	replies, err := l.conn.Multi(ops...)
	if err == nil {
		l.entry = replies[at].String
		l.version++
		l.times++
	}
	return err
}

func (l *requestsLocker) unlock() error {
	if l.times >= 2 {
		return l.conn.Delete(l.entry, 0)
	}
	_, err := l.conn.Multi(
		&zk.DeleteRequest{Path: l.entry, Version: 0},
		&zk.DeleteRequest{Path: l.anchor, Version: -1},
		&zk.DeleteRequest{Path: l.path, Version: l.version})
	l.version = 0
	return err
}
