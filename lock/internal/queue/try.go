package queue

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// askFor is how long a try waits for an entry that may be kept to be given back.
const askFor = 100 * time.Millisecond

// tryRide takes the lock without waiting for anybody. One that is kept is acquired at once, or is
// asked for where another process may keep it: then it is alone, as it is given back once others
// are there. Of one that is held nobody takes the place of those who ride.
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
	if !errors.As(err, &inTheWay) || inTheWay.Entry == nil || !c.alone || c.door.mayAsk(c.Clock.Mono(), inTheWay.Entry) != 0 {
		return e, err
	}
	return c.ask(ctx, err)
}

// ask joins, so that an entry that is kept is given back, and withdraws if it is not soon. That
// is an entry as any other: it lets nobody in before its turn.
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

// asking is when this process has asked for the entry in the way, which may be only kept.
type asking struct {
	at    time.Duration // monotonic time; 0: never
	entry int64         // Czxid of the one that is in the way now
	pause time.Duration // before it is asked for again, askAgain if that is longer
}

// askAgain is how long a process asks for no entry of a lock after it has asked for one.
const askAgain = time.Second

// mayAsk returns 0 if an entry in the way is to be asked for now, otherwise after how long it is
// to be, and a negative time if it is never kept. Nothing tells when one that was held is only
// kept, and whoever has it may be using it all the time: so the pause is doubled each time that
// the same entry is asked for, up to the time that it is kept for at most, or to its TTL, for
// which one waits for the dead too. A renewal is no news.
func (d *door) mayAsk(now time.Duration, e *znode.Entry) time.Duration {
	if e.Record.Idle == 0 {
		return -1
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a := &d.asked
	if a.entry != e.Stat.Czxid {
		a.entry, a.pause = e.Stat.Czxid, askAgain/2
	}
	if left := a.at + max(askAgain, a.pause) - now; a.at != 0 && left > 0 {
		return left
	}
	a.at, a.pause = now, min(2*a.pause, time.Duration(min(e.Record.Idle, e.Record.TTL))*time.Millisecond)
	return 0
}
