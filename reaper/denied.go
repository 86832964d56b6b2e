package reaper

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// finding is why an operator should look at a node.
type finding int

const (
	deniedByACL finding = iota
	damaged             // or of a newer version
	ofFormat1
	kinds
)

// findings are the nodes of one sweep that an operator should look at.
type findings [kinds]denials

// maxTold is how many nodes of one kind a sweep tells apart.
const maxTold = 1000

// denials are nodes of one sweep and one kind of which the log tells once: the first maxTold
// of them, in their order. Damaged ones have no error.
type denials struct {
	list []Denial
	more bool // there were others, after the last of these
}

// order is that of reports: the deletes first, since only they leave something behind
// that is known to be dead, and then by path.
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

// first are those that a report names.
func (d *denials) first() []Denial { return slices.Clone(d.list[:min(len(d.list), maxNamed)]) }

// paths are those of the first.
func (d *denials) paths() (paths []string) {
	for _, n := range d.first() {
		paths = append(paths, n.Path)
	}
	return paths
}

// beyond reports whether it cannot be told if n is denied: it would come after the last
// that is kept.
func (d *denials) beyond(n Denial) bool {
	return d.more && d.list[len(d.list)-1].order(n) < 0
}

// told are the nodes of one kind that the log has told of, without their errors, by the
// schedule whose sweeps saw them.
type told struct {
	mu   sync.Mutex
	seen map[string]map[Denial]bool
}

// update takes the denials of a sweep. It returns those that are new, and those that
// no schedule's sweep sees any more; of a sweep that is not complete, none of these.
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

// keep forgets what was seen by other schedules than these: they are no more.
func (t *told) keep(schedules []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.seen, func(schedule string, _ map[Denial]bool) bool { return !slices.Contains(schedules, schedule) })
}
