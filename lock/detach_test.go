// Detach, Attach and tickets, for each kind of lock.

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
		again := w.takeIn(h.Context(), a.Mutex("x").Lock)
		waiter := w.queue(w.ctx, b, "x")
		begun, ended := time.Now(), w.end(h)
		text := w.detach(h, 3*ttl).String()
		mustBe(t, h.Err(), lock.ErrDetached)
		mustBe(t, again.Unlock(), lock.ErrDetached)
		mustBe(t, h.Unlock(), lock.ErrDetached)
		mustBe(t, h.Txn(w.ctx, lock.OpCreate("/late", nil, 0, zk.WorldACL(zk.PermAll))), lock.ErrDetached)
		mustBe(t, context.Cause(h.Context()), lock.ErrDetached)
		isTrue(t, !errors.Is(h.Err(), lock.ErrLost) && h.Remaining() == 0 && a.Stats().Lost == 0, "%v, %+v", h.Err(), a.Stats())
		isTrue(t, !ended.wait().Before(begun), "the hold had ended before it was detached")
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
		if want := (lock.TokenParts{Czxid: h.Token().Parts().Czxid, Sequence: h.Token().Parts().Sequence, Incarnation: 1}); got.Token().Parts() != want || got.EntryPath() != h.EntryPath() || ticket.EntryPath() != h.EntryPath() {
			t.Errorf("attached to %s with token %v, want %s with %v", got.EntryPath(), got.Token(), h.EntryPath(), want)
		}
		time.Sleep(3 * ttl) // the entry is renewed
		w.alive(got)
		r := w.record(got.EntryPath())
		isTrue(t, r.Owner == "c" && !r.Detached && r.Incarnation == 1 && r.AcquiredAt != 0 && r.TTL == ttl.Milliseconds(), "the entry tells %+v", r)
		_, err = b.Attach(w.ctx, ticket)
		mustBe(t, err, lock.ErrAttached, lock.ErrTaken)
		mustSay(t, err, `"c"`, "incarnation 0", "made it 1")

		w.ok(got.Extend(w.ctx, 5*ttl))
		ticket = w.detach(got, 0)
		inRange(t, "a hold that was extended is kept for", time.Until(ticket.Expires()), 5*ttl-time.Second, 5*ttl+10*time.Millisecond)
		equal(t, "TTL in the entry", w.record(got.EntryPath()).TTL, 5*ttl.Milliseconds())
		second := w.attach(b, ticket)
		isTrue(t, second.Token().Parts().Incarnation == 2 && second.Token().Compare(got.Token()) > 0, "token %v follows %v", second.Token(), got.Token())
		w.handOver(second, waiter)
	})
}

// TestAmbiguousDetach: whatever fault hits the detaching write, or the renewal before it, the ticket
// is valid. No other client enters before the attached hold is unlocked.
func TestAmbiguousDetach(t *testing.T) {
	eachMishap(t, "renewal", bools, func(w *world, renewal bool, i int) {
		a, b, c := w.client("a"), w.client("b"), w.client("c")
		h := w.lock(a, "x")
		waiter := w.queue(w.ctx, b, "x")
		hit := w.mishap(i, "a", writes("a", h.EntryPath()))
		if renewal {
			w.until("a renewal", hit)
		}
		ticket := w.detach(h, 0)
		mustBeTrue(w, hit(), "there was no mishap")
		got := w.attach(c, ticket)
		time.Sleep(2 * ttl)
		w.alive(got)
		w.waits(waiter)
		w.handOver(got, waiter)
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
			mustBe(w, second(c.Attach(w.limited(time.Second), early)), context.DeadlineExceeded)
			w.until("it is put back", func() bool { return w.record(early.EntryPath()).Detached })
		}, nil, nil, nil},
		{"expired", func(w *world, c *lock.Client, _ lock.Ticket) { w.await(w.queue(w.ctx, c, "x")) }, []error{lock.ErrLost, lock.ErrExpired}, []error{lock.ErrRemoved}, nil},
	} {
		subtest(t, tt.name, locktest.Options{}, func(w *world) {
			a, c := w.client("a"), w.client("c")
			h := w.lock(a, "x", lock.WithTTL(10*ttl))
			early := w.ticket(h) // what Detach would return, stored before
			w.fault(func(r locktest.Request) bool { return writes("a", h.EntryPath())(r) && w.cutOff("a") }, locktest.Fault{Drop: locktest.AfterApply})
			detached := start(func() (lock.Ticket, error) { return h.Detach(w.ctx, 3*time.Second) }) // shorter than the hold's lease
			w.until("the record tells that it is detached", func() bool { return w.record(h.EntryPath()).Detached })
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
				mustBe(w, second(c.Attach(w.ctx, got.hold)), tt.again)
			} else if tt.want == nil {
				w.finish(w.attach(c, got.hold))
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
			h := w.takeIn(ctx, a.Mutex("x").Lock)
			if cutOff {
				w.kill("a")
			}
			begun := time.Now()
			detached, err := h.Detach(ctx, 0)
			if ticket = detached; cutOff {
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
			case writes("b", h.EntryPath())(r) && !b0.Swap(true):
				return locktest.Fault{Delay: time.Second, Drop: drop}
			case writes("c", h.EntryPath())(r) && !b0.Load():
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
		w.ok(won.err)
		mustBe(w, lost.err, lock.ErrAttached)
		w.sole(won.hold)
		w.finish(won.hold)
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
			died := w.die("a", h.EntryPath())
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

// TestAttachWaitsForItsTurn: an entry that is not the first is not held before its turn, and later
// waiters wait behind it. An Attach that gives up before its turn leaves the entry detached.
func TestAttachWaitsForItsTurn(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.client("a"), w.client("c")
		h := w.lock(a, "x")
		ticket := w.restored("x", "mutex", znode.Prefix(znode.NewID(), znode.Exclusive))
		behind := w.queue(w.ctx, c, "x")
		for range 3 { // each Attach gives up before its turn, and the entry keeps its place
			mustBe(t, second(c.Attach(w.limited(2*ttl), ticket)), context.DeadlineExceeded, lock.ErrHeld)
			settle()
			r := w.record(ticket.EntryPath())
			isTrue(t, r.Detached && r.Incarnation == 0 && r.TTL == (10*time.Minute).Milliseconds(), "given up, the entry tells %+v", r)
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
		hit := w.mishap(i, "c", writes("c", h.EntryPath()))
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
		r := w.record(h.EntryPath())
		isTrue(t, r.Detached && r.Incarnation == 0, "the entry tells %+v", r)
		w.close(c)
		got := w.attach(w.client("d"), ticket)
		w.sole(got)
		w.finish(got)
	})
}

// TestAttachOutlastsAnOutage: an outage begins as the attaching write is applied. Attach waits for the
// outcome, longer than the clean-up of an entry is tried.
func TestAttachOutlastsAnOutage(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		ticket := w.detach(w.lock(a, "x"), 100*ttl)
		hit := w.fault(func(r locktest.Request) bool { return writes("b", ticket.EntryPath())(r) && w.cutOff("b") }, locktest.Fault{Drop: locktest.AfterApply})
		ch := start(func() (*lock.Hold, error) { return b.Attach(w.ctx, ticket) })
		w.until("the write", hit)
		time.Sleep(20 * ttl)
		w.waits(ch)
		w.Heal("b")
		got := w.inTime(ch, 2*time.Second)
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
		mustBe(t, second(c.Attach(w.limited(time.Second), ticket)), context.DeadlineExceeded)
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

// TestCloseDuringADetach: the client closes while it detaches an entry. Close waits for the write.
func TestCloseDuringADetach(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.client("a"), w.client("c")
		h := w.lock(a, "x")
		w.faults(writes("a", h.EntryPath()), locktest.Fault{Code: codeThrottled})
		time.AfterFunc(time.Second, func() { w.Intercept(nil) })
		detached := start(func() (lock.Ticket, error) { return h.Detach(w.ctx, 0) })
		settle()
		w.close(a)
		isTrue(t, w.record(h.EntryPath()).Detached, "closed, and not detached")
		w.finish(w.attach(c, (<-detached).hold))
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
		mustBe(t, second(h.Detach(w.ctx, time.Millisecond)), lock.ErrInvalid)
		w.alive(h)
		ticket := w.detach(h, 0)
		for says, attach := range map[string]func() (*lock.Hold, error){
			"is for nothing":     func() (*lock.Hold, error) { return a.Attach(w.ctx, lock.Ticket{}) },
			"root is /elsewhere": func() (*lock.Hold, error) { return b.Attach(w.ctx, ticket) },
		} {
			fails(t, second(attach()), lock.ErrInvalid, says)
		}
		w.finish(w.attach(a, ticket))
	})
}

// leaving has the calls for one kind of hold of lock "x". take locks it. kind and
// prefix are those of [world.restored]; "" if the entry is restored as another one. beside locks "x" at the same time, and is nil if the kind is exclusive. A call of
// behind must wait for the hold.
type leaving struct {
	name           string
	take           func(c *lock.Client) taking
	kind, prefix   string
	downgrade      bool
	beside, behind func(c *lock.Client) taking
}

func acquiring(permits int) func(c *lock.Client) taking {
	return func(c *lock.Client) taking {
		return func(ctx context.Context) (*lock.Hold, error) { return c.Semaphore("x", 5).Acquire(ctx, permits) }
	}
}

var (
	reading = func(c *lock.Client) taking { return c.RWMutex("x").RLock }
	holding = func(c *lock.Client) taking { return c.Mutex("x").Lock }
	writing = func(c *lock.Client) taking { return c.RWMutex("x").Lock }

	leavings = []leaving{
		{"mutex", holding, "mutex", znode.Prefix(tag, znode.Exclusive), false, nil, holding},
		{"to write", writing, "rw", znode.Prefix(tag, znode.Writer), false, nil, reading},
		{"to read", reading, "rw", znode.Prefix(tag, znode.Shared), false, reading, writing},
		{"downgraded", writing, "", "", true, reading, writing},
		{"permits", acquiring(3), "semaphore=5", znode.PermitsPrefix(tag, 3), false, acquiring(2), acquiring(3)},
	}
)

// tag is that of restored entries.
const tag = "9f86d081884c7d65"

// reparsed parses the ticket's text, as another process would, and checks that the result is equal.
func (w *world) reparsed(t lock.Ticket) lock.Ticket {
	w.Helper()
	again, err := lock.ParseTicket(t.String())
	mustBeTrue(w, err == nil && again == t, "%v is read as %v: %v", t, again, err)
	return again
}

// TestDetachOfEachKind: a client that cannot share the lock waits while the hold is detached, and
// while another client has attached to it. The attached hold has the same entry, kind and czxid,
// and the next incarnation.
func TestDetachOfEachKind(t *testing.T) {
	for _, l := range leavings {
		each(t, l.name+", died", bools, func(w *world, died bool) { // died: the owner crashes instead of detaching
			a, b, c, d := w.client("a"), w.client("b"), w.client("c"), w.client("d")
			h := w.take(l.take(a))
			if l.downgrade {
				w.ok(lock.RWMutexOf(h).Downgrade(w.ctx, h))
			}
			var beside *lock.Hold
			if l.beside != nil {
				beside = w.take(l.beside(d))
			}
			var ticket lock.Ticket
			if died {
				ticket = w.reparsed(w.ticket(h))
				w.kill("a")
			} else {
				ticket = w.reparsed(w.detach(h, 4*ttl))
				w.close(a)
			}
			var waiter <-chan taken
			if !died { // if the owner has crashed, the waiter would purge the entry
				waiter = w.join("x", l.behind(b))
				time.Sleep(2 * ttl)
				w.waits(waiter)
			}
			got := w.attach(c, ticket)
			if died {
				waiter = w.join("x", l.behind(b))
			}
			w.waits(waiter)
			isTrue(w, got.Token().Parts().Czxid == h.Token().Parts().Czxid && got.Token().Parts().Incarnation == 1 && got.EntryPath() == h.EntryPath(), "attached to %s with token %v, want %s after %v", got.EntryPath(), got.Token(), h.EntryPath(), h.Token())
			isTrue(w, lock.RWMutexOf(got).Reads(got) == (l.downgrade || l.name == "to read"), "it reads: %v", lock.RWMutexOf(got).Reads(got))
			r := w.record(got.EntryPath())
			isTrue(w, r.Owner == "c" && !r.Detached && r.Shared == l.downgrade && r.AcquiredAt != 0, "the entry tells %+v", r)
			if beside != nil {
				w.unlock(beside)
				w.waits(waiter)
			}
			time.Sleep(3 * ttl) // the entry is renewed
			w.waits(waiter)
			if l.downgrade {
				mustBe(w, second(c.RWMutex("x").Lock(got.Context())), lock.ErrUpgrade)
				mustBe(w, second(c.RWMutex("x").TryLock(got.Context())), lock.ErrUpgrade)
			}
			ticket = w.reparsed(w.detach(got, 0))
			w.waits(waiter)
			again := w.attach(d, ticket)
			mustBe(w, second(c.Attach(w.ctx, ticket)), lock.ErrAttached)
			w.waits(waiter)
			w.inOrder(again, waiter)
			w.Heal("a")
			w.empty()
		})
	}
}

// TestAmbiguousAttachOfEachKind: whatever fault hits the attaching write, Attach to a hold, or to
// a restored entry that must wait, returns a valid hold. The waiter behind it still waits.
func TestAmbiguousAttachOfEachKind(t *testing.T) {
	for _, l := range leavings {
		restored := bools
		if l.kind == "" {
			restored = bools[:1]
		}
		eachMishap(t, l.name+", restored", restored, func(w *world, restored bool, i int) {
			a, b, c := w.client("a"), w.client("b"), w.client("c")
			w.unlock(w.lock(b, "other")) // b learns the time
			var ticket lock.Ticket
			var first *lock.Hold
			if restored {
				first = w.take(l.behind(c))
				ticket = w.restored("x", l.kind, l.prefix)
			} else {
				h := w.take(l.take(a))
				if l.downgrade {
					w.ok(lock.RWMutexOf(h).Downgrade(w.ctx, h))
				}
				ticket = w.detach(h, 6*ttl)
			}
			waiter := w.join("x", l.behind(w.client("d")))
			hit := w.mishap(i, "b", writes("b", ticket.EntryPath()))
			ch := start(func() (*lock.Hold, error) { return b.Attach(w.ctx, ticket) })
			w.until("the mishap", hit)
			time.Sleep(ttl)
			if restored {
				w.waits(ch)
				w.unlock(first)
			}
			got := w.expect(ch).hold
			w.waits(waiter)
			w.handOver(got, waiter)
		})
	}
}

// TestDetachOfASharedEntry: Detach of a hold returns ErrInvalid while another goroutine's hold has
// the same entry. It succeeds when that hold is unlocked. Readers with WithLocalWindow(NoLocalWindow)
// have an entry each, even if they waited together, so that each of them can be detached.
func TestDetachOfASharedEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		blocker := w.take(b.RWMutex("x").Lock)
		queue := w.callers(w.ctx, 3, a.RWMutex("x", lock.WithLocalWindow(lock.NoLocalWindow)).RLock)
		w.unlock(blocker)
		readers := w.expectEach(queue...)
		w.hasEntries("x", 3)
		alone := w.detach(readers[0], 0)
		w.unlock(readers[1], readers[2])
		w.finish(w.attach(a, alone))

		first, other := w.take(a.RWMutex("x").RLock), w.take(a.RWMutex("x").RLock)
		mustBeTrue(t, first.EntryPath() == other.EntryPath(), "entries %s and %s, want one", first.EntryPath(), other.EntryPath())
		fails(t, second(first.Detach(w.ctx, 0)), lock.ErrInvalid, "WithLocalWindow(NoLocalWindow)")
		mustBeTrue(t, first.Err() == nil && other.Err() == nil, "%v, %v", first.Err(), other.Err())
		third := w.take(a.RWMutex("x").RLock)
		isTrue(t, third.EntryPath() != first.EntryPath(), "a reader has joined one that wants to be alone")
		again := w.takeIn(other.Context(), a.RWMutex("x").RLock)
		w.unlock(first)
		ticket := w.detach(other, 0) // also ends the handle again, a reentry with other's context
		mustBe(t, again.Unlock(), lock.ErrDetached)
		w.unlock(third)
		writer := w.join("x", b.RWMutex("x").Lock)
		w.waits(writer)
		w.unlock(w.attach(a, ticket))
		w.finish(w.await(writer).hold)
	})
}

// TestAttachAfterAResize: a ticket stays valid although Resize has changed the number of permits
// since the entry was created.
func TestAttachAfterAResize(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		first := w.take(permits(b.Semaphore("x", 5), 1))
		w.ok(b.Semaphore("x", 5).Resize(w.ctx, 2))
		held := w.detach(w.take(permits(a.Semaphore("x", 2), 1)), 0)
		isTrue(w, held.Kind() == "semaphore" && strings.Contains(held.String(), "semaphore=2:"), "the ticket is %v", held)
		queued := w.restored("x", "semaphore=2", znode.PermitsPrefix(tag, 2))
		w.ok(b.Semaphore("x", 5).Resize(w.ctx, 3))
		second := w.attach(a, held)
		third := start(func() (*lock.Hold, error) { return a.Attach(w.ctx, queued) })
		w.waits(third)
		w.unlock(first)
		w.finish(w.expect(third).hold, second)
	})
}
