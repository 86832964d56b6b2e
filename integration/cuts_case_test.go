package integration_test

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/rs/zerolog"
)

// cut is one case: a victim, which is a client whose connection may have a fault, and a peer.
type cut struct {
	*bench
	fault   zkserver.Fault
	k       int // number of the request with the fault; 0: none
	expires bool
	victim  *lock.Client
	tap     *zkserver.Tap
	peer    *lock.Client
	name    string // of the lock
	how     taking // takes the lock; nil: a mutex
	alone   bool   // no other client is there: the victim's first renewal records the grant
	dead    int    // expired entries before the operation
	ttl     time.Duration
	room    room

	begun    chan struct{} // closed when the fault is armed
	hit      <-chan struct{}
	over     chan struct{} // closed when the fault is over, or cannot occur any more
	done     chan struct{} // closed when the operation ends
	before   int64         // requests before the operation
	requests int           // requests of the operation
	session  int64         // the victim's session before the operation
	helpers  sync.WaitGroup

	happened bool        // the fault occurred: isHit at the end of the case, also for goroutines outside of its virtual time
	came     atomic.Bool // the contender entered
	early    atomic.Bool // the contender entered before the fault was over
	mu       sync.Mutex
	entered  []*lock.Hold
}

func newCut(shared *bench, fault zkserver.Fault, k int, expires bool) *cut {
	b := *shared
	_, name, _ := strings.Cut(b.Name(), "/")
	b.root += "/" + strings.ReplaceAll(name, "/", ".")
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	b.ctx = ctx
	c := &cut{
		bench: &b, fault: fault, k: k, expires: expires, name: "above/x",
		tap: victimsTap(b.ens), begun: make(chan struct{}), over: make(chan struct{}), done: make(chan struct{}),
		ttl: cutTTL,
	}
	if fault == zkserver.HoldReply {
		c.ttl = heldTTL
	}
	c.peer = b.client(lock.WithOwner("peer"), lock.WithTTL(peerTTL))
	var err error
	// List each server several times: with one address, go-zookeeper pauses for a second before it
	// reconnects.
	c.victim, err = lock.Dial(ctx, slices.Repeat(b.servers, 4),
		lock.WithOwner("victim"), lock.WithRoot(b.root), lock.WithPolicies(b.policies(c.ttl, time.Second)),
		lock.WithSessionTimeout(cutSession), lock.WithUnlockTimeout(c.ttl), lock.WithDialer(c.tap.Dial),
		lock.WithLogger(zerolog.New(zerolog.NewTestWriter(b.TB)).Level(zerolog.InfoLevel).With().Timestamp().Logger()))
	iferr.Fatal(b.TB, err)
	b.Cleanup(func() {
		cancel()
		c.helpers.Wait()
		c.tap.Resume()
		c.close()
		c.happened = c.isHit()
	})
	return c
}

// victimsTap returns the tap on the victim's connection to real servers, or to those in memory.
func victimsTap(ens *locktest.Ensemble) *zkserver.Tap {
	if ens == nil {
		return new(zkserver.Tap)
	}
	return &zkserver.Tap{Dialer: ens.Dialer("victim"), Virtual: true}
}

// expire ends the victim's session.
func (c *cut) expire() {
	if c.ens != nil {
		c.ens.ExpireLabel("victim")
		return
	}
	iferr.Error(c, c.tap.Expire(c.ctx, c.servers[0]))
}

// close closes the victim. While replies are held, the client may report entries that it could not
// delete in time.
func (c *cut) close() {
	if err := c.victim.Close(); err != nil && c.fault != zkserver.HoldReply {
		c.Errorf("close: %v", err)
	}
}

// begin arms the fault, and begins to count the operation's requests. When the fault occurs, the
// peer requests the lock, and the victim's session expires if c.expires is true.
func (c *cut) begin() {
	c.before = c.tap.Counts().Requests
	c.session, _, _ = c.tap.Session()
	if c.k > 0 {
		c.hit = c.tap.Inject(c.fault, c.k)
	}
	close(c.begun)
	c.helpers.Go(func() {
		defer close(c.over)
		select {
		case <-c.hit:
		case <-c.done:
		case <-c.ctx.Done():
		}
		if !c.isHit() {
			return
		}
		c.helpers.Go(c.contend)
		if c.expires {
			c.expire()
		}
		if c.fault == zkserver.HoldReply {
			time.Sleep(holdFor) // wall clock: replies are held for longer than a lease
		}
		c.tap.Resume()
	})
}

// awaitBegin waits until the fault is armed. On a starved machine the victim's lease may end before, so
// that another client enters.
func (c *cut) awaitBegin() {
	select {
	case <-c.begun:
	case <-c.ctx.Done():
	}
}

// end ends the operation. It disarms a fault that has not occurred.
func (c *cut) end() {
	c.requests = int(c.tap.Counts().Requests - c.before)
	if c.k > 0 && !c.tap.Disarm() {
		<-c.hit
	}
	close(c.done)
}

// finish waits until all clients have ended their turns and cleaned up, and checks the case.
func (c *cut) finish() {
	c.helpers.Wait()
	c.room.check(c)
	c.gone(c.root + "/" + c.name)
	if !c.isHit() && (c.requests == 0 || c.k > 0 && c.requests >= c.k) {
		c.Errorf("%d requests, and the fault did not happen to request %d", c.requests, c.k)
	}
	// Cuts end no lease, so each client deletes its own nodes.
	if n := int(c.peer.Stats().Purged + c.victim.Stats().Purged); n > c.dead && c.fault != zkserver.HoldReply {
		c.Errorf("%d entries were left to expire, and purged; %d were dead", n, c.dead)
	}
	if id, _, _ := c.tap.Session(); id != c.session && !c.expires {
		c.Errorf("session %#x should have survived, and became %#x", c.session, id)
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func (c *cut) isHit() bool { return closed(c.hit) }

// contend takes the lock for the peer. It keeps the lock until the fault is over, and the victim's
// operation has ended or the victim waits.
func (c *cut) contend() {
	h, err := c.acquire(c.peer)
	if err != nil {
		c.Errorf("the contender: %v", err)
		return
	}
	leave := c.enter(h)
	c.awaitBegin()
	if c.isHit() && !closed(c.over) {
		c.early.Store(true)
	}
	c.came.Store(true)
	c.eventually("the victim is through, or waits for its turn", func() bool {
		return closed(c.over) && (closed(c.done) || c.entries("victim") > 0) || c.ctx.Err() != nil
	})
	leave()
	c.unlock(h)
}

// enter records that h holds the lock, until leave is called or the hold ends. Two valid holds at
// once fail the test.
func (c *cut) enter(h *lock.Hold) (leave func()) {
	if h.Remaining() == 0 {
		return func() {}
	}
	alone := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, other := range c.entered {
			if other != h && other.Remaining() > 0 && h.Remaining() > 0 {
				c.Errorf("%s and %s are valid at once", other.EntryPath(), h.EntryPath())
			}
		}
	}
	exit := sync.OnceFunc(c.room.enter(h.Token()))
	c.mu.Lock()
	c.entered = append(c.entered, h)
	c.mu.Unlock()
	alone()
	stop := context.AfterFunc(h.Context(), exit)
	return func() {
		stop()
		alone()
		exit()
	}
}

// entries returns the number of the owner's entries in the queue.
func (c *cut) entries(owner string) (n int) {
	for _, name := range c.children(c.name) {
		data, _, err := c.raw.Get(c.path(name))
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			c.Fatal(err)
		}
		if record, err := znode.DecodeRecord(data); err == nil && record.Owner == owner {
			n++
		}
	}
	return n
}

func (c *cut) path(entry string) string { return c.root + "/" + c.name + "/" + entry }

// exists reports whether a node exists, after a sync.
func (c *cut) exists(path string) bool {
	iferr.Fatal(c, iferr.Of(c.raw.Sync(path)))
	exists, _, err := c.raw.Exists(path)
	iferr.Fatal(c, err)
	return exists
}

// gone waits until a node is deleted.
func (c *cut) gone(path string) {
	c.Helper()
	for {
		var exists bool
		var changed <-chan zk.Event
		var err error
		c.raw.again(func() error { exists, _, changed, err = c.raw.ExistsW(path); return err })
		switch {
		case err != nil:
			c.Fatal(err)
		case !exists:
			return
		}
		select {
		case <-changed:
		case <-c.ctx.Done():
			c.Fatalf("%s is there: %v", path, c.ctx.Err())
		}
	}
}

// work checks that the entry of the victim's hold exists and is the first in the queue. It waits
// until the grant is recorded, and ends the operation. If the fault has occurred, it waits until
// the peer queues or has entered. Then it unlocks.
func (c *cut) work(h *lock.Hold) {
	if h.Remaining() == 0 {
		c.Errorf("the victim was given a hold that is over: %v", h.Err())
	}
	leave := c.enter(h)
	there := c.exists(h.EntryPath())
	queue := znode.Contenders(c.children(c.name))
	if h.Remaining() > 0 && (!there || len(queue) == 0 || queue[0].Node != path.Base(h.EntryPath())) { // Remaining is asked after the list, so the hold was valid during the list
		c.Errorf("the victim holds the lock by %s, exists: %v; the queue is %v", h.EntryPath(), there, queue)
	}
	c.eventually("the grant was recorded", func() bool {
		data, _, err := c.raw.Get(h.EntryPath())
		record, _ := znode.DecodeRecord(data)
		return c.alone || err == nil && record.Granted() || h.Err() != nil
	})
	c.end()
	if c.isHit() {
		c.eventually("the contender came", func() bool { return c.entries("peer") > 0 || c.came.Load() || h.Err() != nil })
	}
	leave()
	err := h.Unlock()
	if !c.wasLost(h, err) {
		c.unlocked(h, err)
	}
}

// wasLost reports whether err, of an unlock, tells rightly of a loss: the hold was lost before, as Err says too,
// or its lease ended just before the unlock, and the peer purged the entry.
func (c *cut) wasLost(h *lock.Hold, err error) bool {
	return c.lost(err) && (err == h.Err() || !c.exists(h.EntryPath()))
}

// unlocked checks the result of unlocking a hold that was not lost. The unlock may be unconfirmed
// only while replies are held.
func (c *cut) unlocked(h *lock.Hold, err error) {
	var unconfirmed *lock.UnlockError
	switch {
	case err == nil && c.exists(h.EntryPath()):
		c.Errorf("Unlock = nil, and %s is there", h.EntryPath())
	case errors.As(err, &unconfirmed) && c.fault == zkserver.HoldReply:
	case err != nil:
		c.Errorf("Unlock = %v; the hold ended with %v", err, h.Err())
	}
	if h.Remaining() > 0 {
		c.Errorf("%s is valid after Unlock", h.EntryPath())
	}
}

// heldByPeer checks that the error names the peer as the holder.
func (c *cut) heldByPeer(err error) {
	var held *lock.HeldError
	if !errors.As(err, &held) || held.Owner != "peer" {
		c.Errorf("error %v, want that the peer holds the lock", err)
	}
}

// acquire takes the lock of the case.
func (c *cut) acquire(client *lock.Client) (*lock.Hold, error) {
	if c.how == nil {
		return client.Mutex(c.name).Lock(c.ctx)
	}
	return c.how(c.ctx, client, c.name)
}

// take takes the lock of the case for a client. An error ends the test.
func (c *cut) take(client *lock.Client) *lock.Hold {
	c.Helper()
	h, err := c.acquire(client)
	if err != nil {
		c.Fatalf("take %s: %v", c.name, err)
	}
	return h
}
