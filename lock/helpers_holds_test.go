// Helpers: how locks of each kind are taken, awaited, handed over and detached.

package lock_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// taking is a call that takes a lock, such as [lock.Mutex.Lock].
type taking func(context.Context) (*lock.Hold, error)

// take takes a lock. An error ends the test.
func (w *world) take(take taking) *lock.Hold {
	w.Helper()
	h, err := take(w.ctx)
	w.ok(err)
	return h
}

// join takes a lock in the background, and returns when its entry exists.
func (w *world) join(name string, take taking) <-chan taken {
	w.Helper()
	settle()
	before := len(w.entries(name))
	ch := start(func() (*lock.Hold, error) { return take(w.ctx) })
	w.until("an entry", func() bool { return len(w.entries(name)) > before })
	settle()
	return ch
}

func permits(s *lock.Semaphore, n int) taking {
	return func(ctx context.Context) (*lock.Hold, error) { return s.Acquire(ctx, n) }
}

func tryPermits(s *lock.Semaphore, n int) taking {
	return func(ctx context.Context) (*lock.Hold, error) { return s.TryAcquire(ctx, n) }
}

const window = lock.DefaultLocalWindow

// slow is an ensemble with a latency of a millisecond in each direction.
var slow = locktest.Options{Latency: func(string, string) time.Duration { return time.Millisecond }}

// line makes n goroutines of a client wait for a lock, one after the other.
func (w *world) line(ctx context.Context, c *lock.Client, name string, n int, opts ...lock.LockOption) []<-chan taken {
	return w.callers(ctx, n, c.Mutex(name, opts...).Lock)
}

// callers makes n goroutines take a lock, one after the other.
func (w *world) callers(ctx context.Context, n int, take taking) (line []<-chan taken) {
	for range n {
		line = append(line, start(func() (*lock.Hold, error) { return take(ctx) }))
		settle()
	}
	return line
}

// expectEach returns the holds, all of which must be there by now.
func (w *world) expectEach(chs ...<-chan taken) (holds []*lock.Hold) {
	w.Helper()
	for _, ch := range chs {
		holds = append(holds, w.expect(ch).hold)
	}
	return holds
}

// endBy checks that each call has ended with err by now.
func (w *world) endBy(err error, chs ...<-chan taken) {
	w.Helper()
	for _, ch := range chs {
		mustBe(w, w.outcome(ch).err, err)
	}
}

// nothingLost checks that the clients have lost no hold and no place, and have purged nothing.
func (w *world) nothingLost(clients ...*lock.Client) {
	w.Helper()
	for _, c := range clients {
		if s := c.Stats(); s.Lost+s.Requeued+s.Purged > 0 {
			w.Errorf("stats %+v", s)
		}
	}
}

// inOrder checks that the lock passes from the holder to each waiter in turn. The last waiter's
// hold is unlocked too.
func (w *world) inOrder(h *lock.Hold, queue ...<-chan taken) {
	w.Helper()
	for i, next := range queue {
		w.unlock(h)
		got := w.await(next)
		if h.Context().Err() == nil || got.hold.Token().Compare(h.Token()) <= 0 {
			w.Errorf("the hold before goes on, or token %v follows %v", got.hold.Token(), h.Token())
		}
		for _, later := range queue[i+1:] {
			w.waits(later)
		}
		h = got.hold
	}
	w.unlock(h)
}

// handOver is inOrder at the end of a test: no node may be left.
func (w *world) handOver(h *lock.Hold, queue ...<-chan taken) {
	w.Helper()
	w.inOrder(h, queue...)
	w.empty()
}

// pass unlocks a hold, and returns the hold of the next waiter, which must have entered by now.
func (w *world) pass(h *lock.Hold, ch <-chan taken) *lock.Hold {
	w.Helper()
	w.unlock(h)
	return w.expect(ch).hold
}

func second[T any](_ T, err error) error { return err }

// inTime returns the hold, which must be there within most.
func (w *world) inTime(ch <-chan taken, most time.Duration) *lock.Hold {
	w.Helper()
	begun := time.Now()
	got := w.await(ch)
	atMost(w, "the lock was taken after", got.at.Sub(begun), most)
	return got.hold
}

// barge waits for a lock in the background, without an entry in the queue.
func (w *world) barge(ctx context.Context, c *lock.Client, name string) <-chan taken {
	w.Helper()
	ch := start(func() (*lock.Hold, error) { return c.Mutex(name).WithBarging().Lock(ctx) })
	settle()
	return ch
}

func (w *world) lockAll(c *lock.Client, names ...string) *lock.Holds {
	w.Helper()
	hs, err := c.All(names).Lock(w.ctx)
	if err != nil {
		w.Fatalf("lock %q: %v", names, err)
	}
	return hs
}

func (w *world) unlockAll(hs *lock.Holds) {
	w.Helper()
	if err := hs.Unlock(); err != nil {
		w.Fatalf("unlock: %v", err)
	}
}

// takenAll is the outcome of a call for several locks.
type takenAll = outcome[*lock.Holds]

// queueAll starts a waiter for all of the locks, and returns when the waiter is in all queues.
func (w *world) queueAll(ctx context.Context, c *lock.Client, names ...string) <-chan takenAll {
	w.Helper()
	settle()
	before := len(w.entries(names[0]))
	ch := start(func() (*lock.Holds, error) { return c.All(names).Lock(ctx) })
	w.until("the waiter is in the queues", func() bool { return len(w.entries(names[0])) > before })
	settle()
	return ch
}

// expectAll returns the holds, which must be there by now.
func (w *world) expectAll(ch <-chan takenAll) *lock.Holds {
	w.Helper()
	got := hasCome(w, ch)
	w.ok(got.err)
	return got.hold
}

func (w *world) waitsAll(ch <-chan takenAll) { w.Helper(); hasNotCome(w, ch) }

// soleAll checks that the holds have the only entries of their locks.
func (w *world) soleAll(hs *lock.Holds) {
	w.Helper()
	for h := range hs.All() {
		w.sole(h)
	}
}

// ticket returns a ticket of a hold that is not detached.
func (w *world) ticket(h *lock.Hold) lock.Ticket {
	w.Helper()
	ticket, err := h.Ticket()
	w.ok(err)
	return ticket
}

func (w *world) detach(h *lock.Hold, ttl time.Duration) lock.Ticket {
	w.Helper()
	ticket, err := h.Detach(w.ctx, ttl)
	if err != nil {
		w.Fatalf("detach %s: %v", h.Name(), err)
	}
	return ticket
}

// restored creates a detached entry that has not been granted, with a TTL of ten minutes, and returns
// a ticket for it. A hold's ticket is for such an entry if the servers' data was restored from a
// backup that was made while the holder still waited.
func (w *world) restored(name, kind, prefix string) lock.Ticket {
	w.Helper()
	record := znode.Record{Owner: "restored", TTL: (10 * time.Minute).Milliseconds(), Attempt: znode.NewID(), Detached: true}
	path := w.create(w.raw("backup"), lock.DefaultRoot+"/"+name+"/"+prefix, string(record.Encode()), zk.FlagSequence)
	return w.forged(name, kind, path)
}

// forged returns a ticket for the first incarnation of an entry.
func (w *world) forged(name, kind, path string) lock.Ticket {
	w.Helper()
	text := strings.Join([]string{"holdfast-ticket:1", kind, lock.DefaultRoot, name, path[strings.LastIndexByte(path, '/')+1:], "0", "0"}, ":")
	ticket, err := lock.ParseTicket(fmt.Sprintf("%s:%08x", text, crc32.ChecksumIEEE([]byte(text))))
	w.ok(err)
	return ticket
}

func (w *world) attach(c *lock.Client, ticket lock.Ticket, opts ...lock.LockOption) *lock.Hold {
	w.Helper()
	h, err := c.Attach(w.ctx, ticket, opts...)
	if err != nil {
		w.Fatalf("attach to %s: %v", ticket.Name(), err)
	}
	return h
}

func (w *world) close(c *lock.Client) {
	w.Helper()
	w.ok(c.Close())
}

// breaker is the operator that force-releases holds in tests.
var breaker = znode.Broken{Owner: "root", Host: "node1", PID: 7, Reason: "it hangs"}

// terms are the TTL and the grace of the tests' locks.
var terms = lock.Policy{TTL: ttl, Grace: grace}

func (w *world) breaks(c *lock.Client, path string) *admin.Breaking {
	w.Helper()
	b, err := admin.New(c).Break(w.ctx, path, breaker)
	w.ok(err)
	return b
}
