// What a client has read is not so any more: servers lag behind, or two clients act at the same moment.

package lock_test

import (
	"context"
	"errors"
	"math"
	"path"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
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
		in := "(*Entry).Fresh"
		if when == reply {
			in = "(*all).attempt"
		}
		var b *lock.Client
		ends := moment{in: in, do: func() { w.newSession("b", b) }} // the waiter has joined, and has not listed yet
		// It knows of the deletion, and its own entry is renewed meanwhile.
		slow := moment{in: "(*Entry).Fresh", do: func() { time.Sleep(50 * time.Millisecond) }}
		b = w.dial("b", w.atMoments(&ends, &slow))
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
				slow.armed.Store(true)
			}
		}
		w.Intercept(func(r locktest.Request) locktest.Fault {
			lags := lagsBehind(r)
			if when == reply && r.Session == first && joinsParent(r, "x") {
				ends.armed.Store(true)
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
		ends.armed.Store(when == before)
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
		known := admin.New(a).Estimate()
		isTrue(w, !known.Earliest().After(now) && !known.Latest().Before(now), "it is %v, and is thought to be %+v", now, known)
		time.Sleep(2 * ttl)
		equal(w, "displacements of a clock that runs true", a.Stats().Displacements, 0)
		w.alive(h)
		w.unlock(h)
	})
}

// TestStaleReadOfNewSession: a session may begin on a server that lags behind all that the waiter
// has seen (localSessionsEnabled), where the entry ahead does not exist yet. The waiter does not
// enter because of a read from that server.
func TestStaleReadOfNewSession(t *testing.T) {
	each(t, "the session ends during a read", bools, func(w *world, midway bool) { // the client repeats the read in the new session
		var stale atomic.Bool
		// The waiter handles its read late, and a renewal is faster.
		pause := moment{in: "(*Entry).Fresh", do: func() { time.Sleep(ttl / 4) }}
		b := w.dial("b", w.atMoments(&pause))
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
				pause.armed.Store(true)
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
		var b *lock.Client
		ends := moment{in: "(*Entry).Fresh", do: func() { w.newSession("b", b) }} // the waiter has joined, and has not listed yet
		b = w.dial("b", w.atMoments(&ends))
		h := w.take(w.dial("a").RWMutex("x").Lock)
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
		ends.armed.Store(true)
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
		pause := moment{in: "(*Entry).Fresh", do: func() { time.Sleep(ttl / 4) }}
		b := w.dial("b", w.atMoments(&pause))
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
				pause.armed.Store(true)
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

// TestLatePurge: if the holder's entry is written or deleted between the read that showed it
// expired and the purge, the purge deletes only the version that was judged. A written entry blocks
// for a TTL and the grace from that write.
func TestLatePurge(t *testing.T) {
	const written, listed, removed = "written before the delete", "written before the list", "deleted before the delete"
	each(t, "it is", []string{written, listed, removed}, func(w *world, is string) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("other")
		h := w.lock(a, "x")
		ch := w.queue(w.ctx, b, "x")
		d := w.die("a", h.EntryPath())
		late, fault := leaves(h), locktest.Fault{}
		if is == listed {
			late, fault.Delay = func(r locktest.Request) bool { return r.Op == "getChildren2" }, 100*time.Millisecond
		}
		hit := w.fault(func(r locktest.Request) bool {
			if r.Label != "b" || !late(r) {
				return false
			}
			if is == removed {
				w.remove(z, h.EntryPath())
			} else {
				w.set(z, h.EntryPath(), w.node(h.EntryPath()).Data)
			}
			return true
		}, fault)
		w.until("the purge", hit)
		isTrue(w, time.Since(time.UnixMilli(d.end)) >= grace, "purged before the end of the grace")
		if is == removed {
			h := w.await(ch).hold
			equal(w, "purged", b.Stats().Purged, 0)
			w.unlock(h)
			return
		}
		renewed := dead{h.EntryPath(), w.node(h.EntryPath()).Stat.Mtime + ttl.Milliseconds()}
		got := w.await(ch)
		w.purged(renewed, got.at, 0, 20*time.Millisecond)
		w.unlock(got.hold)
	})
}

// TestTryLockThatLearnsTheTimeSlowly: TryLock learns the ensemble's time only after the lease that
// it has read must have ended. The holder has renewed meanwhile, so TryLock returns ErrHeld and
// writes no entry.
func TestTryLockThatLearnsTheTimeSlowly(t *testing.T) {
	simulate(t, locktest.Options{Members: 3}, func(w *world) {
		const brief = time.Second
		h := w.lock(w.dial("a"), "x", lock.WithTTL(brief))
		b := w.dial("b")
		w.elect(0) // the new leader has another clock
		time.Sleep(brief)
		var joined atomic.Bool
		asked := w.faultsInTurn(func(r locktest.Request) bool {
			joined.Store(joined.Load() || r.Label == "b" && joins(r))
			return r.Label == "b" && r.Op == "multi" && !joins(r)
		}, first(locktest.Fault{DelayReply: 2*brief + grace}))
		mustBe(t, second(b.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
		isTrue(t, asked.Load() > 0 && !joined.Load(), "it asked %d times for the time, and joined: %v", asked.Load(), joined.Load())
		w.sole(h)
		w.unlock(h)
	})
}

// TestTryLockThatLosesTheRace: if another client locks between the list and the join of a TryLock,
// TryLock returns ErrHeld, and its entry is deleted.
func TestTryLockThatLosesTheRace(t *testing.T) {
	each(t, "prior", []string{"nothing", "a parent", "an expired entry", "the end of the counter"}, func(w *world, prior string) {
		p := lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: prior != "nothing"})
		a, b := w.dial("a", p), w.dial("b", p)
		if prior != "nothing" {
			w.unlock(w.lock(a, "x"))
		}
		if prior == "an expired entry" {
			w.lock(w.dial("dead"), "x")
			w.kill("dead")
			time.Sleep(3 * ttl)
		}
		var h *lock.Hold
		w.before(func(r locktest.Request) bool { return r.Label == "b" && joins(r) }, func() {
			if prior == "the end of the counter" {
				mustBe(w, w.SetSequence("/locks/x", math.MaxInt32), nil)
			}
			h = w.lock(a, "x")
		})
		mustBe(w, second(b.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
		w.sole(h)
		w.unlock(h)
	})
}

// TestTryAsTheNumberIsLowered: if a Resize leaves too few permits between the list and the join of a
// TryAcquire, the error names the lock, and not the try's own entry.
func TestTryAsTheNumberIsLowered(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		lowers, tries := w.sem("a", 3), w.sem("b", 3)
		w.before(func(r locktest.Request) bool { return r.Label == "b" && joins(r) }, func() { w.ok(lowers.Resize(w.ctx, 2)) })
		equal(w, "what is in the way", heldError(w, second(tries.TryAcquire(w.ctx, 3))).Entry, "/locks/x")
	})
}

// TestUnlockOfADeletedEntry: if a hold's entry was deleted or overwritten, or another client has attached
// to it, Unlock, Detach and Txn return ErrRemoved, ErrTaken or ErrAttached. They do not change what is
// there, and nothing is applied. The client deletes the parent of a deleted entry.
func TestUnlockOfADeletedEntry(t *testing.T) {
	befalls := map[error]func(w *world, z *zk.Conn, entry string){
		lock.ErrRemoved: func(w *world, z *zk.Conn, entry string) { w.remove(z, entry) },
		lock.ErrTaken:   func(w *world, z *zk.Conn, entry string) { w.set(z, entry, []byte("mine")) },
		lock.ErrAttached: func(w *world, z *zk.Conn, entry string) {
			r := w.record(entry)
			r.Incarnation++
			w.set(z, entry, r.Encode())
		},
	}
	for what, call := range map[string]func(w *world, h *lock.Hold) error{
		"Unlock": func(_ *world, h *lock.Hold) error { return h.Unlock() },
		"Unlock after the loss is known": func(w *world, h *lock.Hold) error {
			w.end(h).wait()
			return h.Unlock()
		},
		"Detach": func(w *world, h *lock.Hold) error {
			ticket, err := h.Detach(w.ctx, 0)
			isTrue(w, ticket.IsZero(), "there is a ticket: %v", ticket)
			return err
		},
		"Txn": func(w *world, h *lock.Hold) error { return h.Txn(w.ctx, add()) },
	} {
		each(t, what+", kept", bools, func(w *world, kept bool) {
			w.makeApp()
			a, z := w.dial("a", keeps(kept)), w.raw("other")
			for want, befall := range befalls {
				h := w.lock(a, "x")
				befall(w, z, h.EntryPath())
				left := w.Dump(h.EntryPath())
				err := call(w, h)
				mustBe(w, err, lock.ErrLost, want)
				var lost *lock.LostError
				isTrue(w, errors.As(err, &lost) && lost.Lock == "x" && lost.Entry == h.EntryPath(), "%#v", err)
				if what == "Txn" {
					mustBe(w, h.Err(), want)
					mustBe(w, h.Unlock(), lock.ErrLost, want)
				}
				isTrue(w, h.Unlock() != nil, "unlocked twice")
				time.Sleep(3 * ttl)
				same(w, left, w.Dump(h.EntryPath()))
				w.applied(0)
				if want == lock.ErrRemoved && !kept {
					w.empty()
				} else if want != lock.ErrRemoved {
					w.remove(z, h.EntryPath())
				}
			}
		})
	}
}

// TestLateDeleteHitsNoOtherEntry: a holder reconnects after its entry was purged and its lock was
// deleted and recreated. Another client's entry has the same sequence. The holder's late delete
// does not delete that entry.
func TestLateDeleteHitsNoOtherEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		old := w.lock(a, "x")
		d := w.die("a", old.EntryPath())
		got := w.await(w.queue(w.ctx, b, "x"))
		w.purged(d, got.at, 0, ttl)
		w.finish(got.hold)

		h := w.lock(b, "x")
		was, _ := znode.Parse(path.Base(old.EntryPath()))
		is, _ := znode.Parse(path.Base(h.EntryPath()))
		mustBeTrue(t, is.Seq == was.Seq, "entries %s and %s: the sequence did not start anew", old.EntryPath(), h.EntryPath())
		hit := w.fault(func(r locktest.Request) bool { return mutates(r, "a") }, locktest.Fault{})
		w.Heal("a")
		mustBe(t, old.Unlock(), lock.ErrLost)
		w.until("its late delete", hit)
		w.sole(h)
		w.finish(h)
	})
}

// TestOverwrittenEntry: another client writes a hold's entry, even with the same bytes, or after a
// renewal whose reply was lost. Then the entry can be read, cannot be read at first, or is deleted.
// The hold ends, and the write does not count as a renewal.
func TestOverwrittenEntry(t *testing.T) {
	for _, tt := range []struct {
		name    string
		inDoubt bool
		code    int32 // error code of the first read
		want    error
	}{
		{"read", false, 0, lock.ErrTaken}, {"not read at first", false, codeNoAuth, lock.ErrTaken},
		{"gone", false, codeNoNode, lock.ErrRemoved}, {"renewal in doubt", true, 0, lock.ErrTaken},
	} {
		subtest(t, tt.name, locktest.Options{}, func(w *world) {
			a, z := w.dial("a"), w.raw("other")
			h := w.lock(a, "x")
			ended, data := w.end(h), w.node(h.EntryPath()).Data
			if tt.inDoubt {
				w.until("a renewal", w.fault(func(r locktest.Request) bool { return writes("a", h.EntryPath())(r) && w.cutOff("a") }, locktest.Fault{Drop: locktest.AfterApply}))
				data = []byte("of another")
			}
			w.set(z, h.EntryPath(), data)
			w.fault(func(r locktest.Request) bool { return r.Label == "a" && r.Op == "getData" && touches(r, h.EntryPath()) }, locktest.Fault{Code: tt.code})
			w.Heal("a")
			begun := time.Now()
			atMost(w, "the hold ended after", ended.wait().Sub(begun), ttl)
			mustBe(w, h.Err(), lock.ErrLost, tt.want)
			equal(w, "renewals", a.Stats().Renewals, 0)
		})
	}
}

// TestOrphansAreForgotten: a client forgets an orphaned create within 61 minutes.
func TestOrphansAreForgotten(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		minute := lock.WithPolicies(policies{TTL: time.Minute, Grace: grace})
		a, z := w.dial("a", minute), w.raw("other")
		h := w.lock(w.dial("b", minute), "x")
		ch := w.queue(w.ctx, a, "x")
		for range 2 {
			n := a.Stats().Requeued
			w.remove(z, w.entries("x")[1].Path)
			w.until("it queues again", func() bool { return a.Stats().Requeued > n && len(w.entries("x")) == 2 })
			equal(w, "strays are remembered", a.Orphans(), 1)
			time.Sleep(61 * time.Minute)
		}
		w.finish(w.pass(h, ch))
	})
}
