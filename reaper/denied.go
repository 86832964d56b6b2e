package reaper

import (
	"cmp"
	"slices"
	"sync"
)

// maxTold is how many denied nodes of a sweep are told apart.
const maxTold = 1000

// findings are the nodes that an operator should look at, of one sweep.
type findings struct {
	denied, undecodable, format1 denials
}

// denials are nodes of one sweep of which the log tells once: the first maxTold of them, in
// their order. They are denied ones, or damaged ones, which have no error.
type denials struct {
	list []Denial
	more bool // there were others, after the last of these
}

// order is that of reports: the deletes first, since only they leave something behind
// that is known to be dead, and then by path.
func (d Denial) order(e Denial) int {
	rank := func(d Denial) int {
		if d.What == "delete" {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(d), rank(e)), cmp.Compare(d.Path, e.Path), cmp.Compare(d.What, e.What))
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

// told are the nodes that the log has told of, and by which schedule's sweeps
// they were seen.
type told struct {
	mu   sync.Mutex
	seen map[denied]map[string]bool
}

// denied is a Denial but for its error.
type denied struct{ path, what string }

// update takes the denials of a sweep. It returns those that are new, and those that
// no schedule's sweep sees any more; of a sweep that is not complete, none of these.
func (t *told) update(schedule string, d *denials, complete bool) (appeared, gone []Denial) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen == nil {
		t.seen = map[denied]map[string]bool{}
	}
	now := map[denied]bool{}
	for _, n := range d.list {
		key := denied{n.Path, n.What}
		now[key] = true
		if t.seen[key] == nil {
			t.seen[key] = map[string]bool{}
			appeared = append(appeared, n)
		}
		t.seen[key][schedule] = true
	}
	if !complete {
		return appeared, nil
	}
	for key, by := range t.seen {
		n := Denial{Path: key.path, What: key.what}
		if !by[schedule] || now[key] {
			continue
		}
		if delete(by, schedule); len(by) == 0 {
			delete(t.seen, key)
			if !d.beyond(n) {
				gone = append(gone, n)
			}
		}
	}
	slices.SortFunc(gone, Denial.order)
	return appeared, gone
}

// keep forgets what was seen by other schedules than these: they are no more.
func (t *told) keep(schedules []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, by := range t.seen {
		for schedule := range by {
			if !slices.Contains(schedules, schedule) {
				delete(by, schedule)
			}
		}
		if len(by) == 0 {
			delete(t.seen, key)
		}
	}
}
