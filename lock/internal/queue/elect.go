package queue

import (
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// errOutranked is the error of checkRank if a candidate of a higher priority waits. Then the caller
// withdraws its entry, and joins again at the end.
var errOutranked = errors.New("a candidate of a higher priority waits")

// checkRank checks a candidate whose turn has come. It fails with errOutranked if a live candidate
// of a higher priority waits behind. Then the caller queues the candidate again, at the end. Until
// checkRank returns nil the record has no grant, so no observer takes the candidate for the leader.
// Exception: a candidate that created the lock's parent has the grant in its first record, because
// it was alone.
//
// Yielding ends. A candidate that has yielded is behind a candidate of a higher priority, which
// yields only to a still higher one. A candidate that has purged an entry of a higher priority,
// which was never granted, does not yield to that priority again. Otherwise a candidate that
// crashes in a loop would keep all other candidates from leading.
func (c *contender) checkRank(ctx context.Context, e *Entry) error {
	if c.Priority == 0 || e.Recorded() {
		return nil
	}
	if outranked, err := c.outranked(ctx, e); err != nil {
		return err
	} else if outranked {
		return errOutranked
	}
	// outranked may have taken long, so wait checks the lease again. No contender is ahead as long as
	// the candidate's entry exists.
	return c.wait(ctx, e, position{admitted: true})
}

// outranked reports whether a live candidate waits behind the entry and outranks it. It misses no
// candidate that had joined before the call.
func (c *contender) outranked(ctx context.Context, e *Entry) (bool, error) {
	names, err := c.list(ctx, true)
	if err != nil {
		return false, err
	}
	for _, n := range names[znode.Find(names, e.Name().Node)+1:] {
		if !n.Ours() || n.Priority() <= max(c.Priority, c.immune) {
			continue
		}
		var alive *Blocked
		if err := c.inTheWay(ctx, n); errors.As(err, &alive) {
			// A damaged entry, or one of another version, may have no owner, and would block for ever.
			if alive.Entry != nil && !alive.Entry.Leased() {
				continue
			}
			c.Log.Info().Str("lock", c.Lock).Str("entry", e.Path).Str("to", alive.Path).Msg("yields to a candidate of a higher priority")
			return true, nil
		} else if err != nil {
			return false, err
		}
	}
	return false, nil
}

// Sightings are the last reads of an election's candidates. Without them each look at a candidate is
// the first, and only ensemble time can show that it has expired: after a change of the leader that
// may be as late as the two leaders' clocks differ. The zero value has none. Safe for concurrent use.
type Sightings struct {
	mu    sync.Mutex
	known map[string]*sighting // by name; not changed once it is here
}

// Candidates returns the entries of a lock, in the order of the queue, except expired entries and
// entries that an ACL hides. It reads them one by one, and notes them in last.
func (q *Queue) Candidates(ctx context.Context, r Request, last *Sightings) ([]znode.Entry, error) {
	v := newView(q, r, new(lockState))
	last.mu.Lock()
	v.known = last.known // list replaces it by a map of those that are there
	last.mu.Unlock()
	names, err := v.list(ctx, true)
	if err != nil {
		return nil, err
	}
	var entries []znode.Entry
	for _, n := range names {
		s, err := v.assess(ctx, n, false, v.Clock.Prove)
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
			continue
		case err != nil:
			return nil, err
		case !s.expired:
			entries = append(entries, s.entry)
		}
	}
	last.mu.Lock()
	last.known = v.known
	last.mu.Unlock()
	return entries, nil
}
