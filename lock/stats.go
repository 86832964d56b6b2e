package lock

// Stats are what a client has counted since it was made.
type Stats struct {
	Holds         int    // alive now, waiters not included; readers that share an entry are as many holds
	Waiters       int    // goroutines that wait now, and entries kept unused ([WithIdle])
	Renewals      uint64 // entries written again: renewals, and grants recorded
	Lost          uint64 // holds that ended before they were unlocked
	Requeued      uint64 // times a waiter found its own entry gone and queued again
	Purged        uint64 // expired entries of others deleted
	Displacements uint64 // times the ZooKeeper leader's clock was seen to step, or to differ from that of the leader before
	DroppedLines  uint64 // log lines that the logger did not take in time: it blocks
	DroppedEvents uint64 // events that the observers did not take in time
}

// Stats returns what the client has counted.
func (c *Client) Stats() Stats {
	s := Stats{Waiters: c.queue.Waiters(), Renewals: c.keeper.Renewals(), Lost: c.lost.Load()}
	s.DroppedLines, s.DroppedEvents = c.logs.Dropped(), c.events.Dropped()
	s.Requeued, s.Purged = c.queue.Counts()
	s.Displacements, _ = c.clock.Displacements()
	for _, e := range c.keeper.Entries() {
		s.Holds += e.Holds()
	}
	return s
}
