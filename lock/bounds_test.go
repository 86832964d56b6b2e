package lock_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// soonAfter is within what time a call is back that its context has ended.
const soonAfter = 100 * time.Millisecond

// badPeers are what may listen where a server should: each says so much when it is
// greeted, and then nothing until the client hangs up.
var badPeers = []struct{ name, says string }{
	{"is silent", ""},
	{"says half of a length", "\x00\x00"},
	{"says a length", "\x00\x00\x00\x25"},
	{"says half of an answer", "\x00\x00\x00\x25\x00\x00\x00\x00\x00\x00"},
	{"is no ZooKeeper", "HTTP/1.1 400 Bad Request\r\n\r\n"},
	{"says a negative length", "\x80\x00\x00\x00"},
}

// impostor is a bad peer. Its hangUp ends all connections to it.
type impostor struct {
	says string

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
	if _, err := io.WriteString(conn, p.says); err == nil {
		io.Copy(io.Discard, conn)
	}
}

func (p *impostor) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
}

// within checks that f returns within so much time. If it does not, help is to have
// it return at all.
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

// TestDialEndsWithItsContext, whoever listens there.
func TestDialEndsWithItsContext(t *testing.T) {
	for _, peer := range badPeers {
		t.Run(peer.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &impostor{says: peer.says}
				const patience = 500 * time.Millisecond
				within(t, patience+soonAfter, "dial", func() {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					_, err := lock.Dial(ctx, []string{"192.0.2.1"}, lock.WithDialer(p.dial))
					mustBe(t, err, context.DeadlineExceeded, lock.ErrUnavailable)
					mustSay(t, err, "192.0.2.1:2181")
				}, p.hangUp)
				p.hangUp()
			})
		})
	}
}

// TestDialOfRealSocket is TestDialEndsWithItsContext over TCP, where only wedges show.
func TestDialOfRealSocket(t *testing.T) {
	for _, peer := range badPeers {
		t.Run(peer.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			p := &impostor{says: peer.says}
			serving := make(chan struct{})
			go func() {
				defer close(serving)
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go p.serve(conn)
				}
			}()
			within(t, 20*time.Second, "dial", func() {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				_, err := lock.Dial(ctx, []string{l.Addr().String()})
				mustBe(t, err, context.DeadlineExceeded, lock.ErrUnavailable)
				mustSay(t, err, l.Addr().String())
			}, p.hangUp)
			l.Close()
			<-serving
			p.hangUp()
		})
	}
}

// TestReconnectToBadPeer: where the server was there is something else for a while. A
// client that has holds comes through, or closes in time.
func TestReconnectToBadPeer(t *testing.T) {
	for _, peer := range badPeers {
		for _, closes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s closes %v", peer.name, closes), func(t *testing.T) {
				simulate(t, locktest.Options{}, func(w *world) {
					p := &impostor{says: peer.says}
					var bad atomic.Bool
					dialer := lock.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
						if bad.Load() {
							return p.dial(network, address, timeout)
						}
						return w.Dialer("a")(network, address, timeout)
					})
					const patience = 5 * time.Second
					a, err := lock.Dial(w.ctx, w.Servers(), w.options("a", dialer, lock.WithUnlockTimeout(patience))...)
					if err != nil {
						w.Fatal(err)
					}
					w.Cleanup(func() { a.Close() }) // of no use by then to who closes, and says so
					h := w.lock(a, "x", lock.WithTTL(10*ttl))
					bad.Store(true)
					w.Cut("a")
					time.Sleep(time.Second)
					if closes {
						within(w, patience+soonAfter, "close", func() { a.Close() }, p.hangUp)
					} else {
						bad.Store(false)
						within(w, ttl, "renewal", func() { h.Extend(w.ctx, 5*ttl) }, p.hangUp)
						w.unlock(h)
					}
					p.hangUp()
				})
			})
		}
	}
}

// TestCallsEndWithTheirContexts while the server says nothing.
func TestCallsEndWithTheirContexts(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, c *lock.Client, h *lock.Hold) error{
		"lock":               func(ctx context.Context, c *lock.Client, _ *lock.Hold) error { return second(c.Mutex("y").Lock(ctx)) },
		"lock of a held one": func(ctx context.Context, c *lock.Client, _ *lock.Hold) error { return second(c.Mutex("x").Lock(ctx)) },
		"try": func(ctx context.Context, c *lock.Client, _ *lock.Hold) error {
			return second(c.Mutex("y").TryLock(ctx))
		},
		"try of a held one": func(ctx context.Context, c *lock.Client, _ *lock.Hold) error {
			return second(c.Mutex("x").TryLock(ctx))
		},
		"extend": func(ctx context.Context, _ *lock.Client, h *lock.Hold) error { return h.Extend(ctx, ttl/2) },
		"do": func(ctx context.Context, c *lock.Client, _ *lock.Hold) error {
			return c.Mutex("y").Do(ctx, unreachable)
		},
	} {
		for _, noticed := range []bool{false, true} { // that the connection is gone
			t.Run(fmt.Sprintf("%s noticed %v", name, noticed), func(t *testing.T) {
				simulate(t, locktest.Options{}, func(w *world) {
					a := w.dial("a")
					h := w.lock(a, "x", lock.WithTTL(10*ttl))
					w.Partition("a")
					if noticed {
						time.Sleep(sessionTimeout)
					}
					const patience = 500 * time.Millisecond
					within(w, patience+soonAfter, name, func() {
						ctx, cancel := context.WithTimeout(w.ctx, patience)
						defer cancel()
						mustBe(w, call(ctx, a, h), context.DeadlineExceeded)
					}, func() { w.Heal("a") })
				})
			})
		}
	}
}

func second(_ *lock.Hold, err error) error { return err }

func unreachable(context.Context) error { panic("called without the lock") }

// TestCloseEndsWithItsTimeout, whatever is under way, while the server says nothing.
func TestCloseEndsWithItsTimeout(t *testing.T) {
	for _, borrowed := range []bool{false, true} {
		for _, noticed := range []bool{false, true} { // that the connection is gone
			t.Run(fmt.Sprintf("borrowed %v noticed %v", borrowed, noticed), func(t *testing.T) {
				simulate(t, locktest.Options{}, func(w *world) {
					const patience = 5 * time.Second
					opts := w.options("a", lock.WithUnlockTimeout(patience), lock.WithPolicies(policies{TTL: 10 * ttl, Grace: grace}))
					var a *lock.Client
					var err error
					if borrowed {
						a, err = lock.New(w.raw("a"), opts[1:]...) // not the dialer
					} else {
						if !noticed { // nor would be for long
							opts = append(opts, lock.WithSessionTimeout(10*patience))
						}
						a, err = lock.Dial(w.ctx, w.Servers(), opts...)
					}
					if err != nil {
						w.Fatal(err)
					}
					h := w.lock(a, "x")
					waits := w.queue(w.ctx, a, "x")
					w.Partition("a")
					joins := start(func() (*lock.Hold, error) { return a.Mutex("y").Lock(w.ctx) })
					if noticed {
						time.Sleep(sessionTimeout)
					}
					within(w, patience+soonAfter, "close", func() {
						if err := a.Close(); err == nil {
							w.Error("closed without a word about what is left")
						}
					}, func() { w.Heal("a") })
					mustBe(w, w.outcome(waits).err, lock.ErrClosed)
					mustBe(w, w.outcome(joins).err, lock.ErrClosed)
					mustBe(w, h.Err(), lock.ErrClosed)
					w.Heal("a")
				})
			})
		}
	}
}
