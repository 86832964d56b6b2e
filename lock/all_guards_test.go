// Several locks together: joins that were refused twice, and the guards that they use then.

package lock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestAllAmongShortHolds: All.Lock of 32 locks is in the queues within a second, although other
// clients take and free each of them ten times a second, so that the parents come and go. Each of
// these locks alone can be acquired within milliseconds.
func TestAllAmongShortHolds(t *testing.T) {
	link := locktest.Options{Latency: func(string, string) time.Duration { return 5 * time.Millisecond }}
	simulate(t, link, func(w *world) {
		const clients = 48
		var all []string
		for i := range 32 {
			all = append(all, fmt.Sprintf("n%02d", i))
		}
		ctx, stop := context.WithCancel(w.ctx)
		var wg sync.WaitGroup
		var holds atomic.Int64
		for i := range clients {
			c := w.dial(fmt.Sprint("c", i))
			r := random(uint64(i), "all")
			wg.Go(func() {
				for ctx.Err() == nil {
					limited, cancel := context.WithTimeout(ctx, time.Second)
					h, err := c.Mutex(all[r.IntN(len(all))]).Lock(limited)
					cancel()
					if err == nil {
						time.Sleep(between(r, 0, 4*time.Millisecond))
						_ = h.Unlock()
						holds.Add(1)
					}
					time.Sleep(between(r, 0, 120*time.Millisecond))
				}
			})
		}
		time.Sleep(2 * time.Second)
		b := w.dial("b")
		begun, before := time.Now(), holds.Load()
		got := w.cost("b", func() {
			hs, err := b.All(all).Lock(w.limited(5 * time.Second))
			w.ok(err)
			took := time.Since(begun)
			w.Logf("in after %v; each lock was held %.1f times a second", took, float64(holds.Load()-before)/took.Seconds()/float64(len(all)))
			atMost(w, "time until All.Lock holds all", took, time.Second)
			w.unlockAll(hs)
		})
		w.Logf("%v", got.requests)
		atMost(w, "transactions of All.Lock, most of them guards", got.requests["multi"], 4*len(all))
		stop()
		wg.Wait()
		w.empty()
	})
}

// refuseJoins makes the server refuse the client's first two joins, as if a parent had gone. then is
// called for each later request of the client.
func (w *world) refuseJoins(label string, then func(locktest.Request) locktest.Fault) {
	var joined atomic.Int32
	w.Intercept(func(r locktest.Request) locktest.Fault {
		switch {
		case r.Label != label:
		case joined.Load() >= 2:
			return then(r)
		case joins(r):
			joined.Add(1)
			return locktest.Fault{Code: codeNoNode, Op: 1}
		}
		return locktest.Fault{}
	})
}

// guards reports whether the request creates a guard: a transaction that touches a second anchor,
// and no entry.
func guards(r locktest.Request) bool { return anchorsIn(r) >= 2 && !joins(r) }

func anchorsIn(r locktest.Request) (n int) {
	for _, p := range r.Paths {
		if strings.Contains(p, "/anchor-") {
			n++
		}
	}
	return n
}

// TestGuardsInDoubt: the reply to the create of a guard, or to the join that deletes the guards, is
// lost, or the session ends. All.Lock acquires the locks, with one entry each, and no node stays.
func TestGuardsInDoubt(t *testing.T) {
	for what, filter := range map[string]func(locktest.Request) bool{"guard": guards, "join": joins} {
		t.Run(what, func(t *testing.T) {
			eachMishap(t, "free", bools, func(w *world, free bool, i int) {
				a, b := w.client("a"), w.client("b")
				w.unlockAll(w.lockAll(a, "x", "y", "z"))
				var h *lock.Hold
				if !free {
					h = w.lock(b, "y")
				}
				var hit atomic.Bool
				w.refuseJoins("a", func(r locktest.Request) locktest.Fault {
					if !filter(r) || hit.Swap(true) {
						return locktest.Fault{}
					}
					if mishaps[i].also != nil {
						mishaps[i].also(w, "a")
					}
					return mishaps[i].fault
				})
				ch := start(func() (*lock.Holds, error) { return a.All([]string{"x", "y", "z"}).Lock(w.ctx) })
				w.until("the mishap", hit.Load)
				time.Sleep(ttl)
				if h != nil {
					w.waitsAll(ch)
					w.unlock(h)
				}
				hs := w.expectAll(ch)
				w.soleAll(hs)
				w.unlockAll(hs)
				w.empty()
			})
		})
	}
}

// TestGuardsBlockNoClient: while a client has guards, others acquire each of the locks without
// delay. If the client gives up, is closed, or dies, its guards are deleted, and no node stays.
func TestGuardsBlockNoClient(t *testing.T) {
	forEach(t, locktest.Options{}, map[string]func(w *world, a *lock.Client, giveUp func()){
		"gives up": func(_ *world, _ *lock.Client, giveUp func()) { giveUp() },
		"closes":   func(w *world, a *lock.Client, _ func()) { mustBe(w, a.Close(), nil) },
		"dies": func(w *world, _ *lock.Client, _ func()) {
			w.kill("a")
			w.ExpireLabel("a")
			w.Intercept(nil)
		},
	}, func(w *world, end func(w *world, a *lock.Client, giveUp func())) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(b, "y")
		w.refuseJoins("a", func(r locktest.Request) locktest.Fault {
			if joins(r) {
				return locktest.Fault{Code: codeNoNode, Op: 1}
			}
			return locktest.Fault{}
		})
		ctx, giveUp := context.WithCancel(w.ctx)
		defer giveUp()
		ch := start(func() (*lock.Holds, error) { return a.All([]string{"x", "y", "z"}).Lock(ctx) })
		w.until("there are guards", func() bool { return len(w.anchors("x"))*len(w.anchors("y"))*len(w.anchors("z")) == 8 })
		w.unlock(h)
		for _, name := range []string{"x", "y", "z"} {
			begun := time.Now()
			h := w.lock(b, name)
			atMost(w, "time that a guard delays a join", time.Since(begun), grace)
			w.unlock(h)
			settle()
			equal(w, "anchors of "+name, len(w.anchors(name)), 2)
		}
		end(w, a, giveUp)
		time.Sleep(ttl)
		for _, name := range []string{"x", "y", "z"} { // of a dead client, the next use of the lock deletes the parent
			w.unlock(w.lock(b, name))
		}
		w.empty()
		w.Heal("a")
		w.Intercept(nil)
		giveUp()
		<-ch
	})
}

// TestGuardsAreRefused: a server that makes no ephemeral nodes for a session, as one with local
// sessions, does not keep All.Lock from the locks.
func TestGuardsAreRefused(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const codeEphemeralOnLocalSession = -120
		a := w.client("a")
		var refused atomic.Int32
		w.refuseJoins("a", func(r locktest.Request) locktest.Fault {
			if guards(r) {
				refused.Add(1)
				return locktest.Fault{Code: codeEphemeralOnLocalSession, Op: len(r.Paths) - 1}
			}
			return locktest.Fault{}
		})
		hs := w.lockAll(a, "x", "y")
		isTrue(w, refused.Load() > 0, "no guard was refused")
		w.soleAll(hs)
		w.unlockAll(hs)
		w.empty()
	})
}

// TestGuardedParentIsForeign: no guard is created below another program's node, and All.Lock fails.
func TestGuardedParentIsForeign(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.client("a"), w.raw("other")
		w.unlock(w.lock(a, "x"))
		var once sync.Once
		w.refuseJoins("a", func(r locktest.Request) locktest.Fault {
			once.Do(func() { go z.Create("/locks/y", []byte("something"), 0, zk.WorldACL(zk.PermAll)) })
			return locktest.Fault{}
		})
		fails(w, second(a.All([]string{"x", "y"}).Lock(w.ctx)), lock.ErrForeign, `lock "y"`)
		time.Sleep(5 * time.Second)
		equalAll(w, "left behind", w.nodes(), []string{"/locks/y"})
	})
}
