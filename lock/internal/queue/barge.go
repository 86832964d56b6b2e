package queue

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Barge takes the lock when it finds it free. It has no place in the queue: of those who
// barge the lock goes to whoever asks first once it has become free. Those who queue go
// before, since while they are there the lock is not free. It fails as Acquire does.
//
// Of the contenders of one process that barge for one lock only one is at it; the others
// wait for that one, and make no requests.
func (q *Queue) Barge(ctx context.Context, r Request) (*Entry, error) {
	return q.contend(ctx, r, (*contender).barge)
}

func (c *contender) barge(ctx context.Context) (*Entry, error) {
	if err := c.lockBarging(ctx); err != nil {
		return nil, err
	}
	defer c.door.unlockBarging()
	c.onlyFree = true
	for {
		e, err := c.tryJoined(ctx)
		var inTheWay *Blocked
		switch {
		case errors.Is(err, lease.ErrGone):
		case errors.As(err, &inTheWay):
			c.Waits(&c.Request)
			err := c.awaitFree(ctx)
			if errors.Is(err, errKept) {
				if e, err = c.ask(ctx, errKept); err == nil {
					return e, nil
				}
				c.trying, c.onlyFree = false, true
			}
			if err != nil && !errors.Is(err, errKept) {
				return nil, err
			}
		default:
			return e, err
		}
	}
}

// awaitFree waits until the last of those in the way has gone. If it has expired, or what
// is there is no contender, the next try is to join though the lock is not free: to purge
// takes an entry of our own, and tells who else is there.
func (c *contender) awaitFree(ctx context.Context) error {
	names, _, err := c.contenders(ctx, false)
	if err != nil {
		return err
	}
	c.alone = len(names) == 1
	if blockers := c.blockers(names); len(blockers) > 0 {
		c.onlyFree, err = c.outlive(ctx, blockers[len(blockers)-1])
		return err
	}
	if !c.onlyFree { // that did not help
		return pause(ctx, pollEvery)
	}
	c.onlyFree = false
	return nil
}

// errKept says that who is in the way may be an entry that nobody has: it is given back to who
// joins, and not to who waits beside the queue.
var errKept = errors.New("the entry in the way may only be kept")

// outlive waits until a contender has gone, or has expired.
func (c *contender) outlive(ctx context.Context, n znode.Name) (gone bool, err error) {
	path := c.parent + "/" + n.Node
	for {
		read, changed, err := c.Conn.Watch(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return true, nil
		case errors.Is(err, zk.ErrNoAuth):
			c.lastBlocker = &Blocked{Path: path}
			return true, pause(ctx, pollEvery)
		case err != nil:
			return false, err
		}
		seen := znode.ReadEntry(n, read.Data, znode.Stat(*read.Stat))
		c.outlived = c.observed(c.outlived, seen)
		c.lastBlocker = &Blocked{Path: path, Entry: &seen}
		knew := c.Clock.Now()
		switch verdict, wait := c.judge(c.outlived, knew); verdict {
		case znode.Expired:
			return false, nil
		case znode.Unproven:
			err := c.Clock.Prove(ctx, knew, seen.Stat.Mzxid)
			if errors.Is(err, zkconn.ErrDenied) || errors.Is(err, zk.ErrNoNode) {
				err = pause(ctx, pollEvery) // our own observation will tell
			}
			if err != nil {
				return false, err
			}
		case znode.Live:
			if c.alone || seen.Granted() {
				ask := c.door.mayAsk(c.Clock.Mono(), &seen)
				if ask == 0 {
					return false, errKept
				} else if ask > 0 && (wait < 0 || ask < wait) {
					wait = ask
				}
			}
			if err := await(ctx, changed, wait); err != nil {
				return false, err
			}
		}
	}
}

// lockBarging waits for the turn among those of this process that barge.
func (c *contender) lockBarging(ctx context.Context) error {
	d := c.door
	d.mu.Lock()
	if d.barging == nil {
		d.barging = make(chan struct{}, 1)
	}
	turn := d.barging
	d.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return nil
	default:
		c.Waits(&c.Request)
	}
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return zkconn.ContextError(ctx)
	}
}

func (d *door) unlockBarging() { <-d.barging }
