// Simulation: kinds of histories, and what each draws.

package lock_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/history/audit"
)

// kind is a kind of history. There are several, because fewer promises hold if more faults can
// occur.
type kind string

const (
	// Clients stop, suspend, crash, restart, and close during use. The network delays, cuts, splits
	// and loses requests or replies at any point. Sessions expire, and new ones begin on servers
	// that lag behind. Servers stop and start, and a reaper runs.
	faulty kind = "faulty"
	// Like faulty, with elections of leaders whose clocks are up to an hour apart.
	elections kind = "elections"
	// Other programs delete and recreate parents, with their own data, and with versions that
	// Holdfast's parents had. The network loses messages, but delays none.
	strangers kind = "strangers"
	// No fault and no reaper: no node may be left, and nothing may be lost.
	calm kind = "calm"
	// A single fault: the leader's clock steps by up to an hour while it leads. No client that
	// sampled the clock before may lose a hold or a place by the step.
	stepped kind = "stepped"
	// Faults of the network and of sessions, and once the servers lose all data. Earlier holds have
	// no promise, except that their holders learn of the loss, and that all clients continue.
	forgetting kind = "forgetting"
)

// kinds has the kinds of histories, weighted by repetition.
var kinds = []kind{faulty, faulty, faulty, faulty, elections, strangers, strangers, calm, calm, stepped, forgetting}

// Names of special locks.
const (
	limited = "limited"  // has a max_hold
	found   = "found"    // another program created its parent empty
	remade  = "r/x"      // another program recreates its parent again and again
	foreign = "stranger" // it is not a lock
	bereft  = "bereft"   // its holder is partitioned when all faults are over
)

// plan has the properties of a history.
type plan struct {
	kind       kind
	lasts      time.Duration // time until the processes begin nothing new
	ttl        time.Duration
	grace      time.Duration
	slow       time.Duration // longest time of a packet
	election   time.Duration
	members    int
	names      []string
	processes  int
	contenders int  // of other libraries
	counts     bool // the machines count how long they sleep
	slews      bool // the leader's clock runs wrong, and is not set
	once       bool // each sweep has a reaper of its own
	outlives   bool // at the end, a holder dies
	tells      bool // some transactions get an operation's error: the session has ended
	distant    bool // packets take longer than a parent snapshot is used
	pools      bool // take any one of several locks, too
	keeps      bool // keep the parent of some locks
	early      bool // other programs create parents while snapshots of earlier ones are still used
	window     time.Duration
}

// draw returns the random plan of a seed. If only is not empty, it is the kind.
func draw(seed uint64, only kind) (p plan) {
	r := random(seed, "plan")
	p.kind = kinds[r.IntN(len(kinds))]
	if only != "" {
		p.kind = only
	}
	p.ttl = between(r, 2*time.Second, 12*time.Second).Truncate(time.Millisecond)
	p.grace = between(r, lock.MinGrace, p.ttl/4).Truncate(time.Millisecond)
	p.slow = between(r, 0, 20*time.Millisecond)
	p.election = between(r, 0, 3*time.Second)
	p.lasts = between(r, 20*time.Second, 90*time.Second)
	p.members = []int{1, 1, 3}[r.IntN(3)]
	p.names = []string{"a", "b/c", "b"}[:1+r.IntN(3)]
	p.processes = 2 + r.IntN(5)
	p.contenders = []int{0, 0, 1, 2}[r.IntN(4)]
	p.counts = !oneIn(r, 4)
	p.slews, p.once, p.outlives = oneIn(r, 4), oneIn(r, 4), oneIn(r, 3)
	if oneIn(r, 4) {
		p.names = append(slices.Clone(p.names), limited)
	}
	if oneIn(r, 4) || p.contenders > 0 {
		p.names = append(slices.Clone(p.names), found)
	}
	switch p.kind {
	case forgetting:
		p.contenders = 0 // their connections do not come back
	case elections:
		p.members = 3
	case strangers:
		p.names = append(slices.Clone(p.names), remade, remade)
	case stepped: // each client must know the leader's clock well
		p.slow = min(p.slow, 2*time.Millisecond)
		p.lasts = between(r, 4*p.ttl, 10*p.ttl)
		p.once = false
	case calm:
		p.lasts = between(r, 3*time.Second, 30*time.Second)
	}
	if oneIn(r, 3) {
		p.names = append(slices.Clone(p.names), pages, pages)
	}
	if oneIn(r, 3) {
		p.names = append(slices.Clone(p.names), slots, slots)
	}
	if oneIn(r, 3) {
		p.names = append(slices.Clone(p.names), chair, chair)
	}
	passing := random(seed, "passing")
	switch p.window = lock.NoLocalWindow; passing.IntN(4) {
	case 1, 2:
		p.window = lock.DefaultLocalWindow
	case 3:
		p.window = between(passing, time.Millisecond, min(time.Second, p.ttl/3)).Truncate(time.Millisecond)
	}
	p.tells = oneIn(random(seed, "told"), 4)
	if link := random(seed, "link"); p.kind != stepped && oneIn(link, 6) {
		p.distant = true // a write through the leader still takes a small part of a TTL
		p.slow = between(link, 60*time.Millisecond, min(180*time.Millisecond, p.ttl/30))
	}
	p.pools = oneIn(random(seed, "pools"), 3)
	p.keeps = oneIn(random(seed, "keeps"), 6)
	p.early = p.kind == strangers && oneIn(random(seed, "early"), 3)
	if p.quiet() {
		p.outlives = false
		// Lock "b" is above lock "b/c". If "b" is unlocked for the last time before "b/c", its node
		// stays.
		p.names = slices.DeleteFunc(slices.Clone(p.names), func(name string) bool { return name == "b" })
	}
	return p
}

// kept reports whether the lock's parent stays at the end.
func (p plan) kept(name string) bool {
	return p.keeps && slices.Contains([]string{"a", pages, slots, chair, remade}, name)
}

// quiet reports whether the history has no faults other than of clocks.
func (p plan) quiet() bool { return p.kind == calm || p.kind == stepped }

func (p plan) Policy(name string) lock.Policy {
	policy := lock.Policy{TTL: p.ttl, Grace: p.grace, LocalWindow: p.window, KeepParent: p.kept(name)}
	if name == limited {
		policy.MaxHold = 2 * p.ttl
	}
	return policy
}

// things has the events that histories count. In 500 histories each event except rare must occur,
// or the histories do not show what they should.
var things = []string{
	"faulty histories", "elections histories", "strangers histories", "calm histories", "stepped histories", "forgetting histories", "over a slow link", "with parents that stay",
	"grants", "unlocks", "holds at risk", "losses told before", "holds lost", "unlocks not confirmed", "waits given up", "calls given up in flight", "causes set",
	"entries purged", "entries and parents swept", "sweeps by a reaper of its own", "queued again",
	"faults", "data lost", "holds of data that was lost", "watches lost", "setWatches refused", "sleeps of all", "crashes", "elections", "clocks set", "slews", "steps",
	"sessions on a server that lags", "replies to look-ups lost", "requests refused", "transactions told of their session's end", "writes left in doubt",
	"clients on a shared connection", "clients beside others of their process",
	"clients closed in the midst of use", "clients closed clean",
	"tries", "TTLs of their own", "large entries", "barged", "holds ended by max_hold", "entered again",
	"detached", "readers, writers and permits detached", "left with others who read", "attached", "attached to what was not detached", "attached too late", "came back too late",
	"passed on", "waits without an entry", "taken together", "any one taken", "second grants given back", "leases extended", "leases shortened", "extended beside an unlock", "bursts",
	"transactions", "transactions in doubt", "transactions not applied",
	"parents found empty", "foreign parents refused", "parents made again", "parents made again early", "parents of strangers met",
	"holds for reading", "readers beside another", "holds downgraded", "upgrades refused",
	"permits beside others", "semaphores resized",
	"breaks", "holds broken", "revocations", "revocations told", "given up when asked",
	"elected", "values proclaimed", "leaders asked for", "asked without a leader", "leaders observed", "gave way",
	"holds of zk.Lock's", "holds of kazoo's", "dead holders outlived",
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
