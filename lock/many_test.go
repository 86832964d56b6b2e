package lock_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestCloseOfManyHolds: the server takes a millisecond for each transaction, so that
// there is no time for one of each hold. Their entries go in batches.
func TestCloseOfManyHolds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 20000 locks")
	}
	simulate(t, locktest.Options{}, func(w *world) {
		const n = 20_000
		a := w.dial("a", lock.WithPolicies(policies{TTL: time.Hour, Grace: grace}))
		for i := range n {
			w.lock(a, fmt.Sprint("x", i))
		}
		var slow atomic.Int64
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if mutates(r, "a") {
				slow.Add(1)
				return locktest.Fault{Delay: time.Millisecond}
			}
			return locktest.Fault{}
		})
		before, txns := time.Now(), w.Transactions()
		if err := a.Close(); err != nil {
			w.Error(err)
		}
		if took := time.Since(before); took > lock.DefaultUnlockTimeout {
			w.Errorf("took %v, want %v at most", took, lock.DefaultUnlockTimeout)
		}
		if made := w.Transactions() - txns; made > n/10 || slow.Load() < n/100 {
			w.Errorf("made %d transactions to end %d holds, %d of them slowly", made, n, slow.Load())
		}
		if left := len(w.nodes()); left > 0 {
			w.Errorf("%d nodes are left behind", left)
		}
	})
}

// BenchmarkManyLocks takes locks of ever new names beside many that are being waited
// for. What one costs must not depend on how many those are.
func BenchmarkManyLocks(b *testing.B) {
	for _, n := range []int{100, 5_000, 20_000} {
		b.Run(fmt.Sprint("beside ", n), func(b *testing.B) {
			ens := locktest.Start(b, locktest.Options{})
			dial := func(label string) *lock.Client {
				c, err := lock.Dial(b.Context(), ens.Servers(), lock.WithDialer(ens.Dialer(label)), lock.WithTTL(time.Hour))
				if err != nil {
					b.Fatal(err)
				}
				return c
			}
			take := func(c *lock.Client, name string) *lock.Hold {
				h, err := c.Mutex(name).Lock(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				return h
			}
			holder, waiter := dial("holder"), dial("waiter")
			var waiting sync.WaitGroup
			for i := range n {
				name := fmt.Sprint("held", i)
				take(holder, name)
				waiting.Go(func() { waiter.Mutex(name).Lock(b.Context()) })
			}
			for waiter.Stats().Waiters < n {
				runtime.Gosched()
			}
			i := 0
			for b.Loop() {
				h := take(waiter, fmt.Sprint("free", i))
				if err := h.Unlock(); err != nil {
					b.Fatal(err)
				}
				i++
			}
			for _, c := range []*lock.Client{waiter, holder} {
				if err := c.Close(); err != nil {
					b.Fatal(err)
				}
			}
			waiting.Wait()
		})
	}
}
