package reaper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// unread handles the error of a read, and reports whether the node is missing. A refusal by an ACL
// counts as denied. Any other error stops the sweep.
func (s *sweep) unread(ctx context.Context, path, what, policy string, err error) (missing bool) {
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return true
	case errors.Is(err, zk.ErrNoAuth):
		s.deny(path, what, policy, err)
	case ctx.Err() == nil:
		s.stop(fmt.Errorf("%s %s: %w", what, path, err))
	}
	return false
}

func (s *sweep) deny(path, what, policy string, err error) {
	s.find(deniedByACL, Denial{path, what, err.Error()}, policy, func(c *Counts) { c.Denied++ })
}

// counted counts a node by its verdict. If an operator should look at the node, it also records the
// path.
func (s *sweep) counted(v Verdict, path, policy string) {
	count, node := func(c *Counts) { c.count(v) }, Denial{Path: path, What: v.String()}
	if v == Undecodable {
		s.find(damaged, node, policy, count)
	} else {
		s.count(policy, count)
	}
}

// find records a node that an operator should look at, and counts it. If this sweep does not cover
// the policy, only the total counts it.
func (s *sweep) find(why finding, node Denial, policy string, count func(*Counts)) {
	s.mu.Lock()
	s.findings[why].add(node)
	if s.report.Policies[policy] == nil {
		count(&s.report.Total)
	}
	s.mu.Unlock()
	s.count(policy, count)
}

// used adds the live entries of a lock, its longest wait and its oldest hold to the counts.
func (s *sweep) used(policy string, now instant, u use) {
	since := func(seconds uint32) float64 {
		if seconds == 0 {
			return 0
		}
		return max(0, now.Earliest().Sub(time.Unix(int64(seconds), 0)).Seconds())
	}
	s.count(policy, func(c *Counts) {
		c.Live += int(u.live)
		c.Waiting += int(u.waiting)
		c.LongestWait = max(c.LongestWait, since(u.joined))
		c.OldestHold = max(c.OldestHold, since(u.granted))
	})
}

// late records that a node could have been deleted since the given time. The counts keep the longest
// delay.
func (s *sweep) late(policy string, now instant, since time.Time) {
	s.count(policy, func(c *Counts) { c.OldestOverdue = max(c.OldestOverdue, now.Earliest().Sub(since).Seconds()) })
}

// count applies f to the counts of a policy, and to the total. It does nothing if the policy is "" or
// this sweep does not cover it.
func (s *sweep) count(policy string, f func(*Counts)) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.report.Policies[policy]
	if c == nil {
		return
	}
	if _, ok := s.looked[policy]; !ok {
		s.looked[policy] = now
	}
	f(c)
	f(&s.report.Total)
	c.Seconds = now.Sub(s.looked[policy]).Seconds()
}

// finding is the reason why an operator should look at a node.
type finding int

const (
	deniedByACL finding = iota
	damaged             // damaged, or of a newer version
	worn                // a lock whose counter has less than half left
	copied              // an entry that was copied with its lock's node
	kinds               // number of the reasons above
)

// findings has the nodes of one sweep that an operator should look at, by reason.
type findings [kinds]denials

// maxTold is the largest number of nodes with one reason that a sweep records.
const maxTold = 1000

// denials has the nodes of one sweep with one reason: the first maxTold of them, in order. Only
// denied nodes have an error.
type denials struct {
	list []Denial
	more bool // there are other nodes, which sort after those in list
}

// order compares denials for reports: refused deletes are first, then the order is by path.
func (d Denial) order(e Denial) int {
	rank := map[string]int{"delete": -1}
	return cmp.Or(rank[d.What]-rank[e.What], cmp.Compare(d.Path, e.Path), cmp.Compare(d.What, e.What))
}

func (d *denials) add(n Denial) {
	i, known := slices.BinarySearchFunc(d.list, n, Denial.order)
	switch {
	case known:
		return
	case i == maxTold:
		d.more = true
		return
	case len(d.list) == maxTold:
		d.list, d.more = d.list[:maxTold-1], true
	}
	d.list = slices.Insert(d.list, i, n)
}

// first returns the nodes that a report names.
func (d *denials) first() []Denial { return slices.Clone(d.list[:min(len(d.list), maxNamed)]) }

// paths returns the paths of the nodes that a report names.
func (d *denials) paths() (paths []string) {
	for _, n := range d.first() {
		paths = append(paths, n.Path)
	}
	return paths
}

// beyond reports whether n sorts after the last node of a full list. Then n may have been found
// although it is not in the list.
func (d *denials) beyond(n Denial) bool {
	return d.more && d.list[len(d.list)-1].order(n) < 0
}

// told has the nodes of one kind of finding that the log has already reported, by schedule. The
// keys have no Denial.Error: a node is not reported again only because its error text changed.
type told struct {
	mu   sync.Mutex
	seen map[string]map[Denial]bool
}

// update records the findings of a sweep. It returns the nodes that are new to the log, and, after a
// complete sweep, the nodes whose problem has ended: no schedule's last sweep found them.
func (t *told) update(schedule string, d *denials, complete bool) (appeared, gone []Denial) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen == nil {
		t.seen = map[string]map[Denial]bool{}
	}
	known := func(n Denial) bool {
		for _, seen := range t.seen {
			if seen[n] {
				return true
			}
		}
		return false
	}
	before, now := t.seen[schedule], map[Denial]bool{}
	for _, n := range d.list {
		key := Denial{Path: n.Path, What: n.What}
		if now[key] = true; !known(key) {
			appeared = append(appeared, n)
		}
	}
	if !complete {
		maps.Copy(now, before)
	}
	t.seen[schedule] = now
	for key := range before {
		if !known(key) && !d.beyond(key) {
			gone = append(gone, key)
		}
	}
	slices.SortFunc(gone, Denial.order)
	return appeared, gone
}

// keep forgets the nodes of all schedules except those given.
func (t *told) keep(schedules []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.seen, func(schedule string, _ map[Denial]bool) bool { return !slices.Contains(schedules, schedule) })
}
