// The queue: the order in which contenders of each kind hold a lock, by scripts of joins, unlocks, waits
// given up, deaths and resizes; tokens; how long the dead block.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// script is a test's contenders, by name. The first letter of a name is the request: m for a mutex,
// x for a barging mutex, r to read, w to write, a digit for permits, or for the number that a Resize
// sets if the name ends with =. The second letter is the client.
type script struct {
	*world
	z       *zk.Conn // of another program
	permits int      // of the semaphore
	clients map[byte]*lock.Client
	waiting map[string]<-chan taken
	giveUp  map[string]context.CancelCauseFunc
	holds   map[string]*lock.Hold
	foreign []string // paths of other programs' entries
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
		if strings.HasSuffix(name, "=") {
			take = func(ctx context.Context) (*lock.Hold, error) { return nil, sem.Resize(ctx, n) }
			return take, take
		}
		return permits(sem, n), tryPermits(sem, n)
	}
}

// do performs an action for each of the named contenders. For "pass", names[0] is the time to wait. Another
// program makes the entry names[0] ("foreign"), forbids to read it ("conceal"), removes what it made, and
// deletes the last entry ("lose").
func (s *script) do(what string, names ...string) {
	s.Helper()
	switch what {
	case "pass":
		d, err := time.ParseDuration(names[0])
		s.ok(err)
		time.Sleep(d)
	case "foreign":
		s.other(lock.DefaultRoot+"/x/"+names[0], zk.FlagSequence)
	case "lose":
		all := s.entries("x")
		s.remove(s.raw("hand"), all[len(all)-1].Path)
	case "entries": // there are so many
		s.hasEntries("x", int(names[0][0]-'0'))
	case "conceal":
		s.setACL(s.z, s.foreign[0], zk.WorldACL(zk.PermWrite))
	case "remove":
		s.remove(s.z, s.foreign...)
	default:
		s.doEach(what, names...)
	}
}

// doEach performs an action of contenders for each of the named ones.
func (s *script) doEach(what string, names ...string) {
	s.Helper()
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
			h := s.held(name)
			token := h.Token()
			s.ok(lock.RWMutexOf(h).Downgrade(s.ctx, h))
			isTrue(s, h.Token() == token && h.Remaining() > 0, "the token was %v and is %v, %v remain", token, h.Token(), h.Remaining())
		case "hide":
			s.setACL(s.raw("admin"), s.held(name).EntryPath(), zk.WorldACL(zk.PermAll&^zk.PermRead))
		case "below":
			s.other(s.held(name).EntryPath()+"/child", 0)
		case "die":
			s.kill(name[1:2])
			maps.DeleteFunc(s.holds, func(other string, _ *lock.Hold) bool { return other[1] == name[1] })
		case "leave":
			s.unlock(s.held(name))
			delete(s.holds, name)
		default:
			s.Fatalf("what is %q?", what)
		}
	}
}

// other makes a node, as another program does.
func (s *script) other(path string, flags int32) {
	if s.z == nil {
		s.z = s.raw("other")
	}
	s.foreign = append(s.foreign, s.create(s.z, path, `{"holdfast":3}`, flags))
}

// held returns the hold of a contender, which must have entered.
func (s *script) held(name string) *lock.Hold {
	s.Helper()
	h := s.holds[name]
	mustBeTrue(s, h != nil, "%s does not hold the lock", name)
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
			if delete(s.waiting, name); got.hold != nil {
				s.holds[name] = got.hold
			}
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
		"one ahead of a lost entry":    "join ma>ma; join mb mc; lose; cancel mb; pass 1s; leave ma>mc; leave mc",
		"all give up":                  "join ma>ma; join mb mc md me; cancel mb mc md me; leave ma",
		"of one client: the first":     "join ma>ma; join mb1 mb2 mb3 mb4; cancel mb1; leave ma>mb2; leave mb2>mb3; leave mb3>mb4; leave mb4",
		"of one client: in the middle": "join ma>ma; join mb1 mb2 mb3 mb4; cancel mb2 mb3; leave ma>mb1; leave mb1>mb4; leave mb4",
		"of one client: the last":      "join ma>ma; join mb1 mb2 mb3 mb4; cancel mb4; leave ma>mb1; leave mb1>mb2; leave mb2>mb3; leave mb3",
		"of one client: all":           "join ma>ma; join mb1 mb2 mb3 mb4; cancel mb1 mb2 mb3 mb4; leave ma",
		"of one client: all but one":   "join ma>ma; join mb1 mb2 mb3 mb4; cancel mb1 mb2 mb4; leave ma>mb3; leave mb3",

		"a dead waiter":                      "join ma>ma; join mb mc; die mb; leave ma; pass 12s>mc; leave mc",
		"a dead waiter behind a hold":        "join ma>ma; join mb mc; die mb; pass 35s; leave ma>mc; leave mc",
		"a dead waiter behind a hidden hold": "join ma>ma; hide ma; join mb mc; die mb; pass 40s; entries 2; leave ma; pass 2s>mc; leave mc",
		"a try for a dead holder's lock":     "join ma>ma; die ma; refuse mb; pass 13s; try mb; leave mb",

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

		"a writer that waits gives up":                "join wa>wa; join wb rc rd we; cancel wb; pass 1s; leave wa>rc rd; leave rc; leave rd>we; leave we",
		"a writer and readers give up":                "join wa>wa; join wb rc rd we; cancel wb rc rd; pass 1s; leave wa>we; leave we",
		"readers that wait give up":                   "join wa>wa; join wb rc rd we; cancel rc rd; pass 1s; leave wa>wb; leave wb>we; leave we",
		"a reader that waits gives up":                "join wa>wa; join wb rc rd we; cancel rd; pass 1s; leave wa>wb; leave wb>rc; leave rc>we; leave we",
		"a reader behind a writer, downgraded":        "join wa>wa; join wb; downgrade wa; pass 10s; join rc; leave wa>wb; leave wb>rc; leave rc",
		"a reader of the writer's own client":         "join wa>wa; refuse ra1; join ra1; leave wa>ra1; leave ra1",
		"a reader beside a hold, downgraded":          "join wa>wa; downgrade wa; try rb; refuse wb; leave wa; leave rb",
		"readers and writers, downgraded":             "join wa>wa; join rb wc rd; downgrade wa>rb; downgrade wa; pass 30s; leave wa; leave rb>wc; leave wc>rd; leave rd",
		"permits: whichever holder leaves":            "join 1a 1b 1c>1a 1b 1c; refuse 1z; join 1d 1e 1f; leave 1b>1d; leave 1c>1e; leave 1e>1f; leave 1a; leave 1d; leave 1f",
		"permits: after long holds":                   "join 1a 1b 1c>1a 1b 1c; join 1d 1e 1f; pass 1s; leave 1b>1d; pass 1s; leave 1c>1e; pass 1s; leave 1e>1f; leave 1a; leave 1d; leave 1f",
		"permits: a big request is not starved":       "join 1a 1b>1a 1b; join 3c 1d 1e; refuse 1z; leave 1b; leave 1a>3c; leave 3c>1d 1e; try 1z; leave 1d; leave 1e; leave 1z",
		"permits: it gets what is left":               "join 2a>2a; join 2b 1c; leave 2a>2b 1c; refuse 1z; leave 2b; try 2z; leave 1c; leave 2z",
		"permits: the first gives up":                 "join 2a 1b>2a 1b; join 1c 3d 1e; cancel 1c; leave 2a; leave 1b>3d; leave 3d>1e; leave 1e",
		"permits: a big request gives up":             "join 2a 1b>2a 1b; join 3c 1d 2e; cancel 3c; leave 1b>1d; leave 2a>2e; leave 1d; leave 2e",
		"permits: some in the middle give up":         "join 3a>3a; join 1b 3c 2d 1e; cancel 3c 2d; leave 3a>1b 1e; leave 1b; leave 1e",
		"permits: the last give up":                   "join 3a>3a; join 1b 3c 2d 1e; cancel 2d 1e; leave 3a>1b; leave 1b>3c; leave 3c",
		"permits: raised":                             "join 1a 1b 1c>1a 1b 1c; join 1d 1e 1f; join 5g=>5g= 1d 1e; leave 1d>1f; leave 1a; leave 1b; leave 1c; leave 1e; leave 1f",
		"permits: raised for the first waiter":        "join 1a>1a; join 2b=>2b=; join 3c 1d; leave 1a; join 4b=>4b= 3c 1d; leave 3c; leave 1d",
		"permits: raised behind a lone hold":          "join 3a>3a; leave 3a; join 3a>3a; leave 3a; join 3a>3a; join 1b; join 4c=>4c= 1b; leave 1b; leave 3a",
		"permits: raised beside a long hold":          "join 3a>3a; join 1a2 1a3; pass 1h; join 4b=>4b= 1a2; join 5a=>5a= 1a3; leave 1a2; leave 3a; leave 1a3",
		"permits: lowered":                            "join 1a 1b 1c>1a 1b 1c; join 1d=; join 1e 1f; leave 1b; leave 1c>1d=; leave 1a>1e; refuse 1g; leave 1e>1f; leave 1f",
		"permits: lowered, and a client knew of more": "join 1a>1a; try 2b; leave 2b; join 1c=>1c=; refuse 1b; refuse 1c; join 1b; leave 1a>1b; leave 1b",
		"permits: of a dead holder":                   "join 1a 1b 1c>1a 1b 1c; join 1d 1e 1f; cancel 1d; die 1a; refuse 1g; pass 13s>1e; leave 1b>1f; leave 1c; leave 1e; leave 1f",
		"permits: of the last dead holder":            "join 1a 1b 1c>1a 1b 1c; join 1d 1e; die 1c; pass 13s>1d; leave 1a>1e; leave 1b; leave 1d; leave 1e",
		"permits: behind a dead waiter":               "join 1a 1b 1c>1a 1b 1c; join 1d 1e 1f; die 1d; die 1b; pass 25s>1e; leave 1a>1f; leave 1c; leave 1e; leave 1f",
		"permits: a try for a dead holder's":          "join 1a 1b 1c>1a 1b 1c; die 1a; refuse 1d; pass 13s; try 1d; leave 1d; leave 1b; leave 1c",
		"permits: another library's entry":            "join 1a 1b>1a 1b; foreign _c_f8b2-lock-; join 1c 1d; leave 1a>1c; remove>1d; leave 1b; leave 1c; leave 1d",
		"permits: behind another library's waiter":    "join 1a 1b 1c>1a 1b 1c; foreign _c_f8b2-lock-; join 1d; leave 1a; pass 1s; leave 1c>1d; leave 1b; leave 1d; remove",
		"permits: behind another version":             "join 3a>3a; foreign 0123456789abcdef-lock-; join 1b; leave 3a>1b; leave 1b; remove",
		"permits: a holder that cannot be read":       "join 1a 2b>1a 2b; hide 2b; join 1c 1d; leave 1a>1c; leave 2b>1d; leave 1c; leave 1d",
		"permits: a holder is hidden later":           "join 1a 2b>1a 2b; join 3c; die 2b; hide 1a; pass 13s; leave 1a>3c; leave 3c",
		"permits: dead behind a hidden entry":         "join 1a 2b>1a 2b; foreign _c_f8b2-lock-; conceal; join 1c; die 2b; pass 15s>1c; leave 1c; leave 1a; remove",
		"permits: dead beside one that stays":         "join 1a 2b>1a 2b; join 1c; below 1a; die 1a; die 2b; pass 30s>1c; leave 1c; remove; try 3d; leave 3d",
		"permits: dead after a lowering":              "join 1a 1b 1b2>1a 1b 1b2; join 2z=; join 1c; leave 1b2>2z=; die 1a; pass 13s>1c; join 1d; pass 1s; leave 1b>1d; leave 1c; leave 1d",
		"permits: a client that knew of more joins":   "join 1b>1b; try 1a; leave 1a; try 1a; leave 1a; join 1b2=>1b2=; leave 1b; join 2a; join 3b3=>3b3= 2a; leave 2a",
		"permits: lowered twice to the same number":   "join 1a 1b 1c>1a 1b 1c; join 1d= 1e=; leave 1b; leave 1c>1d= 1e=; refuse 1f; leave 1a",
		"permits: a waiter loses its entry":           "join 3a>3a; join 1b; lose; join 1c; pass 60s; leave 3a>1b 1c; leave 1b; leave 1c",

		"a dead reader":             "join wa>wa; join rb rc wd; leave wa>rb rc; die rb; leave rc; pass 13s>wd; leave wd",
		"a dead writer":             "join wa>wa; join rb wc; die wa; pass 13s>rb; leave rb>wc; leave wc",
		"dead readers that waited":  "join wa>wa; join wb rc rd re wf; die rc; die re; leave wa>wb; leave wb>rd; leave rd; pass 40s>wf; leave wf",
		"a dead writer that waited": "join wa>wa; join wb rc rd we; die wb; leave wa; pass 25s>rc rd; leave rc; leave rd>we; leave we",
		"all are dead but the last": "join wa>wa; join wb rc rd we; pass 1s; die wb; die rc; die rd; leave wa; pass 50s>we; leave we",

		// A client has one entry in the queue, so clients with several waiters take turns.
		"goroutines of several clients": "join ma>ma; join mb1 mc1 mb2 mc2 mb3; pass 1s; leave ma>mb1; pass 1s; leave mb1>mc1; pass 1s; leave mc1>mb2; pass 1s; leave mb2>mc2; pass 1s; leave mc2>mb3; leave mb3",
		"goroutines that came together": "join ma>ma; join mb1 mb2 mb3 mc1 mc2 md; pass 1s; leave ma>mb1; pass 1s; leave mb1>mc1; pass 1s; leave mc1>md; pass 1s; leave md>mb2; pass 1s; leave mb2>mc2; pass 1s; leave mc2>mb3; leave mb3",
		// The first waiter joins a second after the grant, and no sooner.
		"goroutines behind a long hold": "join ma>ma; join ma2 ma3; pass 970ms; entries 1; pass 20ms; entries 2; join mb;" +
			" leave ma>ma2; leave ma2>ma3; leave ma3>mb; leave mb",
		"behind others and a long hold": "join ma>ma; join ma2; pass 2s; join mb1; join mc; pass 2s; join ma3 mb2; pass 1s; leave ma>ma2; pass 1s; leave ma2>mb1; pass 1s; leave mb1>mc; pass 1s; leave mc>ma3; pass 1s; leave ma3>mb2; leave mb2",
	}, func(w *world, steps string) {
		w.run(steps)
		w.empty()
	})
}

// run runs a script, in which each step is an action, and names after > the contenders that enter because
// of it.
func (w *world) run(steps string) *script {
	w.Helper()
	s := &script{w, nil, 3, map[byte]*lock.Client{}, map[string]<-chan taken{}, map[string]context.CancelCauseFunc{}, map[string]*lock.Hold{}, nil}
	for step := range strings.SplitSeq(steps, ";") {
		do, in, _ := strings.Cut(step, ">")
		words := strings.Fields(do)
		s.do(words[0], words[1:]...)
		s.comeIn(strings.TrimSpace(step), strings.Fields(in)...)
	}
	return s
}

// TestTokensRiseOverDeletions: sequences restart with each parent, but tokens rise, and no path
// recurs.
func TestTokensRiseOverDeletions(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		var last lock.Token
		seen := map[string]bool{}
		for i := range 10 {
			h := w.lock([]*lock.Client{a, b}[i%2], "x")
			isTrue(t, strings.HasSuffix(h.EntryPath(), "-lock-0000000001"), "%s: the sequence did not start anew", h.EntryPath())
			isTrue(t, !seen[h.EntryPath()], "the path %s comes again", h.EntryPath())
			isTrue(t, h.Token().Compare(last) > 0, "token %v follows %v", h.Token(), last)
			last, seen[h.EntryPath()] = h.Token(), true
			w.unlock(h)
			time.Sleep(2 * time.Second) // a client that returned earlier would keep the parent
		}
	})
}

func TestDeadHolderBlocksForTTLAndGrace(t *testing.T) {
	for _, latency := range []time.Duration{0, time.Millisecond, 60 * time.Millisecond} {
		for _, ahead := range []time.Duration{0, -13 * time.Hour, 300 * 24 * time.Hour} {
			subtest(t, fmt.Sprintf("latency %v leader ahead by %v", latency, ahead), locktest.Options{Latency: func(string, string) time.Duration { return latency }}, func(w *world) {
				w.ok(w.SetClock(w.Servers()[0], ahead))
				h := w.lock(w.dial("a"), "x")
				b := w.dial("b")
				ch := w.queue(w.ctx, b, "x")
				got := w.outlived("a", h, ch, ahead, 20*time.Millisecond+12*latency)
				mustBe(w, h.Err(), lock.ErrLost, lock.ErrExpired)
				equal(w, "entries purged", b.Stats().Purged, 1)
				mustSay(w, errors.New(w.logged()), "purged an expired entry", `"owner":"a"`)
				w.Heal("a")
				w.unlock(got.hold)
				mustBe(w, h.Unlock(), lock.ErrLost, lock.ErrExpired)
				w.empty()
			})
		}
	}
}

// TestPurgeOfManyDeadEntries: a waiter purges 20 dead entries ahead with at most two lists, when
// the last of their leases and the grace have ended.
func TestPurgeOfManyDeadEntries(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const n = 20
		b := w.dial("b")
		w.lock(w.dial("dead"), "x")
		for i := range n - 1 {
			go w.dial(fmt.Sprint("dead", i)).Mutex("x").Lock(w.ctx)
			w.until("it is queued", func() bool { return len(w.entries("x")) == i+2 })
		}
		ch := w.queue(w.ctx, b, "x")
		entries := w.entries("x")
		w.kill("dead")
		for i := range n - 1 {
			w.kill(fmt.Sprint("dead", i))
		}
		last := dead{"the run", 0}
		for _, e := range entries[:n] {
			last.end = max(last.end, w.node(e.Path).Stat.Mtime+ttl.Milliseconds())
		}
		cost := w.cost("b", func() {
			got := w.await(ch)
			w.purged(last, got.at, 0, 20*time.Millisecond)
			equal(t, "the entry that has it", got.hold.EntryPath(), entries[n].Path)
			defer w.unlock(got.hold)
		})
		atMost(t, "listings", cost.requests["getChildren2"], 2)
		equal(t, "purged", b.Stats().Purged, n)
		for i := range n - 1 { // each learns that its entry is gone
			w.Heal(fmt.Sprint("dead", i))
		}
		time.Sleep(ttl)
	})
}

// TestHolderLearnsOfLossFirst: a holder that is cut off for any duration around its TTL, at any
// phase of its renewals, either keeps the lock, or knows of the loss before the next client enters.
func TestHolderLearnsOfLossFirst(t *testing.T) {
	var kept, lost atomic.Int32
	t.Run("lengths", func(t *testing.T) {
		for length := ttl / 2; length < ttl+grace+3*time.Second; length += 331 * time.Millisecond {
			subtest(t, fmt.Sprint("length ", length), locktest.Options{Latency: func(string, string) time.Duration { return 2 * time.Millisecond }}, func(w *world) {
				h := w.lock(w.dial("a"), "x")
				ended := w.end(h)
				b := w.dial("b")
				ch := w.queue(w.ctx, b, "x")
				time.Sleep(length % (ttl / 3)) // to shift the renewals
				w.kill("a")
				time.Sleep(length)
				w.Heal("a")
				time.Sleep(grace + sessionTimeout)
				synctest.Wait()
				select {
				case got := <-ch:
					lost.Add(1)
					w.inTurn(ended, got)
					mustBe(w, h.Err(), lock.ErrLost)
					mustBe(w, h.Unlock(), lock.ErrLost)
					w.unlock(got.hold)
				default:
					kept.Add(1)
					w.alive(h)
					w.inOrder(h, ch)
				}
				w.empty()
			})
		}
	})
	isTrue(t, kept.Load() != 0 && lost.Load() != 0, "kept %d times and lost %d times: the lengths are not around the TTL", kept.Load(), lost.Load())
}

// TestLoweredMaxTTL: a policy does not apply to leases that other clients already have. A waiter
// with a shorter max_ttl respects a holder's longer lease, whether the holder is stopped or dead. A
// dead holder is purged after that lease and the waiter's grace.
func TestLoweredMaxTTL(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const short = lock.MinTTL
		lowered := lock.WithPolicies(policies{TTL: short, MaxTTL: short, Grace: lock.MinGrace})
		a, b := w.dial("a"), w.dial("b", lowered)
		h := w.lock(a, "x")
		ended := w.end(h)
		ch := w.queue(w.ctx, b, "x")
		tries := func() {
			mustBe(w, second(b.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
		}
		w.Freeze("a") // it renews nothing, and its lease runs
		time.Sleep(ttl / 2)
		tries()
		w.waits(ch)
		w.Thaw("a")
		time.Sleep(2 * ttl)
		tries()
		w.waits(ch)
		w.alive(h)
		d := w.die("a", h.EntryPath())
		got := w.await(ch)
		w.inTurn(ended, got)
		late := got.at.Sub(time.UnixMilli(d.end)) - lock.MinGrace
		isTrue(w, late > 0 && late <= 20*time.Millisecond, "purged %v after the end of its TTL and the waiter's grace", late)
		w.Heal("a")
		w.finish(got.hold)
	})
}
