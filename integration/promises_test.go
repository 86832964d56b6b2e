package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/localhost"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// TestFreeLockIsOneRoundTripEachWay: Lock and Unlock of a free lock, and of eight free locks
// together, take one request each, which is one transaction, and leave no node of the lock.
func TestFreeLockIsOneRoundTripEachWay(t *testing.T) {
	t.Parallel()
	s := zkserver.ForTest(t, zkserver.Options{})
	b := on(t, []string{s.Addr()})
	c, tap := b.tapped(lock.WithSessionTimeout(time.Minute)) // so long that no new session counts as a transaction
	b.unlock(b.lock(c, "orders/42"))                         // creates the root and the ancestor
	b.nodes()                                                // opens the bench's own session before the count
	var unlocked time.Time
	// A lock that is used again within a second keeps its parent. A second after the last use, one
	// more transaction deletes the parent, so counts near that time prove nothing.
	const soon = 500 * time.Millisecond
	counted := func(what string, again, late bool, call func() error) bool {
		sent, zxid := tap.Counts().Requests, must(s.Zxid(b.ctx))(t)
		if err := call(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		n, m := tap.Counts().Requests-sent, must(s.Zxid(b.ctx))(t)-zxid
		late = late || again && time.Since(unlocked) > soon // wall clock: a count that came too late is not judged
		if !late && (n != 1 || m != 1) {
			t.Errorf("%s: %d requests, %d transactions; want one of each", what, n, m)
		}
		return late
	}
	cycle := func(again bool, names ...string) (late bool) {
		var h interface{ Unlock() error }
		late = counted("Lock", again, false, func() (err error) {
			if len(names) > 1 {
				h, err = c.All(names).Lock(b.ctx)
			} else {
				h, err = c.Mutex(names[0]).Lock(b.ctx)
			}
			return err
		})
		return counted("Unlock", again, late, func() error {
			defer func() { unlocked = time.Now() }()
			return h.Unlock()
		})
	}
	above := []string{b.root + "/orders"}
	for i := range 10 {
		cycle(false, fmt.Sprintf("orders/%d", i))
		if left := b.nodes(); !slices.Equal(left, above) {
			t.Errorf("after Unlock there is %q", left)
		}
	}
	for i := range 5 {
		var names []string
		for j := range 8 {
			names = append(names, fmt.Sprintf("orders/%d-%d", i, j))
		}
		cycle(false, names...)
	}
	for inTime := 0; inTime < 10; {
		if !cycle(true, "orders/42") {
			inTime++
		}
	}
	b.eventually("a lock that was taken again and again leaves nothing", func() bool { return slices.Equal(b.nodes(), above) })
	b.prune("orders")
}

// children lists the children of a lock's node, without the anchor.
func (b *bench) children(name string) []string {
	children, _, err := b.raw.Children(b.root + "/" + name)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		b.Fatal(err)
	}
	return withoutAnchors(children)
}

func withoutAnchors(children []string) []string {
	return slices.DeleteFunc(children, func(node string) bool {
		_, is := znode.AnchorOf(node)
		return is
	})
}

// TestSessionsExpiredOnceASecond: each session of all clients ends after a second. A hold outlives
// that for longer than a lease and the grace, and hears of each request to release it, which is made
// as a session ends. Then the other clients take turns: no two clients hold the lock at once, and
// each client has a turn.
func TestSessionsExpiredOnceASecond(t *testing.T) {
	t.Parallel()
	b := onShared(t)
	const span = 2 * (longTTL + grace)
	opts := []lock.Option{lock.WithTTL(longTTL), lock.WithUnlockTimeout(longTTL)} // an answer may take many sessions
	c, tap := b.tapped(opts...)
	asker := b.client()
	var r room
	h := b.lock(c, "x")
	leave, begun := r.enter(h.Token()), time.Now()
	var expired atomic.Int32
	stop := make(chan struct{})
	var holder sync.WaitGroup
	holder.Go(func() { b.storm(tap, &expired, stop) })
	holder.Go(func() {
		defer close(stop)
		for i := 0; i < 10 || time.Since(begun) < span/2; i++ { // wall clock: sessions end for this long
			b.asks(asker, h, fmt.Sprint("request ", i))
			n := expired.Load()
			b.eventually("the holder's session ends", func() bool { return expired.Load() > n })
		}
		if n := r.entries.Load(); n != 1 || h.Remaining() == 0 {
			t.Errorf("%d entries while the first one held, whose lease has %v left", n, h.Remaining())
		}
		leave()
		b.unlock(h)
	})
	var mu sync.Mutex
	turns := map[*lock.Client]int{}
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(turns) == busyClients && time.Since(begun) > span // wall clock: sessions end for this long
	}
	b.busy(enough, func(ctx context.Context, c *lock.Client) error {
		h, err := c.Mutex("x").Lock(ctx)
		if err != nil {
			return err
		}
		leave := r.enter(h.Token())
		time.Sleep(10 * time.Millisecond) // wall clock: how long a hold lasts
		leave()
		mu.Lock()
		turns[c]++
		mu.Unlock()
		return h.Unlock()
	}, opts...)
	holder.Wait()
	r.check(t)
	t.Logf("%d turns", r.entries.Load())
}

// busyClients is the number of clients of busy.
const busyClients = 4

// busy runs turns on several clients, which have the options, and ends their sessions repeatedly. It
// returns when 5 seconds have passed and enough returns true.
func (b *bench) busy(enough func() bool, turn func(ctx context.Context, c *lock.Client) error, opts ...lock.Option) {
	b.Helper()
	const workers, span = 4, 5 * time.Second
	var all sync.WaitGroup
	defer all.Wait()
	ending, end := context.WithCancel(b.ctx)
	defer end()
	var taps [busyClients]*zkserver.Tap
	var cs [busyClients]*lock.Client
	for i := range cs {
		cs[i], taps[i] = b.tapped(opts...)
	}
	var expired atomic.Int32
	for i, c := range cs {
		all.Go(func() { b.storm(taps[i], &expired, ending.Done()) })
		for range workers {
			all.Go(func() {
				for ending.Err() == nil {
					if err := turn(ending, c); err != nil && ending.Err() == nil {
						b.Error(err)
					}
				}
			})
		}
	}
	begun := time.Now()
	// wall clock: the faults last for span at least
	b.eventually("enough has happened", func() bool { return b.Failed() || time.Since(begun) > span && enough() })
	b.Logf("%d sessions were ended", expired.Load())
}

// asks requests the release of a hold, and waits until its holder hears of that request.
func (b *bench) asks(asker *lock.Client, h *lock.Hold, reason string) {
	b.Helper()
	iferr.Fatal(b, asker.Revoke(b.ctx, h.Name(), reason))
	for heard := ""; heard != reason; { // an earlier request may be heard again first
		select {
		case asked := <-h.Revoked():
			heard = asked.Reason
		case <-h.Context().Done():
			b.Fatalf("%s: the holder lost it: %v", reason, h.Err())
		case <-b.ctx.Done():
			b.Fatalf("%s: not heard", reason)
		}
	}
}

// storm ends each session of a client after a second, and counts the sessions in expired. A second
// suffices for a request. storm returns when stop is closed.
func (b *bench) storm(tap *zkserver.Tap, expired *atomic.Int32, stop <-chan struct{}) {
	sleep := func(d time.Duration) bool {
		select {
		case <-stop:
			return false
		// wall clock: the pace of the storm
		case <-time.After(d):
			return true
		}
	}
	ended := int64(0)
	for sleep(20 * time.Millisecond) {
		id, _, ok := tap.Session()
		if !ok || id == ended {
			continue
		}
		if !sleep(time.Second) {
			return
		}
		b.expire(tap)
		expired.Add(1)
		ended = id
	}
}

// TestKilledHolder: after a holder was killed, the next client enters when the lease and the grace
// have passed, not before, with a higher token. The next client purges the killed holder's entry.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	b := onShared(t)
	c := b.client(lock.WithSessionTimeout(time.Minute)) // no session ends, because a client waits longer after an outage
	dead := b.holder("x")
	token := dead.says("held")
	entered := make(chan *lock.Hold, 1)
	go func() { entered <- b.lock(c, "x") }()
	b.eventually("the next one queues", func() bool { return len(b.children("x")) == 2 })
	_, stat, err := b.raw.Get(b.root + "/x/" + b.first("x"))
	iferr.Fatal(t, err)
	dead.Kill()
	h := <-entered
	now, err := admin.New(c).Now(b.ctx)
	iferr.Fatal(t, err)
	if took := now.Latest().Sub(time.UnixMilli(stat.Mtime)); took < ttl+grace {
		t.Errorf("the next one entered %v after the last renewal, before TTL and grace of %v", took, ttl+grace)
	}
	if got := h.Token().String(); got <= token {
		t.Errorf("token %s after %s", got, token)
	}
	if c.Stats().Purged != 1 {
		t.Errorf("%d entries purged, want the dead one's", c.Stats().Purged)
	}
	b.unlock(h)
}

// first returns the node name of the first entry of a lock.
func (b *bench) first(name string) string {
	names := znode.Contenders(b.children(name))
	if len(names) == 0 {
		b.Fatalf("%s has no entry", name)
	}
	return names[0].Node
}

// policies returns a set with one policy for all locks.
func (b *bench) policies(ttl, orphanAfter time.Duration) *policy.Set {
	b.Helper()
	all, err := policy.ParsePattern("**")
	iferr.Fatal(b, err)
	set, err := policy.NewSet(policy.Rule{Match: all, Policy: lock.Policy{Name: "test", TTL: ttl, Grace: grace, LocalWindow: lock.NoLocalWindow}, OrphanAfter: orphanAfter})
	iferr.Fatal(b, err)
	return set
}

// reaper returns a reaper of the bench's root that sweeps once a second.
func (b *bench) reaper(orphanAfter time.Duration) *reaper.Reaper {
	b.Helper()
	set := b.policies(long, orphanAfter)
	c := dial(b, b.ctx, b.servers, append(b.network(), lock.WithRoot(b.root), lock.WithPolicies(set), lock.WithSessionTimeout(sessionTimeout))...)
	r, err := reaper.New(c, reaper.Options{Policies: set, Schedule: "@every 1s"})
	iferr.Fatal(b, err)
	return r
}

// TestParentDeletedUnderContenders: while a client deletes every parent that it finds empty, with
// its anchor, and a reaper runs, no two contenders hold one of three locks at once, and each lock
// is taken at least 50 times. In each of ten rounds the contenders pause until no parent is left: on a slow
// machine no parent is ever empty otherwise. Two of the clients share a borrowed connection.
func TestParentDeletedUnderContenders(t *testing.T) {
	t.Parallel()
	b := onShared(t)
	const contenders, rounds, round = 32, 10, time.Second
	shared := b.connect()
	clients := []*lock.Client{b.client(), b.client(), b.borrower(shared), b.borrower(shared)}
	rooms := map[string]*room{"a": {}, "b/c": {}, "b/c/d": {}}
	ctx, cancel := context.WithCancel(b.ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var pause sync.RWMutex // locked while no contender may contend
	contend := func(i int, name string) {
		pause.RLock()
		defer pause.RUnlock()
		h, err := clients[i%len(clients)].Mutex(name).Lock(b.ctx)
		if err != nil {
			t.Errorf("lock %s: %v", name, err)
			return
		}
		leave := rooms[name].enter(h.Token())
		time.Sleep(time.Millisecond) // wall clock: a hold lasts for a moment
		leave()
		b.unlock(h)
	}
	for i := range contenders {
		wg.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				contend(i, []string{"a", "b/c", "b/c/d"}[i%3])
				time.Sleep(rand.N(200 * time.Millisecond)) // wall clock: so that the parent is empty in between
			}
		})
	}
	deleted := map[string]*atomic.Int32{"a": {}, "b": {}, "b/c": {}, "b/c/d": {}}
	wg.Go(func() { // deletes all ancestors and parents without entries
		for ctx.Err() == nil {
			for name, n := range deleted {
				if err := b.deleteEmpty(b.root + "/" + name); err == nil {
					n.Add(1)
				} else if !isAny(err, zk.ErrNoNode, zk.ErrNotEmpty) {
					t.Errorf("delete %s: %v", name, err)
				}
			}
		}
	})
	r := b.reaper(time.Second)
	wg.Go(func() {
		iferr.Error(t, r.Run(ctx))
	})
	untilNoneIsLeft := func() {
		pause.Lock()
		defer pause.Unlock() // also if none of it comes true, as the contenders are awaited
		b.eventually("no parent is left", func() bool {
			return !slices.ContainsFunc(b.nodes(), func(p string) bool { return !strings.HasPrefix(p, b.root+"/holdfast-reaper") })
		})
	}
	for range rounds {
		time.Sleep(round) // wall clock: the reaper and the clients run for this long
		untilNoneIsLeft()
	}
	for name, r := range rooms {
		b.eventually(name+" has been taken 50 times", func() bool { return r.entries.Load() >= 50 })
		if n := deleted[name].Load(); n < rounds/3 { // the clients and the reaper delete some
			t.Errorf("%s was deleted %d times", name, n)
		}
	}
	cancel()
	wg.Wait()
	for name, r := range rooms {
		r.check(t)
		t.Logf("%s: %d entries, %d times deleted", name, r.entries.Load(), deleted[name].Load())
	}
	b.eventually("nothing but ancestors is left", func() bool {
		return !slices.ContainsFunc(b.nodes(), func(p string) bool {
			_, anchor := znode.AnchorOf(strings.TrimPrefix(p, b.root+"/b/c/")) // anchor of b/c: it remains if b/c/d was deleted later
			return p != b.root+"/b" && p != b.root+"/b/c" && !anchor
		})
	})
	b.wipe()
}

// borrower returns a client of the bench's root on a borrowed connection.
func (b *bench) borrower(z *zk.Conn) *lock.Client {
	b.Helper()
	c, err := lock.New(z, lock.WithRoot(b.root), lock.WithTTL(long), lock.WithGrace(grace))
	iferr.Fatal(b, err)
	b.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.Errorf("close: %v", err)
		}
	})
	return c
}

// deleteEmpty deletes a node that has no children or only its anchor, together with the anchor.
func (b *bench) deleteEmpty(path string) error {
	children, _, err := b.raw.Children(path)
	if err != nil {
		return err
	}
	var ops []any
	for _, child := range children {
		if _, anchor := znode.AnchorOf(child); anchor {
			ops = append(ops, &zk.DeleteRequest{Path: path + "/" + child, Version: -1})
		}
	}
	_, err = b.raw.Multi(append(ops, &zk.DeleteRequest{Path: path, Version: -1})...)
	return err
}

// TestForeignNodesStayUntouched: neither clients that lock nor a reaper change foreign nodes, even
// after TTL and grace. Lock waits for foreign entries, and TryLock finds the lock held.
func TestForeignNodesStayUntouched(t *testing.T) {
	t.Parallel()
	b := onShared(t)
	c := b.client()
	b.create(b.root, "", 0)
	prefix := func() string { return znode.Prefix(znode.NewID(), znode.Exclusive) }
	b.create(b.root+"/x", string(znode.Parent{Kind: znode.Mutex}.Encode()), 0)
	foreign := []string{
		b.create(b.root+"/plain", "", 0),
		b.create(b.root+"/garbage", "\xff\x00garbage", 0),
		b.create(b.root+"/newer", `{"holdfast":9}`, 0),
		b.create(b.root+"/plain/below", "x", 0),
		b.create(b.root+"/x/config", "x", 0),
		b.create(b.root+"/x/"+prefix(), "garbage", zk.FlagSequence),
		b.create(b.root+"/x/"+prefix(), `{"holdfast":9,"ttl_ms":1}`, zk.FlagSequence),
		b.create(b.root+"/x/_c_0123456789abcdef0123456789abcdef-lock-", "", zk.FlagEphemeral|zk.FlagSequence),
	}
	stats := map[string]zk.Stat{}
	for _, p := range foreign {
		_, stat, err := b.raw.Exists(p)
		iferr.Fatal(t, err)
		stat.Cversion, stat.Pzxid, stat.NumChildren = 0, 0, 0
		stats[p] = *stat
	}
	r := b.reaper(time.Second)
	ctx, stop := context.WithCancel(b.ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()

	waiting, cancel := context.WithTimeout(b.ctx, 4*grace) // wall clock: that the lock is not granted is no event
	defer cancel()
	if _, err := c.Mutex("x").Lock(waiting); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock behind foreign entries = %v", err)
	}
	if _, err := c.Mutex("x").TryLock(b.ctx); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("TryLock behind foreign entries = %v", err)
	}
	b.unlock(b.lock(c, "free"))
	for _, p := range foreign {
		_, stat, err := b.raw.Exists(p)
		stat.Cversion, stat.Pzxid, stat.NumChildren = 0, 0, 0
		if err != nil || *stat != stats[p] {
			t.Errorf("%s was touched: %+v, was %+v; %v", p, stat, stats[p], err)
		}
	}
	if report, err := r.Sweep(ctx); err != nil {
		t.Errorf("a sweep of the active reaper, beside its scheduled ones: %+v, %v", report, err)
	}
	stop()
	iferr.Error(t, <-ended)
	b.wipe()
}

// TestSilentServerIsGivenUp: a client whose first server accepts the connection and never answers
// gets a session at another server within the session timeout.
func TestSilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	b := onShared(t)
	silent := localhost.Silent(t)
	b.servers = append([]string{silent}, b.servers...)
	var called atomic.Bool
	dialer := lock.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
		if address == silent {
			called.Store(true)
		}
		return net.DialTimeout(network, address, timeout)
	})
	for !called.Load() { // each Dial tries the servers in a random order
		const timeout = 30 * time.Second                   // the silent server is tried for a third of it
		ctx, cancel := context.WithTimeout(b.ctx, timeout) // wall clock: Dial must be done within its session timeout
		c, err := lock.Dial(ctx, b.servers, lock.WithRoot(b.root), lock.WithSessionTimeout(timeout), dialer)
		cancel()
		if err != nil {
			t.Fatalf("no session within the session timeout: %v", err)
		}
		h := b.lock(c, "x")
		b.unlock(h)
		iferr.Fatal(t, c.Close())
	}
}
