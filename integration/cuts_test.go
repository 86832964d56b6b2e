package integration_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
	"github.com/rs/zerolog"
)

const (
	cutTTL  = 12 * time.Second // of the client whose connection is cut: it outlives that
	heldTTL = 4 * time.Second  // of the client whose replies are held, for longer than that
	peerTTL = 5 * time.Minute  // of the others: nobody can wait for its end
	holdFor = heldTTL + grace + 300*time.Millisecond

	// cutSession keeps a connection whose replies are held: go-zookeeper gives it
	// up after two thirds of that without a word, and one third may have gone by
	// before.
	cutSession = 6 * holdFor

	cutsAtOnce = 20 // cases: most of them wait most of the time
)

var cutOperations = []struct {
	name string
	do   func(c *cut)
}{
	{"lock free", lockFree},
	{"lock contended", lockContended},
	{"write free", as(write, lockFree)},
	{"write contended", as(write, lockContended)},
	{"permit free", as(permit, lockFree)},
	{"permit contended", as(permit, lockContended)},
	{"read free", reading(lockFree)},
	{"read contended", reading(lockContended)},
	{"downgrade", as(write, downgrade)},
	{"more permits", resize(1, 2)},
	{"fewer permits", resize(2, 1)},
	{"several free", several(lockFree)},
	{"several contended", several(lockContended)},
	{"detach", detach},
	{"attach", attach},
	{"lock cancelled", lockCancelled},
	{"trylock free", tryLockFree},
	{"trylock held", tryLockHeld},
	{"unlock alone", unlockAlone},
	{"unlock with waiter", unlockWithWaiter},
	{"renewal", renewal},
	{"transaction", transaction},
	{"purge", purge},
	{"sweep", sweep},
}

// TestEveryCutPoint interrupts each operation at each of its requests, in each
// way, with the session surviving and expired. After each nobody entered while
// somebody else was in, the operation told the truth, and after TTL, grace and
// one sweep nothing is left.
//
// A run without a fault tells how many requests there are. Further ones are looked
// for until the operation is through before the fault comes, which it may be sooner
// too: how often it renews its entry is a matter of time.
//
// It does not run beside other tests: they would starve each other's renewals.
func TestEveryCutPoint(t *testing.T) {
	server := zkserver.ForTest(t, zkserver.Options{MaxSessionTimeout: cutSession})
	b := on(t, []string{server.Addr()})
	b.ctx = t.Context()     // each case has its own time
	b.create(b.root, "", 0) // or else the first one would make one request more
	slots := make(chan struct{}, cutsAtOnce)
	tally := cutTally{rows: map[string]*cutRow{}}
	var wg sync.WaitGroup
	for _, op := range cutOperations {
		// run returns nil if the case was not asked for by -run. The clean one must
		// be: go test -run 'EveryCutPoint/purge/(clean|cut_after_request_3)'.
		run := func(fault zkserver.Fault, k int, expires bool) (c *cut) {
			slots <- struct{}{}
			defer func() { <-slots }()
			name := op.name + "/clean"
			if k > 0 {
				name = fmt.Sprintf("%s/%v request %d, session %s", op.name, fault, k, map[bool]string{false: "survives", true: "expires"}[expires])
			}
			t.Run(name, func(t *testing.T) {
				c = newCut(t, b, fault, k, expires)
				op.do(c)
				c.finish()
			})
			return c
		}
		wg.Go(func() {
			clean := run(0, 0, false)
			if clean == nil {
				return
			}
			for _, fault := range []zkserver.Fault{zkserver.CutBefore, zkserver.CutAfter, zkserver.HoldReply} {
				for _, expires := range []bool{false, true} {
					for k := 1; k <= clean.requests; k++ {
						wg.Go(func() { tally.add(op.name, run(fault, k, expires)) })
					}
					wg.Go(func() {
						for k := clean.requests + 1; tally.add(op.name, run(fault, k, expires)); k++ {
						}
					})
				}
			}
		})
	}
	wg.Wait()
	t.Log("\n" + tally.String())

	time.Sleep(cutTTL + grace + 2*time.Second) // until the leases that were given up are over, and orphan_after
	report, err := b.reaper(time.Second).Sweep(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the last sweep: %+v", report.Total)
	if left := b.nodes(); len(left) > 0 {
		t.Errorf("left after TTL, grace and a sweep: %q", left)
	}
}

// cut is one case: a client whose connection a fault happens to, and a peer.
type cut struct {
	*bench
	fault   zkserver.Fault
	k       int // request that the fault happens to; 0: none
	expires bool
	victim  *lock.Client
	tap     *zkserver.Tap
	peer    *lock.Client
	name    string // of the lock
	how     taking // nil: as a mutex
	dead    int    // entries that expired before the operation began
	ttl     time.Duration
	room    room

	hit      <-chan struct{}
	over     chan struct{} // closed when the fault is over, or will not come any more
	done     chan struct{} // closed when the operation is
	before   int64         // requests until it began
	requests int           // that it made
	session  int64         // of the victim when it began
	helpers  sync.WaitGroup

	came    atomic.Bool // the contender had its turn
	early   atomic.Bool // and before the fault was over
	mu      sync.Mutex
	entered []*lock.Hold
}

func newCut(t *testing.T, shared *bench, fault zkserver.Fault, k int, expires bool) *cut {
	b := *shared
	b.TB = t
	_, name, _ := strings.Cut(t.Name(), "/")
	b.root += "/" + strings.ReplaceAll(name, "/", ".")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	b.ctx = ctx
	c := &cut{
		bench: &b, fault: fault, k: k, expires: expires, name: "above/x",
		tap: new(zkserver.Tap), over: make(chan struct{}), done: make(chan struct{}),
		ttl: cutTTL,
	}
	if fault == zkserver.HoldReply {
		c.ttl = heldTTL
	}
	c.peer = b.client(lock.WithOwner("peer"), lock.WithTTL(peerTTL))
	var err error
	// Each server is named several times, or else go-zookeeper would pause for a
	// second before it connects again.
	c.victim, err = lock.Dial(ctx, slices.Repeat(b.servers, 4),
		lock.WithOwner("victim"), lock.WithRoot(b.root), lock.WithPolicies(b.policies(c.ttl, time.Second)),
		lock.WithSessionTimeout(cutSession), lock.WithUnlockTimeout(c.ttl), lock.WithDialer(c.tap.Dial),
		lock.WithLogger(zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.InfoLevel).With().Timestamp().Logger()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		c.helpers.Wait()
		c.tap.Resume()
		c.close()
	})
	return c
}

// close closes the victim. That its entries could not be deleted in time is the
// truth while replies are held.
func (c *cut) close() {
	if err := c.victim.Close(); err != nil && c.fault != zkserver.HoldReply {
		c.Errorf("close: %v", err)
	}
}

// begin begins the operation whose requests count. When the fault happens to one of
// them, somebody else comes for the lock.
func (c *cut) begin() {
	c.before = c.tap.Counts().Requests
	c.session, _, _ = c.tap.Session()
	if c.k > 0 {
		c.hit = c.tap.Inject(c.fault, c.k)
	}
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
			if err := c.tap.Expire(c.ctx, c.servers[0]); err != nil {
				c.Error(err)
			}
		}
		if c.fault == zkserver.HoldReply {
			time.Sleep(holdFor)
		}
		c.tap.Resume()
	})
}

// end ends it: a fault that did not happen will not.
func (c *cut) end() {
	c.requests = int(c.tap.Counts().Requests - c.before)
	if c.k > 0 && !c.tap.Disarm() {
		<-c.hit
	}
	close(c.done)
}

// finish waits until all have had their turn and cleaned up.
func (c *cut) finish() {
	c.helpers.Wait()
	c.room.check(c)
	c.eventually("the lock's node is gone", func() bool { return !c.exists(c.root + "/" + c.name) })
	if !c.isHit() && (c.requests == 0 || c.k > 0 && c.requests >= c.k) {
		c.Errorf("%d requests, and the fault did not happen to request %d", c.requests, c.k)
	}
	// Cuts end no lease: whatever was made is taken back by who made it.
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

// contend takes the lock, and keeps it until the victim's operation is through or
// waits for it, and the fault is over.
func (c *cut) contend() {
	h, err := c.acquire(c.peer)
	if err != nil {
		c.Errorf("the contender: %v", err)
		return
	}
	leave := c.enter(h)
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

// enter notes somebody who has the lock, until it leaves or has lost it.
func (c *cut) enter(h *lock.Hold) (leave func()) {
	if !h.Valid() {
		return func() {}
	}
	alone := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, other := range c.entered {
			if other != h && other.Valid() && h.Valid() {
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

// entries is how many entries that owner has in the queue.
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

// exists asks a server that has caught up.
func (c *cut) exists(path string) bool {
	if _, err := c.raw.Sync(path); err != nil {
		c.Fatal(err)
	}
	exists, _, err := c.raw.Exists(path)
	if err != nil {
		c.Fatal(err)
	}
	return exists
}

// work does what a victim does that was told that it holds the lock: it has an
// entry, the first one, and keeps it until the contender has come.
func (c *cut) work(h *lock.Hold) {
	if !h.Valid() {
		c.Errorf("the victim was given a hold that is over: %v", h.Err())
	}
	leave := c.enter(h)
	there := c.exists(h.EntryPath())
	queue := znode.Contenders(c.children(c.name))
	if h.Valid() && (!there || len(queue) == 0 || queue[0].Node != path.Base(h.EntryPath())) { // was valid then, too
		c.Errorf("the victim holds the lock by %s, exists: %v; the queue is %v", h.EntryPath(), there, queue)
	}
	c.eventually("the grant was recorded", func() bool {
		data, _, err := c.raw.Get(h.EntryPath())
		record, _ := znode.DecodeRecord(data)
		return err == nil && record.Granted() || h.Err() != nil
	})
	c.end()
	if c.isHit() {
		c.eventually("the contender came", func() bool { return c.entries("peer") > 0 || c.came.Load() || h.Err() != nil })
	}
	leave()
	err := h.Unlock()
	if errors.Is(err, lock.ErrExpired) && err == h.Err() && c.fault == zkserver.HoldReply {
		return // it was lost, and says so
	}
	c.unlocked(h, err)
}

// unlocked checks what was told of the unlock of a hold that was not lost. Only
// while replies are held may that be unconfirmed.
func (c *cut) unlocked(h *lock.Hold, err error) {
	var unconfirmed *lock.UnlockError
	switch {
	case err == nil && c.exists(h.EntryPath()):
		c.Errorf("Unlock = nil, and %s is there", h.EntryPath())
	case errors.As(err, &unconfirmed) && c.fault == zkserver.HoldReply:
	case err != nil:
		c.Errorf("Unlock = %v; the hold ended with %v", err, h.Err())
	}
	if h.Valid() {
		c.Errorf("%s is valid after Unlock", h.EntryPath())
	}
}

// heldByPeer checks that an error names who is in the way: the peer.
func (c *cut) heldByPeer(err error) {
	var held *lock.HeldError
	if !errors.As(err, &held) || held.Owner != "peer" {
		c.Errorf("error %v, want that the peer holds the lock", err)
	}
}

// acquire takes the lock that the case is about.
func (c *cut) acquire(client *lock.Client) (*lock.Hold, error) {
	if c.how == nil {
		return client.Mutex(c.name).Lock(c.ctx)
	}
	return c.how(c.ctx, client, c.name)
}

// take takes it for a client that has to get it.
func (c *cut) take(client *lock.Client) *lock.Hold {
	c.Helper()
	h, err := c.acquire(client)
	if err != nil {
		c.Fatalf("take %s: %v", c.name, err)
	}
	return h
}

// taking is a way to take a lock that one has at a time.
type taking func(context.Context, *lock.Client, string) (*lock.Hold, error)

// write takes a read/write lock to write, permit the only one of a semaphore.
var (
	write taking = func(ctx context.Context, c *lock.Client, name string) (*lock.Hold, error) {
		return c.RWMutex(name).Lock(ctx)
	}
	permit taking = func(ctx context.Context, c *lock.Client, name string) (*lock.Hold, error) {
		return c.Semaphore(name, 1).Acquire(ctx, 1)
	}
)

// as is an operation on another kind of lock than a mutex.
func as(how taking, do func(*cut)) func(*cut) {
	return func(c *cut) {
		c.how = how
		do(c)
	}
}

func lockFree(c *cut) {
	c.begin()
	c.work(c.take(c.victim))
}

// lockContended has the victim wait for long enough to renew its entry, or until the
// fault is over.
func lockContended(c *cut) {
	holder := c.take(c.peer)
	leave := c.enter(holder)
	c.begin()
	c.helpers.Go(func() {
		select {
		case <-time.After(c.ttl / 2):
		case <-c.hit:
			<-c.over
		}
		leave()
		c.unlock(holder)
	})
	c.work(c.take(c.victim))
}

// lockCancelled has the context end when the fault happens, or else when the victim
// has waited for long enough to renew its entry.
func lockCancelled(c *cut) {
	holder := c.lock(c.peer, c.name)
	leave := c.enter(holder)
	ctx, cancel := context.WithCancelCause(c.ctx)
	changed := errors.New("changed our mind")
	c.begin()
	c.helpers.Go(func() {
		select {
		case <-time.After(c.ttl / 2):
		case <-c.hit:
		}
		cancel(changed)
	})
	h, err := c.victim.Mutex(c.name).Lock(ctx)
	if h != nil || !errors.Is(err, context.Canceled) || !errors.Is(err, changed) {
		c.Errorf("Lock = %v, %v; want that it was cancelled", h, err)
	}
	if errors.Is(err, lock.ErrHeld) {
		c.heldByPeer(err)
	}
	c.eventually("the victim's entry is gone", func() bool { return c.entries("victim") == 0 })
	if c.isHit() {
		<-c.over
	}
	c.close() // which waits for what goes on in the background
	c.end()
	leave()
	c.unlock(holder)
}

func tryLockFree(c *cut) {
	c.begin()
	h, err := c.victim.Mutex(c.name).TryLock(c.ctx)
	if err == nil {
		c.work(h)
		return
	}
	c.heldByPeer(err)
	c.end()
}

func tryLockHeld(c *cut) {
	holder := c.lock(c.peer, c.name)
	leave := c.enter(holder)
	c.begin()
	h, err := c.victim.Mutex(c.name).TryLock(c.ctx)
	if h != nil {
		c.Errorf("TryLock = %s", h.EntryPath())
	}
	c.heldByPeer(err)
	c.end()
	if n := c.entries("victim"); n > 0 {
		c.Errorf("a try that failed has left %d entries", n)
	}
	leave()
	c.unlock(holder)
}

func unlockAlone(c *cut) {
	h := c.lock(c.victim, c.name)
	c.unlocks(h)
}

func unlockWithWaiter(c *cut) {
	h := c.lock(c.victim, c.name)
	c.helpers.Go(c.contend)
	c.eventually("there is a waiter", func() bool { return c.entries("peer") > 0 })
	c.unlocks(h)
}

func (c *cut) unlocks(h *lock.Hold) {
	c.enter(h)()
	c.begin()
	err := h.Unlock()
	c.end()
	c.unlocked(h, err)
}

// renewal holds the lock for two renewals. Cuts cost nothing; a reply that does not
// come costs the hold, and its holder knows.
func renewal(c *cut) {
	h := c.lock(c.victim, c.name)
	leave := c.enter(h)
	before := c.victim.Stats().Renewals
	c.begin()
	c.eventually("two renewals, or the hold's end", func() bool {
		return c.victim.Stats().Renewals >= before+2 || h.Err() != nil
	})
	c.end()
	lost := c.isHit() && c.fault == zkserver.HoldReply
	kept := c.fault != zkserver.HoldReply // a lease that is to be lost is short, and may be lost before
	switch err := h.Err(); {
	case lost && (!errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrExpired) || h.Valid()):
		c.Errorf("the hold could not be renewed and ended with %v; valid: %v", err, h.Valid())
	case kept && (err != nil || !h.Valid()):
		c.Errorf("the hold ended with %v; valid: %v", err, h.Valid())
	}
	leave()
	if err := h.Unlock(); lost && !errors.Is(err, lock.ErrExpired) || kept && err != nil {
		c.Errorf("Unlock = %v", err)
	}
}

// purge finds two in the queue who died.
func purge(c *cut) {
	c.bury(c.name, 0)
	c.begin()
	c.work(c.lock(c.victim, c.name))
}

// bury makes a lock with two entries that have expired, orphanAfter ago.
func (c *cut) bury(name string, orphanAfter time.Duration) {
	const ttl = 10 * time.Millisecond
	c.unlock(c.lock(c.peer, name)) // makes root and ancestors
	c.create(c.root+"/"+name, string(znode.Parent{Kind: znode.Mutex}.Encode()), 0)
	for c.dead = 0; c.dead < 2; c.dead++ {
		dead := znode.Record{Owner: "dead", TTL: ttl.Milliseconds()}
		c.create(c.root+"/"+name+"/"+znode.Prefix(znode.NewID(), znode.Exclusive), string(dead.Encode()), zk.FlagSequence)
	}
	c.overdue(c.peer, name, orphanAfter)
}

// sweep sweeps a tree with an orphan, an empty ancestor, two expired entries and one
// that lives.
func sweep(c *cut) {
	live := c.lock(c.peer, "live")
	c.create(c.root+"/orphan", string(znode.Parent{Kind: znode.Mutex}.Encode()), 0)
	c.create(c.root+"/empty", string(znode.Parent{Kind: znode.Dir}.Encode()), 0)
	const orphanAfter = time.Second
	c.bury("dead", orphanAfter) // when those two are that old, too
	r, err := reaper.New(c.victim, reaper.Options{Policies: c.policies(c.ttl, orphanAfter), Concurrency: 1, Lock: "reaper"})
	if err != nil {
		c.Fatal(err)
	}
	c.name = "reaper" // that somebody else contends for

	c.begin()
	report, err := r.Sweep(c.ctx)
	c.end()
	var unconfirmed *lock.UnlockError
	switch late := c.fault == zkserver.HoldReply; {
	case errors.Is(err, lock.ErrHeld):
		c.heldByPeer(err)
	case err == nil, late && errors.As(err, &unconfirmed) && !errors.Is(err, lock.ErrLost):
		if !report.Complete {
			c.Errorf("incomplete, and no error: %+v", report)
		}
		for _, swept := range []string{"orphan", "empty", "dead"} {
			if c.exists(c.root + "/" + swept) {
				c.Errorf("%s is there after a complete sweep: %+v", swept, report.Total)
			}
		}
	case late && errors.Is(err, lock.ErrExpired):
	default:
		c.Errorf("Sweep = %+v, %v", report, err)
	}
	if !live.Valid() || !c.exists(live.EntryPath()) {
		c.Errorf("the sweep ended a live hold: %v", live.Err())
	}
	c.unlock(live)
}

// cutTally counts the cases of each operation.
type cutTally struct {
	mu   sync.Mutex
	rows map[string]*cutRow
}

type cutRow struct {
	faults [3][2]int // by fault, and whether the session expired
	early  int       // those in which the contender was in before the fault was over
}

// add counts a case, and reports whether it was one: whether the fault happened.
func (t *cutTally) add(operation string, c *cut) bool {
	if c == nil || !c.isHit() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.rows[operation]
	if row == nil {
		row = new(cutRow)
		t.rows[operation] = row
	}
	expires := 0
	if c.expires {
		expires = 1
	}
	row.faults[c.fault-zkserver.CutBefore][expires]++
	if c.early.Load() {
		row.early++
	}
	return true
}

// String is the tally as a table.
func (t *cutTally) String() string {
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 0, 1, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "cases; session survives+expires\tcut before\tcut after\thold reply\tcontender in meanwhile\t")
	total := 0
	for _, op := range cutOperations {
		row := t.rows[op.name]
		if row == nil {
			continue // not asked for by -run
		}
		fmt.Fprintf(w, "%s\t", op.name)
		for _, n := range row.faults {
			fmt.Fprintf(w, "%d+%d\t", n[0], n[1])
			total += n[0] + n[1]
		}
		fmt.Fprintf(w, "%d\t\n", row.early)
	}
	fmt.Fprintf(w, "%d in all\t\t\t\t\t\n", total)
	w.Flush()
	return s.String()
}
