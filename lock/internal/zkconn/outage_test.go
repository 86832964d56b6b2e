package zkconn

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// watched is a connection whose outages the test observes, by the bubble's clock.
type watched struct {
	*Conn
	w           *world
	now         func() time.Duration
	reconnected atomic.Int32
}

// watch returns a connection that the test polls, as its user must.
func (w *world) watch(own bool) *watched {
	c := &watched{w: w}
	cfg := w.config("a")
	cfg.Reconnected = func() { c.reconnected.Add(1) }
	c.now = cfg.Now
	c.Conn = w.conn(own, cfg)
	return c
}

// pass advances the time, with a poll each second.
func (c *watched) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(min(time.Second, time.Until(end)))
		c.poll()
	}
	synctest.Wait()
}

// had checks that the last outage ended between from and to. It also checks the number of
// reported reconnections.
func (c *watched) had(from, to time.Duration, reconnected int32) {
	c.w.Helper()
	if last := c.LastOutage(); last < from || last > to {
		c.w.Errorf("own %v: the last outage was at %v, want within %v and %v", c.Owned(), last, from, to)
	}
	if got := c.reconnected.Load(); got != reconnected {
		c.w.Errorf("own %v: %d reconnections are told, want %d", c.Owned(), got, reconnected)
	}
}

// TestAbandonedCallIsNoOutage: abandoned calls do not count as an outage.
func TestAbandonedCallIsNoOutage(t *testing.T) {
	for _, own := range []bool{true, false} {
		simulate(t, locktest.Options{}, func(w *world) {
			c := w.watch(own)
			w.Intercept(func(locktest.Request) locktest.Fault { return locktest.Fault{DelayReply: 2 * time.Second} })
			for range 20 {
				write, cancel := context.WithTimeout(w.ctx, time.Second)
				if _, err := c.Multi(write, &zk.SetDataRequest{Path: "/x"}); !IsAbandoned(err) {
					t.Error(err)
				}
				cancel()
				c.pass(3 * time.Second)
				read, cancel := context.WithTimeout(w.ctx, time.Second)
				if _, err := c.Get(read, "/"); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				cancel()
				c.pass(3 * time.Second)
			}
			c.had(-1, -1, 0)
		})
	}
}

// TestOutages: an outage and its end are noticed, with or without requests meanwhile.
func TestOutages(t *testing.T) {
	for _, own := range []bool{true, false} {
		simulate(t, locktest.Options{}, func(w *world) {
			c := w.watch(own)
			c.pass(time.Minute)
			c.had(-1, -1, 0)

			// The session ends.
			at := c.now()
			w.ExpireLabel("a")
			c.pass(3 * time.Second)
			c.had(at, at+3*time.Second, 1)

			// Without a server, the outage lasts until now.
			w.Stop(w.Servers()[0])
			c.pass(5 * time.Second)
			c.had(c.now(), c.now(), 1)
			w.Start(w.Servers()[0])
			at = c.now()
			c.pass(5 * time.Second)
			c.had(at, at+3*time.Second, 2)

			// The client gives up a silent server in time.
			w.Partition("a")
			c.pass(sessionTimeout)
			c.had(c.now(), c.now(), 2)
			w.Heal("a")
			at = c.now()
			c.pass(5 * time.Second)
			c.had(at, at+3*time.Second, 3)

			at = c.now()
			c.pass(time.Minute)
			c.had(0, at, 3)
			c.NoteOutage()
			c.had(c.now(), c.now(), 3)
		})
	}
}

// TestFailedRequestIsAnOutage: a loss of the connection that is over at once counts as an outage.
// On a borrowed connection only the failed request shows it.
func TestFailedRequestIsAnOutage(t *testing.T) {
	for _, own := range []bool{true, false} {
		simulate(t, locktest.Options{}, func(w *world) {
			c := w.watch(own)
			session, at := c.Session(), c.now()
			drop := true
			w.Intercept(func(r locktest.Request) locktest.Fault {
				if drop && r.Op == "setData" {
					drop = false
					return locktest.Fault{Drop: locktest.BeforeApply}
				}
				return locktest.Fault{}
			})
			if _, err := c.Multi(w.ctx, &zk.SetDataRequest{Path: "/x"}); OutcomeOf(err) != Ambiguous {
				t.Error(err)
			}
			c.pass(3 * time.Second)
			if c.Session() != session {
				t.Fatal("it has another session")
			}
			c.had(at, at+2*time.Second, 1)
		})
	}
}

// TestNoOutageBeforeTheFirstSession: the time before the first session is no outage, and the beginning
// of that session is no reconnect.
func TestNoOutageBeforeTheFirstSession(t *testing.T) {
	for _, own := range []bool{true, false} {
		simulate(t, locktest.Options{}, func(w *world) {
			w.Stop(w.Servers()[0])
			time.AfterFunc(10*time.Second, func() { w.Start(w.Servers()[0]) })
			c := w.watch(own)
			c.pass(time.Second)
			c.had(-1, -1, 0)
		})
	}
	simulate(t, locktest.Options{}, func(w *world) {
		w.Stop(w.Servers()[0])
		z, _, err := zk.Connect(w.Servers(), sessionTimeout, zk.WithDialer(w.Dialer("a")), zk.WithLogInfo(false), zk.WithLogger(silent{}))
		iferr.Fatal(t, err)
		defer z.Close()
		c := &watched{w: w, now: func() time.Duration { return 0 }}
		cfg := w.config("a")
		cfg.Reconnected = func() { c.reconnected.Add(1) }
		c.Conn = Borrow(z, cfg)
		defer c.Close(0)
		c.pass(10 * time.Second)
		w.Start(w.Servers()[0])
		c.pass(10 * time.Second)
		c.had(-1, -1, 0)
		iferr.Error(t, iferr.Of(c.Get(w.ctx, "/")))
	})
}

// TestLastFailureOfEachServer: without a quorum, the last failure names the server that is there and does
// not serve before those that refuse connections, whichever was tried last. It forgets the addresses
// that are tried no longer, and what was before a session.
func TestLastFailureOfEachServer(t *testing.T) {
	simulate(t, locktest.Options{Members: 5}, func(w *world) {
		c := w.dial(w.config("a"))
		for _, s := range w.Servers()[1:] {
			w.Stop(s)
		}
		time.Sleep(10 * time.Second) // each was tried
		for range 20 {
			time.Sleep(time.Second / 3)
			why := c.LastFailure()
			if why == nil {
				t.Fatal("no failure")
			}
			told := strings.Split(why.Error(), "; ")
			if len(told) != mostFailures || !strings.HasPrefix(told[0], w.Servers()[0]) || !strings.Contains(told[0], "it has no quorum") {
				t.Fatalf("%q", told)
			}
		}
		mustBe(t, c.NoSession(), ErrUnavailable, io.EOF, syscall.ECONNREFUSED)
		c.noteRound(w.Servers()[1:2], nil)
		if why := c.LastFailure(); why == nil || strings.Contains(why.Error(), ";") {
			t.Errorf("%v, want the failure at %s only", why, w.Servers()[1])
		}
		for _, s := range w.Servers()[1:] {
			w.Start(s)
		}
		if err := c.Ready(w.ctx); err != nil || c.LastFailure() != nil || c.own.failures.err() != nil {
			t.Errorf("%v; with a session the last failure is %v", err, c.LastFailure())
		}
	})
}
