package znode

// Rules are what the admission to a lock depends on.
type Rules struct {
	Kind     Kind
	Capacity int32 // permits that a semaphore has now
}

// WaitsFor is the admission rule of all locks, and the one place for that of a new kind. The
// names are a lock's contenders, sorted as [Contenders] does; self is the place of one of
// them. If that contender is in, WaitsFor returns -1; otherwise the place of the contender to
// wait for: the nearest earlier one that conflicts. Only earlier ones count, so two
// contenders can never wait for each other.
//
// A semaphore's contenders are in, from the first one on, as long as they together ask for
// no more permits than there are. So none overtakes a contender that asks for many. Each of
// the others waits for the one right before it. If the first contender asks for more than
// there are, it waits for itself: WaitsFor returns its own place.
func WaitsFor(names []Name, self int, rules Rules) int {
	if rules.Kind == Semaphore {
		var asked int64
		for _, n := range names[:self+1] {
			asked += int64(max(1, n.Permits))
		}
		if asked <= int64(rules.Capacity) {
			return -1
		}
		return max(0, self-1)
	}
	for i := self - 1; i >= 0; i-- {
		if exclusive(names[i].Role, names[self].Role) {
			return i
		}
	}
	return -1
}

// Holders returns the contenders that are in: the first of the names, sorted as for WaitsFor.
// Shares reports whether a writer's entry tells that it only reads since; then the readers
// right behind it are in too. A contender that is in may not know it yet.
func Holders(names []Name, rules Rules, shares func(Name) bool) []Name {
	for i, n := range names {
		ahead := WaitsFor(names, i, rules)
		if ahead >= 0 && (rules.Kind != RW || n.Role != Shared || names[ahead].Role != Writer || !shares(names[ahead])) {
			return names[:i]
		}
	}
	return names
}

// exclusive reports whether two contenders exclude each other.
func exclusive(a, b Role) bool { return a != Shared || b != Shared }

// Alone reports whether the contender right behind n, if n holds the lock, is next when n
// goes. For that no contender can be in beside n, none is ahead of n, and none comes to
// stand ahead of another. In Curator's read/write lock one does: a writer that goes on as a
// reader makes a second entry with the sequence of its first. So nothing follows of another
// library's entry in such a lock.
func (k Kind) Alone(n Name) bool {
	return k == Mutex || k == RW && n.Ours() && n.Role != Shared
}
