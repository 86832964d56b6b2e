// Rules of the queue without a server, and some with a session: drafts, deletions, room, sightings.

package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/place"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// local is a clock that the tests set.
type local struct{ now clock.Instant }

// offline returns a queue without a connection.
func offline(l *local) *Queue {
	c := clock.New(nil, "/locks", nil, func() clock.Instant { return l.now }, nil)
	return New(Options{
		Root: "/locks", Random: bubble.Random(), Clock: c, Tasks: new(zkconn.Tasks), Closing: context.Background(),
		Keeper: lease.NewKeeper(lease.Options{Clock: c, Jitter: func(d, _ time.Duration) time.Duration { return d }, Background: func(f func()) {}}),
	})
}

func parse(t *testing.T, nodes ...string) []znode.Name {
	t.Helper()
	var names []znode.Name
	for _, node := range nodes {
		n, ok := znode.Parse(node)
		if !ok {
			t.Fatalf("%s is no contender", node)
		}
		names = append(names, n)
	}
	return names
}

const generation = "9f86d081884c7d65"

// TestDraftIsNew: no two drafts have the same attempt's id or the same generation.
func TestDraftIsNew(t *testing.T) {
	q := offline(new(local))
	q.Conn = new(zkconn.Conn)
	c := newContender(q, Request{Lock: "x", Kind: znode.Mutex})
	attempts, generations := map[string]bool{}, map[string]bool{}
	for range 3 {
		for _, p := range []parent{{}, {state: present, kind: znode.Mutex, generation: generation}} {
			d := c.draft(p, clock.Instant{})
			if attempts[znode.FormatID(d.attempt)] {
				t.Errorf("the attempt %x comes again", d.attempt)
			}
			attempts[znode.FormatID(d.attempt)] = true
			if p.state != absent {
				continue
			}
			if g := d.parent.generation; generations[g] || g == znode.FormatID(d.attempt) {
				t.Errorf("the generation %s comes again", g)
			}
			generations[d.parent.generation] = true
		}
	}
}

// TestSampleFromBeforeAnOutage: only the first sample after an outage shows which writes may be
// older than the outage. A sample from before the outage shows none.
func TestSampleFromBeforeAnOutage(t *testing.T) {
	l := &local{now: clock.Instant{Mono: time.Second, Wall: time.Second}}
	q := offline(l)
	q.Clock.Ensemble.Observe(5, 1000, l.now, l.now)
	if q.resumed.before(9, -1, q) {
		t.Error("there was no outage")
	}
	if !q.resumed.before(9, 2*time.Second, q) {
		t.Error("a sample from before the outage tells what was written after it")
	}
	l.now = clock.Instant{Mono: 3 * time.Second, Wall: 3 * time.Second}
	q.Clock.Ensemble.Observe(12, 3000, l.now, l.now)
	if !q.resumed.before(9, 2*time.Second, q) || !q.resumed.before(12, 2*time.Second, q) || q.resumed.before(13, 2*time.Second, q) {
		t.Error("the first sample after the outage tells what was written after it")
	}
}

// TestSightingOfAnotherWrite: a client counts how long it has known a write, not how long it has
// known the node; and after a restore another write may have the same number.
func TestSightingOfAnotherWrite(t *testing.T) {
	l := &local{now: clock.Instant{Mono: time.Second}}
	v := newView(offline(l), Request{Lock: "x", Kind: znode.Mutex}, new(lockState))
	e := znode.Entry{Name: znode.Name{Node: "a"}, Stat: znode.Stat{Mzxid: 5, Mtime: 1000, Version: 1}}
	first := v.sightingOf(nil, e, nil)
	l.now.Mono = time.Minute
	for name, change := range map[string]func(e *znode.Entry){
		"nothing": func(e *znode.Entry) { e.Stat.NumChildren++ }, "zxid": func(e *znode.Entry) { e.Stat.Mzxid++ },
		"stamp": func(e *znode.Entry) { e.Stat.Mtime++ }, "version": func(e *znode.Entry) { e.Stat.Version++ },
		"node": func(e *znode.Entry) { e.Node = "b" },
	} {
		next := e
		change(&next)
		if s := v.sightingOf(first, next, nil); s.read != time.Minute || (s.since == time.Second) != (name == "nothing") {
			t.Errorf("%s: read at %v, known since %v", name, s.read, s.since)
		}
	}
}

// TestParentDeletion: an empty parent that Holdfast created is deleted with its anchor, an adopted
// one only at the end of its counter. All other parents stay.
func TestParentDeletion(t *testing.T) {
	node := func(p znode.Parent, children int32) zkconn.Node {
		return zkconn.Node{Data: p.Encode(), Stat: &zk.Stat{Version: 3, NumChildren: children}}
	}
	p := znode.Parent{Kind: znode.Mutex, Generation: generation}
	adopted := p
	adopted.Adopted = true
	ops := parentDeletion("/locks/x", node(p, 1), false)
	if len(ops) != 2 || ops[0].(*zk.DeleteRequest).Path != anchorPath("/locks/x", generation) || *ops[1].(*zk.DeleteRequest) != (zk.DeleteRequest{Path: "/locks/x", Version: 3}) {
		t.Errorf("operations %+v", ops)
	}
	if parentDeletion("/locks/x", node(adopted, 1), true) == nil {
		t.Error("an adopted parent whose counter is at its end stays")
	}
	for name, n := range map[string]zkconn.Node{
		"with a child":         node(p, 2),
		"that was adopted":     node(adopted, 1),
		"without a generation": node(znode.Parent{Kind: znode.Dir}, 0),
		"of another program":   {Data: []byte("theirs"), Stat: &zk.Stat{}},
	} {
		if ops := parentDeletion("/locks/x", n, false); ops != nil {
			t.Errorf("a parent %s is deleted by %+v", name, ops)
		}
	}
}

// TestCountRoom: Room is the number of equal requests that all permits suffice for. Free is the
// number of equal requests that fit beside the listed contenders, plus the joins in flight.
func TestCountRoom(t *testing.T) {
	q := offline(new(local))
	s := &lockState{name: "x"}
	p := &placed{queue: q, lock: s}
	p.Begin(&place.Join{Cancel: func() {}})
	c := newContender(q, Request{Kind: znode.Semaphore, Permits: 2})
	c.lock, c.placed = s, p
	for _, tt := range []struct {
		names      []string
		room, free int
	}{
		{nil, 4, 5},
		{[]string{generation + "-5-lock-0000000001"}, 4, 2},
		{[]string{generation + "-5-lock-0000000001", generation + "-lock-0000000002", "_c_9f86d081-884c-7d65-9f86-d081884c7d65-lock-0000000003"}, 4, 1},
		{[]string{generation + "-5-lock-0000000001", generation + "-5-lock-0000000002"}, 4, 1},
	} {
		if c.countRoom(parse(t, tt.names...), 8); p.Room != tt.room || p.Free != tt.free {
			t.Errorf("%q: room %d, free %d, want %d and %d", tt.names, p.Room, p.Free, tt.room, tt.free)
		}
	}
}

// TestWatcherReturnsNoOlderHolder: a new session may begin on a server that lags behind what the
// watcher has seen. The watcher does not return a holder older than the last holder that it
// returned.
func TestWatcherReturnsNoOlderHolder(t *testing.T) {
	bubble.Run(t, locktest.Options{}, 5*time.Second, func(w *bubble.World) {
		z := w.Plain("a", 6*time.Second, zk.NewDNSHostProvider())
		record := znode.Record{TTL: time.Hour.Milliseconds(), AcquiredAt: time.Now().UnixMilli()}
		for _, n := range []struct {
			path string
			data []byte
		}{{"/locks", nil}, {"/locks/x", nil}, {"/locks/x/" + generation + "-lock-0000000001", record.Encode()}} {
			iferr.Fatal(t, iferr.Of(z.Create(n.path, n.data, 0, zk.WorldACL(zk.PermAll))))
		}
		q := online(z)
		defer q.Conn.Close(0)
		watcher := q.NewWatcher(Request{Lock: "x", Kind: znode.Mutex})
		holder, err := watcher.Holder(w.Ctx, false)
		if err != nil || holder == nil {
			t.Fatalf("%v, %v", holder, err)
		}
		watcher.youngest++ // as if another server had shown a later holder
		ctx, cancel := context.WithTimeout(w.Ctx, 5*time.Second)
		defer cancel()
		if holder, err := watcher.Holder(ctx, false); holder != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", holder, err)
		}
	})
}

// online returns a queue on a borrowed connection. Its client's clocks stand still.
func online(z *zk.Conn) *Queue {
	begun, l := time.Now(), &local{now: clock.Instant{Mono: time.Second, Wall: time.Second}}
	q := offline(l)
	q.Conn = zkconn.Borrow(z, zkconn.Config{
		SessionTimeout: 6 * time.Second, Random: bubble.Random(), Now: func() time.Duration { return time.Since(begun) },
	})
	q.Clock = clock.New(q.Conn, "/locks", nil, func() clock.Instant { return l.now }, q.newID)
	return q
}

// TestSightingsOfGoneCandidates: sightings are of the candidates that are there. A process that looks at
// an election for months does not keep those that have left.
func TestSightingsOfGoneCandidates(t *testing.T) {
	bubble.Run(t, locktest.Options{}, 5*time.Second, func(w *bubble.World) {
		z := w.Plain("a", 6*time.Second, zk.NewDNSHostProvider())
		create := func(path string, data []byte) {
			iferr.Fatal(t, iferr.Of(z.Create(path, data, 0, zk.WorldACL(zk.PermAll))))
		}
		create("/locks", nil)
		create("/locks/x", nil)
		q := online(z)
		defer q.Conn.Close(0)
		var last Sightings
		for i := range 5 {
			node := fmt.Sprintf("/locks/x/%s-lock-%010d", generation, i)
			create(node, (&znode.Record{TTL: time.Hour.Milliseconds()}).Encode())
			found, err := q.Candidates(w.Ctx, Request{Lock: "x", Kind: znode.Mutex}, &last)
			if err != nil || len(found) != 1 || len(last.known) != 1 {
				t.Errorf("%d candidates and %d sightings, %v", len(found), len(last.known), err)
			}
			iferr.Fatal(t, z.Delete(node, -1))
		}
	})
}

// TestJoinOfADoubtfulHold: a hold whose lease may be over is not shared, even before its keeper has
// noticed.
func TestJoinOfADoubtfulHold(t *testing.T) {
	l := &local{now: clock.Instant{Mono: time.Hour, Wall: time.Hour}}
	q := offline(l)
	q.Observe = func(*Entry, lease.Change) {}
	c := newContender(q, Request{Kind: znode.RW, Role: znode.Shared, Terms: lease.Terms{TTL: time.Minute}})
	e := (&draft{by: c}).entryAt("/locks/x/"+generation+"-__READ__0000000001", 0, lease.Created{Sent: l.now, Session: 1})
	if err := e.Grant(context.Background(), l.now, lease.Never); err != nil || !e.AddHandle() {
		t.Fatalf("a good hold is not shared: %v", err)
	}
	l.now.Wall += time.Hour // the machine slept
	if e.AddHandle() {
		t.Error("a hold is shared whose lease may be over")
	}
}

// TestReplyThatIsReadInAnotherSession: an entry counts as written in the session in which the write
// was sent.
func TestReplyThatIsReadInAnotherSession(t *testing.T) {
	bubble.Run(t, locktest.Options{}, 5*time.Second, func(w *bubble.World) {
		z := w.Plain("a", 6*time.Second, zk.NewDNSHostProvider())
		path := "/locks/x/" + generation + "-lock-0000000001"
		for _, path := range []string{"/locks", "/locks/x", path} {
			iferr.Fatal(t, iferr.Of(z.Create(path, nil, 0, zk.WorldACL(zk.PermAll))))
		}
		begun, ends := time.Now(), atomic.Bool{}
		conn := zkconn.Borrow(z, zkconn.Config{
			SessionTimeout: 6 * time.Second, Random: bubble.Random(), Now: func() time.Duration { return time.Since(begun) },
		})
		defer conn.Close(0)
		q := offline(new(local))
		q.Conn, q.Observe = conn, func(*Entry, lease.Change) {}
		q.Clock = clock.New(conn, "/locks", nil, func() clock.Instant {
			if first := conn.Session(); ends.Swap(false) { // the reply has come
				w.ExpireLabel("a")
				for conn.Session() == first || conn.Session() == 0 {
					time.Sleep(10 * time.Millisecond)
				}
			}
			return clock.Instant{Mono: time.Since(begun), Wall: time.Since(begun)}
		}, q.newID)
		q.Keeper = lease.NewKeeper(lease.Options{
			Conn: conn, Clock: q.Clock, Background: func(f func()) { go f() }, Jitter: func(d, _ time.Duration) time.Duration { return d },
		})
		ctx, cancel := context.WithCancelCause(w.Ctx)
		defer cancel(nil)
		go q.Keeper.Run(ctx)
		c := newContender(q, Request{Kind: znode.Mutex, Terms: lease.Terms{TTL: time.Minute}})
		first := conn.Session()
		e := (&draft{by: c}).entryAt(path, 0, lease.Created{Sent: q.Clock.Local(), Session: first})
		e.Begin(context.Background())
		w.Trace(func(ev locktest.Event) {
			if ev.Kind == "request" && slices.Contains(ev.Paths, path) {
				ends.Store(true)
			}
		})
		iferr.Fatal(t, e.Refresh(ctx))
		if now := conn.Session(); now == first || e.WrittenIn(now) || !e.WrittenIn(first) {
			t.Errorf("written in session %#x: %v; it was sent in %#x", now, e.WrittenIn(now), first)
		}
		e.Withdraw()
	})
}

// TestOwnedByAnother: an orphan has another owner if the node was attached to, or written with a grant
// since the create. The mark of a force-release, which raises the version by two, is no such write.
func TestOwnedByAnother(t *testing.T) {
	broken := &znode.Broken{Owner: "operator"}
	for _, c := range []struct {
		record  znode.Record
		version int32
		want    bool
	}{
		{znode.Record{}, 0, false},
		{znode.Record{}, 3, false}, // a renewal of this client
		{znode.Record{AcquiredAt: 1}, 0, false},
		{znode.Record{AcquiredAt: 1}, 1, true},
		{znode.Record{AcquiredAt: 1}, 2, true},
		{znode.Record{AcquiredAt: 1, Broken: broken}, 2, false},
		{znode.Record{AcquiredAt: 1, Broken: broken}, 3, true},
		{znode.Record{Incarnation: 1}, 2, true},
		{znode.Record{Incarnation: 1, Broken: broken}, 2, true},
	} {
		c.record.Owner, c.record.TTL, c.record.Attempt = "o", 1000, znode.FormatID(1)
		n := zkconn.Node{Data: c.record.Encode(), Stat: &zk.Stat{Version: c.version}}
		if got := ownedByAnother(n, 0); got != c.want {
			t.Errorf("version %d, %+v: %v, want %v", c.version, c.record, got, c.want)
		}
	}
}
