package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// Monitor is what tells of the reaper of one root: a *reaper.Monitor.
type Monitor interface {
	Status() reaper.Status
	Locks() *lock.Client   // nil until there is one
	Policies() *policy.Set // nil until there are some
	Observe(func(reaper.Report))
}

// Root is a root of which is told.
type Root struct {
	Monitor Monitor
	// Lock is the name of the lock that makes a reaper the active one: it is not listed
	// among the others.
	Lock string
}

// label is by what a root is told apart: the name that it has in the configuration, or
// its path.
func (r Root) label() string {
	about := r.Monitor.Status().About
	if about.Name != "" {
		return about.Name
	}
	return about.Root
}

// Snapshot is how a reaper does at one moment. It asks no server.
type Snapshot struct {
	Now      time.Time   `json:"now"`
	Problems []Problem   `json:"problems"` // the worst first
	Roots    []RootState `json:"roots"`
}

// RootState is how a reaper does below one root.
type RootState struct {
	reaper.Status
	Label    string        `json:"label"` // its name, or else its path: no two have the same
	Clock    Clock         `json:"clock"`
	Policies []PolicyState `json:"policies"`
}

// Clock is what is known of the clock of ZooKeeper's leader.
type Clock struct {
	Known         bool    `json:"known"`
	Latest        string  `json:"latest,omitempty"` // what it shows at most
	Window        float64 `json:"window_seconds"`   // between that and what it shows at least
	Ahead         float64 `json:"ahead_seconds"`    // of this machine's, at most
	Epoch         int64   `json:"epoch"`            // number of the leader
	Term          string  `json:"term,omitempty"`   // first transaction of those whose stamps compare
	Since         string  `json:"since,omitempty"`  // its earliest stamp that is known
	Marked        bool    `json:"marked"`           // the epoch's mark was looked at
	Displacements uint64  `json:"displacements"`    // times that the clock was seen to jump
	Displaced     float64 `json:"displaced_seconds,omitempty"`
	DisplacedAgo  float64 `json:"displaced_ago_seconds,omitempty"`
}

// PolicyState is a policy in force, and what was found of its locks.
type PolicyState struct {
	Name        string  `json:"name"`
	Match       string  `json:"match"`
	TTL         float64 `json:"ttl_seconds"`
	MaxTTL      float64 `json:"max_ttl_seconds"`
	Grace       float64 `json:"grace_seconds"`
	OrphanAfter float64 `json:"orphan_after_seconds"`
	KeepParent  bool    `json:"keep_parent"`
	// Last is what the last sweep has found, and LastBegan when that began; nil if there was
	// none since this reaper became the active one.
	Last      *reaper.Counts `json:"last,omitempty"`
	LastBegan time.Time      `json:"last_began,omitzero"`

	// The first locks that the sweep has found with a node that is damaged, of format 1, or
	// denied; "" if none is known.
	damaged, format1, denied string
}

// snapshot tells how the reaper does now.
func (s *Server) snapshot() Snapshot {
	all := Snapshot{Now: time.Now().UTC(), Roots: []RootState{}}
	for _, r := range s.shown() {
		state := RootState{Status: r.Monitor.Status(), Label: r.label(), Policies: []PolicyState{}}
		if locks := r.Monitor.Locks(); locks != nil {
			state.Clock = clockOf(locks, all.Now)
		}
		for _, p := range policiesOf(r.Monitor) {
			shown := PolicyState{
				Name: p.Name, Match: p.Match.String(), TTL: p.TTL.Seconds(), MaxTTL: p.MaxTTL.Seconds(),
				Grace: p.Grace.Seconds(), OrphanAfter: p.OrphanAfter.Seconds(), KeepParent: p.KeepParent,
			}
			if last, _ := r.swept.of(p.Name, state.ActiveSince); last != nil {
				shown.Last, shown.LastBegan = &last.Counts, last.report.Started
				shown.name(last.report, state.Root, r.Monitor.Policies())
			}
			state.Policies = append(state.Policies, shown)
		}
		all.Roots = append(all.Roots, state)
	}
	all.Problems = all.problems()
	return all
}

// policiesOf returns the policies in force; none before the reaper was made.
func policiesOf(m Monitor) []policy.Policy {
	if set := m.Policies(); set != nil {
		return set.All()
	}
	return nil
}

// name names the first locks of the policy whose nodes a report lists.
func (p *PolicyState) name(report *reaper.Report, root string, set *policy.Set) {
	first := func(path string, lock *string) {
		if name := lockOf(path, root); *lock == "" && name != "" && set.For(name).Name == p.Name {
			*lock = name
		}
	}
	for _, path := range report.Undecodable {
		first(path, &p.damaged)
	}
	for _, path := range report.Format1 {
		first(path, &p.format1)
	}
	for _, denial := range report.Denied {
		first(denial.Path, &p.denied)
	}
}

// lockOf returns the name of the lock that a path below the root belongs to, "" if it is none's.
func lockOf(path, root string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
	if parent := max(0, strings.LastIndexByte(name, '/')); znode.CheckName(name) != nil {
		name = name[:parent] // of an entry or an anchor
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
	c.Known, c.Marked, c.Epoch = true, now.Marked, now.Zxid>>32
	c.Latest, c.Window = now.Latest().UTC().Format(time.RFC3339Nano), (now.Upper - now.Lower).Seconds()
	c.Ahead = now.Latest().Sub(local).Seconds()
	c.Term, c.Since = fmt.Sprintf("%016x", uint64(now.Term)), time.Unix(0, int64(now.Since)).UTC().Format(time.RFC3339Nano)
	return c
}
