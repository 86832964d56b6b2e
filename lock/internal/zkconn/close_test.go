package zkconn

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestCloseEndsTheSession: Close ends the session regularly, after the requests in flight.
func TestCloseEndsTheSession(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial(w.config("a"))
		w.Intercept(func(locktest.Request) locktest.Fault { return locktest.Fault{DelayReply: 500 * time.Millisecond} })
		done := make(chan error, 1)
		go func() {
			_, err := c.Get(w.ctx, "/")
			done <- err
		}()
		synctest.Wait()
		iferr.Error(t, c.Close(time.Hour))
		iferr.Error(t, <-done)
		if n := w.Requests()["a"].Requests["closeSession"]; n != 1 {
			t.Errorf("the session was closed %d times", n)
		}
		if err := c.Close(time.Hour); err != nil {
			t.Errorf("again: %v", err)
		}
	})
}

// TestCloseIsBounded: Close ends in time, whatever the state of the connection, and ends requests
// in flight.
func TestCloseIsBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		fail  func(*world)
		after time.Duration
		waits bool // something may come yet
	}{
		"cut off":              {func(w *world) { w.Partition("a") }, 0, true},
		"cut off for long":     {func(w *world) { w.Partition("a") }, time.Minute, false},
		"cut off a moment ago": {func(w *world) { w.Partition("a") }, sessionTimeout*2/3 + time.Second/2, false},
		"stopped":              {func(w *world) { w.Freeze("a") }, 0, true},
		"no server":            {func(w *world) { w.Stop(w.Servers()[0]) }, 0, false},
		"no server for long":   {func(w *world) { w.Stop(w.Servers()[0]) }, time.Minute, false},
		"session has ended":    {func(w *world) { w.ExpireLabel("a") }, 0, true},
		"connection is lost":   {func(w *world) { w.Cut("a") }, 0, true},
	} {
		for i := range 4 {
			busy, patience := i%2 > 0, time.Duration(i/2)*2*time.Second
			t.Run(name, func(t *testing.T) {
				simulate(t, locktest.Options{}, func(w *world) {
					c := w.dial(w.config("a"))
					tt.fail(w)
					done := make(chan error, 1)
					if busy {
						go func() {
							_, err := c.Multi(w.ctx, &zk.SetDataRequest{Path: "/x"})
							done <- err
						}()
					}
					time.Sleep(tt.after)
					began := time.Now()
					iferr.Error(t, c.Close(patience))
					most := 100 * time.Millisecond
					if tt.waits {
						most += patience
					}
					if took := time.Since(began); took > most {
						t.Errorf("busy %v, patience %v: took %v", busy, patience, took)
					}
					if busy {
						if err := <-done; err == nil {
							t.Error("there was an answer")
						}
					}
				})
			})
		}
	}
}

// TestLeaveTime: when go-zookeeper ends for good, its last event is held up until a concurrent
// Close has queued its request. An event of a connection that will reconnect is not held up.
func TestLeaveTime(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial(w.config("a"))
		disconnected := func() (passed bool) {
			var queued atomic.Bool
			go func() {
				for range 1000 {
					runtime.Gosched()
				}
				queued.Store(true)
			}()
			c.sessionEvent(zk.Event{Type: zk.EventSession, State: zk.StateDisconnected})
			return queued.Load()
		}
		began := time.Now()
		disconnected()
		if took := time.Since(began); took > 0 {
			t.Errorf("held up for %v, to connect again", took)
		}
		c.own.cut()
		if !disconnected() {
			t.Error("not held up until others have come")
		}
	})
}

// TestCloseWithoutSessionLeavesNothingWaiting: without a session, go-zookeeper's Close gets an
// answer to its last request in time.
func TestCloseWithoutSessionLeavesNothingWaiting(t *testing.T) {
	for range 100 {
		simulate(t, locktest.Options{}, func(w *world) {
			c, err := Dial(w.ctx, w.Servers(), w.config("a"))
			iferr.Fatal(t, err)
			w.Stop(w.Servers()[0])
			time.Sleep(time.Minute)
			began := time.Now()
			c.own.cut()
			c.awaitPause()
			<-c.closeSession()
			if took := time.Since(began); took > lastMoments {
				t.Errorf("took %v", took)
			}
			iferr.Error(t, c.Close(0))
		})
	}
}

// TestCloseOfAServerThatFallsSilent: if the server falls silent, Close returns nil, and calls in
// flight end. The test uses a real socket.
func TestCloseOfAServerThatFallsSilent(t *testing.T) {
	for _, patience := range []time.Duration{0, 300 * time.Millisecond} {
		c, err := Dial(t.Context(), []string{serve(t, says(greeting(time.Hour)))}, testConfig(t))
		iferr.Fatal(t, err)
		done := make(chan error, 2)
		for range cap(done) {
			go func() {
				_, err := c.Multi(t.Context(), &zk.SetDataRequest{Path: "/x"})
				done <- err
			}()
		}
		iferr.Error(t, c.Close(patience))
		for range cap(done) {
			if err := <-done; OutcomeOf(err) != Ambiguous && !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
	}
}

// unresolved is a provider of hosts whose look-ups do not end.
type unresolved struct{ closed chan struct{} }

func (unresolved) Init([]string) error { return nil }
func (unresolved) Len() int            { return 1 }
func (unresolved) Connected()          {}

func (u unresolved) Next() (string, bool) {
	<-u.closed
	return "192.0.2.1:2181", true
}

// TestCloseOfABorrowedConnectionWithoutSession: if a borrowed connection never had a session, no
// request is in flight, and Close does not wait.
func TestCloseOfABorrowedConnectionWithoutSession(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		u := unresolved{make(chan struct{})}
		z, _, err := zk.Connect(w.Servers(), sessionTimeout, zk.WithHostProvider(u), zk.WithDialer(w.Dialer("a")), zk.WithLogInfo(false), zk.WithLogger(silent{}))
		iferr.Fatal(t, err)
		defer func() {
			close(u.closed)
			z.Close()
		}()
		c := Borrow(z, w.config("a"))
		ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
		defer cancel()
		_, err = c.Get(ctx, "/")
		mustBe(t, err, ErrUnavailable, context.DeadlineExceeded)
		began := time.Now()
		iferr.Error(t, c.Close(5*time.Second))
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

// TestCloseOfABorrowedConnection: Close leaves the connection unchanged, and waits for calls in
// flight.
func TestCloseOfABorrowedConnection(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		z := w.raw("a")
		c := Borrow(z, w.config("a"))
		if c.Owned() || c.Session() != z.SessionID() {
			t.Errorf("owned %v, session %#x", c.Owned(), c.Session())
		}
		w.Freeze("a")
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		if _, err := c.Multi(ctx, &zk.SetDataRequest{Path: "/x"}); !IsAbandoned(err) {
			t.Error(err)
		}
		began := time.Now()
		mustSay(t, c.Close(2*time.Second), "requests were still in flight after 2s")
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
		w.Thaw("a")
		_, err := c.Get(w.ctx, "/")
		mustBe(t, err, ErrClosed)
		if _, _, err := z.Exists("/"); err != nil || z.State() != zk.StateHasSession {
			t.Errorf("its owner's connection: %v, %v", z.State(), err)
		}
	})
}

// TestOwnerClosesBorrowedConnection: after the owner has closed the connection, waiting and later
// calls return ErrClosed.
func TestOwnerClosesBorrowedConnection(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		z := w.raw("a")
		c := Borrow(z, w.config("a"))
		w.Stop(w.Servers()[0])
		done := make(chan error, 1)
		go func() {
			_, err := c.Get(w.ctx, "/")
			done <- err
		}()
		time.Sleep(10 * time.Second)
		z.Close()
		for range 2 {
			err := <-done
			mustBe(t, err, ErrClosed)
			mustSay(t, err, "the zk.Conn it was given is closed")
			_, err = c.Multi(w.ctx, &zk.SetDataRequest{Path: "/x"})
			done <- err
		}
		iferr.Error(t, c.Close(time.Second))
	})
}

// slowHosts is a provider of hosts that takes a second for each address.
type slowHosts struct{ zk.HostProvider }

func (h slowHosts) Next() (string, bool) {
	time.Sleep(time.Second)
	return h.HostProvider.Next()
}

// TestProbeThatIsCutIsNoClose: while a borrowed connection looks for a server, a read is queued to
// find out whether the owner has closed it. If the next connection breaks under that read, the
// owner has not.
func TestProbeThatIsCutIsNoClose(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := Borrow(w.Plain("a", sessionTimeout, slowHosts{w.hosts("a")}), w.config("a"))
		defer c.Close(time.Second)
		cut := false
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if cut || r.Op != "exists" {
				return locktest.Fault{}
			}
			cut = true
			return locktest.Fault{Drop: locktest.BeforeApply}
		})
		w.Cut("a")
		synctest.Wait() // until go-zookeeper looks for a server
		iferr.Error(t, iferr.Of(c.Get(w.ctx, "/")))
		time.Sleep(5 * time.Second)
		if _, err := c.Get(w.ctx, "/"); err != nil || !cut {
			t.Errorf("cut %v: %v", cut, err)
		}
	})
}
