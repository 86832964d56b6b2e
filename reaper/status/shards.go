package status

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock/shard"
	"github.com/holdfast-io/holdfast/reaper"
)

// shardsTime is the longest time to read the groups of shards after a sweep.
const shardsTime = time.Minute

// groups has what the groups of shards of a root were like after the last sweep, by policy. An
// unowned shard has no node that could say since when, so the alert rules count the time.
type groups struct {
	root   Root
	ctx    context.Context // ends all reads
	passes *sync.WaitGroup

	mu       sync.Mutex
	busy     bool
	read     time.Time
	byPolicy map[string]sharing
}

// GroupState is what a group of shards was like after the last sweep.
type GroupState struct {
	Name    string    `json:"name"`
	Members int       `json:"members"`
	Shards  int       `json:"shards"`
	Unowned int       `json:"unowned"`          // shards without an owner
	Moving  int       `json:"moving"`           // shards that another member is to own
	Planned time.Time `json:"planned,omitzero"` // by the clock of ZooKeeper's leader; zero: no plan
}

// sharing sums up the groups of a policy.
type sharing struct {
	groups                  []GroupState
	shards, unowned, moving int
	oldestPlan              time.Time // zero: no group has a plan
	planless                int       // groups without a plan
}

func newGroups(ctx context.Context, r Root, passes *sync.WaitGroup) *groups {
	return &groups{root: r, ctx: ctx, passes: passes, byPolicy: map[string]sharing{}}
}

// observe reads the groups that a sweep has found, in the background. It skips sweeps that end
// meanwhile.
func (g *groups) observe(r reaper.Report) {
	locks := g.root.Monitor.Locks()
	if locks == nil || g.ctx.Err() != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy {
		return
	}
	g.busy = true
	g.passes.Go(func() {
		ctx, cancel := context.WithTimeout(g.ctx, shardsTime)
		defer cancel()
		byPolicy := map[string]sharing{}
		for _, name := range r.Groups {
			s, err := shard.Read(ctx, locks, name, false)
			if err != nil || s.Number == 0 { // it is no group, or cannot be read
				continue
			}
			policy := g.root.Monitor.Policies().For(name + "/plan").Name
			byPolicy[policy] = byPolicy[policy].and(s)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.busy, g.read = false, time.Now()
		for policy := range r.Policies { // other policies have sweeps of their own
			if s, ok := byPolicy[policy]; ok {
				g.byPolicy[policy] = s
			} else {
				delete(g.byPolicy, policy)
			}
		}
	})
}

// and returns the sum with a group.
func (s sharing) and(group shard.Status) sharing {
	s.groups = append(s.groups, GroupState{group.Group, len(group.Members), group.Number, group.Unowned(), group.Moving(), group.Planned})
	s.shards += group.Number
	s.unowned += group.Unowned()
	s.moving += group.Moving()
	switch {
	case group.Planned.IsZero():
		s.planless++
	case s.oldestPlan.IsZero() || group.Planned.Before(s.oldestPlan):
		s.oldestPlan = group.Planned
	}
	return s
}

// of returns the sums for a policy. It returns false if there is no group, or no sweep since this
// reaper became the active one.
func (g *groups) of(policy string, activeSince time.Time) (sharing, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.byPolicy[policy]
	return s, ok && !activeSince.IsZero() && !g.read.Before(activeSince)
}

// mostGroups is the largest number of groups in a status.
const mostGroups = 50

// add adds the groups of a policy to those of the root: first those with the most shards without an
// owner, then those with the most to be moved, then by name.
func (r *RootState) add(g sharing) {
	r.Groups = append(r.Groups, g.groups...)
	r.GroupsFound += len(g.groups)
	slices.SortFunc(r.Groups, func(a, b GroupState) int {
		return cmp.Or(b.Unowned-a.Unowned, b.Moving-a.Moving, cmp.Compare(a.Name, b.Name))
	})
	r.Groups = r.Groups[:min(len(r.Groups), mostGroups)]
}

// shards sends the metrics of a policy's groups of shards.
func (s sink) shards(g sharing) {
	s.put("shards", "Shards of the groups that the last sweep has seen.", float64(g.shards))
	s.put("shards_unowned", "Shards without an owner after the last sweep.", float64(g.unowned))
	s.put("shards_moving", "Shards that another member is to own than the one that owned them after the last sweep.", float64(g.moving))
	s.put("shard_groups_without_plan", "Groups of shards whose leader had no plan, or that had no leader, after the last sweep.", float64(g.planless))
	if !g.oldestPlan.IsZero() {
		s.put("shards_oldest_plan_timestamp_seconds", "When the oldest present plan of a group was made, by the clock of ZooKeeper's leader.", float64(g.oldestPlan.Unix()))
	}
}
