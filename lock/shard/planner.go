package shard

import (
	"cmp"
	"maps"
	"slices"
	"time"
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

// planner decides when a leader plans, and for which members. It does no I/O.
type planner struct {
	self    string
	third   time.Duration // a third of the TTL: a member that lives for longer has renewed its lease
	last    *plan         // the last plan; without members: there is none yet, and the owners are those of the holds
	told    bool          // last is this leader's own, or has been proclaimed by it again
	leaving bool          // this member leaves: it plans for the others, at once
	present []candidate   // in the order in which they joined

	since   map[string]time.Time // when each of them was seen first, or came into the plan
	strikes map[string]strike    // by owner and host: a crash loop is theirs

	// When the changes that are not planned yet are to be planned; zero: there are none. due is moved by
	// each change, by is not.
	due, by time.Time
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

// missing returns the members of the plan that are not candidates any more.
func (p *planner) missing(present []candidate) []string {
	return slices.DeleteFunc(slices.Clone(p.last.members), func(id string) bool {
		return slices.ContainsFunc(present, func(c candidate) bool { return c.ID == id })
	})
}

// see takes note of the present candidates, and of the missing members that do not own their shards any
// more, with their hosts if they have expired.
func (p *planner) see(now time.Time, present []candidate, gone map[string]string) {
	if !slices.EqualFunc(present, p.present, func(a, b candidate) bool { return a.ID == b.ID }) {
		p.due = now.Add(quiet)
		p.plannedBy(now.Add(patience))
	}
	if len(p.missing(present)) > len(gone) {
		p.plannedBy(now.Add(farewell))
	}
	for _, host := range gone {
		p.plannedBy(now) // its shards have no owner
		if host != "" {
			p.strikes[host] = strike{min(longestWait, max(firstWait, 2*p.strikes[host].wait)), now}
		}
	}
	since := map[string]time.Time{}
	for _, c := range present {
		since[c.ID] = cmp.Or(p.since[c.ID], now)
	}
	p.present, p.since = present, since
}

// wanted returns the members that the next plan is for. Members of the last plan come first if there
// is no room for all.
func (p *planner) wanted(now time.Time) []entrant {
	var old, joined, waiting []entrant
	for _, c := range p.present {
		planned := p.last.has(c.ID)
		e := entrant{c.ID, c.Weight, !planned || now.Sub(p.since[c.ID]) < p.third}
		switch {
		case p.leaving && c.ID == p.self:
		case planned:
			old = append(old, e)
		case now.Sub(p.since[c.ID]) >= p.strikes[c.Owner+"@"+c.Host].wait:
			joined = append(joined, e)
		default:
			waiting = append(waiting, e)
		}
	}
	all := append(old, joined...)
	if len(all) == 0 { // better a member that may crash again than none
		all = waiting
	}
	return all[:min(len(all), Room(len(p.last.owners)))]
}

// next returns the plan that is due now; nil if none is. It is the last plan if that is as it should be, but
// was proclaimed by the leader before. Until then a new leader proclaims none: it may have missed a later
// plan of that leader, and would move shards back.
func (p *planner) next(now time.Time) *plan {
	maps.DeleteFunc(p.strikes, func(_ string, s strike) bool { return now.Sub(s.at) > strikeLasts })
	members := p.wanted(now)
	next := &plan{owners: assign(p.last.owners, members)}
	for _, m := range members {
		next.members = append(next.members, m.id)
	}
	slices.Sort(next.members)
	switch {
	case slices.Equal(next.members, p.last.members) && slices.Equal(next.owners, p.last.owners):
		p.due, p.by = time.Time{}, time.Time{}
		if p.told {
			return nil
		}
		return p.last
	case !p.leaving && now.Before(p.due) && now.Before(p.by):
		return nil
	}
	return next
}

// proclaimed takes note of a plan that the members can see.
func (p *planner) proclaimed(now time.Time, next *plan) {
	for _, id := range next.members {
		if !p.last.has(id) {
			p.since[id] = now // it is fresh from now on
		}
	}
	p.last, p.told = next, true
	p.due, p.by = time.Time{}, time.Time{}
}
