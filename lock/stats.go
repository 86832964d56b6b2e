package lock

// Stats are a client's present numbers of holds and waiters, and its counters since it was made.
type Stats struct {
	Holds    int    // present holds; each reader that shares an entry counts
	Waiters  int    // goroutines waiting now
	Renewals uint64 // rewrites of entries: renewals, and records of grants
	Lost     uint64 // holds that ended before they were unlocked
	Requeued uint64 // times that a waiter found its entry removed, and queued again
	Purged   uint64 // expired entries of other contenders that this client deleted
	// Displacements counts the detected steps of the ZooKeeper leader's clock. A change to a leader
	// with a different clock counts as a step.
	Displacements uint64
	DroppedLines  uint64 // log lines that the logger did not take in time, because it blocked
	DroppedEvents uint64 // events that the observers did not take in time
}

// Stats returns the client's present numbers and its counters. It asks no server.
func (c *Client) Stats() Stats {
	q := c.queue.Stats()
	s := Stats{Waiters: q.Waiters, Requeued: q.Requeued, Purged: q.Purged, Renewals: c.keeper.Renewals(), Lost: c.lost.Load()}
	s.DroppedLines, s.DroppedEvents = c.logs.Dropped(), c.events.Dropped()
	s.Displacements, _ = c.clock.Displacements()
	for _, e := range c.keeper.Entries() {
		s.Holds += e.Holds()
	}
	return s
}
