package integration_test

import (
	"context"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// waiters is a kind of waiters for a lock. weight returns the part of the lock's room that the i-th
// waiter takes.
type waiters struct {
	room   int64
	weight func(i int) int64
	take   func(ctx context.Context, c *lock.Client, weight int64, opts ...lock.LockOption) (had, error)
	hold   time.Duration
	locks  int  // locks that a waiter takes together; 0: one lock
	shares bool // waiters of a client may share an entry
	lists  int  // number of times that a waiter lists all contenders
}

// had is one hold, or the holds of several locks that were taken together.
type had interface{ Unlock() error }

// bytesOfName is the approximate number of bytes for each child in the reply to a list.
const bytesOfName = 50

const everybody = 1 << 30 // room of a lock with any number of readers

// told is a hold time in which a client can record its grant, even on a busy machine. After a
// shorter hold, the next waiter has to list all contenders.
const told = 15 * time.Millisecond

// readsOrWrites takes a read/write lock: to read if the weight is 1.
func readsOrWrites(ctx context.Context, c *lock.Client, weight int64, opts ...lock.LockOption) (had, error) {
	if weight == 1 {
		return c.RWMutex("x", opts...).RLock(ctx)
	}
	return c.RWMutex("x", opts...).Lock(ctx)
}

// acquires takes as many permits as the weight.
func acquires(ctx context.Context, c *lock.Client, weight int64, opts ...lock.LockOption) (had, error) {
	return c.Semaphore("x", 4, opts...).Acquire(ctx, int(weight))
}

// oneEach, wholeEach and fourthWrites are weights of waiters.
func oneEach(int) int64        { return 1 }
func wholeEach(int) int64      { return everybody }
func fourthWrites(i int) int64 { return []int64{1, everybody}[i%4/3] }

var kindsOfWaiters = map[string]waiters{
	"mutex": {room: 1, hold: told, weight: oneEach, take: func(ctx context.Context, c *lock.Client, _ int64, opts ...lock.LockOption) (had, error) {
		return c.Mutex("x", opts...).Lock(ctx)
	}},
	"barging mutex": {room: 1, shares: true, weight: oneEach, take: func(ctx context.Context, c *lock.Client, _ int64, opts ...lock.LockOption) (had, error) {
		return c.Mutex("x", opts...).WithBarging().Lock(ctx)
	}},
	"several mutexes": {room: 1, locks: 3, hold: told, weight: oneEach, take: func(ctx context.Context, c *lock.Client, _ int64, opts ...lock.LockOption) (had, error) {
		return c.All([]string{"x", "y", "z"}, opts...).Lock(ctx)
	}},
	"writers":                                {room: everybody, hold: told, lists: 1, weight: wholeEach, take: readsOrWrites},
	"readers and writers":                    {room: everybody, hold: told, lists: 1, weight: fourthWrites, take: readsOrWrites},
	"readers and writers that share entries": {room: everybody, hold: time.Millisecond, shares: true, weight: fourthWrites, take: readsOrWrites},
	"semaphore":                              {room: 4, hold: told, lists: 1, weight: oneEach, take: acquires},
	"semaphore that is asked for several permits": {room: 4, hold: told, lists: 2, weight: func(i int) int64 { return int64(1 + i%4) }, take: acquires},
}

// TestManyWaiters: very many waiters of one lock, of each kind, get the lock, as many at once as may.
// The traffic for each waiter does not grow with their number, except for the names in
// lists by readers, writers and waiters for permits. HOLDFAST_WAITERS is the number, 200 by
// default; the library is meant for 10,000.
//
// With barging, one waiter of each client watches the last entry in the way, and tries when that
// entry is deleted. So the cost of each handoff grows with the clients, and not with the waiters.
func TestManyWaiters(t *testing.T) {
	n := 200
	if text := os.Getenv("HOLDFAST_WAITERS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 10 {
			t.Fatalf("HOLDFAST_WAITERS=%q: must be a number of 10 at least", text)
		}
	}
	for name, kind := range kindsOfWaiters {
		t.Run(name, func(t *testing.T) {
			few, many := kind.queueUp(t, n/10), kind.queueUp(t, n)
			if most := few*3/2 + int64(kind.lists*n*bytesOfName); many > most {
				t.Errorf("%d bytes for each of %d waiters: with %d there were %d", many, n, n/10, few)
			}
		})
	}
}

// queueUp queues n waiters behind a holder. Then the holder unlocks, and each waiter takes its turn.
// It returns the number of bytes on the wire for each waiter.
func (kind waiters) queueUp(t *testing.T, n int) (bytes int64) {
	b := onShared(t)
	const sessions = 10
	kept := lock.WithSessionTimeout(time.Minute) // after a new session each waiter lists again
	clients, meters := make([]*lock.Client, sessions), make([]zkserver.Meter, sessions)
	var told waitersTold
	for i := range clients {
		opts := []lock.Option{lock.WithTTL(4 * long), kept, lock.WithDialer(meters[i].Dial), lock.WithObserver(&told)}
		clients[i] = b.client(opts...)
	}
	counts := func() (sum zkserver.Counts) {
		for i := range meters {
			c := meters[i].Counts()
			sum.Requests += c.Requests
			sum.BytesIn += c.BytesIn
			sum.BytesOut += c.BytesOut
		}
		return sum
	}
	first, err := kind.take(b.ctx, b.client(lock.WithTTL(4*long), kept), kind.room)
	iferr.Fatal(t, err)
	began, before := time.Now(), counts()
	h := hall{room: kind.room}
	var waiters sync.WaitGroup
	for i := range n {
		waiters.Go(func() {
			weight := kind.weight(i)
			var own []lock.LockOption
			if !kind.shares { // requests with different metadata have entries of their own
				own = append(own, lock.WithMetadata(map[string]string{"waiter": strconv.Itoa(i)}))
			}
			holds, err := kind.take(b.ctx, clients[i%sessions], weight, own...)
			if err != nil {
				t.Error(err)
				return
			}
			leave := h.enter(t, weight)
			time.Sleep(kind.hold) // wall clock: how long a hold lasts decides how locks are handed on
			leave()
			iferr.Error(t, holds.Unlock())
		})
	}
	for told.Load() < int64(n*max(1, kind.locks)) && !t.Failed() {
		if time.Sleep(20 * time.Millisecond); b.ctx.Err() != nil {
			t.Fatalf("they do not queue: %d wait", told.Load())
		}
	}
	joined, atJoin := time.Now(), counts()
	iferr.Error(t, first.Unlock())
	waiters.Wait()
	if entered := h.entered.Load(); entered != int64(n) {
		t.Errorf("%d of %d were in", entered, n)
	}
	after := counts()
	in, out := after.BytesIn-before.BytesIn, after.BytesOut-before.BytesOut
	t.Logf("%d waiters: joined in %v, drained in %v; for each %.2f requests, %d bytes to the server and %d to its client, %d of these until all had joined",
		n, joined.Sub(began).Round(time.Millisecond), time.Since(joined).Round(time.Millisecond),
		float64(after.Requests-before.Requests)/float64(n), out/int64(n), in/int64(n), (atJoin.BytesIn-before.BytesIn)/int64(n))
	return (in + out) / int64(n)
}

// waitersTold is an observer that counts the present waiters.
type waitersTold struct{ atomic.Int64 }

func (w *waitersTold) Observe(_ context.Context, e lock.Event) {
	switch {
	case e.Kind == lock.EventWaiting:
		w.Add(1)
	case e.Kind == lock.EventWithdrawn, e.Kind == lock.EventAcquired && e.Queued:
		w.Add(-1)
	}
}
