package shard

import (
	"maps"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// Times of the leader.
const (
	stepEvery = time.Second      // the leader looks whether there is something to do
	quiet     = 5 * time.Second  // from the last change to the plan
	patience  = 15 * time.Second // from the first change to the plan, at most
	farewell  = 6 * time.Second  // from the first leave to the plan, at most: a member that leaves waits for it

	strikeLasts = 10 * time.Minute // an expired member is remembered
	firstWait   = 30 * time.Second // of a host with one expired member
	longestWait = 8 * time.Minute
)

// candidate is a live candidate that could be read.
type candidate struct {
	record
	host  string // owner and host: a crash loop is theirs
	plan  *plan  // of the leader
	entry lock.Candidate
}

// planner decides when a leader plans, and for which members. It does no I/O.
type planner struct {
	self    string
	third   time.Duration // a third of the TTL: a member that lives for longer has renewed its lease
	plan    *plan         // the last one; without members: there is none yet, and the owners are those of the holds
	told    bool          // the plan is this leader's own, or has been proclaimed by it again
	present []candidate   // in the order in which they joined
	leaving bool          // this member leaves: it plans for the others, at once

	seen    map[string]*sighting // by id
	strikes map[string]strike    // by host

	// When the changes that are not planned yet are to be planned; zero: there are none. due is moved by
	// each change, by is not.
	due, by time.Time
}

type sighting struct {
	since time.Time
	full  time.Time // until then it is fresh; zero: it is new, and not in a plan yet
}

// strike is what the last expired member of a host costs the host's next one.
type strike struct {
	wait time.Duration
	at   time.Time
}

// plannedBy sets the latest time of the next plan, unless an earlier one is set.
func (p *planner) plannedBy(at time.Time) {
	if p.by.IsZero() || at.Before(p.by) {
		p.by = at
	}
}

// missing returns the members of the plan that are not candidates any more, each with the first
// shard that it was to own, or -1.
func (p *planner) missing(present []candidate) map[string]int {
	missing := map[string]int{}
	for _, id := range p.plan.members {
		if _, known := p.seen[id]; (known || p.seen == nil) && !slices.ContainsFunc(present, func(c candidate) bool { return c.ID == id }) {
			missing[id] = slices.Index(p.plan.owners, id)
		}
	}
	return missing
}

// see takes note of the present candidates, and of the members that do not own their shards any more,
// with their hosts if they have expired.
func (p *planner) see(now time.Time, present []candidate, expired map[string]string) {
	if len(p.missing(present)) > len(expired) {
		p.plannedBy(now.Add(farewell))
	}
	if p.seen == nil {
		p.strikes = map[string]strike{}
	}
	changed, before := false, p.seen
	p.seen = make(map[string]*sighting, len(present))
	for _, c := range present {
		if p.seen[c.ID] = before[c.ID]; p.seen[c.ID] == nil {
			changed, p.seen[c.ID] = true, &sighting{since: now}
			if p.plan.members == nil || p.plan.has(c.ID) {
				p.seen[c.ID].full = now
			}
		}
	}
	for _, host := range expired {
		p.plannedBy(now) // its shards have no owner
		if host != "" {
			p.strikes[host] = strike{min(longestWait, max(firstWait, 2*p.strikes[host].wait)), now}
		}
	}
	p.present = present
	if changed || len(p.seen) < len(before) {
		p.due = now.Add(quiet)
		p.plannedBy(now.Add(patience))
	}
}

// wanted returns the members that the next plan is for. Members of the last plan come first if there
// is no room for all.
func (p *planner) wanted(now time.Time) []entrant {
	choose := func(allowed func(c candidate) bool) (chosen []entrant) {
		for _, c := range p.present {
			if allowed(c) && !(p.leaving && c.ID == p.self) {
				full := p.seen[c.ID].full
				chosen = append(chosen, entrant{c.ID, c.Weight, full.IsZero() || now.Before(full)})
			}
		}
		return chosen
	}
	all := append(choose(func(c candidate) bool { return p.plan.has(c.ID) }), choose(func(c candidate) bool {
		return !p.plan.has(c.ID) && now.Sub(p.seen[c.ID].since) >= p.strikes[c.host].wait
	})...)
	if len(all) == 0 { // better a member that may crash again than none
		all = choose(func(candidate) bool { return true })
	}
	return all[:min(len(all), Room(len(p.plan.owners)))]
}

// next returns the plan that is due now; nil if none is. It is the last plan if that is as it should be, but
// was proclaimed by the leader before. Until then a new leader proclaims none: it may have missed a later
// plan of that leader, and would move shards back.
func (p *planner) next(now time.Time) *plan {
	maps.DeleteFunc(p.strikes, func(_ string, s strike) bool { return now.Sub(s.at) > strikeLasts })
	members := p.wanted(now)
	next := &plan{owners: assign(p.plan.owners, members)}
	for _, m := range members {
		next.members = append(next.members, m.id)
	}
	slices.Sort(next.members)
	if slices.Equal(next.members, p.plan.members) && slices.Equal(next.owners, p.plan.owners) {
		p.due, p.by = time.Time{}, time.Time{}
		if p.told {
			return nil
		}
		return p.plan
	}
	if !p.leaving && now.Before(p.due) && now.Before(p.by) {
		return nil
	}
	return next
}

// planned takes note of a plan that the members can see.
func (p *planner) planned(now time.Time, next *plan) {
	p.plan, p.told = next, true
	p.due, p.by = time.Time{}, time.Time{}
	for _, id := range next.members {
		if s := p.seen[id]; s != nil && s.full.IsZero() {
			s.full = now.Add(p.third)
		}
	}
}
