// Several locks together: cost, all or none, arguments, reentry, TryLock.

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
		w.unlockAll(w.lockAll(c, eight...)) // creates the root and the ancestors, and learns the time
		for range 3 {
			time.Sleep(2 * time.Second) // until the parents are deleted
			var hs *lock.Holds
			w.wantCost("All.Lock", w.cost("a", func() { hs = w.lockAll(c, eight...) }), map[string]int{"multi": 1}, 1)
			var tokens []lock.Token
			for _, name := range eight {
				h := hs.Hold(name)
				w.alive(h)
				tokens = append(tokens, h.Token())
				equal(t, "czxid of the token", h.Token().Parts().Czxid, w.node(h.EntryPath()).Stat.Czxid)
			}
			equal(t, "different tokens", len(slices.Compact(tokens)), 1)
			w.wantCost("Unlock", w.cost("a", func() { w.unlockAll(hs) }), map[string]int{"multi": 1}, 1)
			equalAll(t, "nodes after Unlock", w.nodes(), []string{"/locks/a", "/locks/b"})
		}
		// If another client waits, the parent is not deleted.
		time.Sleep(2 * time.Second)
		hs := w.lockAll(c, "x", "y", "z")
		ch := w.queue(w.ctx, w.client("b"), "y")
		got := w.cost("a", func() { w.unlockAll(hs) })
		isTrue(t, got.total() == 2 && got.requests["multi"] == 2, "Unlock cost %v, want one transaction that was refused and one that was not", got.requests)
		w.unlock(w.expect(ch).hold)
	})
}

// TestAllOrNone: a client that waits for one of the locks holds none. It holds all once that lock
// is free. If its context ends, it leaves no entry.
func TestAllOrNone(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(b, "y")
		ctx := w.limited(3 * time.Second)
		_, err := a.All([]string{"z", "y", "x"}).Lock(ctx)
		mustBe(t, err, lock.ErrHeld, context.DeadlineExceeded)
		mustSay(t, err, `lock "y"`, h.EntryPath())
		settle()
		for _, name := range []string{"x", "z"} {
			w.hasEntries(name, 0)
		}
		if _, err := a.All([]string{"z", "y", "x"}).TryLock(w.ctx); err == nil {
			t.Error("TryLock has what another client holds")
		} else {
			fails(t, err, lock.ErrHeld, `lock "y"`)
		}
		ch := w.queueAll(w.ctx, a, "z", "y", "x")
		for _, name := range []string{"x", "z"} {
			r := w.record(w.entries(name)[0].Path)
			isTrue(t, !r.Granted(), "the entry of %s tells a grant while y is waited for", name)
		}
		time.Sleep(4 * ttl) // its first entries at two of the locks are renewed
		w.waitsAll(ch)
		x := w.queue(w.ctx, b, "x")
		w.unlock(h)
		hs := w.expectAll(ch)
		w.waits(x)
		isTrue(t, hs.Remaining() != 0 && hs.Err() == nil && hs.Context().Err() == nil, "remaining %v, err %v", hs.Remaining(), hs.Err())
		w.unlockAll(hs)
		mustBe(t, context.Cause(hs.Context()), lock.ErrUnlocked)
		mustBe(t, hs.Err(), lock.ErrUnlocked)
		mustBe(t, hs.Unlock(), lock.ErrUnlocked)
		w.unlock(w.expect(x).hold)
		got, err := a.All([]string{"z", "y", "x"}).TryLock(w.ctx)
		w.ok(err)
		w.unlockAll(got)
		w.empty()
		lost, requeued := a.Stats().Lost, a.Stats().Requeued
		isTrue(t, lost+requeued <= 0, "%d lost, %d queued again", lost, requeued)
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
			"ttl":                                 c.All([]string{"x"}, lock.WithTTL(time.Nanosecond)),
			"must come from a client":             new(lock.All),
		} {
			fails(t, second(all.Lock(w.ctx)), lock.ErrInvalid, says)
			mustBe(t, second(all.TryLock(w.ctx)), lock.ErrInvalid)
		}
		mustBe(t, c.All([]string{"x"}).Do(w.ctx, nil), lock.ErrInvalid)
		w.unlockAll(w.lockAll(c, many[1:]...))
		var hs *lock.Holds
		w.wantCost("All.Lock of the most", w.cost("a", func() { hs = w.lockAll(c, many[1:]...) }), map[string]int{"multi": 1}, 1)
		w.unlockAll(hs)
		isTrue(t, hs.Hold("x") == nil, "there is a hold of a lock that was not named")
	})
}

// TestAllIsReentrant: a call with the context of Holds reenters any of the held locks. All.Lock of a
// held lock together with another one returns ErrInvalid.
func TestAllIsReentrant(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.client("a")
		err := c.All([]string{"x", "y", "z"}).Do(w.ctx, func(ctx context.Context) error {
			hs, err := c.All([]string{"z", "x"}).Lock(ctx)
			if err != nil {
				return err
			}
			h, err := c.Mutex("y").TryLock(hs.Hold("x").Context())
			if err != nil {
				return err
			}
			w.unlock(h)
			w.unlockAll(hs)
			isTrue(t, len(w.entries("x")) == 1 && ctx.Err() == nil, "%d entries after the inner unlock, %v", len(w.entries("x")), ctx.Err())
			fails(t, second(c.All([]string{"x", "other"}).Lock(ctx)), lock.ErrInvalid, `"x"`, `"other"`, "deadlock")
			return nil
		})
		mustBe(w, err, nil)
		w.empty()
	})
}

// TestOneOfAllIsLost: if one of the locks is lost, the context of the Holds ends, and Err names the
// lock. The other holds last until they are unlocked.
func TestOneOfAllIsLost(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.client("a")
		hs := w.lockAll(c, "x", "y", "z")
		ctx := hs.Context()
		w.remove(w.raw("admin"), hs.Hold("y").EntryPath())
		<-ctx.Done()
		var lost *lock.LostError
		mustBe(t, context.Cause(ctx), lock.ErrRemoved)
		isTrue(t, errors.As(hs.Err(), &lost) && lost.Lock == "y", "%v does not tell that y was lost", hs.Err())
		isTrue(t, hs.Remaining() == 0 && hs.Hold("x").Remaining() != 0, "one was lost: all are not valid, and the others are each")
		err := hs.Unlock()
		mustBe(t, err, lock.ErrLost, lock.ErrRemoved)
		isTrue(t, !strings.Contains(err.Error(), `"x"`), "%v is about x too", err)
		w.empty()
	})
}

// TestOneOfAllIsRefused: if one path is refused, the client locks none, and leaves no entry at any
// of the locks.
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
				fails(w, second(take(w.ctx)), parent.err, `lock "y"`)
				time.Sleep(5 * time.Second)
				equalAll(w, "left behind", w.nodes(), []string{"/locks/y"})
			})
		}
	}
}

// TestMaxHoldOfAll: the max_hold of several locks counts from when all locks are held.
func TestMaxHoldOfAll(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(b, "y")
		ch := start(func() (*lock.Holds, error) {
			return a.All([]string{"x", "y"}, lock.WithMaxHold(ttl)).Lock(w.ctx)
		})
		time.Sleep(3*ttl - ttl/10)
		w.unlock(h)
		hs := w.expectAll(ch)
		begun := time.Now()
		<-hs.Context().Done()
		inRange(t, "lasted", time.Since(begun), ttl-time.Second, ttl)
		mustBe(t, hs.Err(), lock.ErrMaxHold)
		mustBe(t, hs.Unlock(), lock.ErrMaxHold)
		w.empty()
	})
}

// TestCounterOfOneOfAllNearItsEnd: while the sequence counter of one lock must restart, a waiter
// for several locks has no entry at the other lock. TryLock returns ErrHeld without waiting.
func TestCounterOfOneOfAllNearItsEnd(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(b, "y")
		w.ok(w.SetSequence("/locks/y", math.MaxInt32))
		if _, err := a.All([]string{"x", "y"}).TryLock(w.ctx); err == nil {
			t.Error("TryLock has what another client holds")
		}
		ch := start(func() (*lock.Holds, error) { return a.All([]string{"x", "y"}).Lock(w.ctx) })
		time.Sleep(3 * time.Second)
		w.waitsAll(ch)
		w.hasEntries("x", 0)
		ctx := w.limited(time.Second)
		_, err := a.Mutex("y").TryLock(ctx)
		if mustBe(t, err, lock.ErrHeld); ctx.Err() != nil {
			t.Error("TryLock has waited")
		}
		w.waitsAll(ch)
		w.unlock(h)
		time.Sleep(3 * time.Second)
		w.unlockAll(w.expectAll(ch))
		w.empty()
	})
}

// TestTryLockOfAllAtALaggingServer: TryLock of a free lock succeeds, even if the client's server
// lags behind and does not show the unlock yet.
func TestTryLockOfAllAtALaggingServer(t *testing.T) {
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
			h, err := c.Mutex("x").WithBarging().TryLock(w.ctx)
			return h.Unlock, err
		},
	}, func(w *world, try func(w *world, c *lock.Client) (unlock func() error, err error)) {
		follower := w.followers()[0]
		a, b := w.dialAt("a", []string{w.Leader()}, usual), w.dialAt("b", []string{follower}, usual)
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		settle()
		w.ok(w.Lag(follower, time.Second))
		w.unlock(h)
		unlock, err := try(w, b)
		mustBeTrue(w, err == nil, "the lock is free: %v", err)
		mustBe(w, unlock(), nil)
	})
}

// TestAllTooLarge: MaxAll locks with the longest names and metadata fit into one transaction. If
// the ACL is long too, Lock returns ErrInvalid, because a server would end the connection at each
// attempt.
func TestAllTooLarge(t *testing.T) {
	for _, users := range []int{1, 100} {
		subtest(t, fmt.Sprint(users, " users"), locktest.Options{}, func(w *world) {
			acl := zk.WorldACL(zk.PermAll)
			for i := range users {
				acl = append(acl, zk.DigestACL(zk.PermAll, fmt.Sprint("user", i), "secret")...)
			}
			a := w.dial("a", lock.WithACL(acl...))
			names := make([]string, lock.MaxAll)
			for i := range names {
				names[i] = fmt.Sprintf("%03d%s", i, strings.Repeat("x", 509))
			}
			all := a.All(names, lock.WithMetadata(map[string]string{"k": strings.Repeat("v", 4095)}))
			hs, err := all.Lock(w.limited(ttl))
			if users > 1 {
				fails(w, err, lock.ErrInvalid, "names (64 of them)", "must be fewer", "at most 786432")
				mustBe(w, all.Validate(), err)
				return
			}
			w.ok(err)
			w.unlockAll(hs)
		})
	}
}
