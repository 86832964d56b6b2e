package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/peers"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// settle is how long a test waits to see that a client does not get the lock.
const settle = 300 * time.Millisecond

// request is a command whose answer may take long.
type request struct {
	client  part
	command string
	answer  <-chan zkserver.Line
}

// tell sends a client a command without waiting for the answer.
func (m *mixed) tell(c part, command string) request {
	m.Helper()
	answer, err := c.Tell(command)
	if err != nil {
		m.Errorf("%s: %v", c.library, err)
	}
	return request{c, command, answer}
}

// queues sends a client's request for the lock, and waits until n clients contend for it.
func (m *mixed) queues(c part, command, path string, n int) request {
	m.Helper()
	r := m.tell(c, command)
	m.queued(path, n)
	return r
}

// queued waits until the path has n contenders.
func (m *mixed) queued(path string, n int) {
	m.Helper()
	m.eventually(fmt.Sprintf("%d contend for %s", n, path), func() bool {
		children, _, err := m.raw.Children(path)
		return err == nil && len(withoutAnchors(children)) == n
	})
}

// waits checks that the request is not answered within settle.
func (m *mixed) waits(r request) {
	m.Helper()
	select {
	case s := <-r.answer:
		m.Errorf("%s, %s: %s; it had to wait", r.client.library, r.command, s.Text)
	// wall clock: that a request is not answered is no event
	case <-time.After(settle):
	}
}

// comes waits for the answer to a request, which must be a success.
func (m *mixed) comes(r request) {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.ctx, patience/4) // wall clock: a limit that only a failure reaches
	defer cancel()
	if s, err := r.client.Hear(ctx, r.answer); err != nil || s.Text != peers.OK {
		m.Errorf("%s, %s: %s, %v", r.client.library, r.command, s.Text, err)
	}
}

// last returns the last entry in the queue.
func (m *mixed) last(path string) string {
	m.Helper()
	children, _, err := m.raw.Children(path)
	if children = withoutAnchors(children); err != nil || len(children) == 0 {
		m.Errorf("children %q: %v", children, err)
		return ""
	}
	return slices.MaxFunc(children, bySequence)
}

// lose ends the session of a client at the server, and cuts its connection so that the client
// notices at once.
func (m *mixed) lose(c part) {
	m.expire(&c.Tap)
	c.Relay.Cut()
}

// cell is a case of two clients: the second requests the lock while the first holds it.
type cell struct {
	maker         string // library of the client that creates the parent
	first, second string // libraries of the clients
	has, asks     string // commands of the first and the second client
	together      bool   // both may hold the lock at once
}

// run runs the cells in parallel, each with a lock of its own.
func (m *mixed) run(t *testing.T, kind string, options []string, cells []cell) {
	var all sync.WaitGroup
	for _, c := range cells {
		m, path := m.of(t, strings.Join([]string{kind, c.maker, c.first, c.has, c.second, c.asks}, "-"))
		first, second := m.open(c.first, 0, path, kind, options...), m.open(c.second, 1, path, kind, options...)
		maker := first
		switch c.maker {
		case c.first:
		case c.second:
			maker = second
		default:
			maker = m.open(c.maker, 0, path, kind, options...)
		}
		all.Go(func() {
			if maker != first {
				m.ask(maker, "lock")
				m.ask(maker, "unlock")
				m.queued(path, 0)
			}
			m.ask(first, c.has)
			asking := m.queues(second, c.asks, path, 2)
			if !c.together {
				m.waits(asking)
				m.ask(first, "unlock")
			}
			m.comes(asking)
			if c.together {
				m.ask(first, "unlock")
			}
			m.ask(second, "unlock")
			m.anchored(path, slices.Contains([]string{c.maker, c.first, c.second}, holdfast))
		})
	}
	all.Wait()
}

// anchored checks that the parent has exactly one anchor if want is true, and none otherwise. A
// kept parent has an anchor if Holdfast has used it, whichever library created it.
func (m *mixed) anchored(path string, want bool) {
	m.Helper()
	children, _, err := m.raw.Children(path)
	iferr.Error(m, err)
	if n := len(children) - len(withoutAnchors(slices.Clone(children))); n > 1 || want != (n == 1) {
		m.Errorf("%s has the children %q; an anchor: %v", path, children, want)
	}
}

// testPairs: a client of each library waits for a holder of each library, whichever library created
// the parent.
func (m *mixed) testPairs(t *testing.T) {
	libraries := []string{holdfast, zkLock, curator, kazoo}
	for _, maker := range libraries {
		var cells []cell
		for _, first := range libraries {
			for _, second := range libraries {
				cells = append(cells, cell{maker, first, second, "lock", "lock", false})
			}
		}
		m.run(t, peers.Mutex, peers.Mixed, cells)
	}
}

// testReadersAndWriters: readers of Holdfast and of another library share the lock, and a writer
// holds it alone. The pair of Curator and kazoo is left out, because their read/write locks ignore
// each other.
func (m *mixed) testReadersAndWriters(t *testing.T) {
	for _, maker := range []string{holdfast, curator, kazoo} {
		var cells []cell
		for _, pair := range [][2]string{{holdfast, holdfast}, {holdfast, curator}, {curator, holdfast}, {holdfast, kazoo}, {kazoo, holdfast}} {
			for _, has := range []string{"lock", "rlock"} {
				for _, asks := range []string{"lock", "rlock"} {
					cells = append(cells, cell{maker, pair[0], pair[1], has, asks, has == "rlock" && asks == "rlock"})
				}
			}
		}
		m.run(t, peers.RW, peers.MixedRW, cells)
	}
}

// testDowngrade: after a writer's downgrade, Holdfast's readers get the lock, and writers still
// wait. To downgrade, Curator's writer creates an entry for reading and deletes its entry for
// writing. Some versions create the new entry behind waiting writers, which then get the lock.
func (m *mixed) testDowngrade(t *testing.T) {
	for _, library := range []string{holdfast, curator} {
		t.Run("Curator's before a writer of "+library, func(t *testing.T) {
			m, path := m.of(t, "downgrade before "+library)
			theirs, reader := m.open(curator, 0, path, peers.RW), m.open(holdfast, 0, path, peers.RW)
			writer := m.open(library, 1, path, peers.RW)
			m.ask(theirs, "lock")
			reading := m.queues(reader, "rlock", path, 2)
			writing := m.queues(writer, "lock", path, 3)
			m.waits(reading)
			m.ask(theirs, "downgrade")
			m.comes(reading)
			m.waits(writing)
			last := m.last(path)
			m.ask(reader, "unlock")
			if strings.Contains(last, "__READ__") {
				m.comes(writing)
				t.Logf("this Curator goes on as a reader behind the waiting writers (CURATOR-621): one of %s came in beside it", library)
				m.ask(theirs, "unlock")
			} else {
				m.waits(writing)
				m.ask(theirs, "unlock")
				m.comes(writing)
			}
			m.ask(writer, "unlock")
		})
	}
	t.Run("ours", func(t *testing.T) {
		m, path := m.of(t, "our downgrade")
		ours, theirs := m.open(holdfast, 0, path, peers.RW), m.open(curator, 0, path, peers.RW)
		reader := m.open(holdfast, 1, path, peers.RW)
		m.ask(ours, "lock")
		reading := m.queues(theirs, "rlock", path, 2)
		m.ask(ours, "downgrade")
		m.ask(reader, "rlock")
		m.waits(reading) // Curator takes the entry of Holdfast for a writer's until the entry is deleted
		m.ask(ours, "unlock")
		m.comes(reading)
		m.ask(theirs, "unlock")
		m.ask(reader, "unlock")
	})
}

// testReadLockOfKazoo: kazoo's read lock also waits for later writers (kazoo#649), so a reader and
// a writer can wait for each other. When Holdfast's writer gives up, the reader gets the lock.
func (m *mixed) testReadLockOfKazoo(t *testing.T) {
	m, path := m.of(t, "reader of kazoo")
	theirs := m.open(kazoo, 0, path, peers.RW, peers.MixedRW...)
	first, second := m.open(holdfast, 0, path, peers.RW), m.client().RWMutex(path[len(m.root)+1:])
	m.ask(first, "lock")
	reading := m.queues(theirs, "rlock", path, 2)
	ctx, giveUp := context.WithCancel(m.ctx)
	defer giveUp()
	gaveUp := make(chan error, 1)
	go func() {
		_, err := second.Lock(ctx)
		gaveUp <- err
	}()
	m.queued(path, 3)
	m.ask(first, "unlock")
	select {
	case s := <-reading.answer:
		t.Logf("this kazoo has the bug no more: its reader came in before the writer behind it gave up: %s", s.Text)
		giveUp()
	// wall clock: that a request is not answered is no event
	case <-time.After(settle):
		giveUp()
		m.comes(reading)
	}
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("our writer: %v", err)
	}
	m.ask(theirs, "unlock")
}

// testParentDeleted: without keep_parent, Holdfast deletes the lock's node, and other libraries
// create it again, except for a kazoo Lock that is used again: it creates the node only once.
func (m *mixed) testParentDeleted(t *testing.T) {
	for _, c := range []struct {
		library string
		option  string
		keeps   bool // Holdfast keeps the lock's node
		breaks  bool
	}{
		{library: zkLock}, {library: curator}, {library: kazoo},
		{library: kazoo, option: peers.Reused, breaks: true},
		{library: kazoo, option: peers.Reused, keeps: true},
	} {
		t.Run(fmt.Sprintf("%s %s kept %v", c.library, c.option, c.keeps), func(t *testing.T) {
			m, path := m.of(t, fmt.Sprintf("parent-%s%s-%v", c.library, c.option, c.keeps))
			var options []string
			if c.keeps {
				options = []string{peers.KeepParent}
			}
			ours := m.open(holdfast, 0, path, peers.Mutex, options...)
			theirs := m.open(c.library, 0, path, peers.Mutex, append(slices.Clone(peers.Mixed), c.option)...)
			m.ask(ours, "lock") // creates the parent
			waiting := m.queues(theirs, "lock", path, 2)
			m.ask(ours, "unlock")
			m.comes(waiting)
			m.ask(theirs, "unlock")
			m.ask(ours, "lock")
			m.ask(ours, "unlock")
			if !c.keeps {
				m.eventually("the parent was deleted", func() bool { exists, _, err := m.raw.Exists(path); return err == nil && !exists })
			}
			for range 2 {
				answer, err := theirs.Ask(m.ctx, "lock")
				if err != nil || (answer == peers.OK) == c.breaks {
					t.Errorf("lock: %s, %v", answer, err)
				}
				if c.breaks {
					t.Logf("lock: %s", answer)
					continue
				}
				m.ask(theirs, "unlock")
			}
		})
	}
}

// testTheirSessionLost: if the session of another library's holder ends, its entry is deleted, and
// Holdfast's waiter gets the lock although the holder may not know of its loss (CURATOR-604). The
// holder's unlock does not harm the new hold.
func (m *mixed) testTheirSessionLost(t *testing.T) {
	for library, thinks := range map[string]string{zkLock: "unknown", curator: "yes", kazoo: "yes"} {
		t.Run(library, func(t *testing.T) {
			m, path := m.of(t, "session of "+library)
			theirs, next := m.open(library, 0, path, peers.Mutex, peers.Mixed...), m.open(library, 1, path, peers.Mutex, peers.Mixed...)
			ours := m.open(holdfast, 0, path, peers.Mutex, peers.Mixed...)
			m.ask(theirs, "lock")
			coming := m.queues(ours, "lock", path, 2)
			m.waits(coming)
			m.lose(theirs)
			m.comes(coming)
			held, err := theirs.Ask(m.ctx, "held")
			t.Logf("%s, asked whether it has the lock when ours came in: %s", library, held)
			if err != nil || held != thinks {
				t.Errorf("held: %s, %v", held, err)
			}
			behind := m.queues(next, "lock", path, 2)
			answer, err := theirs.Ask(m.ctx, "unlock")
			t.Logf("%s, unlock: %s", library, answer)
			iferr.Error(t, err)
			m.waits(behind)
			if held, err := ours.Ask(m.ctx, "held"); err != nil || held != "yes" {
				t.Errorf("ours is held: %s, %v", held, err)
			}
			m.ask(ours, "unlock")
			m.comes(behind)
			m.ask(next, "unlock")
		})
	}
}
