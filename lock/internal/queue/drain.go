package queue

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// drain withdraws an entry that came near the end of the parent's counter, and
// waits until the parent was deleted, so that the count starts at 0 again. Those
// who died there nobody follows any more: they are looked at again and again.
func (c *contender) drain(ctx context.Context, e *Entry) error {
	c.Log.Info().Str("lock", c.Lock).Str("entry", e.Path).Msg("the lock's counter is near its end: waiting until all have left and it starts anew")
	e.Withdraw()
	if err := c.takeLeave(ctx, e); err != nil {
		return err
	}
	for {
		n, changed, err := c.Conn.Watch(ctx, c.parent)
		if errors.Is(err, zk.ErrNoNode) {
			c.door.missed()
			return nil
		}
		if err != nil {
			return err
		}
		if n.Stat.NumChildren == 0 {
			c.tidyParent(ctx, c.door, c.parent, e.keepParent, true) // or the next time
		} else if err := c.purgeTail(ctx, e); err != nil {
			c.Log.Debug().Err(err).Str("lock", c.Lock).Msg("the lock's counter is near its end and somebody is there still; looking again")
		}
		if err := await(ctx, changed, pollEvery); err != nil {
			return err
		}
	}
}
