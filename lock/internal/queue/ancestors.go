package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// LearnTime samples the leader's clock unless that was done, where it is not denied.
func (q *Queue) LearnTime(ctx context.Context) error {
	for !q.Clock.Known() {
		err := q.Clock.Sample(ctx)
		switch {
		case errors.Is(err, zkconn.ErrDenied):
			q.Log.Debug().Err(err).Msg("entries tell no expiry until their first renewal")
			return nil
		case errors.Is(err, zk.ErrNoNode):
			err = q.makeAncestors(ctx, q.Root+"/")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeAncestors makes the nodes above path that are missing, each marked as ours.
func (q *Queue) makeAncestors(ctx context.Context, path string) error {
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		if err := q.makeDir(ctx, path[:i]); err != nil {
			return err
		}
	}
	return nil
}

func (q *Queue) makeDir(ctx context.Context, path string) error {
	if _, err := q.Conn.Get(ctx, path); !errors.Is(err, zk.ErrNoNode) {
		if errors.Is(err, zk.ErrNoAuth) {
			return nil // it is there
		}
		return err
	}
	err := q.Conn.Retry(ctx, zkconn.Backoff{First: 20 * time.Millisecond, Most: time.Second}, func() error {
		_, err := q.Conn.Multi(ctx, nil, &zk.CreateRequest{
			Path: path, Data: znode.Parent{Kind: znode.Dir}.Encode(), Acl: q.parentACL,
		})
		return err
	})
	switch {
	case err == nil, errors.Is(err, zk.ErrNodeExists),
		errors.Is(err, zk.ErrNoNode): // its own parent was pruned meanwhile; the caller tries again
		return nil
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("%w: create %s: the ACL of the node above does not let us", zkconn.ErrDenied, path)
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return fmt.Errorf("%w: %s: the node above is ephemeral and cannot have children", ErrForeign, path)
	case zkconn.OutcomeOf(err) == zkconn.Refused && !errors.Is(err, zkconn.ErrClosed):
		return fmt.Errorf("create %s: %w", path, err)
	}
	return err
}
