package lock_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"math"
	"path"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// windowOver lets the window of a client's hold end, with local waiters behind it: right after a
// look for others the next one is far off.
func (w *world) windowOver(label string) {
	w.Helper()
	time.Sleep(ttl)
	looks := func() int { return w.Requests()[label].Requests["getChildren2"] }
	before := looks()
	w.until("a look for others", func() bool { return looks() > before })
	time.Sleep(2 * window)
}

// TestExchangeInDoubt: the outcome of the transaction in which an entry leaves and another one
// joins is not known. The place of the client has one entry after that, or none if all of its
// waiters give up meanwhile, or the client closes.
func TestExchangeInDoubt(t *testing.T) {
	for _, then := range []string{"they wait on", "they give up", "the client closes"} {
		t.Run(then, func(t *testing.T) {
			forEachMishap(t, func(w *world, i int) {
				a, b := w.dial("a", riding(0)), w.dial("b")
				h := w.lock(a, "x")
				ctx, giveUp := context.WithCancel(w.ctx)
				defer giveUp()
				line := w.line(ctx, a, "x", 2)
				w.windowOver("a")
				other := w.queue(w.ctx, b, "x")
				hit := w.mishap(i, "a", func(r locktest.Request) bool { return r.Op == "multi" && leaves(h)(r) && joins(r) })
				w.unlock(h)
				w.until("the mishap", hit)
				switch then {
				case "they wait on":
					w.inOrder(w.await(other).hold, line...)
				case "they give up":
					giveUp()
				default:
					mustBe(w, a.Close(), nil)
				}
				if then != "they wait on" {
					for _, ch := range line {
						if w.outcome(ch).err == nil {
							w.Error("a waiter that has given up has the lock")
						}
					}
					w.unlock(w.await(other).hold)
				}
				w.empty()
			})
		})
	}
}

// TestExchangeOfRemovedEntry: another client has deleted or written the entry that was to leave.
// The local waiters get another one.
func TestExchangeOfRemovedEntry(t *testing.T) {
	for _, removed := range []bool{true, false} {
		simulate(t, locktest.Options{}, func(w *world) {
			a, z := w.dial("a", riding(0)), w.raw("admin")
			h := w.lock(a, "x")
			line := w.line(w.ctx, a, "x", 2)
			w.windowOver("a")
			hit := w.before(func(r locktest.Request) bool { return r.Label == "a" && leaves(h)(r) }, func() {
				if removed {
					w.remove(z, h.EntryPath())
				} else if _, err := z.Set(h.EntryPath(), []byte("mine"), -1); err != nil {
					w.Error(err)
				}
			})
			w.unlock(h)
			w.until("the unlock", hit)
			if !removed {
				w.waits(line[0])
				w.remove(z, h.EntryPath())
			}
			w.inOrder(w.await(line[0]).hold, line[1])
			w.empty()
		})
	}
}

// TestKeptEntryIsLost: a goroutine that takes what was kept, and was purged meanwhile, queues
// anew, and a try fails. What is kept after that is given back as before.
func TestKeptEntryIsLost(t *testing.T) {
	for _, try := range []bool{false, true} {
		simulate(t, locktest.Options{}, func(w *world) {
			a, b := w.dial("a", riding(time.Hour)), w.dial("b")
			w.unlock(w.lock(a, "x"))
			w.kill("a")
			other := w.lock(b, "x")
			take := a.Mutex("x").Lock
			if try {
				take = a.Mutex("x").TryLock
			}
			next := start(func() (*lock.Hold, error) { return take(w.ctx) })
			settle()
			w.Heal("a")
			time.Sleep(ttl)
			if try {
				mustBe(t, w.outcome(next).err, lock.ErrHeld)
				w.unlock(other)
				next = w.line(w.ctx, a, "x", 1)[0]
			} else {
				w.unlock(other)
			}
			h := w.await(next).hold
			w.alive(h)
			waiting := w.queue(w.ctx, b, "x")
			w.unlock(h)
			w.unlock(w.expect(waiting).hold)
			w.unlock(w.lock(a, "x"))
			mustBe(t, a.Close(), nil)
			w.empty()
		})
	}
}

// TestLostWatches: after a reconnect the server refuses to set the watches again. The client
// looks again by itself.
func TestLostWatches(t *testing.T) {
	for name, test := range map[string]struct {
		waits  func(w *world, a, b *lock.Client) // a comes to wait for an event
		served func(w *world, a, b *lock.Client) // that comes; returns when it was noticed
	}{
		"for others, of a kept entry": {
			func(w *world, a, b *lock.Client) { w.unlock(w.lock(a, "x")) },
			func(w *world, a, b *lock.Client) { w.unlock(w.lock(b, "x")) },
		},
		"for another library's entry": {
			func(w *world, a, b *lock.Client) {
				w.unlock(w.lock(b, "y"))
				w.create(w.raw("other"), "/locks/x", "", 0)
				w.create(w.raw("other"), "/locks/x/_c_0123-lock-0000000000", "", 0)
				w.queue(w.ctx, a, "x")
			},
			func(w *world, a, b *lock.Client) {
				w.remove(w.raw("other"), "/locks/x/_c_0123-lock-0000000000")
				w.until("it has the lock", func() bool { return a.Stats().Holds == 1 })
			},
		},
		"for more permits": {
			func(w *world, a, b *lock.Client) {
				w.take(permits(b.Semaphore("x", 1), 1))
				w.join("x", permits(a.Semaphore("x", 1), 1))
			},
			func(w *world, a, b *lock.Client) {
				mustBe(w, b.Semaphore("x", 1).Resize(w.ctx, 2), nil)
				w.until("it has a permit", func() bool { return a.Stats().Holds == 1 })
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a, b := w.dial("a", riding(time.Hour)), w.dial("b")
				test.waits(w, a, b)
				settle()
				var refused atomic.Bool
				w.Intercept(func(r locktest.Request) locktest.Fault {
					if r.Label == "a" && r.Op == "setWatches" {
						refused.Store(true)
						return locktest.Fault{Code: codeThrottled}
					}
					return locktest.Fault{}
				})
				w.Cut("a")
				w.until("the watches are refused", refused.Load)
				begun := time.Now()
				test.served(w, a, b)
				if took := time.Since(begun); took > 70*time.Second {
					t.Errorf("noticed after %v", took)
				}
			})
		})
	}
}

// TestGiveUpWhileKeptEntryLeaves: a request has the client give back what it keeps, and gives up
// while one of its requests is on its way. Nothing stays behind.
func TestGiveUpWhileKeptEntryLeaves(t *testing.T) {
	for k := range 3 {
		simulate(t, locktest.Options{}, func(w *world) {
			a, b := w.dial("a", riding(time.Hour)), w.dial("b")
			h := w.lock(b, "x")
			ch := w.queue(w.ctx, a, "x")
			w.unlock(h)
			w.unlock(w.expect(ch).hold) // it was not alone, so to leave takes more than one request
			seen := -1
			hit := w.fault(func(r locktest.Request) bool {
				if r.Label == "a" {
					seen++
				}
				return r.Label == "a" && seen == k
			}, locktest.Fault{Delay: time.Second})
			ctx, cancel := context.WithTimeout(w.ctx, time.Second/2)
			defer cancel()
			mustBe(t, second(a.All([]string{"w", "x"}).TryLock(ctx)), context.DeadlineExceeded)
			w.until("hit", hit)
			time.Sleep(3 * time.Second)
			w.empty()
		})
	}
}

// TestKeptEntryIsWritten by another client: it is forgotten. One that is force-released goes as
// soon as its client learns of it.
func TestKeptEntryIsWritten(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const idle = 3 * ttl
		a, z := w.dial("a", riding(idle)), w.raw("admin")
		w.unlock(w.lock(a, "x"))
		time.Sleep(idle / 2) // from now on it sleeps until what is kept was unused for long enough
		h := w.lock(a, "x")
		time.Sleep(idle * 3 / 4)
		w.unlock(h)
		if _, err := z.Set(h.EntryPath(), []byte("mine"), -1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * idle)
		w.remove(z, h.EntryPath())
		w.unlock(w.lock(a, "x", lock.WithIdle(0)))
		w.empty()
	})
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.dial("a", riding(time.Hour)), w.dial("c")
		h := w.lock(a, "x")
		w.unlock(h)
		settle()
		begun := time.Now()
		mustBe(t, w.breaks(c, h.EntryPath()).Wait(w.ctx, terms), nil)
		if took := time.Since(begun); took > ttl/2 {
			t.Errorf("it has gone after %v", took)
		}
		w.unlock(w.lock(a, "x", lock.WithIdle(0)))
		w.empty()
	})
}

// TestContextOfReaderBefore: a hold is entered again by its context, although that has the
// values of one of a reader's hold that has ended.
func TestContextOfReaderBefore(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		rw := w.dial("a", riding(0)).RWMutex("x")
		read := w.take(rw.RLock)
		w.unlock(read)
		h, err := rw.Lock(context.WithoutCancel(read.Context()))
		mustBe(t, err, nil)
		limited, cancel := context.WithTimeout(h.Context(), ttl)
		defer cancel()
		again, err := rw.Lock(limited)
		if err != nil {
			t.Fatalf("it waits for itself: %v", err)
		}
		w.unlock(again)
		w.unlock(h)
		w.empty()
	})
}

// TestTokensRiseAfterTheLastPass: an entry is handed on so often at most as its token can tell.
func TestTokensRiseAfterTheLastPass(t *testing.T) {
	for name, idle := range map[string]time.Duration{"handed on": 0, "kept": time.Minute} {
		t.Run(name, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a := w.dial("a", riding(idle))
				h := w.lock(a, "x")
				h.SetPass(math.MaxInt32 - 1)
				for range 3 {
					var line []<-chan taken
					if idle == 0 {
						line = w.line(w.ctx, a, "x", 1)
					}
					before := h.Token()
					w.unlock(h)
					if idle == 0 {
						h = w.expect(line[0]).hold
					} else {
						h = w.lock(a, "x")
					}
					if h.Token().Compare(before) <= 0 {
						t.Errorf("token %v follows %v", h.Token(), before)
					}
				}
				w.unlock(h)
				time.Sleep(idle)
				w.empty()
			})
		})
	}
}

// TestReadersOfHoldInDoubt: readers that waited together are granted an entry, and at that moment
// the hold comes in doubt. They do not wait for the first of them.
func TestReadersOfHoldInDoubt(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		begun := time.Now()
		var set atomic.Bool
		var forward atomic.Int64
		a := w.dial("a", riding(0), lock.WithClock(func() (mono, wall time.Duration) {
			if set.Load() && calledBy("(*placed).grant") && set.Swap(false) {
				forward.Store(int64(2 * ttl))
			}
			d := time.Since(begun)
			return d + time.Hour, d + 1000*time.Hour + time.Duration(forward.Load())
		}))
		writer := w.take(w.dial("b").RWMutex("x").Lock)
		var readers []<-chan taken
		for range 4 {
			readers = append(readers, start(func() (*lock.Hold, error) { return a.RWMutex("x").RLock(w.ctx) }))
			settle()
		}
		set.Store(true)
		w.unlock(writer)
		time.Sleep(ttl)
		if set.Load() {
			t.Fatal("the wall clock was not set")
		}
		var held []*lock.Hold
		for _, reader := range readers {
			held = append(held, w.expect(reader).hold)
		}
		for _, h := range held {
			if !h.Valid() {
				t.Errorf("hold of token %v: %v", h.Token(), h.Err())
			}
			w.unlock(h)
		}
		w.empty()
	})
}

// TestListenersOfEndedEntriesAreForgotten: an entry could have been handed on, and leaves because
// others wait; or the goroutine that shares it last gives up as it is granted.
func TestListenersOfEndedEntriesAreForgotten(t *testing.T) {
	forgotten := func(w *world, a *lock.Client, most int) {
		for range 2 { // what has ended is forgotten after a while, as another one ends
			time.Sleep(time.Minute)
			h := w.lock(a, "y")
			h.Revoked()
			w.unlock(h)
		}
		if n := a.Wards(); n > most {
			w.Errorf("%d entries are remembered, want at most %d", n, most)
		}
		w.empty()
	}
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a", riding(0)), w.dial("b")
		for range 10 {
			h := w.lock(a, "x")
			h.Revoked()
			line := w.line(w.ctx, a, "x", 1)
			other := w.queue(w.ctx, b, "x")
			time.Sleep(3 * window)
			w.unlock(h)
			w.unlock(w.await(other).hold)
			w.unlock(w.await(line[0]).hold)
			settle()
		}
		forgotten(w, a, 1)
	})
	simulate(t, locktest.Options{}, func(w *world) {
		var giveUp atomic.Pointer[context.CancelFunc]
		clk := newClock(0, 0)
		a := w.dial("a", riding(0), lock.WithClock(func() (time.Duration, time.Duration) {
			if f := giveUp.Load(); f != nil && calledBy("(*placed).serve") && giveUp.CompareAndSwap(f, nil) {
				(*f)()
			}
			return clk.now()
		}))
		b := w.dial("b")
		w.unlock(w.lock(a, "other"))
		canceled := 0
		for range 20 {
			theirs := w.take(b.RWMutex("x").Lock)
			ctx, cancel := context.WithCancel(w.ctx)
			var readers []<-chan taken
			for _, ctx := range []context.Context{w.ctx, ctx} {
				readers = append(readers, start(func() (*lock.Hold, error) {
					h, err := a.RWMutex("x").RLock(ctx)
					if err == nil {
						h.Revoked()
						w.unlock(h)
					}
					return h, err
				}))
				settle()
			}
			giveUp.Store(&cancel)
			w.unlock(theirs)
			mustBe(w, (<-readers[0]).err, nil)
			if got := <-readers[1]; got.err != nil { // or it was served before
				mustBe(w, got.err, context.Canceled)
				canceled++
			}
			time.Sleep(time.Second)
		}
		if canceled == 0 {
			t.Error("none has given up as it was granted")
		}
		forgotten(w, a, 1)
	})
}

// TestAttachedEntryIsNotDeleted: the lease of an entry that was kept is over, and another process
// has attached to it. A goroutine that was to go on with it learns that, and deletes nothing. The
// client gives out no ticket for what is handed on; the text of one can be made all the same.
func TestAttachedEntryIsNotDeleted(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a", riding(time.Hour)), w.dial("b"), w.dial("c")
		h := w.lock(a, "x")
		text := fmt.Sprintf("holdfast-ticket:1:mutex:/locks:%s:%s:0:0", h.Name(), path.Base(h.EntryPath()))
		ticket, err := lock.ParseTicket(fmt.Sprintf("%s:%08x", text, crc32.ChecksumIEEE([]byte(text))))
		if err != nil {
			t.Fatal(err)
		}
		w.unlock(h)
		w.kill("a")
		time.Sleep(ttl * 3 / 4)                                                       // no more than half of the lease is left
		next := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) }) // by the entry that is kept
		theirs := w.attach(b, ticket)
		ended := w.end(theirs)
		third := w.queue(w.ctx, c, "x")
		w.Heal("a")
		time.Sleep(ttl)
		if _, there := w.Node(theirs.EntryPath()); !there || !theirs.Valid() {
			t.Fatalf("the attached entry is there: %v, its hold: %v", there, theirs.Err())
		}
		w.waits(third)
		w.waits(next)
		w.unlock(theirs)
		got := <-third
		w.inTurn(ended, got)
		w.unlock(got.hold)
		w.unlock((<-next).hold)
	})
}

// TestTicketOfEndedReader: none is given, and the readers that have the entry still, or come to
// have it, notice nothing.
func TestTicketOfEndedReader(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: time.Second}))
		first, second := w.take(a.RWMutex("x").RLock), w.take(a.RWMutex("x").RLock)
		if first.EntryPath() != second.EntryPath() {
			t.Fatal("they do not share an entry")
		}
		w.unlock(first)
		if !first.Ticket().IsZero() {
			t.Error("a ticket for a hold that has ended")
		}
		third := w.take(a.RWMutex("x").RLock)
		if third.EntryPath() != second.EntryPath() {
			t.Errorf("a reader within the window has an entry of its own, %s", third.EntryPath())
		}
		w.unlock(second)
		w.unlock(third)
	})
}
