package reaper

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// finding is the reason why an operator should look at a node.
type finding int

const (
	deniedByACL finding = iota
	damaged             // or of a newer version
	ofFormat1
	kinds
)

// findings has the nodes of one sweep that an operator should look at, by reason.
type findings [kinds]denials

// maxTold is the largest number of nodes with one reason that a sweep records.
const maxTold = 1000

// denials has the nodes of one sweep with one reason: the first maxTold of them, in order. Damaged
// nodes have no error.
type denials struct {
	list []Denial
	more bool // there were others, after the last of these
}

// order compares denials for reports: refused deletes first, because only those leave expired nodes
// behind, and then by path.
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

// beyond reports whether n sorts after the last node of a full list, so that it may be denied and
// not be in the list.
func (d *denials) beyond(n Denial) bool {
	return d.more && d.list[len(d.list)-1].order(n) < 0
}

// told has the nodes with one reason that the log has already reported, by schedule. Errors are
// omitted.
type told struct {
	mu   sync.Mutex
	seen map[string]map[Denial]bool
}

// update records the denials of a sweep. It returns the nodes that are new to the log, and those
// that no schedule's sweep sees any more. After an incomplete sweep, it returns none of the latter.
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

// keep forgets the nodes of all other schedules, which a reload has removed.
func (t *told) keep(schedules []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.seen, func(schedule string, _ map[Denial]bool) bool { return !slices.Contains(schedules, schedule) })
}
