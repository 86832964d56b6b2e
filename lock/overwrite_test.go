// Data that another program writes into a lock's node.

package lock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// unchanged checks that the lock's node holds the data of another program, and that the error says
// so.
func (w *world) unchanged(err error) {
	w.Helper()
	mustBe(w, err, lock.ErrForeign)
	equal(w, "data of the other program", string(w.node("/locks/x").Data), "mine")
}

// TestDataOfAnotherProgramStays: another program writes data into a lock's node while a client uses
// the lock. The client's next join finds that, however soon it is, and leaves the data as it is. The
// node was created by Holdfast, is kept, or is adopted; other clients may have used the lock before.
func TestDataOfAnotherProgramStays(t *testing.T) {
	for kind, take := range map[string]func(*world, *lock.Client) (unlocker, error){
		"mutex":     func(w *world, c *lock.Client) (unlocker, error) { return c.Mutex("x").Lock(w.ctx) },
		"semaphore": func(w *world, c *lock.Client) (unlocker, error) { return c.Semaphore("x", 3).Acquire(w.ctx, 2) },
		"writer":    func(w *world, c *lock.Client) (unlocker, error) { return c.RWMutex("x").Lock(w.ctx) },
		"try":       func(w *world, c *lock.Client) (unlocker, error) { return c.Mutex("x").TryLock(w.ctx) },
		"several":   func(w *world, c *lock.Client) (unlocker, error) { return c.All([]string{"x", "y"}).Lock(w.ctx) },
	} {
		for _, parent := range []string{"ours", "kept", "adopted"} {
			subtest(t, kind+" "+parent, locktest.Options{}, func(w *world) {
				a, z := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: parent == "kept"})), w.raw("other")
				w.unlock(w.lock(a, "other"))
				if parent == "adopted" {
					w.create(z, "/locks/x", "", 0)
				}
				for range 3 {
					h, err := take(w, a)
					w.ok(err)
					w.ok(h.Unlock())
				}
				h, err := take(w, a)
				w.ok(err)
				w.set(z, "/locks/x", []byte("mine"))
				w.ok(h.Unlock())
				for range 2 {
					_, err = take(w, a)
					w.unchanged(err)
				}
			})
		}
	}
}

// TestDataWrittenAfterTheRead: another program writes the lock's node between a client's read of the
// node and its join.
func TestDataWrittenAfterTheRead(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b", lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: true})), w.raw("other")
		w.unlock(w.lock(a, "other"), w.lock(b, "x"))
		hit := w.before(func(r locktest.Request) bool {
			return r.Label == "a" && r.Op == "multi" && touches(r, "/locks/x/anchor-")
		}, func() { w.set(z, "/locks/x", []byte("mine")) })
		err := second(a.Mutex("x").Lock(w.ctx))
		isTrue(w, hit(), "no join after the read")
		w.unchanged(err)
	})
}

// TestDataWrittenAmongSeveralClients: while several clients use a lock, a join may overwrite another
// program's data. Then it says so in the log.
func TestDataWrittenAmongSeveralClients(t *testing.T) {
	each(t, "writes", bools, func(w *world, writes bool) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("other")
		for range 3 {
			h := w.lock(a, "x")
			ch := w.queue(w.ctx, b, "x")
			w.unlock(w.pass(h, ch))
		}
		h := w.lock(a, "x")
		if writes {
			w.set(z, "/locks/x", []byte("mine"))
		}
		ch := w.queue(w.ctx, b, "x")
		w.parent("x") // it has the lock's data again
		equal(w, "told", strings.Count(w.logged(), "its data was overwritten"), map[bool]int{true: 1}[writes])
		w.finish(w.pass(h, ch))
	})
}

// TestDataWrittenBeforeAnExchange: a goroutine waits while another one has the lock, and another
// program writes the lock's node. The exchange of their entries leaves the data as it is.
func TestDataWrittenBeforeAnExchange(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.client("a"), w.raw("other")
		h := w.lock(a, "x")
		waiting := w.line(w.ctx, a, "x", 1)
		w.set(z, "/locks/x", []byte("mine"))
		time.Sleep(lock.DefaultLocalWindow / 2)
		got := start(func() (*lock.Hold, error) { return nil, h.Unlock() })
		time.Sleep(time.Second)
		w.ok((<-got).err)
		if next := w.outcome(waiting[0]); next.err == nil { // handed off without a write of the node
			w.unlock(next.hold)
		}
		w.unchanged(second(a.Mutex("x").Lock(w.ctx)))
	})
}

// TestJoinsOfSeveralClientsAreNotRefused: clients that use a lock one after the other, each alone,
// or that wait for each other, send hardly more than two transactions for each hold.
func TestJoinsOfSeveralClientsAreNotRefused(t *testing.T) {
	eachPair(t, "clients", []int{1, 2, 8}, bools, func(w *world, n int, together bool) {
		const rounds = 50
		var clients []*lock.Client
		for i := range n {
			clients = append(clients, w.dial(fmt.Sprint("c", i)))
			w.unlock(w.lock(clients[i], "other"))
		}
		before := w.Transactions()
		turn := func(c *lock.Client) { w.unlock(w.lock(c, "x")) }
		if together {
			done := make(chan struct{})
			for _, c := range clients {
				go func() {
					for range rounds {
						turn(c)
					}
					done <- struct{}{}
				}()
			}
			for range clients {
				<-done
			}
		} else {
			for range rounds {
				for _, c := range clients {
					turn(c)
				}
			}
		}
		holds := rounds * n
		atMost(w, "transactions", int(w.Transactions()-before), 2*holds+holds/4)
	})
}

// TestEntryOfARestoredImage: a copy of a waiting process, restored from an image, waits with the same
// entry. Its grant is not deleted by the other process, which queues again, and enters only when the
// lease of that grant is over.
func TestEntryOfARestoredImage(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.client("a"), w.client("b"), w.raw("the image")
		h := w.lock(a, "x")
		ch := w.queue(w.ctx, b, "x")
		entry := w.entries("x")[1].Path
		record := w.record(entry)
		record.AcquiredAt = time.Now().UnixMilli()
		w.set(z, entry, record.Encode())
		granted := time.Now()
		time.Sleep(ttl / 2) // until b has found the entry overwritten
		w.unlock(h)
		time.Sleep(ttl/2 - time.Second)
		w.waits(ch)
		equal(w, "queued again", b.Stats().Requeued, 1)
		w.node(entry)
		got := w.await(ch)
		isTrue(w, time.Since(granted) >= ttl+grace, "in %v after the grant of the other process", time.Since(granted))
		isTrue(w, got.hold.EntryPath() != entry, "the hold has the entry of the other process")
		w.finish(got.hold)
	})
}
