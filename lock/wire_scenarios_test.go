// The scenarios of the transcripts in testdata/wire.

package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
)

// TestWire: each scenario sends what its transcript in testdata/wire shows. UPDATE=1 writes them.
func TestWire(t *testing.T) {
	wire(t, "free", "A free lock: one transaction to lock it, one to unlock it.", func(s *transcript) {
		a := s.client("a")
		var h *lock.Hold
		s.step("a locks x: no other client is there, because the parent has two children, the anchor and a's entry", func() { h = s.lock(a, "x") })
		s.nodes()
		s.step("a unlocks, alone: the parent goes too", func() { s.unlock(h) })
		s.nodes()
	})
	wire(t, "again", "A lock that is used again within a second: its parent stays, with the anchor.", func(s *transcript) {
		a := s.client("a")
		s.unlock(s.lock(a, "x"))
		var h *lock.Hold
		s.step("a locks x, which it has just unlocked", func() { h = s.lock(a, "x") })
		s.step("a unlocks: it has used x within the last second, so the parent stays", func() { s.unlock(h) })
		s.nodes()
		s.step("a locks x, below the parent that it knows", func() { h = s.lock(a, "x") })
		s.step("a unlocks", func() { s.unlock(h) })
		s.after(5*time.Second, "a second later: a deletes the parent, if it is empty")
		s.nodes()
	})
	wire(t, "handoff", "A contended lock: b waits for a. The lone holder has gone, so b enters without a list.", func(s *transcript) {
		a, b := s.client("a"), s.client("b")
		var h *lock.Hold
		var next <-chan taken
		s.step("a locks x", func() { h = s.lock(a, "x") })
		s.step("b locks x, which it believes to be free. It reads the parent, and joins. Three children: the entry before its own holds the lock alone", func() { next = s.queue(s.ctx, b, "x") })
		s.nodes()
		s.step("a unlocks. It may not delete the parent, which b has written, so only the entry goes; b enters", func() { h = s.pass(h, next) })
		s.after(10*time.Millisecond, "300 µs after the grant b records it")
		s.step("b unlocks", func() { s.unlock(h) })
		s.after(5*time.Second, "a second after its unlock, each client deletes the parent if only the anchor is left")
		s.nodes()
	})
	wire(t, "local", "Goroutines of one client share an entry: inside the window (10 ms) it is handed off without a request.", func(s *transcript) {
		a := s.client("a")
		h := s.lock(a, "x")
		line := s.line(s.ctx, a, "x", 2)
		s.nodes()
		s.step("the first goroutine unlocks at once: the second one has the entry", func() { h = s.pass(h, line[0]) })
		time.Sleep(20 * time.Millisecond)
		s.step("the second one unlocks after the window: its entry leaves, and one for the third joins at the end of the queue", func() { h = s.pass(h, line[1]) })
		s.nodes()
		s.unlock(h)
	})
	wire(t, "renewal", "Renewals: each entry is written every third of its TTL; those that are due together share a transaction.", func(s *transcript) {
		a := s.client("a")
		s.unordered = true
		var hs [2]*lock.Hold
		inEach(len(hs), func(i int) { hs[i] = s.lock(a, []string{"x", "y"}[i]) })
		s.after(ttl/2, "half a TTL passes")
		s.nodes()
		s.unlock(hs[:]...)
	})
	wire(t, "shared", "Joins and leaves that have to wait share the next transaction; here one may be in flight. A refused guess of one reduces those of the others to what is sure.", func(s *transcript) {
		a, b := s.client("a", lock.WithInFlight(1)), s.client("b")
		names := []string{"w", "x", "y", "z"}
		line := make([]<-chan taken, len(names))
		s.step("goroutines of a lock w, x, y and z: while w's join is in flight, the others wait", func() {
			for i, name := range names {
				line[i] = start(func() (*lock.Hold, error) { return a.Mutex(name).Lock(s.ctx) })
				synctest.Wait()
			}
		})
		hs := s.expectEach(line...)
		next := s.queue(s.ctx, b, "x")
		s.step("a unlocks all; b has joined at x, so its parent stays. Each leave is sent again without its guess that it is alone", func() {
			for _, h := range hs {
				start(func() (*lock.Hold, error) { return nil, h.Unlock() })
				synctest.Wait()
			}
		})
		s.nodes()
		s.unlock(s.expect(next).hold)
	})
	wire(t, "purge", "A crashed holder: the waiter behind it deletes its entry when the lease and the grace are over.", func(s *transcript) {
		a, b := s.client("a"), s.client("b", lock.WithPolicies(policies{TTL: time.Minute, Grace: grace})) // b renews later
		s.lock(a, "x")
		next := s.queue(s.ctx, b, "x")
		s.kill("a")
		s.step("a has crashed: b reads its entry when the lease and the grace (11 s) are over, and deletes it on the version read", func() { s.await(next) })
		s.nodes()
		s.Heal("a")
	})
	wire(t, "last", "The last contender out deletes the parent; one that leaves others behind does not.", func(s *transcript) {
		a, b := s.client("a"), s.client("b")
		h := s.lock(a, "x")
		ctx, giveUp := context.WithCancel(s.ctx)
		next := s.queue(ctx, b, "x")
		s.step("b, which waits, gives up: it deletes its entry", func() {
			giveUp()
			s.endBy(context.Canceled, next)
		})
		s.after(2*time.Second, "a second later b would delete the parent, but a is there")
		s.step("a unlocks: b's join has changed the parent's version, so only the entry goes", func() { s.unlock(h) })
		s.nodes()
		s.after(2*time.Second, "a second later")
		s.nodes()
	})
	wire(t, "readers", "A read/write lock: readers enter together, a writer waits for all of them.", func(s *transcript) {
		a, b, c := s.client("a"), s.client("b"), s.client("c")
		var first, second *lock.Hold
		var writer, reader <-chan taken
		s.step("a reads x", func() { first = s.take(a.RWMutex("x").RLock) })
		s.step("b reads x too", func() { second = s.take(b.RWMutex("x").RLock) })
		s.step("c writes x, and waits", func() { writer = s.join("x", c.RWMutex("x").Lock) })
		s.nodes()
		s.step("a stops reading: c hears nothing", func() { s.unlock(first) })
		s.step("b stops reading, and c enters after a list", func() { s.unlock(second) })
		reader = s.join("x", b.RWMutex("x").RLock)
		time.Sleep(time.Second)
		s.step("c, whose grant is recorded, stops writing, and b enters without a list", func() { s.unlock(s.expect(writer).hold) })
		s.unlock(s.expect(reader).hold)
	})
	wire(t, "semaphore", "A semaphore of two permits: their number stands in the anchor.", func(s *transcript) {
		a, b, c := s.client("a"), s.client("b"), s.client("c")
		var first, second *lock.Hold
		var third <-chan taken
		s.step("a takes one", func() { first = s.take(permits(a.Semaphore("x", 2), 1)) })
		s.step("a gives it back, alone", func() { s.unlock(first) })
		time.Sleep(2 * time.Second)
		first = s.take(permits(a.Semaphore("x", 2), 1))
		s.step("b takes the other one: there are as many contenders as permits, so it lists", func() { second = s.take(permits(b.Semaphore("x", 2), 1)) })
		time.Sleep(time.Second)
		s.step("c waits for one. It hears that b has been granted, so it is the first to wait: it watches the children, and reads the number after the list", func() { third = s.join("x", permits(c.Semaphore("x", 2), 1)) })
		s.nodes()
		s.step("a gives its permit back, and c has it", func() { s.unlock(first) })
		s.unlock(second, s.expect(third).hold)
	})
	wire(t, "all", "Several locks together: one transaction joins all, and one leaves all.", func(s *transcript) {
		a, b := s.client("a"), s.client("b")
		var hs *lock.Holds
		h := s.lock(b, "y")
		var both <-chan takenAll
		s.step("a locks x and y, of which b holds y: a waits, with an entry at each", func() { both = s.queueAll(s.ctx, a, "x", "y") })
		s.nodes()
		s.step("b unlocks y, and a has both", func() { s.unlock(h) })
		hs = s.expectAll(both)
		s.step("a unlocks both", func() { s.unlockAll(hs) })
	})
	wire(t, "election", "An election: the first candidate leads; the value stands in its record.", func(s *transcript) {
		a, b := s.client("a"), s.client("b")
		var leads, waits <-chan taken
		s.step("a campaigns with the value one", func() { leads = s.campaign(s.ctx, a, "one") })
		s.step("b campaigns with the value two", func() { waits = s.campaign(s.ctx, b, "two") })
		s.nodes()
		s.step("b asks who leads", func() { equal(s, "the leader", s.leader(b), "one") })
		s.step("a resigns, and b leads", func() { s.unlock(s.expect(leads).hold) })
		s.unlock(s.expect(waits).hold)
	})
	wire(t, "detach", "A hold goes on in another process: a detaches it, b attaches to it by the ticket.", func(s *transcript) {
		a, b := s.client("a"), s.client("b")
		h := s.lock(a, "x")
		var ticket lock.Ticket
		s.step("a detaches its hold", func() { ticket = s.detach(h, time.Minute) })
		s.nodes()
		s.step("b attaches: two writes, so that a late write of a's cannot have b's version", func() { h = s.attach(b, ticket) })
		s.nodes()
		s.step("b unlocks", func() { s.unlock(h) })
	})
	wire(t, "revoke", "A request to release a lock is a node that the holder's client watches.", func(s *transcript) {
		a, b := s.client("a"), s.client("b")
		h := s.lock(a, "x")
		var revoked <-chan lock.Revocation
		s.step("a wants to hear of requests", func() { revoked = h.Revoked() })
		s.step("b asks for x", func() { s.revoke(b, "x", "the host is drained") })
		s.hears(revoked)
		s.nodes()
		s.step("a unlocks", func() { s.unlock(h) })
	})
	wire(t, "txn", "A transaction of the user, between two writes of the hold's entry: it is applied only while the hold lasts.", func(s *transcript) {
		a := s.client("a")
		s.makeApp()
		h := s.lock(a, "x")
		s.step("a writes /app", func() { s.txn(h, lock.OpSet(app, []byte("7"), 0)) })
		s.nodes()
		s.step("a is refused, and its hold goes on", func() {
			isTrue(s, h.Txn(s.ctx, lock.OpCreate(app, nil, 0, zk.WorldACL(zk.PermAll))) != nil, "not refused")
		})
		s.unlock(h)
	})
}
