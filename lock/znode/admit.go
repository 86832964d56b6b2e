package znode

// Admit is the admission rule of all locks. The names are a lock's contenders,
// sorted as [Contenders] does, and self is the place of one of them. It returns
// -1 if that one is in, or else the place of the one to wait for: the nearest
// earlier one that conflicts. Only earlier ones count, so two can never wait
// for each other.
func Admit(names []Name, self int) int {
	for i := self - 1; i >= 0; i-- {
		if conflict(names[i].Role, names[self].Role) {
			return i
		}
	}
	return -1
}

// conflict reports whether two contenders exclude each other.
func conflict(a, b Role) bool { return a != Shared || b != Shared }
