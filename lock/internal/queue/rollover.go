package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// rollover waits until a parent whose counter is at its end has been deleted: the next parent
// counts from 0 again. The contender's entry e leaves first; nil: it has none. The generation is
// that of the parent. rollover purges expired entries; if there are no contenders, it
// deletes the parent. A try does not wait: if there are contenders after one purge, or the first
// attempt to delete the parent changes nothing, it fails with a Blocked. If there are other nodes below
// the parent, it fails with ErrExhausted. The wait also ends if another client or program has created
// the parent again, or has written other data there.
func (j *joiner) rollover(ctx context.Context, e *Entry, generation string) error {
	j.Log.Info().Str("lock", j.Lock).Msg("the lock's counter is at its end; waiting until all contenders have left")
	if e != nil && (!j.trying || j.Leave(ctx, e) != nil) {
		e.Remove()
	}
	for purged, deleted := false, false; ; purged = true {
		n, changed, err := j.Conn.Watch(ctx, j.parent)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			j.lock.believe(j.noParent())
			return nil
		case errors.Is(err, zk.ErrNoAuth):
			return denied("read", j.parent)
		case err != nil:
			return err
		}
		if znode.ReadNode(n.Data, znode.Stat(*n.Stat)).Generation != generation {
			j.lock.believe(parent{state: unknown})
			return nil
		}
		names, err := j.list(ctx, false)
		if err != nil {
			return err
		}
		if err := j.checkBelow(ctx, n, len(names)); err != nil {
			return err
		}
		if j.trying && (deleted || purged && len(names) > 0) {
			return &Blocked{Path: j.parent}
		}
		deleted = len(names) == 0
		switch {
		case deleted:
			if err := j.deleteSpentParent(ctx, n); errors.Is(err, zkconn.ErrDenied) || zkconn.OutcomeOf(err) == zkconn.Refused {
				return err
			}
		default:
			if _, err := j.purgeAmong(ctx, names[:min(len(names), j.purgeBatch())]); err != nil {
				j.Log.Debug().Err(err).Str("lock", j.Lock).Msg("the lock's counter is at its end and there are contenders; retrying")
			}
		}
		if j.trying {
			continue
		}
		if err := await(ctx, changed, pollEvery); err != nil {
			return err
		}
	}
}

// checkBelow fails with ErrExhausted if the parent n, whose counter is at its end, has children that
// are neither contenders nor anchors: such a parent cannot be deleted, and its counter never restarts.
func (j *joiner) checkBelow(ctx context.Context, n zkconn.Node, contenders int) error {
	if int(n.Stat.NumChildren) <= contenders+1 {
		return nil
	}
	children, _, err := j.Conn.Children(ctx, j.parent)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	below := slices.DeleteFunc(children, func(child string) bool {
		_, contender := znode.Parse(child)
		_, anchor := znode.AnchorOf(child)
		return contender || anchor
	})
	if len(below) == 0 {
		return nil
	}
	slices.Sort(below)
	const named = 3
	names := strings.Join(below[:min(len(below), named)], ", ")
	if len(below) > named {
		names += ", ..."
	}
	return fmt.Errorf("%w: %s cannot be deleted, because of the nodes below it: %s; end the use of the locks there, delete what is left of them, or use another name",
		ErrExhausted, j.parent, names)
}

// deleteSpentParent deletes a parent whose counter is at its end, on the version that was read,
// unless the parent must stay. It returns nil, too, if the parent has changed since the read.
func (j *joiner) deleteSpentParent(ctx context.Context, n zkconn.Node) error {
	ops := parentDeletion(j.parent, n, true)
	if ops == nil {
		return nil
	}
	_, err := j.send(ctx, ops...)
	switch _, cause := zkconn.RefusedOp(err); {
	case errors.Is(cause, zk.ErrNoNode), errors.Is(cause, zk.ErrNotEmpty), errors.Is(cause, zk.ErrBadVersion):
		return nil
	case errors.Is(cause, zk.ErrNoAuth):
		return fmt.Errorf("%w: delete %s, whose counter is at its end: the ACL of the node above does not let us", zkconn.ErrDenied, j.parent)
	}
	return err
}
