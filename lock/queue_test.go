// The queue of a mutex: order, tokens, waiters that give up, dead holders and waiters.

package lock_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestFirstComeFirstServed: clients enter in the order in which they joined, and so do the
// goroutines of one client. Each client has one entry in the queue, so clients with several waiters
// take turns.
func TestFirstComeFirstServed(t *testing.T) {
	for _, tt := range []struct {
		name, waiters string // the client of each waiter
		order         string // clients in the order of their turns
		window        time.Duration
	}{
		{"clients", "bcdefghi", "bcdefghi", 0},
		{"goroutines of one", "bbbbb", "bbbbb", 0},
		{"goroutines of several", "bcbcbc", "bcbcbc", 0},
		{"that came together", "bbbcccd", "bcdbcbc", 0},
		{"the holder's too, which joins behind a long hold", "abcab", "abcab", 0},
		{"with the default window, after long holds", "bbbcccd", "bcdbcbc", lock.DefaultLocalWindow},
		{"with the default window, behind others", "bcdea", "bcdea", lock.DefaultLocalWindow},
	} {
		subtest(t, tt.name, locktest.Options{}, func(w *world) {
			clients := map[rune]*lock.Client{}
			for _, label := range "abcdefghi" {
				clients[label] = w.dial(string(label), lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: tt.window}))
			}
			h := w.lock(clients['a'], "x")
			waiting := map[rune][]<-chan taken{}
			for _, label := range tt.waiters {
				waiting[label] = append(waiting[label], w.queue(w.ctx, clients[label], "x"))
				time.Sleep(time.Second) // until a waiter of the holder's client joins
			}
			order := ""
			for range tt.waiters {
				time.Sleep(time.Second)
				w.alive(h)
				for _, queue := range waiting {
					w.waits(queue...)
				}
				ended := w.end(h)
				w.unlock(h)
				settle()
				h = nil
				for label, queue := range waiting {
					if len(queue) == 0 {
						continue
					}
					select {
					case got := <-queue[0]: // the first waiter of its client
						mustBeTrue(w, got.err == nil && h == nil, "%v: a second one has it: %v", got.err, h)
						w.inTurn(ended, got)
						h, order, waiting[label] = got.hold, order+string(label), queue[1:]
					default:
					}
				}
				mustBeTrue(w, h != nil, "still waiting after %q", order)
			}
			equal(w, "served in the order", order, tt.order)
			w.finish(h)
		})
	}
}

// TestTokensRiseOverDeletions: sequences restart with each parent, but tokens rise, and no path
// recurs.
func TestTokensRiseOverDeletions(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		var last lock.Token
		seen := map[string]bool{}
		for i := range 10 {
			h := w.lock([]*lock.Client{a, b}[i%2], "x")
			if !strings.HasSuffix(h.EntryPath(), "-lock-0000000001") || seen[h.EntryPath()] {
				t.Errorf("%s: the sequence did not start anew, or the path comes again", h.EntryPath())
			}
			isTrue(t, h.Token().Compare(last) > 0, "token %v follows %v", h.Token(), last)
			last, seen[h.EntryPath()] = h.Token(), true
			w.unlock(h)
			time.Sleep(2 * time.Second) // a client that returned earlier would keep the parent
		}
	})
}

func TestDeadHolderBlocksForTTLAndGrace(t *testing.T) {
	for _, latency := range []time.Duration{0, time.Millisecond, 60 * time.Millisecond} {
		for _, ahead := range []time.Duration{0, -13 * time.Hour, 300 * 24 * time.Hour} {
			subtest(t, fmt.Sprintf("latency %v leader ahead by %v", latency, ahead), locktest.Options{Latency: func(string, string) time.Duration { return latency }}, func(w *world) {
				w.ok(w.SetClock(w.Servers()[0], ahead))
				h := w.lock(w.dial("a"), "x")
				b := w.dial("b")
				ch := w.queue(w.ctx, b, "x")
				got := w.outlived("a", h, ch, ahead, 20*time.Millisecond+12*latency)
				mustBe(w, h.Err(), lock.ErrLost, lock.ErrExpired)
				equal(w, "entries purged", b.Stats().Purged, 1)
				mustSay(w, errors.New(w.logged()), "purged an expired entry", `"owner":"a"`)
				w.Heal("a")
				w.unlock(got.hold)
				mustBe(w, h.Unlock(), lock.ErrLost, lock.ErrExpired)
				w.empty()
			})
		}
	}
}

// TestPurgeOfManyDeadEntries: a waiter purges 20 dead entries ahead with at most two lists, when
// the last of their leases and the grace have ended.
func TestPurgeOfManyDeadEntries(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const n = 20
		b := w.dial("b")
		w.lock(w.dial("dead"), "x")
		for i := range n - 1 {
			go w.dial(fmt.Sprint("dead", i)).Mutex("x").Lock(w.ctx)
			w.until("it is queued", func() bool { return len(w.entries("x")) == i+2 })
		}
		ch := w.queue(w.ctx, b, "x")
		entries := w.entries("x")
		w.kill("dead")
		for i := range n - 1 {
			w.kill(fmt.Sprint("dead", i))
		}
		last := dead{"the run", 0}
		for _, e := range entries[:n] {
			last.end = max(last.end, w.node(e.Path).Stat.Mtime+ttl.Milliseconds())
		}
		cost := w.cost("b", func() {
			got := w.await(ch)
			w.purged(last, got.at, 0, 20*time.Millisecond)
			equal(t, "the entry that has it", got.hold.EntryPath(), entries[n].Path)
			defer w.unlock(got.hold)
		})
		atMost(t, "listings", cost.requests["getChildren2"], 2)
		equal(t, "purged", b.Stats().Purged, n)
		for i := range n - 1 { // each learns that its entry is gone
			w.Heal(fmt.Sprint("dead", i))
		}
		time.Sleep(ttl)
	})
}

// TestHolderLearnsOfLossFirst: a holder that is cut off for any duration around its TTL, at any
// phase of its renewals, either keeps the lock, or knows of the loss before the next client enters.
func TestHolderLearnsOfLossFirst(t *testing.T) {
	var kept, lost atomic.Int32
	t.Run("lengths", func(t *testing.T) {
		for length := ttl / 2; length < ttl+grace+3*time.Second; length += 331 * time.Millisecond {
			subtest(t, fmt.Sprint("length ", length), locktest.Options{Latency: func(string, string) time.Duration { return 2 * time.Millisecond }}, func(w *world) {
				h := w.lock(w.dial("a"), "x")
				ended := w.end(h)
				b := w.dial("b")
				ch := w.queue(w.ctx, b, "x")
				time.Sleep(length % (ttl / 3)) // to shift the renewals
				w.kill("a")
				time.Sleep(length)
				w.Heal("a")
				time.Sleep(grace + sessionTimeout)
				synctest.Wait()
				select {
				case got := <-ch:
					lost.Add(1)
					w.inTurn(ended, got)
					mustBe(w, h.Err(), lock.ErrLost)
					mustBe(w, h.Unlock(), lock.ErrLost)
					w.unlock(got.hold)
				default:
					kept.Add(1)
					w.alive(h)
					w.inOrder(h, ch)
				}
				w.empty()
			})
		}
	})
	isTrue(t, kept.Load() != 0 && lost.Load() != 0, "kept %d times and lost %d times: the lengths are not around the TTL", kept.Load(), lost.Load())
}

// TestLoweredMaxTTL: a policy does not apply to leases that other clients already have. A waiter
// with a shorter max_ttl respects a holder's longer lease, whether the holder is stopped or dead. A
// dead holder is purged after that lease and the waiter's grace.
func TestLoweredMaxTTL(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const short = lock.MinTTL
		lowered := lock.WithPolicies(policies{TTL: short, MaxTTL: short, Grace: lock.MinGrace})
		a, b := w.dial("a"), w.dial("b", lowered)
		h := w.lock(a, "x")
		ended := w.end(h)
		ch := w.queue(w.ctx, b, "x")
		tries := func() {
			mustBe(w, second(b.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
		}
		w.Freeze("a") // it renews nothing, and its lease runs
		time.Sleep(ttl / 2)
		tries()
		w.waits(ch)
		w.Thaw("a")
		time.Sleep(2 * ttl)
		tries()
		w.waits(ch)
		w.alive(h)
		d := w.die("a", h.EntryPath())
		got := w.await(ch)
		w.inTurn(ended, got)
		late := got.at.Sub(time.UnixMilli(d.end)) - lock.MinGrace
		isTrue(w, late > 0 && late <= 20*time.Millisecond, "purged %v after the end of its TTL and the waiter's grace", late)
		w.Heal("a")
		w.finish(got.hold)
	})
}

// TestHolderUnlocksAsItsEntryIsReadAgain: if the holder unlocks just before a waiter reads the
// holder's entry for the second time, the waiter enters.
func TestHolderUnlocksAsItsEntryIsReadAgain(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x")
		reads, left := 0, false
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Label == "b" && r.Op == "getData" && touches(r, h.EntryPath()) {
				if reads++; reads == 2 {
					left = true
					w.unlock(h)
				}
			}
			return locktest.Fault{}
		})
		ch := w.queue(w.ctx, b, "x")
		if w.Intercept(nil); !left {
			w.unlock(h)
		}
		w.finish(w.expect(ch).hold)
	})
}
