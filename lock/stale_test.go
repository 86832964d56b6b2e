// Servers that lag behind: what they show or hide admits no waiter, and costs no place.

package lock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// newSession ends the client's session, and waits for the next one.
func (w *world) newSession(label string, c *lock.Client) {
	first := c.Session()
	w.ExpireLabel(label)
	for s := first; s == first || s == 0; s = c.Session() {
		time.Sleep(10 * time.Millisecond)
	}
}

// TestPredecessorThatOnlyALaggingServerShows: a waiter's predicted predecessor was deleted before
// the waiter joined, but a lagging server still shows it. When the server no longer shows it, the
// waiter does not enter, because the lock is held.
func TestPredecessorThatOnlyALaggingServerShows(t *testing.T) {
	const during, before, reply = "during the read", "before the read", "before the reply to the join is handled"
	each(t, "the session ends", []string{during, before, reply}, func(w *world, when string) {
		var ends, slow atomic.Bool
		in := "(*Entry).Fresh"
		if when == reply {
			in = "(*all).attempt"
		}
		var b *lock.Client
		b = w.dial("b", atReading(func() {
			switch {
			case ends.Load() && calledBy(in) && ends.Swap(false): // the waiter has joined, and has not listed yet
				w.newSession("b", b)
			case slow.Load() && calledBy("(*Entry).Fresh") && slow.Swap(false): // it knows of the deletion, and its own entry is renewed meanwhile
				time.Sleep(50 * time.Millisecond)
			}
		}))
		a, c, z := w.dial("a"), w.dial("c"), w.raw("other")
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		ctx, cancel := context.WithCancel(w.ctx)
		gone := w.queue(ctx, c, "x")
		old := w.entries("x")[1]
		cancel()
		<-gone
		w.until("the second one has left", func() bool { return len(w.entries("x")) == 1 })

		// The test creates the node that the lagging server shows, for as long as the server lags.
		lagsBehind, first := lagging("b", b), b.Session()
		var shown atomic.Bool
		hide := func() {
			if shown.Load() && len(w.Dump(old.Path)) > 0 {
				w.remove(z, old.Path)
				slow.Store(true)
			}
		}
		w.Intercept(func(r locktest.Request) locktest.Fault {
			lags := lagsBehind(r)
			if when == reply && r.Session == first && joinsParent(r, "x") {
				ends.Store(true)
			}
			switch {
			case r.Label != "b" || !touches(r, "/locks/x"):
			case lags && mutates(r, "b"):
				return locktest.Fault{Code: codeThrottled}
			case !lags:
				hide()
				if !shown.Load() && r.Op == "getData" && touches(r, old.Path) {
					w.ExpireLabel("b")
					return locktest.Fault{Drop: locktest.BeforeApply}
				}
			case !shown.Load() && r.Op == "getData" && touches(r, old.Path):
				shown.Store(true)
				w.create(z, old.Path, string(old.Data), 0)
			}
			return locktest.Fault{}
		})
		ends.Store(when == before)
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
		time.Sleep(ttl)
		isTrue(w, shown.Load(), "no client has asked the lagging server")
		w.waits(ch)
		w.alive(h)
		w.handOver(h, ch)
	})
}

// TestPurgePastAnEntryThatALaggingServerHides: while a waiter purges the dead entry ahead, its
// session moves to a server that does not show the next entry ahead yet. The owner of the hidden
// entry has entered, so the waiter does not enter.
func TestPurgePastAnEntryThatALaggingServerHides(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		first, holder, b := w.dial("first"), w.dial("holder"), w.dial("b")
		leaving := w.lock(first, "x")
		next := w.queue(w.ctx, holder, "x")
		w.queue(w.ctx, w.dial("dead"), "x")
		ch := w.queue(w.ctx, b, "x")
		entries := paths(w.entries("x"))
		own, version := entries[3], int32(0)
		w.kill("dead")
		expired := time.Now().Add(ttl)

		// When b reads the future holder's entry, the lagging server hides it. The server answers
		// b's next read only after it has b's own latest write.
		lagsBehind, hidden := lagging("b", b), false
		var begun atomic.Bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			lags := lagsBehind(r)
			switch {
			case r.Label != "b":
			case lags && mutates(r, "b"):
				return locktest.Fault{Code: codeThrottled}
			case lags && r.Op == "getChildren2":
				return locktest.Fault{Code: codeNoNode}
			case r.Op != "getData":
			case !begun.Load() && time.Now().After(expired) && touches(r, entries[1]):
				begun.Store(true)
				version = w.node(own).Stat.Version
				w.unlock(leaving)
				w.ExpireLabel("b")
				return locktest.Fault{Drop: locktest.BeforeApply}
			case lags && touches(r, entries[1]):
				hidden = true
				return locktest.Fault{Code: codeNoNode}
			case hidden && touches(r, entries[0]) && w.node(own).Stat.Version == version:
				return locktest.Fault{Code: codeThrottled}
			}
			return locktest.Fault{}
		})
		holds := w.await(next).hold
		w.until("the session changes", begun.Load)
		time.Sleep(ttl)
		w.waits(ch)
		w.alive(holds)
		w.handOver(holds, ch)
	})
}

// TestPurgeStopsAtAnUnreadableEntry: a waiter behind a dead entry purges it, but does not enter,
// because the entry before the dead one exists and cannot be read.
func TestPurgeStopsAtAnUnreadableEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		b, z := w.dial("b"), w.raw("other")
		h := w.lock(w.dial("a"), "x")
		w.setACL(z, h.EntryPath(), zk.WorldACL(zk.PermWrite))
		w.queue(w.ctx, w.dial("dead"), "x")
		ch := w.queue(w.ctx, b, "x")
		w.kill("dead")
		w.until("the dead one is purged", func() bool { return len(w.entries("x")) == 2 })
		time.Sleep(3 * ttl)
		w.waits(ch)
		w.alive(h)
		w.handOver(h, ch)
	})
}

// TestSlowRenewalWidensTheWindow: the leader may have stamped a slow renewal at any time between
// send and reply. The client's bounds of the leader's clock still contain the leader's time.
func TestSlowRenewalWidensTheWindow(t *testing.T) {
	const slow = 2 * time.Second
	forEach(t, locktest.Options{}, map[string]locktest.Fault{
		"on the way there": {Delay: slow}, "on the way back": {DelayReply: slow},
	}, func(w *world, fault locktest.Fault) {
		a := w.dial("a")
		h := w.lock(a, "x")
		w.until("a slow renewal", w.fault(writes("a", h.EntryPath()), fault))
		w.until("its reply", func() bool { return a.Stats().Renewals == 1 })
		now := time.Now()
		earliest, latest := timeKnownTo(a)
		isTrue(w, !earliest.After(now) && !latest.Before(now), "the leader's clock shows %v, and is thought to be in %v to %v", now, earliest, latest)
		time.Sleep(2 * ttl)
		equal(w, "displacements of a clock that runs true", a.Stats().Displacements, 0)
		w.alive(h)
		w.unlock(h)
	})
}

// TestStaleFollower: a waiter that is connected to a member that lags behind does not enter while
// the lock is held.
func TestStaleFollower(t *testing.T) {
	simulate(t, locktest.Options{Members: 3}, func(w *world) {
		follower := w.followers()[0]
		a := w.dialAt("a", []string{w.Leader()})
		b := w.dialAt("b", []string{follower})
		w.unlock(w.lock(b, "other"))
		w.ok(w.Lag(follower, 700*time.Millisecond))
		for range 3 {
			h := w.lock(a, "x")
			ended := w.end(h)
			ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
			w.until("the waiter is queued", func() bool { return len(w.entries("x")) == 2 })
			w.ExpireLabel("b")
			time.Sleep(5 * time.Second)
			w.alive(h)
			w.waits(ch)
			w.unlock(h)
			got := w.await(ch)
			w.inTurn(ended, got)
			w.unlock(got.hold)
		}
		w.empty()
	})
}

// TestStaleReadOfNewSession: a session may begin on a server that lags behind all that the waiter
// has seen (localSessionsEnabled), where the entry ahead does not exist yet. The waiter does not
// enter because of a read from that server.
func TestStaleReadOfNewSession(t *testing.T) {
	each(t, "the session ends during a read", bools, func(w *world, midway bool) { // the client repeats the read in the new session
		var stale, pause atomic.Bool
		b := w.dial("b", atReading(func() {
			// The waiter handles its read late, and a renewal is faster.
			if calledBy("(*Entry).Fresh") && pause.Swap(false) {
				time.Sleep(ttl / 4)
			}
		}))
		h := w.lock(w.dial("a"), "x")
		ch := w.queue(w.ctx, b, "x")
		first := b.Session()
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Label != "b" || r.Op != "getData" || !touches(r, h.EntryPath()) {
				return locktest.Fault{}
			}
			switch {
			case r.Session == first && midway:
				w.ExpireLabel("b")
				return locktest.Fault{Drop: locktest.BeforeApply}
			case r.Session != first && !stale.Swap(true):
				pause.Store(true)
				return locktest.Fault{Code: codeNoNode}
			}
			return locktest.Fault{}
		})
		if !midway {
			w.ExpireLabel("b")
		}
		w.until("a stale read was made", stale.Load)
		time.Sleep(ttl)
		w.waits(ch)
		w.alive(h)
		w.handOver(h, ch)
	})
}

// TestStaleListDoesNotQueueAgain: as a waiter lists for the first time, its session moves to a
// server that does not show the waiter's own entry yet. The waiter does not queue again.
func TestStaleListDoesNotQueueAgain(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		var ends atomic.Bool
		var b *lock.Client
		b = w.dial("b", atReading(func() {
			if calledBy("(*Entry).Fresh") && ends.Swap(false) { // the waiter has joined, and has not listed yet
				w.newSession("b", b)
			}
		}))
		h, err := w.dial("a").RWMutex("x").Lock(w.ctx)
		w.ok(err)
		lagsBehind := lagging("b", b)
		w.Intercept(func(r locktest.Request) locktest.Fault {
			lags := lagsBehind(r)
			switch {
			case lags && mutates(r, "b"):
				return locktest.Fault{Code: codeThrottled}
			case lags && touches(r, "/locks/x"):
				return locktest.Fault{Code: codeNoNode} // the server lags behind the create
			}
			return locktest.Fault{}
		})
		ends.Store(true)
		ch := start(func() (*lock.Hold, error) { return b.RWMutex("x").Lock(w.ctx) })
		time.Sleep(ttl)
		w.waits(ch)
		equal(t, "queued again", b.Stats().Requeued, 0)
		w.handOver(h, ch)
	})
}

// TestNumberOfPermitsThatALaggingServerShows: after a waiter has listed, and before it reads the number of
// permits, its session moves to a server that shows the larger number of before a Resize. Its own entry is
// written in the new session before it has handled the read. The waiter does not enter: as many permits
// are held as there are.
func TestNumberOfPermitsThatALaggingServerShows(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		var pause atomic.Bool
		b := w.dial("b", atReading(func() {
			if calledBy("(*Entry).Fresh") && pause.Swap(false) {
				time.Sleep(ttl / 4)
			}
		}))
		a, z := w.dial("a").Semaphore("x", 3), w.raw("other")
		first, second, third := w.take(permits(a, 1)), w.take(permits(a, 1)), w.take(permits(a, 1))
		resized := async(func() error { return w.dial("c").Semaphore("x", 3).Resize(w.ctx, 2) })
		w.until("the Resize waits for a permit", func() bool { return len(w.entries("x")) == 4 })
		ch := w.join("x", permits(b.Semaphore("x", 3), 1))
		anchor, session := w.anchors("x")[0], b.Session()
		before := w.node(anchor).Data

		// The test writes the number that the lagging server shows, for as long as the read takes.
		var shown atomic.Bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			reads := r.Op == "getData" && touches(r, anchor)
			switch {
			case r.Label != "b" || shown.Load():
			case r.Session != session && mutates(r, "b"):
				return locktest.Fault{Code: codeThrottled}
			case r.Session != session && reads && !shown.Swap(true):
				after := w.node(anchor).Data
				w.set(z, anchor, before)
				time.AfterFunc(10*latency, func() { w.set(z, anchor, after) })
				pause.Store(true)
			case r.Session == session && reads && len(w.entries("x")) == 3: // the Resize has left
				w.ExpireLabel("b")
				return locktest.Fault{Drop: locktest.BeforeApply}
			}
			return locktest.Fault{}
		})
		w.unlock(third)
		w.until("the old number is read", shown.Load)
		w.ok(<-resized)
		time.Sleep(ttl)
		w.waits(ch)
		w.alive(first)
		w.unlock(first)
		w.finish(w.await(ch).hold, second)
	})
}
