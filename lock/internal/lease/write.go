package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// ErrWentSince: the entry's node has gone, and the write of a detach may have been applied before.
// If it was, a client may have attached to the entry and unlocked it.
var ErrWentSince = errors.New("the reply was lost, and the entry is gone: a client attached to it and unlocked it, or it was removed")

// Last is the last write of an ended entry's node: the delete, or the record of a detached entry.
// Package queue says which operations share the transaction. Last says on which version the node is
// written, and what the server's answer means. Its methods must not be called concurrently.
type Last struct {
	e      *Entry
	conn   *zkconn.Conn
	record []byte // nil: the node is deleted

	version, acknowledged int32  // data version of the node: the probable one, and the last acknowledged
	pending               []byte // data of a write of unknown outcome; nil: none
	tried                 bool   // an attempt may have been applied
}

// Last returns the last write of an ended entry's node: the record of a detach, or the delete if
// record is nil.
//
// The version counts one write in flight: the requests of a session are served in order, so that
// write is applied before. No other version is guessed.
func (e *Entry) Last(conn *zkconn.Conn, record []byte) Last {
	w := Last{e: e, conn: conn, record: record}
	w.version, w.acknowledged, w.pending = e.lastWrite()
	return w
}

// Op returns the operation for the next attempt. It must be the first of its transaction.
func (w *Last) Op() any {
	if w.record == nil {
		return &zk.DeleteRequest{Path: w.e.Path, Version: w.version}
	}
	return &zk.SetDataRequest{Path: w.e.Path, Data: w.record, Version: w.version}
}

// Failed handles the error of an attempt, and returns the error for [zkconn.Conn.Retry]; nil if the
// node is as it should be, by an earlier attempt. The errors are
//
//   - ErrRemoved if the node has gone. A delete succeeds then if the reply to an attempt was lost, or
//     the lease has ended since the unlock; but not if the lease may have ended before. A detach
//     fails with ErrWentSince if a reply was lost;
//   - the reason of [Terms.OverwrittenBy] if another client has written the node. After a
//     force-release the node is still deleted, because the other client waits for that;
//   - zkconn.ErrDenied if the ACL forbids the write;
//   - any other answer of the server, or error of the connection.
func (w *Last) Failed(ctx context.Context, err error) error {
	w.tried = w.tried || zkconn.OutcomeOf(err) == zkconn.Ambiguous
	switch op, cause := zkconn.RefusedOp(err); {
	case op != 0:
		return err
	case errors.Is(cause, zk.ErrNoNode):
		return w.missing()
	case errors.Is(cause, zk.ErrNoAuth):
		return zkconn.Final(fmt.Errorf("%w: the lock's ACL does not let us", zkconn.ErrDenied))
	case !errors.Is(cause, zk.ErrBadVersion):
		return zkconn.Final(cause)
	}
	return w.resolve(ctx)
}

// missing returns the error for a missing node.
func (w *Last) missing() error {
	switch {
	case w.record == nil && !w.e.Lapsed() && (w.tried || w.e.IsOver()):
		return nil
	case w.record != nil && w.tried:
		return zkconn.Final(ErrWentSince)
	}
	return zkconn.Final(ErrRemoved)
}

// resolve reads a node whose version is another one: an earlier attempt or an earlier write of this
// client was applied, or another client has written the node. Its error is for Retry.
func (w *Last) resolve(ctx context.Context) error {
	n, err := w.conn.GetSynced(ctx, w.e.Path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		w.tried = w.tried || w.record == nil
		return w.missing()
	case err != nil:
		return zkconn.Final(err)
	case w.record != nil && w.isDetached(n.Data):
		return nil
	case n.Stat.Version == w.acknowledged, w.pending != nil && bytes.Equal(n.Data, w.pending):
		w.version = n.Stat.Version
		return zkconn.ErrAgain
	}
	why := w.e.OverwrittenBy(n.Data)
	if w.record == nil && errors.Is(why, ErrBroken) {
		w.version = n.Stat.Version
		return zkconn.ErrAgain
	}
	return zkconn.Final(why)
}

// isDetached reports whether the data show that the entry was detached. Another client may have
// attached since, and put the entry back.
func (w *Last) isDetached(data []byte) bool {
	found, _ := znode.DecodeRecord(data)
	return bytes.Equal(data, w.record) || found.Detached && found.Incarnation == w.e.Incarnation
}

// lastWrite returns the probable version of the node, the version of the last acknowledged write,
// and the bytes of a write in flight or in doubt, or nil.
func (e *Entry) lastWrite() (probable, acknowledged int32, pending []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.writing == nil {
		return e.version, e.version, nil
	}
	return e.version + 1, e.version, e.writing.data
}

// resolve reads the node of an entry whose write the server has refused because of the version. If
// the node has the bytes inDoubt, unless nil, it returns the node: the write was applied. If not, or
// if the node has gone, it ends the entry.
func (e *Entry) resolve(ctx context.Context, inDoubt []byte) (n zkconn.Node, applied bool, err error) {
	n, err = e.keeper.conn.GetSynced(ctx, e.Path) // in a new session the server may lag behind this client's write
	switch {
	case errors.Is(err, zk.ErrNoNode):
		e.Vanished()
		return n, false, nil
	case err != nil:
		return n, false, err
	case inDoubt == nil || !bytes.Equal(n.Data, inDoubt):
		e.writtenBy(n.Data)
		return n, false, nil
	}
	return n, true, nil
}
