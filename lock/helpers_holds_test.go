// Helpers: how locks of each kind are taken, awaited, handed over and detached; nodes, records, and the
// requests that they cost.

package lock_test

import (
	"cmp"
	"context"
	"fmt"
	"hash/crc32"
	"maps"
	"path"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// taking is a call that takes a lock, such as [lock.Mutex.Lock].
type taking = func(context.Context) (*lock.Hold, error)

// take takes a lock. An error ends the test.
func (w *world) take(take taking) *lock.Hold { w.Helper(); return w.takeIn(w.ctx, take) }

// takeIn is take with a context, such as that of a hold, which reenters the lock.
func (w *world) takeIn(ctx context.Context, take taking) *lock.Hold {
	w.Helper()
	h, err := take(ctx)
	w.ok(err)
	return h
}

// join takes a lock in the background, and returns when its entry exists.
func (w *world) join(name string, take taking) <-chan taken {
	w.Helper()
	return joined(w, func() (*lock.Hold, error) { return take(w.ctx) }, name)
}

// joined calls f in the background, and returns when there is another entry at each of the locks.
func joined[T any](w *world, f func() (T, error), names ...string) <-chan outcome[T] {
	w.Helper()
	settle()
	before := map[string]int{}
	for _, name := range names {
		before[name] = len(w.entries(name))
	}
	ch := start(f)
	w.until("there is another entry at each lock", func() bool {
		return !slices.ContainsFunc(names, func(name string) bool { return len(w.entries(name)) <= before[name] })
	})
	settle()
	return ch
}

type unlocker interface{ Unlock() error }

// ways are calls that take the lock "x", perhaps with others, by name. All are exclusive.
var ways = map[string]func(context.Context, *lock.Client) (unlocker, error){
	"lock":         way(holding),
	"try":          way(func(c *lock.Client) taking { return c.Mutex("x").TryLock }),
	"barge":        way(func(c *lock.Client) taking { return c.Mutex("x").WithBarging().Lock }),
	"try to barge": way(func(c *lock.Client) taking { return c.Mutex("x").WithBarging().TryLock }),
	"write":        way(writing),
	"all permits":  way(func(c *lock.Client) taking { return permits(c.Semaphore("x", 3), 3) }),
	"several":      way(func(c *lock.Client) takingAll { return c.All([]string{"x", "y"}).Lock }),
	"try several":  way(func(c *lock.Client) takingAll { return c.All([]string{"x", "y"}).TryLock }),
	"lock with metadata": way(func(c *lock.Client) taking {
		return c.Mutex("x", lock.WithMetadata(map[string]string{"a": "b"})).Lock
	}),
}

type takingAll = func(context.Context) (*lock.Holds, error)

func way[T unlocker](take func(*lock.Client) func(context.Context) (T, error)) func(context.Context, *lock.Client) (unlocker, error) {
	return func(ctx context.Context, c *lock.Client) (unlocker, error) { return take(c)(ctx) }
}

func permits(s *lock.Semaphore, n int) taking {
	return func(ctx context.Context) (*lock.Hold, error) { return s.Acquire(ctx, n) }
}

func tryPermits(s *lock.Semaphore, n int) taking {
	return func(ctx context.Context) (*lock.Hold, error) { return s.TryAcquire(ctx, n) }
}

const window = lock.DefaultLocalWindow

// slow is an ensemble with a latency of a millisecond in each direction.
var slow = locktest.Options{Latency: func(string, string) time.Duration { return time.Millisecond }}

// line makes n goroutines of a client wait for a lock, one after the other.
func (w *world) line(ctx context.Context, c *lock.Client, name string, n int, opts ...lock.LockOption) []<-chan taken {
	return w.callers(ctx, n, c.Mutex(name, opts...).Lock)
}

// callers makes n goroutines take a lock, one after the other.
func (w *world) callers(ctx context.Context, n int, take taking) (line []<-chan taken) {
	for range n {
		line = append(line, start(func() (*lock.Hold, error) { return take(ctx) }))
		settle()
	}
	return line
}

// expectEach returns the holds, all of which must be there by now.
func (w *world) expectEach(chs ...<-chan taken) (holds []*lock.Hold) {
	w.Helper()
	for _, ch := range chs {
		holds = append(holds, w.expect(ch).hold)
	}
	return holds
}

// endBy checks that each call has ended with err by now.
func (w *world) endBy(err error, chs ...<-chan taken) {
	w.Helper()
	for _, ch := range chs {
		mustBe(w, w.outcome(ch).err, err)
	}
}

// nothingLost checks that the clients have lost no hold and no place, and have purged nothing.
func (w *world) nothingLost(clients ...*lock.Client) {
	w.Helper()
	for _, c := range clients {
		s := c.Stats()
		isTrue(w, s.Lost+s.Requeued+s.Purged == 0, "stats %+v", s)
	}
}

// inOrder checks that the lock passes from the holder to each waiter in turn. The last waiter's
// hold is unlocked too.
func (w *world) inOrder(h *lock.Hold, queue ...<-chan taken) {
	w.Helper()
	for i, next := range queue {
		w.unlock(h)
		got := w.await(next)
		if h.Context().Err() == nil || got.hold.Token().Compare(h.Token()) <= 0 {
			w.Errorf("the hold before goes on, or token %v follows %v", got.hold.Token(), h.Token())
		}
		for _, later := range queue[i+1:] {
			w.waits(later)
		}
		h = got.hold
	}
	w.unlock(h)
}

// handOver is inOrder at the end of a test: no node may be left.
func (w *world) handOver(h *lock.Hold, queue ...<-chan taken) {
	w.Helper()
	w.inOrder(h, queue...)
	w.empty()
}

// pass unlocks a hold, and returns the hold of the next waiter, which must have entered by now.
func (w *world) pass(h *lock.Hold, ch <-chan taken) *lock.Hold {
	w.Helper()
	w.unlock(h)
	return w.expect(ch).hold
}

func second[T any](_ T, err error) error { return err }

// inTime returns the hold, which must be there within most.
func (w *world) inTime(ch <-chan taken, most time.Duration) *lock.Hold {
	w.Helper()
	begun := time.Now()
	got := w.await(ch)
	atMost(w, "the lock was taken after", got.at.Sub(begun), most)
	return got.hold
}

// barge waits for a lock in the background, without an entry in the queue.
func (w *world) barge(ctx context.Context, c *lock.Client, name string) <-chan taken {
	w.Helper()
	ch := start(func() (*lock.Hold, error) { return c.Mutex(name).WithBarging().Lock(ctx) })
	settle()
	return ch
}

func (w *world) lockAll(c *lock.Client, names ...string) *lock.Holds {
	w.Helper()
	hs, err := c.All(names).Lock(w.ctx)
	w.ok(err)
	return hs
}

func (w *world) unlockAll(hs *lock.Holds) {
	w.Helper()
	w.ok(hs.Unlock())
}

// takenAll is the outcome of a call for several locks.
type takenAll = outcome[*lock.Holds]

// queueAll starts a waiter for all of the locks, and returns when the waiter is in all queues.
func (w *world) queueAll(ctx context.Context, c *lock.Client, names ...string) <-chan takenAll {
	w.Helper()
	return joined(w, func() (*lock.Holds, error) { return c.All(names).Lock(ctx) }, names...)
}

// expectAll returns the holds, which must be there by now.
func (w *world) expectAll(ch <-chan takenAll) *lock.Holds {
	w.Helper()
	got := hasCome(w, ch)
	w.ok(got.err)
	return got.hold
}

func (w *world) waitsAll(ch <-chan takenAll) { w.Helper(); hasNotCome(w, ch) }

// soleAll checks that the holds have the only entries of their locks.
func (w *world) soleAll(hs *lock.Holds) {
	w.Helper()
	for h := range hs.All() {
		w.sole(h)
	}
}

// ticket returns a ticket of a hold that is not detached.
func (w *world) ticket(h *lock.Hold) lock.Ticket {
	w.Helper()
	ticket, err := h.Ticket()
	w.ok(err)
	return ticket
}

func (w *world) detach(h *lock.Hold, ttl time.Duration) lock.Ticket {
	w.Helper()
	ticket, err := h.Detach(w.ctx, ttl)
	w.ok(err)
	return ticket
}

// restored creates a detached entry that has not been granted, with a TTL of ten minutes, and returns
// a ticket for it. A hold's ticket is for such an entry if the servers' data was restored from a
// backup that was made while the holder still waited.
func (w *world) restored(name, kind, prefix string) lock.Ticket {
	w.Helper()
	record := znode.Record{Owner: "restored", TTL: (10 * time.Minute).Milliseconds(), Attempt: znode.NewID(), Detached: true}
	path := w.create(w.raw("backup"), lock.DefaultRoot+"/"+name+"/"+prefix, string(record.Encode()), zk.FlagSequence)
	text := strings.Join([]string{"holdfast-ticket:1", kind, lock.DefaultRoot, name, path[strings.LastIndexByte(path, '/')+1:], "0", "0"}, ":")
	ticket, err := lock.ParseTicket(fmt.Sprintf("%s:%08x", text, crc32.ChecksumIEEE([]byte(text))))
	w.ok(err)
	return ticket
}

func (w *world) attach(c *lock.Client, ticket lock.Ticket, opts ...lock.LockOption) *lock.Hold {
	w.Helper()
	h, err := c.Attach(w.ctx, ticket, opts...)
	w.ok(err)
	return h
}

func (w *world) close(c *lock.Client) {
	w.Helper()
	w.ok(c.Close())
}

// breaker is the operator that force-releases holds in tests.
var breaker = znode.Broken{Owner: "root", Host: "node1", PID: 7, Reason: "it hangs"}

// terms are the TTL and the grace of the tests' locks.
var terms = lock.Policy{TTL: ttl, Grace: grace}

func (w *world) breaks(c *lock.Client, path string) *admin.Breaking {
	w.Helper()
	b, err := admin.New(c).Break(w.ctx, path, breaker)
	w.ok(err)
	return b
}

// epochMark is the path of the node that records the leader's epoch. No client deletes it.
const epochMark = lock.DefaultRoot + "/.epoch"

// nodes lists the paths below the root, without epochMark and inbox.
func (w *world) nodes() []string {
	nodes := w.Dump(lock.DefaultRoot)
	return paths(slices.DeleteFunc(nodes, func(n locktest.Node) bool {
		return n.Path == lock.DefaultRoot || n.Path == epochMark || n.Path == inbox
	}))
}

func paths(nodes []locktest.Node) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Path)
	}
	return all
}

// node returns the node at path, which must exist.
func (w *world) node(path string) locktest.Node {
	w.Helper()
	n, there := w.Node(path)
	mustBeTrue(w, there, "no node %s", path)
	return n
}

// entries returns the nodes of a lock's contenders, in the order of their creation.
func (w *world) entries(name string) []locktest.Node {
	parent := lock.DefaultRoot + "/" + name
	nodes := slices.DeleteFunc(w.Dump(parent), func(n locktest.Node) bool {
		_, contender := znode.Parse(path.Base(n.Path))
		return path.Dir(n.Path) != parent || !contender
	})
	slices.SortFunc(nodes, func(a, b locktest.Node) int { // a transaction may have created several
		return cmp.Or(cmp.Compare(a.Stat.Czxid, b.Stat.Czxid), cmp.Compare(sequenceOf(a), sequenceOf(b)))
	})
	return nodes
}

func sequenceOf(n locktest.Node) int32 {
	name, _ := znode.Parse(path.Base(n.Path))
	return name.Seq
}

func (w *world) record(path string) znode.Record {
	w.Helper()
	n := w.node(path)
	r, err := znode.DecodeRecord(n.Data)
	mustBeTrue(w, err == nil, "%s holds %s: %v", path, n.Data, err)
	return r
}

func (w *world) parent(name string) znode.Parent {
	w.Helper()
	n := w.node(lock.DefaultRoot + "/" + name)
	p, err := znode.DecodeParent(n.Data)
	mustBeTrue(w, err == nil, "%s holds %s: %v", n.Path, n.Data, err)
	return p
}

// anchor returns the data of the anchor of a lock's parent.
func (w *world) anchor(name string) znode.AnchorData {
	w.Helper()
	n := w.node(lock.DefaultRoot + "/" + name + "/" + znode.Anchor(w.parent(name).Generation))
	a, err := znode.DecodeAnchor(n.Data)
	mustBeTrue(w, err == nil, "%s holds %s: %v", n.Path, n.Data, err)
	return a
}

// anchors lists the anchors of a lock's parent.
func (w *world) anchors(name string) []string {
	return paths(slices.DeleteFunc(w.Dump(lock.DefaultRoot+"/"+name), func(n locktest.Node) bool {
		return !strings.HasPrefix(path.Base(n.Path), "anchor-")
	}))
}

// wipe deletes a lock's entries, the youngest first, then its anchors and its parent.
func (w *world) wipe(z *zk.Conn, name string) {
	w.Helper()
	entries := paths(w.entries(name))
	slices.Reverse(entries)
	w.remove(z, entries...)
	w.remove(z, w.anchors(name)...)
	w.remove(z, lock.DefaultRoot+"/"+name)
}

// bare lists the paths below the root as nodes does, without anchors.
func (w *world) bare() []string {
	return slices.DeleteFunc(w.nodes(), func(p string) bool { return strings.HasPrefix(path.Base(p), "anchor-") })
}

// empty waits up to 10 s for background work, and checks that no node is left below the root.
func (w *world) empty() {
	w.Helper()
	time.Sleep(5 * time.Second)
	synctest.Wait()
	for end := time.Now().Add(5 * time.Second); len(w.nodes()) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) { // a parent is deleted a second after its last use
			w.Errorf("left behind: %q", w.nodes())
			return
		}
	}
}

// cost is a number of requests and transactions.
type cost struct {
	requests map[string]int // by operation
	txns     int64
}

func (c cost) total() int { return locktest.Counts{Requests: c.requests}.Total() }

// cost returns the client's requests while f runs and until the clients settle, and the
// transactions of all clients in the same time.
func (w *world) cost(label string, f func()) cost {
	settle()
	before, txns := w.Requests()[label].Requests, w.Transactions()
	f()
	settle()
	requests := w.Requests()[label].Requests
	for op, n := range before {
		requests[op] -= n
	}
	maps.DeleteFunc(requests, func(_ string, n int) bool { return n == 0 })
	return cost{requests, w.Transactions() - txns}
}

// hasEntries checks the number of a lock's contenders.
func (w *world) hasEntries(name string, want int) {
	w.Helper()
	e := paths(w.entries(name))
	isTrue(w, len(e) == want, "lock %q has the entries %q, want %d", name, e, want)
}

// hasNodes checks the number of nodes below the root.
func (w *world) hasNodes(want int) {
	w.Helper()
	n := w.nodes()
	isTrue(w, len(n) == want, "nodes %q, want %d", n, want)
}

func (w *world) setACL(z *zk.Conn, path string, acl []zk.ACL) {
	w.Helper()
	w.ok(second(z.SetACL(path, acl, -1)))
}

func (w *world) createACL(z *zk.Conn, path, data string, acl []zk.ACL) {
	w.Helper()
	_, err := z.Create(path, []byte(data), 0, acl)
	mustBeTrue(w, err == nil, "create %s: %v", path, err)
}

func (w *world) create(z *zk.Conn, path, data string, flags int32) string {
	w.Helper()
	made, err := z.Create(path, []byte(data), flags, zk.WorldACL(zk.PermAll))
	mustBeTrue(w, err == nil, "create %s: %v", path, err)
	return made
}

func (w *world) remove(z *zk.Conn, paths ...string) {
	w.Helper()
	for _, p := range paths {
		err := z.Delete(p, -1)
		mustBeTrue(w, err == nil, "delete %s: %v", p, err)
	}
}

// set writes a node, whatever its version.
func (w *world) set(z *zk.Conn, path string, data []byte) {
	w.Helper()
	_, err := z.Set(path, data, -1)
	mustBeTrue(w, err == nil, "write %s: %v", path, err)
}

func (w *world) wantCost(what string, got cost, requests map[string]int, txns int64) {
	w.Helper()
	if !maps.Equal(got.requests, requests) || got.txns != txns {
		w.Errorf("%s cost %v and %d transactions, want %v and %d", what, got.requests, got.txns, requests, txns)
	}
}

// totals returns the numbers of requests of all clients, by operation, without pings.
func (w *world) totals() map[string]int {
	all := map[string]int{}
	for _, r := range w.Requests() {
		for op, n := range r.Requests {
			all[op] += n
		}
	}
	maps.DeleteFunc(all, func(op string, _ int) bool { return op == "ping" })
	return all
}

// stays checks that the node is not deleted within five seconds.
func (w *world) stays(n locktest.Node) {
	w.Helper()
	time.Sleep(5 * time.Second)
	if now, there := w.Node(n.Path); !there || now.Stat.Czxid != n.Stat.Czxid {
		w.Errorf("%s was deleted, which another program had made", n.Path)
	}
}
