// The number of requests and transactions of each operation on a mutex.

package lock_test

import (
	"errors"
	"fmt"
	"maps"
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

// TestFailedTryLockWritesNothing: a TryLock of a held lock costs at most three requests, changes no node,
// and tells of the holder, with and without waiters. The first one of a client samples the time.
func TestFailedTryLockWritesNothing(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		h := w.lock(a, "x")
		var queue []<-chan taken
		for i := range 4 {
			before, label := w.Dump("/locks/x"), fmt.Sprint("new", i)
			for label, client := range map[string]*lock.Client{"a": a, label: w.dial(label)} {
				for try := range 2 {
					var err error
					got := w.cost(label, func() { err = second(client.Mutex("x").TryLock(w.ctx)) })
					var held *lock.HeldError
					isTrue(t, errors.As(err, &held) && held.Lock == "x" && held.Owner != "" && held.PID != 0 && held.Expires.After(time.Now()), "error is %#v", err)
					fails(t, err, lock.ErrHeld, `"x"`, " (host ")
					isTrue(t, i > 0 || held.Entry == h.EntryPath() && held.Owner == "a", "error is %#v", err)
					if got.total() > 3 || got.txns > 1 || got.txns > 0 && (label == "a" || try > 0) {
						t.Errorf("TryLock of %s with %d waiters cost %v and %d transactions", label, i, got.requests, got.txns)
					}
				}
			}
			same(t, before, w.Dump("/locks/x"))
			queue = append(queue, w.queue(w.ctx, w.dial(fmt.Sprint("waiter", i)), "x"))
		}
		for _, ch := range queue {
			h = w.pass(h, ch)
		}
		w.finish(h)
	})
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
