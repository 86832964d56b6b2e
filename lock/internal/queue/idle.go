package queue

import "time"

// An unused entry is kept if the policy says so. A watch on the children of the parent tells
// when another contender comes, of whatever library: then what is kept leaves at once, and
// what is held leaves at its unlock. The watch stays over many uses. It lets no contender in:
// should it be lost, the list that is made in between tells.

// lookAfter begins to look after what is kept, unless that is done already; lock.mu is held.
func (p *placed) lookAfter() {
	p.keptSince = p.queue.Clock.Mono()
	if !p.watched {
		p.watched = p.queue.background(p.watchOthers)
	}
}

// watchOthers gives back what is kept when another contender comes, when it was unused for
// long enough, and when the client closes. It ends when the place has no entry.
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

// keptFor returns for how much longer what is kept may stay unused. If another contender was
// seen, or it was unused for long enough, it gives the entry back. over says that there is
// nothing to look after any more.
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

// endUnused gives back an entry that no goroutine has. If it was lost, Changed has seen to it.
func (q *Queue) endUnused(e *Entry) {
	if e.Withdraw() {
		q.Remove(e)
	}
}

// dropKept gives back what this client keeps at the lock, for a request that does not wait.
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
