package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// Monitor has the state of the reaper of one root. [reaper.Monitor] implements it.
type Monitor interface {
	Status() reaper.Status
	Locks() *lock.Client   // nil until there is one
	Policies() *policy.Set // the policies in force
	Observe(func(reaper.Report))
}

// Root is a root to show.
type Root struct {
	Monitor Monitor
	// Lock is the name of the active reaper's lock. The page shows it apart from the other locks.
	Lock string
}

// label returns the unique name of a root: its name in the configuration, or its path.
func (r Root) label() string {
	about := r.Monitor.Status().About
	return cmp.Or(about.Name, about.Root)
}

// Snapshot is the status of all roots at one moment. No request is needed to get it.
type Snapshot struct {
	Now      time.Time   `json:"now"`
	Problems []Problem   `json:"problems"` // the worst first
	Roots    []RootState `json:"roots"`
}

// RootState is the status of the reaper of one root.
type RootState struct {
	reaper.Status
	Label    string        `json:"label"` // name or path of the root; unique
	Clock    Clock         `json:"clock"`
	Policies []PolicyState `json:"policies"`
	// Groups are the groups of shards that the last sweeps have found, the first 50 of GroupsFound. They
	// are empty unless this reaper is the active one.
	Groups      []GroupState `json:"shard_groups"`
	GroupsFound int          `json:"shard_groups_found"`

	seen bool // a pass over the locks has found one
}

// Clock is what the reaper's client knows of the clock of ZooKeeper's leader. If Known is false, only
// the displacements are set. A displacement is a step of the leader's clock, or a change to a leader
// whose clock differs.
type Clock struct {
	Known         bool    `json:"known"`
	Latest        string  `json:"latest,omitempty"`            // upper bound of the clock
	Window        float64 `json:"window_seconds"`              // width between the bounds of the clock
	Ahead         float64 `json:"ahead_seconds"`               // upper bound ahead of this machine's clock
	Epoch         int64   `json:"epoch"`                       // number of the leader
	Left          int64   `json:"transactions_left"`           // transactions that the leader can still number, of 2^32
	Term          string  `json:"term,omitempty"`              // first transaction of the present term
	Since         string  `json:"since,omitempty"`             // earliest known stamp of the term
	Marked        bool    `json:"marked"`                      // the epoch's mark was read
	Displacements uint64  `json:"displacements"`               // detected displacements of the clock
	Displaced     float64 `json:"displaced_seconds,omitempty"` // last displacement; negative: backwards
	DisplacedAgo  float64 `json:"displaced_ago_seconds,omitempty"`
}

// PolicyState is a policy in force, with the last result for its locks.
type PolicyState struct {
	Name        string  `json:"name"`
	Match       string  `json:"match"`
	TTL         float64 `json:"ttl_seconds"`
	MaxTTL      float64 `json:"max_ttl_seconds"`
	Grace       float64 `json:"grace_seconds"`
	MaxHold     float64 `json:"max_hold_seconds"` // 0: no limit
	LocalWindow float64 `json:"local_window_seconds"`
	OrphanAfter float64 `json:"orphan_after_seconds"`
	KeepParent  bool    `json:"keep_parent"`
	// Last is the result of the last sweep, and LastBegan its start. Last is nil if no sweep has
	// covered the policy since this reaper became the active one.
	Last      *reaper.Counts `json:"last,omitempty"`
	LastBegan time.Time      `json:"last_began,omitzero"`

	// The names of the policy's first locks in the last sweep's report with a damaged or
	// a denied node; "" if there is none.
	damaged, denied string
}

// snapshot returns the present status of all roots.
func (s *Server) snapshot() Snapshot {
	all := Snapshot{Now: time.Now().UTC(), Roots: []RootState{}}
	for _, r := range s.shown() {
		state := RootState{Status: r.Monitor.Status(), Label: r.label(), Policies: []PolicyState{}, Groups: []GroupState{}}
		state.seen = r.listing.seen.Load()
		if locks := r.Monitor.Locks(); locks != nil {
			state.Clock = clockOf(locks, all.Now)
		}
		for _, p := range r.Monitor.Policies().All() {
			shown := PolicyState{
				Name: p.Name, Match: p.Match.String(), TTL: p.TTL.Seconds(), MaxTTL: p.MaxTTL.Seconds(),
				Grace: p.Grace.Seconds(), MaxHold: p.MaxHold.Seconds(), LocalWindow: max(0, p.LocalWindow).Seconds(),
				OrphanAfter: p.OrphanAfter.Seconds(), KeepParent: p.KeepParent,
			}
			if last := r.swept.of(p.Name, state.ActiveSince); last != nil {
				shown.Last, shown.LastBegan = &last.Counts, last.report.Started
				shown.name(last.report, state.Root, r.Monitor.Policies())
			}
			if shared, ok := r.groups.of(p.Name, state.ActiveSince); ok {
				state.add(shared)
			}
			state.Policies = append(state.Policies, shown)
		}
		all.Roots = append(all.Roots, state)
	}
	all.Problems = all.problems()
	return all
}

// name sets damaged and denied from the lists of a report.
func (p *PolicyState) name(report *reaper.Report, root string, set *policy.Set) {
	first := func(path string, lock *string) {
		if name := lockOf(path, root); *lock == "" && name != "" && set.For(name).Name == p.Name {
			*lock = name
		}
	}
	for _, path := range report.Undecodable {
		first(path, &p.damaged)
	}
	for _, denial := range report.Denied {
		first(denial.Path, &p.denied)
	}
}

// lockOf returns the name of the lock that a path below the root belongs to, "" if there is none.
func lockOf(path, root string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
	if parent := max(0, strings.LastIndexByte(name, '/')); znode.CheckName(name) != nil {
		name = name[:parent] // a path of an entry or an anchor
	}
	if znode.CheckName(name) != nil {
		return ""
	}
	return name
}

func clockOf(locks *lock.Client, local time.Time) Clock {
	tree := admin.New(locks)
	now := tree.Estimate()
	times, by, ago := tree.Displaced()
	c := Clock{Displacements: times, Displaced: by.Seconds(), DisplacedAgo: ago.Seconds()}
	if now.Zxid == 0 {
		return c
	}
	c.Known, c.Marked, c.Epoch = true, now.Marked, znode.Epoch(now.Zxid)
	c.Left = znode.TxnsLeft(now.Zxid)
	c.Latest, c.Window = now.Latest().UTC().Format(time.RFC3339Nano), (now.Upper - now.Lower).Seconds()
	c.Ahead = now.Latest().Sub(local).Seconds()
	c.Term, c.Since = fmt.Sprintf("%016x", uint64(now.Term)), time.Unix(0, int64(now.Since)).UTC().Format(time.RFC3339Nano)
	return c
}
