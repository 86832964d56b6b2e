package lock_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// together counts the entries of one lock that a request is to make.
func together(r locktest.Request) (n int) {
	byLock := map[string]int{}
	for _, p := range r.Paths {
		if r.Op == "multi" && (strings.HasSuffix(p, "-lock-") || strings.HasSuffix(p, "-__WRIT__") || strings.HasSuffix(p, "-__READ__")) {
			byLock[path.Dir(p)]++
			n = max(n, byLock[path.Dir(p)])
		}
	}
	return n
}

// mostTogether counts the most entries of one lock that are made in one request from now on.
func (w *world) mostTogether() *atomic.Int64 {
	most := new(atomic.Int64)
	w.Intercept(func(r locktest.Request) locktest.Fault {
		most.Store(max(most.Load(), int64(together(r))))
		return locktest.Fault{}
	})
	return most
}

// crowd has so many callers of a client come at once, one after the other, for a lock that
// somebody else has: while the first looks at its parent the others come to wait for their turn.
func (w *world) crowd(ctx context.Context, c *lock.Client, n int, opts ...lock.LockOption) (queue []<-chan taken) {
	w.Helper()
	for range n {
		queue = append(queue, start(func() (*lock.Hold, error) { return c.Mutex("x", opts...).Lock(ctx) }))
		synctest.Wait()
	}
	return queue
}

// drain lets all of them have the lock, one after the other, and checks that their tokens
// rise; and that nothing is left.
func (w *world) drain(h *lock.Hold, queue []<-chan taken) {
	w.Helper()
	for range queue {
		last := h.Token()
		w.unlock(h)
		if h = w.next(queue); h.Token().Compare(last) <= 0 {
			w.Errorf("token %v follows %v", h.Token(), last)
		}
	}
	w.unlock(h)
	w.empty()
}

// TestServerThatTakesLess cuts the connection of who sends more than eight entries at once,
// as one with a small jute.maxbuffer does. That is learnt once and not by each contender; and
// forgotten, since the server may be another one by then.
func TestServerThatTakesLess(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(a, "other"))
		h := w.lock(b, "x")
		var cuts atomic.Int32
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if together(r) > 8 {
				cuts.Add(1)
				return locktest.Fault{Drop: locktest.BeforeApply}
			}
			return locktest.Fault{}
		})
		large := lock.WithMetadata(map[string]string{"job": strings.Repeat("x", 4000)})
		queue := w.crowd(w.ctx, a, 100, large)
		w.until("all are queued", func() bool { return len(w.entries("x")) == 101 })
		if n := cuts.Load(); n < 1 || n > 2 {
			t.Errorf("%d connections were cut, want one for 32 entries and one for 16", n)
		}
		w.Intercept(nil)
		w.drain(h, queue)

		time.Sleep(2 * time.Minute)
		h, most := w.lock(b, "x"), w.mostTogether()
		queue = w.crowd(w.ctx, a, 40, large)
		w.until("all are queued again", func() bool { return len(w.entries("x")) == 41 })
		if most.Load() != 32 {
			t.Errorf("%d join at once two minutes later, want 32", most.Load())
		}
		w.drain(h, queue)
	})
}

// TestJoinTogether: contenders of one client that come at once join in one transaction, also
// if they ask for other TTLs, and have the lock in their order. None of them needs a list.
func TestJoinTogether(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const n = 20
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(a, "other"))
		h := w.lock(b, "x")
		var queue []<-chan taken
		cost := w.cost("a", func() {
			for i := range n {
				queue = append(queue, w.crowd(w.ctx, a, 1, lock.WithTTL(ttl+time.Duration(i)*time.Second))...)
			}
			w.until("all are queued", func() bool { return len(w.entries("x")) == 1+n })
		})
		// The parent is read, and then each reads who is ahead of it.
		w.wantCost("joins", cost, map[string]int{"multi": 2, "getData": 1 + n}, 2) // the first time in vain: there is a parent
		entries := w.entries("x")[1:]
		if first, last := entries[0].Stat.Czxid, entries[n-1].Stat.Czxid; first != last {
			t.Errorf("made by %d to %d, not together", first, last)
		}
		w.drain(h, queue)
	})
}

// TestJoinTogetherInParts: a transaction takes so many, however many there are.
func TestJoinTogetherInParts(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const n = 200
		a := w.dial("a")
		h, most := w.lock(a, "x"), w.mostTogether()
		queue := w.crowd(w.ctx, a, n)
		w.until("all are queued", func() bool { return len(w.entries("x")) == 1+n })
		if got := most.Load(); got != 32 {
			t.Errorf("%d entries in one transaction, want 32", got)
		}
		w.drain(h, queue)
	})
}

// TestJoinTogetherOfKinds: readers and writers join together too; who tries, campaigns or
// wants permits joins by itself.
func TestJoinTogetherOfKinds(t *testing.T) {
	for _, tt := range []struct {
		name string
		take func(c *lock.Client, i int) func(context.Context) (*lock.Hold, error)
		want bool
	}{
		{"writers", func(c *lock.Client, i int) func(context.Context) (*lock.Hold, error) { return c.RWMutex("x").Lock }, true},
		{"readers and writers", func(c *lock.Client, i int) func(context.Context) (*lock.Hold, error) {
			if i%2 == 0 {
				return c.RWMutex("x").Lock
			}
			return c.RWMutex("x").RLock
		}, true},
		{"permits", func(c *lock.Client, i int) func(context.Context) (*lock.Hold, error) {
			return func(ctx context.Context) (*lock.Hold, error) { return c.Semaphore("x", 2).Acquire(ctx, 2) }
		}, false},
		{"who barges", func(c *lock.Client, i int) func(context.Context) (*lock.Hold, error) {
			return c.Mutex("x", lock.WithBarging()).Lock
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a, b := w.dial("a"), w.dial("b")
				h, err := tt.take(b, 0)(w.ctx)
				if err != nil {
					t.Fatal(err)
				}
				most := w.mostTogether()
				var queue []<-chan taken
				for i := range 8 {
					queue = append(queue, start(func() (*lock.Hold, error) { return tt.take(a, i)(w.ctx) }))
				}
				time.Sleep(time.Second)
				if got := most.Load(); (got > 1) != tt.want {
					t.Errorf("at most %d entries in one transaction, want together: %v", got, tt.want)
				}
				w.unlock(h)
				for _, ch := range queue {
					go func() { w.unlock((<-ch).hold) }()
				}
				w.empty()
			})
		})
	}
}

// TestJoinTogetherGivenUp: some of those who are made together give up meanwhile, or once they
// are in the queue, among them the one who makes the request, and the last. Their entries go,
// nobody enters beside the holder, and the others have the lock.
func TestJoinTogetherGivenUp(t *testing.T) {
	for _, gone := range [][]int{{0}, {3}, {5, 7}, {7}, {0, 1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}} {
		t.Run(fmt.Sprint(gone), func(t *testing.T) {
			for _, later := range []bool{false, true} {
				t.Run(fmt.Sprintf("later %v", later), func(t *testing.T) { joinTogetherGivenUp(t, gone, later) })
			}
		})
	}
}

func joinTogetherGivenUp(t *testing.T, gone []int, later bool) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(a, "other"))
		h := w.lock(b, "x")
		ctx, cancel := context.WithCancel(w.ctx)
		hit := w.fault(func(r locktest.Request) bool { return together(r) == 8 }, locktest.Fault{DelayReply: time.Second})
		var stay, leave []<-chan taken
		for i := range 8 {
			if slices.Contains(gone, i) {
				leave = append(leave, w.crowd(ctx, a, 1)...)
			} else {
				stay = append(stay, w.crowd(w.ctx, a, 1)...)
			}
		}
		w.until("they join together", hit)
		if later {
			time.Sleep(2 * time.Second)
		}
		cancel()
		for _, ch := range leave {
			if got := w.outcome(ch); !errors.Is(got.err, context.Canceled) {
				t.Errorf("%v, %v, want that it was cancelled", got.hold, got.err)
			}
		}
		time.Sleep(2 * time.Second)
		if e := w.entries("x"); len(e) != 1+len(stay) {
			t.Errorf("entries %q, want the holder's and %d waiters'", paths(e), len(stay))
		}
		for _, ch := range stay {
			w.waits(ch)
		}
		w.drain(h, stay)
	})
}

// TestJoinTogetherAmbiguous: the outcome of the transaction is not known. Everybody finds the
// entry that it has, or joins anew, and nobody has two.
func TestJoinTogetherAmbiguous(t *testing.T) {
	for _, giveUp := range []bool{false, true} {
		t.Run(fmt.Sprintf("given up %v", giveUp), func(t *testing.T) {
			forEachMishap(t, func(w *world, i int) {
				a, b := w.dial("a"), w.dial("b")
				w.unlock(w.lock(a, "other"))
				h := w.lock(b, "x")
				ctx, cancel := context.WithCancel(w.ctx)
				hit := w.mishap(i, "a", func(r locktest.Request) bool { return together(r) == 8 })
				stay := w.crowd(w.ctx, a, 4)
				leave := w.crowd(ctx, a, 4)
				w.until("the mishap", hit)
				if giveUp {
					cancel()
				}
				time.Sleep(ttl)
				queue := stay
				if !giveUp {
					queue = append(queue, leave...)
				}
				for _, ch := range queue {
					w.waits(ch)
				}
				w.alive(h)
				if e := w.entries("x"); len(e) != 1+len(queue) {
					t.Errorf("entries %q, want the holder's and %d waiters'", paths(e), len(queue))
				}
				w.drain(h, queue)
				cancel()
			})
		})
	}
}

// TestJoinTogetherInOrder: who came first has the lock first, also if a transaction is lost.
func TestJoinTogetherInOrder(t *testing.T) {
	for _, giveUp := range []bool{false, true} {
		t.Run(fmt.Sprintf("first one gives up %v", giveUp), func(t *testing.T) {
			forEachMishap(t, func(w *world, i int) {
				const n = 100
				a, b := w.dial("a"), w.dial("b")
				w.unlock(w.lock(a, "other"))
				h := w.lock(b, "x")
				giving, giveItUp := context.WithCancel(w.ctx)
				defer giveItUp()
				hit := w.mishap(i, "a", func(r locktest.Request) bool {
					if together(r) != 32 {
						return false
					}
					if giveUp {
						giveItUp()
					}
					return true
				})
				queue := append(w.crowd(giving, a, 1), w.crowd(w.ctx, a, n-1)...)
				w.until("the mishap", hit)
				time.Sleep(ttl)
				if giveUp {
					if got := w.outcome(queue[0]); got.hold != nil {
						t.Error("it has the lock, and gave up")
					}
					queue = queue[1:]
				}
				for i, ch := range queue {
					w.unlock(h)
					w.until(fmt.Sprintf("caller %d has the lock", i), func() bool { return len(ch) > 0 })
					h = w.expect(ch).hold
				}
				w.unlock(h)
				w.empty()
			})
		})
	}
}

// TestJoinTogetherLostAndGivenUp: many give up while the reply is lost. What it takes to find
// and delete their entries grows with their number, and not with its square.
func TestJoinTogetherLostAndGivenUp(t *testing.T) {
	for _, n := range []int{8, 32} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a, b := w.dial("a"), w.dial("b")
				w.unlock(w.lock(a, "other"))
				h := w.lock(b, "x")
				ctx, cancel := context.WithCancel(w.ctx)
				defer cancel()
				hit := w.fault(func(r locktest.Request) bool {
					if together(r) != n {
						return false
					}
					time.AfterFunc(100*time.Millisecond, cancel)
					return true
				}, locktest.Fault{Drop: locktest.AfterApply, Delay: 300 * time.Millisecond})
				cost := w.cost("a", func() {
					w.crowd(ctx, a, n)
					w.until("the reply is lost", hit)
					time.Sleep(time.Minute)
				})
				if got := cost.requests["getChildren2"]; got > 4 || cost.total() > 8*n+20 {
					t.Errorf("it cost %v", cost.requests)
				}
				if e := w.entries("x"); len(e) != 1 {
					t.Errorf("entries %q, want the holder's alone", paths(e))
				}
				w.unlock(h)
				w.empty()
			})
		})
	}
}

// TestJoinTogetherOfLargeEntries: a server takes requests up to a length. Those with much
// metadata, and long ACLs, join in smaller parts.
func TestJoinTogetherOfLargeEntries(t *testing.T) {
	for _, acls := range []int{1, 150} {
		t.Run(fmt.Sprintf("ACLs of %d", acls), func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				acl := zk.WorldACL(zk.PermAll)
				for i := range acls - 1 {
					acl = append(acl, zk.ACL{Perms: zk.PermAll, Scheme: "digest", ID: fmt.Sprintf("user-%04d:%s", i, strings.Repeat("x", 28))})
				}
				const n = 100
				a := w.dial("a", lock.WithACL(acl...), lock.WithMetadata(map[string]string{"k": strings.Repeat("\x00", znode.MaxMetadata-1)}))
				b := w.dial("b", lock.WithACL(acl...))
				w.unlock(w.lock(a, "other"))
				h, most := w.lock(b, "x"), w.mostTogether()
				queue := w.crowd(w.ctx, a, n)
				w.until("all are queued", func() bool { return len(w.entries("x")) == 1+n })
				if got := most.Load(); got < 2 || got > 12 { // of 24 kB and more, in 256
					t.Errorf("%d entries in one transaction", got)
				}
				w.drain(h, queue)
			})
		})
	}
}

// TestJoinTogetherRefused: the entry by which they know the parent has just left. Nothing was
// made, and all join by the next transaction, also if the one who made the request has given up.
func TestJoinTogetherRefused(t *testing.T) {
	for _, giveUp := range []bool{false, true} {
		t.Run(fmt.Sprintf("given up %v", giveUp), func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a, b := w.dial("a"), w.dial("b")
				w.unlock(w.lock(a, "other"))
				h := w.lock(b, "x")
				ctx, cancel := context.WithCancel(w.ctx)
				giving, giveItUp := context.WithCancel(w.ctx)
				defer giveItUp()
				last := w.queue(ctx, b, "x")
				hit := w.before(func(r locktest.Request) bool { return together(r) == 8 }, func() {
					cancel()
					w.until("it has left", func() bool { return len(w.entries("x")) == 1 })
					if giveUp {
						giveItUp()
						time.Sleep(time.Second)
					}
				})
				first := w.crowd(giving, a, 1)
				queue := w.crowd(w.ctx, a, 7)
				w.until("somebody left before they joined", hit)
				if giveUp {
					if got := w.outcome(first[0]); !errors.Is(got.err, context.Canceled) {
						t.Errorf("%v, %v, want that it was cancelled", got.hold, got.err)
					}
				} else {
					queue = append(queue, first...)
				}
				w.until("all are queued", func() bool { return len(w.entries("x")) == 1+len(queue) })
				if w.outcome(last).err == nil {
					t.Error("it has not left")
				}
				w.drain(h, queue)
			})
		})
	}
}

// TestJoinTogetherAndClose: a client that closes while its contenders join together leaves
// nothing behind.
func TestJoinTogetherAndClose(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(a, "other"))
		h := w.lock(b, "x")
		hit := w.fault(func(r locktest.Request) bool { return together(r) == 8 }, locktest.Fault{DelayReply: time.Second})
		queue := w.crowd(w.ctx, a, 8)
		w.until("they join together", hit)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		for _, ch := range queue {
			if got := w.outcome(ch); !errors.Is(got.err, lock.ErrClosed) {
				t.Errorf("%v, %v, want that the client is closed", got.hold, got.err)
			}
		}
		if e := w.entries("x"); len(e) != 1 {
			t.Errorf("entries %q, want the holder's alone", paths(e))
		}
		w.unlock(h)
		w.empty()
	})
}

// TestTheTailOfThoseWhoJoinTogether: whoever joins behind them knows the last one, and needs
// no list.
func TestTheTailOfThoseWhoJoinTogether(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a"), w.dial("b"), w.dial("c")
		w.unlock(w.lock(a, "other"))
		w.unlock(w.lock(c, "other"))
		h := w.lock(b, "x")
		queue := w.crowd(w.ctx, a, 8)
		w.until("all are queued", func() bool { return len(w.entries("x")) == 9 })
		var last <-chan taken
		cost := w.cost("c", func() { last = w.queue(w.ctx, c, "x") })
		w.wantCost("join", cost, map[string]int{"multi": 2, "getData": 2}, 2) // the first time in vain: there is a parent
		w.drain(h, append(queue, last))
	})
}

// TestJoinTogetherBehindReaders: a writer that has joined with the readers before it lists while
// others join, and not when these have gone: then the list is as long as there are waiters.
func TestJoinTogetherBehindReaders(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(a, "other"))
		most, m := w.mostTogether(), a.RWMutex("x")
		writer := w.take(b.RWMutex("x").Lock)
		join := func(take taking) <-chan taken {
			ch := start(func() (*lock.Hold, error) { return take(w.ctx) })
			synctest.Wait()
			return ch
		}
		var groups [][]<-chan taken // of a writer, and the readers behind it
		for range 4 {
			groups = append(groups, []<-chan taken{join(m.Lock), join(m.RLock), join(m.RLock)})
		}
		settle()
		if most.Load() < 6 {
			t.Errorf("at most %d joined in one transaction", most.Load())
		}
		cost := w.cost("a", func() {
			for _, group := range groups {
				w.unlock(writer)
				writer = w.expect(group[0]).hold
				time.Sleep(time.Second) // its grant is told
				w.unlock(writer)
				first, second := w.expect(group[1]).hold, w.expect(group[2]).hold
				w.unlock(first)
				writer = second
			}
		})
		if lists := cost.requests["getChildren2"]; lists != 0 {
			t.Errorf("they made %d lists when they had joined: %v", lists, cost.requests)
		}
		w.unlock(writer)
		w.empty()
	})
}
