// Several locks together: what they cost, all or none, arguments, reentry, TryLock.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

var eight = []string{"a/1", "a/2", "b/1", "b/2", "c", "d", "e", "f"}

func TestFreeLocksAreOneTransactionEachWay(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.client("a")
		w.unlockAll(w.lockAll(c, eight...)) // makes the root and the ancestors, and learns the time
		for range 3 {
			time.Sleep(2 * time.Second) // so that the parents do not stay
			var hs *lock.Holds
			w.wantCost("LockAll", w.cost("a", func() { hs = w.lockAll(c, eight...) }), map[string]int{"multi": 1}, 1)
			var tokens []lock.Token
			for _, name := range eight {
				h := hs.Hold(name)
				w.alive(h)
				tokens = append(tokens, h.Token())
				if h.Token().Czxid != w.node(h.EntryPath()).Stat.Czxid {
					t.Errorf("token of %s is %v", name, h.Token())
				}
			}
			if len(slices.Compact(tokens)) != 1 {
				t.Errorf("tokens %v of one transaction differ", tokens)
			}
			w.wantCost("Unlock", w.cost("a", func() { w.unlockAll(hs) }), map[string]int{"multi": 1}, 1)
			if got := w.nodes(); !slices.Equal(got, []string{"/locks/a", "/locks/b"}) {
				t.Errorf("nodes after Unlock: %q, want the ancestors alone", got)
			}
		}
		// Where another client waits the parent is not deleted.
		time.Sleep(2 * time.Second)
		hs := w.lockAll(c, "x", "y", "z")
		ch := w.queue(w.ctx, w.client("b"), "y")
		if got := w.cost("a", func() { w.unlockAll(hs) }); got.total() != 2 || got.requests["multi"] != 2 {
			t.Errorf("Unlock cost %v, want one transaction that was refused and one that was not", got.requests)
		}
		w.unlock(w.expect(ch).hold)
	})
}

// TestAllOrNone: a client that waits for one of the locks holds none, and holds them all once that is
// free; and has left nothing once its context has ended.
func TestAllOrNone(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(b, "y")
		ctx := w.limited(3 * time.Second)
		_, err := a.LockAll(ctx, "z", "y", "x")
		mustBe(t, err, lock.ErrHeld, context.DeadlineExceeded)
		mustSay(t, err, `lock "y"`, h.EntryPath())
		settle()
		for _, name := range []string{"x", "z"} {
			if e := w.entries(name); len(e) > 0 {
				t.Errorf("left behind: %q", paths(e))
			}
		}
		if _, err := a.All([]string{"z", "y", "x"}).TryLock(w.ctx); err == nil {
			t.Error("TryLock has what another client holds")
		} else {
			mustBe(t, err, lock.ErrHeld)
			mustSay(t, err, `lock "y"`)
		}
		ch := w.queueAll(w.ctx, a, "z", "y", "x")
		for _, name := range []string{"x", "z"} {
			if r := w.record(w.entries(name)[0].Path); r.Granted() {
				t.Errorf("the entry of %s tells a grant while y is waited for", name)
			}
		}
		time.Sleep(4 * ttl) // its entries are first at two locks, and are renewed
		w.waitsAll(ch)
		x := w.queue(w.ctx, b, "x")
		w.unlock(h)
		hs := w.expectAll(ch)
		w.waits(x)
		if hs.Remaining() == 0 || hs.Err() != nil || hs.Context().Err() != nil {
			t.Errorf("remaining %v, err %v", hs.Remaining(), hs.Err())
		}
		w.unlockAll(hs)
		mustBe(t, context.Cause(hs.Context()), lock.ErrUnlocked)
		mustBe(t, hs.Err(), lock.ErrUnlocked)
		mustBe(t, hs.Unlock(), lock.ErrUnlocked)
		w.unlock(w.expect(x).hold)
		got, err := a.All([]string{"z", "y", "x"}).TryLock(w.ctx)
		w.ok(err)
		w.unlockAll(got)
		w.empty()
		if lost, requeued := a.Stats().Lost, a.Stats().Requeued; lost+requeued > 0 {
			t.Errorf("%d lost, %d queued again", lost, requeued)
		}
	})
}

func TestNamesOfAll(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.client("a")
		many := make([]string, lock.MaxAll+1)
		for i := range many {
			many[i] = fmt.Sprintf("many/%d", i)
		}
		for says, all := range map[string]*lock.All{
			"names (0 of them): must be 1 to 64":  c.All(nil),
			"names (65 of them): must be 1 to 64": c.All(many),
			`"x" stands there twice`:              c.All([]string{"x", "y", "x"}),
			`"/y": must not start with a slash`:   c.All([]string{"x", "/y"}),
			"WithBarging":                         c.All([]string{"x"}, lock.WithBarging()),
			"ttl":                                 c.All([]string{"x"}, lock.WithTTL(time.Nanosecond)),
			"must come from a client":             new(lock.All),
		} {
			_, err := all.Lock(w.ctx)
			mustBe(t, err, lock.ErrInvalid)
			mustSay(t, err, says)
			_, err = all.TryLock(w.ctx)
			mustBe(t, err, lock.ErrInvalid)
		}
		mustBe(t, c.All([]string{"x"}).Do(w.ctx, nil), lock.ErrInvalid)
		w.unlockAll(w.lockAll(c, many[1:]...))
		var hs *lock.Holds
		w.wantCost("LockAll of the most", w.cost("a", func() { hs = w.lockAll(c, many[1:]...) }), map[string]int{"multi": 1}, 1)
		w.unlockAll(hs)
		if hs.Hold("x") != nil {
			t.Error("there is a hold of a lock that was not named")
		}
	})
}

// TestAllAgain: with the context of holds of all, all are shared; with one of some, none is.
func TestAllAgain(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.client("a")
		err := c.All([]string{"x", "y", "z"}).Do(w.ctx, func(ctx context.Context) error {
			hs, err := c.LockAll(ctx, "z", "x")
			if err != nil {
				return err
			}
			h, err := c.Mutex("y").TryLock(hs.Hold("x").Context())
			if err != nil {
				return err
			}
			w.unlock(h)
			w.unlockAll(hs)
			if n := len(w.entries("x")); n != 1 || ctx.Err() != nil {
				t.Errorf("%d entries after the inner unlock, %v", n, ctx.Err())
			}
			_, err = c.LockAll(ctx, "x", "other")
			mustBe(t, err, lock.ErrInvalid)
			mustSay(t, err, `"x"`, `"other"`, "deadlock")
			return nil
		})
		mustBe(w, err, nil)
		w.empty()
	})
}

// TestOneOfAllIsLost: the context says which; the others last until they are unlocked.
func TestOneOfAllIsLost(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.client("a")
		hs := w.lockAll(c, "x", "y", "z")
		ctx := hs.Context()
		w.remove(w.raw("admin"), hs.Hold("y").EntryPath())
		<-ctx.Done()
		var lost *lock.LostError
		mustBe(t, context.Cause(ctx), lock.ErrRemoved)
		if err := hs.Err(); !errors.As(err, &lost) || lost.Lock != "y" {
			t.Errorf("%v does not tell that y was lost", err)
		}
		if hs.Remaining() > 0 || hs.Hold("x").Remaining() == 0 {
			t.Error("one was lost: all are not valid, and the others are each")
		}
		err := hs.Unlock()
		mustBe(t, err, lock.ErrLost, lock.ErrRemoved)
		if strings.Contains(err.Error(), `"x"`) {
			t.Errorf("%v is about x too", err)
		}
		w.empty()
	})
}

// TestOneOfAllIsRefused: what one path refuses, none of the locks are taken for.
func TestOneOfAllIsRefused(t *testing.T) {
	for _, parent := range []struct {
		what, data string
		acl        []zk.ACL
		err        error
	}{
		{"foreign", "something", zk.WorldACL(zk.PermAll), lock.ErrForeign},
		{"another kind", `{"holdfast":2,"kind":"semaphore"}`, zk.WorldACL(zk.PermAll), lock.ErrKind},
		{"denied", `{"holdfast":2,"kind":"mutex"}`, zk.WorldACL(zk.PermRead), lock.ErrDenied},
	} {
		for _, try := range []bool{false, true} {
			subtest(t, fmt.Sprintf("%s try %v", parent.what, try), locktest.Options{}, func(w *world) {
				c := w.client("a")
				w.unlock(w.lock(c, "other"))
				w.createACL(w.raw("stranger"), "/locks/y", parent.data, parent.acl)
				all := c.All([]string{"x", "y", "z"})
				take := all.Lock
				if try {
					take = all.TryLock
				}
				_, err := take(w.ctx)
				mustBe(w, err, parent.err)
				mustSay(w, err, `lock "y"`)
				time.Sleep(5 * time.Second)
				if left := w.nodes(); !slices.Equal(left, []string{"/locks/y"}) {
					w.Errorf("left behind: %q", left)
				}
			})
		}
	}
}

// TestFixedLeasesOfAll: they run from when all were had.
func TestFixedLeasesOfAll(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(b, "y")
		ch := startAll(func() (*lock.Holds, error) {
			return a.All([]string{"x", "y"}, lock.WithoutRenewal()).Lock(w.ctx)
		})
		time.Sleep(3*ttl - ttl/10)
		w.unlock(h)
		hs := w.expectAll(ch)
		if left := hs.Remaining(); left < ttl*9/10 {
			t.Errorf("%v left of a lease that begins with the grant", left)
		}
		<-hs.Context().Done()
		mustBe(t, hs.Err(), lock.ErrExpired)
		mustBe(t, hs.Unlock(), lock.ErrExpired)
		w.empty()
	})
}

// TestCounterOfOneOfAllNearItsEnd: no client waits with entries while it begins anew, nor
// keeps TryLock waiting.
func TestCounterOfOneOfAllNearItsEnd(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.client("a"), w.client("b"), w.raw("other")
		h := w.lock(b, "y")
		w.ok(w.SetSequence("/locks/y", math.MaxInt32))
		if _, err := a.All([]string{"x", "y"}).TryLock(w.ctx); err == nil {
			t.Error("TryLock has what another client holds")
		}
		ch := startAll(func() (*lock.Holds, error) { return a.LockAll(w.ctx, "x", "y") })
		time.Sleep(3 * time.Second)
		w.waitsAll(ch)
		atMost(w, "entries of x while y is drained", len(w.entries("x")), 0)
		w.create(z, "/locks/y/other-program", "", 0)
		w.unlock(h)
		w.waitsAll(ch)
		ctx := w.limited(time.Second)
		_, err := a.Mutex("y").TryLock(ctx)
		if mustBe(t, err, lock.ErrHeld); ctx.Err() != nil {
			t.Error("TryLock has waited")
		}
		w.remove(z, "/locks/y/other-program")
		time.Sleep(3 * time.Second)
		w.unlockAll(w.expectAll(ch))
		w.empty()
	})
}

// TestTryLockOfWhatIsKept: what the client keeps itself is free for it alone.
func TestTryLockOfWhatIsKept(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a", riding(time.Hour)), w.client("b")
		w.unlock(w.lock(a, "x"))
		w.unlock(w.lock(a, "y"))
		if n := len(w.entries("x")) + len(w.entries("y")); n != 2 {
			t.Fatalf("%d entries are kept, want two", n)
		}
		_, err := b.All([]string{"x", "y"}).TryLock(w.ctx)
		mustBe(t, err, lock.ErrHeld)
		hs, err := a.All([]string{"x", "y"}).TryLock(w.ctx)
		w.ok(err)
		w.soleAll(hs)
		w.unlockAll(hs)
		w.unlockAll(w.lockAll(b, "x", "y"))
		w.empty()
	})
}

// TestTryLockOfWhatIsFree on a server that has not heard of that yet.
func TestTryLockOfWhatIsFree(t *testing.T) {
	forEach(t, locktest.Options{Members: 3}, map[string]func(w *world, c *lock.Client) (unlock func() error, err error){
		"one": func(w *world, c *lock.Client) (func() error, error) {
			h, err := c.Mutex("x").TryLock(w.ctx)
			return h.Unlock, err
		},
		"several": func(w *world, c *lock.Client) (func() error, error) {
			hs, err := c.All([]string{"x", "y"}).TryLock(w.ctx)
			return hs.Unlock, err
		},
		"barging": func(w *world, c *lock.Client) (func() error, error) {
			h, err := c.Mutex("x", lock.WithBarging()).TryLock(w.ctx)
			return h.Unlock, err
		},
	}, func(w *world, try func(w *world, c *lock.Client) (unlock func() error, err error)) {
		follower := w.Servers()[0]
		if follower == w.Leader() {
			follower = w.Servers()[1]
		}
		a, b := w.dialAt("a", []string{w.Leader()}, usual), w.dialAt("b", []string{follower}, usual)
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		settle()
		w.ok(w.Lag(follower, time.Second))
		w.unlock(h)
		unlock, err := try(w, b)
		if err != nil {
			w.Fatalf("the lock is free: %v", err)
		}
		mustBe(w, unlock(), nil)
	})
}
