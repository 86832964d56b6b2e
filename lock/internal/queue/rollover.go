package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// rollover waits until a parent whose counter is at its end has been deleted: the next parent
// counts from 0 again. The contender's entry e leaves first; nil: it has none. The generation is
// that of the parent; "": unknown. rollover purges expired entries; if there are no contenders, it
// deletes the parent. A try does not wait: if there are contenders after one purge, or the first
// attempt to delete the parent changes nothing, it fails with a Blocked. The wait also ends if
// another client or program has created the parent again, or if the parent is not adopted yet.
func (j *joiner) rollover(ctx context.Context, e *Entry, generation string) error {
	j.Log.Info().Str("lock", j.Lock).Msg("the lock's counter is at its end; waiting until all contenders have left")
	if e != nil && (!j.trying || j.Leave(ctx, e) != nil) {
		e.Remove()
	}
	seen := map[string]*sighting{}
	var czxid int64 // of the parent at the last read; 0: none yet
	for purged, deleted := false, false; ; purged = true {
		n, changed, err := j.Conn.Watch(ctx, j.parent)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			j.lock.believe(j.noParent())
			return nil
		case errors.Is(err, zk.ErrNoAuth):
			return fmt.Errorf("%w: read %s: its ACL does not let us", zkconn.ErrDenied, j.parent)
		case err != nil:
			return err
		}
		now := znode.ReadNode(n.Data, znode.Stat(*n.Stat)).Generation
		if czxid != 0 && n.Stat.Czxid != czxid || generation != "" && now != generation {
			j.lock.believe(parent{state: unknown})
			return nil
		}
		czxid = n.Stat.Czxid
		names, err := j.list(ctx, false)
		if err != nil {
			return err
		}
		if j.trying && (deleted || purged && len(names) > 0) {
			return &Blocked{Path: j.parent}
		}
		deleted = len(names) == 0
		switch {
		case deleted && now == "":
			j.lock.believe(parent{state: unknown}) // the next join claims the parent
			return nil
		case deleted:
			if err := j.deleteSpentParent(ctx, n); errors.Is(err, zkconn.ErrDenied) || zkconn.OutcomeOf(err) == zkconn.Refused {
				return err
			}
		default:
			if err := j.purgeAmong(ctx, names, seen); err != nil {
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
