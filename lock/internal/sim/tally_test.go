// Events that histories count, so that "never reached" is seen.

package sim

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// things has the events that histories count. In 1,000 histories each event except rare must occur,
// or the histories do not show what they should.
var things = append(ofCauses(), []string{
	"faulty histories", "elections histories", "strangers histories", "calm histories", "stepped histories", "forgetting histories", "over a slow link", "with parents that stay",
	"grants", "unlocks", "holds at risk", "losses told before", "holds lost", "unlocks not confirmed", "waits given up", "calls given up in flight",
	"entries purged", "entries and parents swept", "sweeps by a reaper of its own", "queued again",
	"faults", "data lost", "holds of data that was lost", "watches lost", "setWatches refused", "sleeps of all", "crashes", "elections", "clocks set", "slews", "steps",
	"sessions on a server that lags", "replies to look-ups lost", "requests refused", "transactions told of their session's end", "writes left in doubt",
	"clients on a shared connection", "clients beside others of their process",
	"clients closed in the midst of use", "clients closed clean",
	"tries", "TTLs of their own", "large entries", "barged", "holds ended by max_hold", "entered again",
	"detached", "detached from shared locks", "left with others who read", "attached", "attached to what was not detached", "attached too late", "came back too late",
	"passed on", "exchanges", "exchanges in doubt", "waits without an entry", "taken together", "any one taken", "second grants given back", "leases extended", "leases shortened", "extended beside an unlock", "bursts",
	"transactions", "transactions in doubt", "transactions not applied",
	"parents found empty", "foreign parents refused", "parents made again", "parents made again early", "parents of strangers met",
	"holds for reading", "readers beside another", "holds downgraded", "upgrades refused",
	"permits beside others", "permits beside others of one each", "crowds of holders", "permits beside more holders than a try samples", "tries behind more holders than they sample", "tries behind more dead holders than they sample", "permits got behind more dead holders than a try samples",
	"semaphores resized",
	"breaks", "holds broken", "revocations", "revocations told", "given up when asked",
	"elected", "values proclaimed", "leaders asked for", "asked without a leader", "leaders observed", "gave way",
	"holds of zk.Lock's", "holds of kazoo's", "dead holders outlived",
	"transactions of several locks refused", "parts of them sent again", "transactions of several locks in doubt", "taken together in doubt",
	"detached in doubt", "counters spent", "counters restarted",
}...)

func ofCauses() (all []string) {
	for _, c := range causes {
		all = append(all, ofCause(c.name))
	}
	return all
}

// tally has the counts of histories' events.
type tally map[string]int

func (t tally) count(thing string, n int) {
	if !slices.Contains(things, thing) {
		panic(fmt.Sprintf("%q is not among the things that are counted", thing))
	}
	t[thing] += n
}

func (t tally) add(other tally) {
	for thing, n := range other {
		t[thing] += n
	}
}

// rare is an event that occurs about four times in 1,000 histories. It must occur in 5,000.
const rare = "holds of data that was lost"

// missing returns the events that did not occur in the given number of histories, and should have.
func (t tally) missing(histories int) []string {
	return slices.DeleteFunc(slices.Clone(things), func(thing string) bool {
		return t[thing] > 0 || thing == rare && histories < 5000
	})
}

// rareRules are the rules of the audit that 1,000 histories may not exercise.
var rareRules = []audit.Rule{audit.Foreign, audit.Overlap, audit.Tick}

func (t tally) String() string {
	var all []string
	for _, thing := range things {
		all = append(all, fmt.Sprint(t[thing], " ", thing))
	}
	for _, rule := range audit.Rules() {
		if n := t["audited: "+string(rule)]; n > 0 || !slices.Contains(rareRules, rule) {
			all = append(all, fmt.Sprint(n, " audited: ", rule))
		}
	}
	return strings.Join(all, ", ")
}

func isAnchor(node string) bool { _, ok := znode.AnchorOf(node); return ok }

// severalLocks reports whether the paths are of at least two locks. Such a transaction is one of a
// All, or shared by several calls.
func severalLocks(paths []string) bool {
	locks := map[string]bool{}
	for _, p := range paths {
		if node := path.Base(p); isContender(node) || isAnchor(node) {
			p = path.Dir(p)
		}
		locks[p] = true
	}
	return len(locks) > 1
}

// exchanges reports whether an entry leaves just before another one of its lock is created.
func exchanges(ops []locktest.EventOp) bool {
	for i, o := range ops {
		rest := ops[i+1:]
		if o.Op == "delete" && isContender(path.Base(o.Path)) && len(rest) > 1 && rest[1].Sequential && path.Dir(rest[1].Path) == path.Dir(o.Path) {
			return true
		}
	}
	return false
}

// saw counts, from an event of the ensemble, which is locked, exchanges, and what becomes of transactions
// of several locks.
func (s *sim) saw(e locktest.Event) {
	if e.Kind != "request" || e.Op != "multi" || strings.HasPrefix(e.Label, "other") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Code == 0 && exchanges(e.Ops) {
		s.tally.count("exchanges", 1)
		if e.Note != "" {
			s.tally.count("exchanges in doubt", 1)
		}
	}
	refused := s.groups[e.Label]
	within := !slices.ContainsFunc(e.Paths, func(path string) bool { return !slices.Contains(refused, path) })
	switch {
	case e.Code != 0 && severalLocks(e.Paths):
		s.tally.count("transactions of several locks refused", 1)
		s.groups[e.Label] = e.Paths
	case e.Code == 0 && within && len(e.Paths) < len(refused):
		s.tally.count("parts of them sent again", 1)
		delete(s.groups, e.Label)
	}
}
