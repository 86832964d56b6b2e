// Kinds of histories, and the properties of each.

package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-io/holdfast/lock"
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
	seed     uint64 // of all random choices that are not in the lines
	kind     kind
	lasts    time.Duration // time until the processes begin nothing new
	ttl      time.Duration
	grace    time.Duration
	window   time.Duration // of local handoffs
	slow     time.Duration // longest time of a packet
	election time.Duration
	members  int
	permits  int // of slots
	names    []string
	counts   bool // the machines count how long they sleep
	slews    bool // the leader's clock runs wrong, and is not set
	outlives bool // at the end, a holder dies
	keeps    bool // keep the parent of some locks
	early    bool // other programs create parents while snapshots of earlier ones are still used
}

// field is one property in a header.
type field struct {
	name string
	at   any // pointer to the value
}

func (p *plan) fields() []field {
	return []field{
		{"seed", &p.seed}, {"kind", &p.kind}, {"lasts", &p.lasts}, {"ttl", &p.ttl}, {"grace", &p.grace}, {"window", &p.window},
		{"slow", &p.slow}, {"election", &p.election}, {"members", &p.members}, {"permits", &p.permits}, {"names", &p.names},
		{"counts", &p.counts}, {"slews", &p.slews}, {"outlives", &p.outlives}, {"keeps", &p.keeps}, {"early", &p.early},
	}
}

// header returns the plan as the first line of a history.
func (p plan) header() step {
	s := step{who: "all", what: "header"}
	for _, f := range p.fields() {
		s = s.with(f.name, reflect.ValueOf(f.at).Elem().Interface())
	}
	return s
}

// read sets the plan to that of a header.
func (p *plan) read(s step) error {
	for _, f := range p.fields() {
		switch at := f.at.(type) {
		case *uint64:
			*at, _ = strconv.ParseUint(s.text(f.name), 10, 64)
		case *kind:
			*at = kind(s.text(f.name))
		case *time.Duration:
			*at = s.time(f.name)
		case *int:
			*at = s.number(f.name)
		case *[]string:
			*at = s.list(f.name)
		case *bool:
			*at = s.has(f.name)
		}
	}
	switch {
	case !slices.Contains(kinds, p.kind):
		return fmt.Errorf("kind %q is none of %q", p.kind, kinds)
	case p.members < 1:
		return fmt.Errorf("members=%d: there must be at least one", p.members)
	case p.permits < slotsAsked:
		return fmt.Errorf("permits=%d: must be at least %d", p.permits, slotsAsked)
	case p.ttl < lock.MinTTL || p.grace < lock.MinGrace:
		return fmt.Errorf("ttl=%v grace=%v: must be at least %v and %v", p.ttl, p.grace, lock.MinTTL, lock.MinGrace)
	}
	return nil
}

// kept reports whether the lock's parent stays at the end.
func (p plan) kept(name string) bool {
	return p.keeps && slices.Contains([]string{"a", pages, slots, chair, remade}, name)
}

// distant reports whether packets take longer than a parent snapshot is used.
func (p plan) distant() bool { return p.slow >= 60*time.Millisecond }

// quiet reports whether the history has no faults other than of clocks.
func (p plan) quiet() bool { return p.kind == calm || p.kind == stepped }

func (p plan) Policy(name string) lock.Policy {
	policy := lock.Policy{TTL: p.ttl, Grace: p.grace, LocalWindow: p.window, KeepParent: p.kept(name)}
	if name == limited {
		policy.MaxHold = 2 * p.ttl
	}
	return policy
}
