package lock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// permits is a way to take so many of them.
func permits(s *lock.Semaphore, n int) taking {
	return func(ctx context.Context) (*lock.Hold, error) { return s.Acquire(ctx, n) }
}

func tryPermits(s *lock.Semaphore, n int) taking {
	return func(ctx context.Context) (*lock.Hold, error) { return s.TryAcquire(ctx, n) }
}

// soon returns the outcome that must have come by the time that grants are recorded.
func (w *world) soon(ch <-chan taken) taken {
	w.Helper()
	time.Sleep(5 * time.Millisecond)
	return w.expect(ch)
}

// TestSemaphoreIsFair: as many as there are permits for are in, in order, whoever leaves.
func TestSemaphoreIsFair(t *testing.T) {
	for _, long := range []bool{false, true} { // longer than a grant takes to be recorded
		simulate(t, locktest.Options{}, func(w *world) {
			sem := map[string]*lock.Semaphore{}
			for _, label := range []string{"a", "b", "c"} {
				sem[label] = w.dial(label).Semaphore("x", 3)
			}
			labels := []string{"a", "b", "c"}
			var holds []*lock.Hold
			for i := range 3 {
				holds = append(holds, w.take(permits(sem[labels[i]], 1)))
			}
			if _, err := sem["a"].TryAcquire(w.ctx, 1); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("a fourth: %v", err)
			}
			var queue []<-chan taken
			for i := range 9 {
				queue = append(queue, w.join("x", permits(sem[labels[i%3]], 1)))
			}
			for i, ch := range queue {
				for _, later := range queue[i:] {
					w.waits(later)
				}
				if long {
					time.Sleep(time.Second)
				}
				leaves := []int{1, 0, 2, 2, 0}[i%5]
				w.unlock(holds[leaves])
				holds[leaves] = w.soon(ch).hold
			}
			for _, h := range holds {
				w.unlock(h)
			}
			w.empty()
		})
	}
}

// TestBigRequestIsNotStarved by small ones behind it, and they get what it leaves.
func TestBigRequestIsNotStarved(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a").Semaphore("x", 4), w.dial("b").Semaphore("x", 4), w.dial("c").Semaphore("x", 4)
		first, second := w.take(permits(a, 2)), w.take(permits(b, 1))
		big := w.join("x", permits(c, 3))
		small, next := w.join("x", permits(a, 1)), w.join("x", permits(b, 1))
		if _, err := b.TryAcquire(w.ctx, 1); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("TryAcquire behind one who waits: %v", err)
		}
		w.unlock(second)
		w.waits(big)
		w.waits(small)
		w.unlock(first)
		h := w.soon(big).hold
		one := w.soon(small).hold
		w.waits(next)
		w.unlock(h)
		w.unlock(w.soon(next).hold)
		all := w.take(tryPermits(c, 3))
		w.unlock(one)
		w.unlock(all)
		w.empty()
	})
}

// TestSemaphoreWaitersGiveUp: whoever it is that goes, nobody misses its turn.
func TestSemaphoreWaitersGiveUp(t *testing.T) {
	for _, who := range [][]int{{0}, {2}, {4}, {1, 2, 3}, {0, 1, 2}, {3, 4}} {
		t.Run(fmt.Sprint(who), func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				clients := []*lock.Semaphore{w.dial("a").Semaphore("x", 2), w.dial("b").Semaphore("x", 2)}
				holds := []*lock.Hold{w.take(permits(clients[0], 1)), w.take(permits(clients[1], 1))}
				var queue []<-chan taken
				var cancels []context.CancelFunc
				for i := range 5 {
					ctx, cancel := context.WithCancel(w.ctx)
					defer cancel()
					cancels = append(cancels, cancel)
					n := 1 + i%2 // the second and the fourth ask for all
					queue = append(queue, w.join("x", func(context.Context) (*lock.Hold, error) { return clients[i%2].Acquire(ctx, n) }))
				}
				gone := map[int]bool{}
				for _, i := range who {
					cancels[i]()
					gone[i] = true
					if got := w.outcome(queue[i]); !errors.Is(got.err, context.Canceled) {
						t.Errorf("waiter %d: %v", i, got.err)
					}
				}
				settle()
				for i, ch := range queue {
					if gone[i] {
						continue
					}
					for _, h := range holds {
						w.unlock(h)
					}
					settle()
					holds = []*lock.Hold{w.soon(ch).hold}
				}
				for _, h := range holds {
					w.unlock(h)
				}
				w.empty()
			})
		})
	}
}

// TestPermitsMustAgree, and what is asked for must be there.
func TestPermitsMustAgree(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.take(permits(a.Semaphore("x", 4), 1))
		for _, c := range []*lock.Client{a, b} {
			for _, take := range []taking{permits(c.Semaphore("x", 3), 1), tryPermits(c.Semaphore("x", 3), 1)} {
				_, err := take(w.ctx)
				mustBe(t, err, lock.ErrPermits)
				mustSay(t, err, `"x"`, "has 4", "one of 3", "Resize")
			}
			mustBe(t, c.Semaphore("x", 3).Resize(w.ctx, 2), lock.ErrPermits)
			_, err := c.Mutex("x").Lock(w.ctx)
			mustBe(t, err, lock.ErrKind)
		}
		if p := w.anchor("x"); w.parent("x").Kind != znode.Semaphore || p.Permits != 4 {
			t.Errorf("the parent is %+v", p)
		}
		for _, n := range []int{-1, 0, 5} {
			_, err := a.Semaphore("x", 4).Acquire(w.ctx, n)
			mustBe(t, err, lock.ErrInvalid)
			mustSay(t, err, fmt.Sprint(n))
		}
		for _, n := range []int{-1, 0, lock.MaxPermits + 1} {
			_, err := a.Semaphore("x", n).Acquire(w.ctx, 1)
			mustBe(t, err, lock.ErrInvalid)
			mustBe(t, a.Semaphore("x", 4).Resize(w.ctx, n), lock.ErrInvalid)
		}
		_, err := (*lock.Semaphore)(nil).Acquire(w.ctx, 1)
		mustBe(t, err, lock.ErrInvalid)
		mustBe(t, (*lock.Semaphore)(nil).Resize(w.ctx, 1), lock.ErrInvalid)
		w.unlock(h)
		w.empty()
		w.unlock(w.take(permits(b.Semaphore("x", 3), 3))) // free, it is as large as the next one says
		w.empty()
	})
}

// TestSemaphoreIsNotReentered: each Acquire asks for permits of its own.
func TestSemaphoreIsNotReentered(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		s := w.dial("a").Semaphore("x", 2)
		err := s.Do(w.ctx, 1, func(ctx context.Context) error {
			return s.Do(ctx, 1, func(ctx context.Context) error {
				_, err := s.TryAcquire(ctx, 1)
				mustBe(t, err, lock.ErrHeld)
				if n := len(w.entries("x")); n != 2 {
					t.Errorf("%d entries", n)
				}
				return nil
			})
		})
		if err != nil {
			t.Error(err)
		}
		w.empty()
	})
}

// TestDeadHoldersOfPermits block their permits for their TTL and the grace, also in the
// midst of living ones; and so do those who died waiting.
func TestDeadHoldersOfPermits(t *testing.T) {
	for dead := range 3 {
		simulate(t, locktest.Options{}, func(w *world) {
			labels := []string{"a", "b", "c"}
			var holds []*lock.Hold
			for _, label := range labels {
				holds = append(holds, w.take(permits(w.dial(label).Semaphore("x", 3), 1)))
			}
			e := w.dial("e").Semaphore("x", 3)
			lost := w.join("x", permits(w.dial("d").Semaphore("x", 3), 1))
			next, last := w.join("x", permits(e, 1)), w.join("x", permits(e, 1))
			d := w.die(labels[dead], holds[dead].EntryPath())
			w.kill("d")
			got := w.await(next)
			if late := got.at.Sub(time.UnixMilli(d.end)) - grace; late <= 0 || late > 2*(ttl+grace) {
				t.Errorf("entered %v after the end of the dead one's TTL and the grace", late)
			}
			w.waits(last)
			for i, h := range holds {
				if i != dead {
					w.unlock(h)
				}
			}
			w.unlock(w.await(last).hold)
			w.unlock(got.hold)
			w.Heal(labels[dead])
			w.Heal("d")
			if got := <-lost; got.err == nil {
				w.unlock(got.hold)
			}
			w.empty()
		})
	}
}

// TestTryAcquireTakesWhatHasExpired, although a living one stands behind it.
func TestTryAcquireTakesWhatHasExpired(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		dead := w.take(permits(w.dial("a").Semaphore("x", 2), 1))
		b, c := w.dial("b").Semaphore("x", 2), w.dial("c").Semaphore("x", 2)
		living := w.take(permits(b, 1))
		w.die("a", dead.EntryPath())
		_, err := c.TryAcquire(w.ctx, 1)
		mustBe(t, err, lock.ErrHeld)
		time.Sleep(ttl + 2*grace)
		w.unlock(w.take(tryPermits(c, 1)))
		w.unlock(living)
		w.Heal("a")
		w.empty()
	})
}

// TestResizeRaises: who waits enters at once, be it first in the queue or behind that.
func TestResizeRaises(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a").Semaphore("x", 1), w.dial("b").Semaphore("x", 1), w.dial("c").Semaphore("x", 1)
		h := w.take(permits(a, 1))
		first, second, third := w.join("x", permits(b, 1)), w.join("x", permits(c, 1)), w.join("x", permits(a, 1))
		if err := c.Resize(w.ctx, 3); err != nil {
			t.Fatal(err)
		}
		one := w.soon(first).hold
		two := w.soon(second).hold
		w.waits(third)
		if p := w.anchor("x"); p.Permits != 1 || p.Resized != 3 {
			t.Errorf("the parent is %+v", p)
		}
		w.unlock(two)
		three := w.soon(third).hold
		for _, h := range []*lock.Hold{h, one, three} {
			w.unlock(h)
		}
		w.empty()
	})
}

// TestResizeLowers: it waits until enough is free, in turn, and nobody gets in beyond that.
func TestResizeLowers(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a").Semaphore("x", 4), w.dial("b").Semaphore("x", 4), w.dial("c").Semaphore("x", 4)
		var holds []*lock.Hold
		for _, s := range []*lock.Semaphore{a, b, c} {
			holds = append(holds, w.take(permits(s, 1)))
		}
		resized := w.join("x", func(ctx context.Context) (*lock.Hold, error) { return nil, b.Resize(ctx, 2) })
		next, last := w.join("x", permits(c, 1)), w.join("x", permits(a, 1))
		w.waits(resized)
		w.waits(next)
		w.unlock(holds[1])
		if got := w.outcome(resized); got.err != nil {
			t.Fatal(got.err)
		}
		w.waits(next)
		if p := w.anchor("x"); p.Permits != 4 || p.Resized != 2 {
			t.Errorf("the parent is %+v", p)
		}
		if _, err := b.TryAcquire(w.ctx, 1); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("TryAcquire: %v", err)
		}
		w.unlock(holds[0])
		one := w.soon(next).hold
		w.waits(last)
		w.unlock(holds[2])
		two := w.soon(last).hold
		big := w.join("x", permits(b, 3)) // more than there are now
		w.unlock(one)
		w.unlock(two)
		time.Sleep(ttl)
		w.waits(big)
		if err := c.Resize(w.ctx, 4); err != nil {
			t.Fatal(err)
		}
		w.unlock(w.soon(big).hold)
		w.empty()
	})
}

// TestResizedMeanwhile: a raise that somebody else's has overtaken takes permits away, and
// waits for that.
func TestResizedMeanwhile(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a").Semaphore("x", 2), w.dial("b").Semaphore("x", 2), w.dial("c").Semaphore("x", 2)
		holds := []*lock.Hold{w.take(permits(a, 2))}
		hit := w.fault(func(r locktest.Request) bool {
			if !mutates(r, "b") || !touches(r, "/locks/x/") {
				return false
			}
			go func() {
				if err := c.Resize(w.ctx, 4); err != nil {
					t.Error(err)
				}
				holds = append(holds, w.take(permits(c, 2)))
			}()
			return true
		}, locktest.Fault{Delay: time.Second})
		resized := start(func() (*lock.Hold, error) { return nil, b.Resize(w.ctx, 3) })
		w.until("the resize", hit)
		time.Sleep(2 * time.Second)
		w.waits(resized)
		if p := w.anchor("x"); p.Resized != 4 {
			t.Errorf("the parent is %+v", p)
		}
		w.unlock(holds[0])
		if got := w.soon(resized); got.err != nil {
			t.Error(got.err)
		}
		if p := w.anchor("x"); p.Resized != 3 {
			t.Errorf("the parent is %+v", p)
		}
		w.unlock(holds[1])
		w.empty()
	})
}

// TestLoweredForAll: whatever a client knew of the semaphore before.
func TestLoweredForAll(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a").Semaphore("x", 4), w.dial("b").Semaphore("x", 4), w.dial("c").Semaphore("x", 4)
		first, second := w.take(permits(a, 1)), w.take(permits(b, 1))
		if err := c.Resize(w.ctx, 2); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*lock.Semaphore{a, b, c} {
			_, err := s.TryAcquire(w.ctx, 1)
			mustBe(t, err, lock.ErrHeld)
		}
		third := w.join("x", permits(a, 1))
		w.waits(third)
		w.unlock(second)
		w.unlock(w.soon(third).hold)
		w.unlock(first)
		w.empty()
	})
}

// TestSemaphoreCost: a free one costs a transaction each way. Where there is room beside
// others, a list more. And a crowd hands permits on without any list.
func TestSemaphoreCost(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial("a").Semaphore("x", 4)
		w.unlock(w.take(permits(c, 1)))
		for range 2 {
			var h *lock.Hold
			w.wantCost("Acquire", w.cost("a", func() { h = w.take(permits(c, 2)) }), map[string]int{"multi": 1}, 1)
			w.wantCost("Unlock", w.cost("a", func() { w.unlock(h) }), map[string]int{"multi": 1}, 1)
		}
		h := w.take(permits(c, 1))
		w.wantCost("Acquire beside another", w.cost("a", func() { w.unlock(w.take(permits(c, 2))) }),
			map[string]int{"multi": 1, "getChildren2": 1, "getData": 1, "delete": 1}, 2)
		w.unlock(h)
		w.empty()
	})
}

// TestCrowdOfASemaphore: what a handoff costs does not depend on how many wait.
func TestCrowdOfASemaphore(t *testing.T) {
	per := map[int]int{}
	for _, contenders := range []int{16, 128} {
		simulate(t, locktest.Options{}, func(w *world) {
			const n = 4
			var holds []*lock.Hold
			var queue []<-chan taken
			for i := range contenders {
				s := w.dial(fmt.Sprint("c", i)).Semaphore("x", n)
				if i < n {
					holds = append(holds, w.take(permits(s, 1)))
				} else {
					queue = append(queue, w.join("x", permits(s, 1)))
				}
			}
			time.Sleep(100 * time.Millisecond)
			before := map[string]int{}
			const handoffs = 8
			for i := range handoffs + 2 {
				if i == 2 { // the first ones have learnt who is ahead
					before = w.totals()
				}
				w.unlock(holds[i%n])
				holds[i%n] = w.soon(queue[i]).hold
				time.Sleep(20 * time.Millisecond) // grants are recorded
			}
			got := w.totals()
			for op, n := range before {
				got[op] -= n
			}
			t.Logf("%d contenders, %d handoffs: %v", contenders, handoffs, got)
			if got["getChildren2"] > 0 {
				t.Errorf("%d lists in %d handoffs among %d", got["getChildren2"], handoffs, contenders)
			}
			for _, n := range got {
				per[contenders] += n
			}
			for _, h := range holds {
				w.unlock(h)
			}
			for _, ch := range queue[handoffs+2:] {
				w.unlock(w.await(ch).hold)
			}
			w.empty()
		})
	}
	if per[128] > per[16]*3/2 {
		t.Errorf("%d requests among 128, %d among 16", per[128], per[16])
	}
}

// TestJoinBehindASemaphore: who joins where more are than there are permits does not list,
// how many of its own client may be there: the first few do, and the one after them.
func TestJoinBehindASemaphore(t *testing.T) {
	for _, ask := range []int{1, 3} {
		simulate(t, locktest.Options{}, func(w *world) {
			const n = 4
			for _, client := range []string{"a", "b"} {
				s := w.dial(client).Semaphore("x", n)
				for range 30 {
					w.join("x", permits(s, ask))
				}
			}
			time.Sleep(100 * time.Millisecond)
			if got := w.totals()["getChildren2"]; got > 2*(n+1) {
				t.Errorf("60 that ask for %d of %d permits made %d lists as they joined", ask, n, got)
			}
		})
	}
}

// totals are the requests of all clients, by operation.
func (w *world) totals() map[string]int {
	all := map[string]int{}
	for _, r := range w.Requests() {
		for op, n := range r.Requests {
			all[op] += n
		}
	}
	maps.DeleteFunc(all, func(op string, _ int) bool { return op == "ping" })
	return all
}

// TestOthersAtASemaphore count as one permit each, and are waited for.
func TestOthersAtASemaphore(t *testing.T) {
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
		w.unlock(w.soon(last).hold)
		w.unlock(h)
		w.empty()
	})
}

// TestTwoLowerTogether: both mean the same number. Who comes second finds it reached, and
// does not wait for more permits than there are by then.
func TestTwoLowerTogether(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		var lowered sync.WaitGroup
		holder := w.dial("holder").Semaphore("x", 10)
		h := w.take(permits(holder, 1))
		limited, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
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
		if err != nil {
			t.Fatal(err)
		}
		_, err = holder.TryAcquire(w.ctx, 1)
		mustBe(t, err, lock.ErrHeld)
		w.unlock(rest)
		w.unlock(h)
		w.empty()
	})
}

// TestRidersHearOfMorePermits: who rides looks at no parent, and gets its permit all the same
// when there are more of them, and no sooner when there are fewer again.
func TestRidersHearOfMorePermits(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		s, other := w.dial("a", riding(0)).Semaphore("x", 1), w.dial("b").Semaphore("x", 1)
		var line []<-chan taken
		for range 6 {
			line = append(line, start(func() (*lock.Hold, error) { return s.Acquire(w.ctx, 1) }))
			settle()
		}
		first := w.expect(line[0]).hold
		if err := s.Resize(w.ctx, 2); err != nil {
			w.Fatal(err)
		}
		second := w.expect(line[1]).hold
		w.waits(line[2])
		if err := other.Resize(w.ctx, 3); err != nil {
			w.Fatal(err)
		}
		time.Sleep(2 * time.Second) // it is looked once a second
		third := w.expect(line[2]).hold
		w.waits(line[3])

		fewer := start(func() (*lock.Hold, error) { return nil, other.Resize(w.ctx, 1) })
		settle()
		w.unlock(first)
		w.unlock(second)
		if err := w.expect(fewer).err; err != nil {
			w.Fatal(err)
		}
		for rest := line[3:]; len(rest) > 0; { // one after the other, in any order: who rides may go before
			for _, next := range rest {
				w.waits(next)
			}
			w.unlock(third)
			settle()
			i := max(0, slices.IndexFunc(rest, func(next <-chan taken) bool { return len(next) > 0 }))
			third = w.expect(rest[i]).hold
			rest = slices.Delete(rest, i, i+1)
		}
		w.unlock(third)
		w.empty()
	})
}
