package queue

import (
	"context"
	"errors"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// errOutranked says that a candidate's turn has come, and one of a higher priority waits.
var errOutranked = errors.New("a candidate of a higher priority waits")

// standBack is for a candidate whose turn has come. It fails with errOutranked if one of a
// higher priority lives and waits behind: then it is to queue again, behind that one. Until
// it returns nil, the entry does not tell a grant, so nobody takes the candidate for the
// leader. One that has made the lock's parent with its entry tells it already: nobody else
// was there.
//
// It ends. Who gives way stands behind one that outranks it from then on, unless that one
// queues again; and that does so only for one of a still higher priority. So those of the
// highest priority that there is never give way, and everybody else does so at most once
// for each time that one who outranks it has joined. Who is given way to waits for fewer
// with each that does, because nobody joins ahead of another; if it dies, whoever is behind
// waits for the end of its lease and purges it, as any other.
func (c *contender) standBack(ctx context.Context, e *Entry) error {
	if c.Priority == 0 || e.Recorded() {
		return nil
	}
	outranked, err := c.outranked(ctx, e)
	if err != nil {
		return err
	}
	if outranked {
		return errOutranked
	}
	// That may have taken long: nobody is ahead still, if our own entry is there.
	return c.await(ctx, e, position{admitted: true})
}

// outranked reports whether a living candidate of a higher priority waits behind the
// entry. Whoever had joined when the question was asked is not missed.
func (c *contender) outranked(ctx context.Context, e *Entry) (bool, error) {
	names, _, err := c.contenders(ctx, true)
	if err != nil {
		return false, err
	}
	for _, n := range names[znode.Find(names, e.Name().ID)+1:] {
		if !n.Ours() || n.Priority() <= c.Priority {
			continue
		}
		var alive *Blocked
		if _, err := c.blockedBy(ctx, n); errors.As(err, &alive) {
			if alive.Entry != nil && !alive.Entry.Leased() {
				continue // damaged, or of a newer version: if it is nobody's, we would wait for it for ever
			}
			c.Log.Info().Str("lock", c.Lock).Str("entry", e.Path).Str("for", alive.Path).Msg("gives way to a candidate of a higher priority")
			return true, nil
		} else if err != nil {
			return false, err
		}
	}
	return false, nil
}

// Candidates returns the entries of a lock whose leases have not ended, as far as can be
// known, in the order of the queue. They may have been read one after the other.
func (q *Queue) Candidates(ctx context.Context, r Request) ([]znode.Entry, error) {
	c := q.newContender(r)
	defer q.closeDoor(c.door)
	names, _, err := c.contenders(ctx, true)
	if err != nil {
		return nil, err
	}
	var entries []znode.Entry
	for _, n := range names {
		var alive *Blocked
		if _, err := c.blockedBy(ctx, n); errors.As(err, &alive) && alive.Entry != nil {
			entries = append(entries, *alive.Entry)
		} else if err != nil && alive == nil {
			return nil, err
		}
	}
	return entries, nil
}
