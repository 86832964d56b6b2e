// Detach and Attach for each kind of lock.

package lock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

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
		for _, died := range []bool{false, true} { // died: the owner crashes instead of detaching
			subtest(t, fmt.Sprintf("%s, died %v", l.name, died), locktest.Options{}, func(w *world) {
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
				if got.Token().Parts().Czxid != h.Token().Parts().Czxid || got.Token().Parts().Incarnation != 1 || pathOf(got) != pathOf(h) {
					w.Errorf("attached to %s with token %v, want %s after %v", pathOf(got), got.Token(), pathOf(h), h.Token())
				}
				isTrue(w, lock.RWMutexOf(got).Reads(got) == (l.downgrade || l.name == "to read"), "it reads: %v", lock.RWMutexOf(got).Reads(got))
				r := w.record(pathOf(got))
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
}

// TestAmbiguousAttachOfEachKind: whatever fault hits the attaching write, Attach to a hold, or to
// a restored entry that must wait, returns a valid hold. The waiter behind it still waits.
func TestAmbiguousAttachOfEachKind(t *testing.T) {
	for _, l := range leavings {
		for _, restored := range []bool{false, true} {
			if restored && l.kind == "" {
				continue
			}
			t.Run(fmt.Sprintf("%s, restored %v", l.name, restored), func(t *testing.T) {
				forEachMishap(t, func(w *world, i int) {
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
					isTrue(t, got.Err() == nil && got.Token().Parts().Incarnation == 1, "%v, token %v", got.Err(), got.Token())
					w.handOver(got, waiter)
				})
			})
		}
	}
}

// TestReadersWithoutAWindowShareNoEntry: readers with WithLocalWindow(NoLocalWindow) have an entry each, even
// if they waited together, so that each of them can be detached.
func TestReadersWithoutAWindowShareNoEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a", riding()), w.client("b")
		writer := w.take(b.RWMutex("x").Lock)
		queue := w.callers(w.ctx, 3, a.RWMutex("x", lock.WithLocalWindow(lock.NoLocalWindow)).RLock)
		w.unlock(writer)
		readers := w.expectEach(queue...)
		w.hasEntries("x", 3)
		ticket := w.detach(readers[0], 0)
		w.unlock(readers[1], readers[2])
		w.finish(w.attach(a, ticket))
	})
}

// TestDetachOfASharedEntry: Detach of a hold returns ErrInvalid while another goroutine's hold has
// the same entry. It succeeds when that hold is unlocked.
func TestDetachOfASharedEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a", riding()), w.client("b")
		first, other := w.take(a.RWMutex("x").RLock), w.take(a.RWMutex("x").RLock)
		mustBeTrue(t, pathOf(first) == pathOf(other), "entries %s and %s, want one", pathOf(first), pathOf(other))
		fails(t, second(first.Detach(w.ctx, 0)), lock.ErrInvalid, "WithLocalWindow(NoLocalWindow)")
		mustBeTrue(t, first.Err() == nil && other.Err() == nil, "%v, %v", first.Err(), other.Err())
		third := w.take(a.RWMutex("x").RLock)
		isTrue(t, pathOf(third) != pathOf(first), "a reader has joined one that wants to be alone")
		again, err := a.RWMutex("x").RLock(other.Context())
		w.ok(err)
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
		queued := w.restored("x", "semaphore=2", znode.PermitsPrefix(tag, 2))
		w.ok(b.Semaphore("x", 5).Resize(w.ctx, 3))
		second := w.attach(a, held)
		third := start(func() (*lock.Hold, error) { return a.Attach(w.ctx, queued) })
		w.waits(third)
		w.unlock(first)
		w.finish(w.expect(third).hold, second)
	})
}

// TestTicketOfASemaphore: a ticket has the number of permits that the client passed to Semaphore,
// also after a Resize.
func TestTicketOfASemaphore(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		h := w.take(acquiring(2)(a))
		w.ok(a.Semaphore("x", 5).Resize(w.ctx, 3))
		ticket := w.detach(h, 0)
		text := ticket.String()
		got := w.attach(b, w.reparsed(ticket))
		waiter := w.join("x", acquiring(2)(a))
		w.waits(waiter)
		w.handOver(got, waiter)
		isTrue(t, ticket.Kind() == "semaphore" && strings.Contains(text, "semaphore=5:"), "the ticket is %q", text)
	})
}
