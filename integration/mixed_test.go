package integration_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/peers"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// mixedEnv names the variable with the duration of each mix, such as 60s.
const mixedEnv = "HOLDFAST_MIXED"

// The libraries that contend for one path.
const (
	holdfast = "Holdfast"
	zkLock   = "zk.Lock"
	curator  = "Curator"
	kazoo    = "kazoo"
)

// mixed is a bench with processes of several libraries.
type mixed struct {
	*bench
	processes map[string][]*peers.Peer // two of each library
}

// TestMixed: Holdfast and the locks of other libraries exclude each other on the same paths, under
// the conditions of lock/MIGRATING.md. Each client is in a process of its own, with its real
// library.
func TestMixed(t *testing.T) {
	t.Parallel()
	m := mix(t)
	t.Run("turns", m.testTurns)
	for name, test := range map[string]func(*testing.T){
		"pairs":               m.testPairs,
		"readers and writers": m.testReadersAndWriters,
		"downgrade":           m.testDowngrade,
		"kazoo's ReadLock":    m.testReadLockOfKazoo,
		"parent deleted":      m.testParentDeleted,
		"their session lost":  m.testTheirSessionLost,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// mix starts two processes of each library.
func mix(t *testing.T) *mixed {
	m := &mixed{onShared(t), make(map[string][]*peers.Peer)}
	m.ctx = t.Context() // without a limit, because a mix may run for long
	dir := t.TempDir()
	for name, setUp := range map[string]func(context.Context, string) (peers.Program, error){
		holdfast: peers.Holdfast,
		zkLock:   peers.ZKLock,
		curator:  peers.Curator,
		kazoo:    peers.Kazoo,
	} {
		program, err := setUp(m.ctx, dir)
		if errors.Is(err, zkserver.ErrNotInstalled) {
			zkserver.NotRun(t, "needs %s: %v", name, err)
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if program.Version != "" {
			t.Log(program.Version)
		}
		for range 2 {
			// Sessions and leases end only if a test ends them.
			p, err := peers.Start(program.Command(peers.Terms{SessionTimeout: 30 * time.Second, TTL: long}), func(string) {})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			t.Cleanup(p.Close)
			m.processes[name] = append(m.processes[name], p)
		}
	}
	m.create(m.root, "", 0)
	return m
}

// of returns the bench and the processes for a part of the test, and the path of a lock that only
// this part uses. At the end of the part it deletes the lock.
func (m *mixed) of(t *testing.T, name string) (*mixed, string) {
	t.Helper()
	b := *m.bench
	b.TB = t
	path := b.root + "/" + strings.NewReplacer(" ", "-", "'", "").Replace(name)
	t.Cleanup(func() {
		children, _, err := b.raw.Children(path)
		for _, c := range children {
			if _, anchor := znode.AnchorOf(c); !anchor { // an anchor stays in a kept or adopted parent
				t.Errorf("left behind: %s", c)
			}
		}
		// Curator creates a container node. The server deletes the node some time after the last
		// child, so the node may be missing.
		if err == nil {
			err = b.deleteEmpty(path)
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			t.Error(err)
		}
	})
	return &mixed{&b, m.processes}, path
}

// part is one client in a mix.
type part struct {
	*peers.Client
	library string
	pid     int
}

// open connects a client in the i-th process of a library.
func (m *mixed) open(library string, i int, path, kind string, options ...string) part {
	m.Helper()
	process := m.processes[library][i]
	c, err := process.Open(m.ctx, m.servers[0], path, kind, options...)
	if err != nil {
		m.Fatalf("%s: %v", library, err)
	}
	return part{c, library, process.Pid()}
}

// ask sends a client a command that must succeed.
func (m *mixed) ask(c part, command string) {
	m.Helper()
	if err := c.Must(m.ctx, command); err != nil {
		m.Errorf("%s: %v", c.library, err)
	}
}

func (m *mixed) testTurns(t *testing.T) {
	lasts := time.Second
	if s := os.Getenv(mixedEnv); s != "" {
		var err error
		if lasts, err = time.ParseDuration(s); err != nil || lasts <= 0 {
			t.Fatalf("%s=%q: want for how long to go on, such as 60s", mixedEnv, s)
		}
	}
	for _, libraries := range [][]string{
		{holdfast, zkLock, curator, kazoo},
		{holdfast, zkLock}, {holdfast, curator}, {holdfast, kazoo},
	} {
		name := strings.Join(libraries, " and ")
		t.Run(name, func(t *testing.T) {
			m, path := m.of(t, name)
			m.takeTurns(path, libraries, lasts)
		})
	}
}

// enoughTurns is the least average number of turns of a client. With fewer turns, check could not
// tell whether the lock is fair.
const enoughTurns = 10

// queue records the turns of a lock.
type queue struct {
	*mixed
	path     string
	inside   atomic.Int32 // clients that have the lock
	counting atomic.Bool
	over     atomic.Bool

	mu     sync.Mutex
	last   string // sequence of the last holder's entry
	parent int64  // Czxid of the parent
	turns  map[part]int
	all    int
}

// takeTurns runs two clients of each library, which take turns as fast as they can. Turns count
// after each client has had a turn, and until the first client stops.
func (m *mixed) takeTurns(path string, libraries []string, lasts time.Duration) {
	q := &queue{mixed: m, path: path, turns: map[part]int{}}
	var clients []part
	for _, library := range libraries {
		for i := range m.processes[library] {
			clients = append(clients, m.open(library, i, path, peers.Mutex, peers.Mixed...))
		}
	}
	var begun, done sync.WaitGroup
	begun.Add(len(clients))
	for _, c := range clients {
		done.Go(func() {
			first := sync.OnceFunc(begun.Done)
			defer first()
			for !q.over.Load() && !m.Failed() {
				q.turn(c)
				first()
			}
		})
	}
	begun.Wait()
	q.counting.Store(true)
	end := time.Now().Add(lasts) // wall clock: the caller says for how long
	m.eventuallyIn(lasts+patience, "they have taken turns for long enough", func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return m.Failed() || time.Now().After(end) && q.all >= enoughTurns*len(clients)
	})
	q.counting.Store(false)
	q.over.Store(true)
	done.Wait()
	q.check(libraries)
}

// turn makes a client lock, checks the queue, and makes the client unlock.
func (q *queue) turn(c part) {
	q.ask(c, "lock")
	if n := q.inside.Add(1); n > 1 {
		q.Errorf("%d clients have the lock", n)
	}
	q.look(c)
	q.inside.Add(-1)
	q.ask(c, "unlock")
}

// look checks that the holder's node is the first in the queue, and later than the node of the
// previous holder, below the same parent. Then it counts the turn.
func (q *queue) look(c part) {
	first, parent := q.first()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.isOf(first, c) {
		q.Errorf("%s %s has the lock, and the first in the queue is %s", c.library, c.Name, first)
		return
	}
	sequence := sequenceOf(first)
	if q.parent != 0 && (parent != q.parent || sequence <= q.last) {
		q.Errorf("%s %s has the lock by %s below %#x, after one with sequence %s below %#x", c.library, c.Name, first, parent, q.last, q.parent)
	}
	q.last, q.parent = sequence, parent
	if q.counting.Load() {
		q.all++
		q.turns[c]++
	}
}

// first returns the name of the first entry in the queue, and the Czxid of its parent.
func (q *queue) first() (name string, parent int64) {
	iferr.Error(q, iferr.Of(q.raw.Sync(q.path)))
	children, _, err := q.raw.Children(q.path)
	if children = withoutAnchors(children); err != nil || len(children) == 0 {
		q.Errorf("children %q: %v", children, err)
		return "", 0
	}
	_, stat, err := q.raw.Exists(q.path)
	iferr.Error(q, err)
	return slices.MinFunc(children, bySequence), stat.Czxid
}

func bySequence(a, b string) int { return cmp.Compare(sequenceOf(a), sequenceOf(b)) }

func sequenceOf(node string) string { return node[max(0, len(node)-10):] }

// isOf reports whether a node belongs to the client: by its session, or for Holdfast by the process
// id in the record.
func (q *queue) isOf(node string, c part) bool {
	data, stat, err := q.raw.Get(q.path + "/" + node)
	if err != nil {
		q.Errorf("%s: %v", node, err)
		return false
	}
	if c.library != holdfast {
		session, _, _ := c.Tap.Session()
		return stat.EphemeralOwner == session
	}
	record, err := znode.DecodeRecord(data)
	return err == nil && stat.EphemeralOwner == 0 && record.PID == c.pid
}

// check checks that all clients had turns, and each library at least half of its fair share.
func (q *queue) check(libraries []string) {
	of, total := make(map[string]int), 0
	for _, c := range slices.SortedFunc(maps.Keys(q.turns), func(a, b part) int { return cmp.Or(cmp.Compare(a.library, b.library), a.pid-b.pid) }) {
		of[c.library] += q.turns[c]
		total += q.turns[c]
		q.Logf("%s, process %d: %d turns", c.library, c.pid, q.turns[c])
	}
	if clients := 2 * len(libraries); len(q.turns) < clients {
		q.Errorf("%d of %d clients came in", len(q.turns), clients)
	}
	for _, library := range libraries {
		if fair := float64(total) / float64(len(libraries)); float64(of[library]) < fair/2 {
			q.Errorf("%s came in %d times; its fair share is %.0f", library, of[library], fair)
		}
	}
	q.Logf("%d turns: %v", total, of)
}
