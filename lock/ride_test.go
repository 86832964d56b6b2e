package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

const window = 10 * time.Millisecond

// riding are the policies by which entries are passed on.
func riding(idle time.Duration) lock.Option {
	return lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: window, Idle: idle})
}

// line has n contenders of a client wait for a lock, one after the other.
func (w *world) line(ctx context.Context, c *lock.Client, name string, n int, opts ...lock.LockOption) (line []<-chan taken) {
	for range n {
		line = append(line, start(func() (*lock.Hold, error) { return c.Mutex(name, opts...).Lock(ctx) }))
		settle()
	}
	return line
}

// TestPassCostsNothing: who waits in the same client has the entry next, without a request,
// first come, first served; and each has a hold of its own.
func TestPassCostsNothing(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", riding(0))
		h := w.lock(a, "x")
		line := w.line(w.ctx, a, "x", 8)
		entry := h.EntryPath()
		w.wantCost("eight passes", w.cost("a", func() {
			for _, next := range line {
				before := h
				w.unlock(h)
				h = w.expect(next).hold
				mustBe(t, before.Err(), lock.ErrUnlocked)
				if before.Context().Err() == nil || h.Token().Compare(before.Token()) <= 0 {
					t.Errorf("the hold before goes on, or token %v follows %v", h.Token(), before.Token())
				}
				if h.EntryPath() != entry {
					t.Errorf("hold by %s, not by the entry passed on, %s", h.EntryPath(), entry)
				}
				w.alive(h)
			}
		}), map[string]int{}, 0)
		if got, want := h.Token(), (lock.Token{Czxid: w.node(entry).Stat.Czxid, Pass: 8}); got != want {
			t.Errorf("the token after eight passes is %v, want %v", got, want)
		}
		w.unlock(h)
		w.empty()
	})
}

// TestPassEnds: others wait for one window and one hold at most.
func TestPassEnds(t *testing.T) {
	for _, held := range []time.Duration{window / 5, 3 * window} {
		t.Run(held.String(), func(t *testing.T) {
			simulate(t, locktest.Options{Latency: func(string, string) time.Duration { return time.Millisecond }}, func(w *world) {
				a, b := w.dial("a", riding(0)), w.dial("b", riding(0))
				h := w.lock(a, "x")
				line := w.line(w.ctx, a, "x", 40)
				begun := time.Now()
				other := w.queue(w.ctx, b, "x")
				done := make(chan int)
				go func() { // of a
					passed := 0
					for {
						time.Sleep(held)
						if h.Unlock() != nil || passed == len(line) {
							break
						}
						got := <-line[passed]
						if passed++; got.hold.Token().Pass == 0 { // by another entry
							break
						}
						h = got.hold
					}
					done <- passed
				}()
				got := w.await(other)
				if waited, most := got.at.Sub(begun), window+held+20*time.Millisecond; waited > most {
					t.Errorf("the other process waited for %v, want at most %v", waited, most)
				}
				w.unlock(got.hold)
				passed := <-done
				if passed < 1 || passed == len(line) {
					t.Errorf("%d of %d in line were passed the entry before the other process had it", passed, len(line))
				}
			})
		})
	}
}

// TestPassGoesOnAlone: while nobody else waits the entry is passed on for as long as there is
// somebody, and a look for others in each window is all that it costs.
func TestPassGoesOnAlone(t *testing.T) {
	simulate(t, locktest.Options{Latency: func(string, string) time.Duration { return time.Millisecond }}, func(w *world) {
		a := w.dial("a", riding(0))
		h := w.lock(a, "x")
		const passes = 100
		line := w.line(w.ctx, a, "x", passes)
		got := w.cost("a", func() {
			for _, next := range line {
				time.Sleep(window / 5)
				w.unlock(h)
				h = w.await(next).hold
			}
		})
		if got.requests["exists"] > passes*4/10 || got.total() > got.requests["exists"]+2 { // a renewal, perhaps
			t.Errorf("%d passes with holds of a fifth of the window, and a look in each half of it at most, cost %v", passes, got.requests)
		}
		if h.Token().Pass != passes {
			t.Errorf("the last hold is by pass %d of %d", h.Token().Pass, passes)
		}
		w.unlock(h)
		w.empty()
	})
}

// TestRiderGivesUp: whoever gives up costs the others neither a request nor their place, also
// if the entry that all of them wait by was its own.
func TestRiderGivesUp(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a", riding(0)), w.dial("b")
		h := w.lock(b, "x")
		first, giveUp := context.WithCancelCause(w.ctx)
		second, giveUpToo := context.WithCancelCause(w.ctx)
		queue := []<-chan taken{w.queue(first, a, "x")}
		entry := w.entries("x")[1].Path
		queue = append(queue, w.line(second, a, "x", 1)...)
		queue = append(queue, w.line(w.ctx, a, "x", 2)...)
		last := w.queue(w.ctx, b, "x")
		why := errors.New("had enough")
		giveUpToo(why)
		mustBe(t, w.outcome(queue[1]).err, why)
		giveUp(why)
		mustBe(t, w.outcome(queue[0]).err, why)
		if e := w.entries("x"); len(e) != 3 || e[1].Path != entry {
			t.Fatalf("entries %q, want the one that the others wait by still there, %s", paths(e), entry)
		}
		w.unlock(h)
		third := w.expect(queue[2])
		if third.hold.EntryPath() != entry {
			t.Errorf("the third one has %s, want the place of the first, %s", third.hold.EntryPath(), entry)
		}
		w.unlock(third.hold)
		w.unlock(w.expect(queue[3]).hold)
		w.unlock(w.await(last).hold)
		w.empty()
	})
}

// TestPassNeedsGoodEnd: what did not end by an unlock, or is not what the next one would have
// written, is not passed on; who rides queues anew.
func TestPassNeedsGoodEnd(t *testing.T) {
	for name, test := range map[string]struct {
		opts []lock.LockOption
		end  func(*world, *lock.Hold)
	}{
		"extended": {end: func(w *world, h *lock.Hold) {
			if err := h.Extend(w.ctx, 2*ttl); err != nil {
				w.Fatal(err)
			}
			w.unlock(h)
		}},
		"removed": {end: func(w *world, h *lock.Hold) {
			w.remove(w.raw("admin"), h.EntryPath())
			<-h.Done()
		}},
		"removed, and unlocked before that was heard of": {end: func(w *world, h *lock.Hold) {
			w.remove(w.raw("admin"), h.EntryPath())
			if err := h.Extend(w.ctx, ttl); err == nil {
				w.Error("extended an entry that is not there")
			}
			if err := h.Unlock(); !errors.Is(err, lock.ErrRemoved) {
				w.Errorf("Unlock: %v", err)
			}
		}},
		"detached": {end: func(w *world, h *lock.Hold) {
			ticket, err := h.Detach(w.ctx, 0)
			if err != nil {
				w.Fatal(err)
			}
			attached, err := w.dial("b").Attach(w.ctx, ticket)
			if err != nil {
				w.Fatal(err)
			}
			w.unlock(attached)
		}},
		"max_hold": {end: func(w *world, h *lock.Hold) {
			time.Sleep(ttl + time.Second)
			mustBe(w, h.Err(), lock.ErrMaxHold)
		}},
		"a ticket": {end: func(w *world, h *lock.Hold) {
			h.Ticket()
			w.unlock(h)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: window, MaxHold: ttl}))
				h := w.lock(a, "x", test.opts...)
				line := w.line(w.ctx, a, "x", 2)
				ended, entry := w.end(h), h.EntryPath()
				test.end(w, h)
				next := w.await(line[0])
				w.inTurn(ended, next)
				if next.hold.EntryPath() == entry {
					t.Errorf("the next one has the entry that was not to be passed on")
				}
				w.alive(next.hold)
				w.unlock(next.hold)
				w.unlock(w.expect(line[1]).hold)
				w.empty()
			})
		})
	}
}

// TestMaxHoldIsForEachPass: each pass is a hold of its own.
func TestMaxHoldIsForEachPass(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: window, MaxHold: ttl}))
		h := w.lock(a, "x")
		for _, next := range w.line(w.ctx, a, "x", 5) {
			time.Sleep(ttl * 2 / 3)
			w.unlock(h)
			h = w.await(next).hold
		}
		if h.Token().Pass != 5 {
			t.Errorf("token %v, want that of the fifth pass", h.Token())
		}
		w.unlock(h)
	})
}

// TestEndedHoldDoesNotReenter: the context of a hold whose entry was passed on has not the
// hold of the next one.
func TestEndedHoldDoesNotReenter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", riding(0))
		before := w.lock(a, "x")
		line := w.line(w.ctx, a, "x", 1)
		w.unlock(before)
		h := w.expect(line[0]).hold
		again := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(before.Context()) })
		mustBe(t, w.outcome(again).err, lock.ErrUnlocked)
		mustBe(t, before.Unlock(), lock.ErrUnlocked)
		mustBe(t, before.Extend(w.ctx, ttl), lock.ErrUnlocked)
		if before.Valid() || before.Remaining() != 0 {
			t.Error("the hold before is valid still")
		}
		w.alive(h)
		w.unlock(h)
		w.empty()
	})
}

// TestTxnBeforePass: it was settled by then, so that the pass costs nothing. See
// TestTxnEndsWithItsHandle for one that is late.
func TestTxnBeforePass(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", riding(0))
		z := w.raw("admin")
		w.create(z, "/data", "0", 0)
		h := w.lock(a, "x")
		line := w.line(w.ctx, a, "x", 1)
		if err := h.Txn(w.ctx, &zk.SetDataRequest{Path: "/data", Data: []byte("1"), Version: -1}); err != nil {
			t.Fatal(err)
		}
		before := w.node(h.EntryPath()).Stat.Version
		w.unlock(h)
		next := w.await(line[0]).hold
		if now := w.node(next.EntryPath()).Stat.Version; next.EntryPath() != h.EntryPath() || now != before {
			t.Errorf("the entry was not passed on at the version that the transaction left, %d: it is at %d", before, now)
		}
		w.unlock(next)
		w.empty()
		w.remove(z, "/data")
	})
}

// TestPassIsToTheSame: who asks for something else has an entry of its own.
func TestPassIsToTheSame(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", riding(0))
		h := w.lock(a, "x")
		for _, opts := range [][]lock.LockOption{
			{lock.WithTTL(ttl / 2)}, {lock.WithMetadata(map[string]string{"k": "v"})}, {lock.WithoutRenewal()}, {lock.WithLocalWindow(0)},
		} {
			other := w.queue(w.ctx, a, "x", opts...)
			w.unlock(h)
			h = w.await(other).hold
			if h.Token().Pass != 0 {
				t.Errorf("token %v", h.Token())
			}
		}
		w.unlock(h)
		w.empty()
	})
}

// TestPermitsArePassedOn: as many have permits as there are, by no more entries, and who waits
// has one of those next.
func TestPermitsArePassedOn(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", riding(0))
		s := a.Semaphore("x", 3)
		var line []<-chan taken
		for range 9 {
			line = append(line, start(func() (*lock.Hold, error) { return s.Acquire(w.ctx, 1) }))
			settle()
		}
		if n := len(w.entries("x")); n != 3 {
			t.Errorf("%d entries for nine that want one of three permits, want 3", n)
		}
		var held []*lock.Hold
		for i, next := range line {
			if i >= 3 {
				w.waits(next)
				w.wantCost("a pass", w.cost("a", func() { w.unlock(held[i-3]) }), map[string]int{}, 0)
			}
			held = append(held, w.expect(next).hold)
		}
		for _, h := range held[6:] {
			w.unlock(h)
		}
		w.empty()
	})
}

// TestRidersOfWriter: who waits to write rides on a writer, and not on one that only reads.
func TestRidersOfWriter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", riding(0))
		rw := a.RWMutex("x")
		write := func() (*lock.Hold, error) { return rw.Lock(w.ctx) }
		h := w.expect(start(write)).hold
		second := start(write)
		settle()
		third := start(write)
		settle()
		w.wantCost("a pass", w.cost("a", func() { w.unlock(h) }), map[string]int{}, 0)
		h = w.expect(second).hold
		if err := h.Downgrade(w.ctx); err != nil {
			t.Fatal(err)
		}
		settle()
		if n := len(w.entries("x")); n != 2 {
			t.Errorf("%d entries after the downgrade, want that of the reader and one that waits to write", n)
		}
		w.waits(third)
		w.unlock(h)
		w.unlock(w.await(third).hold)
		w.empty()
	})
}

// TestKeptEntry: a lock that nobody else asks for costs nothing from the second time on.
func TestKeptEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", riding(time.Second))
		w.unlock(w.lock(a, "other", lock.WithIdle(0)))
		w.wantCost("the first use", w.cost("a", func() { w.unlock(w.lock(a, "x")) }), map[string]int{"multi": 1, "getChildren2": 1}, 1)
		var tokens []lock.Token
		w.wantCost("ten uses", w.cost("a", func() {
			for range 10 {
				h := w.lock(a, "x")
				w.alive(h)
				tokens = append(tokens, h.Token())
				w.unlock(h)
				time.Sleep(window)
			}
		}), map[string]int{}, 0)
		if !slices.IsSortedFunc(tokens, lock.Token.Compare) || tokens[0] == tokens[1] {
			t.Errorf("tokens do not rise: %v", tokens)
		}
		if h, err := a.Mutex("x").TryLock(w.ctx); err != nil {
			t.Errorf("TryLock of what is kept: %v", err)
		} else {
			w.unlock(h)
		}
		time.Sleep(990 * time.Millisecond)
		if n := len(w.entries("x")); n != 1 {
			t.Errorf("%d entries within the time", n)
		}
		time.Sleep(20 * time.Millisecond)
		settle()
		if left := w.nodes(); len(left) > 0 {
			t.Errorf("%q left after the time", left)
		}
	})
}

// TestKeptEntryIsGivenBack: at once to whoever else comes, of our libraries or another one,
// of this client or another; when it is released, and when the client closes.
func TestKeptEntryIsGivenBack(t *testing.T) {
	for name, come := range map[string]func(w *world, a *lock.Client){
		"another client": func(w *world, a *lock.Client) { w.unlock(w.lock(w.dial("b"), "x")) },
		"another library": func(w *world, a *lock.Client) {
			z := w.raw("b")
			w.remove(z, w.create(z, "/locks/x/_c_0123-lock-", "", 3))
		},
		"other settings": func(w *world, a *lock.Client) { w.unlock(w.lock(a, "x", lock.WithTTL(2*ttl), lock.WithIdle(0))) },
		"several locks": func(w *world, a *lock.Client) {
			hs, err := a.LockAll(w.ctx, "w", "x")
			if err != nil {
				w.Fatal(err)
			}
			if err := hs.Unlock(); err != nil {
				w.Fatal(err)
			}
		},
		"released": func(w *world, a *lock.Client) {
			if err := a.Release(w.ctx, "x"); err != nil {
				w.Fatal(err)
			}
			if n := len(w.entries("x")); n != 0 {
				w.Errorf("%d entries are left when Release returns", n)
			}
		},
		"the session ends": func(w *world, a *lock.Client) {
			w.ExpireLabel("a")
			w.unlock(w.lock(w.dial("b"), "x"))
		},
		"close": func(w *world, a *lock.Client) {
			if err := a.Close(); err != nil {
				w.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a := w.dial("a", riding(time.Hour))
				w.unlock(w.lock(a, "x"))
				settle()
				if n := len(w.entries("x")); n != 1 {
					t.Fatalf("%d entries are kept", n)
				}
				begun := time.Now()
				come(w, a)
				settle()
				if took := time.Since(begun); took > 2*ttl/3 {
					t.Errorf("it took %v", took)
				}
				w.empty()
			})
		})
	}
}

// TestKeptEntryOfLongHold: what is kept after a hold in which the client has used so many other
// locks that it forgot about this one is given back by Release, and had again, all the same.
func TestKeptEntryOfLongHold(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", riding(time.Hour))
		keep := func(name string) {
			h := w.lock(a, name)
			for i := range 5000 {
				w.unlock(w.lock(a, fmt.Sprintf("other/%d", i), lock.WithIdle(0)))
			}
			w.unlock(h)
			settle()
		}
		keep("x")
		w.wantCost("what is kept is had again", w.cost("a", func() { w.unlock(w.lock(a, "x")) }), map[string]int{}, 0)
		keep("y")
		if err := a.Release(w.ctx, "y"); err != nil {
			t.Fatal(err)
		}
		if n := len(w.entries("y")); n != 0 {
			t.Errorf("%d entries are left when Release returns", n)
		}
	})
}

// TestKeptEntryIsHeld: who comes while it is held has it after the unlock, not after another
// pass.
func TestKeptEntryIsHeld(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a", riding(time.Hour)), w.dial("b")
		w.unlock(w.lock(a, "x"))
		h := w.lock(a, "x")
		other := w.queue(w.ctx, b, "x")
		line := w.line(w.ctx, a, "x", 2)
		w.unlock(h)
		w.unlock(w.expect(other).hold)
		for _, next := range line {
			w.unlock(w.await(next).hold)
		}
		w.unlock(w.lock(b, "x"))
		w.empty()
	})
}

// TestKeptEntryIsRenewed, and one that somebody removes is missed by nobody.
func TestKeptEntryIsRenewed(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", riding(time.Hour))
		w.unlock(w.lock(a, "x"))
		entry := w.entries("x")[0].Path
		time.Sleep(5 * ttl)
		if n := w.node(entry).Stat.Version; n < 5 {
			t.Errorf("written %d times in five TTLs", n)
		}
		h := w.lock(a, "x")
		if h.EntryPath() != entry {
			t.Errorf("%s is held after %v, not what was kept", h.EntryPath(), 5*ttl)
		}
		w.unlock(h)
		w.remove(w.raw("admin"), entry)
		time.Sleep(ttl)
		h = w.lock(a, "x")
		w.alive(h)
		w.unlock(h)
		if err := a.Release(w.ctx, "x"); err != nil {
			t.Error(err)
		}
		w.empty()
	})
}

// TestRidersAsTheClientCloses: nobody stays behind, be it a rider or an entry.
func TestRidersAsTheClientCloses(t *testing.T) {
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			simulate(t, locktest.Options{Latency: func(string, string) time.Duration { return time.Millisecond }}, func(w *world) {
				a := w.dial("a", riding(time.Duration(i%2)*time.Hour))
				var lines []<-chan taken
				for _, name := range []string{"x", "y"} {
					for range 5 {
						lines = append(lines, start(func() (*lock.Hold, error) {
							for {
								h, err := a.Mutex(name).Lock(w.ctx)
								if err != nil {
									return h, err
								}
								time.Sleep(time.Duration(i) * time.Millisecond)
								h.Unlock()
							}
						}))
					}
				}
				time.Sleep(time.Duration(i*3) * time.Millisecond)
				if err := a.Close(); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Duration(i) * time.Millisecond)
				for _, ch := range lines {
					mustBe(t, w.outcome(ch).err, lock.ErrClosed)
				}
				w.empty()
			})
		})
	}
}

// TestReadersShareAnEntry: readers of one client that come within the window have one entry,
// and each a hold of its own; who comes later has another one.
func TestReadersShareAnEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a", riding(0)), w.dial("b")
		rw := a.RWMutex("x")
		type mine struct{}
		read := func(i int) <-chan taken {
			return start(func() (*lock.Hold, error) { return rw.RLock(context.WithValue(w.ctx, mine{}, i)) })
		}
		var held []*lock.Hold
		tokens := map[lock.Token]bool{}
		first := w.expect(read(0)).hold
		held = append(held, first)
		w.wantCost("nine more", w.cost("a", func() {
			for i := range 9 {
				held = append(held, w.expect(read(1+i)).hold)
			}
		}), map[string]int{}, 0)
		for i, h := range held {
			w.alive(h)
			tokens[h.Token()] = true
			if got := h.Context().Value(mine{}); got != i {
				t.Errorf("the context of reader %d carries %v", i, got)
			}
		}
		if len(tokens) != len(held) {
			t.Errorf("%d tokens of %d readers", len(tokens), len(held))
		}
		writer := start(func() (*lock.Hold, error) { return b.RWMutex("x").Lock(w.ctx) })
		w.until("the writer waits", func() bool { return len(w.entries("x")) == 2 })
		time.Sleep(2 * window)
		late := read(10)
		w.waits(late)

		w.unlock(first)
		if first.Valid() || first.Context().Err() == nil || !errors.Is(first.Err(), lock.ErrUnlocked) {
			t.Errorf("the first one, unlocked: %v", first.Err())
		}
		for _, h := range held[1:] {
			w.alive(h)
		}
		// By the context of one that has ended nobody enters again; by another's it does.
		anew := start(func() (*lock.Hold, error) { return rw.RLock(context.WithoutCancel(first.Context())) })
		w.waits(anew)
		again := w.expect(start(func() (*lock.Hold, error) { return rw.RLock(held[1].Context()) })).hold
		w.unlock(held[1])
		w.alive(again)
		mustBe(t, w.outcome(start(func() (*lock.Hold, error) { return rw.Lock(held[2].Context()) })).err, lock.ErrUpgrade)
		if err := held[2].Extend(w.ctx, ttl/10); err != nil || held[3].Remaining() < ttl/2 {
			t.Errorf("Extend of one that shares: %v, and the others have %v", err, held[3].Remaining())
		}
		w.unlock(again)
		if again.Context().Err() == nil {
			t.Error("entered twice and unlocked twice, it goes on")
		}
		for _, h := range held[2:] {
			w.waits(writer)
			w.unlock(h)
		}
		wrote := w.await(writer).hold
		w.waits(late)
		w.unlock(wrote)
		w.unlock(w.await(late).hold)
		w.unlock(w.await(anew).hold)
		w.empty()
	})
}

// TestReadersWaitTogether: those who wait for the same writer have one entry, and it is theirs
// together; if it is lost each of them is told.
func TestReadersWaitTogether(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a", riding(0)), w.dial("b")
		wrote := w.expect(start(func() (*lock.Hold, error) { return b.RWMutex("x").Lock(w.ctx) })).hold
		giveUp, cancel := context.WithCancel(w.ctx)
		var readers []<-chan taken
		for i := range 6 {
			ctx := w.ctx
			if i < 2 { // the one who joined, and one who rides
				ctx = giveUp
			}
			readers = append(readers, start(func() (*lock.Hold, error) { return a.RWMutex("x").RLock(ctx) }))
			settle()
		}
		if n := len(w.entries("x")); n != 2 {
			t.Errorf("%d entries, want the writer's and one for all readers", n)
		}
		cancel()
		for _, ch := range readers[:2] {
			mustBe(t, w.outcome(ch).err, context.Canceled)
		}
		w.unlock(wrote)
		var held []*lock.Hold
		for _, ch := range readers[2:] {
			held = append(held, w.expect(ch).hold)
		}
		w.remove(w.raw("admin"), held[0].EntryPath())
		time.Sleep(ttl)
		for _, h := range held {
			if h.Context().Err() == nil {
				t.Errorf("the context of token %v has not ended", h.Token())
			}
			mustBe(t, h.Err(), lock.ErrRemoved)
			mustBe(t, h.Unlock(), lock.ErrRemoved)
		}
		w.empty()
	})
}

// TestPassOfStaleLease: whoever is passed an entry that was not renewed for long writes it
// first.
func TestPassOfStaleLease(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", riding(0))
		h := w.lock(a, "x")
		line := w.line(w.ctx, a, "x", 1)
		var refused bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if renews(r, h) && !refused {
				return locktest.Fault{Code: codeThrottled}
			}
			return locktest.Fault{}
		})
		time.Sleep(ttl * 7 / 10)
		version := w.node(h.EntryPath()).Stat.Version
		refused = true
		w.unlock(h)
		next := w.await(line[0]).hold
		if n := w.node(next.EntryPath()); next.EntryPath() == h.EntryPath() && n.Stat.Version == version {
			t.Errorf("it was passed on with %v left, unwritten", next.Remaining())
		}
		if next.Remaining() < ttl/2 {
			t.Errorf("whoever is next has %v left", next.Remaining())
		}
		w.unlock(next)
		w.Intercept(nil)
		w.empty()
	})
}

// TestPassAwaitsTheLastRenewal: whoever is next waits for the answer of a renewal that is on
// its way, and has not the entry if that tells that it is gone.
func TestPassAwaitsTheLastRenewal(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprint("gone ", gone), func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a, z := w.dial("a", riding(0)), w.raw("admin")
				h := w.lock(a, "x")
				entry := h.EntryPath()
				line := w.line(w.ctx, a, "x", 1)
				sent := w.fault(func(r locktest.Request) bool { return renews(r, h) }, locktest.Fault{Delay: time.Second})
				extended := make(chan error, 1)
				go func() { extended <- h.Extend(w.ctx, ttl) }() // to what it is
				for settle(); !sent(); settle() {
				}
				if gone {
					w.remove(z, entry)
				}
				w.unlock(h)
				mustBe(t, <-extended, lock.ErrUnlocked)
				w.waits(line[0])
				next := w.await(line[0]).hold
				w.alive(next)
				if by := next.EntryPath() == entry; by == gone {
					t.Errorf("by the entry that was passed on: %v", by)
				}
				time.Sleep(ttl)
				w.alive(next)
				w.unlock(next)
				w.empty()
			})
		})
	}
}

// TestPassedEntryLeavesTheParent: whose entry was passed on has others of its process still
// know that one is there, and the last one out see to the parent.
func TestPassedEntryLeavesTheParent(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", riding(0))
		h := w.lock(a, "x")
		line := w.line(w.ctx, a, "x", 1)
		w.unlock(h)
		h = w.expect(line[0]).hold
		other := w.queue(w.ctx, a, "x", lock.WithLocalWindow(0))
		w.unlock(h)
		w.unlock(w.expect(other).hold)
		w.empty()
	})
}

// TestTryLockAsksForWhatIsKept: a try elsewhere has an entry that is only kept given back, and
// is not in the way of one that is held.
func TestTryLockAsksForWhatIsKept(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a", riding(time.Minute)), w.dial("b")
		h := w.lock(a, "x")
		begun := time.Now()
		_, err := b.Mutex("x").TryLock(w.ctx)
		mustBe(t, err, lock.ErrHeld)
		if took := time.Since(begun); took < 100*time.Millisecond || took > 150*time.Millisecond {
			t.Errorf("it asked for %v", took)
		}
		settle()
		if n := len(w.entries("x")); n != 1 {
			t.Errorf("%d entries after the try", n)
		}
		w.wantCost("another try in that time", w.cost("b", func() {
			_, err = b.Mutex("x").TryLock(w.ctx)
			mustBe(t, err, lock.ErrHeld)
		}), map[string]int{"getChildren2": 1, "getData": 1}, 0)
		w.unlock(h) // somebody came meanwhile, so it is not kept
		time.Sleep(30 * time.Second)
		w.unlock(w.lock(a, "x"))
		settle()
		if n := len(w.entries("x")); n != 1 {
			t.Fatalf("%d entries are kept", n)
		}
		time.Sleep(31 * time.Second)
		h, err = b.Mutex("x").TryLock(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		w.alive(h)
		w.unlock(h)
		w.empty()
	})
}

// TestTryLockAsksForWhatTellsNoGrant: who is alone at a lock has it, or keeps it. Where others
// wait nothing is kept, and nothing asked for.
func TestTryLockAsksForWhatTellsNoGrant(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a", riding(time.Hour)), w.dial("b")
		w.unlock(w.lock(b, "y"))
		w.create(w.raw("other"), "/locks/x", "", 0) // who makes the parent tells its grant at once
		w.unlock(w.lock(a, "x"))
		settle()
		if r := w.record(w.entries("x")[0].Path); r.Granted() {
			t.Error("it tells its grant")
		}
		h, err := b.Mutex("x").TryLock(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		w.unlock(h)

		h = w.lock(a, "x")
		waits := w.queue(w.ctx, w.dial("c"), "x")
		time.Sleep(ttl / 2)
		w.wantCost("a try where others wait", w.cost("b", func() {
			_, err := b.Mutex("x").TryLock(w.ctx)
			mustBe(t, err, lock.ErrHeld)
		}), map[string]int{"getChildren2": 1, "getData": 1}, 0)
		w.unlock(h)
		w.unlock(w.expect(waits).hold)
	})
}
