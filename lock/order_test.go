// The order in which contenders of each kind hold a lock: scripts of joins, holds, unlocks and
// waits given up.

package lock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// script is a test's contenders, by name. The first letter of a name is the request: m for a mutex,
// x for a barging mutex, r to read, w to write, a digit for permits. The second letter is the
// client.
type script struct {
	*world
	permits int // of the semaphore
	clients map[byte]*lock.Client
	waiting map[string]<-chan taken
	giveUp  map[string]context.CancelCauseFunc
	holds   map[string]*lock.Hold
}

var errGaveUp = errors.New("the shop closes")

// way returns the calls by which the contender takes the lock, and tries to take it.
func (s *script) way(name string) (take, try taking) {
	c := s.clients[name[1]]
	if c == nil {
		c = s.client(name[1:2])
		s.clients[name[1]] = c
	}
	switch kind := name[0]; kind {
	case 'm':
		return c.Mutex("x").Lock, c.Mutex("x").TryLock
	case 'x':
		m := c.Mutex("x").WithBarging()
		return m.Lock, m.TryLock
	case 'r':
		return c.RWMutex("x").RLock, c.RWMutex("x").TryRLock
	case 'w':
		return c.RWMutex("x").Lock, c.RWMutex("x").TryLock
	default:
		sem, n := c.Semaphore("x", s.permits), int(kind-'0')
		return permits(sem, n), tryPermits(sem, n)
	}
}

// do performs an action for each of the named contenders. For "pass", names[0] is the time to wait.
func (s *script) do(what string, names ...string) {
	s.Helper()
	if what == "pass" {
		d, err := time.ParseDuration(names[0])
		s.ok(err)
		time.Sleep(d)
		return
	}
	for _, name := range names {
		take, try := s.way(name)
		switch what {
		case "join":
			ctx, cancel := context.WithCancelCause(s.ctx)
			s.giveUp[name] = cancel
			s.waiting[name] = start(func() (*lock.Hold, error) { return take(ctx) })
			settle()
		case "refuse": // a try that must fail
			mustBe(s, second(try(s.ctx)), lock.ErrHeld)
		case "try":
			s.holds[name] = s.take(try)
		case "cancel":
			s.giveUp[name](errGaveUp)
			mustBe(s, s.outcome(s.waiting[name]).err, context.Canceled, errGaveUp, lock.ErrHeld)
			delete(s.waiting, name)
		case "downgrade":
			s.ok(lock.RWMutexOf(s.held(name)).Downgrade(s.ctx, s.held(name)))
		case "die":
			s.kill(name[1:2])
		case "leave":
			s.unlock(s.held(name))
			delete(s.holds, name)
		default:
			s.Fatalf("what is %q?", what)
		}
	}
}

// held returns the hold of a contender, which must have entered.
func (s *script) held(name string) *lock.Hold {
	s.Helper()
	h := s.holds[name]
	if h == nil {
		s.Fatalf("%s does not hold the lock", name)
	}
	return h
}

// comeIn checks that the named contenders have entered since the last step and no other waiter has,
// and that all holds are still valid.
func (s *script) comeIn(step string, names ...string) {
	s.Helper()
	time.Sleep(5 * time.Millisecond) // until grants are recorded
	settle()
	for name, ch := range s.waiting {
		select {
		case got := <-ch:
			isTrue(s, got.err == nil && slices.Contains(names, name), "%s: %s waits no longer: %v", step, name, got.err)
			delete(s.waiting, name)
			s.holds[name] = got.hold
		default:
			isTrue(s, !slices.Contains(names, name), "%s: %s waits still", step, name)
		}
	}
	for name, h := range s.holds {
		mustBeTrue(s, h.Err() == nil, "%s: %s holds no longer: %v", step, name, h.Err())
		for _, other := range names {
			if o := s.holds[other]; o != nil && !slices.Contains(names, name) && h.Token().Compare(o.Token()) >= 0 {
				s.Errorf("%s: the token of %s is %v, that of %s, which came before, %v", step, other, o.Token(), name, h.Token())
			}
		}
	}
}

// TestOrder: each step of a script is an action of contenders, and names the contenders that enter
// because of it. No other contender enters. At the end no node is left.
func TestOrder(t *testing.T) {
	forEach(t, locktest.Options{}, map[string]string{
		"a mutex": "join ma>ma; join mb mc md; leave ma>mb; leave mb>mc; leave mc>md; leave md",

		"the first gives up":           "join ma>ma; join mb mc md me; cancel mb; leave ma>mc; leave mc>md; leave md>me; leave me",
		"some in the middle give up":   "join ma>ma; join mb mc md me; cancel mc md; leave ma>mb; leave mb>me; leave me",
		"the last gives up":            "join ma>ma; join mb mc md me; cancel me; leave ma>mb; leave mb>mc; leave mc>md; leave md",
		"all but the first give up":    "join ma>ma; join mb mc md me; cancel mc md me; leave ma>mb; leave mb",
		"all but the last give up":     "join ma>ma; join mb mc md me; cancel mb mc md; leave ma>me; leave me",
		"all give up":                  "join ma>ma; join mb mc md me; cancel mb mc md me; leave ma",
		"of one client: the first":     "join ma>ma; join mb1 mb2 mb3 mb4; cancel mb1; leave ma>mb2; leave mb2>mb3; leave mb3>mb4; leave mb4",
		"of one client: in the middle": "join ma>ma; join mb1 mb2 mb3 mb4; cancel mb2 mb3; leave ma>mb1; leave mb1>mb4; leave mb4",
		"of one client: the last":      "join ma>ma; join mb1 mb2 mb3 mb4; cancel mb4; leave ma>mb1; leave mb1>mb2; leave mb2>mb3; leave mb3",
		"of one client: all":           "join ma>ma; join mb1 mb2 mb3 mb4; cancel mb1 mb2 mb3 mb4; leave ma",
		"of one client: all but one":   "join ma>ma; join mb1 mb2 mb3 mb4; cancel mb1 mb2 mb4; leave ma>mb3; leave mb3",

		"a dead waiter":               "join ma>ma; join mb mc; die mb; leave ma; pass 12s>mc; leave mc",
		"a dead waiter behind a hold": "join ma>ma; join mb mc; die mb; pass 35s; leave ma>mc; leave mc",

		"barging goes behind the queue": "join ma>ma; join xb; join mc; leave ma>mc; leave mc>xb; leave xb",

		// kazoo#649: when the first writer leaves, the reader must not begin to wait for the second
		// one.
		"a reader between writers":                    "join wa>wa; join rb wc; leave wa>rb; leave rb>wc; leave wc",
		"a reader between writers, behind a long one": "join wa>wa; join rb wc; pass 1s; leave wa>rb; leave rb>wc; leave wc",
		"a writer gives up ahead of readers":          "join ra>ra; join wb rc wd; cancel wb>rc; leave ra; leave rc>wd; leave wd",
		"readers share, writers do not": "join ra rb rc>ra rb rc; refuse wd; try rd; join we rf rg; refuse rh;" +
			" leave rc; leave ra; leave rd; leave rb>we; refuse rh; leave we>rf rg; leave rf; leave rg",
		// The end of one reader, with its grant recorded or not, proves nothing about the other
		// readers.
		"readers leave in their order": "join wa>wa; join rb rc rd we rf; leave wa>rb rc rd; leave rb; leave rc; leave rd>we; leave we>rf; leave rf",
		"the last reader leaves first": "join wa>wa; join rb rc rd we rf; leave wa>rb rc rd; leave rd; leave rc; leave rb>we; leave we>rf; leave rf",
		"readers leave after long":     "join wa>wa; join rb rc rd we rf; leave wa>rb rc rd; pass 10s; leave rb; leave rd; leave rc>we; leave we>rf; leave rf",
		"the last leaves after long":   "join wa>wa; join rb rc rd we rf; leave wa>rb rc rd; pass 10s; leave rd; leave rb; leave rc>we; leave we>rf; leave rf",

		"a writer that waits gives up":          "join wa>wa; join wb rc rd we; cancel wb; pass 1s; leave wa>rc rd; leave rc; leave rd>we; leave we",
		"a writer and readers give up":          "join wa>wa; join wb rc rd we; cancel wb rc rd; pass 1s; leave wa>we; leave we",
		"readers that wait give up":             "join wa>wa; join wb rc rd we; cancel rc rd; pass 1s; leave wa>wb; leave wb>we; leave we",
		"a reader that waits gives up":          "join wa>wa; join wb rc rd we; cancel rd; pass 1s; leave wa>wb; leave wb>rc; leave rc>we; leave we",
		"a reader behind a writer, downgraded":  "join wa>wa; join wb; downgrade wa; pass 10s; join rc; leave wa>wb; leave wb>rc; leave rc",
		"a reader beside a hold, downgraded":    "join wa>wa; downgrade wa; try rb; refuse wb; leave wa; leave rb",
		"permits: whichever holder leaves":      "join 1a 1b 1c>1a 1b 1c; refuse 1z; join 1d 1e 1f; leave 1b>1d; leave 1c>1e; leave 1e>1f; leave 1a; leave 1d; leave 1f",
		"permits: after long holds":             "join 1a 1b 1c>1a 1b 1c; join 1d 1e 1f; pass 1s; leave 1b>1d; pass 1s; leave 1c>1e; pass 1s; leave 1e>1f; leave 1a; leave 1d; leave 1f",
		"permits: a big request is not starved": "join 1a 1b>1a 1b; join 3c 1d 1e; refuse 1z; leave 1b; leave 1a>3c; leave 3c>1d 1e; try 1z; leave 1d; leave 1e; leave 1z",
		"permits: it gets what is left":         "join 2a>2a; join 2b 1c; leave 2a>2b 1c; refuse 1z; leave 2b; try 2z; leave 1c; leave 2z",
		"permits: the first gives up":           "join 2a 1b>2a 1b; join 1c 3d 1e; cancel 1c; leave 2a; leave 1b>3d; leave 3d>1e; leave 1e",
		"permits: a big request gives up":       "join 2a 1b>2a 1b; join 3c 1d 2e; cancel 3c; leave 1b>1d; leave 2a>2e; leave 1d; leave 2e",
		"permits: some in the middle give up":   "join 3a>3a; join 1b 3c 2d 1e; cancel 3c 2d; leave 3a>1b 1e; leave 1b; leave 1e",
		"permits: the last give up":             "join 3a>3a; join 1b 3c 2d 1e; cancel 2d 1e; leave 3a>1b; leave 1b>3c; leave 3c",
	}, func(w *world, steps string) {
		s := &script{w, 3, map[byte]*lock.Client{}, map[string]<-chan taken{}, map[string]context.CancelCauseFunc{}, map[string]*lock.Hold{}}
		for step := range strings.SplitSeq(steps, ";") {
			do, in, _ := strings.Cut(step, ">")
			words := strings.Fields(do)
			s.do(words[0], words[1:]...)
			s.comeIn(strings.TrimSpace(step), strings.Fields(in)...)
		}
		w.empty()
	})
}
