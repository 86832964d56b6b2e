package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// Detach ends an entry in this process, and marks its node: the holder of the ticket may attach
// to it. The node then has a lease of ttl, and the incarnation. If the entry had already ended, Detach
// fails with the reason. The write continues in the background, over reconnects. The channel receives
// the outcome once:
//
//   - nil: the node was written; another client may have attached to it since;
//   - ErrRemoved or lease.ErrWentSince: the node has gone;
//   - ErrTaken: another client has written the node;
//   - ErrBroken: the hold was force-released. Only then Detach deletes the node;
//   - any other error: the write was refused, or its outcome is unknown.
func (q *Queue) Detach(e *Entry, ttl time.Duration, incarnation int32) (<-chan error, error) {
	end := func() {}
	if q.Tasks.Enter() { // before the entry ends, so that Close waits for the write
		end = q.Tasks.Leave
	}
	record, why := e.Entry.Detach(ttl, incarnation) // from here on the entry is not held in this process
	if why != nil {
		end()
		return nil, why
	}
	last := e.Last(record)
	done := make(chan error, 1)
	go func() {
		defer end()
		ctx, cancel := context.WithTimeout(context.Background(), e.patience())
		defer cancel()
		err := q.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
			_, err := q.Conn.Share(ctx, zkconn.Member{Ops: last.Ops(), Locks: []string{e.parent()}, Stays: true})
			if err != nil {
				err = last.Failed(ctx, err)
			}
			return err
		})
		switch {
		case errors.Is(err, lease.ErrRemoved), errors.Is(err, lease.ErrTaken):
			e.CheckParentLater()
		case errors.Is(err, lease.ErrBroken): // the client that broke it waits until it has gone
			e.Remove()
		case err != nil:
			err = fmt.Errorf("write %s: %w", e.Path, err)
		}
		done <- err
	}()
	return done, nil
}
