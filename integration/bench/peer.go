package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/holdfast-io/holdfast/integration/foreign"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// peer is a lock that is measured, or the bare requests that a lock needs at least.
type peer struct {
	Name  string          `json:"name"`           // name in flags and results
	Title string          `json:"title"`          // name in the tables
	Bare  bool            `json:"bare,omitempty"` // only requests, which exclude no client
	Note  string          `json:"note,omitempty"` // guarantees of a peer on another system than ZooKeeper
	open  opener          // nil: the peer is in another process
	roles map[string]role // what the peer can do besides a mutex, by the name of the role

	// setUp, program and args are set for a peer in a process of its own.
	setUp   func(ctx context.Context, dir string) (foreign.Program, error)
	program foreign.Program
	args    []string // arguments of the program

	// start, foreign and server are set for a peer on another system than ZooKeeper.
	start   func(ctx context.Context) (*server, error)
	foreign bool // the server is no Go program, and may have to be installed
	server  *server
}

// mark stands after the names of peers on other systems than ZooKeeper, because their guarantees
// differ.
const mark = "†"

// Peers that ratios and bars refer to.
const (
	holdfastName = "holdfast"
	zkLockName   = "zk.Lock"
	curatorName  = "curator"
	bareName     = "bare"
)

var peers = []*peer{
	{Name: holdfastName, Title: "Holdfast", open: openHoldfast, roles: holdfastRoles},
	{Name: zkLockName, Title: "zk.Lock", open: openZK(zkLock), roles: map[string]role{
		severally: {title: "zk.Lock, one after the other", open: openZK(zkLocks)},
	}},
	{Name: curatorName, Title: "Curator InterProcessMutex", setUp: setUpCurator, args: []string{"mutex"}, roles: map[string]role{
		reading:   {title: "Curator InterProcessReadWriteLock", args: []string{"read"}},
		permits:   {title: "Curator InterProcessSemaphoreV2", args: []string{"semaphore", strconv.Itoa(permitCount)}},
		severally: {title: "Curator InterProcessMultiLock", args: []string{"multi", strconv.Itoa(atATime)}},
		leading:   {title: "Curator LeaderLatch", args: []string{"latch"}},
	}},
	{Name: "curator-semaphore", Title: "Curator InterProcessSemaphoreV2", setUp: setUpCurator, args: []string{"semaphore", "1"}, roles: map[string]role{
		leading: {title: "Curator LeaderSelector", args: []string{"selector"}},
	}},
	{Name: "kazoo", Title: "kazoo Lock", setUp: setUpKazoo, args: []string{"mutex"}, roles: map[string]role{
		reading: {title: "kazoo ReadLock", args: []string{"read"}},
		permits: {title: "kazoo Semaphore", args: []string{"semaphore", strconv.Itoa(permitCount)}},
	}},
	{Name: "requests", Title: "Holdfast's requests, bare", Bare: true, open: openZK(bareRequests)},
	{Name: bareName, Title: "bare create + delete", Bare: true, open: openZK(bareNode)},
	{Name: "etcd", Title: "etcd concurrency.Mutex " + mark, start: startEtcd, open: openEtcd,
		Note: "etcd, another system. The lock goes with the client's lease, as an ephemeral node goes with its session. Waiters queue."},
	{Name: "redis", Title: "redislock " + mark, start: startRedis, open: openRedis, foreign: true,
		Note: "Redis, another system. The lock ends with its TTL on this one server; nothing renews it, no token orders its holders, and a replica that takes over may not know of it. No queue: a waiter asks again every 16 to 128 ms, and the client that unlocks may be the next to lock."},
	{Name: "postgres", Title: "PostgreSQL table " + mark, start: startPostgres, open: openPostgres, foreign: true,
		Note: "PostgreSQL, another system. The lock is a row that ends when it expires by that one server's clock; nothing renews it. No queue: as with Redis."},
}

// choosePeers returns the peers with the given names. Without names it returns all peers; if quick
// is set, only the peers that need nothing but Go.
func choosePeers(names string, quick bool) ([]*peer, error) {
	if names == "" {
		return slices.DeleteFunc(slices.Clone(peers), func(p *peer) bool { return quick && (p.open == nil || p.foreign) }), nil
	}
	var chosen []*peer
	for name := range strings.SplitSeq(names, ",") {
		p := peerNamed(name)
		if p == nil {
			return nil, fmt.Errorf("-peers: unknown peer %q", name)
		}
		chosen = append(chosen, p)
	}
	return chosen, nil
}

// peerNamed returns the peer with the name, in no role; nil if there is none.
func peerNamed(name string) *peer {
	i := slices.IndexFunc(peers, func(p *peer) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return peers[i]
}

// setUp provides the programs and servers of the peers. ready has the peers that are set up, also
// if setUp fails. setUp leaves out peers whose programs are not installed, and out has a text for
// each of them. If must is set, setUp fails instead.
func setUp(ctx context.Context, dir string, peers []*peer, must bool) (ready []*peer, out []string, err error) {
	for _, p := range peers {
		var err error
		switch {
		case p.setUp != nil:
			p.program, err = p.setUp(ctx, dir)
		case p.start != nil:
			p.server, err = p.start(ctx)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return ready, out, context.Cause(ctx)
		case errors.Is(err, zkserver.ErrNotInstalled) && !must:
			out = append(out, fmt.Sprintf("%s: %v", p.Title, err))
		case err != nil:
			return ready, out, fmt.Errorf("%s: %w (-peers leaves it out)", p.Title, err)
		default:
			ready = append(ready, p)
		}
	}
	return ready, out, nil
}

// tearDown stops the servers of peers.
func tearDown(peers []*peer) (err error) {
	for _, p := range peers {
		if p.server != nil {
			err = errors.Join(err, p.server.close())
		}
	}
	return err
}

// role is a peer's implementation of another lock than a mutex, or of another use of a mutex.
type role struct {
	title string
	open  opener   // nil: the peer is in another process
	args  []string // arguments of the peer's program
}

const (
	reading   = "reading"   // a read/write lock, to read
	writing   = "writing"   // a read/write lock, to write
	permits   = "permits"   // one of the permits of a semaphore
	plenty    = "plenty"    // one of many permits
	severally = "severally" // several locks together
	leading   = "leading"   // an election
	strictly  = "strictly"  // a client hands nothing off locally
	apart     = "apart"     // each contender has an entry of its own
)

const (
	permitCount = 4  // permits of the semaphore
	plentyCount = 64 // permits of a large semaphore
	atATime     = 8  // number of locks that are taken together
)

// as returns the peer in the role, or p itself if it does not have the role.
func (p *peer) as(name string) *peer {
	r, ok := p.roles[name]
	if !ok {
		return p
	}
	one := *p
	one.Title, one.open, one.args = r.title, r.open, r.args
	return &one
}

// plays returns a function that accepts the peers that have the role.
func plays(role string) func(p *peer) bool {
	return func(p *peer) bool { _, ok := p.roles[role]; return ok }
}

var openHoldfast = openTaking(func(c *lock.Client, name string) take { return held(c.Mutex(name).Lock) })

var holdfastRoles = map[string]role{
	reading:   {title: "Holdfast RWMutex", open: openTaking(func(c *lock.Client, name string) take { return held(c.RWMutex(name).RLock) })},
	writing:   {title: "Holdfast RWMutex", open: openTaking(func(c *lock.Client, name string) take { return held(c.RWMutex(name).Lock) })},
	permits:   {title: "Holdfast Semaphore", open: openTaking(permitOf(permitCount))},
	plenty:    {title: "Holdfast Semaphore", open: openTaking(permitOf(plentyCount))},
	severally: {title: "Holdfast All", open: openTaking(func(c *lock.Client, name string) take { return held(c.All(namesOf(name)).Lock) })},
	leading: {title: "Holdfast Election", open: openTaking(func(c *lock.Client, name string) take {
		e := c.Election(name)
		return held(func(ctx context.Context) (*lock.Leadership, error) { return e.Campaign(ctx, "node1:8080") })
	})},
	strictly: {title: "Holdfast, no window", open: openTaking(func(c *lock.Client, name string) take {
		return held(c.Mutex(name, lock.WithLocalWindow(lock.NoLocalWindow)).Lock)
	})},
	apart: {title: "Holdfast, an entry each", open: openTaking(func(c *lock.Client, name string) take {
		// Requests with different metadata never share an entry.
		own := map[string]string{"contender": strconv.FormatInt(contenders.Add(1), 10)}
		return held(c.Mutex(name, lock.WithMetadata(own)).Lock)
	})},
}

func permitOf(n int) func(c *lock.Client, name string) take {
	return func(c *lock.Client, name string) take {
		s := c.Semaphore(name, n)
		return held(func(ctx context.Context) (*lock.Hold, error) { return s.Acquire(ctx, 1) })
	}
}

// contenders is the number of contenders with an entry of their own, so far.
var contenders atomic.Int64

// namesOf returns the names of the locks that are taken together; the first is name.
func namesOf(name string) []string {
	names := []string{name}
	for i := 1; i < atATime; i++ {
		names = append(names, name+"-"+strconv.Itoa(i))
	}
	return names
}
