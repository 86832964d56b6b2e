// Servers that have lost their data or a client's watches, or refuse a session for a while.

package lock_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// busy locks and unlocks 50 times, so that the client has seen more transactions than the servers
// have after they lose their data.
func (w *world) busy(c *lock.Client) {
	w.Helper()
	for range 50 {
		w.unlock(w.lock(c, "busy"))
	}
}

// TestServerThatLostItsData: servers that have lost their data refuse a client that has seen more
// transactions. Check returns ErrUnavailable, with the lost data among the possible causes. The
// client starts a new session after the session timeout. Holds whose entries are gone end.
func TestServerThatLostItsData(t *testing.T) {
	for _, members := range []int{1, 3} {
		subtest(t, fmt.Sprint("members ", members), locktest.Options{Members: members}, func(w *world) {
			a := w.dial("a")
			w.busy(a)
			held := w.lock(a, "held")
			idle := w.dial("idle")
			waiting := w.queue(w.ctx, idle, "held")
			session := a.Session()

			begun := time.Now()
			w.Forget()
			time.Sleep(sessionTimeout * 2 / 3)
			if err := a.Check(); err == nil {
				w.Error("servers refuse the client, and Check is nil")
			} else {
				fails(w, err, lock.ErrUnavailable, "port for TLS", "maxClientCnxns", "it has lost its data")
			}
			got := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) })
			w.unlock(w.await(got).hold)
			inRange(w, "the client came back after", time.Since(begun), sessionTimeout, 2*sessionTimeout)
			if err := a.Check(); err != nil || a.Session() == session {
				w.Errorf("afterwards Check is %v, and the session %#x, before %#x", err, a.Session(), session)
			}
			w.until("the hold whose entry is gone has ended", func() bool { return held.Err() != nil })
			mustBe(w, held.Err(), lock.ErrRemoved)
			w.unlock(w.await(waiting).hold)
			isTrue(w, strings.Contains(w.logged(), "no server answers for the session"), "the log does not tell of the new session")
		})
	}
}

// TestClockOfServersThatLostTheirData: once a client has its new session, it no longer uses what it
// knew of the servers' clock before they lost their data.
func TestClockOfServersThatLostTheirData(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		w.busy(a)
		session, before := a.Session(), admin.New(a).Estimate()
		w.Forget()
		w.until("a has a new session", func() bool { return a.Session() != session && a.Check() == nil })
		now := admin.New(a).Estimate()
		isTrue(w, now.Resets > before.Resets && now.Zxid < before.Zxid, "the client still knows %+v, before %+v", now, before)
	})
}

// refusing returns a dialer to servers that close the connections of a client without an answer
// while refuses returns true.
func (w *world) refusing(label string, refuses func() bool) lock.Option {
	return lock.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
		if !refuses() {
			return w.Dialer(label)(network, address, timeout)
		}
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			server.Read(make([]byte, 256))
		}()
		return client, nil
	})
}

// TestServerThatRefusesForAWhile: a server that refuses the session for less than the session
// timeout does not cost the client its session.
func TestServerThatRefusesForAWhile(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		var refuses atomic.Bool
		a := w.dial("a", w.refusing("a", refuses.Load))
		w.busy(a)
		session := a.Session()
		refuses.Store(true)
		w.Cut("a")
		time.Sleep(sessionTimeout / 2)
		refuses.Store(false)
		w.unlock(w.lock(a, "x"))
		equal(t, "session", a.Session(), session)
	})
}

// TestServersThatRefuseAfterTheSession: Check also returns ErrUnavailable if servers refuse the client
// after one of them has answered that its session has expired, until a server accepts it.
func TestServersThatRefuseAfterTheSession(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		var refuses atomic.Bool
		var a *lock.Client
		a = w.dial("a", w.refusing("a", func() bool { return refuses.Load() && a.Session() == 0 }))
		refuses.Store(true)
		w.ExpireLabel("a")
		time.Sleep(sessionTimeout / 4)
		equal(w, "session", a.Session(), 0)
		w.ok(a.Check())
		time.Sleep(sessionTimeout)
		fails(w, a.Check(), lock.ErrUnavailable, "maxClientCnxns")
		refuses.Store(false)
		w.unlock(w.lock(a, "x"))
		w.ok(a.Check())
	})
}

// TestDataLostBehindASessionThatEnded: a client whose session has just ended has seen no
// transaction in the next one, so servers that have lost their data accept it. The client does not
// mistake a live entry for one of an earlier term, and does not purge it.
func TestDataLostBehindASessionThatEnded(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		w.busy(a)
		w.StepClock(time.Minute) // a new term begins
		w.busy(a)
		time.Sleep(2 * time.Second) // until the parent is deleted
		w.ExpireLabel("a")
		time.Sleep(sessionTimeout + 4*ttl) // longer than a lease since the term began
		w.Forget()
		b := w.dial("b")
		h := w.lock(b, "x")
		time.Sleep(sessionTimeout)
		gone, err := admin.New(a).Purge(w.ctx, h.EntryPath(), lock.Policy{TTL: ttl, Grace: ttl / 4})
		isTrue(w, !gone && err == nil, "a living entry was purged: %v, %v", gone, err)
		isTrue(w, !strings.Contains(w.logged(), "no server answers for the session"), "the servers have refused the client: this shows nothing")
		mustBe(w, second(a.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
		w.alive(h)
		w.unlock(h)
	})
}

// TestLeaderAfterDataLostUnseen: the servers have lost their data, and then made more transactions
// than before. So they accept an observer that was connected before. The observer sees the new
// leader.
func TestLeaderAfterDataLostUnseen(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		busy := func(label string) {
			z := w.raw(label)
			w.create(z, "/"+label, "", 0)
			for range 100 {
				w.set(z, "/"+label, nil)
			}
		}
		observer := w.dial("observer")
		busy("before")
		w.leads(w.campaign(w.ctx, w.dial("a"), "a"), "a")
		seen := w.observe(w.ctx, observer)
		w.ok(errors.Join(w.Partition("observer"), w.Partition("a")))
		time.Sleep(sessionTimeout + 2*ttl)
		w.Forget()
		b := w.campaign(w.ctx, w.dial("b"), "b")
		busy("since")
		busy("later")
		w.leads(b, "b")
		w.Heal("observer")
		w.until("the new leader is shown", func() bool { all := seen.values(); return len(all) > 0 && all[len(all)-1] == "b" })
		isTrue(w, !strings.Contains(w.logged(), "no server answers for the session"), "the servers have refused the client: this shows nothing")
		w.Heal("a")
	})
}

// TestDataLostUnderADeniedSample: servers have lost their data, and their clock was set back. A client
// that an ACL forbids to sample the clock does not take over a live hold because of its old sample.
func TestDataLostUnderADeniedSample(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		w.busy(a)
		time.Sleep(2 * time.Second) // until the parent is deleted
		w.ExpireLabel("a")
		time.Sleep(sessionTimeout)
		w.Forget()
		w.StepClock(-time.Hour)
		h := w.lock(w.dial("b"), "d/x")
		w.setACL(w.raw("admin"), lock.DefaultRoot, zk.WorldACL(zk.PermRead))
		ticket := w.ticket(h)
		ch := start(func() (*lock.Hold, error) { return a.Attach(w.ctx, ticket) })
		time.Sleep(3 * ttl)
		w.waits(ch)
		w.alive(h)
		w.unlock(h)
		fails(w, w.outcome(ch).err, lock.ErrRemoved)
	})
}

// TestWaitWithoutWatch: a client's watches are lost while its session continues. A waiter behind a hold enters
// in time after the unlock, and no later than if the holder had crashed; behind an entry of another library,
// which has no lease that could end, in time after its deletion, also if it barges.
func TestWaitWithoutWatch(t *testing.T) {
	const soon, slowly = time.Second, 2 * time.Minute
	for _, loss := range []struct {
		name          string
		refused, cut  bool
		own, borrowed time.Duration // longest time until the client notices, by its connection
	}{
		{"connection lost", false, true, soon, soon},
		{"connection lost, setWatches refused", true, true, soon, slowly},
		{"lost by the server", false, false, slowly, slowly},
	} {
		for own, most := range map[bool]time.Duration{true: loss.own, false: loss.borrowed} {
			each(t, fmt.Sprintf("%s, own %v,", loss.name, own), []string{"queues", "foreign", "foreign, barges"}, func(w *world, how string) {
				dial := w.client
				if !own {
					dial = w.borrow
				}
				a, z := dial("a"), w.raw("other")
				w.unlock(w.lock(a, "y"))
				var end func()
				m, limit := a.Mutex("x"), most
				if how == "queues" {
					h := w.lock(w.dial("b"), "x")
					end, limit = func() { w.unlock(h) }, min(most, ttl+grace+time.Second)
				} else {
					w.create(z, "/locks/x", "", 0)
					path := w.create(z, "/locks/x/_c_0123456789abcdef0123456789abcdef-lock-", "", zk.FlagEphemeral|zk.FlagSequence)
					end = func() { w.remove(z, path) }
				}
				if how == "foreign, barges" {
					m = m.WithBarging()
				}
				ch := start(func() (*lock.Hold, error) { return m.Lock(w.ctx) })
				w.waits(ch)
				w.losesWatches(a, loss.refused, loss.cut)
				end()
				w.unlock(w.inTime(ch, limit))
			})
		}
	}
}

// losesWatches makes client "a" lose its watches: by a cut, or else in the server. With refused, no server
// sets them again.
func (w *world) losesWatches(a *lock.Client, refused, cut bool) {
	if refused {
		w.faults(func(r locktest.Request) bool { return r.Op == "setWatches" }, locktest.Fault{Code: codeThrottled})
	}
	if !cut {
		w.LoseWatches("a")
		return
	}
	before := a.Session()
	w.Cut("a")
	time.Sleep(3 * time.Second)
	mustBeTrue(w, a.Session() == before, "the session has ended: the test does not show what it means to")
}

// TestIdleBorrowedConnectionSeesOutages: an idle client on a borrowed connection knows of outages
// when it judges entries. It does not purge the entries of clients that could not renew during the
// outage.
func TestIdleBorrowedConnectionSeesOutages(t *testing.T) {
	forEach(t, locktest.Options{}, map[string]func(w *world){
		"servers stopped": func(w *world) {
			w.Stop(w.Servers()[0])
			time.Sleep(ttl * 3 / 4)
			w.Start(w.Servers()[0])
		},
		"sessions ended": func(w *world) {
			time.Sleep(ttl * 3 / 4)
			w.ExpireLabel("idle")
		},
	}, func(w *world, away func(w *world)) {
		a, b := w.dial("a"), w.dial("b")
		idle, err := lock.New(w.raw("idle"), w.options("idle")[1:]...) // not the dialer
		w.ok(err)
		w.Cleanup(func() { idle.Close() })
		w.unlock(w.lock(idle, "y")) // the client learns the time
		time.Sleep(ttl)
		h := w.lock(a, "x")
		waiting := w.queue(w.ctx, b, "x")
		w.kill("a")
		w.kill("b")
		away(w)
		time.Sleep(4 * time.Second) // go-zookeeper has a new session, but the idle client made no request
		ch := start(func() (*lock.Hold, error) { return idle.Mutex("x").Lock(w.ctx) })
		time.Sleep(time.Second)
		w.Heal("a")
		w.Heal("b")
		w.unlock(w.await(waiting).hold)
		w.unlock(w.await(ch).hold)
		atMost(w, "entries of waiters that were coming back, and were deleted", b.Stats().Requeued, 0)
		h.Unlock()
	})
}
