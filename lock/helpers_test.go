package lock_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// What clients of these tests have unless a test says otherwise.
const (
	ttl            = 10 * time.Second
	grace          = time.Second
	sessionTimeout = 6 * time.Second
)

// ZooKeeper's error codes, as servers send them.
const (
	codeNoNode       = -101
	codeNoAuth       = -102
	codeSessionMoved = -118
	codeThrottled    = -127
)

// world is an ensemble in memory and the clients of a test, in virtual time.
type world struct {
	*testing.T
	*locktest.Ensemble
	ctx context.Context

	mu  sync.Mutex
	log bytes.Buffer
}

// latency is how long a packet takes one way unless a test says otherwise.
//
// It is not 0 because of a data race in go-zookeeper v1.0.4: when it connects
// again, sendSetWatches reads lastZxid while recvLoop may write it already, if the
// reply to a request outruns the setWatches. That costs a change of a watched node
// at worst, which the protocol allows for.
const latency = time.Microsecond

// simulate runs f in virtual time. Nothing may still run at its end, clients and
// connections included, or the bubble fails the test.
func simulate(t *testing.T, opts locktest.Options, f func(w *world)) {
	t.Helper()
	if opts.Latency == nil {
		opts.Latency = func(string, string) time.Duration { return latency }
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour) // of virtual time
		// go-zookeeper's own Close can go on for three seconds after ours, where nobody
		// answers. This comes after all other cleanups.
		t.Cleanup(func() { time.Sleep(5 * time.Second) })
		t.Cleanup(cancel)
		w := &world{T: t, Ensemble: locktest.Start(t, opts), ctx: ctx}
		t.Cleanup(func() {
			if t.Failed() {
				t.Log("log:\n" + w.logged())
			}
		})
		f(w)
	})
}

// settle gives what goes on time for some round trips, but not for more: not for a
// second try of anything, nor until a grant is recorded.
func settle() {
	time.Sleep(60 * latency)
	synctest.Wait()
}

// Write takes what clients log.
func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

// policies are the same for each lock.
type policies lock.Policy

func (p policies) Policy(string) lock.Policy { return lock.Policy(p) }

// options are what a client whose connections carry the label is made with.
func (w *world) options(label string, opts ...lock.Option) []lock.Option {
	return append([]lock.Option{
		lock.WithDialer(w.Dialer(label)), lock.WithPolicies(policies{TTL: ttl, Grace: grace}),
		lock.WithSessionTimeout(sessionTimeout), lock.WithOwner(label),
		lock.WithLogger(zerolog.New(w).Level(zerolog.DebugLevel).With().Str("client", label).Logger()),
	}, opts...)
}

// dial returns a client whose connections carry the label.
func (w *world) dial(label string, opts ...lock.Option) *lock.Client {
	w.Helper()
	return w.dialAt(label, w.Servers(), opts...)
}

// dialAt is dial to some of the members.
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

// raw returns a plain connection, as other programs have one.
func (w *world) raw(label string) *zk.Conn {
	w.Helper()
	z, events, err := zk.Connect(w.Servers(), sessionTimeout, zk.WithDialer(w.Dialer(label)), zk.WithLogInfo(false), zk.WithLogger(silent{}))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		z.Close()
		synctest.Wait()
	})
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return z
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// lock takes a lock.
func (w *world) lock(c *lock.Client, name string, opts ...lock.LockOption) *lock.Hold {
	w.Helper()
	h, err := c.Mutex(name, opts...).Lock(w.ctx)
	if err != nil {
		w.Fatalf("lock %s: %v", name, err)
	}
	return h
}

func (w *world) unlock(h *lock.Hold) {
	w.Helper()
	if err := h.Unlock(); err != nil {
		w.Fatalf("unlock %s: %v", h.Name(), err)
	}
}

// taken is the outcome of a lock that is being waited for.
type taken struct {
	hold *lock.Hold
	err  error
	at   time.Time
}

// start calls f in the background and returns where its outcome will come.
func start(f func() (*lock.Hold, error)) <-chan taken {
	ch := make(chan taken, 1)
	go func() {
		h, err := f()
		ch <- taken{h, err, time.Now()}
	}()
	return ch
}

// queue waits for a lock in the background, and returns when it is in the queue.
func (w *world) queue(ctx context.Context, c *lock.Client, name string, opts ...lock.LockOption) <-chan taken {
	w.Helper()
	settle()
	before := len(w.entries(name))
	ch := start(func() (*lock.Hold, error) { return c.Mutex(name, opts...).Lock(ctx) })
	w.until("the waiter is in the queue", func() bool { return len(w.entries(name)) > before })
	settle()
	return ch
}

// until lets time pass until the condition holds.
func (w *world) until(what string, condition func() bool) {
	w.Helper()
	for range 100_000 {
		if synctest.Wait(); condition() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.Fatalf("never happened: %s", what)
}

// expect returns the outcome that must have come by now, and be a hold.
func (w *world) expect(ch <-chan taken) taken {
	w.Helper()
	got := w.outcome(ch)
	if got.err != nil {
		w.Fatal(got.err)
	}
	return got
}

// outcome returns the outcome that must have come by now.
func (w *world) outcome(ch <-chan taken) taken {
	w.Helper()
	settle()
	select {
	case got := <-ch:
		return got
	default:
		w.Fatal("still waiting")
		return taken{}
	}
}

// await waits for a hold.
func (w *world) await(ch <-chan taken) taken {
	w.Helper()
	got := <-ch
	if got.err != nil {
		w.Fatal(got.err)
	}
	return got
}

// waits checks that there is no outcome yet.
func (w *world) waits(ch <-chan taken) {
	w.Helper()
	settle()
	select {
	case got := <-ch:
		w.Fatalf("waits no longer: %v, %v", got.hold, got.err)
	default:
	}
}

// ending is when a hold ends.
type ending struct {
	w    *world
	hold *lock.Hold
	done chan struct{}
	when time.Time
}

// end watches for the end of a hold.
func (w *world) end(h *lock.Hold) *ending {
	e := &ending{w: w, hold: h, done: make(chan struct{})}
	context.AfterFunc(h.Context(), func() {
		e.when = time.Now()
		close(e.done)
	})
	return e
}

// wait returns when the hold ended.
func (e *ending) wait() time.Time {
	e.w.Helper()
	select {
	case <-e.done:
	case <-e.w.ctx.Done():
		e.w.Fatal("the hold never ended")
	}
	return e.when
}

// inTurn checks that a hold had ended before the next one was had, and that the
// token rose.
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

// alive checks that the hold is valid and has one entry at the head of the queue.
func (w *world) alive(h *lock.Hold) {
	w.Helper()
	settle()
	if err := h.Err(); err != nil || !h.Valid() || h.Context().Err() != nil {
		w.Fatalf("hold is not valid: %v, remaining %v", err, h.Remaining())
	}
	if e := w.entries(h.Name()); len(e) == 0 || e[0].Path != h.EntryPath() {
		w.Fatalf("entries %q, want that of the hold, %s, first", paths(e), h.EntryPath())
	}
}

// epochMark is the node by which judges know how old the present leader's epoch is.
// It stays.
const epochMark = lock.DefaultRoot + "/.epoch"

// nodes lists the paths below the root, apart from the mark of the epoch.
func (w *world) nodes() []string {
	nodes := w.Dump(lock.DefaultRoot)
	return paths(slices.DeleteFunc(nodes, func(n locktest.Node) bool {
		return n.Path == lock.DefaultRoot || n.Path == epochMark
	}))
}

// pathOf is the path of a hold's entry.
func pathOf(h *lock.Hold) string { return h.EntryPath() }

// timeKnownTo is the window in which a client knows the leader's clock to be.
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

// node returns the node of that path, which must be there.
func (w *world) node(path string) locktest.Node {
	w.Helper()
	if nodes := w.Dump(path); len(nodes) > 0 && nodes[0].Path == path {
		return nodes[0]
	}
	w.Fatalf("no node %s", path)
	return locktest.Node{}
}

// entries returns the children of a lock's parent in the order of their creation.
func (w *world) entries(name string) []locktest.Node {
	parent := lock.DefaultRoot + "/" + name
	nodes := slices.DeleteFunc(w.Dump(parent), func(n locktest.Node) bool { return path.Dir(n.Path) != parent })
	slices.SortFunc(nodes, func(a, b locktest.Node) int { return int(a.Stat.Czxid - b.Stat.Czxid) })
	return nodes
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

// empty checks that nothing is left below the root, once what goes on in the
// background has had its time.
func (w *world) empty() {
	w.Helper()
	time.Sleep(5 * time.Second)
	synctest.Wait()
	if left := w.nodes(); len(left) > 0 {
		w.Errorf("left behind: %q", left)
	}
}

// cost is what was asked of the ensemble.
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

// cost returns what f, and all that follows from it, made the client ask for, and
// the transactions of everybody.
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

// fault makes the first request that the filter lets pass suffer the fault. It
// returns what tells whether that has happened; it must, by the end of the test. One that
// is delayed must be served, too: see [world.servedInTheEnd]. It ends other interceptions.
func (w *world) fault(filter func(locktest.Request) bool, f locktest.Fault) (hit func() bool) {
	var done atomic.Bool
	w.Cleanup(func() {
		if !done.Load() {
			w.Errorf("no request came to suffer %+v: the test does not show what it means to", f)
		}
	})
	w.Intercept(func(r locktest.Request) locktest.Fault {
		if !done.Load() && filter(r) && !done.Swap(true) {
			if f.Delay > 0 {
				w.servedInTheEnd(r, f)
			}
			return f
		}
		return locktest.Fault{}
	})
	return done.Load
}

// servedInTheEnd fails the test if a delayed request is never served, because its session
// has come back on another connection before. One that is delayed for longer than a
// session without a connection lives is meant to be lost: it must not be served.
func (w *world) servedInTheEnd(r locktest.Request, f locktest.Fault) {
	const unknown, served, lost = 0, 1, 2
	var fate atomic.Int32
	w.Trace(func(e locktest.Event) {
		switch {
		case e.Kind != "request" || e.Label != r.Label || e.Number != r.Number:
		case strings.HasPrefix(e.Note, "never served"):
			fate.Store(lost)
		default:
			fate.Store(served)
		}
	})
	w.Cleanup(func() {
		switch was := fate.Load(); {
		case f.Delay < sessionTimeout && was != served:
			w.Errorf("a request, %s of %q, that was to be served %v late never was: the test does not show what it means to", r.Op, r.Paths, f.Delay)
		case f.Delay >= sessionTimeout && was == served:
			w.Errorf("a request, %s of %q, that was to be lost was served", r.Op, r.Paths)
		}
	})
}

// mutates reports whether the request is a write, of the given client.
func mutates(r locktest.Request, label string) bool {
	return r.Label == label && slices.Contains([]string{"multi", "create", "create2", "setData", "delete"}, r.Op)
}

// touches reports whether one of the request's paths has the part in it.
func touches(r locktest.Request, part string) bool {
	return slices.ContainsFunc(r.Paths, func(p string) bool { return strings.Contains(p, part) })
}

// mustBe checks that the error is each of the targets.
func mustBe(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error is %v, want one that is %q", err, target)
		}
	}
}

// mustSay checks that the error's message has each of the parts in it.
func mustSay(t testing.TB, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error is %v, want one that says %q", err, part)
		}
	}
}

// cutOff lets a filter of faults cut off a client whose request it has met.
func (w *world) cutOff(label string) bool {
	return w.Partition(label) == nil
}

// kill cuts a client off for the rest of the test: it dies, as far as others can
// see.
func (w *world) kill(label string) {
	w.Helper()
	if err := w.Partition(label); err != nil {
		w.Fatal(err)
	}
}
