// Helpers: the ensemble in memory, clients, holds and checks; how locks are taken, awaited and handed over.

package lock_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/audited"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// The defaults of the tests' clients.
const (
	ttl            = 10 * time.Second
	grace          = time.Second
	sessionTimeout = 6 * time.Second
)

// ZooKeeper's error codes, as servers send them.
const (
	codeNoNode         = -101
	codeNoAuth         = -102
	codeNotEmpty       = -111
	codeSessionExpired = -112
	codeSessionMoved   = -118
	codeQuota          = -125 // exceeded
	codeThrottled      = -127
	codeUnimplemented  = -6
	codeUnknownSession = -12
)

// world is the in-memory ensemble of a test, in virtual time, with the log of all its clients.
type world struct {
	*bubble.World
	ctx context.Context // the same as World's

	mu  sync.Mutex
	log bytes.Buffer
}

const latency = bubble.Latency

// Shorter names of what random tests draw from.
var (
	random  = bubble.Seeded
	between = bubble.Between
)

// simulate runs f in virtual time, in parallel with other tests. If anything still runs at its end,
// such as a client or a connection, the bubble fails the test. The bubble waits five seconds for
// that, because go-zookeeper's Close can take three seconds longer than Holdfast's if no server
// answers.
func simulate(t *testing.T, opts locktest.Options, f func(w *world)) {
	t.Helper()
	t.Parallel()
	simulateAlone(t, opts, f)
}

// simulateAlone is simulate without parallel tests. Fuzz tests need it, because they must not be
// parallel.
func simulateAlone(t *testing.T, opts locktest.Options, f func(w *world)) {
	t.Helper()
	bubble.Run(t, opts, 5*time.Second, func(b *bubble.World) {
		w := &world{World: b, ctx: b.Ctx}
		b.Cleanup(func() {
			if b.Failed() {
				b.Log("log:\n" + w.logged())
			}
		})
		audited.Test(b, w.Ensemble, func() { f(w) })
	})
}

// subtest runs f as a subtest in a world of its own.
func subtest(t *testing.T, name string, opts locktest.Options, f func(w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { simulate(t, opts, f) })
}

// forEach runs f for each case in a world of its own.
func forEach[T any](t *testing.T, opts locktest.Options, cases map[string]T, f func(w *world, c T)) {
	for name, c := range cases {
		subtest(t, name, opts, func(w *world) { f(w, c) })
	}
}

// bools are the cases of a condition.
var bools = []bool{false, true}

// each runs f for each value in a world of its own.
func each[T any](t *testing.T, what string, values []T, f func(w *world, v T)) {
	for _, v := range values {
		subtest(t, fmt.Sprintf("%s %+v", what, v), locktest.Options{}, func(w *world) { f(w, v) })
	}
}

// eachPair runs f for each pair of values in a world of its own.
func eachPair[A, B any](t *testing.T, what string, as []A, bs []B, f func(w *world, a A, b B)) {
	for _, a := range as {
		each(t, fmt.Sprintf("%s %+v", what, a), bs, func(w *world, b B) { f(w, a, b) })
	}
}

// settle waits for some round trips. That is too short for the second try of a request, and for the
// record of a grant.
func settle() {
	time.Sleep(60 * latency)
	synctest.Wait()
}

// Write receives the clients' log.
func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *world) logged() string {
	synctest.Wait() // until the client has reported
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

// policies applies one policy to all locks. If LocalWindow is zero, the goroutines of a client do
// not share entries.
type policies lock.Policy

func (p policies) Policy(string) lock.Policy {
	if p.LocalWindow == 0 {
		p.LocalWindow = lock.NoLocalWindow
	}
	return lock.Policy(p)
}

// inFlight limits the shared transactions in flight of each client: with 1 most are shared.
var inFlight = flag.Int("inflight", 0, "shared transactions in flight at once; 0: as many as without the flag")

// options returns the options of a client whose connections have the label.
func (w *world) options(label string, opts ...lock.Option) []lock.Option {
	return append([]lock.Option{
		lock.WithDialer(w.Dialer(label)), lock.WithPolicies(policies{TTL: ttl, Grace: grace}),
		lock.WithSessionTimeout(sessionTimeout), lock.WithOwner(label), lock.WithInFlight(*inFlight),
		lock.WithLogger(zerolog.New(w).Level(zerolog.DebugLevel).With().Str("client", label).Logger()),
	}, opts...)
}

// dial returns a client whose connections have the label.
func (w *world) dial(label string, opts ...lock.Option) *lock.Client {
	w.Helper()
	return w.dialAt(label, w.Servers(), opts...)
}

// usual is the default policy with a shorter TTL: the goroutines of a client share one entry in the
// queue.
var usual = lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: lock.DefaultLocalWindow})

// client is dial with the option usual.
func (w *world) client(label string, opts ...lock.Option) *lock.Client {
	w.Helper()
	return w.dial(label, append([]lock.Option{usual}, opts...)...)
}

// dialAt is dial with the given servers only. The client is closed at the end of the test.
func (w *world) dialAt(label string, servers []string, opts ...lock.Option) *lock.Client {
	w.Helper()
	c, err := lock.Dial(w.ctx, servers, w.options(label, opts...)...)
	if err != nil {
		w.Fatalf("dial %s: %v", label, err)
	}
	w.Cleanup(func() {
		w.Heal(label)
		if err := c.Close(); err != nil {
			w.Errorf("close %s: %v", label, err)
		}
	})
	return c
}

// raw returns a go-zookeeper connection, for the requests of another program.
func (w *world) raw(label string) *zk.Conn {
	w.Helper()
	return w.Plain(label, sessionTimeout, zk.NewDNSHostProvider())
}

// lock locks a mutex. An error ends the test.
func (w *world) lock(c *lock.Client, name string, opts ...lock.LockOption) *lock.Hold {
	w.Helper()
	h, err := c.Mutex(name, opts...).Lock(w.ctx)
	if err != nil {
		w.Fatalf("lock %s: %v", name, err)
	}
	return h
}

func (w *world) unlock(holds ...*lock.Hold) {
	w.Helper()
	for _, h := range holds {
		if err := h.Unlock(); err != nil {
			w.Fatalf("unlock %s: %v", h.Name(), err)
		}
	}
}

// finish unlocks the last holds, and checks that no node is left.
func (w *world) finish(holds ...*lock.Hold) {
	w.Helper()
	w.unlock(holds...)
	w.empty()
}

// outcome is the result of a call, and the time at which the call returned.
type outcome[T any] struct {
	hold T
	err  error
	at   time.Time
}

// taken is the outcome of a call that takes a lock.
type taken = outcome[*lock.Hold]

// start calls f in the background and returns the channel of its outcome.
func start[T any](f func() (T, error)) <-chan outcome[T] {
	ch := make(chan outcome[T], 1)
	go func() {
		h, err := f()
		ch <- outcome[T]{h, err, time.Now()}
	}()
	return ch
}

// async calls f in the background and returns the channel of its error.
func async(f func() error) <-chan error {
	ch := make(chan error, 1)
	go func() { ch <- f() }()
	return ch
}

// queue locks a mutex in the background, and returns when the call is in the queue.
func (w *world) queue(ctx context.Context, c *lock.Client, name string, opts ...lock.LockOption) <-chan taken {
	w.Helper()
	settle()
	before := c.Stats().Waiters
	ch := start(func() (*lock.Hold, error) { return c.Mutex(name, opts...).Lock(ctx) })
	w.until("the waiter waits", func() bool { return c.Stats().Waiters > before })
	settle()
	return ch
}

// limited returns a context that ends after d.
func (w *world) limited(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(w.ctx, d)
	w.Cleanup(cancel)
	return ctx
}

// until waits until the condition holds.
func (w *world) until(what string, condition func() bool) {
	w.Helper()
	w.Until(what, condition)
}

// expect returns the outcome, which must be a hold and must be there by now.
func (w *world) expect(ch <-chan taken) taken {
	w.Helper()
	got := w.outcome(ch)
	w.ok(got.err)
	return got
}

// outcome returns the outcome, which must be there by now.
func (w *world) outcome(ch <-chan taken) taken { w.Helper(); return hasCome(w, ch) }

// hasCome returns the value, which must be there by now.
func hasCome[T any](w *world, ch <-chan T) (got T) {
	w.Helper()
	settle()
	select {
	case got = <-ch:
	default:
		w.Fatalf("no %T has come", got)
	}
	return got
}

// hasNotCome checks that there is no value yet. A value ends the test, because the test may wait
// for it later.
func hasNotCome[T any](w *world, chs ...<-chan T) {
	w.Helper()
	settle()
	for _, ch := range chs {
		select {
		case got := <-ch:
			w.Fatalf("has come: %+v", got)
		default:
		}
	}
}

// await waits for the outcome, which must be a hold.
func (w *world) await(ch <-chan taken) taken {
	w.Helper()
	got := <-ch
	w.ok(got.err)
	return got
}

// waits checks that there is no outcome yet.
func (w *world) waits(chs ...<-chan taken) { w.Helper(); hasNotCome(w, chs...) }

// ending records when a hold ends.
type ending struct {
	w    *world
	hold *lock.Hold
	done chan struct{}
	when time.Time
}

// end returns an ending that records the end of h.
func (w *world) end(h *lock.Hold) *ending {
	e := &ending{w: w, hold: h, done: make(chan struct{})}
	context.AfterFunc(h.Context(), func() {
		e.when = time.Now()
		close(e.done)
	})
	return e
}

// wait waits for the end, and returns its time.
func (e *ending) wait() time.Time {
	e.w.Helper()
	select {
	case <-e.done:
	case <-e.w.ctx.Done():
		e.w.Fatal("the hold never ended")
	}
	return e.when
}

// inTurn checks that a hold ended before the next one began, and that the token rose.
func (w *world) inTurn(e *ending, next taken) {
	w.Helper()
	settle()
	select {
	case <-e.done:
		if !e.when.Before(next.at) {
			w.Errorf("the hold ended at %v, not before the next one was had at %v", e.when, next.at)
		}
	default:
		w.Errorf("two hold the lock: %s and %s", e.hold.EntryPath(), next.hold.EntryPath())
	}
	if next.hold.Token().Compare(e.hold.Token()) <= 0 {
		w.Errorf("token %v follows %v", next.hold.Token(), e.hold.Token())
	}
}

// alive checks that each hold is valid and that its entry is at the head of the queue.
func (w *world) alive(holds ...*lock.Hold) {
	w.Helper()
	settle()
	for _, h := range holds {
		if err := h.Err(); err != nil || h.Remaining() == 0 || h.Context().Err() != nil {
			w.Fatalf("hold is not valid: %v, remaining %v", err, h.Remaining())
		}
		if e := w.entries(h.Name()); len(e) == 0 || e[0].Path != h.EntryPath() {
			w.Fatalf("entries %q, want that of the hold, %s, first", paths(e), h.EntryPath())
		}
	}
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

func pathOf(h *lock.Hold) string { return h.EntryPath() }

// timeKnownTo returns the bounds that a client has for the leader's clock.
func timeKnownTo(c *lock.Client) (earliest, latest time.Time) {
	now := admin.New(c).Estimate()
	return now.Earliest(), now.Latest()
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
	if !there {
		w.Fatalf("no node %s", path)
	}
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
	if err != nil {
		w.Fatalf("%s holds %s: %v", path, n.Data, err)
	}
	return r
}

func (w *world) parent(name string) znode.Parent {
	w.Helper()
	n := w.node(lock.DefaultRoot + "/" + name)
	p, err := znode.DecodeParent(n.Data)
	if err != nil {
		w.Fatalf("%s holds %s: %v", n.Path, n.Data, err)
	}
	return p
}

// anchor returns the data of the anchor of a lock's parent.
func (w *world) anchor(name string) znode.AnchorData {
	w.Helper()
	n := w.node(lock.DefaultRoot + "/" + name + "/" + znode.Anchor(w.parent(name).Generation))
	a, err := znode.DecodeAnchor(n.Data)
	if err != nil {
		w.Fatalf("%s holds %s: %v", n.Path, n.Data, err)
	}
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

func (c cost) total() int {
	total := 0
	for _, n := range c.requests {
		total += n
	}
	return total
}

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

var mustBe, mustSay = bubble.MustBe, bubble.MustSay

// fails checks that the error is the target, and contains each of the parts.
func fails(t testing.TB, err, target error, parts ...string) {
	t.Helper()
	mustBe(t, err, target)
	mustSay(t, err, parts...)
}

// ok ends the test if there is an error.
func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func atMost[T cmp.Ordered](t testing.TB, what string, got, most T) {
	t.Helper()
	if got > most {
		t.Errorf("%s: %v, want at most %v", what, got, most)
	}
}

// isTrue checks a condition; the message describes its failure.
func isTrue(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// mustBeTrue ends the test if the condition is false.
func mustBeTrue(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
}

// inRange checks that got is from least to most.
func inRange[T cmp.Ordered](t testing.TB, what string, got, least, most T) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s: %v, want %v to %v", what, got, least, most)
	}
}

// equalAll checks that the lists are equal, in order.
func equalAll(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// hasEntries checks the number of a lock's contenders.
func (w *world) hasEntries(name string, want int) {
	w.Helper()
	if e := w.entries(name); len(e) != want {
		w.Errorf("lock %q has the entries %q, want %d", name, paths(e), want)
	}
}

// hasNodes checks the number of nodes below the root.
func (w *world) hasNodes(want int) {
	w.Helper()
	if n := w.nodes(); len(n) != want {
		w.Errorf("nodes %q, want %d", n, want)
	}
}

func (w *world) setACL(z *zk.Conn, path string, acl []zk.ACL) {
	w.Helper()
	w.ok(second(z.SetACL(path, acl, -1)))
}

func (w *world) createACL(z *zk.Conn, path, data string, acl []zk.ACL) {
	w.Helper()
	if _, err := z.Create(path, []byte(data), 0, acl); err != nil {
		w.Fatalf("create %s: %v", path, err)
	}
}

// sole checks that the hold is valid, and that its entry is the lock's only one.
func (w *world) sole(h *lock.Hold) {
	w.Helper()
	time.Sleep(ttl / 2) // until late replies and clean-ups are done
	w.alive(h)
	if e := w.entries(h.Name()); len(e) != 1 {
		w.Errorf("entries %q, want that of the hold alone", paths(e))
	}
	equal(w, "czxid of the token", h.Token().Parts().Czxid, w.node(h.EntryPath()).Stat.Czxid)
}

// within checks that f returns within the limit. If it does not, help must make it return.
func within(t testing.TB, limit time.Duration, what string, f, help func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Errorf("%s: not back after %v", what, limit)
		help()
		<-done
	}
}

// same checks that two dumps have the same nodes in the same state.
func same(t testing.TB, before, after []locktest.Node) {
	t.Helper()
	if a, b := fmt.Sprintf("%+v", before), fmt.Sprintf("%+v", after); a != b {
		t.Errorf("nodes changed from\n%s\nto\n%s", a, b)
	}
}

func (w *world) create(z *zk.Conn, path, data string, flags int32) string {
	w.Helper()
	path, err := z.Create(path, []byte(data), flags, zk.WorldACL(zk.PermAll))
	if err != nil {
		w.Fatalf("create %s: %v", path, err)
	}
	return path
}

func (w *world) remove(z *zk.Conn, paths ...string) {
	w.Helper()
	for _, p := range paths {
		if err := z.Delete(p, -1); err != nil {
			w.Fatalf("delete %s: %v", p, err)
		}
	}
}

// set writes a node, whatever its version.
func (w *world) set(z *zk.Conn, path string, data []byte) {
	w.Helper()
	if _, err := z.Set(path, data, -1); err != nil {
		w.Fatalf("write %s: %v", path, err)
	}
}

// taking is a call that takes a lock, such as [lock.Mutex.Lock].
type taking func(context.Context) (*lock.Hold, error)

// take takes a lock. An error ends the test.
func (w *world) take(take taking) *lock.Hold {
	w.Helper()
	h, err := take(w.ctx)
	w.ok(err)
	return h
}

// join takes a lock in the background, and returns when its entry exists.
func (w *world) join(name string, take taking) <-chan taken {
	w.Helper()
	settle()
	before := len(w.entries(name))
	ch := start(func() (*lock.Hold, error) { return take(w.ctx) })
	w.until("an entry", func() bool { return len(w.entries(name)) > before })
	settle()
	return ch
}

func permits(s *lock.Semaphore, n int) taking {
	return func(ctx context.Context) (*lock.Hold, error) { return s.Acquire(ctx, n) }
}

func tryPermits(s *lock.Semaphore, n int) taking {
	return func(ctx context.Context) (*lock.Hold, error) { return s.TryAcquire(ctx, n) }
}

const window = lock.DefaultLocalWindow

// riding returns the option for policies with the default window.
func riding() lock.Option {
	return lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: window})
}

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
		if s := c.Stats(); s.Lost+s.Requeued+s.Purged > 0 {
			w.Errorf("stats %+v", s)
		}
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
	if err != nil {
		w.Fatalf("lock %q: %v", names, err)
	}
	return hs
}

func (w *world) unlockAll(hs *lock.Holds) {
	w.Helper()
	if err := hs.Unlock(); err != nil {
		w.Fatalf("unlock: %v", err)
	}
}

// takenAll is the outcome of a call for several locks.
type takenAll = outcome[*lock.Holds]

// queueAll starts a waiter for all of the locks, and returns when the waiter is in all queues.
func (w *world) queueAll(ctx context.Context, c *lock.Client, names ...string) <-chan takenAll {
	w.Helper()
	settle()
	before := len(w.entries(names[0]))
	ch := start(func() (*lock.Holds, error) { return c.All(names).Lock(ctx) })
	w.until("the waiter is in the queues", func() bool { return len(w.entries(names[0])) > before })
	settle()
	return ch
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
	if err != nil {
		w.Fatalf("detach %s: %v", h.Name(), err)
	}
	return ticket
}

// restored creates a detached entry that has not been granted, with a TTL of ten minutes, and returns
// a ticket for it. A hold's ticket is for such an entry if the servers' data was restored from a
// backup that was made while the holder still waited.
func (w *world) restored(name, kind, prefix string) lock.Ticket {
	w.Helper()
	record := znode.Record{Owner: "restored", TTL: (10 * time.Minute).Milliseconds(), Attempt: znode.NewID(), Detached: true}
	path := w.create(w.raw("backup"), lock.DefaultRoot+"/"+name+"/"+prefix, string(record.Encode()), zk.FlagSequence)
	return w.forged(name, kind, path)
}

// forged returns a ticket for the first incarnation of an entry.
func (w *world) forged(name, kind, path string) lock.Ticket {
	w.Helper()
	text := strings.Join([]string{"holdfast-ticket:1", kind, lock.DefaultRoot, name, path[strings.LastIndexByte(path, '/')+1:], "0", "0"}, ":")
	ticket, err := lock.ParseTicket(fmt.Sprintf("%s:%08x", text, crc32.ChecksumIEEE([]byte(text))))
	w.ok(err)
	return ticket
}

func (w *world) attach(c *lock.Client, ticket lock.Ticket, opts ...lock.LockOption) *lock.Hold {
	w.Helper()
	h, err := c.Attach(w.ctx, ticket, opts...)
	if err != nil {
		w.Fatalf("attach to %s: %v", ticket.Name(), err)
	}
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
