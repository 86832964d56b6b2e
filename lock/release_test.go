package lock_test

import (
	"context"
	"fmt"
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// released writes into the parent that the entry of that name held the lock and has gone,
// which stood below that incarnation of the parent.
func (w *world) released(name, entry string, below int64) {
	w.Helper()
	n, data := w.node("/locks/"+name), w.parent(name)
	data.Released, data.Below = entry, below
	if _, err := w.raw("writer of the parent").Set("/locks/"+name, data.Encode(), n.Stat.Version); err != nil {
		w.Fatal(err)
	}
}

// TestQueueDrainsWithoutListing: everybody who waited gives the lock back at once, so
// no grant is recorded. The release is told in the parent instead, in the same
// transaction; only the first who looks for it lists, as nobody had told yet.
func TestQueueDrainsWithoutListing(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const clients, each = 5, 8
		h := w.lock(w.dial("holder"), "x")
		var queue []<-chan taken
		var labels []string
		var all []*lock.Client
		for i := range clients {
			labels = append(labels, fmt.Sprint("c", i))
			all = append(all, w.dial(labels[i]))
		}
		for range each {
			for _, c := range all {
				queue = append(queue, w.queue(w.ctx, c, "x"))
			}
		}
		before, txns := w.Requests(), w.Transactions()
		for _, ch := range queue {
			w.unlock(h)
			h = w.expect(ch).hold
		}
		w.unlock(h)
		listings, requests := 0, 0
		for _, l := range labels {
			listings += w.Requests()[l].Requests["getChildren2"] - before[l].Requests["getChildren2"]
			requests += w.Requests()[l].Total() - before[l].Total()
		}
		if listings != 1 {
			t.Errorf("%d waiters listed %d times, want once", len(queue), listings)
		}
		// One to look and one to leave; and for each, that the node before the one
		// ahead of it was deleted wakes nobody.
		if most := 2*len(queue) + 5; requests > most {
			t.Errorf("%d waiters made %d requests, want at most %d", len(queue), requests, most)
		}
		if txns, most := w.Transactions()-txns, int64(len(queue)+3); txns > most {
			t.Errorf("%d transactions, want at most %d", txns, most)
		}
		w.empty()
	})
}

// TestReleaseIsToldInVain: whenever the lock is given back somebody has written the
// parent since it was read. Each client tries that twice at most, and then no more for a while.
func TestReleaseIsToldInVain(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		clients := []*lock.Client{w.dial("a"), w.dial("b"), w.dial("c")} // so that none knows of the release two turns ago
		h := w.lock(clients[0], "x")
		var queue []<-chan taken
		for i := range 18 {
			queue = append(queue, w.queue(w.ctx, clients[(i+1)%3], "x"))
		}
		failed := 0
		for _, ch := range queue {
			w.released("x", w.parent("x").Released, w.parent("x").Below) // as it is
			before := w.Transactions()
			w.unlock(h)
			failed += int(w.Transactions()-before) - 1
			h = w.expect(ch).hold
		}
		w.unlock(h)
		if failed < 3 || failed > 6 {
			t.Errorf("%d releases were told in vain, want one or two for each client", failed)
		}
		w.empty()
	})
}

// TestReleaseOfAnotherProvesNothing: the one ahead gives up waiting, and the parent
// tells of somebody who had the lock before.
func TestReleaseOfAnotherProvesNothing(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		before := w.lock(w.dial("before"), "x")
		a := w.queue(w.ctx, w.dial("a"), "x")
		ctx, cancel := context.WithCancel(w.ctx)
		second := w.queue(ctx, w.dial("b"), "x")
		third := w.queue(w.ctx, w.dial("c"), "x")
		w.unlock(before)
		h := w.expect(a).hold
		w.released("x", path.Base(before.EntryPath()), w.node("/locks/x").Stat.Czxid)
		cancel()
		if got := w.outcome(second); got.err == nil {
			t.Fatal("the second got it")
		}
		w.waits(third)
		w.alive(h)
		w.unlock(h)
		w.unlock(w.expect(third).hold)
		w.empty()
	})
}

// TestReleaseRightAhead: the parent tells of who was right ahead of the one that has gone,
// so nobody else can be there: whether that one had the lock or gave up just then.
func TestReleaseRightAhead(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.lock(w.dial("a"), "x")
		b := w.dial("b")
		second := w.queue(w.ctx, b, "x")
		third := w.queue(w.ctx, w.dial("c"), "x")
		w.unlock(h)
		next := w.expect(second).hold
		w.released("x", path.Base(h.EntryPath()), w.node("/locks/x").Stat.Czxid)
		got := w.cost("c", func() {
			w.unlock(next)
			w.unlock(w.expect(third).hold)
		})
		if got.requests["getChildren2"] != 0 {
			t.Errorf("the third took %v, want no list", got.requests)
		}
		w.empty()
	})
}

// TestReleaseBelowAnotherParent: the parent bears what was told in one that stood there
// before it, whose entries were numbered anew, too.
func TestReleaseBelowAnotherParent(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.lock(w.dial("a"), "x")
		ctx, cancel := context.WithCancel(w.ctx)
		second := w.queue(ctx, w.dial("b"), "x")
		third := w.queue(w.ctx, w.dial("c"), "x")
		w.released("x", znode.Predict(znode.Prefix("0123456789abcdef", znode.Exclusive), 1), w.node("/locks/x").Stat.Czxid-1)
		cancel()
		if got := w.outcome(second); got.err == nil {
			t.Fatal("the second got it")
		}
		w.waits(third)
		w.alive(h)
		w.unlock(h)
		w.unlock(w.expect(third).hold)
		w.empty()
	})
}

// TestReleaseOfAReaderProvesNothing: others were ahead of it, and still are.
func TestReleaseOfAReaderProvesNothing(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		b := w.dial("b")
		first, gone := w.take(w.dial("a").RWMutex("x").RLock), w.take(b.RWMutex("x").RLock)
		ctx, cancel := context.WithCancel(w.ctx)
		second := w.join("x", func(context.Context) (*lock.Hold, error) { return w.dial("c").RWMutex("x").Lock(ctx) })
		third := w.join("x", w.dial("d").RWMutex("x").Lock)
		w.unlock(gone)
		last := w.join("x", b.RWMutex("x").Lock) // writes into the parent what its client knows
		cancel()
		if got := w.outcome(second); got.err == nil {
			t.Fatal("the second got it")
		}
		w.waits(third)
		w.alive(first)
		w.unlock(first)
		w.unlock(w.expect(third).hold)
		w.unlock(w.expect(last).hold)
		w.empty()
	})
}

// TestReleaseProvesNothingOfUnseenNodes: the parent tells that the tail gave the lock
// back, but somebody joined behind the tail without writing there.
func TestReleaseProvesNothingOfUnseenNodes(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("unseen")
		h := w.lock(a, "x")
		other, err := z.Create("/locks/x/other-lock-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		if err != nil {
			t.Fatal(err)
		}
		for range 5 { // so that the parent is not of a low version, and is joined as it was read
			w.released("x", znode.Predict(w.parent("x").Tail, 0), w.node("/locks/x").Stat.Czxid)
		}
		w.unlock(h)
		third := w.queue(w.ctx, w.dial("c"), "x")
		time.Sleep(time.Second)
		w.waits(third)
		if err := z.Delete(other, -1); err != nil {
			t.Fatal(err)
		}
		w.unlock(w.expect(third).hold)
		w.empty()
	})
}

// TestWhoGivesUpTellsOfNoRelease: it had looked for one when somebody ahead gave up,
// and goes on waiting.
func TestWhoGivesUpTellsOfNoRelease(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.lock(w.dial("a"), "x")
		var gone []<-chan taken
		var cancels []context.CancelFunc
		for i := range 3 {
			ctx, cancel := context.WithCancel(w.ctx)
			cancels = append(cancels, cancel)
			gone = append(gone, w.queue(ctx, w.dial(fmt.Sprint("b", i)), "x"))
		}
		last := w.queue(w.ctx, w.dial("c"), "x")
		for i, cancel := range cancels {
			cancel()
			if got := w.outcome(gone[i]); got.err == nil {
				t.Fatal("got it while it was held")
			}
			w.waits(last)
			if told := w.parent("x").Released; told != "" {
				t.Errorf("a release of %s is told", told)
			}
		}
		w.alive(h)
		w.unlock(h)
		w.unlock(w.expect(last).hold)
		w.empty()
	})
}

// TestWhoGivesUpProvesNothing to those of its own client who are behind it, right behind or
// not, nor to others by what these write when they join.
func TestWhoGivesUpProvesNothing(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		b := w.dial("b")
		h := w.lock(w.dial("a"), "x")
		ahead := w.queue(w.ctx, w.dial("c"), "x")
		ctx, cancel := context.WithCancel(w.ctx)
		givesUp := w.queue(ctx, b, "x")
		behind := w.queue(w.ctx, b, "x")
		other := w.queue(w.ctx, w.dial("d"), "x")
		cancel()
		if got := w.outcome(givesUp); got.err == nil {
			t.Fatal("got it while it was held")
		}
		last := w.queue(w.ctx, b, "x")
		for _, waiting := range []<-chan taken{ahead, behind, other, last} {
			w.waits(waiting)
		}
		if told := w.parent("x").Released; told != "" {
			t.Errorf("a release of %s is told", told)
		}
		for _, next := range []<-chan taken{ahead, behind, other, last} {
			w.unlock(h)
			h = w.expect(next).hold
		}
		w.unlock(h)
		w.empty()
	})
}

// TestRecordedGrantIsEnough: the entry has told its grant to who is behind, so its release
// is not told too, in a write that could collide.
func TestRecordedGrantIsEnough(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		first := w.lock(w.dial("a"), "x")
		second, third := w.queue(w.ctx, w.dial("b"), "x"), w.queue(w.ctx, w.dial("c"), "x")
		last := w.queue(w.ctx, w.dial("d"), "x")
		w.unlock(first)
		w.unlock(w.expect(second).hold) // at once, so that the third looks for its release
		h := w.expect(third).hold
		time.Sleep(time.Second) // the grant is recorded
		var paths [][]string
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if mutates(r, "c") {
				paths = append(paths, r.Paths)
			}
			return locktest.Fault{}
		})
		w.unlock(h)
		w.Intercept(nil)
		if len(paths) != 1 || len(paths[0]) != 1 {
			t.Errorf("the release wrote %q, want its entry alone", paths)
		}
		w.unlock(w.expect(last).hold)
		w.empty()
	})
}
