package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Detach ends an entry in this process, and marks its node: the holder of the ticket may attach
// to it. The node then has a lease of ttl. If the entry had already ended, Detach fails with the
// reason. The write continues in the background, over reconnects. The channel receives the outcome
// once:
//
//   - nil: the node was written;
//   - ErrRemoved or ErrWentSince: the node has gone;
//   - ErrTaken: another client has written the node;
//   - ErrBroken: the hold was force-released. Only then Detach deletes the node;
//   - any other error: the write was refused, or its outcome is unknown.
func (q *Queue) Detach(e *Entry, ttl time.Duration) (<-chan error, error) {
	return q.detach(e, ttl, e.Incarnation)
}

func (q *Queue) detach(e *Entry, ttl time.Duration, incarnation int32) (<-chan error, error) {
	end := func() {}
	if q.Tasks.Enter() { // before the entry ends, so that Close waits for the write
		end = q.Tasks.Leave
	}
	record, why := e.Entry.Detach(ttl, incarnation) // from here on the entry is not held in this process
	if why != nil {
		end()
		return nil, why
	}
	d := &detachment{Queue: q, e: e, record: record}
	d.version, d.acknowledged, d.pending = e.LastWrite()
	done := make(chan error, 1)
	go func() {
		defer end()
		ctx, cancel := context.WithTimeout(context.Background(), e.patience())
		defer cancel()
		err := q.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error { return d.attempt(ctx) })
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

// detachment is the state of the write that marks an entry as detached.
type detachment struct {
	*Queue
	e      *Entry
	record []byte

	version, acknowledged int32  // data version of the node: the probable one, and the last acknowledged
	pending               []byte // data of a renewal of unknown outcome; nil: none
	tried                 bool   // an attempt may have been applied
}

// ErrWentSince: the entry's node has gone, and the write of Detach may have been applied before. If
// it was, a client may have attached to the entry and unlocked it.
var ErrWentSince = errors.New("the reply was lost, and the entry is gone: a client attached to it and unlocked it, or it was removed")

// attempt sends the write once. Its error is for Retry.
func (d *detachment) attempt(ctx context.Context) error {
	_, err := d.Conn.Multi(ctx, &zk.SetDataRequest{Path: d.e.Path, Data: d.record, Version: d.version})
	d.tried = d.tried || zkconn.OutcomeOf(err) == zkconn.Ambiguous
	switch op, cause := zkconn.RefusedOp(err); {
	case op < 0:
		return err
	case errors.Is(cause, zk.ErrNoNode):
		return zkconn.Final(d.removed())
	case errors.Is(cause, zk.ErrNoAuth):
		return zkconn.Final(fmt.Errorf("%w: the lock's ACL does not let us", zkconn.ErrDenied))
	case !errors.Is(cause, zk.ErrBadVersion):
		return zkconn.Final(cause)
	}
	return d.resolveDetach(ctx)
}

// resolveDetach handles a version conflict: an earlier attempt, whose reply was lost, or a renewal
// may have been applied. Its error is for Retry.
func (d *detachment) resolveDetach(ctx context.Context) error {
	n, err := d.Conn.GetSynced(ctx, d.e.Path)
	found, _ := znode.DecodeRecord(n.Data)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return zkconn.Final(d.removed())
	case err != nil:
		return zkconn.Final(err)
	case bytes.Equal(n.Data, d.record), found.Detached && found.Incarnation == d.e.Incarnation:
		return nil // the reply was lost; another client may have attached since, and put the entry back
	case n.Stat.Version == d.acknowledged, d.pending != nil && bytes.Equal(n.Data, d.pending):
		d.version = n.Stat.Version
		return zkconn.ErrAgain
	}
	return zkconn.Final(d.e.OverwrittenBy(n.Data))
}

// removed returns the error for a missing node: ErrWentSince if an attempt may have been applied.
func (d *detachment) removed() error {
	if d.tried {
		return ErrWentSince
	}
	return lease.ErrRemoved
}
