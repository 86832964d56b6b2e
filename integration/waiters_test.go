package integration_test

import (
	"context"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// waiters take a lock of some kind. Weight is how much of its room the i-th of them takes.
type waiters struct {
	room   int
	weight func(i int) int
	take   func(ctx context.Context, c *lock.Client, weight int) (*lock.Hold, error)
	hold   time.Duration
	lists  bool // to join behind others takes a list, which is as long as they are many
	ride   bool // those of one client have an entry together, or one after the other
}

const everybody = 1 << 30 // the room of a lock that any number may read

// told is a hold that is long enough to tell its grant, on a busy machine too. Who is behind
// a shorter one of a lock that several may have lists.
const told = 15 * time.Millisecond

var kindsOfWaiters = map[string]waiters{
	"mutex": {room: 1, weight: func(int) int { return 1 }, take: func(ctx context.Context, c *lock.Client, _ int) (*lock.Hold, error) {
		return c.Mutex("x").Lock(ctx)
	}},
	"writers": {room: everybody, weight: func(int) int { return everybody }, take: func(ctx context.Context, c *lock.Client, _ int) (*lock.Hold, error) {
		return c.RWMutex("x").Lock(ctx)
	}},
	"readers and writers": {room: everybody, hold: told, lists: true, weight: func(i int) int { return []int{1, everybody}[i%4/3] }, take: func(ctx context.Context, c *lock.Client, weight int) (*lock.Hold, error) {
		if weight == 1 {
			return c.RWMutex("x").RLock(ctx)
		}
		return c.RWMutex("x").Lock(ctx)
	}},
	"readers and writers that share entries": {room: everybody, hold: time.Millisecond, ride: true, weight: func(i int) int { return []int{1, everybody}[i%4/3] }, take: func(ctx context.Context, c *lock.Client, weight int) (*lock.Hold, error) {
		if weight == 1 {
			return c.RWMutex("x").RLock(ctx)
		}
		return c.RWMutex("x").Lock(ctx)
	}},
	"semaphore": {room: 4, hold: told, weight: func(i int) int { return 1 + i%4 }, take: func(ctx context.Context, c *lock.Client, weight int) (*lock.Hold, error) {
		return c.Semaphore("x", 4).Acquire(ctx, weight)
	}},
}

// TestManyWaiters: very many wait for one lock of each kind, and get it by the order in
// which they came; what passes on the wire for each of them does not grow with their
// number, but for readers. HOLDFAST_WAITERS is how many; the library is meant for 10,000.
//
// Those who barge are missing: all of them watch the same entry, and try when it goes.
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
			if most := few * 3 / 2; many > most && !kind.lists {
				t.Errorf("%d bytes for each of %d waiters: with %d there were %d", many, n, n/10, few)
			}
		})
	}
}

// queueUp has n wait for a lock and get it one after the other. It returns how many bytes
// passed for each.
func (kind waiters) queueUp(t *testing.T, n int) (bytes int64) {
	b := onShared(t)
	const sessions = 10
	clients, meters := make([]*lock.Client, sessions), make([]zkserver.Meter, sessions)
	for i := range clients {
		opts := []lock.Option{lock.WithTTL(4 * long), lock.WithDialer(meters[i].Dial)}
		if kind.ride {
			opts = append(opts, lock.WithLocalWindow(lock.DefaultLocalWindow))
		}
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
	first, err := kind.take(b.ctx, b.client(lock.WithTTL(4*long)), kind.room)
	if err != nil {
		t.Fatal(err)
	}
	began, before := time.Now(), counts()
	var line line
	var waiters sync.WaitGroup
	for i := range n {
		waiters.Go(func() {
			weight := kind.weight(i)
			h, err := kind.take(b.ctx, clients[i%sessions], weight)
			if err != nil {
				t.Error(err)
				return
			}
			line.step(h.Token(), weight)
			time.Sleep(kind.hold)
			line.step(h.Token(), -weight)
			b.unlock(h)
		})
	}
	for waiting := 0; waiting < n && !t.Failed(); time.Sleep(20 * time.Millisecond) { // readers list: that can take minutes
		if waiting = 0; b.ctx.Err() != nil {
			t.Fatal("they do not queue")
		}
		for _, c := range clients {
			waiting += c.Stats().Waiters
		}
	}
	joined, atJoin := time.Now(), counts()
	b.unlock(first)
	waiters.Wait()
	line.check(t, n, kind.room)
	after := counts()
	in, out := after.BytesIn-before.BytesIn, after.BytesOut-before.BytesOut
	t.Logf("%d waiters: joined in %v, drained in %v; for each %.2f requests, %d bytes to the server and %d to its client, %d of these until all had joined",
		n, joined.Sub(began).Round(time.Millisecond), time.Since(joined).Round(time.Millisecond),
		float64(after.Requests-before.Requests)/float64(n), out/int64(n), in/int64(n), (atJoin.BytesIn-before.BytesIn)/int64(n))
	return (in + out) / int64(n)
}

// line is how they went in and out.
type line struct {
	mu    sync.Mutex
	steps []lineStep
}

type lineStep struct {
	token  lock.Token
	weight int // in the lock's room; less than 0: it leaves
}

func (l *line) step(token lock.Token, weight int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps = append(l.steps, lineStep{token, weight})
}

// check fails the test if more were in than there is room for, or one before another who
// had come earlier. Whoever goes in has been counted with all who came before, and are
// not out yet: these are in too, though they may not have noticed.
func (l *line) check(t *testing.T, n, room int) {
	if len(l.steps) != 2*n {
		t.Fatalf("%d of %d were in and out", len(l.steps)/2, n)
	}
	var there []lineStep // by their order
	for _, s := range l.steps {
		if s.weight > 0 {
			there = append(there, s)
		}
	}
	byToken := func(a, b lineStep) int { return a.token.Compare(b.token) }
	slices.SortFunc(there, byToken)
	for i, s := range l.steps {
		at, found := slices.BinarySearchFunc(there, s, byToken)
		if !found {
			t.Fatalf("step %d: token %v is not there, or twice", i, s.token)
		}
		sum := 0
		for _, other := range there[:at+1] {
			sum += other.weight
		}
		switch {
		case s.weight < 0:
			there = slices.Delete(there, at, at+1)
		case sum > room:
			t.Errorf("step %d: who has token %v is in, with a weight of %d that came before, and room for %d", i, s.token, sum, room)
		}
	}
}
