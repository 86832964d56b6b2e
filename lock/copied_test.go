// A lock's node that a tool has copied with its entries: the counter begins below their numbers.

package lock_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// copies deletes the lock's nodes, and creates them again with the same names and data. That takes no
// sequence beyond the number of nodes.
func (w *world) copies(z *zk.Conn, name string) {
	w.Helper()
	before := w.Dump("/locks/" + name)
	w.wipe(z, name)
	for _, n := range before {
		w.create(z, n.Path, string(n.Data), 0)
	}
}

// TestCopiedHold: no client enters ahead of an entry that was copied with its lock, of whatever kind.
// Clients wait until its lease is over, and enter in order.
func TestCopiedHold(t *testing.T) {
	for kind, take := range map[string]func(*world, *lock.Client) (unlocker, error){
		"mutex":     func(w *world, c *lock.Client) (unlocker, error) { return c.Mutex("x").Lock(w.ctx) },
		"semaphore": func(w *world, c *lock.Client) (unlocker, error) { return c.Semaphore("x", 1).Acquire(w.ctx, 1) },
		"writer":    func(w *world, c *lock.Client) (unlocker, error) { return c.RWMutex("x").Lock(w.ctx) },
	} {
		subtest(t, kind, locktest.Options{}, func(w *world) {
			a, z := w.dial("a"), w.raw("the tool")
			w.unlock(w.lock(a, "other"))
			_, err := take(w, w.dial("before"))
			w.ok(err)
			w.setSequence("x", 1000)
			start(func() (unlocker, error) { return take(w, w.dial("before, too")) })
			time.Sleep(time.Second)
			entries := w.entries("x")
			equal(w, "entries", len(entries), 2)
			w.remove(z, entries[0].Path)
			first := entries[1]
			w.kill("before")
			w.kill("before, too")
			w.copies(z, "x")
			copied := time.Now()
			var line []<-chan outcome[unlocker]
			for i := range 3 {
				c := w.dial(fmt.Sprint("c", i))
				line = append(line, start(func() (unlocker, error) { return take(w, c) }))
				time.Sleep(time.Second)
			}
			got := <-line[0]
			w.ok(got.err)
			isTrue(w, time.Since(copied) >= ttl+grace, "in %v after the copy", time.Since(copied))
			if _, there := w.Node(first.Path); there {
				w.Errorf("in ahead of %s", first.Path)
			}
			w.ok(got.hold.Unlock())
			for _, ch := range line[1:] {
				got := <-ch
				w.ok(got.err)
				w.ok(got.hold.Unlock())
			}
		})
	}
}

// TestCopiedNumberCollides: the join that would get the number of a copied entry waits for that entry.
// It says so, and does not poll. A try fails at once.
func TestCopiedNumberCollides(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a", lock.WithPolicies(policies{TTL: time.Hour, Grace: grace})), w.dial("b"), w.raw("the tool")
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		entry := w.node(h.EntryPath())
		copied := "/locks/x/" + znode.Predict(znode.Prefix(w.parent("x").Generation, znode.Exclusive), 1000)
		w.create(z, copied, string(entry.Data), 0)
		w.setSequence("x", 1000)
		w.unlock(h)
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.limited(5 * time.Minute)) })
		time.Sleep(10 * time.Second)
		cost := w.cost("b", func() { time.Sleep(time.Minute) })
		atMost(w, "requests in a minute", cost.total(), 10)
		err := second(b.Mutex("x").TryLock(w.ctx))
		var held *lock.HeldError
		isTrue(w, errors.As(err, &held) && held.Entry == copied, "TryLock: %v", err)
		got := <-ch
		fails(w, got.err, lock.ErrHeld, copied)
		ch = start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
		time.Sleep(time.Second)
		w.remove(z, copied)
		w.finish(w.expect(ch).hold)
	})
}
