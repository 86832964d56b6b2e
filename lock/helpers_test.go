// Helpers: the ensemble in memory, clients, calls that wait, and checks.

package lock_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/audited"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/locktest"
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
var usual = lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: window})

// client is dial with the option usual.
func (w *world) client(label string, opts ...lock.Option) *lock.Client {
	w.Helper()
	return w.dial(label, append([]lock.Option{usual}, opts...)...)
}

// dialAt is dial with the given servers only. The client is closed at the end of the test.
func (w *world) dialAt(label string, servers []string, opts ...lock.Option) *lock.Client {
	w.Helper()
	c, err := lock.Dial(w.ctx, servers, w.options(label, opts...)...)
	w.ok(err)
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
	return w.take(c.Mutex(name, opts...).Lock)
}

func (w *world) unlock(holds ...*lock.Hold) {
	w.Helper()
	for _, h := range holds {
		w.ok(h.Unlock())
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
		isTrue(w, e.when.Before(next.at), "the hold ended at %v, not before the next one was had at %v", e.when, next.at)
	default:
		w.Errorf("two hold the lock: %s and %s", e.hold.EntryPath(), next.hold.EntryPath())
	}
	isTrue(w, next.hold.Token().Compare(e.hold.Token()) > 0, "token %v follows %v", next.hold.Token(), e.hold.Token())
}

// alive checks that each hold is valid and that its entry is at the head of the queue.
func (w *world) alive(holds ...*lock.Hold) {
	w.Helper()
	settle()
	for _, h := range holds {
		valid := h.Err() == nil && h.Remaining() > 0 && h.Context().Err() == nil
		mustBeTrue(w, valid, "hold is not valid: %v, remaining %v", h.Err(), h.Remaining())
		e := paths(w.entries(h.Name()))
		mustBeTrue(w, len(e) > 0 && e[0] == h.EntryPath(), "entries %q, want that of the hold, %s, first", e, h.EntryPath())
	}
}

var mustBe, mustSay = bubble.MustBe, bubble.MustSay

// fails checks that the error is the target, and contains each of the parts.
func fails(t testing.TB, err, target error, parts ...string) {
	t.Helper()
	mustBe(t, err, target)
	mustSay(t, err, parts...)
}

// heldError returns the error as the HeldError that it must be.
func heldError(t testing.TB, err error) *lock.HeldError {
	t.Helper()
	var held *lock.HeldError
	mustBeTrue(t, errors.As(err, &held), "error is %v, want a HeldError", err)
	return held
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

// sole checks that the hold is valid, and that its entry is the lock's only one.
func (w *world) sole(h *lock.Hold) {
	w.Helper()
	time.Sleep(ttl / 2) // until late replies and clean-ups are done
	w.alive(h)
	w.hasEntries(h.Name(), 1)
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
