package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// breaker is who breaks holds here.
var breaker = znode.Broken{Owner: "root", Host: "node1", PID: 7, Reason: "it hangs"}

// terms are those of the locks here.
var terms = lock.Policy{TTL: ttl, Grace: grace}

func (w *world) breaks(c *lock.Client, path string) *admin.Breaking {
	w.Helper()
	b, err := admin.New(c).Break(w.ctx, path, breaker)
	if err != nil {
		w.Fatal(err)
	}
	return b
}

// TestBreak: the owner learns who has broken its hold, and why, before anybody else has the
// lock; which is soon.
func TestBreak(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.client("a"), w.client("b"), w.client("c")
		h := w.lock(a, "x", lock.WithMetadata(map[string]string{"job": "ship"}))
		next := make(chan error, 1)
		go func() {
			got, err := b.Mutex("x").Lock(w.ctx)
			if err == nil && h.Err() == nil {
				err = errors.New("two hold the lock")
			}
			next <- errors.Join(err, got.Unlock())
		}()
		settle()
		begun := time.Now()
		broken := w.breaks(c, h.EntryPath())
		w.alive(h) // it does not know yet
		if s, err := admin.New(c).Inspect(w.ctx, "x"); err != nil || !strings.Contains(s.Contenders[0].Broken, "it hangs") || s.Contenders[0].Metadata["job"] != "ship" {
			t.Errorf("%+v, %v", s, err)
		}
		if err := broken.Wait(w.ctx, terms); err != nil || !broken.Gone() {
			t.Errorf("%v, gone %v", err, broken.Gone())
		}
		if took := time.Since(begun); took > ttl/2 {
			t.Errorf("took %v of a TTL of %v", took, ttl)
		}
		mustBe(t, h.Err(), lock.ErrLost, lock.ErrBroken)
		mustSay(t, h.Err(), "root (host node1, pid 7): it hangs")
		mustBe(t, context.Cause(h.Context()), lock.ErrBroken)
		if err := <-next; err != nil {
			t.Error(err)
		}
	})
}

// TestBreakTheDead: the entry of an owner that learns nothing stands until its lease has
// ended, counted from its own last write.
func TestBreakTheDead(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.client("a"), w.client("c")
		h := w.lock(a, "x")
		begun := time.Now()
		time.Sleep(ttl / 10)
		w.Partition("a")
		time.Sleep(ttl / 10)
		broken := w.breaks(c, h.EntryPath())
		if err := broken.Wait(w.ctx, terms); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < ttl+grace || took > ttl+2*grace {
			t.Errorf("it has gone after %v", took)
		}
		mustBe(t, h.Err(), lock.ErrExpired)
		if left := w.nodes(); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// TestBreakNow does not wait for the owner.
func TestBreakNow(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.client("a"), w.client("c")
		h := w.lock(a, "x")
		begun := time.Now()
		if err := w.breaks(c, h.EntryPath()).Delete(w.ctx, terms); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 100*latency {
			t.Errorf("took %v", took)
		}
		time.Sleep(ttl / 2)
		mustBe(t, h.Err(), lock.ErrRemoved)
	})
}

// TestBreakAndUnlock: who unlocks before it has noticed deletes its entry, and needs to
// know nothing.
func TestBreakAndUnlock(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.client("a"), w.client("c")
		h := w.lock(a, "x")
		broken := w.breaks(c, h.EntryPath())
		w.unlock(h)
		if err := broken.Wait(w.ctx, terms); err != nil {
			t.Fatal(err)
		}
		if again := w.breaks(c, h.EntryPath()); !again.Gone() || again.Wait(w.ctx, terms) != nil {
			t.Error("an entry that has gone can be broken")
		}
	})
}

// TestBreakAndDetach: what is broken cannot be handed on, and goes at once.
func TestBreakAndDetach(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.client("a"), w.client("c")
		h := w.lock(a, "x")
		begun := time.Now()
		broken := w.breaks(c, h.EntryPath())
		_, err := h.Detach(w.ctx, 0)
		mustBe(t, err, lock.ErrLost, lock.ErrBroken)
		mustSay(t, err, "it hangs")
		if err := broken.Wait(w.ctx, terms); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 100*latency {
			t.Errorf("took %v", took)
		}
	})
}

// TestBreakAWaiter has it queue again, at the end.
func TestBreakAWaiter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.client("a"), w.client("b"), w.client("c")
		h := w.lock(a, "x")
		got := make(chan *lock.Hold, 1)
		go func() {
			hold, err := b.Mutex("x").Lock(w.ctx)
			if err != nil {
				t.Error(err)
			}
			got <- hold
		}()
		settle()
		s, err := admin.New(c).Inspect(w.ctx, "x")
		if err != nil || len(s.Contenders) != 2 {
			t.Fatalf("%+v, %v", s, err)
		}
		if err := w.breaks(c, s.Contenders[1].Path).Wait(w.ctx, terms); err != nil {
			t.Fatal(err)
		}
		w.unlock(h)
		w.unlock(<-got)
	})
}

// TestBreakWhoAttaches: the place that was come back for is gone, as is its entry.
func TestBreakWhoAttaches(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.client("a"), w.client("b"), w.client("c")
		h := w.lock(a, "x")
		ticket, err := b.Mutex("x").Enqueue(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		waits := start(func() (*lock.Hold, error) { return b.Attach(w.ctx, ticket) })
		settle()
		begun := time.Now()
		if err := w.breaks(c, ticket.EntryPath()).Wait(w.ctx, terms); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > ttl/2 {
			t.Errorf("took %v of a TTL of %v", took, ttl)
		}
		err = w.outcome(waits).err
		mustBe(t, err, lock.ErrRemoved)
		mustSay(t, err, "root (host node1, pid 7): it hangs")
		w.unlock(h)
		w.empty()
	})
}

// TestBreakWhoHasAttachedUnawares: whose attach was applied, of which it has not heard when
// the entry is broken. It sees to it that the entry goes, whether it still wants it or not.
func TestBreakWhoHasAttachedUnawares(t *testing.T) {
	for _, givenUp := range []bool{false, true} {
		t.Run(fmt.Sprintf("given up %v", givenUp), func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a, b, c := w.client("a"), w.client("b"), w.client("c")
				ticket := w.detach(w.lock(a, "x"), 2*time.Minute)
				hit := w.fault(func(r locktest.Request) bool {
					return writes("b", ticket.EntryPath())(r) && w.cutOff("b")
				}, locktest.Fault{Drop: locktest.AfterApply})
				ctx, cancel := context.WithCancel(w.ctx)
				defer cancel()
				attached := start(func() (*lock.Hold, error) { return b.Attach(ctx, ticket) })
				w.until("the reply was lost", hit)
				broken := w.breaks(c, ticket.EntryPath())
				if givenUp {
					cancel()
					mustBe(t, w.outcome(attached).err, context.Canceled)
				}
				w.Heal("b")
				begun := time.Now()
				if err := broken.Wait(w.ctx, terms); err != nil {
					t.Error(err)
				}
				if took := time.Since(begun); took > ttl/2 {
					t.Errorf("took %v of a TTL of %v", took, ttl)
				}
				w.empty()
				if !givenUp {
					err := w.outcome(attached).err
					mustBe(t, err, lock.ErrRemoved)
					mustSay(t, err, "root (host node1, pid 7): it hangs")
				}
			})
		})
	}
}

// TestBreakRefuses what is not ours, and a reason that nobody could read.
func TestBreakRefuses(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.client("a"), w.raw("z")
		h := w.lock(a, "x")
		w.create(z, "/locks/x/lock-0000000009", "", 0)
		_, err := admin.New(a).Break(w.ctx, "/locks/x/lock-0000000009", breaker)
		mustBe(t, err, lock.ErrForeign)
		_, err = admin.New(a).Break(w.ctx, h.EntryPath(), znode.Broken{Owner: "a", Reason: strings.Repeat("x", lock.MaxReason+1)})
		mustBe(t, err, lock.ErrInvalid)
		_, err = admin.New(a).Break(w.ctx, h.EntryPath(), znode.Broken{})
		mustBe(t, err, lock.ErrInvalid)
		w.alive(h)
		w.unlock(h)
		if err := z.Delete("/locks/x/lock-0000000009", -1); err != nil {
			t.Error(err)
		}
	})
}

// TestPurge deletes what has expired, and nothing else.
func TestPurge(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.client("a"), w.client("c")
		h := w.lock(a, "x")
		purge := func() bool {
			gone, err := admin.New(c).Purge(w.ctx, h.EntryPath(), terms)
			if err != nil {
				t.Fatal(err)
			}
			return gone
		}
		if purge() {
			t.Error("it lived")
		}
		w.Partition("a")
		time.Sleep(ttl + grace/2)
		if purge() {
			t.Error("the grace was not over")
		}
		time.Sleep(grace)
		if first, second := purge(), purge(); !first || !second {
			t.Error("it had expired")
		}
		if left := w.nodes(); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// TestBreakOverMishaps: a lost request or reply changes nothing.
func TestBreakOverMishaps(t *testing.T) {
	forEachMishap(t, func(w *world, i int) {
		a, c := w.client("a"), w.client("c")
		h := w.lock(a, "x")
		hit := w.mishap(i, "c", func(r locktest.Request) bool { return r.Op != "getData" })
		broken := w.breaks(c, h.EntryPath())
		if !hit() {
			t.Fatal("there was no mishap")
		}
		if err := broken.Wait(w.ctx, terms); err != nil {
			t.Fatal(err)
		}
		mustBe(t, h.Err(), lock.ErrBroken)
	})
}
