// The transcripts in testdata/wire: what each mechanism sends, and what it leaves behind; their scenarios.

package lock_test

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// transcript has steps, and the requests, replies and watch events of each.
type transcript struct {
	*world
	text strings.Builder
	ids  map[string]string // random ids, and what the transcript calls them

	// unordered: goroutines submit at one moment; the members of a transaction are written in the
	// order of their locks.
	unordered bool

	at     time.Time
	moment []string // what happens at that time, which is written in alphabetical order
}

func (s *transcript) printf(format string, args ...any) { fmt.Fprintf(&s.text, format, args...) }

// client returns a client that has learned the ensemble's time and has made the root.
func (s *transcript) client(label string, opts ...lock.Option) *lock.Client {
	c := s.world.client(label, append([]lock.Option{lock.WithInFlight(0)}, opts...)...) // whatever -inflight says
	s.unlock(s.lock(c, "before"))
	time.Sleep(5 * time.Second)
	return c
}

// step runs f, and writes what the clients send until they settle.
func (s *transcript) step(title string, f func()) {
	s.printf("\n%s\n", title)
	before := s.text.Len()
	s.Trace(s.event)
	f()
	settle()
	s.Trace(nil)
	s.flush()
	if s.text.Len() == before {
		s.printf("  no request\n")
	}
}

// after writes what the clients send in the time d.
func (s *transcript) after(d time.Duration, title string) { s.step(title, func() { time.Sleep(d) }) }

// nodes writes the nodes below the root.
func (s *transcript) nodes() {
	s.printf("\nnodes\n")
	var lines []string
	for _, n := range s.Dump("/") {
		if n.Path != "/" && n.Path != lock.DefaultRoot && n.Path != epochMark && !strings.HasPrefix(n.Path, "/zookeeper") {
			lines = append(lines, fmt.Sprintf("  %-28s version %d%s\n", s.short(n.Path), n.Stat.Version, s.describe(n.Path, n.Data)))
		}
	}
	slices.Sort(lines)
	if len(lines) == 0 {
		lines = []string{"  none\n"}
	}
	s.printf("%s", strings.Join(lines, ""))
}

var (
	randomID = regexp.MustCompile(`[0-9a-f]{16}`)
	sequence = regexp.MustCompile(`0{6,9}([0-9]+)$`)
)

// short returns a path as transcripts have it: relative to the root, with g1, g2 for generations, and
// without the anchor's and the sequences' digits.
func (s *transcript) short(p string) string {
	p = strings.TrimSuffix(strings.TrimPrefix(p, lock.DefaultRoot+"/"), "__2147483647")
	p = sequence.ReplaceAllString(p, "$1")
	return randomID.ReplaceAllStringFunc(p, func(id string) string {
		if s.ids[id] == "" {
			s.ids[id] = fmt.Sprint("g", len(s.ids)+1)
		}
		return s.ids[id]
	})
}

// describe returns what a node's data say, with a blank before it.
func (s *transcript) describe(p string, data []byte) string {
	node := path.Base(p)
	if r, err := znode.DecodeRevocation(node, data); err == nil && path.Base(path.Dir(p)) == znode.Inbox {
		return fmt.Sprintf(" {%s asks for %s: %s}", r.Owner, s.short(r.Entry), r.Reason)
	}
	if a, err := znode.DecodeAnchor(data); err == nil {
		if a.Single {
			return fmt.Sprintf(" {%d permits, single}", a.Capacity())
		}
		if a.Permits == 0 {
			return ""
		}
		return fmt.Sprintf(" {%d permits}", a.Capacity())
	}
	if parent, err := znode.DecodeParent(data); err == nil && len(data) > 0 {
		return strings.TrimRight(fmt.Sprintf(" {%s %s", parent.Kind, s.short(parent.Generation)), " ") + "}"
	}
	r, err := znode.DecodeRecord(data)
	if err != nil {
		return strings.TrimSuffix(fmt.Sprintf(" %q", data), ` ""`)
	}
	words := []string{r.Owner, fmt.Sprint(time.Duration(r.TTL) * time.Millisecond)}
	for word, is := range map[string]bool{"granted": r.Granted(), "shared": r.Shared, "detached": r.Detached} {
		if is {
			words = append(words, word)
		}
	}
	slices.Sort(words[2:])
	if r.Incarnation > 0 {
		words = append(words, fmt.Sprint("incarnation ", r.Incarnation))
	}
	if value := r.Metadata[znode.ValueKey]; value != "" {
		words = append(words, "value "+value)
	}
	return " {" + strings.Join(words, ", ") + "}"
}

// codes are the refusals that transcripts have.
var codes = map[int32]string{
	-2: "not tried", codeNoNode: "no node", -103: "bad version", -110: "node exists", codeNotEmpty: "not empty",
}

func (s *transcript) event(ev locktest.Event) {
	if !ev.Time.Equal(s.at) {
		s.flush()
		s.at = ev.Time
	}
	add := func(format string, args ...any) { s.moment = append(s.moment, fmt.Sprintf("  "+format+"\n", args...)) }
	switch {
	case ev.Kind == "watch":
		add("%s  <- %s %s", ev.Label, ev.Op, s.short(ev.Paths[0]))
	case ev.Kind != "request" || len(ev.Ops) == 0:
	case ev.Op == "multi":
		refused := slices.ContainsFunc(ev.Ops, func(o locktest.EventOp) bool { return o.Code != 0 })
		lines := []string{ev.Label + "  multi" + map[bool]string{true: ", refused"}[refused]}
		if s.unordered {
			slices.SortStableFunc(ev.Ops, func(a, b locktest.EventOp) int { return strings.Compare(lockOf(a.Path), lockOf(b.Path)) })
		}
		for _, o := range ev.Ops {
			lines = append(lines, "     "+s.op(o, refused))
		}
		add("%s", strings.Join(lines, "\n  "))
	default:
		add("%s  %s", ev.Label, s.op(ev.Ops[0], false))
	}
}

// flush writes what has happened at one time. One latency is between a request and what follows from it,
// so the order of goroutines that run at one time is all that is lost.
func (s *transcript) flush() {
	slices.Sort(s.moment)
	s.printf("%s", strings.Join(s.moment, ""))
	s.moment = nil
}

// lockOf returns the lock's part of a path.
func lockOf(p string) string {
	lock, _, _ := strings.Cut(strings.TrimPrefix(p, lock.DefaultRoot+"/"), "/")
	return lock
}

// op returns an operation and the answer to it. Of a refused transaction only the refusal is shown.
func (s *transcript) op(o locktest.EventOp, refused bool) string {
	text := fmt.Sprintf("%-9s %s", strings.TrimSuffix(o.Op, "2"), s.short(o.Path))
	writes := o.Op == "create" || o.Op == "setData"
	if o.Sequential {
		text += "+"
	}
	if o.Op == "setData" || o.Op == "delete" || o.Op == "check" && o.Version >= 0 {
		text += strings.Replace(fmt.Sprintf(" on %d", o.Version), "-1", "any", 1)
	}
	if writes {
		text += s.describe(o.Path, o.Data)
	}
	if o.Watch {
		text += " watch"
	}
	switch {
	case o.Code == -2, o.Code == 0 && refused:
	case o.Code != 0:
		text += " -> " + codes[o.Code]
	case o.Sequential:
		text += " -> " + path.Base(s.short(o.Created))
	case o.Op == "setData":
		text += fmt.Sprintf(" -> version %d", o.Stat.Version)
		if o.Stat.NumChildren > 0 {
			text += fmt.Sprintf(", %d children", o.Stat.NumChildren)
		}
	case o.Op == "getData":
		text += fmt.Sprintf(" -> version %d%s", o.Stat.Version, s.describe(o.Path, o.Data))
	case len(o.Children) > 0:
		var names []string
		for _, c := range o.Children {
			names = append(names, s.short(c))
		}
		slices.Sort(names)
		text += " -> " + strings.Join(names, " ")
	}
	return text
}

// wire runs a scenario, and compares its transcript. about is the transcript's first line.
func wire(t *testing.T, name, about string, run func(s *transcript)) {
	subtest(t, name, locktest.Options{}, func(w *world) {
		s := &transcript{world: w, ids: map[string]string{}}
		s.printf("%s\n", about)
		run(s)
		s.Trace(nil)
		file := filepath.Join("testdata", "wire", name+".txt")
		if os.Getenv("UPDATE") != "" {
			w.ok(os.WriteFile(file, []byte(s.text.String()), 0o644))
		}
		want, err := os.ReadFile(file)
		w.ok(err)
		if got := s.text.String(); got != string(want) {
			w.Errorf("%s is stale (UPDATE=1 go test -run TestWire ./lock):\n%s", file, got)
		}
	})
}

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
	wire(t, "contended", "A contended lock: b waits for a, and c for b. The lone holder has gone, so b enters without a list; c hears nothing of that.", func(s *transcript) {
		a, b, c := s.client("a"), s.client("b"), s.client("c")
		var h *lock.Hold
		var next, last <-chan taken
		s.step("a locks x", func() { h = s.lock(a, "x") })
		s.step("b locks x, which it believes to be free. It reads the parent, and joins. Three children: the entry before its own holds the lock alone", func() { next = s.queue(s.ctx, b, "x") })
		s.step("c locks x, too. It waits for b's entry alone", func() { last = s.queue(s.ctx, c, "x") })
		s.nodes()
		s.step("a unlocks. It may not delete the parent, which b has written, so only the entry goes; b enters", func() { h = s.pass(h, next) })
		s.after(10*time.Millisecond, "300 µs after the grant b records it, and c reads that")
		s.step("b unlocks, and c enters", func() { h = s.pass(h, last) })
		s.step("c unlocks", func() { s.unlock(h) })
		s.after(5*time.Second, "a second after its unlock, each client deletes the parent if only the anchor is left")
		s.nodes()
	})
	wire(t, "localhandoff", "Goroutines of one client share an entry: inside the window (10 ms) it is handed off locally, without a request.", func(s *transcript) {
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
	wire(t, "parent", "The last contender out deletes the parent; one that leaves others behind does not.", func(s *transcript) {
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
		s.step("b takes the other one: each contender asks for one permit, so the number of contenders shows that it is free", func() { second = s.take(permits(b.Semaphore("x", 2), 1)) })
		time.Sleep(time.Second)
		s.step("c waits for one. It hears that b has been granted, so it is the first to wait: it watches the children, and reads the number after the list", func() { third = s.join("x", permits(c.Semaphore("x", 2), 1)) })
		s.nodes()
		s.step("a gives its permit back, and c has it", func() { s.unlock(first) })
		s.unlock(second, s.expect(third).hold)
		s.step("b takes both: the first join for several permits writes the anchor, which says single no more", func() { first = s.take(permits(b.Semaphore("x", 2), 2)) })
		s.unlock(first)
		s.step("b takes both again: it knows the anchor as it has written it", func() { first = s.take(permits(b.Semaphore("x", 2), 2)) })
		s.unlock(first)
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
