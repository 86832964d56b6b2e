// Simulation: random histories of many clients under random faults.

package lock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/integration/audited"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestSimulation: in random histories of many clients under random faults, in virtual time, the
// promises of package lock are kept. SEEDS is the number of histories, SEED the first seed, and
// KIND selects one kind (see kinds). "SEED=17 SEEDS=1 make sim" repeats the history of seed 17
// exactly; go test runs runnable goroutines in any order. TRACE is a folder for the traces.
//
// A history has two to six processes, with clocks that are up to a day off and up to 300 ppm wrong.
// Each has one to three clients, with their own connections or a shared one. Their goroutines lock,
// try, extend, reenter, cancel and unlock a few names, beside contenders of other libraries. The
// faults depend on the kind. The tally counts the events of all histories. If an expected event is
// missing in 500 or more histories of all kinds, the test fails.
func TestSimulation(t *testing.T) {
	first, seeds := env(t, "SEED", 1), env(t, "SEEDS", 20)
	only := kind(os.Getenv("KIND"))
	next := make(chan uint64)
	go func() {
		defer close(next)
		for seed := first; seed < first+seeds; seed++ {
			next <- seed
		}
	}()
	total := tally{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := range next {
				if t.Failed() {
					continue
				}
				runtime.GC() // not inside a history, if GOGC=off
				t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
					got := history(t, seed, only)
					mu.Lock()
					defer mu.Unlock()
					total.add(got)
				})
			}
		})
	}
	wg.Wait()
	t.Logf("seeds %d to %d: %s", first, first+seeds-1, total)
	if missing := total.missing(int(seeds)); seeds >= 500 && only == "" && len(missing) > 0 && !t.Failed() {
		t.Errorf("what these histories should show never happened in them: %q", missing)
	}
}

func env(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q: must be a number", name, text)
	}
	return n
}

// sim is the state of one history.
type sim struct {
	*testing.T
	*locktest.Ensemble
	plan
	seed   uint64
	begun  time.Time
	until  context.Context // ends when the faults end; clients begin nothing new after
	served context.Context // ends when a wait takes too long

	wg   sync.WaitGroup // processes, and closing clients
	warm sync.WaitGroup // processes that must learn the time before the clock may step
	busy sync.WaitGroup // processes that must still release their locks

	mu        sync.Mutex
	trace     bytes.Buffer
	open      map[string][]held        // holds that were not unlocked, by name
	last      map[string]lock.Token    // the highest granted token, by name
	wrote     map[string]lock.Token    // the last token of a writer, by name
	theirs    map[string]theirs        // nodes of other programs, by path
	ahead     map[string]time.Duration // how far members' clocks are ahead
	witnesses map[string]*witness      // one for each client, by owner
	refused   map[string]bool          // labels with a refused request
	txns      map[string]told          // transactions, by the node that they create
	loss      *losses                  // current loss of requests
	doubts    map[string]*doubt        // by label of the client
	unwatched bool                     // the servers refuse setWatches now
	clocks    []*simClock              // of all processes
	slept     time.Duration            // total time of suspends
	forgotten time.Time                // time at which the servers lost their data; zero: never
	closed    bool                     // the history has failed: check no more
	tickets   []lock.Ticket            // published tickets
	leaving   map[string]time.Time     // time since which an entry may be detached or given up, by path
	broken    map[string][]string      // reasons of force-releases, by path
	askings   map[string]*asking       // calls of Revoke, by reason
	reigns    map[lock.Token]*reign    // leaderships, by token
	values    int                      // number of values that candidates set
	tally     tally

	auditor *audited.Auditor
}

// random returns a source of random numbers for one part of the history. Each part has its own, so
// that no part depends on the order of the others.
func (s *sim) random(part string) *rand.Rand { return random(s.seed, part) }

func random(seed uint64, part string) *rand.Rand { return rand.New(rand.NewPCG(seed, hash(part))) }

func hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

// oneIn returns true with a probability of 1/n.
func oneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// say adds a line to the trace.
func (s *sim) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sayLocked(format, args...)
}

func (s *sim) sayLocked(format string, args ...any) {
	fmt.Fprintf(&s.trace, "%12.6f  %s\n", time.Since(s.begun).Seconds(), fmt.Sprintf(format, args...))
}

func (s *sim) Write(p []byte) (int, error) {
	s.say("%s", bytes.TrimSpace(p))
	if bytes.Contains(p, []byte("yields to a candidate")) {
		s.count("gave way")
	}
	var told struct{ Entry, Message string }
	if bytes.Contains(p, []byte("left to expire")) && json.Unmarshal(p, &told) == nil && told.Entry != "" {
		s.mu.Lock()
		s.leaving[told.Entry] = time.Now()
		s.mu.Unlock()
	}
	return len(p), nil
}

// violated fails the history.
func (s *sim) violated(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violatedLocked(format, args...)
}

func (s *sim) violatedLocked(format string, args ...any) { s.fail(false, format, args...) }

// violatedBy fails the history, like violated. byAudit is true if the audit found the violation.
func (s *sim) violatedBy(byAudit bool, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail(byAudit, format, args...)
}

// fail fails the history at its first violation. With AUDIT_ONLY=1 it ignores violations that the
// audit did not find. s.mu is held.
func (s *sim) fail(byAudit bool, format string, args ...any) {
	if s.closed || audited.Only && !byAudit {
		return
	}
	s.closed = true
	s.sayLocked("VIOLATED: "+format, args...)
	s.Errorf("seed %d, kind %s: "+format, append([]any{s.seed, s.kind}, args...)...)
}

func (s *sim) count(thing string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.count(thing, 1)
}

// history runs the history of one seed; only selects its kind, if not empty.
func history(t *testing.T, seed uint64, only kind) (result tally) {
	synctest.Test(t, func(t *testing.T) {
		s := &sim{
			T: t, plan: draw(seed, only), seed: seed, begun: time.Now(),
			open: map[string][]held{}, last: map[string]lock.Token{}, wrote: map[string]lock.Token{}, theirs: map[string]theirs{},
			ahead: map[string]time.Duration{}, witnesses: map[string]*witness{}, refused: map[string]bool{},
			txns: map[string]told{}, doubts: map[string]*doubt{}, askings: map[string]*asking{}, broken: map[string][]string{}, leaving: map[string]time.Time{}, reigns: map[lock.Token]*reign{}, tally: tally{},
		}
		delays := map[string]*rand.Rand{}
		s.Ensemble = locktest.Start(t, locktest.Options{
			Members: s.members, Seed: seed, ElectionTime: s.election,
			Latency: func(label, member string) time.Duration {
				if delays[label] == nil {
					delays[label] = s.random("latency of " + label)
				}
				return time.Microsecond + between(delays[label], 0, s.slow)
			},
		})
		s.auditor = audited.New(s.Ensemble, s.grace, func(v audit.Violation) { s.violatedBy(true, "audit: %v", v) })
		traces := os.Getenv("TRACE")
		if traces != "" {
			s.Trace(func(e locktest.Event) { s.say("%v", e) })
		}
		defer func() {
			if traces != "" {
				if err := os.WriteFile(filepath.Join(traces, fmt.Sprintf("seed-%d", seed)), s.trace.Bytes(), 0o600); err != nil {
					t.Error(err)
				}
			}
			if t.Failed() {
				t.Logf("the last of the trace of seed %d:\n%s", seed, s.tail(400))
			}
			result = s.tally
			for rule, n := range s.auditor.Judged() {
				result["audited: "+string(rule)] += n
			}
		}()
		s.run()
	})
	return result
}

func (s *sim) tail(lines int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Split(s.trace.String(), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func (s *sim) run() {
	var stop, giveUp context.CancelFunc
	s.until, stop = context.WithTimeout(s.Context(), s.lasts)
	defer stop()
	s.served, giveUp = context.WithCancel(s.Context())
	defer giveUp()
	s.say("%s: ttl %v, grace %v, window %v, latency up to %v, names %q, members %d", s.kind, s.ttl, s.grace, s.window, s.slow, s.names, s.members)
	s.count(string(s.kind) + " histories")
	if s.distant {
		s.count("over a slow link")
	}
	if s.keeps {
		s.count("with parents that stay")
	}

	others := s.connect("others")
	defer func() {
		others.Close()
		synctest.Wait()
	}()
	s.makeTheirs(others)
	s.makeLedger(others)
	for i := range s.processes {
		s.warm.Add(1)
		s.busy.Add(1)
		s.wg.Go(func() { s.process(i) })
	}
	for i := range s.contenders {
		s.wg.Go(func() { s.contend(i) })
	}
	if s.kind != calm {
		s.warm.Add(1)
		s.wg.Go(s.reap)
	}
	if s.kind == strangers {
		s.wg.Go(func() { s.remakeAll(others) })
	}
	s.faults()
	<-s.until.Done()
	s.say("no more faults, and nothing new")
	s.heal()
	if s.outlives {
		s.wg.Go(s.outlive)
	}

	finished := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(20 * time.Minute):
		s.violated("a call still waits 20 minutes after the last fault")
		giveUp()
		<-finished
	}
	s.say("everybody is gone")
	s.checkLives()
	if !s.quiet() {
		s.sweepUp()
	}
	if s.quiet() {
		s.sweepInbox()
	}
	s.nothingLeft()
	if left := s.requests(); len(left) > 0 {
		s.violated("requests left behind: %q", left)
	}
	s.checkTheirs()
	s.checkLedger()
	s.checkReigns()
}

// heal ends the faults of requests and the lag of members.
func (s *sim) heal() {
	s.Intercept(nil)
	for _, member := range s.Servers() {
		_ = s.Lag(member, 0) // the leader has no lag
	}
}

// nothingLeft checks that no node of Holdfast is left, except the epoch mark, the inbox, parents
// that are kept, and, without a reaper, ancestors.
func (s *sim) nothingLeft() {
	var left []string
	for _, n := range s.Dump("/locks") {
		at := n.Path
		if _, anchor := znode.AnchorOf(path.Base(at)); anchor { // an anchor stays with its parent
			at = path.Dir(at)
		}
		_, others := s.theirs[at]
		ancestor := s.quiet() && slices.ContainsFunc(s.names, func(name string) bool {
			return strings.HasPrefix("/locks/"+name, n.Path+"/")
		})
		kept := s.kept(strings.TrimPrefix(at, "/locks/"))
		if !others && !ancestor && !kept && n.Path != "/locks" && n.Path != "/locks/.epoch" && !strings.HasPrefix(n.Path, inbox) {
			left = append(left, n.Path)
		}
	}
	if len(left) > 0 {
		s.violated("left behind: %q", left)
	}
}
