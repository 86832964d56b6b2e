package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// taking is a way to take a lock.
type taking func(context.Context) (*lock.Hold, error)

// join takes a lock in the background, and returns when there is an entry for it.
func (w *world) join(name string, take taking) <-chan taken {
	w.Helper()
	settle()
	before := len(w.entries(name))
	ch := start(func() (*lock.Hold, error) { return take(w.ctx) })
	w.until("an entry", func() bool { return len(w.entries(name)) > before })
	settle()
	return ch
}

// take takes a lock that is to be had.
func (w *world) take(take taking) *lock.Hold {
	w.Helper()
	h, err := take(w.ctx)
	if err != nil {
		w.Fatal(err)
	}
	return h
}

// TestReaderAndWriterDoNotWaitForEachOther is kazoo#649: a reader waits for a writer, and
// a second writer for that reader. As the first one goes, the reader must not begin to
// wait for the second one, which came later.
func TestReaderAndWriterDoNotWaitForEachOther(t *testing.T) {
	for _, long := range []bool{false, true} { // longer than a grant takes to be recorded
		simulate(t, locktest.Options{}, func(w *world) {
			a, b, c := w.dial("a").RWMutex("x"), w.dial("b").RWMutex("x"), w.dial("c").RWMutex("x")
			first := w.take(a.Lock)
			reader, second := w.join("x", b.RLock), w.join("x", c.Lock)
			if long {
				time.Sleep(time.Second)
			}
			w.waits(reader)
			w.waits(second)
			w.unlock(first)
			r := w.expect(reader).hold
			w.waits(second)
			w.unlock(r)
			w.unlock(w.expect(second).hold)
			w.empty()
		})
	}
}

// TestReaderDoesNotWaitForALaterWriter, either where it has to look for its place anew: the
// writer that it waited for gives up.
func TestReaderDoesNotWaitForALaterWriter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a").RWMutex("x"), w.dial("b").RWMutex("x")
		first := w.take(a.RLock)
		ctx, cancel := context.WithCancel(w.ctx)
		writer := w.join("x", func(context.Context) (*lock.Hold, error) { return b.Lock(ctx) })
		reader := w.join("x", w.dial("c").RWMutex("x").RLock)
		late := w.join("x", w.dial("d").RWMutex("x").Lock)
		cancel()
		if got := w.outcome(writer); got.err == nil {
			t.Error("the writer got the lock")
		}
		r := w.expect(reader).hold
		w.waits(late)
		w.unlock(first)
		w.unlock(r)
		w.unlock(w.expect(late).hold)
		w.empty()
	})
}

// TestReadersShareWritersDoNot, and nobody overtakes a writer who waits.
func TestReadersShareWritersDoNot(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		clients := []*lock.Client{w.dial("a"), w.dial("b"), w.dial("c")}
		rw := func(i int) *lock.RWMutex { return clients[i%3].RWMutex("x") }
		var readers []*lock.Hold
		for i := range 6 {
			readers = append(readers, w.take(rw(i).RLock))
		}
		if _, err := rw(1).TryLock(w.ctx); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("TryLock beside readers: %v", err)
		}
		readers = append(readers, w.take(rw(0).TryRLock))
		writer := w.join("x", rw(1).Lock)
		var late []<-chan taken
		for i := range 3 {
			late = append(late, w.join("x", rw(i).RLock))
		}
		if _, err := rw(2).TryRLock(w.ctx); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("TryRLock behind a writer who waits: %v", err)
		}
		for _, i := range []int{3, 0, 6, 5, 1, 4, 2} { // in no order
			w.waits(writer)
			w.unlock(readers[i])
		}
		write := w.expect(writer)
		for _, r := range readers {
			if write.hold.Token().Compare(r.Token()) <= 0 {
				t.Errorf("the writer's token %v follows a reader's, %v", write.hold.Token(), r.Token())
			}
		}
		for _, ch := range late {
			w.waits(ch)
		}
		w.unlock(write.hold)
		for _, ch := range late {
			r := w.expect(ch).hold
			if r.Token().Compare(write.hold.Token()) <= 0 {
				t.Errorf("a reader's token %v follows the writer's, %v", r.Token(), write.hold.Token())
			}
			defer w.unlock(r)
		}
	})
}

// TestWriterWhoGivesUpLetsReadersIn who wait behind it.
func TestWriterWhoGivesUpLetsReadersIn(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a").RWMutex("x"), w.dial("b").RWMutex("x"), w.dial("c").RWMutex("x")
		first := w.take(a.RLock)
		ctx, cancel := context.WithCancel(w.ctx)
		writer := w.join("x", func(context.Context) (*lock.Hold, error) { return b.Lock(ctx) })
		behind := w.join("x", c.RLock)
		w.waits(behind)
		cancel()
		if got := w.outcome(writer); !errors.Is(got.err, context.Canceled) {
			t.Errorf("the writer: %v", got.err)
		}
		w.unlock(w.expect(behind).hold)
		w.unlock(first)
		w.empty()
	})
}

// TestWriterBehindLastOfManyReaders: that the reader right ahead has gone, be it the one
// who was granted last, says nothing of those before it.
func TestWriterBehindLastOfManyReaders(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a").RWMutex("x"), w.dial("b").RWMutex("x"), w.dial("c").RWMutex("x")
		write := w.take(a.Lock)
		first := w.join("x", b.RLock)
		var others []<-chan taken // more than a writer keeps in mind
		for range 16 {
			others = append(others, w.join("x", b.RLock))
		}
		second := w.join("x", a.RLock)
		w.unlock(write)
		early, late := w.expect(first).hold, w.expect(second).hold
		time.Sleep(ttl) // the grants of all are recorded
		if r := w.record(late.EntryPath()); !r.Granted() {
			t.Fatal("the grant is not recorded")
		}
		writer := w.join("x", c.Lock)
		w.unlock(late)
		w.waits(writer)
		for _, ch := range others {
			w.unlock(w.expect(ch).hold)
			w.waits(writer)
		}
		w.unlock(early)
		w.unlock(w.expect(writer).hold)
		w.empty()
	})
}

// TestDowngradeLetsReadersIn without a gap in which somebody could write.
func TestDowngradeLetsReadersIn(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a").RWMutex("x"), w.dial("b").RWMutex("x"), w.dial("c").RWMutex("x")
		h := w.take(a.Lock)
		token := h.Token()
		reader, writer, late := w.join("x", b.RLock), w.join("x", c.Lock), w.join("x", b.RLock)
		w.waits(reader)
		if err := h.Downgrade(w.ctx); err != nil {
			t.Fatal(err)
		}
		if !h.Valid() || h.Token() != token {
			t.Errorf("downgraded, the hold is valid: %v, its token %v, was %v", h.Valid(), h.Token(), token)
		}
		r := w.expect(reader).hold
		w.waits(writer)
		w.waits(late)
		if err := h.Downgrade(w.ctx); err != nil {
			t.Errorf("once more: %v", err)
		}
		if _, err := a.Lock(h.Context()); !errors.Is(err, lock.ErrUpgrade) {
			t.Errorf("Lock by a downgraded hold: %v", err)
		}
		time.Sleep(3 * ttl) // renewals do not take it back
		w.waits(writer)
		w.unlock(h)
		w.waits(writer)
		w.unlock(r)
		write := w.expect(writer).hold
		w.waits(late)
		w.unlock(write)
		w.unlock(w.expect(late).hold)
		w.empty()
	})
}

// TestWriterBehindADowngradedHold waits until that is unlocked.
func TestWriterBehindADowngradedHold(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a").RWMutex("x"), w.dial("b").RWMutex("x"), w.dial("c").RWMutex("x")
		h := w.take(a.Lock)
		writer := w.join("x", b.Lock)
		if err := h.Downgrade(w.ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl)
		reader := w.join("x", c.RLock)
		w.waits(writer)
		w.waits(reader)
		w.unlock(h)
		w.waits(reader)
		w.unlock(w.expect(writer).hold)
		w.unlock(w.expect(reader).hold)
		w.empty()
	})
}

// TestTryRLockBesideADowngradedHold finds nobody in its way.
func TestTryRLockBesideADowngradedHold(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a").RWMutex("x"), w.dial("b").RWMutex("x")
		h := w.take(a.Lock)
		if err := h.Downgrade(w.ctx); err != nil {
			t.Fatal(err)
		}
		r := w.take(b.TryRLock)
		if _, err := b.TryLock(w.ctx); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("TryLock beside readers: %v", err)
		}
		w.unlock(h)
		w.unlock(r)
		w.empty()
	})
}

// TestDowngradeThatIsNotAcknowledged: the hold reads from the call on, and the readers
// hear of it by the next renewal.
func TestDowngradeThatIsNotAcknowledged(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a").RWMutex("x"), w.dial("b").RWMutex("x")
		h := w.take(a.Lock)
		reader := w.join("x", b.RLock)
		w.kill("a")
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		mustBe(t, h.Downgrade(ctx), context.DeadlineExceeded)
		_, err := a.Lock(h.Context())
		mustBe(t, err, lock.ErrUpgrade)
		w.waits(reader)
		w.Heal("a")
		time.Sleep(ttl)
		w.unlock(w.expect(reader).hold)
		if !h.Valid() {
			t.Errorf("the hold has ended: %v", h.Err())
		}
		w.unlock(h)
		w.empty()
	})
}

// TestWhatCannotBeDowngraded says so.
func TestWhatCannotBeDowngraded(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial("a")
		rw := c.RWMutex("x")
		m := w.lock(c, "m")
		err := m.Downgrade(w.ctx)
		mustBe(t, err, lock.ErrInvalid)
		mustSay(t, err, "RWMutex", "mutex", "m")
		w.unlock(m)
		mustBe(t, m.Downgrade(w.ctx), lock.ErrUnlocked)
		mustBe(t, (*lock.Hold)(nil).Downgrade(w.ctx), lock.ErrUnlocked)

		outer := w.take(rw.Lock)
		inner, err := rw.Lock(outer.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = outer.Downgrade(w.ctx)
		mustBe(t, err, lock.ErrInvalid)
		mustSay(t, err, "other handle")
		w.unlock(inner)
		var none context.Context
		mustBe(t, outer.Downgrade(none), lock.ErrInvalid)
		if err := outer.Downgrade(w.ctx); err != nil {
			t.Error(err)
		}
		w.unlock(outer)
		r := w.take(rw.RLock)
		if err := r.Downgrade(w.ctx); err != nil {
			t.Errorf("of a reader: %v", err)
		}
		w.unlock(r)
	})
}

// TestReadersAndWritersReenter by the context of a hold; but a reader is refused to write.
func TestReadersAndWritersReenter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial("a")
		rw := c.RWMutex("x")
		for _, tt := range []struct {
			outer, inner string
			refused      bool
		}{
			{"read", "read", false}, {"write", "write", false}, {"write", "read", false}, {"read", "write", true},
		} {
			ways := map[string][]taking{"read": {rw.RLock, rw.TryRLock}, "write": {rw.Lock, rw.TryLock}}
			for _, again := range ways[tt.inner] {
				outer := w.take(ways[tt.outer][0])
				inner, err := again(outer.Context())
				if tt.refused {
					mustBe(t, err, lock.ErrUpgrade)
					mustSay(t, err, `"x"`, "read again")
				} else if err != nil || inner.Token() != outer.Token() {
					t.Errorf("%s in %s: %v, %v", tt.inner, tt.outer, inner, err)
				}
				if inner != nil {
					w.unlock(inner)
				}
				w.unlock(outer)
				if again, err := ways[tt.inner][1](outer.Context()); !errors.Is(err, context.Canceled) {
					t.Errorf("by the context of a hold that has ended: %v, %v", again, err)
				}
			}
		}
		outer := w.take(rw.Lock)
		_, err := c.Mutex("x").Lock(outer.Context()) // of another kind, it is no way in
		mustBe(t, err, lock.ErrKind)
		mustSay(t, err, "rw", "mutex")
		w.unlock(outer)
		w.empty()
	})
}

func TestRWMutexDo(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a").RWMutex("x"), w.dial("b").RWMutex("x")
		err := a.RDo(w.ctx, func(ctx context.Context) error {
			if _, err := a.TryLock(ctx); !errors.Is(err, lock.ErrUpgrade) {
				t.Errorf("upgrade in RDo: %v", err)
			}
			_, err := b.TryLock(w.ctx)
			mustBe(t, err, lock.ErrHeld)
			return b.RDo(w.ctx, func(context.Context) error { return nil })
		})
		if err != nil {
			t.Error(err)
		}
		err = a.Do(w.ctx, func(ctx context.Context) error {
			_, err := b.TryRLock(w.ctx)
			mustBe(t, err, lock.ErrHeld)
			return a.RDo(ctx, func(context.Context) error { return nil })
		})
		if err != nil {
			t.Error(err)
		}
		mustBe(t, a.Do(w.ctx, nil), lock.ErrInvalid)
		if a.Name() != "x" || (*lock.RWMutex)(nil).Name() != "" {
			t.Errorf("names %q, %q", a.Name(), (*lock.RWMutex)(nil).Name())
		}
		_, err = (*lock.RWMutex)(nil).RLock(w.ctx)
		mustBe(t, err, lock.ErrInvalid)
		w.empty()
	})
}

// TestDeadReadersAndWriters block for their TTL and the grace.
func TestDeadReadersAndWriters(t *testing.T) {
	for _, write := range []bool{false, true} {
		simulate(t, locktest.Options{}, func(w *world) {
			var first, second taking
			a, b := w.dial("a").RWMutex("x"), w.dial("b").RWMutex("x")
			if first, second = a.RLock, b.Lock; write {
				first, second = a.Lock, b.RLock
			}
			h := w.take(first)
			ch := w.join("x", second)
			ended := w.end(h)
			d := w.die("a", h.EntryPath())
			got := w.await(ch)
			w.purged(d, got.at, 0, 30*time.Millisecond)
			w.inTurn(ended, got)
			w.unlock(got.hold)
			w.Heal("a")
			w.empty()
		})
	}
}

// TestDeadReaderAmongTheLiving: a writer has to wait for all of them.
func TestDeadReaderAmongTheLiving(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a"), w.dial("b").RWMutex("x"), w.dial("c").RWMutex("x")
		dead := w.take(a.RWMutex("x").RLock)
		living := w.take(b.RLock)
		w.die("a", dead.EntryPath())
		writer := w.join("x", c.Lock)
		time.Sleep(3 * ttl)
		w.waits(writer)
		w.unlock(living)
		w.unlock(w.await(writer).hold)
		w.Heal("a")
		w.empty()
	})
}

// TestReadersCost: alone, one transaction each way; among others a listing more, and
// reads. A waiting writer sees which of the readers are there still.
func TestReadersCost(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a").RWMutex("x"), w.dial("b").RWMutex("x"), w.dial("c").RWMutex("x")
		for _, m := range []*lock.RWMutex{a, b, c} {
			w.unlock(w.take(m.RLock))
			time.Sleep(time.Second)
		}
		for range 2 {
			var h *lock.Hold
			w.wantCost("RLock", w.cost("a", func() { h = w.take(a.RLock) }), map[string]int{"multi": 1}, 1)
			w.wantCost("Unlock", w.cost("a", func() { w.unlock(h) }), map[string]int{"multi": 1}, 1)
			time.Sleep(time.Second)
		}
		for i := range 5 { // the lock's node stays from the third time on
			got := w.cost("a", func() { w.unlock(w.take(a.RLock)) })
			if got.total() != 2 || got.txns != 2 {
				t.Errorf("RLock and Unlock cost %v and %d transactions the %d. time in a row, want two requests", got.requests, got.txns, i+1)
			}
		}
		time.Sleep(time.Second)
		first := w.take(a.RLock)
		w.wantCost("RLock in the process of another reader", w.cost("a", func() { w.unlock(w.take(a.RLock)) }),
			map[string]int{"multi": 1, "getChildren2": 1, "getData": 1, "delete": 1}, 2)
		var second *lock.Hold
		if got := w.cost("b", func() { second = w.take(b.RLock) }); got.txns > 2 || got.total() > 5 { // it does not know yet that somebody is there
			t.Errorf("RLock beside another reader cost %v and %d transactions", got.requests, got.txns)
		}
		writer := w.join("x", c.Lock)
		w.wantCost("a reader who leaves", w.cost("c", func() { w.unlock(first) }), nil, 2)
		w.waits(writer)
		w.wantCost("the last reader who leaves", w.cost("c", func() { w.unlock(second) }), map[string]int{"exists": 1}, 1)
		reader := w.join("x", a.RLock)
		time.Sleep(time.Second) // the writer's grant is recorded
		w.wantCost("a writer who leaves", w.cost("a", func() { w.unlock(w.expect(writer).hold) }), nil, 1)
		w.unlock(w.expect(reader).hold)
		w.empty()
	})
}

// TestManyReadersBehindAWriter all enter together, and none watches another.
func TestManyReadersBehindAWriter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const readers = 40
		a := w.dial("a")
		write := w.take(a.RWMutex("x").Lock)
		var all []<-chan taken
		for i := range readers {
			all = append(all, w.join("x", w.dial(fmt.Sprint("r", i)).RWMutex("x").RLock))
		}
		writer := w.join("x", w.dial("w").RWMutex("x").Lock)
		before := w.Requests()
		w.unlock(write)
		var holds []*lock.Hold
		for _, ch := range all {
			holds = append(holds, w.expect(ch).hold)
		}
		w.waits(writer)
		lists := 0
		for label, r := range w.Requests() {
			lists += r.Requests["getChildren2"] - before[label].Requests["getChildren2"]
		}
		if lists > 0 {
			t.Errorf("%d readers made %d listings as the writer left", readers, lists)
		}
		for _, h := range holds {
			w.unlock(h)
		}
		w.unlock(w.expect(writer).hold)
		w.empty()
	})
}

// TestReadWriteLockOfCurator: its entries are waited for, ours are named so that it waits
// for them, and that it goes on as a reader, by an entry that comes to stand where its
// writer's was, lets no writer of ours in.
func TestReadWriteLockOfCurator(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		z := w.raw("curator")
		w.create(z, "/locks", "", 0)
		w.create(z, "/locks/x", "", 0)
		write := w.create(z, "/locks/x/_c_f8b2-__WRIT__", "", zk.FlagEphemeral|zk.FlagSequence)
		sequence := write[len(write)-10:]
		a, b, c := w.dial("a").RWMutex("x"), w.dial("b").RWMutex("x"), w.dial("c").RWMutex("x")
		writer, reader := w.join("x", a.Lock), w.join("x", b.RLock)
		read := w.create(z, "/locks/x/_c_f8b3-__READ__"+sequence, "", zk.FlagEphemeral)
		w.remove(z, write)
		time.Sleep(time.Second)
		w.waits(writer)
		w.waits(reader)
		w.remove(z, read)
		h := w.expect(writer).hold
		if at := h.EntryPath(); !strings.Contains(at, "-__WRIT__") {
			t.Errorf("a writer's entry is %s", at)
		}
		w.waits(reader)
		w.unlock(h)
		h = w.expect(reader).hold
		if at := h.EntryPath(); !strings.Contains(at, "-__READ__") {
			t.Errorf("a reader's entry is %s", at)
		}
		theirs := w.create(z, "/locks/x/_c_f8b4-__READ__", "", zk.FlagEphemeral|zk.FlagSequence)
		w.unlock(w.take(c.RLock))
		writer = w.join("x", c.Lock)
		w.unlock(h)
		w.waits(writer)
		w.remove(z, theirs)
		w.unlock(w.expect(writer).hold)
	})
}

// TestKindsDoNotMix: each tells what the other is.
func TestKindsDoNotMix(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c, d := w.dial("a"), w.dial("b")
		h := w.lock(c, "x")
		for _, client := range []*lock.Client{c, d} {
			_, err := client.RWMutex("x").RLock(w.ctx)
			mustBe(t, err, lock.ErrKind)
			mustSay(t, err, "mutex", "rw")
		}
		w.unlock(h)
		r := w.take(d.RWMutex("x").RLock)
		for _, client := range []*lock.Client{c, d} {
			_, err := client.Mutex("x").Lock(w.ctx)
			mustBe(t, err, lock.ErrKind)
		}
		if p := w.parent("x"); p.Kind != znode.RW {
			t.Errorf("the parent is %+v", p)
		}
		w.unlock(r)
		w.empty()
		synctest.Wait()
	})
}

// TestReadersOfOneClientJoinTogether: beside one of their own, readers do not wait for each
// other's requests.
func TestReadersOfOneClientJoinTogether(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const n = 64
		rw := w.dial("a").RWMutex("x")
		holds := []*lock.Hold{w.take(rw.RLock)}
		begun := time.Now()
		var others []<-chan taken
		for range n {
			others = append(others, start(func() (*lock.Hold, error) { return rw.RLock(w.ctx) }))
		}
		for _, ch := range others {
			holds = append(holds, w.await(ch).hold)
		}
		if took := time.Since(begun); took > n*latency {
			t.Errorf("%d readers were in after %v, each request takes %v", n, took, 2*latency)
		}
		for _, h := range holds {
			w.unlock(h)
		}
		time.Sleep(time.Second)
		w.empty()
	})
}

// TestReaderBesideOneWhoseParentWasMadeAgain: where an entry of this client stood there is
// somebody else's node by now. Who joins beside that entry writes nothing there, and does
// not stay.
func TestReaderBesideOneWhoseParentWasMadeAgain(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		rw := w.dial("a").RWMutex("x")
		w.take(rw.RLock)
		before := w.remake(w.raw("other"), "x", "not a lock", w.node("/locks/x").Stat.Version)
		h, err := rw.RLock(w.ctx)
		if err == nil {
			w.unlock(h)
		}
		mustBe(t, err, lock.ErrForeign)
		time.Sleep(5 * time.Second)
		if n := w.node(before.Path); string(n.Data) != "not a lock" || n.Stat.NumChildren != 0 || n.Stat.Version != before.Stat.Version {
			t.Errorf("the node of somebody else's holds %q, at version %d, with %d children", n.Data, n.Stat.Version, n.Stat.NumChildren)
		}
	})
}
