// The run of one history.

package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/integration/audited"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// violation is a broken promise, with the end of the trace.
type violation struct{ text, trace string }

// sim is the state of one history.
type sim struct {
	*testing.T
	*locktest.Ensemble
	history
	begun  time.Time
	until  context.Context // ends when the faults end; clients begin nothing new after
	served context.Context // ends when a wait takes too long

	wg   sync.WaitGroup // processes, and closing clients
	warm sync.WaitGroup // processes that must learn the time before the clock may step
	busy sync.WaitGroup // processes that must still release their locks

	mu        sync.Mutex
	trace     bytes.Buffer
	present   map[string]*process      // by name; the last life of an ended one
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
	broken    violation                // the first; after it, nothing is checked
	tickets   []lock.Ticket            // published tickets
	leaving   map[string]time.Time     // time since which an entry may be detached or given up, by path
	forced    map[string][]string      // reasons of force-releases, by path
	askings   map[string]*asking       // calls of Revoke, by reason
	reigns    map[lock.Token]*reign    // leaderships, by token
	values    int                      // number of values that candidates set
	groups    map[string][]string      // paths of the last refused transaction of several locks, by label
	all       map[string][]string      // locks that a client is taking together, by label
	tally     tally

	auditor *audited.Auditor
}

// Shorter names of what all simulations draw from.
var (
	random  = bubble.Seeded
	hash    = bubble.Hash
	between = bubble.Between
	oneIn   = bubble.OneIn
)

// inbox is the parent of the request nodes. It is not deleted when the last request is deleted.
const inbox = lock.DefaultRoot + "/" + znode.Inbox

// pathOf returns the path of a hold's entry.
func pathOf(h *lock.Hold) string { return h.EntryPath() }

// random returns a source of random numbers for one part of the history. Each part has its own, so
// that no part depends on the order of the others.
func (s *sim) random(part string) *rand.Rand { return random(s.seed, part) }

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
	if s.broken.text != "" || audited.Only && !byAudit {
		return
	}
	s.broken.text = fmt.Sprintf(format, args...)
	s.sayLocked("VIOLATED: %s", s.broken.text)
}

func (s *sim) count(thing string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.count(thing, 1)
}

// run runs the history. It returns what happened, and the first violation, if there is one.
func (h history) run(t *testing.T) (result tally, broken violation) {
	synctest.Test(t, func(t *testing.T) {
		s := &sim{
			T: t, history: h, begun: time.Now(), present: map[string]*process{},
			open: map[string][]held{}, last: map[string]lock.Token{}, wrote: map[string]lock.Token{}, theirs: map[string]theirs{},
			ahead: map[string]time.Duration{}, witnesses: map[string]*witness{}, refused: map[string]bool{}, txns: map[string]told{},
			doubts: map[string]*doubt{}, askings: map[string]*asking{}, forced: map[string][]string{}, leaving: map[string]time.Time{},
			reigns: map[lock.Token]*reign{}, groups: map[string][]string{}, all: map[string][]string{}, tally: tally{},
		}
		delays := map[string]*rand.Rand{}
		s.Ensemble = locktest.Start(t, locktest.Options{
			Members: s.members, Seed: s.seed, ElectionTime: s.election,
			Latency: func(label, member string) time.Duration {
				if delays[label] == nil {
					delays[label] = s.random("latency of " + label)
				}
				return time.Microsecond + between(delays[label], 0, s.slow)
			},
		})
		s.auditor = audited.New(s.Ensemble, s.grace, func(v audit.Violation) { s.violatedBy(true, "audit: %v", v) })
		traces := os.Getenv("TRACE")
		s.Trace(func(e locktest.Event) {
			if s.saw(e); traces != "" {
				s.say("%v", e)
			}
		})
		defer func() {
			if traces != "" {
				if err := os.WriteFile(filepath.Join(traces, fmt.Sprintf("seed-%d", s.seed)), s.trace.Bytes(), 0o600); err != nil {
					t.Error(err)
				}
			}
			if result, broken = s.tally, s.broken; broken.text != "" {
				broken.trace = s.tail(400)
			}
			for rule, n := range s.auditor.Judged() {
				result["audited: "+string(rule)] += n
			}
		}()
		s.life()
	})
	return result, broken
}

func (s *sim) tail(lines int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Split(s.trace.String(), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// life runs all actors of the history, and checks what is left at its end.
func (s *sim) life() {
	var stop, giveUp context.CancelFunc
	s.until, stop = context.WithTimeout(s.Context(), s.lasts)
	defer stop()
	s.served, giveUp = context.WithCancel(s.Context())
	defer giveUp()
	s.say("%s: ttl %v, grace %v, window %v, latency up to %v, names %q, members %d", s.kind, s.ttl, s.grace, s.window, s.slow, s.names, s.members)
	s.count(string(s.kind) + " histories")
	if s.distant() {
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
	s.faults()
	steps, actors := s.actors()
	for _, who := range actors {
		switch who[0] {
		case 'p':
			s.warm.Add(1)
			s.busy.Add(1)
		case 'r':
			s.warm.Add(1)
		}
	}
	for _, who := range actors {
		s.wg.Go(func() {
			switch steps := steps[who]; who[0] {
			case 'p':
				s.process(who, steps)
			case 'o':
				s.contend(who, steps)
			case 'r':
				s.reap(steps)
			case 's':
				s.remakeAll(others, steps)
			default:
				s.disrupt(who, steps)
			}
		})
	}
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

// actors returns the steps of each actor, by name, and the sorted names. The steps of a worker are
// its process's.
func (s *sim) actors() (steps map[string][]step, names []string) {
	steps = map[string][]step{}
	for _, one := range s.steps {
		who, _, _ := strings.Cut(one.who, "/")
		steps[who] = append(steps[who], one)
	}
	return steps, slices.Sorted(maps.Keys(steps))
}

// await waits for the time of a step. It returns false if the history is ending.
func (s *sim) await(one step) bool {
	select {
	case <-time.After(one.at - time.Since(s.begun)):
		return s.until.Err() == nil
	case <-s.until.Done():
		return false
	}
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
		if isAnchor(path.Base(at)) { // an anchor stays with its parent
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
