package lock_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

func (w *world) wantCost(what string, got cost, requests map[string]int, txns int64) {
	w.Helper()
	if !maps.Equal(got.requests, requests) || got.txns != txns {
		w.Errorf("%s cost %v and %d transactions, want %v and %d", what, got.requests, got.txns, requests, txns)
	}
}

func TestFreeLockIsOneRequestEachWay(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial("a")
		w.unlock(w.lock(c, "orders/42")) // makes the root and the ancestor, and learns the time
		for range 3 {
			time.Sleep(100 * time.Millisecond)
			var h *lock.Hold
			w.wantCost("Lock", w.cost("a", func() { h = w.lock(c, "orders/42") }), map[string]int{"multi": 1}, 1)
			if n := len(w.entries("orders/42")); n != 1 {
				t.Errorf("%d entries while held", n)
			}
			if h.Token().Czxid != w.node(h.EntryPath()).Stat.Czxid {
				t.Errorf("token %v, want the entry's czxid, %d", h.Token(), w.node(h.EntryPath()).Stat.Czxid)
			}
			w.wantCost("Unlock", w.cost("a", func() { w.unlock(h) }), map[string]int{"multi": 1}, 1)
			if got := w.nodes(); !slices.Equal(got, []string{"/locks/orders"}) {
				t.Errorf("nodes after Unlock: %q, want the ancestor alone", got)
			}
		}
	})
}

func TestKeptParentCostsNoMore(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: true}))
		w.unlock(w.lock(c, "x"))
		for range 3 {
			var h *lock.Hold
			w.wantCost("Lock", w.cost("a", func() { h = w.lock(c, "x") }), map[string]int{"multi": 1}, 1)
			w.wantCost("Unlock", w.cost("a", func() { w.unlock(h) }), map[string]int{"delete": 1}, 1)
			if got := w.nodes(); !slices.Equal(got, []string{"/locks/x"}) {
				t.Errorf("nodes after Unlock: %q, want the parent", got)
			}
		}
	})
}

func TestFailedTryLockWritesNothing(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(b, "other")) // knows the time
		h := w.lock(a, "x")
		var queue []<-chan taken
		for i := range 4 { // and with more and more waiters
			before := w.Dump("/")
			for _, c := range []struct {
				label  string
				client *lock.Client
			}{{"a", a}, {"b", b}} {
				got := w.cost(c.label, func() {
					h, err := c.client.Mutex("x").TryLock(w.ctx)
					if h != nil {
						t.Errorf("TryLock got %s", h.EntryPath())
					}
					mustBe(t, err, lock.ErrHeld)
				})
				if got.total() > 3 || got.txns != 0 {
					t.Errorf("TryLock of %s with %d waiters cost %v and %d transactions, want at most 3 requests and no transaction", c.label, i, got.requests, got.txns)
				}
			}
			same(t, before, w.Dump("/"))
			queue = append(queue, w.queue(w.ctx, []*lock.Client{a, b}[i%2], "x"))
		}
		for _, ch := range queue {
			w.unlock(h)
			h = w.expect(ch).hold
		}
		w.unlock(h)
		w.empty()
	})
}

func TestFailedTryLockOfFreshClientLeavesNothing(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.lock(w.dial("a"), "x")
		before, b := w.Dump("/locks/x"), w.dial("b")
		got := w.cost("b", func() {
			_, err := b.Mutex("x").TryLock(w.ctx)
			mustBe(t, err, lock.ErrHeld)
			var held *lock.HeldError
			if !errors.As(err, &held) || held.Lock != "x" || held.Entry != h.EntryPath() || held.Owner != "a" || held.PID == 0 || !held.Expires.After(time.Now()) {
				t.Errorf("error is %#v", err)
			}
			mustSay(t, err, `"x"`, "a (host ")
		})
		if got.total() > 3 || got.txns > 1 { // one sample of the time
			t.Errorf("TryLock cost %v and %d transactions", got.requests, got.txns)
		}
		same(t, before, w.Dump("/locks/x"))
		if got := w.nodes(); len(got) != 2 {
			t.Errorf("nodes: %q, want the lock and its entry", got)
		}
		w.unlock(h)
		w.empty()
	})
}

// TestHandoffNeedsNoListing has three wait, each behind the other. Who they wait
// for they know from the tail; that they are next, the second one knows from its
// join and the others from the grant that their predecessor recorded.
func TestHandoffNeedsNoListing(t *testing.T) {
	for _, keep := range []bool{false, true} { // the parent; then the first one's grant is not recorded
		simulate(t, locktest.Options{}, func(w *world) { w.handoffs(keep) })
	}
}

func (w *world) handoffs(keep bool) {
	labels := []string{"a", "b", "c", "d"}
	clients := map[string]*lock.Client{}
	for _, l := range labels {
		clients[l] = w.dial(l, lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: keep}))
		w.unlock(w.lock(clients[l], "x"))
	}
	before := w.Requests()
	h := w.lock(clients["a"], "x")
	var queue []<-chan taken
	for _, l := range labels[1:] {
		queue = append(queue, w.queue(w.ctx, clients[l], "x"))
	}
	for _, ch := range queue {
		w.unlock(h)
		h = w.expect(ch).hold
		time.Sleep(time.Millisecond) // held for long enough to record it
	}
	w.unlock(h)
	time.Sleep(100 * time.Millisecond)
	for _, l := range labels {
		if n := w.Requests()[l].Requests["getChildren2"] - before[l].Requests["getChildren2"]; n != 0 {
			w.Errorf("%s listed %d times", l, n)
		}
	}
	if n := w.nodes(); (len(n) == 1) != keep {
		w.Errorf("nodes %q", n)
	}
}

// TestShortHoldsAreNotRecorded: a holder that goes at once saves the write, and
// the one behind it lists instead.
func TestShortHoldsAreNotRecorded(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a"), w.dial("b"), w.dial("c")
		h := w.lock(a, "x")
		second, third := w.queue(w.ctx, b, "x"), w.queue(w.ctx, c, "x")
		got := w.cost("c", func() {
			w.unlock(h)
			w.unlock(w.expect(second).hold)
			h = w.expect(third).hold
		})
		if got.requests["getChildren2"] != 1 {
			t.Errorf("the third one's cost is %v, want one listing", got.requests)
		}
		if n := w.node(h.EntryPath()).Stat.Version; n != 0 {
			t.Errorf("the entry was written %d times before the hold had lasted", n)
		}
		w.unlock(h)
		w.empty()
	})
}

// TestHandoffWakesNobodyElse counts what others do while the lock changes hands.
func TestHandoffWakesNobodyElse(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.lock(w.dial("a"), "x")
		var queue []<-chan taken
		labels := []string{"b", "c", "d", "e", "f"}
		for _, l := range labels {
			queue = append(queue, w.queue(w.ctx, w.dial(l), "x"))
		}
		before := w.Requests()
		w.unlock(h)
		h = w.expect(queue[0]).hold
		time.Sleep(time.Millisecond) // until the grant is recorded
		synctest.Wait()
		for i, l := range labels[1:] {
			n, most := w.Requests()[l].Total()-before[l].Total(), 0
			if i == 0 {
				most = 1 // it sees the grant being recorded
			}
			if n > most {
				t.Errorf("the handoff cost %s, number %d of the waiters, %d requests", l, i+2, n)
			}
		}
		for _, ch := range queue[1:] {
			w.unlock(h)
			h = w.expect(ch).hold
		}
		w.unlock(h)
		w.empty()
	})
}

func TestUnlockWithSomebodyQueued(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(a, "x"))
		h := w.lock(a, "x")
		ch := w.queue(w.ctx, a, "x")
		w.wantCost("Unlock with a waiter of the same client", w.cost("a", func() { w.unlock(h) }),
			map[string]int{"delete": 1, "setData": 1}, 2) // the waiter is told that it is gone, and records its grant
		h = w.expect(ch).hold
		ch = w.queue(w.ctx, b, "x")
		w.wantCost("Unlock with a waiter of another client", w.cost("a", func() { w.unlock(h) }),
			map[string]int{"delete": 1, "getData": 1}, 1) // whether the parent is empty
		w.unlock(w.expect(ch).hold)
		w.empty()
	})
}

// TestWrongGuessIsMadeOnce: who held alone tries to take the parent along. That
// fails if somebody has queued meanwhile, and is not tried again the next time.
func TestWrongGuessIsMadeOnce(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		for i, want := range []map[string]int{
			{"multi": 1, "delete": 1, "getData": 1},
			{"delete": 1, "getData": 1},
			{"delete": 1, "getData": 1},
		} {
			time.Sleep(time.Second)
			h := w.lock(a, "x")
			ch := w.queue(w.ctx, b, "x")
			if got := w.cost("a", func() { w.unlock(h) }); !maps.Equal(got.requests, want) {
				t.Errorf("unlock %d cost %v, want %v", i+1, got.requests, want)
			}
			w.unlock(w.expect(ch).hold)
		}
		w.empty()
	})
}

// TestLockTakenAgainKeepsItsParentForAWhile: one client takes a free lock again and
// again. That costs less if the parent stays, which goes when the client has stopped;
// and nothing more while it holds.
func TestLockTakenAgainKeepsItsParentForAWhile(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial("a")
		for range 2 {
			w.unlock(w.lock(c, "x"))
			if n := w.nodes(); len(n) != 0 {
				t.Errorf("nodes before it is known that the client returns: %q", n)
			}
		}
		w.unlock(w.lock(c, "x"))
		parent := w.node("/locks/x").Stat
		for range 5 {
			time.Sleep(10 * time.Millisecond)
			var h *lock.Hold
			w.wantCost("Lock", w.cost("a", func() { h = w.lock(c, "x") }), map[string]int{"multi": 1}, 1)
			w.wantCost("a hold of a second", w.cost("a", func() { time.Sleep(time.Second) }), nil, 0)
			if h.Token().Czxid != w.node(h.EntryPath()).Stat.Czxid {
				t.Errorf("token %v, want the entry's czxid, %d", h.Token(), w.node(h.EntryPath()).Stat.Czxid)
			}
			w.wantCost("Unlock", w.cost("a", func() { w.unlock(h) }), map[string]int{"delete": 1}, 1)
		}
		if now := w.node("/locks/x").Stat; now.Czxid != parent.Czxid || now.NumChildren != 0 {
			t.Errorf("the parent is %+v, and was made anew since %+v", now, parent)
		}
		w.wantCost("the end", w.cost("a", func() { time.Sleep(100 * time.Millisecond) }), map[string]int{"getData": 1, "delete": 1}, 1)
		w.empty()

		for range 5 {
			w.unlock(w.lock(c, "x", lock.WithoutRenewal()))
			if n := w.nodes(); len(n) != 0 {
				t.Errorf("nodes after a hold that is not renewed, so that its grant had to be recorded with its entry: %q", n)
			}
		}
	})
}

// TestLockTakenAgainIsLeftToOthers: while one client takes a free lock again and again,
// another one comes. It is next, and sees to the parent.
func TestLockTakenAgainIsLeftToOthers(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		for range 5 {
			w.unlock(w.lock(a, "x"))
		}
		h := w.lock(a, "x")
		ch := w.queue(w.ctx, b, "x")
		w.unlock(h)
		h = w.expect(ch).hold
		time.Sleep(time.Second) // the first one has looked
		w.sole(h)
		w.unlock(h)
		w.empty()
	})
}

// TestBusyLockKeepsItsParentForAWhile: two take turns quickly, and the lock is free
// in between. The parent stays for the next turn, and goes when they have stopped.
func TestBusyLockKeepsItsParentForAWhile(t *testing.T) {
	for name, stop := range map[string]func(w *world, clients ...*lock.Client){
		"they go on with something else": func(w *world, _ ...*lock.Client) { time.Sleep(100 * time.Millisecond); synctest.Wait() },
		"they close": func(w *world, clients ...*lock.Client) {
			for _, c := range clients {
				if err := c.Close(); err != nil {
					w.Error(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a, b := w.dial("a"), w.dial("b")
				turn := func() {
					h := w.lock(a, "x")
					ch := w.queue(w.ctx, b, "x")
					w.unlock(h)
					w.unlock(w.expect(ch).hold)
				}
				turn()
				if n := w.nodes(); len(n) != 0 {
					t.Errorf("nodes after the first turn, before the lock is known to be busy: %q", n)
				}
				turn()
				// As long as the parent was not written often it could be one that was made
				// anew: who finds it empty joins first, and writes it when its entry proves
				// which one it is.
				for range 100 {
					if got := w.cost("a", turn); got.txns > 6 {
						t.Errorf("a turn of each cost %d transactions, want 6 at most", got.txns)
					}
				}
				parent := w.node("/locks/x").Stat
				for range 5 {
					time.Sleep(10 * time.Millisecond)
					got := w.cost("a", turn)
					if now := w.node("/locks/x").Stat; now.Czxid != parent.Czxid || now.NumChildren != 0 {
						t.Errorf("the parent is %+v, and was made anew since %+v", now, parent)
					}
					// Each of the two joins and leaves, and no attempt fails. The one who is
					// alone has nothing to read.
					if want := map[string]int{"multi": 1, "delete": 1}; got.txns != 4 || !maps.Equal(got.requests, want) {
						t.Errorf("a turn of each cost %d transactions and the one who is alone %v, want 4 and %v", got.txns, got.requests, want)
					}
				}
				stop(w, a, b)
				if n := w.nodes(); len(n) != 0 {
					t.Errorf("nodes at the end: %q", n)
				}
			})
		})
	}
}

// TestForeseenJoin: some clients take turns without a pause, so that as many join
// between two turns of one client as did before. It joins without a look at the parent,
// on condition that this is so, and lists. If it is not, or nobody can say any more, or
// the listing would be long, it looks.
func TestForeseenJoin(t *testing.T) {
	foreseen, looked, refuted := map[string]int{"multi": 1, "getChildren2": 1, "getData": 1}, map[string]int{"multi": 1, "getData": 2}, map[string]int{"multi": 2, "getData": 2}
	for name, at := range map[string]struct {
		clients int
		before  int // others who join before the client's last turn but one
		more    int // who join now
		pause   time.Duration
		want    map[string]int // to join and begin to wait
	}{
		"two":                {2, 0, 0, 0, foreseen},
		"four":               {4, 0, 0, 0, foreseen},
		"one more than ever": {2, 0, 1, 0, refuted},
		"one more, later":    {2, 0, 1, time.Second, foreseen},
		"one more last time": {2, 1, 0, 0, foreseen},
		"many":               {8, 0, 0, 0, looked},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				var clients []*lock.Client
				var queue []<-chan taken
				for i := range at.clients {
					clients = append(clients, w.dial(fmt.Sprint("c", i)))
					w.unlock(w.lock(clients[i], "other"))
				}
				for _, c := range clients {
					queue = append(queue, w.queue(w.ctx, c, "x"))
				}
				next := func() {
					w.unlock(w.expect(queue[0]).hold)
					queue = queue[1:]
				}
				for i := range 50 * at.clients {
					next()
					if i == 49*at.clients {
						for n := range at.before {
							queue = append(queue, w.queue(w.ctx, w.dial(fmt.Sprint("before", n)), "x"))
						}
					}
					queue = append(queue, w.queue(w.ctx, clients[i%at.clients], "x"))
				}
				next()
				time.Sleep(at.pause)
				for i := range at.more {
					queue = append(queue, w.queue(w.ctx, w.dial(fmt.Sprint("more", i)), "x"))
				}
				got := w.cost("c0", func() { queue = append(queue, w.queue(w.ctx, clients[0], "x")) })
				if !maps.Equal(got.requests, at.want) {
					t.Errorf("joined by %v, want %v", got.requests, at.want)
				}
				for len(queue) > 0 {
					next()
				}
				time.Sleep(100 * time.Millisecond) // the parent stays for a while
				w.empty()
			})
		})
	}
}

// turnFast has two clients take so many turns each, the first two of them queueing, so that
// they take the lock x for one that is busy.
func (w *world) turnFast(a, b *lock.Client, turns int) {
	w.Helper()
	for i := range turns {
		h := w.lock(a, "x")
		if i >= 2 {
			w.unlock(h)
			w.unlock(w.lock(b, "x"))
			continue
		}
		ch := w.queue(w.ctx, b, "x")
		w.unlock(h)
		w.unlock(w.expect(ch).hold)
	}
}

// TestFastTurnsCheckNobody: where turns are taken fast, who joined last has probably left
// by the time that the next one joins. So nothing rests on its being there, also for one
// that had to look at the parent: that was written often, so it is the one that was read.
func TestFastTurnsCheckNobody(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(b, "other"))
		w.turnFast(a, b, 50)
		last := w.lock(b, "x")
		hit := w.before(afterRead("a", joins), func() { w.unlock(last) })
		var h *lock.Hold
		w.wantCost("Lock", w.cost("a", func() { h = w.lock(a, "x") }), map[string]int{"multi": 2, "getData": 1}, 3)
		if !hit() {
			t.Error("it joined without a look")
		}
		w.unlock(h)
		time.Sleep(100 * time.Millisecond) // the parent stays for a while
		w.empty()
	})
}

// TestRejoinKnowsTheTail: who leaves a lock that others wait for sees the parent on
// its way out, and queues again without another look.
func TestRejoinKnowsTheTail(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(b, "other")) // knows the time
		h := w.lock(a, "x")
		second := w.queue(w.ctx, b, "x")
		w.unlock(h)
		h = w.expect(second).hold
		time.Sleep(time.Millisecond) // until the grant is recorded
		var again <-chan taken
		w.wantCost("Lock", w.cost("a", func() { again = w.queue(w.ctx, a, "x") }), map[string]int{"multi": 1, "getData": 1}, 1)
		w.unlock(h)
		w.unlock(w.expect(again).hold)
		w.empty()
	})
}

// TestOldSightCostsNoWait: others have queued since a client last saw the parent.
// It looks and joins at once, as nobody else is joining now.
func TestOldSightCostsNoWait(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a"), w.dial("b"), w.dial("c")
		h := w.lock(a, "x")
		queue := []<-chan taken{w.queue(w.ctx, b, "x"), w.queue(w.ctx, c, "x")}
		queue = append(queue, start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) }))
		time.Sleep(time.Millisecond) // less than any wait
		if n := len(w.entries("x")); n != 4 {
			t.Errorf("%d entries at once, want 4", n)
		}
		for _, ch := range queue {
			w.unlock(h)
			h = w.expect(ch).hold
		}
		w.unlock(h)
		w.empty()
	})
}

// TestComingWhileOthersAreThere: who finds others at a lock time and again, long after it has
// left as the last one itself, looks before it joins: to make the parent would be refused. Once
// nobody is there it joins by the first request again.
func TestComingWhileOthersAreThere(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(b, "other")) // knows the time
		join := func(want map[string]int, transactions int64) {
			t.Helper()
			h := w.lock(a, "x")
			var next <-chan taken
			w.wantCost("Lock", w.cost("b", func() { next = w.queue(w.ctx, b, "x") }), want, transactions)
			w.unlock(h)
			w.unlock(w.expect(next).hold)
			time.Sleep(time.Second)
			w.empty()
		}
		guessed := map[string]int{"multi": 2, "getData": 2}
		join(guessed, 2)
		join(guessed, 2)
		for range 3 {
			join(map[string]int{"multi": 1, "getData": 2}, 1)
		}
		w.wantCost("Lock", w.cost("b", func() { w.unlock(w.lock(b, "x")) }), map[string]int{"multi": 2, "getData": 1}, 2)
		time.Sleep(time.Second)
		w.wantCost("Lock", w.cost("b", func() { w.unlock(w.lock(b, "x")) }), map[string]int{"multi": 2}, 2)
	})
}

// TestHolderGoesBeforeItIsLookedAt: the transaction by which somebody joins has checked that
// the holder stands, whose entry was the only one. It unlocks before the one who has joined
// reads it: that is in at once, and needs no list.
func TestHolderGoesBeforeItIsLookedAt(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(b, "other")) // knows the time
		h := w.lock(a, "x")
		hit := w.before(func(r locktest.Request) bool {
			return r.Label == "b" && r.Op == "getData" && touches(r, h.EntryPath())
		}, func() { w.unlock(h) })
		var next *lock.Hold
		w.wantCost("Lock", w.cost("b", func() { next = w.lock(b, "x") }), map[string]int{"multi": 2, "getData": 2}, 4) // the first time in vain, and so is the first unlock
		if !hit() {
			t.Error("it was not looked at")
		}
		w.unlock(next)
		w.empty()
	})
}
