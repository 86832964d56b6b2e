package queue

// maxDoors is how many doors of locks that nobody asks for are remembered.
const maxDoors = 4096

// doors are the doors of a client, by the name of their lock. Of those that nobody
// uses only so many are remembered, in the order in which they were used last: the
// longest unused is dropped first. Nothing is lost with a door but requests that its
// facts would save: a party is a user.
type doors struct {
	byLock map[string]*door
	idle   int  // how many nobody uses
	ends   door // of their ring: next is the longest unused one
	last   uint64
}

func newDoors() *doors {
	all := &doors{byLock: map[string]*door{}}
	all.ends.next, all.ends.prev = &all.ends, &all.ends
	return all
}

// park puts a door that nobody uses at the end of the ring, and drops the first one if
// there are too many.
func (all *doors) park(d *door) {
	d.prev, d.next = all.ends.prev, &all.ends
	d.prev.next, d.next.prev = d, d
	if all.idle++; all.idle > maxDoors {
		first := all.ends.next
		all.unpark(first)
		delete(all.byLock, first.name)
	}
}

// unpark takes a door out of the ring.
func (all *doors) unpark(d *door) {
	d.prev.next, d.next.prev = d.next, d.prev
	d.prev, d.next = nil, nil
	all.idle--
}

// openDoor returns the door of a lock, to be given back with closeDoor.
func (q *Queue) openDoor(lock string) *door {
	q.mu.Lock()
	defer q.mu.Unlock()
	d := q.doors.byLock[lock]
	if d == nil {
		q.doors.last++
		d = &door{name: lock, number: q.doors.last, hints: q.newHints()}
		q.doors.byLock[lock] = d
	} else if d.users == 0 {
		q.doors.unpark(d)
	}
	d.users++
	return d
}

// openFurther has a door that is open stay so until it was given back once more.
func (q *Queue) openFurther(d *door) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d.users++
}

// closeDoor gives a door back.
func (q *Queue) closeDoor(d *door) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d.users--; d.users == 0 {
		q.doors.park(d)
	}
}
