// Lost watches: clients notice each change without them, within a bounded time.

package lock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// losing is the world of a client labelled "a" that loses its watches while its session continues.
type losing struct {
	*world
	own  bool                 // the client has dialed the connection
	lose func(c *lock.Client) // makes the client lose its watches
	most time.Duration        // longest time until it notices
}

// client returns client "a", on its own connection or on a borrowed one.
func (w *losing) client(opts ...lock.Option) *lock.Client {
	if w.own {
		return w.dial("a", opts...)
	}
	c, err := lock.New(w.raw("a"), w.options("a", opts...)[1:]...) // not the dialer
	w.ok(err)
	w.Cleanup(func() { c.Close() })
	return c
}

// forEachLoss runs f for each way to lose watches, on a connection of the client's own and on a
// borrowed one.
func forEachLoss(t *testing.T, f func(w *losing)) {
	const never, slowly = time.Second, 2 * time.Minute
	for _, loss := range []struct {
		name          string
		refused, cut  bool
		own, borrowed time.Duration // longest time until it notices
	}{
		{"connection lost", false, true, never, never},
		{"connection lost, setWatches refused", true, true, never, slowly},
		{"lost by the server", false, false, slowly, slowly},
	} {
		lose := func(w *world, c *lock.Client) {
			before := c.Session()
			if loss.refused {
				w.Intercept(func(r locktest.Request) (f locktest.Fault) {
					if r.Op == "setWatches" {
						f.Code = codeThrottled
					}
					return f
				})
			}
			if !loss.cut {
				w.LoseWatches("a")
				return
			}
			w.Cut("a")
			time.Sleep(3 * time.Second)
			mustBeTrue(w, c.Session() == before, "the session has ended: the test does not show what it means to")
		}
		for own, most := range map[bool]time.Duration{true: loss.own, false: loss.borrowed} {
			subtest(t, fmt.Sprintf("%s, own %v", loss.name, own), locktest.Options{}, func(w *world) {
				f(&losing{w, own, func(c *lock.Client) { lose(w, c) }, most})
			})
		}
	}
}

// TestWaiterBehindForeignEntryWithoutWatch: a waiter behind an entry of another library enters in
// time after the entry is deleted, although the watch is lost. The entry has no lease that could
// end.
func TestWaiterBehindForeignEntryWithoutWatch(t *testing.T) {
	for how, barges := range map[string]bool{"queues": false, "barges": true} {
		t.Run(how, func(t *testing.T) {
			forEachLoss(t, func(w *losing) {
				a, z := w.client(), w.raw("other")
				w.unlock(w.lock(a, "y"))
				w.create(z, "/locks/x", "", 0)
				path := w.create(z, "/locks/x/_c_0123456789abcdef0123456789abcdef-lock-", "", zk.FlagEphemeral|zk.FlagSequence)
				m := a.Mutex("x")
				if barges {
					m = m.WithBarging()
				}
				ch := start(func() (*lock.Hold, error) { return m.Lock(w.ctx) })
				w.waits(ch)
				w.lose(a)
				w.remove(z, path)
				w.unlock(w.inTime(ch, w.most))
			})
		})
	}
}

// TestHandoffToAnotherClientWithoutWatch: a waiter whose watch is lost enters in time, and no later
// than if the holder had crashed.
func TestHandoffToAnotherClientWithoutWatch(t *testing.T) {
	forEachLoss(t, func(w *losing) {
		a, b := w.client(), w.dial("b")
		h := w.lock(b, "x")
		ch := w.queue(w.ctx, a, "x")
		w.lose(a)
		w.unlock(h)
		w.unlock(w.inTime(ch, min(w.most, ttl+grace+time.Second)))
	})
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

// TestRaiseWithoutWatch: the first waiter notices additional permits within three minutes, although
// its watches are lost.
func TestRaiseWithoutWatch(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a").Semaphore("x", 1), w.dial("b").Semaphore("x", 1), w.dial("c").Semaphore("x", 1)
		h := w.take(permits(a, 1))
		ch := w.join("x", permits(b, 1))
		time.Sleep(100 * time.Millisecond)
		w.LoseWatches("b")
		w.ok(c.Resize(w.ctx, 2))
		begun := time.Now()
		got := w.await(ch)
		atMost(w, "it noticed after", got.at.Sub(begun), 3*time.Minute)
		w.finish(h, got.hold)
	})
}
