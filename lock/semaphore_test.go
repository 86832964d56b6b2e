// Semaphore: fairness, permits, resize, cost.

package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// sem returns the semaphore "x" of a new client that caches no leases.
func (w *world) sem(label string, permits int) *lock.Semaphore {
	w.Helper()
	return w.dial(label, riding()).Semaphore("x", permits)
}

// permitQueue makes a new client for each number in asked, labelled "q0", "q1" and so on. Each
// client requests that many permits of "x", in the order of the labels.
func (w *world) permitQueue(capacity int, asked ...int) (queue []<-chan taken, giveUp []context.CancelFunc) {
	w.Helper()
	for i, n := range asked {
		ctx, cancel := context.WithCancel(w.ctx)
		s := w.sem(fmt.Sprint("q", i), capacity)
		giveUp = append(giveUp, cancel)
		queue = append(queue, w.join("x", func(context.Context) (*lock.Hold, error) { return s.Acquire(ctx, n) }))
	}
	return queue, giveUp
}

// holdPermits makes a new client for each number in asked, labelled "h0", "h1" and so on. Each
// client holds that many permits of "x".
func (w *world) holdPermits(capacity int, asked ...int) (holds []*lock.Hold) {
	w.Helper()
	for i, n := range asked {
		holds = append(holds, w.take(permits(w.sem(fmt.Sprint("h", i), capacity), n)))
	}
	return holds
}

// soon returns the outcome, which must arrive within 5 ms.
func (w *world) soon(ch <-chan taken) taken {
	w.Helper()
	time.Sleep(5 * time.Millisecond)
	return w.expect(ch)
}

// TestPermitsMustAgree: while a semaphore is in use, a client that passes another number of permits
// gets ErrPermits, and a mutex of the same name ErrKind. A request must be for 1 to all permits.
func TestPermitsMustAgree(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.take(permits(a.Semaphore("x", 4), 1))
		for _, c := range []*lock.Client{a, b} {
			for _, take := range []taking{permits(c.Semaphore("x", 3), 1), tryPermits(c.Semaphore("x", 3), 1)} {
				fails(t, second(take(w.ctx)), lock.ErrPermits, `"x"`, "has 4", "one of 3", "Resize")
			}
			mustBe(t, c.Semaphore("x", 3).Resize(w.ctx, 2), lock.ErrPermits)
			mustBe(t, second(c.Mutex("x").Lock(w.ctx)), lock.ErrKind)
		}
		isTrue(t, w.parent("x").Kind == znode.Semaphore && w.anchor("x").Permits == 4, "the anchor is %+v", w.anchor("x"))
		for _, n := range []int{-1, 0, 5} {
			fails(t, second(a.Semaphore("x", 4).Acquire(w.ctx, n)), lock.ErrInvalid, fmt.Sprint(n))
		}
		for _, n := range []int{-1, 0, lock.MaxPermits + 1} {
			mustBe(t, second(a.Semaphore("x", n).Acquire(w.ctx, 1)), lock.ErrInvalid)
			mustBe(t, a.Semaphore("x", 4).Resize(w.ctx, n), lock.ErrInvalid)
		}
		w.finish(h)
		w.unlock(w.take(permits(b.Semaphore("x", 3), 3))) // a free semaphore takes any number
		w.empty()
	})
}

// TestSemaphoreIsNotReentered: each Acquire takes its own permits, even with the context of a hold.
func TestSemaphoreIsNotReentered(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		s := w.dial("a").Semaphore("x", 2)
		err := s.Do(w.ctx, 1, func(ctx context.Context) error {
			return s.Do(ctx, 1, func(ctx context.Context) error {
				mustBe(t, second(s.TryAcquire(ctx, 1)), lock.ErrHeld)
				w.hasEntries("x", 2)
				return nil
			})
		})
		mustBe(w, err, nil)
		w.empty()
	})
}

// TestDeadHoldersOfPermits: the permits of a crashed holder can be acquired after its TTL and the
// grace, but not by more waiters than the permits suffice for. This holds with few and with many
// holders, and behind a crashed waiter.
func TestDeadHoldersOfPermits(t *testing.T) {
	for _, tt := range []struct {
		capacity, dead int
		waiterToo      bool
		late           time.Duration
	}{
		{3, 0, false, 50 * time.Millisecond}, {3, 2, false, 50 * time.Millisecond}, {20, 7, false, ttl},
		{3, 0, true, ttl + grace}, {3, 1, true, ttl + grace}, {3, 2, true, ttl + grace},
	} {
		subtest(t, fmt.Sprintf("%+v", tt), locktest.Options{}, func(w *world) {
			holds := w.holdPermits(tt.capacity, slices.Repeat([]int{1}, tt.capacity)...)
			queue, giveUp := w.permitQueue(tt.capacity, 1, 1, 1)
			dead := fmt.Sprint("h", tt.dead)
			d := w.die(dead, holds[tt.dead].EntryPath())
			if tt.waiterToo {
				w.kill("q0")
			} else {
				giveUp[0]()
			}
			got := w.await(queue[1])
			w.purged(d, got.at, 0, tt.late)
			w.waits(queue[2])
			for i, h := range holds {
				if i != tt.dead {
					w.unlock(h)
				}
			}
			w.unlock(w.await(queue[2]).hold, got.hold)
			w.Heal(dead)
			w.Heal("q0")
			if got := <-queue[0]; tt.waiterToo {
				w.unlock(got.hold)
			}
			w.empty()
		})
	}
}

// TestTryAcquireOfAnExpiredPermit: TryAcquire takes the permit of an expired entry, although a live
// holder's entry is behind it. Before the expiry it fails with ErrHeld.
func TestTryAcquireOfAnExpiredPermit(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		dead := w.take(permits(w.dial("a").Semaphore("x", 2), 1))
		b, c := w.dial("b").Semaphore("x", 2), w.dial("c").Semaphore("x", 2)
		living := w.take(permits(b, 1))
		w.die("a", dead.EntryPath())
		mustBe(t, second(c.TryAcquire(w.ctx, 1)), lock.ErrHeld)
		time.Sleep(ttl + 2*grace)
		taken := w.take(tryPermits(c, 1))
		w.Heal("a")
		w.finish(taken, living)
	})
}

// TestResizeRaises: if a raise makes room, waiters in the queue enter within 5 ms, and local
// waiters within a window. While the semaphore is in use, a client may pass the number of permits
// before or after the raise, and no other.
func TestResizeRaises(t *testing.T) {
	subtest(t, "clients wait", locktest.Options{}, func(w *world) {
		holds := w.holdPermits(1, 1)
		queue, _ := w.permitQueue(1, 1, 1, 1)
		other := w.sem("other", 1)
		mustBe(w, other.Resize(w.ctx, 3), nil)
		holds = append(holds, w.soon(queue[0]).hold, w.soon(queue[1]).hold)
		w.waits(queue[2])
		isTrue(w, w.anchor("x").Permits == 1 && w.anchor("x").Resized == 3, "the anchor is %+v", w.anchor("x"))
		w.unlock(holds[2])
		holds[2] = w.soon(queue[2]).hold
		for said, want := range map[int]error{1: lock.ErrHeld, 3: lock.ErrHeld, 2: lock.ErrPermits, 4: lock.ErrPermits} {
			s := w.sem(fmt.Sprint("says ", said), said)
			mustBe(w, second(s.TryAcquire(w.ctx, 1)), want)
			if want != lock.ErrHeld {
				mustBe(w, second(s.Acquire(w.ctx, 1)), want)
				mustBe(w, s.Resize(w.ctx, 5), want)
			}
		}
		w.finish(holds...)
	})
	subtest(t, "local waiters of a long hold", locktest.Options{}, func(w *world) {
		s, other := w.sem("a", 1), w.sem("b", 1)
		holds := []*lock.Hold{w.take(permits(s, 1))}
		time.Sleep(time.Hour)
		line := w.callers(w.ctx, 2, permits(s, 1))
		time.Sleep(2 * time.Minute)
		for i, resize := range []*lock.Semaphore{s, other} {
			mustBe(w, resize.Resize(w.ctx, 2+i), nil)
			begun := time.Now()
			got := w.await(line[i])
			atMost(w, "local waiters learn of it after", got.at.Sub(begun), time.Second+window)
			holds = append(holds, got.hold)
		}
		w.finish(holds...)
	})
	subtest(t, "local waiters", locktest.Options{}, func(w *world) {
		s, other := w.sem("a", 1), w.sem("b", 1)
		line := w.callers(w.ctx, 6, permits(s, 1))
		held := []*lock.Hold{w.expect(line[0]).hold}
		for i, resize := range []*lock.Semaphore{s, other} {
			mustBe(w, resize.Resize(w.ctx, 2+i), nil)
			begun := time.Now()
			got := w.await(line[1+i])
			atMost(w, "local waiters learn of it after", got.at.Sub(begun), time.Second+window)
			held = append(held, got.hold)
			w.waits(line[2+i])
		}
		fewer := start(func() (*lock.Hold, error) { return nil, other.Resize(w.ctx, 1) })
		time.Sleep(3 * window) // until the client a has found the entry of the other client
		w.unlock(held[0], held[1])
		mustBe(w, w.soon(fewer).err, nil)
		w.handOver(held[2], line[3:]...)
	})
	subtest(t, "by a server that lags behind", locktest.Options{Members: 3}, func(w *world) { // b's server does not know the previous change
		follower := w.followers()[0]
		a := w.dialAt("a", []string{w.Leader()}).Semaphore("x", 4)
		b := w.dialAt("b", []string{follower}).Semaphore("x", 4)
		holds := []*lock.Hold{w.take(permits(a, 1)), w.take(permits(b, 1))}
		mustBe(w, w.Lag(follower, 700*time.Millisecond), nil)
		mustBe(w, a.Resize(w.ctx, 2), nil)
		mustBe(w, b.Resize(w.ctx, 4), nil)
		equal(w, "permits", w.anchor("x").Capacity(), 4)
		w.finish(holds...)
	})
}

// TestRaiseDuringALongHold: if one client has held all permits for an hour, its local waiter enters
// within a minute and a window after a raise.
func TestRaiseDuringALongHold(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		s := w.sem("a", 1)
		h := w.take(permits(s, 1))
		local := start(func() (*lock.Hold, error) { return s.Acquire(w.ctx, 1) })
		time.Sleep(time.Hour)
		w.waits(local)
		mustBe(t, w.sem("b", 1).Resize(w.ctx, 2), nil)
		w.finish(w.inTime(local, time.Minute+window), h)
	})
}

// TestRaiseForAFirstWaiter: a waiter without holders ahead waits, because it requests more permits
// than there are. After a raise, this waiter and the waiter behind it enter at once.
func TestRaiseForAFirstWaiter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		s := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: true})).Semaphore("x", 4)
		w.unlock(w.take(permits(s, 1)))
		mustBe(t, s.Resize(w.ctx, 2), nil)
		settle()
		queue, _ := w.permitQueue(4, 3, 1)
		mustBe(t, s.Resize(w.ctx, 4), nil)
		for _, ch := range queue {
			defer w.unlock(w.soon(ch).hold)
		}
	})
}

// TestRaiseBehindALoneHolder: after a raise, the waiter behind a lone holder enters at once,
// although a lone holder in frequent use does not record its grant.
func TestRaiseBehindALoneHolder(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.sem("a", 1)
		for range 3 {
			w.unlock(w.take(permits(a, 1)))
		}
		h := w.take(permits(a, 1))
		ch := w.join("x", permits(w.sem("b", 1), 1))
		mustBe(t, w.sem("c", 1).Resize(w.ctx, 2), nil)
		w.finish(w.soon(ch).hold, h)
	})
}

// TestResizeLowers: Resize to a lower number waits in turn until enough permits are free.
// Afterwards no client exceeds the new number, even if it knows only the old one.
func TestResizeLowers(t *testing.T) {
	subtest(t, "waiters", locktest.Options{}, func(w *world) {
		holds := w.holdPermits(4, 1, 1, 1)
		a, b := w.sem("a", 4), w.sem("b", 4)
		resized := w.join("x", func(ctx context.Context) (*lock.Hold, error) { return nil, b.Resize(ctx, 2) })
		queue, _ := w.permitQueue(4, 1, 1)
		w.waits(resized, queue[0])
		w.unlock(holds[1])
		mustBe(w, w.outcome(resized).err, nil)
		w.waits(queue[0])
		isTrue(w, w.anchor("x").Permits == 4 && w.anchor("x").Resized == 2, "the anchor is %+v", w.anchor("x"))
		mustBe(w, second(b.TryAcquire(w.ctx, 1)), lock.ErrHeld)
		w.unlock(holds[0])
		one := w.soon(queue[0]).hold
		w.waits(queue[1])
		w.unlock(holds[2])
		two := w.soon(queue[1]).hold
		big := w.join("x", permits(b, 3)) // more than the semaphore has now
		w.unlock(one, two)
		time.Sleep(ttl)
		w.waits(big)
		mustBe(w, a.Resize(w.ctx, 4), nil)
		w.finish(w.soon(big).hold)
	})
	subtest(t, "what a client knew", locktest.Options{}, func(w *world) {
		holds := w.holdPermits(4, 1, 1)
		a, b := w.sem("a", 4), w.sem("b", 4)
		w.unlock(w.take(permits(a, 2)))
		mustBe(w, b.Resize(w.ctx, 2), nil)
		for _, s := range []*lock.Semaphore{a, b} {
			mustBe(w, second(s.TryAcquire(w.ctx, 1)), lock.ErrHeld)
		}
		third := w.join("x", permits(a, 1))
		w.waits(third)
		w.unlock(holds[1])
		w.finish(w.soon(third).hold, holds[0])
	})
	subtest(t, "a lone contender that asks for more", locktest.Options{}, func(w *world) {
		kept := lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: true})
		a, b := w.dial("a", kept).Semaphore("x", 4), w.dial("b", kept).Semaphore("x", 4)
		w.unlock(w.take(permits(a, 1)))
		w.ok(a.Resize(w.ctx, 2))
		big := w.join("x", permits(b, 3))
		w.waits(big)
		w.ok(a.Resize(w.ctx, 4))
		w.unlock(w.soon(big).hold)
	})
}

// TestConcurrentResize: if another call raises to 4 while a raise to 3 is in flight, the first call
// waits until enough permits are free, and then lowers the number to 3.
func TestConcurrentResize(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a").Semaphore("x", 2), w.dial("b").Semaphore("x", 2), w.dial("c").Semaphore("x", 2)
		holds := []*lock.Hold{w.take(permits(a, 2))}
		hit := w.fault(func(r locktest.Request) bool {
			if !mutates(r, "b") || !touches(r, "/locks/x/") {
				return false
			}
			go func() {
				mustBe(w, c.Resize(w.ctx, 4), nil)
				holds = append(holds, w.take(permits(c, 2)))
			}()
			return true
		}, locktest.Fault{Delay: time.Second})
		resized := start(func() (*lock.Hold, error) { return nil, b.Resize(w.ctx, 3) })
		w.until("the resize", hit)
		time.Sleep(2 * time.Second)
		w.waits(resized)
		equal(t, "resized to", w.anchor("x").Resized, 4)
		w.unlock(holds[0])
		w.ok(w.soon(resized).err)
		equal(t, "resized to", w.anchor("x").Resized, 3)
		w.finish(holds[1])
	})
}

// TestTryOfManyPermits: if 64 permits are held by as many clients, a failed try costs at most 25
// requests and no transaction.
func TestTryOfManyPermits(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		for i := range 64 {
			w.join("x", permits(w.sem(fmt.Sprint("h", i), 64), 1))
		}
		s := w.sem("a", 64)
		got := w.cost("a", func() { mustBe(w, second(s.TryAcquire(w.ctx, 1)), lock.ErrHeld) })
		isTrue(w, got.total() <= 25 && got.txns <= 0, "a try that fails cost %v", got.requests)
	})
}

// TestHandoffOfPermitsCost: at a semaphore of 4 permits, the handoff of a permit costs at most 13
// requests, with 16 clients and with 64. At a semaphore of 32 permits it costs at most 10.
func TestHandoffOfPermitsCost(t *testing.T) {
	for _, tt := range []struct{ permits, clients, most int }{{4, 16, 13}, {4, 64, 13}, {32, 64, 10}} {
		subtest(t, fmt.Sprintf("%d permits, %d clients", tt.permits, tt.clients), locktest.Options{}, func(w *world) {
			queue, _ := w.permitQueue(tt.permits, slices.Repeat([]int{1}, tt.clients)...)
			holds := w.expectEach(queue[:tt.permits]...)
			queue = queue[tt.permits:]
			time.Sleep(100 * time.Millisecond)
			before := map[string]int{}
			const handoffs = 8
			for i := range handoffs + 2 {
				if i == 2 { // the first two handoffs are not counted
					before = w.totals()
				}
				w.unlock(holds[i%tt.permits])
				holds[i%tt.permits] = w.soon(queue[i]).hold
				time.Sleep(20 * time.Millisecond) // until the grants are recorded
			}
			got, total := w.totals(), 0
			for op := range got {
				got[op] -= before[op]
				total += got[op]
			}
			atMost(w, "requests", total, tt.most*handoffs)
		})
	}
}

// TestPermitsAreUsed: while clients wait, at least three quarters of the permits are held on
// average if all holds last 20 ms, and three fifths if their lengths are random. The clients never
// hold more permits than there are. A grant costs at most the requests of the table.
func TestPermitsAreUsed(t *testing.T) {
	const hold = 20 * time.Millisecond
	for _, tt := range []struct {
		permits, clients int
		varies           bool
		least, requests  float64
	}{{4, 32, false, 0.75, 13}, {16, 32, false, 0.75, 10}, {64, 128, false, 0.75, 10}, {64, 128, true, 0.6, 14}} {
		subtest(t, fmt.Sprintf("%d permits, %d clients, varies %t", tt.permits, tt.clients, tt.varies), locktest.Options{Latency: func(string, string) time.Duration { return time.Millisecond / 2 }}, func(w *world) {
			ctx, stop := context.WithCancel(w.ctx)
			var held, most, grants atomic.Int64
			var clients sync.WaitGroup
			for i := range tt.clients {
				s, random := w.sem(fmt.Sprint("c", i), tt.permits), rand.New(rand.NewPCG(uint64(i), 1))
				clients.Go(func() {
					for {
						h, err := s.Acquire(ctx, 1)
						if err != nil {
							return
						}
						grants.Add(1)
						most.Store(max(most.Load(), held.Add(1)))
						length := 1.0
						if tt.varies {
							length = random.ExpFloat64()
						}
						time.Sleep(time.Duration(length * float64(hold)))
						held.Add(-1)
						h.Unlock()
					}
				})
			}
			time.Sleep(400 * time.Millisecond)
			before, begun := w.totals(), grants.Load()
			sum, samples := int64(0), 400
			for range samples {
				time.Sleep(time.Millisecond)
				sum += held.Load()
			}
			after, total := w.totals(), 0
			for op := range after {
				total += after[op] - before[op]
			}
			requests := float64(total) / float64(grants.Load()-begun)
			stop()
			clients.Wait()
			average := float64(sum) / float64(samples)
			w.Logf("%d permits: %.1f held on average, %d at most, %.1f requests for each grant", tt.permits, average, most.Load(), requests)
			isTrue(w, average >= tt.least*float64(tt.permits) && most.Load() <= int64(tt.permits), "%.1f held on average, and %d at most", average, most.Load())
			isTrue(w, requests <= tt.requests, "%.1f requests for each grant, want at most %v", requests, tt.requests)
			w.empty()
		})
	}
}

// TestJoinBehindPermitsWakesOne: of the clients that request one of 4 permits each, or 3 each, only the
// first waiter lists when another client joins.
func TestJoinBehindPermitsWakesOne(t *testing.T) {
	each(t, "ask", []int{1, 3}, func(w *world, ask int) {
		const n, clients = 4, 40
		w.permitQueue(n, slices.Repeat([]int{ask}, clients)...)
		time.Sleep(100 * time.Millisecond)
		atMost(w, "lists", w.totals()["getChildren2"], clients+n)
	})
}

// TestQueueForPermitsNeedsNoList: while no permit is released, all waiters together list at most 4
// times in ten TTLs behind 4 permits, and at most 44 times behind 20 permits.
func TestQueueForPermitsNeedsNoList(t *testing.T) {
	for permits, most := range map[int]int{4: 4, 20: 4*10 + 4} {
		subtest(t, fmt.Sprint("permits ", permits), locktest.Options{}, func(w *world) {
			w.permitQueue(permits, slices.Repeat([]int{1}, permits+20)...)
			time.Sleep(ttl)
			before := w.totals()["getChildren2"]
			time.Sleep(10 * ttl)
			atMost(w, "lists", w.totals()["getChildren2"]-before, most)
		})
	}
}

// TestForeignEntryAtASemaphore: an entry of another library counts as one permit, and clients
// behind it wait until it is deleted.
func TestForeignEntryAtASemaphore(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		z := w.raw("other")
		a, b := w.dial("a").Semaphore("x", 2), w.dial("b").Semaphore("x", 2)
		first := w.take(permits(a, 1))
		theirs := w.create(z, "/locks/x/_c_f8b2-lock-", "", zk.FlagEphemeral|zk.FlagSequence)
		next, last := w.join("x", permits(b, 1)), w.join("x", permits(a, 1))
		w.waits(next)
		w.unlock(first)
		h := w.soon(next).hold
		w.waits(last)
		w.remove(z, theirs)
		w.finish(w.soon(last).hold, h)
	})
}

// TestConcurrentLowering: if two clients lower to the same number at the same time, both calls
// return, and no more permits than this number can be acquired.
func TestConcurrentLowering(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		var lowered sync.WaitGroup
		holder := w.dial("holder").Semaphore("x", 10)
		h := w.take(permits(holder, 1))
		limited := w.limited(time.Minute)
		for _, label := range []string{"a", "b"} {
			s := w.dial(label).Semaphore("x", 10)
			lowered.Go(func() {
				if err := s.Resize(limited, 4); err != nil {
					t.Errorf("%s: %v", label, err)
				}
			})
		}
		lowered.Wait()
		rest, err := holder.TryAcquire(w.ctx, 3)
		w.ok(err)
		mustBe(t, second(holder.TryAcquire(w.ctx, 1)), lock.ErrHeld)
		w.finish(rest, h)
	})
}

// TestRaiseBehindFewAndMany: the first waiter enters within a second after a raise, behind one
// holder and behind 20.
func TestRaiseBehindFewAndMany(t *testing.T) {
	each(t, "n", []int{1, 20}, func(w *world, n int) {
		a, b, c := w.dial("a").Semaphore("x", n), w.dial("b").Semaphore("x", n), w.dial("c").Semaphore("x", n)
		var holds []*lock.Hold
		for range n {
			holds = append(holds, w.take(permits(a, 1)))
		}
		ch := w.join("x", permits(b, 1))
		time.Sleep(100 * time.Millisecond)
		w.ok(c.Resize(w.ctx, n+1))
		holds = append(holds, w.inTime(ch, time.Second))
		w.finish(holds...)
	})
}
