// What many goroutines of one client cost, each with a lock of its own: they share transactions.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// link is a network on which a reply takes the given time, give or take a quarter.
func link(replyTime time.Duration) locktest.Options {
	r := random(1, "link")
	var mu sync.Mutex
	return locktest.Options{Latency: func(string, string) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return between(r, replyTime*3/8, replyTime*5/8)
	}}
}

// inEach runs f in n goroutines, and waits for them.
func inEach(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// cycles has n goroutines of a client lock and unlock for a second, each a lock of its own or, with
// anew, another lock each time. It returns the number of cycles and of transactions.
func (w *world) cycles(c *lock.Client, n int, anew bool) (cycles, transactions int64) {
	var number atomic.Int64
	before, end := w.Transactions(), time.Now().Add(time.Second)
	inEach(n, func(i int) {
		for time.Now().Before(end) {
			name := fmt.Sprint("l", i)
			if k := number.Add(1); anew {
				name = fmt.Sprint("n", k)
			}
			h, err := c.Mutex(name).Lock(w.ctx)
			if err != nil {
				w.Error(err)
				return
			}
			w.ok(h.Unlock())
		}
	})
	return number.Load(), w.Transactions() - before
}

// TestGoroutinesShareTransactions: the cost and the time of a cycle of many goroutines that each
// have a lock of their own.
func TestGoroutinesShareTransactions(t *testing.T) {
	for _, c := range []struct {
		n     int
		reply time.Duration
		anew  bool
		most  float64 // transactions a cycle
		slow  float64 // round trips a cycle, on average: 2 without waiting for a transaction
	}{
		{4, time.Millisecond, false, 1.6, 2.1},
		{16, 10 * time.Millisecond, false, 0.9, 2.4},
		{64, time.Millisecond, false, 0.4, 2.8},
		{64, 10 * time.Millisecond, false, 0.4, 2.4},
		{1000, 50 * time.Millisecond, false, 0.15, 2.5},
	} {
		subtest(t, fmt.Sprintf("%d at %v, anew %v", c.n, c.reply, c.anew), link(c.reply), func(w *world) {
			a := w.client("a")
			w.cycles(a, c.n, c.anew) // until the parents are there
			cycles, transactions := w.cycles(a, c.n, c.anew)
			cost := float64(transactions) / float64(cycles)
			trips := float64(c.n) * (time.Second.Seconds() / c.reply.Seconds()) / float64(cycles)
			w.Logf("%d cycles, %.2f transactions and %.2f round trips each", cycles, cost, trips)
			if cost > c.most || trips > c.slow {
				w.Errorf("a cycle cost %.2f transactions and %.2f round trips, want at most %.2f and %.2f", cost, trips, c.most, c.slow)
			}
		})
	}
}

// TestGuessesOfMany: a client that is wrong about the parents of many locks learns so by few refused
// transactions.
func TestGuessesOfMany(t *testing.T) {
	const n, reply = 256, 10 * time.Millisecond
	simulate(t, link(reply), func(w *world) {
		a, b := w.client("a"), w.client("b")
		var hs [n]*lock.Hold
		inEach(n, func(i int) { hs[i] = w.lock(b, fmt.Sprint("l", i)) })
		begun, before := time.Now(), w.Transactions()
		var chs [n]<-chan taken
		for i := range n {
			chs[i] = w.queue(w.ctx, a, fmt.Sprint("l", i))
		}
		w.until("all wait", func() bool { return len(w.nodes()) >= 4*n })
		trips := float64(time.Since(begun)) / float64(reply)
		w.Logf("%d joins behind another client: %.1f round trips, %d transactions", n, trips, w.Transactions()-before)
		if trips > 8 || w.Transactions()-before > 60 {
			w.Errorf("%.1f round trips and %d transactions, want at most 8 and 60", trips, w.Transactions()-before)
		}
		inEach(n, func(i int) { w.unlock(hs[i]) })
		inEach(n, func(i int) { w.unlock(w.await(chs[i]).hold) })
	})
}

// TestManyLocksHandedOver: a client unlocks many locks, and another one joins before, at the same time
// or after. The unlocks begin at once, or one after the other within 2.5 ms.
func TestManyLocksHandedOver(t *testing.T) {
	const n, reply = 125, 2 * time.Millisecond
	handOver := func(w *world, lead, apart time.Duration) {
		a, b := w.client("a"), w.client("b")
		var old, next [n]*lock.Hold
		inEach(n, func(i int) { old[i] = w.lock(a, fmt.Sprint("l", i)) })
		before := w.Transactions()
		inEach(2*n, func(i int) {
			if i < n {
				time.Sleep(max(lead, 0) + time.Duration(i)*apart)
				w.unlock(old[i])
			} else {
				time.Sleep(max(-lead, 0))
				next[i-n] = w.lock(b, fmt.Sprint("l", i-n))
			}
		})
		got := w.Transactions() - before
		w.Logf("%d transactions", got)
		if limit := int64(40); got > limit && apart == 0 || got > limit+10 {
			w.Errorf("%d transactions, want at most %d, or 10 more if the unlocks come one after the other", got, limit)
		}
		inEach(n, func(i int) { w.unlock(next[i]) })
	}
	for _, apart := range []time.Duration{0, 20 * time.Microsecond} {
		for _, lead := range []time.Duration{500 * reply, 2 * reply, 3 * reply / 2, reply, reply / 2, 0, -reply / 2, -reply, -500 * reply} {
			subtest(t, fmt.Sprintf("%v before, apart %v", lead, apart), link(reply), func(w *world) { handOver(w, lead, apart) })
		}
	}
}

// TestCloseSharesTransactions: Close deletes the entries of many holds in few transactions.
func TestCloseSharesTransactions(t *testing.T) {
	const n = 2000
	simulate(t, link(time.Millisecond), func(w *world) {
		a := w.client("a")
		inEach(n, func(i int) { w.lock(a, fmt.Sprint("l", i)) })
		before := w.Transactions()
		w.close(a)
		if got := w.Transactions() - before; got > n/20 {
			w.Errorf("%d transactions to close with %d holds, want at most %d", got, n, n/20)
		}
		w.empty()
	})
}

// TestGivenUpWhileSilent: calls that gave up before a silent server answers again create nothing.
func TestGivenUpWhileSilent(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.client("a")
		w.unlock(w.lock(a, "first"))
		silent := make(chan struct{})
		var creates atomic.Int64
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Op != "multi" {
				return locktest.Fault{}
			}
			select {
			case <-silent:
				creates.Add(1)
				return locktest.Fault{}
			default:
				return locktest.Fault{DelayReply: time.Second}
			}
		})
		ctx, cancel := context.WithCancel(w.ctx)
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				if _, err := a.Mutex(fmt.Sprint("l", i)).Lock(ctx); !errors.Is(err, context.Canceled) {
					w.Error(err)
				}
			})
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		close(silent)
		time.Sleep(10 * time.Second)
		if n := creates.Load(); n > 70 { // what was in flight, and its deletes
			w.Errorf("%d transactions after all calls had given up", n)
		}
		w.empty()
	})
}
