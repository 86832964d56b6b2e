// Detach, Attach and tickets, for a mutex.

package lock_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

func TestDetachAndAttach(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.client("a"), w.client("b"), w.client("c")
		h := w.lock(a, "x", lock.WithMetadata(map[string]string{"job": "1"}))
		again, err := a.Mutex("x").Lock(h.Context())
		w.ok(err)
		waiter := w.queue(w.ctx, b, "x")
		begun, ended := time.Now(), w.end(h)
		text := w.detach(h, 3*ttl).String()
		mustBe(t, h.Err(), lock.ErrDetached)
		mustBe(t, again.Unlock(), lock.ErrDetached)
		mustBe(t, h.Unlock(), lock.ErrDetached)
		mustBe(t, h.Txn(w.ctx, lock.OpCreate("/late", nil, 0, zk.WorldACL(zk.PermAll))), lock.ErrDetached)
		mustBe(t, context.Cause(h.Context()), lock.ErrDetached)
		if lost := errors.Is(h.Err(), lock.ErrLost); lost || h.Remaining() > 0 || a.Stats().Lost != 0 || ended.wait().Before(begun) {
			t.Errorf("a detached hold: lost %v, valid %v, %+v", lost, h.Remaining() > 0, a.Stats())
		}
		mustBe(t, second(h.Ticket()), lock.ErrDetached)
		mustBe(t, second(h.Detach(w.ctx, 0)), lock.ErrDetached)
		w.close(a)
		time.Sleep(2 * ttl) // longer than the hold's own lease
		w.waits(waiter)

		ticket, err := lock.ParseTicket(text + "\n")
		w.ok(err)
		atMost(w, "the ticket expires off", ticket.Expires().Sub(begun.Add(3*ttl)).Abs(), 10*time.Millisecond)
		got := w.attach(c, ticket)
		w.alive(got)
		w.waits(waiter)
		if want := (lock.TokenParts{Czxid: h.Token().Parts().Czxid, Sequence: h.Token().Parts().Sequence, Incarnation: 1}); got.Token().Parts() != want || pathOf(got) != pathOf(h) || ticket.EntryPath() != pathOf(h) {
			t.Errorf("attached to %s with token %v, want %s with %v", pathOf(got), got.Token(), pathOf(h), want)
		}
		time.Sleep(3 * ttl) // the entry is renewed
		w.alive(got)
		r := w.record(pathOf(got))
		isTrue(t, r.Owner == "c" && !r.Detached && r.Incarnation == 1 && r.AcquiredAt != 0 && r.TTL == ttl.Milliseconds(), "the entry tells %+v", r)
		_, err = b.Attach(w.ctx, ticket)
		mustBe(t, err, lock.ErrAttached, lock.ErrTaken)
		mustSay(t, err, `"c"`, "incarnation 0", "made it 1")

		w.ok(got.Extend(w.ctx, 5*ttl))
		ticket = w.detach(got, 0)
		if left := time.Until(ticket.Expires()); left < 5*ttl-time.Second || w.record(pathOf(got)).TTL != 5*ttl.Milliseconds() {
			t.Errorf("a hold that was extended to %v is kept for %v", 5*ttl, left)
		}
		second := w.attach(b, ticket)
		isTrue(t, second.Token().Parts().Incarnation == 2 && second.Token().Compare(got.Token()) > 0, "token %v follows %v", second.Token(), got.Token())
		w.handOver(second, waiter)
	})
}

// TestAmbiguousDetach: whatever fault hits the detaching write, or the renewal before it, the ticket
// is valid. No other client enters before the attached hold is unlocked.
func TestAmbiguousDetach(t *testing.T) {
	eachMishap(t, "what", []string{"detach", "detach with a waiter", "renewal"}, func(w *world, what string, i int) {
		a, b, c := w.client("a"), w.client("b"), w.client("c")
		h := w.lock(a, "x")
		var waiter <-chan taken
		var ticket lock.Ticket
		switch what {
		case "renewal":
			w.until("a renewal", w.mishap(i, "a", func(r locktest.Request) bool { return renews(r, h) }))
			ticket = w.detach(h, 0)
		case "detach with a waiter":
			waiter = w.queue(w.ctx, b, "x")
			fallthrough
		default:
			hit := w.mishap(i, "a", writes("a", pathOf(h)))
			if ticket = w.detach(h, 0); !hit() {
				t.Fatal("there was no mishap")
			}
		}
		got := w.attach(c, ticket)
		if waiter == nil {
			time.Sleep(2 * ttl)
			w.sole(got)
		}
		w.alive(got)
		w.unlock(got)
		if waiter != nil {
			w.unlock(w.await(waiter).hold)
		}
		w.empty()
	})
}

// TestDetachInDoubt: the reply to Detach is lost with the connection. If the lease ends before the
// outcome is known, or another client attaches and unlocks, Detach returns the error of the table. If
// the attached hold lasts, Detach has succeeded; if the Attach was undone, the ticket is valid.
func TestDetachInDoubt(t *testing.T) {
	for _, tt := range []struct {
		name      string
		meanwhile func(w *world, c *lock.Client, early lock.Ticket)
		want      []error // nil: Detach succeeds
		not       []error
		again     error // of an attach with the returned ticket
	}{
		{"attached to", func(w *world, c *lock.Client, early lock.Ticket) { w.attach(c, early) }, nil, nil, lock.ErrAttached},
		{"attached to, and unlocked", func(w *world, c *lock.Client, early lock.Ticket) { w.unlock(w.attach(c, early)) }, []error{lease.ErrWentSince}, []error{lock.ErrRemoved}, nil},
		{"attached to, and put back", func(w *world, c *lock.Client, early lock.Ticket) {
			w.fault(func(r locktest.Request) bool { return r.Label == "c" && strings.HasPrefix(r.Op, "getChildren") }, locktest.Fault{Delay: 2 * time.Second})
			ctx := w.limited(time.Second)
			mustBe(w, second(c.Attach(ctx, early)), context.DeadlineExceeded)
			w.until("it is put back", func() bool { return w.record(early.EntryPath()).Detached })
		}, nil, nil, nil},
		{"expired", func(w *world, c *lock.Client, _ lock.Ticket) { w.await(w.queue(w.ctx, c, "x")) }, []error{lock.ErrLost, lock.ErrExpired}, []error{lock.ErrRemoved}, nil},
	} {
		subtest(t, tt.name, locktest.Options{}, func(w *world) {
			a, c := w.client("a"), w.client("c")
			h := w.lock(a, "x", lock.WithTTL(10*ttl))
			early := w.ticket(h) // what Detach would return, stored before
			w.fault(func(r locktest.Request) bool { return writes("a", pathOf(h))(r) && w.cutOff("a") }, locktest.Fault{Drop: locktest.AfterApply})
			var ticket lock.Ticket
			detached := start(func() (none *lock.Hold, err error) {
				ticket, err = h.Detach(w.ctx, 3*time.Second) // shorter than the hold's lease
				return nil, err
			})
			w.until("the record tells that it is detached", func() bool { return w.record(pathOf(h)).Detached })
			tt.meanwhile(w, c, early)
			w.Heal("a")
			got := <-detached
			if mustBe(w, got.err, tt.want...); tt.want == nil && got.err != nil {
				w.Fatalf("Detach: %v", got.err)
			}
			for _, not := range tt.not {
				isTrue(w, !errors.Is(got.err, not), "%v is one that is %q", got.err, not)
			}
			if tt.again != nil {
				mustBe(w, second(c.Attach(w.ctx, ticket)), tt.again)
			} else if tt.want == nil {
				w.finish(w.attach(c, ticket))
			}
		})
	}
}

// TestDetachWithAContextOfTheHold: Detach ends the hold's own context, and waits nevertheless until
// the write is acknowledged, or until the deadline of that context.
func TestDetachWithAContextOfTheHold(t *testing.T) {
	each(t, "cut off", bools, func(w *world, cutOff bool) {
		a, b := w.client("a"), w.client("b")
		var ticket lock.Ticket
		err := a.Mutex("x").Do(w.limited(time.Second), func(ctx context.Context) error {
			h, err := a.Mutex("x").Lock(ctx)
			w.ok(err)
			if cutOff {
				w.kill("a")
			}
			begun := time.Now()
			ticket, err = h.Detach(ctx, 0)
			if cutOff {
				equal(w, "Detach returned after", time.Since(begun).Round(10*time.Millisecond), time.Second)
				mustBe(w, err, context.DeadlineExceeded)
			} else {
				w.ok(err)
			}
			return nil
		})
		mustBe(w, err, lock.ErrDetached)
		w.Heal("a")
		w.finish(w.attach(b, ticket))
	})
}

// TestDetachThatIsNotConfirmed: a Detach that cannot be confirmed returns a ticket and an
// UnlockError. Attach succeeds once the write is applied, or else once the lease and the grace have
// ended.
func TestDetachThatIsNotConfirmed(t *testing.T) {
	each(t, "heals", bools, func(w *world, heals bool) {
		a, c := w.client("a"), w.client("c")
		h := w.lock(a, "x")
		died := w.die("a", pathOf(h))
		ctx := w.limited(time.Second)
		ticket, err := h.Detach(ctx, 0)
		var unconfirmed *lock.UnlockError
		mustBeTrue(w, errors.As(err, &unconfirmed) && !ticket.IsZero(), "detach while cut off: %v, %v", ticket, err)
		mustBe(w, err, context.DeadlineExceeded)
		ch := start(func() (*lock.Hold, error) { return c.Attach(w.ctx, ticket) })
		w.waits(ch)
		if heals {
			w.Heal("a")
		}
		got := w.await(ch)
		equal(w, "attached before the end of the lease", got.at.Before(time.UnixMilli(died.end).Add(grace)), heals)
		w.Heal("a")
		time.Sleep(2 * ttl) // late writes must not harm it
		w.alive(got.hold)
		w.finish(got.hold)
	})
}

func TestDetachOfADeletedEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.client("a"), w.raw("z")
		h := w.lock(a, "x")
		w.remove(z, pathOf(h))
		ticket, err := h.Detach(w.ctx, 0)
		mustBe(t, err, lock.ErrLost, lock.ErrRemoved)
		taken := w.lock(a, "y")
		w.set(z, pathOf(taken), []byte("other"))
		if _, err := taken.Detach(w.ctx, 0); !errors.Is(err, lock.ErrTaken) || !ticket.IsZero() {
			t.Errorf("detached what another client had written: %v, %v", err, ticket)
		}
		w.wipe(z, "y") // Holdfast does not delete an entry that another program has overwritten
		w.empty()
	})
}

// TestAttachAtOnce: if two clients read the entry before either writes it, one Attach succeeds and
// the other returns ErrAttached.
func TestAttachAtOnce(t *testing.T) {
	each(t, "drop", []locktest.Drop{0, locktest.AfterApply}, func(w *world, drop locktest.Drop) {
		a, b, c := w.client("a"), w.client("b"), w.client("c")
		h := w.lock(a, "x")
		ticket := w.detach(h, time.Minute)
		var b0 atomic.Bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			switch {
			case writes("b", pathOf(h))(r) && !b0.Swap(true):
				return locktest.Fault{Delay: time.Second, Drop: drop}
			case writes("c", pathOf(h))(r) && !b0.Load():
				return locktest.Fault{Delay: time.Second}
			}
			return locktest.Fault{}
		})
		one := start(func() (*lock.Hold, error) { return b.Attach(w.ctx, ticket) })
		two := start(func() (*lock.Hold, error) { return c.Attach(w.ctx, ticket) })
		time.Sleep(ttl)
		won, lost := w.outcome(one), w.outcome(two)
		if won.err != nil {
			won, lost = lost, won
		}
		if won.err != nil {
			w.Fatal(won.err)
		}
		mustBe(w, lost.err, lock.ErrAttached)
		w.sole(won.hold)
		w.finish(won.hold)
	})
}

// TestAttachOutlastsAnOutage: Attach waits out an outage in the midst of its write, however long, as
// Lock does: its context has not ended.
func TestAttachOutlastsAnOutage(t *testing.T) {
	drops := []locktest.Drop{locktest.BeforeApply, locktest.AfterApply}
	eachPair(t, "outage", []time.Duration{ttl, 20 * ttl}, drops, func(w *world, outage time.Duration, drop locktest.Drop) {
		a, b := w.client("a"), w.client("b")
		ticket := w.detach(w.lock(a, "x"), 100*ttl)
		hit := w.fault(func(r locktest.Request) bool {
			return writes("b", ticket.EntryPath())(r) && w.cutOff("b")
		}, locktest.Fault{Drop: drop})
		ch := start(func() (*lock.Hold, error) { return b.Attach(w.ctx, ticket) })
		w.until("the write", hit)
		time.Sleep(outage)
		w.waits(ch)
		w.Heal("b")
		got := w.inTime(ch, 2*time.Second)
		equal(w, "incarnation", got.Token().Parts().Incarnation, 1)
		w.sole(got)
		w.finish(got)
	})
}

// TestAttachTooLate: Attach returns ErrRemoved if a waiter has purged the entry, or the entry's
// holder has unlocked.
func TestAttachTooLate(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(a, "x")
		waiter := w.queue(w.ctx, b, "x")
		ended := w.end(h)
		ticket := w.detach(h, 0)
		got := w.await(waiter)
		took := got.at.Sub(ended.wait())
		isTrue(t, took > ttl+grace && took <= ttl+grace+time.Second, "what was detached blocked for %v, want TTL and grace", took)
		time.Sleep(ttl)
		fails(t, second(a.Attach(w.ctx, ticket)), lock.ErrRemoved, "no client attached in time", "ago")
		w.alive(got.hold)
		ticket = w.ticket(got.hold)
		w.unlock(got.hold)
		fails(t, second(a.Attach(w.ctx, ticket)), lock.ErrRemoved, "unlocked")

		// A client can attach to an expired entry that no client has purged.
		h = w.lock(a, "y")
		ticket = w.detach(h, 0)
		time.Sleep(10 * ttl)
		again := w.attach(b, ticket)
		w.alive(again)
		w.finish(again)
	})
}

// TestAttachBeforeDetach: Attach to an entry that is not detached waits until the owner detaches
// it, or until its lease has certainly ended. If the owner reconnects after the Attach, it has lost
// the hold.
func TestAttachBeforeDetach(t *testing.T) {
	each(t, "dies", bools, func(w *world, dies bool) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(a, "x")
		ended := w.end(h)
		ticket := w.ticket(h)
		ctx := w.limited(5 * ttl)
		mustBe(w, second(b.Attach(ctx, ticket)), context.DeadlineExceeded, lock.ErrHeld)
		w.alive(h)
		ch := start(func() (*lock.Hold, error) { return b.Attach(w.ctx, ticket) })
		time.Sleep(ttl)
		w.waits(ch)
		var got taken
		if dies {
			died := w.die("a", pathOf(h))
			got = w.await(ch)
			w.purged(died, got.at, 0, time.Second)
			w.Heal("a")
			time.Sleep(2 * ttl)
			mustBe(w, h.Err(), lock.ErrLost, lock.ErrExpired)
		} else {
			w.detach(h, 0)
			got = w.expect(ch)
		}
		w.inTurn(ended, got)
		w.sole(got.hold)
		w.finish(got.hold)
	})
}

// TestEntryThatAnotherServerDoesNotKnowYet: the session ends between the Sync and the read of an
// entry, and the next server lags behind. If this server answers that the entry does not exist, the
// client reads again.
func TestEntryThatAnotherServerDoesNotKnowYet(t *testing.T) {
	for name, ask := range map[string]func(w *world, a *lock.Client, h *lock.Hold) error{
		"attach": func(w *world, _ *lock.Client, h *lock.Hold) error {
			_, err := w.client("c").Attach(w.ctx, w.detach(h, time.Minute))
			return err
		},
		"detach": func(w *world, _ *lock.Client, h *lock.Hold) error { _, err := h.Detach(w.ctx, 0); return err },
		"unlock": func(w *world, _ *lock.Client, h *lock.Hold) error { return h.Unlock() },
	} {
		subtest(t, name, locktest.Options{}, func(w *world) {
			a, label := w.client("a"), map[bool]string{true: "c", false: "a"}[name == "attach"]
			h := w.lock(a, "x")
			reads, lost := 0, name == "attach"
			w.Intercept(func(r locktest.Request) locktest.Fault {
				switch {
				case r.Label != label || !touches(r, pathOf(h)):
				case !lost && mutates(r, "a"): // the next write finds another version
					lost = true
					return locktest.Fault{Drop: locktest.AfterApply}
				case lost && r.Op == "getData":
					switch reads++; reads {
					case 1:
						w.expireAway(label)
						return locktest.Fault{Drop: locktest.BeforeApply}
					case 2:
						return locktest.Fault{Code: codeNoNode}
					}
				}
				return locktest.Fault{}
			})
			if name != "attach" { // the renewal loses its reply
				time.Sleep(ttl / 2)
			}
			mustBe(w, ask(w, a, h), nil)
			isTrue(w, reads >= 3, "%d reads, want one more", reads)
		})
	}
}

// TestOwnerLearnsOfAnAttachment: an owner was suspended, and its clocks do not show that. If
// another client has attached meanwhile, the owner learns of it from its next renewal.
func TestOwnerLearnsOfAnAttachment(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := newClock(0, 0)
		a, b := w.client("a", lock.WithClock(c.now)), w.client("b")
		h := w.lock(a, "x")
		ticket := w.ticket(h)
		w.Freeze("a")
		c.suspend(true)
		got := w.attach(b, ticket)
		c.suspend(false)
		c.step(-time.Hour) // so that the clocks hide the sleep
		w.Thaw("a")
		settle()
		w.until("the owner learns it", func() bool { return h.Err() != nil })
		mustBe(t, h.Err(), lock.ErrLost, lock.ErrAttached, lock.ErrTaken)
		w.alive(got)
		w.finish(got)
	})
}

// TestAttachWaitsForItsTurn: an entry that is not the first is not held before its turn, and later
// waiters wait behind it. An Attach that gives up before its turn leaves the entry detached.
func TestAttachWaitsForItsTurn(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.client("a"), w.client("c")
		h := w.lock(a, "x")
		ticket := w.restored("x", "mutex", znode.Prefix(znode.NewID(), znode.Exclusive))
		behind := w.queue(w.ctx, c, "x")
		for range 3 { // each Attach gives up before its turn, and the entry keeps its place
			ctx := w.limited(2 * ttl)
			_, err := c.Attach(ctx, ticket)
			mustBe(t, err, context.DeadlineExceeded, lock.ErrHeld)
			settle()
			if r := w.record(ticket.EntryPath()); !r.Detached || r.Incarnation != 0 || r.TTL != (10*time.Minute).Milliseconds() {
				t.Errorf("after an attachment that was given up the entry tells %+v", r)
			}
		}
		w.unlock(h)
		time.Sleep(5 * ttl)
		w.waits(behind)
		d := w.client("d")
		got := w.attach(d, ticket)
		w.alive(got)
		equal(t, "incarnation", got.Token().Parts().Incarnation, 1)
		w.waits(behind)
		w.finish(w.pass(got, behind))
	})
}

// TestAttachGivenUp: if the caller gives up while the attaching write is in flight, the client
// detaches the entry again, and another client can attach.
func TestAttachGivenUp(t *testing.T) {
	forEachMishap(t, func(w *world, i int) {
		a, c := w.client("a"), w.client("c")
		h := w.lock(a, "x")
		ticket := w.detach(h, 2*time.Minute)
		hit := w.mishap(i, "c", writes("c", pathOf(h)))
		ctx, cancel := context.WithCancel(w.ctx)
		ch := start(func() (*lock.Hold, error) { return c.Attach(ctx, ticket) })
		w.until("the mishap", hit)
		cancel()
		first := w.outcome(ch)
		if first.err == nil { // this mishap did not stop the attach
			w.unlock(first.hold)
			return
		}
		mustBe(t, first.err, context.Canceled)
		time.Sleep(3 * ttl)
		r := w.record(pathOf(h))
		isTrue(t, r.Detached && r.Incarnation == 0, "the entry tells %+v", r)
		w.close(c)
		got := w.attach(w.client("d"), ticket)
		w.sole(got)
		w.finish(got)
	})
}

// TestGivenUpAttachWhoseReplyIsLost: an Attach gives up, its client detaches the entry again, and
// the reply is lost. Meanwhile another client attaches. The first client does not delete the entry,
// so the new holder learns from the entry of a force-release.
func TestGivenUpAttachWhoseReplyIsLost(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c, d := w.client("a"), w.client("c"), w.client("d")
		h := w.lock(a, "x")
		ticket := w.restored("x", "mutex", znode.Prefix(znode.NewID(), znode.Exclusive))
		path := ticket.EntryPath()
		hit := w.fault(func(r locktest.Request) bool {
			return writes("c", path)(r) && w.record(path).Owner == "c" && w.cutOff("c")
		}, locktest.Fault{Drop: locktest.AfterApply})
		ctx := w.limited(time.Second)
		mustBe(t, second(c.Attach(ctx, ticket)), context.DeadlineExceeded)
		w.until("it is put back, and the reply is lost", func() bool { return hit() && w.record(path).Detached })
		w.unlock(h)
		got := w.attach(d, ticket, lock.WithTTL(6*ttl))
		time.Sleep(time.Second) // until the grant is recorded
		w.breaks(a, path)
		w.Heal("c")
		w.close(c)
		w.alive(got) // the holder does not know yet
		time.Sleep(3 * ttl)
		mustBe(t, got.Err(), lock.ErrLost, lock.ErrBroken)
		w.empty()
	})
}

// TestCloseWhileAttached: Close keeps an attached entry that waits in the queue, and ends an
// attached hold.
func TestCloseWhileAttached(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.client("a"), w.client("c")
		h := w.lock(a, "x")
		ticket := w.restored("x", "mutex", znode.Prefix(znode.NewID(), znode.Exclusive))
		ch := start(func() (*lock.Hold, error) { return c.Attach(w.ctx, ticket) })
		w.until("c has attached", func() bool { return w.record(ticket.EntryPath()).Owner == "c" })
		w.close(c)
		mustBe(t, w.outcome(ch).err, lock.ErrClosed)
		w.unlock(h)
		d := w.client("d")
		got := w.attach(d, ticket)
		w.sole(got)
		w.close(d)
		mustBe(t, got.Err(), lock.ErrLost, lock.ErrClosed)
		w.empty()
	})
}

// TestCloseDuringADetach: the client closes while it detaches an entry. Close waits for the write.
func TestCloseDuringADetach(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.client("a"), w.client("c")
		h := w.lock(a, "x")
		w.faults(writes("a", pathOf(h)), locktest.Fault{Code: codeThrottled})
		time.AfterFunc(time.Second, func() { w.Intercept(nil) })
		tickets := make(chan lock.Ticket, 1)
		go func() {
			ticket, _ := h.Detach(w.ctx, 0)
			tickets <- ticket
		}()
		settle()
		w.close(a)
		isTrue(t, w.record(pathOf(h)).Detached, "closed, and not detached")
		w.finish(w.attach(c, <-tickets))
	})
}

func TestTicketText(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.client("a", lock.WithRoot("/r:1/ä b"))
		for _, name := range []string{"x", "a:b/c d", "ü%2F\"", "holdfast-ticket"} {
			h := w.lock(a, name)
			ticket := w.detach(h, 0)
			text := ticket.String()
			again, err := lock.ParseTicket(" " + text + "\r\n")
			isTrue(t, err == nil && again == ticket && again.Name() == name && !strings.ContainsAny(text, " \n\""), "%q: %q gives %v, %v", name, text, again, err)
			var other lock.Ticket
			if data, err := ticket.MarshalText(); err != nil || other.UnmarshalText(data) != nil || other != ticket {
				t.Errorf("%q: marshalled to %q and back to %v", name, data, other)
			}
			for i := range text { // any byte of the text
				damaged := text[:i] + string(text[i]^1) + text[i+1:]
				mustBe(t, second(lock.ParseTicket(damaged)), lock.ErrInvalid)
				mustBe(t, second(lock.ParseTicket(text[:i])), lock.ErrInvalid)
			}
			w.unlock(w.attach(a, again))
		}
		var zero lock.Ticket
		if data, err := zero.MarshalText(); err != nil || len(data) != 0 || zero.UnmarshalText(nil) != nil || zero.EntryPath() != "" || !zero.Expires().IsZero() {
			t.Errorf("the zero ticket: %q, %v", data, err)
		}
		h := w.lock(a, "y")
		text := w.ticket(h).String()
		for damage, says := range map[string]string{
			"":                                     "empty",
			"4711":                                 `must begin with "holdfast-ticket:"`,
			strings.Replace(text, ":1:", ":2:", 1): "version 2",
			text[:len(text)-20]:                    "fields",
			text + " " + text:                      "fields",
			strings.Replace(text, "mutex", "mutes", 1): "checksum",
		} {
			fails(t, second(lock.ParseTicket(damage)), lock.ErrInvalid, says)
		}
		w.unlock(h)
	})
}

func TestAttachRefuses(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b", lock.WithRoot("/elsewhere"))
		h := w.lock(a, "x")
		var noContext context.Context
		mustBe(t, second(h.Detach(w.ctx, time.Millisecond)), lock.ErrInvalid)
		_, err := h.Detach(noContext, 0)
		mustBe(t, err, lock.ErrInvalid)
		w.alive(h)
		ticket := w.detach(h, 0)
		for says, attach := range map[string]func() (*lock.Hold, error){
			"is for nothing":     func() (*lock.Hold, error) { return a.Attach(w.ctx, lock.Ticket{}) },
			"root is /elsewhere": func() (*lock.Hold, error) { return b.Attach(w.ctx, ticket) },
			"must not be nil":    func() (*lock.Hold, error) { return a.Attach(noContext, ticket) },
		} {
			fails(t, second(attach()), lock.ErrInvalid, says)
		}
		w.finish(w.attach(a, ticket))
	})
}

// TestLeaseOfAnAttachment: the lease of an attached hold counts from the send of the write, however
// late the reply is.
func TestLeaseOfAnAttachment(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		ticket := w.detach(w.lock(a, "x"), time.Minute)
		const late = 2 * time.Second
		hit := w.fault(writes("b", ticket.EntryPath()), locktest.Fault{DelayReply: late})
		h := w.attach(b, ticket)
		isTrue(t, hit() && h.Remaining() <= ttl-late, "%v remain of a lease of %v that was written %v ago", h.Remaining(), ttl, late)
		w.finish(h)
	})
}

// TestParentAfterDetachAndAttach: a client detaches an entry, and another client attaches to it and
// unlocks it. No node is left then, nor after the first client's next hold.
func TestParentAfterDetachAndAttach(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		w.finish(w.attach(b, w.detach(w.lock(a, "x"), 0)))
		first := w.lock(a, "x")
		waiter := w.queue(w.ctx, a, "x")
		w.unlock(w.attach(b, w.detach(first, 0)))
		w.finish(w.await(waiter).hold)
	})
}
