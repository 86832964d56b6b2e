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
	record []byte // nil: the node is deleted

	version, acknowledged int32  // data version of the node: the probable one, and the last acknowledged
	pending               []byte // data of a write of unknown outcome; nil: none
	tried                 bool   // an attempt may have been applied
	at                    int    // index of the write in the last attempt
}

// Last returns the last write of an ended entry's node: the record of a detach, or the delete if
// record is nil.
//
// The version counts one write in flight: the requests of a session are served in order, so that
// write is applied before. No other version is guessed.
func (e *Entry) Last(record []byte) Last {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := Last{e: e, record: record, version: e.version, acknowledged: e.version}
	if e.writing != nil {
		w.version, w.pending = e.version+1, e.writing.data
	}
	return w
}

// Ops returns the operations for the next attempt: the write of the node after the operations before.
// The caller may append further ones.
func (w *Last) Ops(before ...any) []any {
	w.at = len(before)
	if w.record == nil {
		return append(before, &zk.DeleteRequest{Path: w.e.Path, Version: w.version})
	}
	return append(before, &zk.SetDataRequest{Path: w.e.Path, Data: w.record, Version: w.version})
}

// Failed handles the error of an attempt, and returns the error for [zkconn.Conn.Retry]; nil if the
// node is as it should be, by an earlier attempt. If the server refused another operation than the
// write of the node, that is its answer. Otherwise the errors are
//
//   - ErrRemoved if the node has gone. A delete succeeds then if the reply to an attempt was lost, or
//     the lease has ended since the unlock; but not if the lease may have ended before. A detach
//     fails with ErrWentSince if a reply was lost;
//   - the reason of [Terms.OverwrittenBy] if another client has written the node. After a
//     force-release the node is still deleted, because the other client waits for that. A detach
//     whose reply was lost succeeds if another client has attached to the entry since;
//   - zkconn.ErrDenied if the ACL forbids the write;
//   - any other answer of the server, or error of the connection.
func (w *Last) Failed(ctx context.Context, err error) error {
	w.tried = w.tried || zkconn.OutcomeOf(err) == zkconn.Ambiguous
	switch op, cause := zkconn.RefusedOp(err); {
	case op != w.at:
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
	n, foreign, err := readBack(ctx, w.e.keeper.Conn, w.e, func(n zkconn.Node) bool {
		return n.Stat.Version == w.acknowledged || w.pending != nil && bytes.Equal(n.Data, w.pending)
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		w.tried = w.tried || w.record == nil
		return w.missing()
	case err != nil:
		return zkconn.Final(err)
	case w.record != nil && w.isDetached(n.Data):
		return nil
	case foreign == nil, w.record == nil && errors.Is(foreign, ErrBroken):
		w.version = n.Stat.Version
		return zkconn.ErrAgain
	}
	return zkconn.Final(foreign)
}

// isDetached reports whether the data show that the entry was detached. Another client may have
// attached since, even if it has put the entry back or has force-released its own hold.
func (w *Last) isDetached(data []byte) bool {
	found, err := znode.DecodeRecord(data)
	written, _ := znode.DecodeRecord(w.record)
	attached := found.Incarnation > written.Incarnation && found.Attachment != "" && found.Attachment != w.e.Attachment
	return bytes.Equal(data, w.record) || err == nil && (found.Detached && found.Incarnation == w.e.Incarnation || w.tried && attached)
}

// ErrWritten: the node of an entry was written since this client has read it.
var ErrWritten = errors.New("the entry has been written meanwhile")

// Attach makes e, a new Entry, the owner of a node that this client has read at that data version: it
// writes the record of the terms t. The lease counts from the first attempt. ctx ends the wait for a
// session, and further attempts; the outcome of a send is awaited. The errors are
//
//   - ErrWritten if the node has another version;
//   - ErrBroken if the attach succeeded, and another client has force-released the hold since. e is set
//     up, and has not ended;
//   - otherwise the server's answer, or the error of the connection.
//
// Attach writes the node twice. The previous owner may have a renewal in doubt, and may write or delete
// the node on the version after that renewal. The version of this client's write must be a later one.
func (e *Entry) Attach(ctx context.Context, k *Keeper, owner Owner, path string, t Terms, g Grant, version int32) error {
	first := k.Clock.Local()
	e.Init(k, owner, path, t, Created{Sent: first, Grant: g})
	r := k.Record(&t, t.TTL, g, first)
	record := r.Encode()
	var broken error
	err := k.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		if err := k.Conn.Ready(ctx); err != nil {
			return err
		}
		sent := k.Clock.Local()
		e.session = k.Conn.Session()
		replies, err := k.Conn.Multi(context.Background(),
			&zk.SetDataRequest{Path: path, Data: record, Version: version},
			&zk.SetDataRequest{Path: path, Data: record, Version: version + 1})
		op, cause := zkconn.RefusedOp(err)
		switch {
		case err == nil:
			stat := replies[1].Stat
			e.version, e.zxid = stat.Version, stat.Mzxid
			k.Clock.Observe(stat.Mzxid, stat.Mtime, sent, k.Clock.Local())
			return nil
		case op < 0:
			return err
		case !errors.Is(cause, zk.ErrBadVersion):
			return zkconn.Final(fmt.Errorf("write %s: %w", path, cause))
		}
		// No other client writes the same record: Attachment is random. A force-release keeps it.
		n, foreign, err := readBack(ctx, k.Conn, e, func(n zkconn.Node) bool { return bytes.Equal(n.Data, record) })
		switch {
		case err != nil:
			return zkconn.Final(err)
		case foreign != nil && !errors.Is(foreign, ErrBroken):
			return zkconn.Final(ErrWritten)
		}
		e.version, e.zxid, broken = n.Stat.Version, n.Stat.Mzxid, foreign
		return nil
	})
	if err == nil {
		err = broken
	}
	return err
}

// DeleteIf deletes a node on the version that a read has shown, if mayGo accepts the node. If the node
// is missing or written meanwhile, DeleteIf reads it again, or succeeds. It retries until ctx ends.
func DeleteIf(ctx context.Context, conn *zkconn.Conn, path string, mayGo func(zkconn.Node) bool) error {
	return conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		n, err := conn.GetSynced(ctx, path)
		if errors.Is(err, zk.ErrNoNode) || err == nil && !mayGo(n) {
			return nil
		} else if err != nil {
			return err
		}
		_, err = conn.Multi(ctx, &zk.DeleteRequest{Path: path, Version: n.Stat.Version})
		if _, cause := zkconn.RefusedOp(err); errors.Is(cause, zk.ErrNoNode) || errors.Is(cause, zk.ErrBadVersion) {
			return zkconn.ErrAgain
		}
		return err
	})
}
