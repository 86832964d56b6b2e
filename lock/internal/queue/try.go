package queue

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
)

// askFor is how long a try waits for an entry that may be kept to be given back.
const askFor = 100 * time.Millisecond

// tryRide takes the lock without waiting for anybody. One that is kept is acquired at once, or is
// asked for where another process keeps it; of one that is held nobody takes the place of those
// who ride.
func (c *contender) tryRide(ctx context.Context) (*Entry, error) {
	if c.rideable() {
		c.door.rides.mu.Lock()
		b, kept := c.door.rides.partyOf(&c.Request).takeKept()
		c.door.rides.mu.Unlock()
		if kept {
			c.trying = true
			if e, err := c.occupy(ctx, b); !errors.Is(err, lease.ErrGone) {
				return e, err
			}
		}
	}
	if err := c.Release(ctx, c.Lock); err != nil { // what is kept for others of ours nobody has
		return nil, err
	}
	e, err := c.try(ctx)
	var inTheWay *Blocked
	if !errors.As(err, &inTheWay) || inTheWay.Entry == nil || !inTheWay.Entry.Granted() {
		return e, err
	}
	if idle := time.Duration(inTheWay.Entry.Record.Idle) * time.Millisecond; !c.door.mayAsk(c.Clock.Mono(), idle) {
		return e, err
	}
	return c.ask(ctx, err)
}

// ask joins, so that an entry that is kept is given back, and withdraws if it is not soon.
func (c *contender) ask(ctx context.Context, held error) (*Entry, error) {
	limited, cancel := context.WithTimeoutCause(ctx, askFor, held)
	defer cancel()
	c.trying, c.onlyFree = false, false
	e, err := c.acquire(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, held
	}
	return e, err
}

// mayAsk reports whether an entry that is kept for so long, 0 if it is not, may be asked for
// now: once in that time, since whoever has it may be using it all the time.
func (d *door) mayAsk(now, idle time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if idle == 0 || d.askedAt != 0 && now-d.askedAt < idle {
		return false
	}
	d.askedAt = now
	return true
}
