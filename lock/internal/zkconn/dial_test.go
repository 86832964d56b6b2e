package zkconn

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestDialWaitsForSession: Dial waits for a session, with and without credentials, until its
// context ends. If a goroutine is left then, the bubble fails the test.
func TestDialWaitsForSession(t *testing.T) {
	for name, down := range map[string]func(*world){
		"refuses":         func(w *world) { w.Stop(w.Servers()[0]) },
		"does not answer": func(w *world) { w.Partition("a") },
	} {
		for _, digests := range [][]string{nil, {"svc:secret"}} {
			t.Run(name, func(t *testing.T) {
				simulate(t, locktest.Options{}, func(w *world) {
					cfg := w.config("a")
					cfg.Digests = digests
					down(w)
					for _, patience := range []time.Duration{0, time.Millisecond, 500 * time.Millisecond, 5 * time.Second} {
						cause := errors.New("no patience")
						ctx, cancel := context.WithTimeoutCause(w.ctx, patience, cause)
						began := time.Now()
						_, err := Dial(ctx, w.Servers(), cfg)
						mustBe(t, err, context.DeadlineExceeded, ErrUnavailable)
						if mustSay(t, err, w.Servers()[0]); patience > 0 {
							mustBe(t, err, cause)
						}
						if took := time.Since(began); took < patience || took > patience+100*time.Millisecond {
							t.Errorf("digests %q: took %v, want %v", digests, took, patience)
						}
						cancel()
					}
				})
				simulate(t, locktest.Options{}, func(w *world) {
					cfg := w.config("a")
					cfg.Digests = digests
					down(w)
					time.AfterFunc(10*time.Second, func() {
						w.Start(w.Servers()[0])
						w.Heal("a")
					})
					w.dial(cfg) // the dial succeeds after all
				})
			})
		}
	}
}

// TestDialOverFlappingServer: if the connection ends while the credentials are in flight, Dial
// still succeeds, and reports no reconnection.
func TestDialOverFlappingServer(t *testing.T) {
	for _, drop := range []locktest.Drop{locktest.BeforeApply, locktest.AfterApply} {
		simulate(t, locktest.Options{}, func(w *world) {
			dropped := false
			w.Intercept(func(r locktest.Request) locktest.Fault {
				if r.Op != "setAuth" && r.Op != "auth" || dropped {
					return locktest.Fault{}
				}
				dropped = true
				return locktest.Fault{Drop: drop}
			})
			cfg := w.config("a")
			cfg.Digests = []string{"svc:secret"}
			cfg.Reconnected = func() { t.Error("a reconnection is told before there was a connection") }
			c := w.dial(cfg)
			if !dropped || c.LastOutage() != -1 {
				t.Errorf("dropped %v, last outage %v", dropped, c.LastOutage())
			}
			iferr.Error(t, iferr.Of(c.Get(w.ctx, "/")))
		})
	}
}

// TestDialErrorHasTheCause: the error has the last failure to reach a server.
func TestDialErrorHasTheCause(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		shut := errors.New("the port is shut")
		cfg := w.config("a")
		cfg.Dialer = func(string, string, time.Duration) (net.Conn, error) { return nil, shut }
		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
		defer cancel()
		_, err := Dial(ctx, []string{"192.0.2.1:2181"}, cfg)
		mustBe(t, err, ErrUnavailable, context.DeadlineExceeded, shut)
		mustSay(t, err, "192.0.2.1:2181", "the port is shut")
		if _, err := Dial(ctx, nil, cfg); err == nil {
			t.Error("connected to no server")
		}
	})
}

// stalled returns a connection to a server that becomes silent after the first bytes of its reply
// to the handshake.
func stalled(says int) net.Conn {
	reply := greeting(sessionTimeout)
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

// TestServerThatAcceptsAndIsSilent: the client tries the next server while the session lives,
// wherever in the handshake the server becomes silent. go-zookeeper alone would wait forever, or
// for ten session timeouts.
func TestServerThatAcceptsAndIsSilent(t *testing.T) {
	for _, says := range []int{0, 1, 4, 5, 39} {
		simulate(t, locktest.Options{Members: 3}, func(w *world) {
			stall, stalls := true, 0
			cfg := w.config("a")
			dial := cfg.Dialer
			cfg.Dialer = func(network, address string, timeout time.Duration) (net.Conn, error) {
				if stall {
					stall = false
					stalls++
					return stalled(says), nil
				}
				return dial(network, address, timeout)
			}
			began := time.Now()
			c := w.dial(cfg)
			if took := time.Since(began); took > sessionTimeout/2 || stalls != 1 {
				t.Errorf("after %d bytes: connected after %v, %d stalls", says, took, stalls)
			}
			session := c.Session()
			stall = true
			w.Cut("a")
			time.Sleep(sessionTimeout)
			if _, err := c.Get(w.ctx, "/"); err != nil || c.Session() != session || stalls != 2 {
				t.Errorf("after %d bytes: session %#x became %#x, %d stalls, %v", says, session, c.Session(), stalls, err)
			}
		})
	}
}

// TestHandshakeLimitDoesNotOutliveTheHandshake: the limit does not apply to an established
// connection.
func TestHandshakeLimitDoesNotOutliveTheHandshake(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial(w.config("a"))
		time.Sleep(20 * sessionTimeout)
		if n := w.Requests()["a"].Handshakes; n != 1 || c.LastOutage() != -1 {
			t.Errorf("connected %d times", n)
		}
	})
}

// TestExpiredConnectionIsClosed: the next dial closes the connection of an expired session, which
// go-zookeeper leaves open.
func TestExpiredConnectionIsClosed(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		var open atomic.Int32
		cfg := w.config("a")
		dial := cfg.Dialer
		cfg.Dialer = func(network, address string, timeout time.Duration) (net.Conn, error) {
			nc, err := dial(network, address, timeout)
			if err == nil {
				open.Add(1)
				nc = &liveConn{Conn: nc, plain: nc, stop: sync.OnceValue(func() bool { return open.Add(-1) >= 0 })}
			}
			return nc, err
		}
		c := w.dial(cfg)
		for range 10 {
			session := c.Session()
			w.ExpireLabel("a")
			time.Sleep(3 * time.Second)
			if c.Session() == session || open.Load() != 1 {
				t.Errorf("session %#x became %#x, %d connections are open", session, c.Session(), open.Load())
			}
		}
	})
}

// TestDialThatWaitsLogsOnce: a Dial that waits logs once, after a moment, which servers it waits
// for and why. A Dial that does not wait logs nothing.
func TestDialThatWaitsLogsOnce(t *testing.T) {
	for _, digests := range [][]string{nil, {"svc:secret"}} {
		simulate(t, locktest.Options{Members: 2}, func(w *world) {
			var log strings.Builder // Dial writes to it before it returns
			cfg := w.config("a")
			cfg.Log, cfg.Digests = zerolog.New(&log).Level(zerolog.InfoLevel), digests
			w.dial(cfg)
			if log.Len() > 0 {
				t.Errorf("logged %s", &log)
			}

			for _, s := range w.Servers() {
				w.Stop(s)
			}
			for _, test := range []struct {
				patience time.Duration
				lines    int
			}{{quietWait - time.Millisecond, 0}, {quietWait + time.Second, 1}, {time.Minute, 1}} {
				log.Reset()
				ctx, cancel := context.WithTimeout(w.ctx, test.patience)
				_, err := Dial(ctx, w.Servers(), cfg)
				cancel()
				mustBe(t, err, ErrUnavailable)
				said := log.String()
				if n := strings.Count(said, "\n"); n != test.lines {
					t.Fatalf("%d lines within %v: %s", n, test.patience, said)
				}
				if test.lines > 0 {
					mustSay(t, errors.New(said), `"level":"warn"`, "waiting for", w.Servers()[0], w.Servers()[1], "refused", `"gives_up_in"`)
				}
			}

			log.Reset()
			time.AfterFunc(time.Minute, func() {
				for _, s := range w.Servers() {
					w.Start(s)
				}
			})
			c, err := Dial(context.Background(), w.Servers(), cfg)
			iferr.Fatal(t, err)
			iferr.Error(t, c.Close(time.Second))
			if said := log.String(); strings.Count(said, "\n") != 1 {
				t.Errorf("logged %s", said)
			} else {
				mustSay(t, errors.New(said), "has no deadline")
			}
		})
	}
}

// closedFirst is a connection that the peer closes before the first write.
type closedFirst struct {
	net.Conn
	peer net.Conn
}

func (c closedFirst) Write([]byte) (int, error) { return 0, errors.Join(syscall.EPIPE, c.peer.Close()) }

// TestHandshakeThatCannotBeWritten: the error of Dial has the reason if servers close each connection
// before the handshake is written.
func TestHandshakeThatCannotBeWritten(t *testing.T) {
	cfg := testConfig(t)
	cfg.Dialer = func(string, string, time.Duration) (net.Conn, error) {
		client, server := net.Pipe()
		return closedFirst{client, server}, nil
	}
	dialInVain(t, "192.0.2.1:2181", cfg, "without an answer")
}
