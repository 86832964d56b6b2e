package queue

import "time"

// Cached leases: an unused entry is kept if the policy says so. A watch on the parent's children
// fires when another contender comes, of any library. Then a cached lease leaves at once, and a
// held one at its unlock. The watch stays over many uses. Safety does not depend on it: if it is
// lost, a list from time to time shows the contender.

// lookAfter starts a goroutine that looks after the cached lease, unless there is one; lock.mu is
// held.
func (p *placed) lookAfter() {
	p.keptSince = p.queue.Clock.Mono()
	if !p.watched {
		p.watched = p.queue.Tasks.Go(p.watchOthers)
	}
}

// watchOthers releases the cached lease when another contender comes, when it was unused for long
// enough, or when the client closes. It ends when the place has no entry.
func (p *placed) watchOthers() {
	q := p.queue
	for {
		children, stat, changed, err := q.Conn.WatchChildren(q.Closing, q.Path(p.like.Lock))
		left, over := p.keptFor(err != nil || countContenders(children, stat) > p.entries())
		for again := false; !over && !again; {
			wait := min(left, readAgainAfter)
			timer := time.NewTimer(wait)
			select {
			case <-changed:
				again = true
			case <-timer.C:
				left, over = p.keptFor(false)
				again = wait == readAgainAfter // the watch may be lost
			case <-q.Closing.Done():
				_, over = p.keptFor(true)
			}
			timer.Stop()
		}
		if over {
			return
		}
	}
}

// keptFor returns the time for which the cached lease may stay. If another contender was seen, or
// the lease was unused for long enough, it releases the entry. over says that there is nothing
// left to look after.
func (p *placed) keptFor(crowded bool) (left time.Duration, over bool) {
	p.lock.mu.Lock()
	left = p.Idle
	e, kept := p.Kept()
	if crowded {
		p.NoteContention()
	}
	if kept {
		left = p.keptSince + p.Idle - p.queue.Clock.Mono()
	}
	if kept && (crowded || left <= 0) {
		p.Drop(e)
	} else {
		kept = false
	}
	if over = crowded || p.Entries() == 0; over {
		p.watched = false
	}
	p.vacate()
	p.lock.mu.Unlock()
	if kept {
		p.queue.endUnused(e)
	}
	return left, over
}

// endUnused releases an entry that no goroutine has. If the entry was lost, Changed has handled
// it.
func (q *Queue) endUnused(e *Entry) {
	if e.Withdraw() {
		q.Remove(e)
	}
}

// dropKept releases this client's cached leases at the lock, for a request that does not wait.
func (q *Queue) dropKept(s *lockState) {
	s.mu.Lock()
	var all []*Entry
	for _, p := range s.places.all() {
		if e, kept := p.Kept(); kept {
			p.Drop(e)
			all = append(all, e)
		}
	}
	for _, p := range s.places.all() {
		p.vacate()
	}
	s.mu.Unlock()
	for _, e := range all {
		q.endUnused(e)
	}
}
