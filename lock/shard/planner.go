package shard

import (
	"slices"
	"time"
)

// Times of the leader.
const (
	listEvery = time.Second      // the leader lists the candidates
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
	host string // owner and host: a crash loop is theirs
}

// planner decides when a leader plans, and for which members. It does no I/O.
type planner struct {
	self    string
	third   time.Duration // a third of the TTL: a member that lives for longer has renewed its lease
	plan    *plan         // the last one; nil: none yet
	owners  []string      // of the shards, by the last plan or by their holds
	present []candidate   // in the order in which they joined
	leaving bool          // this member leaves: it plans for the others, at once

	seen    map[string]*sighting // by id
	strikes map[string]*strike   // by host

	first, last, left time.Time // of changes that are not planned yet; zero: none
	urgent            bool      // shards of a missing member have no owner
}

type sighting struct {
	since time.Time
	host  string
	fresh bool
	full  time.Time // until then it is fresh; zero: it is not in a plan yet
}

type strike struct {
	count int
	at    time.Time
}

// missing returns the members of the plan that are not candidates any more, each with the first
// shard that it was to own, or -1.
func (p *planner) missing(present []candidate) map[string]int {
	missing := map[string]int{}
	if p.plan == nil {
		return missing
	}
	for _, id := range p.plan.members {
		if _, known := p.seen[id]; (known || p.seen == nil) && !slices.ContainsFunc(present, func(c candidate) bool { return c.ID == id }) {
			missing[id] = slices.Index(p.owners, id)
		}
	}
	return missing
}

// see takes note of the present candidates, and of the members that do not own their shards any more,
// with their hosts if they have expired.
func (p *planner) see(now time.Time, present []candidate, expired map[string]string) {
	if p.left.IsZero() && len(p.missing(present)) > len(expired) {
		p.left = now
	}
	changed := false
	if p.seen == nil {
		p.seen, p.strikes = map[string]*sighting{}, map[string]*strike{}
	}
	for _, c := range present {
		if p.seen[c.ID] == nil {
			p.seen[c.ID] = &sighting{since: now, host: c.host, fresh: p.plan != nil && !p.plan.has(c.ID)}
			changed = true
		}
	}
	for id := range p.seen {
		if !slices.ContainsFunc(present, func(c candidate) bool { return c.ID == id }) {
			delete(p.seen, id)
			changed = true
		}
	}
	for _, host := range expired {
		if p.urgent = true; host == "" {
			continue
		}
		s := p.strikes[host]
		if s == nil || now.Sub(s.at) > strikeLasts {
			s = &strike{}
			p.strikes[host] = s
		}
		s.count, s.at = s.count+1, now
	}
	p.present = present
	if !changed {
		return
	}
	p.last = now
	if p.first.IsZero() {
		p.first = now
	}
}

// wait returns how long a new member of that host gets no shards.
func (p *planner) wait(host string, now time.Time) time.Duration {
	s := p.strikes[host]
	if s == nil || now.Sub(s.at) > strikeLasts {
		return 0
	}
	return min(longestWait, firstWait<<min(s.count-1, 10))
}

// wanted returns the members that the next plan is for. Members of the last plan come first if there
// is no room for all.
func (p *planner) wanted(now time.Time) []entrant {
	choose := func(allowed func(c candidate) bool) (chosen []entrant) {
		for _, c := range p.present {
			if allowed(c) && !(p.leaving && c.ID == p.self) && len(chosen) < Room(len(p.owners)) {
				s := p.seen[c.ID]
				chosen = append(chosen, entrant{c.ID, c.Weight, s.fresh && (s.full.IsZero() || now.Before(s.full))})
			}
		}
		return chosen
	}
	old := choose(func(c candidate) bool { return p.plan.has(c.ID) })
	ready := choose(func(c candidate) bool {
		return !p.plan.has(c.ID) && now.Sub(p.seen[c.ID].since) >= p.wait(c.host, now)
	})
	all := append(old, ready[:min(len(ready), Room(len(p.owners))-len(old))]...)
	if len(all) == 0 { // better a member that may crash again than none
		all = choose(func(candidate) bool { return true })
	}
	return all
}

// next returns the plan that is due now; nil if none is.
func (p *planner) next(now time.Time) *plan {
	members := p.wanted(now)
	next := &plan{owners: assign(p.owners, members)}
	for _, m := range members {
		next.members = append(next.members, m.id)
	}
	slices.Sort(next.members)
	if p.plan != nil && slices.Equal(next.members, p.plan.members) && slices.Equal(next.owners, p.plan.owners) {
		p.first, p.last, p.left, p.urgent = time.Time{}, time.Time{}, time.Time{}, false
		return nil
	}
	due := p.last.Add(quiet)
	if by := p.first.Add(patience); by.Before(due) {
		due = by
	}
	if by := p.left.Add(farewell); !p.left.IsZero() && by.Before(due) {
		due = by
	}
	if !p.urgent && !p.leaving && now.Before(due) {
		return nil
	}
	return next
}

// planned takes note of a plan that the members can see.
func (p *planner) planned(now time.Time, next *plan) {
	p.plan, p.owners = next, next.owners
	p.first, p.last, p.left, p.urgent = time.Time{}, time.Time{}, time.Time{}, false
	for _, id := range next.members {
		if s := p.seen[id]; s != nil && s.fresh {
			if s.full.IsZero() {
				s.full = now.Add(p.third)
			} else if !now.Before(s.full) {
				s.fresh = false
			}
		}
	}
}
