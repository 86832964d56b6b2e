package lock_test

import (
	"context"
	"errors"
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

// outlived has the others wait for what a keeps of x until its lease has ended, while a is
// cut off, and returns the hold of b then.
func (w *world) outlived(b *lock.Client) *lock.Hold {
	w.Helper()
	w.Partition("a")
	return w.lock(b, "x")
}

// TestKeptEntryIsLost: who takes what was kept, and was purged meanwhile, queues anew; and
// what it leaves then is kept only until somebody else comes, as what was kept before.
func TestKeptEntryIsLost(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a", riding(time.Hour)), w.dial("b")
		w.unlock(w.lock(a, "x"))
		other := w.outlived(b)
		next := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) })
		settle()
		w.Heal("a")
		time.Sleep(ttl)
		w.unlock(other)
		h := w.await(next).hold
		w.alive(h)
		waiting := w.queue(w.ctx, b, "x")
		w.unlock(h)
		w.unlock(w.expect(waiting).hold)
		w.unlock(w.lock(a, "x"))
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		w.empty()
	})
}

// TestTryOfLostEntry: a try does not wait, also if what was kept for it is gone.
func TestTryOfLostEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a", riding(time.Hour)), w.dial("b")
		w.unlock(w.lock(a, "x"))
		other := w.outlived(b)
		try := start(func() (*lock.Hold, error) { return a.Mutex("x").TryLock(w.ctx) })
		settle()
		w.Heal("a")
		time.Sleep(ttl)
		mustBe(t, w.outcome(try).err, lock.ErrHeld)
		w.unlock(other)
		w.unlock(w.lock(a, "x"))
		if err := a.Release(w.ctx, "x"); err != nil {
			t.Error(err)
		}
		w.empty()
	})
}

// TestWhoGivesBackGivesUp while a request of it is on its way: all of what is left to do for
// a kept entry is done without it, the parent of the lock too. Simulated seed 3012982 showed a
// parent that stayed.
func TestWhoGivesBackGivesUp(t *testing.T) {
	for name, giveBack := range map[string]func(ctx context.Context, a *lock.Client) error{
		"release":      func(ctx context.Context, a *lock.Client) error { return a.Release(ctx, "x") },
		"several, try": func(ctx context.Context, a *lock.Client) error { return second(a.All([]string{"w", "x"}).TryLock(ctx)) },
		"release, and the client closes": func(ctx context.Context, a *lock.Client) error {
			closed := make(chan error, 1)
			context.AfterFunc(ctx, func() { closed <- a.Close() })
			err := a.Release(context.WithoutCancel(ctx), "x")
			if closing := <-closed; closing != nil || !errors.Is(err, lock.ErrClosed) {
				return fmt.Errorf("closed: %v, released: %w", closing, err)
			}
			return context.DeadlineExceeded
		},
	} {
		for k := range 3 { // deletes the entry, reads the parent, deletes it
			t.Run(fmt.Sprintf("%s, request %d", name, k), func(t *testing.T) {
				simulate(t, locktest.Options{}, func(w *world) {
					a, b := w.dial("a", riding(time.Hour)), w.dial("b")
					h := w.lock(b, "x")
					ch := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) })
					settle()
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
					mustBe(t, giveBack(ctx, a), context.DeadlineExceeded)
					w.until("hit", hit)
					time.Sleep(3 * time.Second)
					w.empty()
				})
			})
		}
	}
}

// TestTryAtKeptEntry: what a client keeps is not in its own way, whoever of it tries.
func TestTryAtKeptEntry(t *testing.T) {
	for name, try := range map[string]func(w *world, a *lock.Client) (interface{ Unlock() error }, error){
		"to read": func(w *world, a *lock.Client) (interface{ Unlock() error }, error) {
			return a.RWMutex("x").TryRLock(w.ctx)
		},
		"another TTL": func(w *world, a *lock.Client) (interface{ Unlock() error }, error) {
			return a.RWMutex("x", lock.WithTTL(ttl/2)).TryLock(w.ctx)
		},
		"without renewal": func(w *world, a *lock.Client) (interface{ Unlock() error }, error) {
			return a.RWMutex("x", lock.WithoutRenewal()).TryLock(w.ctx)
		},
		"several": func(w *world, a *lock.Client) (interface{ Unlock() error }, error) {
			return a.All([]string{"y", "z"}).TryLock(w.ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a := w.dial("a", riding(time.Hour))
				h, err := a.RWMutex("x").Lock(w.ctx)
				if err != nil {
					t.Fatal(err)
				}
				w.unlock(h)
				w.unlock(w.lock(a, "y"))
				settle()
				tried, err := try(w, a)
				if err != nil {
					t.Fatal(err)
				}
				if err := tried.Unlock(); err != nil {
					t.Error(err)
				}
				if err := a.Close(); err != nil {
					t.Error(err)
				}
				w.empty()
			})
		})
	}
}

// TestPassOfBrokenHold: who waits for the answer of a renewal, and that tells that the hold
// before was broken, queues anew.
func TestPassOfBrokenHold(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.dial("a", riding(0)), w.dial("c")
		h := w.lock(a, "x")
		line := w.line(w.ctx, a, "x", 2)
		sent := w.fault(func(r locktest.Request) bool { return renews(r, h) }, locktest.Fault{Delay: time.Second})
		extended := make(chan error, 1)
		go func() { extended <- h.Extend(w.ctx, ttl) }() // to what it is
		for settle(); !sent(); settle() {
		}
		broken := w.breaks(c, h.EntryPath())
		w.unlock(h)
		mustBe(t, <-extended, lock.ErrUnlocked)
		limited, cancel := context.WithTimeout(w.ctx, ttl)
		defer cancel()
		for _, next := range line {
			select {
			case got := <-next:
				if got.err != nil {
					t.Fatal(got.err)
				}
				w.alive(got.hold)
				w.unlock(got.hold)
			case <-limited.Done():
				t.Fatal("waits for a hold that was broken and unlocked")
			}
		}
		if err := broken.Wait(w.ctx, terms); err != nil {
			t.Error(err)
		}
		w.empty()
	})
}

// TestKeptEntryIsTaken: what somebody else has overwritten is not in the account of the
// parent any more, whoever notices it.
func TestKeptEntryIsTaken(t *testing.T) {
	for _, released := range []bool{false, true} {
		t.Run(fmt.Sprint("released ", released), func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				const idle = 3 * ttl
				a, z := w.dial("a", riding(idle)), w.raw("admin")
				w.unlock(w.lock(a, "x"))
				time.Sleep(idle / 2) // from now on it sleeps until what is kept has been for long enough
				h := w.lock(a, "x")
				time.Sleep(idle * 3 / 4)
				w.unlock(h)
				if _, err := z.Set(h.EntryPath(), []byte("mine"), -1); err != nil {
					t.Fatal(err)
				}
				time.Sleep(ttl / 2)
				if released {
					if err := a.Release(w.ctx, "x"); err != nil {
						t.Errorf("Release: %v", err)
					}
				}
				time.Sleep(2 * idle)
				w.remove(z, h.EntryPath())
				w.unlock(w.lock(a, "x", lock.WithIdle(0)))
				w.empty()
			})
		})
	}
}

// TestKeptEntryIsBroken: the client gives it back as soon as it learns of it, as the owner of a
// hold does.
func TestKeptEntryIsBroken(t *testing.T) {
	for _, released := range []bool{false, true} {
		t.Run(fmt.Sprint("released ", released), func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a, c := w.dial("a", riding(time.Hour)), w.dial("c")
				h := w.lock(a, "x")
				w.unlock(h)
				settle()
				begun := time.Now()
				broken := w.breaks(c, h.EntryPath())
				if released {
					if err := a.Release(w.ctx, "x"); err != nil {
						t.Errorf("Release: %v", err)
					}
				}
				if err := broken.Wait(w.ctx, terms); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took > ttl/2 {
					t.Errorf("it has gone after %v", took)
				}
				w.unlock(w.lock(a, "x", lock.WithIdle(0)))
				w.empty()
			})
		})
	}
}

// TestReleaseOfRemovedEntry: what somebody else has removed need not be given back.
func TestReleaseOfRemovedEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a", riding(time.Hour)), w.raw("admin")
		w.unlock(w.lock(a, "x"))
		settle()
		entry := w.entries("x")[0].Path
		sent := w.fault(func(r locktest.Request) bool { return mutates(r, "a") && touches(r, entry) }, locktest.Fault{Delay: time.Second})
		released := make(chan error, 1)
		go func() { released <- a.Release(w.ctx, "x") }()
		for settle(); !sent(); settle() {
		}
		w.remove(z, entry)
		if err := <-released; err != nil {
			t.Errorf("Release: %v", err)
		}
		w.empty()
	})
}

// TestContextOfReaderBefore: a hold is entered again by its context, although that has the
// values of one of a reader's hold that has ended.
func TestContextOfReaderBefore(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		rw := w.dial("a", riding(0)).RWMutex("x")
		read, err := rw.RLock(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		w.unlock(read)
		h, err := rw.Lock(context.WithoutCancel(read.Context()))
		if err != nil {
			t.Fatal(err)
		}
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

// TestPassesEnd: tokens rise however often an entry is passed on.
func TestPassesEnd(t *testing.T) {
	for name, idle := range map[string]time.Duration{"passed on": 0, "kept": time.Hour} {
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
				if err := a.Release(w.ctx, "x"); err != nil {
					t.Error(err)
				}
				w.empty()
			})
		})
	}
}

// TestReadersOfHoldInDoubt: readers who waited by the entry of one whose hold comes in doubt
// as it is granted do not wait for that one to read.
func TestReadersOfHoldInDoubt(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		begun := time.Now()
		var set atomic.Bool
		var forward atomic.Int64
		a := w.dial("a", riding(0), lock.WithClock(func() (mono, wall time.Duration) {
			if set.Load() && calledBy("(*seat).taken") && set.Swap(false) {
				forward.Store(int64(2 * ttl))
			}
			d := time.Since(begun)
			return d + time.Hour, d + 1000*time.Hour + time.Duration(forward.Load())
		}))
		writer, err := w.dial("b").RWMutex("x").Lock(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
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

// TestNotPassedIsForgotten: of an entry that was to be passed on, and leaves because others
// wait, nothing is remembered of who listened by it.
func TestNotPassedIsForgotten(t *testing.T) {
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
		for range 2 { // what has ended is forgotten after a while, as another one ends
			time.Sleep(time.Minute)
			h := w.lock(a, "y")
			h.Revoked()
			w.unlock(h)
		}
		if n := a.Wards(); n > 1 {
			t.Errorf("%d entries are remembered, want at most the last one", n)
		}
	})
}

// TestBargingAtKeptEntry: who barges is not kept out by what nobody holds.
func TestBargingAtKeptEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a", riding(time.Hour)), w.dial("b")
		w.unlock(w.lock(a, "x"))
		settle()
		limited, cancel := context.WithTimeout(w.ctx, 2*ttl)
		defer cancel()
		h, err := b.Mutex("x", lock.WithBarging()).Lock(limited)
		if err != nil {
			t.Fatal(err)
		}
		w.unlock(h)
		w.empty()
	})
}

// TestAttachedEntryIsNotDeleted: who waits by an entry that was kept learns that another
// process has attached to it, when its lease was over. What is there now is not its own to
// delete. No client gives away a ticket for what is passed on; a text can be had all the same.
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
		w.Partition("a")
		time.Sleep(ttl * 3 / 4)                                                       // no more than half of the lease is left
		next := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) }) // by the entry that is kept
		theirs := w.attach(b, ticket)
		ended := w.end(theirs)
		third := w.queue(w.ctx, c, "x")
		w.Heal("a")
		time.Sleep(ttl)
		if _, there := w.Node(theirs.EntryPath()); !there || !theirs.Valid() {
			t.Fatalf("the entry of who has attached is there: %v, its hold: %v", there, theirs.Err())
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

// TestTicketOfWhatHasEnded is for nothing, though its entry goes on with another hold.
func TestTicketOfWhatHasEnded(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", riding(time.Hour))
		h := w.lock(a, "x")
		w.unlock(h)
		next := w.lock(a, "x")
		if ticket := h.Ticket(); !ticket.IsZero() || next.EntryPath() != h.EntryPath() {
			t.Errorf("ticket %v for %s, which the next one has: %s", ticket, h.EntryPath(), next.EntryPath())
		}
		w.unlock(next)
	})
}

// TestEndOfSharedEntryIsTold: the last one of those who read by one entry is one who gave up
// just as it was granted. Then nobody has it, and nobody is asked for it any more.
func TestEndOfSharedEntryIsTold(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		var armed atomic.Bool
		ctx, cancel := context.WithCancel(w.ctx)
		clk := newClock(0, 0)
		a := w.dial("a", riding(0), lock.WithClock(func() (time.Duration, time.Duration) {
			if armed.Load() && calledBy("(*seat).taken") && armed.Swap(false) {
				cancel()
			}
			return clk.now()
		}))
		b := w.dial("b")
		w.unlock(w.lock(a, "other"))
		theirs := w.take(b.RWMutex("x").Lock)
		armed.Store(true)
		first := start(func() (*lock.Hold, error) {
			h, err := a.RWMutex("x").RLock(w.ctx)
			if err == nil {
				h.Revoked()
				w.unlock(h)
			}
			return h, err
		})
		settle()
		second := start(func() (*lock.Hold, error) { return a.RWMutex("x").RLock(ctx) })
		settle()
		w.unlock(theirs)
		mustBe(w, (<-first).err, nil)
		mustBe(w, (<-second).err, context.Canceled)
		time.Sleep(20 * time.Second)
		w.unlock(w.lock(a, "other")) // what has ended long ago is forgotten
		if n := a.Wards(); n != 0 {
			t.Errorf("%d entries are remembered that nobody has", n)
		}
		w.empty()
	})
}

// TestTicketOfReaderThatHasEnded: to ask a hold that has ended for a ticket is for nothing,
// and does nothing to those who read by the same entry.
func TestTicketOfReaderThatHasEnded(t *testing.T) {
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
			t.Errorf("who reads too has an entry of its own, %s", third.EntryPath())
		}
		w.unlock(second)
		w.unlock(third)
	})
}
