package znode

// Rules has what the admission of a contender depends on, besides the names.
type Rules struct {
	Kind     Kind
	Capacity int32 // present number of permits of a semaphore
}

// WaitsFor is the admission rule of all kinds of locks. The names are a lock's contenders, sorted
// by [Contenders]; self is the index of one of them. WaitsFor returns -1 if that contender is
// admitted. Otherwise it returns the index of the contender to wait for: the nearest earlier one
// that conflicts. Only earlier contenders count, so two contenders never wait for each other.
//
// In a semaphore the first contenders are admitted, as long as the permits suffice. So no contender
// overtakes another that asks for many. Each other contender waits for the contender right before
// it. If the first contender asks for more permits than there are, WaitsFor returns self: the
// contender waits until a Resize raises the number.
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

// Holders returns the admitted contenders: the first of the names, sorted as for WaitsFor. shares
// reports whether a writer was downgraded, by its record; then the readers right behind it are
// admitted too. An admitted contender may not have noticed its admission yet.
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

// Alone reports whether, if n holds the lock, the contender right behind n is the next holder when
// n leaves. For that, no contender may be admitted beside n or ahead of n, and no contender may
// join ahead of another. On Curator's read/write lock a contender can join ahead of another: a
// writer that goes on as a reader creates a second entry with the sequence of its first. So on a
// read/write lock the end of another library's entry proves nothing.
func (k Kind) Alone(n Name) bool {
	return k == Mutex || k == RW && n.Ours() && n.Role != Shared
}
