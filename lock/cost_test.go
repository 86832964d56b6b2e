// The number of requests and transactions of each operation on a mutex.

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
	"github.com/holdfast-io/holdfast/lock/znode"
)

// anchored returns the paths of the lock's parent and its anchor.
func (w *world) anchored(name string) []string {
	w.Helper()
	path := lock.DefaultRoot + "/" + name
	return []string{path, path + "/" + znode.Anchor(w.parent(name).Generation)}
}

// TestFreeLockIsOneRequestEachWay: Lock and Unlock of a free lock are one request each. If the lock
// was used within the last second, Unlock keeps the parent. The client deletes the parent a second
// after the last use of the lock, unless the policy keeps the parent.
func TestFreeLockIsOneRequestEachWay(t *testing.T) {
	one := map[string]int{"multi": 1}
	for _, tt := range []struct {
		name   string
		keep   bool
		pause  time.Duration // between two uses
		unlock map[string]int
		stays  bool           // the parent is there after the unlock
		end    map[string]int // requests in the 5 s after
	}{
		{"now and then", false, 2 * time.Second, one, false, nil},
		{"again and again", false, 10 * time.Millisecond, map[string]int{"delete": 1}, true, map[string]int{"getData": 1, "multi": 1}},
		{"where the parent is kept", true, 10 * time.Millisecond, map[string]int{"delete": 1}, true, nil},
	} {
		subtest(t, tt.name, locktest.Options{}, func(w *world) {
			c := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: tt.keep}))
			w.unlock(w.lock(c, "orders/42")) // creates the root and the ancestor, and learns the time
			for range 3 {
				time.Sleep(tt.pause)
				var h *lock.Hold
				w.wantCost("Lock", w.cost("a", func() { h = w.lock(c, "orders/42") }), one, 1)
				n := w.entries("orders/42")
				isTrue(w, len(n) == 1 && h.Token().Parts().Czxid == n[0].Stat.Czxid, "token %v, entries %+v", h.Token(), n)
				w.wantCost("Unlock", w.cost("a", func() { w.unlock(h) }), tt.unlock, 1)
				want := []string{"/locks/orders"}
				if tt.stays {
					want = append(want, w.anchored("orders/42")...)
				}
				equalAll(w, "nodes after Unlock", w.nodes(), want)
			}
			w.wantCost("the end", w.cost("a", func() { time.Sleep(5 * time.Second) }), tt.end, int64(len(tt.end)/2))
			_, there := w.Node("/locks/orders/42")
			isTrue(w, there == tt.keep, "the parent is there: %v", there)
		})
	}
}

// TestAncestorsShareTransaction: the missing nodes above a lock's node are created in one transaction,
// also if several clients begin at once.
func TestAncestorsShareTransaction(t *testing.T) {
	simulate(t, link(time.Millisecond), func(w *world) {
		var clients [8]*lock.Client
		for i := range clients {
			clients[i] = w.dial(fmt.Sprint("c", i))
		}
		w.unlock(w.lock(clients[0], "x")) // creates the root, and learns the time
		var h *lock.Hold
		cost := w.cost("c0", func() { h = w.lock(clients[0], "a/b/c/d/x") })
		w.wantCost("Lock", cost, map[string]int{"multi": 3, "getData": 2}, 3)
		w.unlock(h)
		before := w.Transactions()
		var hs [len(clients)]*lock.Hold
		inEach(len(clients), func(i int) { hs[i] = w.lock(clients[i], fmt.Sprintf("e/f/g/h/%d", i)) })
		if got := w.Transactions() - before; got > 3*int64(len(clients)) {
			w.Errorf("%d transactions for the first locks of %d clients below missing nodes, want 3 each", got, len(clients))
		}
		inEach(len(clients), func(i int) { w.unlock(hs[i]) })
	})
}

func TestFailedTryLockWritesNothing(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(b, "other")) // b learns the time
		h := w.lock(a, "x")
		var queue []<-chan taken
		for i := range 4 { // also with several waiters
			before := w.Dump("/")
			for label, client := range map[string]*lock.Client{"a": a, "b": b} {
				got := w.cost(label, func() {
					mustBe(t, second(client.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
				})
				if got.total() > 3 || got.txns != 0 {
					t.Errorf("TryLock of %s with %d waiters cost %v and %d transactions, want at most 3 requests and no transaction", label, i, got.requests, got.txns)
				}
			}
			same(t, before, w.Dump("/"))
			queue = append(queue, w.queue(w.ctx, w.dial(fmt.Sprint("waiter", i)), "x"))
		}
		for _, ch := range queue {
			h = w.pass(h, ch)
		}
		w.finish(h)
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
		if got.total() > 3 || got.txns > 1 { // one of them a sample of the time
			t.Errorf("TryLock cost %v and %d transactions", got.requests, got.txns)
		}
		same(t, before, w.Dump("/locks/x"))
		if got, want := slices.Sorted(slices.Values(w.nodes())), slices.Sorted(slices.Values(append(w.anchored("x"), h.EntryPath()))); !slices.Equal(got, want) {
			t.Errorf("nodes: %q, want %q", got, want)
		}
		w.finish(h)
	})
}

// TestCostOfAHandoff: if clients take turns, a handoff costs at most the requests and transactions
// of the table. Waiters know their predecessor from the predicted name or from the recorded grant,
// so they list the children only behind very short holds.
func TestCostOfAHandoff(t *testing.T) {
	for _, tt := range []struct {
		clients, most int // most requests in a handoff
		hold          time.Duration
		lists         bool
		txns          int64 // transactions in a handoff
	}{
		{2, 4, 0, false, 2},
		{2, 5, 2 * time.Millisecond, false, 3},
		{4, 5, 0, true, 2},
		{4, 5, 2 * time.Millisecond, false, 3},
	} {
		subtest(t, fmt.Sprint(tt.clients, " hold for ", tt.hold), locktest.Options{}, func(w *world) {
			const rounds = 20
			var clients []*lock.Client
			for i := range tt.clients {
				clients = append(clients, w.dial(fmt.Sprint("c", i)))
				w.unlock(w.lock(clients[i], "other"))
			}
			h := w.lock(clients[0], "x")
			queue := make([]<-chan taken, tt.clients)
			for i, c := range clients[1:] {
				queue[i+1] = w.queue(w.ctx, c, "x")
			}
			turn := func(i int) { // the holder leaves and queues again, the next one enters
				time.Sleep(tt.hold)
				w.unlock(h)
				queue[i%tt.clients] = w.queue(w.ctx, clients[i%tt.clients], "x")
				h = w.expect(queue[(i+1)%tt.clients]).hold
			}
			for i := range tt.clients { // each client learns of the other clients
				turn(i)
			}
			settle()
			for i := range tt.clients { // the first handoff after a long hold costs one more list
				turn(i)
			}
			synctest.Wait() // until no request is in flight
			before, txns := w.Requests(), w.Transactions()
			for i := range rounds * tt.clients {
				turn(i)
			}
			synctest.Wait()
			requests, kinds := 0, map[string]int{}
			for i := range clients {
				label := fmt.Sprint("c", i)
				for kind, n := range w.Requests()[label].Requests {
					n -= before[label].Requests[kind]
					requests += n
					kinds[kind] += n
				}
			}
			handoffs, lists := rounds*tt.clients, kinds["getChildren2"]
			if requests > tt.most*handoffs || w.Transactions()-txns > tt.txns*int64(handoffs) || (lists > 0) != tt.lists {
				w.Errorf("%d handoffs cost %d requests, %v, and %d transactions", handoffs, requests, kinds, w.Transactions()-txns)
			}
			for i := range clients[1:] {
				h = w.pass(h, queue[(i+1)%tt.clients])
			}
			w.finish(h)
		})
	}
}

// TestHandoffWakesOneWaiter: a handoff costs the waiter behind the new holder at most one request,
// and the further waiters none.
func TestHandoffWakesOneWaiter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.lock(w.dial("a"), "x")
		var queue []<-chan taken
		labels := []string{"b", "c", "d", "e", "f"}
		for _, l := range labels {
			queue = append(queue, w.queue(w.ctx, w.dial(l), "x"))
		}
		before := w.Requests()
		h = w.pass(h, queue[0])
		time.Sleep(time.Millisecond) // until the grant is recorded
		synctest.Wait()
		for i, l := range labels[1:] {
			n, most := w.Requests()[l].Total()-before[l].Total(), 0
			if i == 0 {
				most = 1 // this waiter's watch reports the write of the grant
			}
			isTrue(t, n <= most, "the handoff cost %s, number %d of the waiters, %d requests", l, i+2, n)
		}
		for _, ch := range queue[1:] {
			h = w.pass(h, ch)
		}
		w.finish(h)
	})
}

// TestParentIsTriedOnce: a client that was alone tries to delete the parent with its entry. If the
// attempt fails because another client has queued, the next unlocks of the first client delete only
// the entry.
func TestParentIsTriedOnce(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		for i, want := range []map[string]int{{"multi": 1, "delete": 1}, {"delete": 1}, {"delete": 1}} {
			h := w.lock(a, "x")
			ch := w.queue(w.ctx, b, "x")
			got := w.cost("a", func() { w.unlock(h) })
			isTrue(t, maps.Equal(got.requests, want), "unlock %d cost %v, want %v", i+1, got.requests, want)
			w.unlock(w.expect(ch).hold)
		}
		w.empty()
	})
}

// TestBusyLockKeepsItsParent: while two clients take turns quickly, the parent stays, although the
// lock is free in between. Each join and each unlock is one transaction. When both clients have
// stopped or closed, the parent is deleted.
func TestBusyLockKeepsItsParent(t *testing.T) {
	forEach(t, locktest.Options{}, map[string]func(w *world, clients ...*lock.Client){
		"they go on with something else": func(w *world, _ ...*lock.Client) { time.Sleep(1500 * time.Millisecond); synctest.Wait() },
		"they close": func(w *world, clients ...*lock.Client) {
			for _, c := range clients {
				w.close(c)
			}
		},
	}, func(w *world, stop func(w *world, clients ...*lock.Client)) {
		a, b := w.dial("a"), w.dial("b")
		turn := func() {
			h := w.lock(a, "x")
			ch := w.queue(w.ctx, b, "x")
			w.unlock(w.pass(h, ch))
		}
		turn()
		turn()
		parent := w.node("/locks/x").Stat
		for range 5 {
			time.Sleep(10 * time.Millisecond)
			got := w.cost("a", turn)
			now := w.node("/locks/x").Stat
			isTrue(w, now.Czxid == parent.Czxid && now.NumChildren == 1, "the parent is %+v, and was made anew since %+v", now, parent)
			w.wantCost("a turn of each", got, map[string]int{"multi": 1, "delete": 1}, 4)
		}
		stop(w, a, b)
		w.hasNodes(0)
	})
}

// TestJoinWithAWrongAssumption: a join with a wrong assumption about the parent is refused once,
// and then the client reads the parent. A client that has just unlocked, or has just seen other
// contenders, assumes correctly. A client that could not delete the parent reads it first.
func TestJoinWithAWrongAssumption(t *testing.T) {
	remove := func(w *world) {
		anchored := w.anchored("x")
		w.remove(w.raw("other"), anchored[1], anchored[0])
	}
	refused := map[string]int{"multi": 2, "getData": 1}
	for _, tt := range []struct {
		name    string
		prepare func(w *world, a, b *lock.Client)
		want    map[string]int
		txns    int64
	}{
		{"not there yet", func(w *world, _, _ *lock.Client) {}, map[string]int{"multi": 1}, 1},
		{"made by another", func(w *world, _, b *lock.Client) {
			w.unlock(w.lock(b, "x"))
			w.unlock(w.lock(b, "x"))
		}, refused, 2},
		{"gone", func(w *world, a, _ *lock.Client) {
			w.unlock(w.lock(a, "x"))
			w.unlock(w.lock(a, "x"))
			remove(w)
		}, refused, 2},
		{"made anew", func(w *world, a, b *lock.Client) {
			w.unlock(w.lock(a, "x"))
			w.unlock(w.lock(a, "x"))
			remove(w)
			w.unlock(w.lock(b, "x"))
			w.unlock(w.lock(b, "x"))
		}, refused, 2},
		{"left to another", func(w *world, a, b *lock.Client) { // a's hold leaves the parent to b
			h := w.lock(a, "x")
			ch := w.queue(w.ctx, b, "x")
			w.unlock(w.pass(h, ch))
		}, map[string]int{"getData": 1, "multi": 1}, 1}, // another client, or another program, has written the parent
		{"left to another by one who had waited", func(w *world, a, b *lock.Client) {
			h := w.lock(b, "x")
			ch := w.queue(w.ctx, a, "x")
			w.unlock(w.pass(h, ch))
		}, map[string]int{"multi": 1}, 1},
	} {
		subtest(t, tt.name, locktest.Options{}, func(w *world) {
			a, b := w.dial("a"), w.dial("b")
			w.unlock(w.lock(a, "other")) // a learns the time
			tt.prepare(w, a, b)
			w.wantCost("Lock", w.cost("a", func() { w.lock(a, "x") }), tt.want, tt.txns)
		})
	}
}

// TestHolderUnlocksBeforeItsEntryIsRead: if the holder unlocks between a waiter's join and the
// waiter's read of the holder's entry, the waiter enters. Afterwards no node is left.
func TestHolderUnlocksBeforeItsEntryIsRead(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(b, "other")) // b learns the time
		h := w.lock(a, "x")
		w.unlock(w.lock(b, "other"))
		w.before(func(r locktest.Request) bool {
			return r.Label == "b" && r.Op == "getData" && touches(r, h.EntryPath())
		}, func() { w.unlock(h) })
		w.finish(w.lock(b, "x"))
	})
}
