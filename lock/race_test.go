package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestRenewalBeatsPurge: the holder comes back between the read that showed its
// entry expired and the purge, which must not hit what it has not judged.
func TestRenewalBeatsPurge(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("other")
		h := w.lock(a, "x")
		ch := w.queue(w.ctx, b, "x")
		d := w.die("a", h.EntryPath())
		hit := w.before(func(r locktest.Request) bool { return r.Label == "b" && leaves(h)(r) }, func() {
			if _, err := z.Set(h.EntryPath(), w.node(h.EntryPath()).Data, -1); err != nil {
				t.Error(err)
			}
		})
		w.until("the purge", hit)
		if at := time.Now(); at.Sub(time.UnixMilli(d.end)) < grace {
			t.Errorf("purged at %v", at)
		}
		renewed := dead{h.EntryPath(), w.node(h.EntryPath()).Stat.Mtime + ttl.Milliseconds()}
		got := w.await(ch)
		w.purged(renewed, got.at, 0, 20*time.Millisecond)
		w.unlock(got.hold)
	})
}

// TestRenewalBeatsListing: the holder comes back between the read that showed its entry
// expired and the one by which it is purged. For how long the version before was known
// says nothing of the one that is there now.
func TestRenewalBeatsListing(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("other")
		h := w.lock(a, "x")
		ch := w.queue(w.ctx, b, "x")
		w.kill("a")
		hit := w.fault(func(r locktest.Request) bool {
			if r.Label != "b" || r.Op != "getChildren2" {
				return false
			}
			if _, err := z.Set(h.EntryPath(), w.node(h.EntryPath()).Data, -1); err != nil {
				t.Error(err)
			}
			return true
		}, locktest.Fault{Delay: 100 * time.Millisecond})
		w.until("the listing", hit)
		renewed := dead{h.EntryPath(), w.node(h.EntryPath()).Stat.Mtime + ttl.Milliseconds()}
		got := w.await(ch)
		w.purged(renewed, got.at, 0, 20*time.Millisecond)
		w.unlock(got.hold)
	})
}

// TestTwoPurgeTheSame: the slower one does not spoil anything.
func TestTwoPurgeTheSame(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("other")
		h := w.lock(a, "x")
		ch := w.queue(w.ctx, b, "x")
		w.kill("a")
		hit := w.before(func(r locktest.Request) bool { return r.Label == "b" && leaves(h)(r) }, func() { w.remove(z, h.EntryPath()) })
		got := w.await(ch)
		if n := b.Stats().Purged; !hit() || n != 0 {
			t.Errorf("purged %d that somebody else had deleted", n)
		}
		w.unlock(got.hold)
		w.Heal("a")
		w.empty()
	})
}

// TestTryLockTakesWhatHasExpired, and waits for nobody.
func TestTryLockTakesWhatHasExpired(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.lock(w.dial("a"), "x")
		ended := w.end(h)
		b := w.dial("b")
		d := w.die("a", h.EntryPath())
		var got taken
		for {
			hold, err := b.Mutex("x").TryLock(w.ctx)
			if err == nil {
				got = taken{hold, nil, time.Now()}
				break
			}
			mustBe(t, err, lock.ErrHeld)
			time.Sleep(10 * time.Millisecond)
		}
		w.purged(d, got.at, 0, 30*time.Millisecond)
		w.inTurn(ended, got)
		w.sole(got.hold)
		w.unlock(got.hold)
		w.Heal("a")
		w.empty()
	})
}

// TestTryLockThatLearnsTheTimeSlowly: until it knows the ensemble's time the lease that it has
// read has run out, and the holder has renewed it. It says so, and writes no entry.
func TestTryLockThatLearnsTheTimeSlowly(t *testing.T) {
	simulate(t, locktest.Options{Members: 3}, func(w *world) {
		const brief = time.Second
		h := w.lock(w.dial("a"), "x", lock.WithTTL(brief))
		b := w.dial("b")
		w.elect(0) // its time is another one
		time.Sleep(brief)
		var asked, joined atomic.Bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			switch {
			case r.Label != "b" || r.Op != "multi":
			case joins(r):
				joined.Store(true)
			case !asked.Swap(true):
				return locktest.Fault{DelayReply: 2*brief + grace}
			}
			return locktest.Fault{}
		})
		_, err := b.Mutex("x").TryLock(w.ctx)
		mustBe(t, err, lock.ErrHeld)
		if !asked.Load() || joined.Load() {
			t.Errorf("it asked for the time: %v, and joined: %v", asked.Load(), joined.Load())
		}
		w.sole(h)
		w.unlock(h)
	})
}

// TestTryLockThatComesLate: somebody takes the lock between the look and the join.
func TestTryLockThatComesLate(t *testing.T) {
	for _, prior := range []string{"nothing", "a parent", "an expired entry", "the end of the counter"} {
		t.Run(prior, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				p := lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: prior != "nothing"})
				a, b := w.dial("a", p), w.dial("b", p)
				if prior != "nothing" {
					w.unlock(w.lock(a, "x"))
				}
				if prior == "an expired entry" {
					w.lock(w.dial("dead"), "x")
					w.kill("dead")
					time.Sleep(3 * ttl)
				}
				var h *lock.Hold
				hit := w.before(func(r locktest.Request) bool { return r.Label == "b" && joins(r) }, func() {
					if prior == "the end of the counter" {
						if err := w.SetSequence("/locks/x", math.MaxInt32); err != nil {
							t.Error(err)
						}
					}
					h = w.lock(a, "x")
				})
				_, err := b.Mutex("x").TryLock(w.ctx)
				mustBe(t, err, lock.ErrHeld)
				if !hit() {
					t.Fatal("did not join")
				}
				w.sole(h)
				w.unlock(h)
			})
		})
	}
}

// TestManyJoinAtOnce, each from a client of its own.
func TestManyJoinAtOnce(t *testing.T) {
	simulate(t, locktest.Options{Latency: func(string, string) time.Duration { return time.Millisecond }}, func(w *world) {
		const n = 24
		var queue []<-chan taken
		begin := make(chan struct{})
		for i := range n {
			c := w.dial(fmt.Sprint("c", i))
			queue = append(queue, start(func() (*lock.Hold, error) {
				<-begin
				return c.Mutex("x").Lock(w.ctx)
			}))
		}
		close(begin)
		counter, inside := 0, 0
		var last lock.Token
		done := make(chan struct{}, n)
		for _, ch := range queue {
			go func() {
				defer func() { done <- struct{}{} }()
				got := <-ch
				if got.err != nil {
					t.Error(got.err)
					return
				}
				if inside++; inside != 1 {
					t.Errorf("%d inside", inside)
				}
				if got.hold.Token().Compare(last) <= 0 {
					t.Errorf("token %v follows %v", got.hold.Token(), last)
				}
				last = got.hold.Token()
				counter++
				inside--
				if err := got.hold.Unlock(); err != nil {
					t.Error(err)
				}
			}()
		}
		for range n {
			<-done
		}
		if counter != n {
			t.Errorf("%d were served", counter)
		}
		w.empty()
	})
}

// TestUnlockOfWhatIsGone tells what happened and touches nothing.
func TestUnlockOfWhatIsGone(t *testing.T) {
	for _, kept := range []bool{false, true} {
		simulate(t, locktest.Options{}, func(w *world) {
			a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: kept}))
			z := w.raw("other")
			h := w.lock(a, "x")
			w.remove(z, h.EntryPath())
			mustBe(t, h.Unlock(), lock.ErrLost, lock.ErrRemoved)
			mustBe(t, h.Unlock(), lock.ErrUnlocked)

			h = w.lock(a, "y")
			if _, err := z.Set(h.EntryPath(), []byte("mine"), -1); err != nil {
				t.Fatal(err)
			}
			err := h.Unlock()
			mustBe(t, err, lock.ErrLost, lock.ErrTaken)
			var lost *lock.LostError
			if !errors.As(err, &lost) || lost.Lock != "y" || lost.Entry != h.EntryPath() {
				t.Errorf("%#v", err)
			}
			time.Sleep(3 * ttl)
			if n := w.node(h.EntryPath()); string(n.Data) != "mine" {
				t.Errorf("the entry holds %s", n.Data)
			}
		})
	}
}

// TestHolderLeavesAsItIsLookedAt: between the server's answer to the waiter's first
// look at it and the answer's arrival.
func TestHolderLeavesAsItIsLookedAt(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x")
		const late = time.Second
		hit := w.fault(func(r locktest.Request) bool { return r.Label == "b" && r.Op == "getData" && touches(r, h.EntryPath()) },
			locktest.Fault{DelayReply: late})
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
		w.until("the look", hit)
		w.unlock(h)
		time.Sleep(late)
		w.unlock(w.expect(ch).hold)
		w.empty()
	})
}

// TestLateDeleteHitsNoStranger: when a holder that was cut off is back, its lock has
// been purged, deleted and made again, and another's entry has the sequence number
// and the version that its own had.
func TestLateDeleteHitsNoStranger(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		old := w.lock(a, "x")
		d := w.die("a", old.EntryPath())
		got := w.await(w.queue(w.ctx, b, "x"))
		w.purged(d, got.at, 0, ttl)
		w.unlock(got.hold)
		w.empty()

		h := w.lock(b, "x")
		was, _ := znode.Parse(path.Base(old.EntryPath()))
		if is, _ := znode.Parse(path.Base(h.EntryPath())); is.Seq != was.Seq {
			t.Fatalf("entries %s and %s: the sequence did not start anew", old.EntryPath(), h.EntryPath())
		}
		hit := w.fault(func(r locktest.Request) bool { return mutates(r, "a") }, locktest.Fault{})
		w.Heal("a")
		mustBe(t, old.Unlock(), lock.ErrLost)
		w.until("its late delete", hit)
		w.sole(h)
		w.unlock(h)
		w.empty()
	})
}

// TestReadBackOfRenewal: what stands in an entry that was overwritten cannot be
// read at first, or has gone by then.
func TestReadBackOfRenewal(t *testing.T) {
	for code, want := range map[int32]error{0: lock.ErrTaken, codeNoAuth: lock.ErrTaken, codeNoNode: lock.ErrRemoved} {
		simulate(t, locktest.Options{}, func(w *world) {
			a, z := w.dial("a"), w.raw("other")
			h := w.lock(a, "x")
			if _, err := z.Set(h.EntryPath(), w.node(h.EntryPath()).Data, -1); err != nil { // the very bytes, and not our write
				t.Fatal(err)
			}
			hit := w.fault(func(r locktest.Request) bool { return r.Label == "a" && r.Op == "getData" && touches(r, h.EntryPath()) }, locktest.Fault{Code: code})
			ended := w.end(h).wait()
			if !hit() || time.Since(ended) > ttl {
				t.Errorf("read back %v", hit())
			}
			mustBe(t, h.Err(), lock.ErrLost, want)
		})
	}
}

// TestOverwrittenInDoubt: a renewal was applied, its reply lost, and then somebody else
// wrote the entry. What is read back is not taken for the renewal.
func TestOverwrittenInDoubt(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		h := w.lock(a, "x")
		ended := w.end(h)
		hit := w.fault(func(r locktest.Request) bool { return renews(r, h) && w.cutOff("a") }, locktest.Fault{Drop: locktest.AfterApply})
		w.until("a renewal", hit)
		if v := w.node(h.EntryPath()).Stat.Version; v != 1 {
			w.Fatalf("the entry is at version %d", v)
		}
		if _, err := z.Set(h.EntryPath(), []byte("somebody else's"), -1); err != nil {
			w.Fatal(err)
		}
		w.Heal("a")
		ended.wait()
		mustBe(t, h.Err(), lock.ErrTaken)
		if s := a.Stats(); s.Renewals != 0 {
			t.Errorf("stats %+v, want no renewals", s)
		}
	})
}

// TestGivenUpWhileItIsLookedFor: the outcome of a create is unknown, and before it
// is known the caller gives up.
func TestGivenUpWhileItIsLookedFor(t *testing.T) {
	for _, drop := range []locktest.Drop{locktest.BeforeApply, locktest.AfterApply} {
		simulate(t, locktest.Options{}, func(w *world) {
			a := w.dial("a")
			w.unlock(w.lock(a, "x"))
			w.fault(func(r locktest.Request) bool { return joins(r) && w.cutOff("a") }, locktest.Fault{Drop: drop})
			ctx, cancel := context.WithTimeout(w.ctx, 6*time.Second)
			defer cancel()
			_, err := a.Mutex("x").Lock(ctx)
			mustBe(t, err, context.DeadlineExceeded)
			if n, want := len(w.entries("x")), int(drop)-1; n != want {
				t.Errorf("%d entries, want %d", n, want)
			}
			w.Heal("a")
			w.empty()
		})
	}
}

// TestServerRefuses for a reason that no later try will change.
func TestServerRefuses(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		w.unlock(w.lock(a, "x"))
		w.fault(joins, locktest.Fault{Code: codeQuota})
		_, err := a.Mutex("x").Lock(w.ctx)
		mustSay(t, err, `lock "x"`, "-125")
		h := w.lock(a, "x")
		w.fault(func(r locktest.Request) bool { return leaves(h)(r) }, locktest.Fault{Code: codeQuota})
		mustSay(t, h.Unlock(), `unlock "x"`, "delete "+h.EntryPath(), "-125")
		w.empty() // made up for

		c := w.dial("c", lock.WithACL(zk.ACL{Perms: zk.PermAll, Scheme: "bogus", ID: "me"}))
		_, err = c.Mutex("y").Lock(w.ctx)
		mustBe(t, err, zk.ErrInvalidACL)
		mustSay(t, err, "create an entry below /locks/y")
		w.empty()
	})
}

// TestStraysAreForgotten: ids of entries that should not be there are kept for
// an hour.
func TestStraysAreForgotten(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		h := w.lock(w.dial("b"), "x")
		ch := w.queue(w.ctx, a, "x")
		for range 2 {
			n := a.Stats().Requeued
			w.remove(z, w.entries("x")[1].Path)
			w.until("it queues again", func() bool { return a.Stats().Requeued > n && len(w.entries("x")) == 2 })
			if n := a.Orphans(); n != 1 {
				t.Errorf("%d strays are remembered", n)
			}
			time.Sleep(61 * time.Minute)
		}
		w.unlock(h)
		w.unlock(w.expect(ch).hold)
		w.empty()
	})
}

// TestOneWatchForAllWaiters of a process, and none that stays behind.
func TestOneWatchForAllWaiters(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		w.unlock(w.lock(a, "x"))
		w.create(z, "/locks/x", "", 0)
		ahead := w.create(z, "/locks/x/lock-", "", zk.FlagSequence)
		events := 0
		w.Trace(func(e locktest.Event) {
			if e.Kind == "watch" && e.Label == "a" && strings.HasPrefix(ahead, e.Paths[0]) {
				events++
			}
		})
		ctx, cancel := context.WithCancel(w.ctx)
		var queue []<-chan taken
		for range 10 { // each gives up, and the next one waits for the same
			one, giveUp := context.WithTimeout(ctx, time.Second)
			defer giveUp()
			queue = append(queue, w.queue(one, a, "x"))
			mustBe(t, (<-queue[len(queue)-1]).err, context.DeadlineExceeded)
		}
		ch := w.queue(ctx, a, "x")
		w.remove(z, ahead)
		w.unlock(w.expect(ch).hold)
		cancel()
		w.Trace(nil)
		if events != 1 {
			t.Errorf("%d events for one deletion", events)
		}

		// And of all that was watched, what fired is forgotten.
		for i := range 300 {
			name := fmt.Sprint("y", i)
			h := w.lock(a, name)
			ch := start(func() (*lock.Hold, error) { return a.Mutex(name).Lock(w.ctx) })
			settle()
			w.unlock(h)
			w.unlock(w.expect(ch).hold)
		}
		if n := a.Watches(); n > 128 {
			t.Errorf("%d watches are kept", n)
		}
	})
}
