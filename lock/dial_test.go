package lock_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestDialWaitsForSession, with credentials and without, until its context ends.
func TestDialWaitsForSession(t *testing.T) {
	for _, digest := range []bool{false, true} {
		simulate(t, locktest.Options{}, func(w *world) {
			var opts []lock.Option
			if digest {
				opts = append(opts, lock.WithDigest("svc", "secret"))
			}
			server := w.Servers()[0]
			for _, down := range []func(){
				func() { w.Stop(server) },        // refuses
				func() { w.Partition("a") },      // does not answer
				func() { w.Freeze("not there") }, // nothing is wrong
			} {
				down()
				cause := errors.New("no patience")
				ctx, cancel := context.WithTimeoutCause(w.ctx, 5*time.Second, cause)
				before := time.Now()
				c, err := lock.Dial(ctx, w.Servers(), w.options("a", opts...)...)
				if err == nil { // nothing was wrong
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				} else {
					mustBe(t, err, context.DeadlineExceeded, cause, lock.ErrUnavailable)
					mustSay(t, err, server)
					if took := time.Since(before); took < 5*time.Second || took > 7*time.Second {
						t.Errorf("digest %v: gave up after %v", digest, took)
					}
				}
				cancel()
				w.Start(server)
				w.Heal("a")
			}

			w.Stop(server)
			time.AfterFunc(10*time.Second, func() { w.Start(server) })
			c := w.dial("a", opts...) // in the end
			w.unlock(w.lock(c, "x"))
		})
	}
}

// TestDialOverFlappingServer: the connection ends while the credentials are on
// their way.
func TestDialOverFlappingServer(t *testing.T) {
	for _, drop := range []locktest.Drop{locktest.BeforeApply, locktest.AfterApply} {
		simulate(t, locktest.Options{}, func(w *world) {
			hit := w.fault(func(r locktest.Request) bool { return r.Op == "setAuth" || r.Op == "auth" }, locktest.Fault{Drop: drop})
			c := w.dial("a", lock.WithDigest("svc", "secret"))
			if !hit() {
				t.Fatal("nothing was dropped")
			}
			h := w.lock(c, "x")
			if acl := w.node(h.EntryPath()).ACL; len(acl) != 1 || acl[0].Scheme != "digest" {
				t.Errorf("ACL %v", acl)
			}
			w.unlock(h)
		})
	}
}

// TestDialOfUnknownHost waits for it, as for one that refuses: names come and go.
func TestDialOfUnknownHost(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := lock.Dial(ctx, []string{"no-such-host.invalid:2181"})
	mustBe(t, err, context.DeadlineExceeded, lock.ErrUnavailable)
	mustSay(t, err, "no-such-host.invalid")
}

func TestDialWithEndedContext(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		w.Partition("a")
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		for _, o := range []lock.Option{nil, lock.WithDigest("svc", "secret")} {
			_, err := lock.Dial(ctx, w.Servers(), w.options("a", o)...)
			mustBe(t, err, context.Canceled)
		}
	})
}

// stalled is a connection to a server that accepts and falls silent after the
// first bytes of its reply to the handshake.
func stalled(says int) net.Conn {
	reply := binary.BigEndian.AppendUint32(nil, 36)
	reply = append(reply, make([]byte, 36)...)
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		if _, err := server.Read(make([]byte, 256)); err != nil {
			return
		}
		if _, err := server.Write(reply[:says]); err == nil {
			io.Copy(io.Discard, server) // until the client gives up
		}
	}()
	return client
}

// TestServerThatAcceptsAndSaysNothing is left for the next one while the session
// lives, wherever in the handshake it falls silent. go-zookeeper by itself would
// wait for ever, or for ten times the session timeout.
func TestServerThatAcceptsAndSaysNothing(t *testing.T) {
	for _, says := range []int{0, 1, 4, 5, 39} {
		simulate(t, locktest.Options{Members: 3}, func(w *world) {
			stall, stalls := true, 0
			dialer := lock.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
				if stall {
					stall = false
					stalls++
					return stalled(says), nil
				}
				return w.Dialer("a")(network, address, timeout)
			})
			before := time.Now()
			a := w.dial("a", dialer)
			if took := time.Since(before); took > sessionTimeout/2 || stalls != 1 {
				t.Errorf("after %d bytes: connected after %v, %d stalls", says, took, stalls)
			}
			h := w.lock(a, "x")
			session := a.Session()
			stall = true
			w.Cut("a")
			time.Sleep(sessionTimeout)
			w.alive(h)
			if a.Session() != session || stalls != 2 {
				t.Errorf("after %d bytes: session %#x became %#x, %d stalls", says, session, a.Session(), stalls)
			}
			w.unlock(h)
			w.empty()
		})
	}
}

// TestHandshakeLimitDoesNotOutliveTheHandshake: a connection that was had is not
// bound by it.
func TestHandshakeLimitDoesNotOutliveTheHandshake(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		h := w.lock(a, "x")
		time.Sleep(20 * sessionTimeout)
		w.alive(h)
		if n := w.Requests()["a"].Handshakes; n != 1 {
			t.Errorf("connected %d times", n)
		}
		w.unlock(h)
	})
}

// TestDialTellsWhy names what the last server it could not reach said.
func TestDialTellsWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		refused := errors.New("the port is shut")
		_, err := lock.Dial(ctx, []string{"192.0.2.1"}, lock.WithDialer(func(string, string, time.Duration) (net.Conn, error) {
			return nil, refused
		}))
		mustBe(t, err, lock.ErrUnavailable, context.DeadlineExceeded, refused)
		mustSay(t, err, "192.0.2.1:2181", "the port is shut")
	})
}

// soonAfter is within what time a call is back that its context has ended.
const soonAfter = 100 * time.Millisecond

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
					dialer, astray := w.detour("a", p)
					const patience = 5 * time.Second
					a, err := lock.Dial(w.ctx, w.Servers(), w.options("a", dialer, lock.WithUnlockTimeout(patience))...)
					if err != nil {
						w.Fatal(err)
					}
					w.Cleanup(func() { a.Close() }) // of no use by then to who closes, and says so
					h := w.lock(a, "x", lock.WithTTL(10*ttl))
					astray.Store(true)
					w.Cut("a")
					time.Sleep(time.Second)
					if closes {
						within(w, patience+soonAfter, "close", func() { a.Close() }, p.hangUp)
					} else {
						astray.Store(false)
						within(w, ttl, "renewal", func() { h.Extend(w.ctx, 5*ttl) }, p.hangUp)
						w.unlock(h)
					}
					p.hangUp()
				})
			})
		}
	}
}
