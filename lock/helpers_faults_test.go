// Helpers: faults of requests, connections, servers and clocks.

package lock_test

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// faults applies the fault to each request that the filter accepts, and counts these requests. It
// replaces earlier interceptions. Without such a request the test fails.
func (w *world) faults(filter func(locktest.Request) bool, f locktest.Fault) (hits *atomic.Int32) {
	return w.faultsInTurn(filter, func(int) locktest.Fault { return f })
}

// faultsInTurn is faults with a fault for each number of a request, from 1 on.
func (w *world) faultsInTurn(filter func(locktest.Request) bool, fault func(n int) locktest.Fault) (hits *atomic.Int32) {
	hits = new(atomic.Int32)
	w.Cleanup(func() {
		isTrue(w, hits.Load() > 0, "no request came to suffer the fault: the test does not show what it means to")
	})
	w.Intercept(func(r locktest.Request) locktest.Fault {
		if !filter(r) {
			return locktest.Fault{}
		}
		return fault(int(hits.Add(1)))
	})
	return hits
}

// first returns the faults of the first requests, for faultsInTurn.
func first(faults ...locktest.Fault) func(n int) locktest.Fault {
	return func(n int) locktest.Fault { return append(faults, locktest.Fault{})[min(n, len(faults)+1)-1] }
}

// fault applies f to the first request that the filter accepts, and replaces earlier interceptions.
// hit reports whether there was such a request; without one, the test fails. For a delayed request,
// see [world.servedInTheEnd].
func (w *world) fault(filter func(locktest.Request) bool, f locktest.Fault) (hit func() bool) {
	var done atomic.Bool
	w.faults(func(r locktest.Request) bool {
		is := !done.Load() && filter(r) && !done.Swap(true)
		if is && f.Delay > 0 {
			w.servedInTheEnd(r, f)
		}
		return is
	}, f)
	return done.Load
}

// servedInTheEnd checks the fate of a delayed request. If the delay is shorter than the session
// timeout, the request must be served, although its client may reconnect before. After a longer
// delay it must be lost.
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

// mutates reports whether the request is a write of the given client.
func mutates(r locktest.Request, label string) bool {
	return r.Label == label && slices.Contains([]string{"multi", "create", "create2", "setData", "delete"}, r.Op)
}

// touches reports whether one of the request's paths contains the part.
func touches(r locktest.Request, part string) bool {
	return slices.ContainsFunc(r.Paths, func(p string) bool { return strings.Contains(p, part) })
}

// cutOff partitions the client from all servers and returns true, for use in a filter that has
// matched the client's request.
func (w *world) cutOff(label string) bool {
	return w.Partition(label) == nil
}

// kill partitions the client from all servers until Heal is called. To other clients it looks dead.
func (w *world) kill(label string) {
	w.Helper()
	w.ok(w.Partition(label))
}

// mishaps are the faults of one request after which its sender does not know whether it was
// applied.
var mishaps = []struct {
	name  string
	fault locktest.Fault
	also  func(w *world, label string) // a further fault of the client, or nil
}{
	{"lost with the connection", locktest.Fault{Drop: locktest.BeforeApply}, nil},
	{"lost with the session", locktest.Fault{Drop: locktest.BeforeApply}, (*world).expireAway},
	{"applied, the reply lost with the connection", locktest.Fault{Drop: locktest.AfterApply}, nil},
	{"applied, the reply lost with the session", locktest.Fault{Drop: locktest.AfterApply}, (*world).expireAway},
	{"applied when the connection has ended", locktest.Fault{Delay: untilSevered}, (*world).sever},
	{"the reply slower than the connection's end", locktest.Fault{DelayReply: 5 * time.Second}, nil},
	{"throttled", locktest.Fault{Code: codeThrottled}, nil},
	{"the session moved", locktest.Fault{Code: codeSessionMoved}, nil},
	{"the session unknown", locktest.Fault{Code: codeUnknownSession}, (*world).expireSoon},
	{"the session has ended, told of an operation", locktest.Fault{Code: codeSessionExpired, Op: 1}, (*world).expireSoon},
	{"the session moved, told of an operation", locktest.Fault{Code: codeSessionMoved, Op: 1}, nil},
}

// expireAway partitions the client, and ends its session before the client can reconnect.
func (w *world) expireAway(label string) {
	w.kill(label)
	time.AfterFunc(500*time.Millisecond, func() {
		w.ExpireLabel(label)
		w.Heal(label)
	})
}

// expireSoon ends the client's session after half a second.
func (w *world) expireSoon(label string) {
	time.AfterFunc(500*time.Millisecond, func() { w.ExpireLabel(label) })
}

// untilSevered is the delay of a severed client's request. When the delay ends, the client's
// connection has ended, and the client has not reconnected.
const untilSevered = 500 * time.Millisecond

// sever ends the client's connection before untilSevered has passed, and lets the client reconnect
// after that.
func (w *world) sever(label string) {
	time.AfterFunc(untilSevered/2, func() {
		w.kill(label)
		w.Cut(label)
	})
	time.AfterFunc(untilSevered*2, func() { w.Heal(label) })
}

// mishap applies mishaps[i] to the client's first request that the filter accepts. hit reports
// whether there was such a request.
func (w *world) mishap(i int, label string, filter func(locktest.Request) bool) (hit func() bool) {
	m := mishaps[i]
	return w.fault(func(r locktest.Request) bool {
		if r.Label != label || !filter(r) {
			return false
		}
		if m.also != nil {
			m.also(w, label)
		}
		return true
	}, m.fault)
}

// forEachMishap runs f for each mishap in a world of its own.
func forEachMishap(t *testing.T, f func(w *world, mishap int)) {
	for i, m := range mishaps {
		subtest(t, m.name, locktest.Options{}, func(w *world) { f(w, i) })
	}
}

// eachMishap runs f for each value and each mishap in a world of its own.
func eachMishap[T any](t *testing.T, what string, values []T, f func(w *world, v T, mishap int)) {
	for _, v := range values {
		t.Run(fmt.Sprintf("%s %+v", what, v), func(t *testing.T) {
			forEachMishap(t, func(w *world, i int) { f(w, v, i) })
		})
	}
}

func joins(r locktest.Request) bool {
	return (r.Op == "multi" || r.Op == "create") && touches(r, "-lock-")
}

// joinsParent reports whether the request creates an entry below a parent that it assumes to exist.
func joinsParent(r locktest.Request, name string) bool {
	return joins(r) && r.Paths[0] != lock.DefaultRoot+"/"+name
}

func leaves(h *lock.Hold) func(locktest.Request) bool {
	return func(r locktest.Request) bool {
		return (r.Op == "multi" || r.Op == "delete") && touches(r, h.EntryPath())
	}
}

// badPeers are programs that listen at a server's address. Each answers a connect request with the
// text says, and sends nothing more until the client closes the connection.
var badPeers = []struct{ name, says string }{
	{"is silent", ""},
	{"says half of a length", "\x00\x00"},
	{"says a length", "\x00\x00\x00\x25"},
	{"says half of an answer", "\x00\x00\x00\x25\x00\x00\x00\x00\x00\x00"},
	{"is no ZooKeeper", "HTTP/1.1 400 Bad Request\r\n\r\n"},
	{"says a negative length", "\x80\x00\x00\x00"},
}

// impostor is a running bad peer. hangUp ends all connections to it. One that leaves ends each when it has
// said what it says.
type impostor struct {
	says   string
	leaves bool

	mu    sync.Mutex
	conns []net.Conn
}

func (p *impostor) dial(string, string, time.Duration) (net.Conn, error) {
	client, server := net.Pipe()
	go p.serve(server)
	return client, nil
}

func (p *impostor) serve(conn net.Conn) {
	p.mu.Lock()
	p.conns = append(p.conns, conn)
	p.mu.Unlock()
	if _, err := conn.Read(make([]byte, 256)); err != nil {
		return
	}
	if _, err := io.WriteString(conn, p.says); err == nil && !p.leaves {
		io.Copy(io.Discard, conn)
	}
	conn.Close()
}

func (p *impostor) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
}

// detour returns an option with a dialer to the servers, or to the impostor while astray returns true.
func (w *world) detour(label string, p *impostor, astray func() bool) lock.Option {
	return lock.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
		if astray() {
			return p.dial(network, address, timeout)
		}
		return w.Dialer(label)(network, address, timeout)
	})
}

// clock simulates the clocks of a machine, with a rate error in millionths.
type clock struct {
	ppm int64

	mu         sync.Mutex
	mono, wall time.Duration
	read       time.Time
	asleep     bool
}

func newClock(ppm int64, off time.Duration) *clock {
	now := time.Now()
	return &clock{ppm: ppm, read: now, wall: time.Duration(now.UnixNano()) + off}
}

func (c *clock) now() (mono, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := time.Since(c.read)
	c.read = c.read.Add(passed)
	passed += time.Duration(float64(passed) * float64(c.ppm) / 1e6)
	c.wall += passed
	if !c.asleep {
		c.mono += passed
	}
	return c.mono, c.wall
}

// suspend starts or ends a suspend: the monotonic clock stands still while the wall clock
// continues.
func (c *clock) suspend(asleep bool) {
	c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asleep = asleep
}

// step adds d to the wall clock.
func (c *clock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += d
}

// dead is the entry of a dead owner, as it was last written.
type dead struct {
	path string
	end  int64 // end of its lease, in Unix ms of ensemble time
}

// die partitions the client that owns the entry, and returns the entry.
func (w *world) die(label, entry string) dead {
	w.Helper()
	w.kill(label)
	synctest.Wait()
	return dead{entry, w.node(entry).Stat.Mtime + w.record(entry).TTL}
}

// purged checks that the entry was purged after its lease and the grace had ended by the leader's
// clock, and at most slack later. ahead is the leader's clock minus the test's.
func (w *world) purged(d dead, at time.Time, ahead, slack time.Duration) {
	w.Helper()
	late := at.Add(ahead).Sub(time.UnixMilli(d.end)) - grace
	if late <= 0 || late > slack {
		w.Errorf("%s was purged %v after the end of its TTL and the grace", d.path, late)
	}
}

// outlived partitions a holder, and returns the outcome of the waiter behind it. It checks that the
// hold ended before the waiter entered, and that the purge was in time; see [world.purged].
func (w *world) outlived(label string, h *lock.Hold, ch <-chan taken, ahead, slack time.Duration) taken {
	w.Helper()
	ended, d := w.end(h), w.die(label, h.EntryPath())
	got := w.await(ch)
	w.inTurn(ended, got)
	w.purged(d, got.at, ahead, slack)
	return got
}

// before runs f just before the first request that the filter accepts is applied. hit reports
// whether there was such a request.
func (w *world) before(filter func(locktest.Request) bool, f func()) (hit func() bool) {
	return w.fault(func(r locktest.Request) bool {
		if !filter(r) {
			return false
		}
		f()
		return true
	}, locktest.Fault{})
}

// moment is a point in a client's code at which the test does something.
type moment struct {
	in    string // the end of the name of a function that reads the clock
	do    func()
	armed atomic.Bool
}

// atMoments returns an option with clocks that run true. At the first reading in each moment's function
// after the moment is armed, its action is done. The test fails if that never comes.
func (w *world) atMoments(moments ...*moment) lock.Option {
	for _, m := range moments {
		w.Cleanup(func() { isTrue(w, !m.armed.Load(), "%s was not called: the test does not show what it means to", m.in) })
	}
	begun := time.Now()
	return lock.WithClock(func() (mono, wall time.Duration) {
		for _, m := range moments {
			if m.armed.Load() && calledBy(m.in) && m.armed.Swap(false) {
				m.do()
			}
		}
		return time.Since(begun), time.Duration(time.Now().UnixNano())
	})
}

// calledBy reports whether the name of a function on the call stack ends with name.
func calledBy(name string) bool {
	pc := make([]uintptr, 32)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, name) {
			return true
		}
		if !more {
			return false
		}
	}
}

// followers returns the addresses of the members that do not lead.
func (w *world) followers() (all []string) {
	for _, s := range w.Servers() {
		if s != w.Leader() {
			all = append(all, s)
		}
	}
	return all
}

// behind returns clients that are connected to the leader, and a client that is connected to a
// follower. lag makes the follower lag behind.
func (w *world) behind(labels ...string) (at []*lock.Client, late *lock.Client, lag func()) {
	w.Helper()
	leader, follower := w.Leader(), w.followers()[0]
	for _, label := range labels {
		at = append(at, w.dialAt(label, []string{leader}))
	}
	late = w.dialAt("late", []string{follower})
	w.unlock(w.lock(late, "other"))
	return at, late, func() {
		w.Helper()
		settle()
		w.ok(w.Lag(follower, 700*time.Millisecond))
	}
}

// writes returns a filter for the client's writes of the entry, other than a plain delete.
func writes(label, entry string) func(locktest.Request) bool {
	return func(r locktest.Request) bool {
		return mutates(r, label) && r.Op != "delete" && touches(r, entry)
	}
}

// borrow returns a client that borrows a go-zookeeper connection.
func (w *world) borrow(label string, opts ...lock.Option) *lock.Client {
	w.Helper()
	return w.lend(w.raw(label), label, opts...)
}

// clientOn returns a client with a connection of its own, or one that borrows it.
func (w *world) clientOn(borrowed bool, label string, opts ...lock.Option) *lock.Client {
	w.Helper()
	if borrowed {
		return w.borrow(label, opts...)
	}
	return w.client(label, opts...)
}

// lend returns a client that borrows the connection.
func (w *world) lend(z *zk.Conn, label string, opts ...lock.Option) *lock.Client {
	w.Helper()
	c, err := lock.New(z, w.options(label, append([]lock.Option{usual}, opts...)...)[1:]...) // New takes no dialer
	w.ok(err)
	w.Cleanup(func() { c.Close() })
	return c
}

// lagging returns a filter for the client's requests to a server that lags behind. With local
// sessions (localSessionsEnabled), each session after the first one may begin on such a server. The
// server has caught up after a sync, or after a write that comes more than 300 ms into the session.
func lagging(label string, c *lock.Client) func(locktest.Request) bool {
	first := c.Session()
	last, caughtUp := first, first
	var since time.Time
	return func(r locktest.Request) bool {
		if r.Label != label {
			return false
		}
		if last != r.Session {
			last, since = r.Session, time.Now()
		}
		if r.Op == "sync" || mutates(r, label) && time.Since(since) > 300*time.Millisecond {
			caughtUp = r.Session
		}
		return r.Session != first && r.Session != caughtUp
	}
}

// cutOffSoon partitions the client just after its present request is applied, and returns true.
func (w *world) cutOffSoon(label string) bool {
	time.AfterFunc(latency/10, func() { w.kill(label) })
	return true
}
