// RWMutex: sharing, order, downgrade.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// rw returns the read/write lock "x" of a new client.
func (w *world) rw(label string) *lock.RWMutex {
	w.Helper()
	return w.client(label).RWMutex("x")
}

// queueOf makes a new client for each role join the queue of "x": "r" reads, "w" writes. The
// client's label is the role and its position in roles.
func (w *world) queueOf(roles string) (queue []<-chan taken) {
	w.Helper()
	for i, role := range roles {
		m := w.rw(fmt.Sprintf("%c%d", role, i))
		take := m.Lock
		if role == 'r' {
			take = m.RLock
		}
		queue = append(queue, w.join("x", take))
	}
	return queue
}

// TestReaderThatALaggingServerHides: if a waiting writer's session moves to a server that does not
// show the readers' entries yet, the writer still waits for them.
func TestReaderThatALaggingServerHides(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		queue := w.queueOf("rrr")
		readers := w.expectEach(queue...)
		last := w.client("last")
		writer := w.join("x", last.RWMutex("x").Lock)
		lags := lagging("last", last)
		var hidden, expired atomic.Bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			switch late := lags(r); {
			case late && r.Op == "getChildren2":
				return locktest.Fault{Code: codeNoNode}
			case r.Label != "last" || r.Op != "getData" || !touches(r, "-__READ__"):
			case late:
				hidden.Store(true)
				return locktest.Fault{Code: codeNoNode}
			case !expired.Swap(true):
				w.ExpireLabel("last")
				return locktest.Fault{Drop: locktest.BeforeApply}
			}
			return locktest.Fault{}
		})
		w.unlock(readers[2])
		w.waits(writer)
		time.Sleep(ttl)
		w.waits(writer)
		isTrue(t, hidden.Load(), "no reader was hidden")
		w.unlock(readers[0])
		w.waits(writer)
		w.handOver(readers[1], writer)
	})
}

// TestDowngradeBesideALocalWriter: a goroutine of the same client waits to write. It gets no entry that
// others read beside.
func TestDowngradeBesideALocalWriter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.rw("a"), w.rw("b")
		h := w.take(a.Lock)
		writer := start(func() (*lock.Hold, error) { return a.Lock(w.ctx) })
		settle()
		reader := w.join("x", b.RLock)
		w.ok(lock.RWMutexOf(h).Downgrade(w.ctx, h))
		r := w.expect(reader).hold
		w.unlock(h)
		w.waits(writer)
		w.alive(r)
		w.unlock(r)
		w.finish(w.await(writer).hold)
	})
}

// TestDowngradeThatIsNotAcknowledged: from the call of Downgrade on, the hold may only read. After
// an outage, a renewal lets a waiting reader enter.
func TestDowngradeThatIsNotAcknowledged(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.rw("a")
		h := w.take(a.Lock)
		reader := w.queueOf("r")
		w.kill("a")
		mustBe(t, a.Downgrade(w.limited(time.Second), h), context.DeadlineExceeded)
		mustBe(t, second(a.Lock(h.Context())), lock.ErrUpgrade)
		w.waits(reader[0])
		w.Heal("a")
		time.Sleep(ttl)
		w.unlock(w.expect(reader[0]).hold)
		isTrue(t, h.Remaining() != 0, "the hold has ended: %v", h.Err())
		w.finish(h)
	})
}

// TestDowngradeRefuses: Downgrade of a hold of another lock, or with another handle, returns ErrInvalid
// with the reason. Downgrade of an ended hold returns ErrUnlocked.
func TestDowngradeRefuses(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial("a")
		rw := c.RWMutex("x")
		m := w.lock(c, "m")
		for _, other := range []*lock.RWMutex{c.RWMutex("m"), rw, w.dial("b").RWMutex("m")} {
			fails(t, other.Downgrade(w.ctx, m), lock.ErrInvalid, "must be of this lock")
			isTrue(t, !other.Reads(m), "a mutex is read")
		}
		fails(t, rw.Downgrade(w.ctx, nil), lock.ErrInvalid, "must be of this lock")
		w.unlock(m)

		outer := w.take(rw.Lock)
		inner, err := rw.Lock(outer.Context())
		mustBe(t, err, nil)
		fails(t, rw.Downgrade(w.ctx, outer), lock.ErrInvalid, "other handle")
		w.unlock(inner)
		var none context.Context
		mustBe(t, rw.Downgrade(none, outer), lock.ErrInvalid)
		mustBe(t, rw.Downgrade(w.ctx, outer), nil)
		w.unlock(outer)
		r := w.take(rw.RLock)
		mustBe(t, rw.Downgrade(w.ctx, r), nil)
		w.unlock(r)
		mustBe(t, rw.Downgrade(w.ctx, r), lock.ErrUnlocked)
	})
}

// TestReadersAndWritersReenter: a call with the context of a valid hold reenters the lock. With a
// reader's context, a call to write returns ErrUpgrade. That holds for the contexts of Do and RDo, too.
func TestReadersAndWritersReenter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c, b := w.client("a"), w.rw("b")
		rw := c.RWMutex("x")
		ways := map[string][]taking{"read": {rw.RLock, rw.TryRLock}, "write": {rw.Lock, rw.TryLock}}
		for _, tt := range []struct {
			outer, inner string
			refused      bool
		}{
			{"read", "read", false}, {"write", "write", false}, {"write", "read", false}, {"read", "write", true},
		} {
			for _, again := range ways[tt.inner] {
				outer := w.take(ways[tt.outer][0])
				inner, err := again(outer.Context())
				if tt.refused {
					fails(t, err, lock.ErrUpgrade, `"x"`, "read again")
				} else if err != nil || inner.Token() != outer.Token() {
					t.Errorf("%s in %s: %v, %v", tt.inner, tt.outer, inner, err)
				}
				if inner != nil {
					w.unlock(inner)
				}
				w.unlock(outer)
				if again, err := ways[tt.inner][1](outer.Context()); !errors.Is(err, context.Canceled) {
					t.Errorf("by the context of a hold that has ended: %v, %v", again, err)
				}
			}
		}
		read := w.take(rw.RLock) // works although the context carries an ended hold
		w.unlock(read)
		outer, err := rw.Lock(context.WithoutCancel(read.Context()))
		mustBe(t, err, nil)
		limited, cancel := context.WithTimeout(outer.Context(), ttl)
		defer cancel()
		w.unlock(w.await(start(func() (*lock.Hold, error) { return rw.Lock(limited) })).hold)
		// Another kind of lock does not re-enter.
		fails(t, second(c.Mutex("x").Lock(outer.Context())), lock.ErrKind, "rw", "mutex")
		w.unlock(outer)

		mustBe(t, rw.RDo(w.ctx, func(ctx context.Context) error {
			mustBe(t, second(rw.TryLock(ctx)), lock.ErrUpgrade)
			mustBe(t, second(b.TryLock(w.ctx)), lock.ErrHeld)
			return b.RDo(w.ctx, func(context.Context) error { return nil })
		}), nil)
		mustBe(t, rw.Do(w.ctx, func(ctx context.Context) error {
			mustBe(t, second(b.TryRLock(w.ctx)), lock.ErrHeld)
			return rw.RDo(ctx, func(context.Context) error { return nil })
		}), nil)
		mustBe(t, rw.Do(w.ctx, nil), lock.ErrInvalid)
		equal(t, "name", rw.Name(), "x")
		w.empty()
	})
}

// TestReadersThatWaited: readers that wait for a writer enter without a list, however many there are.
func TestReadersThatWaited(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		first := w.take(w.rw("first").Lock)
		readers := w.queueOf(strings.Repeat("r", 40))
		writer := w.join("x", w.rw("w").Lock)
		before := w.totals()["getChildren2"]
		w.unlock(first)
		holds := w.expectEach(readers...)
		atMost(w, "lists as the writer left", w.totals()["getChildren2"]-before, 0)
		w.waits(writer)
		w.unlock(holds...)
		w.finish(w.expect(writer).hold)
	})
}

// TestReadWriteLockOfCurator: Holdfast waits for Curator's entries, and names its own so that
// Curator waits for them. A Curator writer becomes a reader by a second entry with the sequence of
// its first one. No Holdfast writer enters before both are deleted.
func TestReadWriteLockOfCurator(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		z := w.raw("curator")
		w.create(z, "/locks", "", 0)
		w.create(z, "/locks/x", "", 0)
		write := w.create(z, "/locks/x/_c_f8b2-__WRIT__", "", zk.FlagEphemeral|zk.FlagSequence)
		sequence := write[len(write)-10:]
		queue := w.queueOf("wr")
		read := w.create(z, "/locks/x/_c_f8b3-__READ__"+sequence, "", zk.FlagEphemeral)
		w.remove(z, write)
		time.Sleep(time.Second)
		w.waits(queue[0], queue[1])
		w.remove(z, read)
		h := w.expect(queue[0]).hold
		isTrue(t, strings.Contains(h.EntryPath(), "-__WRIT__"), "a writer's entry is %s", h.EntryPath())
		w.waits(queue[1])
		h = w.pass(h, queue[1])
		isTrue(t, strings.Contains(h.EntryPath(), "-__READ__"), "a reader's entry is %s", h.EntryPath())
		theirs := w.create(z, "/locks/x/_c_f8b4-__READ__", "", zk.FlagEphemeral|zk.FlagSequence)
		c := w.rw("c")
		w.unlock(w.take(c.RLock))
		writer := w.join("x", c.Lock)
		w.unlock(h)
		w.waits(writer)
		w.remove(z, theirs)
		w.unlock(w.expect(writer).hold)
	})
}

// TestKindsDoNotMix: a lock of one kind refuses calls of another kind with ErrKind, and the error
// names both kinds. A try, too, does not say that the lock is held, wherever the names of the entries tell
// the kinds apart.
func TestKindsDoNotMix(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		h, reads, two := w.lock(a, "x"), w.take(a.RWMutex("pages").RLock), w.take(permits(a.Semaphore("slots", 2), 2))
		for _, take := range []taking{
			b.RWMutex("x").TryLock, tryPermits(b.Semaphore("x", 2), 1),
			b.Mutex("pages").TryLock, tryPermits(b.Semaphore("pages", 2), 1), a.Mutex("pages").Lock, b.Mutex("pages").Lock,
			b.Mutex("slots").TryLock, b.RWMutex("slots").TryRLock,
		} {
			mustBe(w, second(take(w.ctx)), lock.ErrKind)
		}
		for _, c := range []*lock.Client{a, b} {
			fails(w, second(c.RWMutex("x").RLock(w.ctx)), lock.ErrKind, "mutex", "rw")
		}
		mustBe(w, second(b.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
		equal(w, "kind", w.parent("pages").Kind, znode.RW)
		w.finish(h, reads, two)
	})
}

// TestReadersOfOneClientDoNotWaitForEachOther: 64 readers that start at the same time, beside an
// older reader of the same client, enter within 64 latencies.
func TestReadersOfOneClientDoNotWaitForEachOther(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const n = 64
		rw := w.rw("a")
		holds := []*lock.Hold{w.take(rw.RLock)}
		time.Sleep(2 * window)
		begun := time.Now()
		var others []<-chan taken
		for range n {
			others = append(others, start(func() (*lock.Hold, error) { return rw.RLock(w.ctx) }))
		}
		for _, ch := range others {
			holds = append(holds, w.await(ch).hold)
		}
		atMost(t, "the readers were in after", time.Since(begun), n*latency)
		w.finish(holds...)
	})
}

// TestReaderDoesNotJoinAnExtendedEntry: a reader has an entry of its own if Extend has changed the lease
// of another reader's, and shares it otherwise.
func TestReaderDoesNotJoinAnExtendedEntry(t *testing.T) {
	each(t, "by", []time.Duration{0, 5 * ttl, ttl / 2}, func(w *world, extended time.Duration) {
		rw := w.rw("a")
		first := w.take(rw.RLock)
		if extended != 0 {
			w.ok(first.Extend(w.ctx, extended))
		}
		second := w.take(rw.RLock)
		equal(w, "whether they share an entry", first.EntryPath() == second.EntryPath(), extended == 0)
		w.finish(first, second)
	})
}
