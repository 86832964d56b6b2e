package znode

// Rules are what the admission to a lock depends on.
type Rules struct {
	Kind     Kind
	Capacity int32 // permits that a semaphore has now
}

// Admit is the admission rule of all locks, and the one place for that of a new
// kind. The names are a lock's contenders, sorted as [Contenders] does, self is the
// place of one of them, and rules are the lock's kind and the kind's settings. Admit returns -1 if that one is in, or else the place of the one to
// wait for: the nearest earlier one that conflicts. Only earlier ones count, so two
// can never wait for each other.
//
// Of a semaphore's contenders all are in, from the first one on, who together ask for no
// more permits than there are; so nobody overtakes one who asks for many. The others wait
// for the one right before them. Who is first and asks for more than there are waits for
// itself: its own place is returned.
func Admit(names []Name, self int, rules Rules) int {
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
		if rules.Kind.conflict(names[i].Role, names[self].Role) {
			return i
		}
	}
	return -1
}

// Holders returns those of a lock's contenders, sorted, who are in: the first ones. Shares
// is asked whether a writer's entry tells that it only reads since, so that the readers
// right behind it are in too. A contender who is in may not know it yet.
func Holders(names []Name, rules Rules, shares func(Name) bool) []Name {
	for i, n := range names {
		ahead := Admit(names, i, rules)
		if ahead >= 0 && (rules.Kind != RW || n.Role != Shared || names[ahead].Role != Writer || !shares(names[ahead])) {
			return names[:i]
		}
	}
	return names
}

// conflict reports whether two contenders for a lock of that kind exclude each other.
func (k Kind) conflict(a, b Role) bool { return a != Shared || b != Shared }

// Alone reports whether whoever is right behind that contender, and knows that it holds
// the lock, is next when it goes: nobody can be in beside it, nobody is ahead of it, and
// nobody comes to stand ahead of another. Curator's read/write lock does that: a writer
// who goes on as a reader makes a second entry with the sequence of its first. So of
// another library's entry in such a lock nothing follows.
func (k Kind) Alone(n Name) bool {
	return k == Mutex || k == RW && n.Ours() && n.Role != Shared
}
