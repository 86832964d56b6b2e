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

// FirstOnly reports whether of the contenders of a lock only the first one can ever
// be in. Then whoever holds it has nobody ahead, and the one right behind it is next
// as soon as it goes.
func (k Kind) FirstOnly() bool { return k == Mutex }
