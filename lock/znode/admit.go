package znode

// Admit is the admission rule of all locks, and the one place for that of a new
// kind. The names are a lock's contenders, sorted as [Contenders] does, self is the
// place of one of them, and parent is what the lock's node holds: its kind and the
// kind's settings. Admit returns -1 if that one is in, or else the place of the one to
// wait for: the nearest earlier one that conflicts. Only earlier ones count, so two
// can never wait for each other.
func Admit(names []Name, self int, parent Parent) int {
	for i := self - 1; i >= 0; i-- {
		if parent.Kind.conflict(names[i].Role, names[self].Role) {
			return i
		}
	}
	return -1
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
