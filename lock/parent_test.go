// A lock's node: when and by which client it is deleted, and data that another program writes into it.

package lock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// parents says of a lock's node who made it, and whether the policy keeps it.
var parents = []string{"ours", "kept", "adopted"}

// parentIs returns a client that uses the lock "x" with a parent of that kind.
func (w *world) parentIs(kind, label string) *lock.Client {
	w.Helper()
	c := w.dial(label, keeps(kind == "kept"))
	w.unlock(w.lock(c, "other"))
	if kind == "adopted" {
		w.create(w.raw("another"), "/locks/x", "", 0)
	}
	return c
}

// keeps returns the usual policy without a local window, and whether it keeps parents.
func keeps(parents bool) lock.Option {
	return lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: parents})
}

// notAlone returns a's only hold of x. Client b has queued and given up meanwhile, so a must delete
// the parent after its unlock.
func (w *world) notAlone(a, b *lock.Client) *lock.Hold {
	w.Helper()
	h := w.lock(a, "x")
	w.comesAndGoes(b)
	return h
}

// comesAndGoes makes the client queue for x and give up.
func (w *world) comesAndGoes(c *lock.Client) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	ch := w.queue(ctx, c, "x")
	cancel()
	mustBe(w, w.outcome(ch).err, context.Canceled)
	w.until("it has left", func() bool { return len(w.entries("x")) == 1 })
	time.Sleep(2 * time.Second)
}

// readsParent and deletesParent match client a's requests that clean up after lock x.
func readsParent(r locktest.Request) bool {
	return r.Label == "a" && r.Op == "getData" && r.Paths[0] == "/locks/x"
}

func deletesParent(r locktest.Request) bool {
	return r.Label == "a" && r.Op == "multi" && touches(r, "/locks/x/anchor-") && !touches(r, "-lock-")
}

// TestOwedParentIsDeleted: Unlock does not wait for the clean-up. Whatever fault hits the clean-up,
// the client deletes the parents in the end.
func TestOwedParentIsDeleted(t *testing.T) {
	for request, filter := range map[string]func(locktest.Request) bool{"the read": readsParent, "the delete": deletesParent} {
		for befalls, fault := range map[string]locktest.Fault{
			"is lost": {Drop: locktest.BeforeApply}, "is applied, its reply lost": {Drop: locktest.AfterApply},
			"is throttled": {Code: codeThrottled}, "is slower than an unlock may be": {Delay: 1500 * time.Millisecond},
		} {
			each(t, request+" "+befalls+", several", bools, func(w *world, several bool) {
				a, b := w.dial("a", lock.WithUnlockTimeout(time.Second)), w.dial("b")
				w.unlock(w.lock(a, "other"))
				var unlock func() error
				if several {
					hs := w.lockAll(a, "w", "x")
					w.comesAndGoes(b)
					unlock = hs.Unlock
				} else {
					unlock = w.notAlone(a, b).Unlock
				}
				hit := w.fault(filter, fault)
				begun := time.Now()
				err := unlock()
				isTrue(w, err == nil && !hit() && time.Since(begun) <= 10*latency, "unlock: %v after %v; it has tidied up: %v", err, time.Since(begun), hit())
				time.Sleep(10 * time.Second)
				w.empty()
			})
		}
	}
}

// TestParentIsReadAgainAfterAnOutage: the session ends during the read of a parent, and the next
// server lags behind and still shows the entry that was deleted. The client reads again, and
// deletes the parent.
func TestParentIsReadAgainAfterAnOutage(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("other")
		w.unlock(w.lock(a, "other"))
		h := w.notAlone(a, b)
		entry := h.EntryPath()
		var reads atomic.Int32
		w.Intercept(func(r locktest.Request) locktest.Fault {
			switch {
			case r.Label != "a":
			case readsParent(r) && reads.Add(1) == 1:
				w.ExpireLabel("a")
				return locktest.Fault{Drop: locktest.BeforeApply}
			case readsParent(r) && reads.Load() == 2: // until the server has caught up, the list shows this entry
				w.create(z, entry, "", 0)
			case r.Op == "sync" && len(w.entries("x")) > 0:
				w.remove(z, entry)
			}
			return locktest.Fault{}
		})
		w.unlock(h)
		time.Sleep(10 * time.Second)
		isTrue(t, reads.Load() >= 2, "the parent was read %d times", reads.Load())
		for _, e := range w.entries("x") {
			t.Errorf("the read of a server that lags behind counted")
			w.remove(z, e.Path)
		}
		w.empty()
	})
}

// TestParentThatIsUsedIsNotRead: while a client uses a lock again and again, it does not read the
// parent. A parent that cannot be deleted is read at most 20 times in 10 s.
func TestParentThatIsUsedIsNotRead(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(a, "other"))
		h := w.notAlone(a, b)
		w.faults(deletesParent, locktest.Fault{Code: codeThrottled})
		w.unlock(h)
		use := func(times int) {
			for range times {
				time.Sleep(200 * time.Millisecond)
				w.unlock(w.lock(a, "x"))
			}
		}
		use(6) // then the client knows the parent
		atMost(t, "reads of a used parent", w.cost("a", func() { use(44) }).requests["getData"], 0)
		reads := w.cost("a", func() { time.Sleep(10 * time.Second) }).requests["getData"]
		inRange(t, "reads of an empty parent in 10 s", reads, 1, 20)
		w.Intercept(nil)
		time.Sleep(30 * time.Second)
		w.empty()
	})
}

// TestClientJoinsAsTheParentIsDeleted: if another client joins between the read of an empty parent
// and its deletion, the parent stays. A later unlock deletes it.
func TestClientJoinsAsTheParentIsDeleted(t *testing.T) {
	each(t, "late", bools, func(w *world, late bool) { // the other client has left again: only the version shows it
		a, b := w.dial("a"), w.dial("b", keeps(true))
		w.unlock(w.lock(b, "other"))
		w.unlock(w.notAlone(a, b))
		var second *lock.Hold
		hit := w.before(deletesParent, func() {
			second = w.lock(b, "x")
			if late {
				w.unlock(second)
			}
		})
		w.until("the parent is to be deleted", hit)
		if w.node("/locks/x"); !late {
			w.sole(second)
			w.unlock(second)
		}
		w.node("/locks/x")
		w.unlock(w.lock(a, "x"))
		time.Sleep(2 * time.Second)
		isTrue(w, !slices.Contains(w.nodes(), "/locks/x"), "nodes %q", w.nodes())
	})
}

// TestTidyBesideAUsedParent: if one of several parents cannot be deleted, because another program
// has created a child, the client still deletes the other parents. It deletes a parent after the last use of
// the lock, although it has read the lock for an observer meanwhile.
func TestTidyBesideAUsedParent(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		seen := w.observe(w.ctx, a)
		w.twice(a, "x")
		time.Sleep(3 * time.Second)
		seen.stop(t, context.Canceled)
		w.empty()

		hit := w.before(func(r locktest.Request) bool { return tidies(r, "x") && tidies(r, "y") && tidies(r, "z") }, func() {
			w.create(z, "/locks/x/theirs", "", 0)
		})
		for !hit() { // until one transaction is to delete all three
			w.twice(a, "x", "y", "z")
			time.Sleep(5 * time.Second)
		}
		for _, name := range []string{"y", "z"} {
			atMost(t, "left behind", len(w.Dump("/locks/"+name)), 0)
		}
		w.node("/locks/x/theirs")
	})
}

// tidies reports whether the request deletes the named lock's parent, and no entry.
func tidies(r locktest.Request, name string) bool {
	return r.Op == "multi" && slices.Contains(r.Paths, "/locks/"+name) && touches(r, "/locks/"+name+"/anchor-") && !touches(r, "-lock-")
}

// twice locks and unlocks each lock twice. After that the lock's parent stays for a second.
func (w *world) twice(c *lock.Client, names ...string) {
	w.Helper()
	for range 2 {
		for _, name := range names {
			w.unlock(w.lock(c, name))
		}
	}
}

// TestNestedParentsAreDeleted: if a client has used a lock and another one below it, together or
// not, it deletes the nodes of both, also if it closes.
func TestNestedParentsAreDeleted(t *testing.T) {
	for way, use := range map[string]func(w *world, c *lock.Client){
		"together": func(w *world, c *lock.Client) { w.unlockAll(w.lockAll(c, "b", "b/c")) },
		"together again": func(w *world, c *lock.Client) {
			w.unlockAll(w.lockAll(c, "b", "b/c"))
			w.unlockAll(w.lockAll(c, "b", "b/c"))
		},
		"one by one":    func(w *world, c *lock.Client) { w.twice(c, "b", "b/c", "b/c/d") },
		"the other way": func(w *world, c *lock.Client) { w.twice(c, "b/c/d", "b/c", "b") },
	} {
		each(t, way+" closes", bools, func(w *world, closes bool) {
			a := w.dial("a")
			w.unlock(w.lock(a, "other"))
			if use(w, a); closes {
				w.close(a)
			}
			w.empty()
		})
	}
}

// unchanged checks that the lock's node holds the data of another program, and that the error says
// so.
func (w *world) unchanged(err error) {
	w.Helper()
	mustBe(w, err, lock.ErrForeign)
	equal(w, "data of the other program", string(w.node("/locks/x").Data), "mine")
}

// TestDataOfAnotherProgramStays: another program writes data into a lock's node while a client uses
// the lock. The client's next join finds that, however soon it is, and the client neither writes nor
// deletes the node. It was created by Holdfast, is kept, or is adopted.
func TestDataOfAnotherProgramStays(t *testing.T) {
	eachPair(t, "parent", parents, []string{"lock", "all permits", "write", "try", "several"}, func(w *world, parent, way string) {
		a, z := w.parentIs(parent, "a"), w.raw("other")
		for i := range 4 {
			h, err := ways[way](w.ctx, a)
			w.ok(err)
			if i == 3 {
				w.set(z, "/locks/x", []byte("mine"))
			}
			w.ok(h.Unlock())
		}
		for range 2 {
			w.unchanged(second(ways[way](w.ctx, a)))
			time.Sleep(5 * time.Second) // until it would delete the node
		}
	})
}

// TestDataWrittenAfterTheRead: another program writes the lock's node between a client's read of the
// node and its join.
func TestDataWrittenAfterTheRead(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b", keeps(true)), w.raw("other")
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
		one := func(i int) {
			for j := range rounds * n {
				if j%n == i || !together {
					w.unlock(w.lock(clients[j%n], "x"))
				}
			}
		}
		inEach(map[bool]int{true: n, false: 1}[together], one)
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
