package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// TxnError says which operation of a [Hold.Txn] ZooKeeper refused, and why. Nothing was applied.
// It matches Err, such as [zk.ErrBadVersion]. If Err is [zk.ErrNoAuth] it also matches
// [ErrDenied].
type TxnError struct {
	Lock  string // name of the lock
	Index int    // index of the operation; the first is 0
	Path  string // path of the operation
	Err   error  // ZooKeeper's answer
}

func (e *TxnError) Error() string {
	return fmt.Sprintf("lock %q: transaction not applied: operation %d, on %s, was refused: %v", e.Lock, e.Index, e.Path, e.Err)
}

// Is reports whether the target is [ErrDenied] and an ACL forbids the operation.
func (e *TxnError) Is(target error) bool {
	return target == ErrDenied && errors.Is(e.Err, zk.ErrNoAuth)
}

// Unwrap returns Err.
func (e *TxnError) Unwrap() error { return e.Err }

// Txn writes to ZooKeeper only while the hold lasts. It applies all operations in one transaction
// if the hold's entry is still there. Otherwise it applies none. So a paused holder that writes
// after it lost the lock changes nothing, and needs no token.
//
// The transaction is applied once or not at all. If the reply is lost, Txn finds out the outcome,
// and sends the transaction again if it was not applied. The errors:
//
//   - a [TxnError] if ZooKeeper refuses one of the operations;
//   - a [LostError] or [ErrUnlocked] if the hold has ended;
//   - [ErrInDoubt], with the error that ended the call, if a reply was lost and the hold or ctx
//     ended before the outcome was known. Once [Hold.Unlock] of this handle has returned nil, the
//     outcome is settled, even if the entry still exists: read the nodes then. You can also call
//     Txn of the same hold again, which first waits for the outcome, and then read the nodes;
//   - ctx's error and cause, or [ErrUnavailable], or [ErrClosed];
//   - [ErrInvalid] if there is no operation, one is the zero [Op], a write is at or below the
//     client's root (Holdfast's own nodes), a create has other flags than ephemeral and
//     sequential, or the total size exceeds [MaxTxn].
//
// With any error but ErrInDoubt nothing was applied. Txn does not return the operations' results,
// since a lost reply loses them. So choose node names yourself, and give versions if you need them.
// An [OpCheck] of the [Hold.EntryPath] of another client's hold makes the transaction depend on
// that entry, which outlives the hold if it is handed off locally.
//
// The transaction also writes the hold's entry, so it renews the lease. Transactions of one
// hold run one at a time, in turn with renewals. Each takes one request.
func (h *hold) Txn(ctx context.Context, operations ...Op) error {
	if err := h.check(ctx, "transaction by"); err != nil {
		return err
	}
	c, e := h.client, h.e
	requests, err := h.requests(operations)
	if err != nil {
		return err
	}
	bound, end, err := c.enter(ctx, "transaction by", e.Lock())
	if err != nil {
		return err
	}
	defer end()
	err = e.Txn(bound, &h.unlocked, requests)
	switch op, cause := zkconn.RefusedOp(err); {
	case err == nil:
		return nil
	case op >= 0:
		return &TxnError{Lock: e.Lock(), Index: op, Path: operations[op].path, Err: cause}
	case errors.Is(err, zk.ErrNoAuth):
		err = fmt.Errorf("%w: the lock's ACL does not let us: %w", ErrDenied, err)
	case err == e.Err():
		return h.t.own(err) // its text names the lock already
	}
	return zkconn.Reveal(fmt.Errorf("lock %q: transaction: %w", e.Lock(), err))
}

// requests checks the operations, and returns the requests to send.
func (h *hold) requests(operations []Op) ([]any, error) {
	if len(operations) == 0 {
		return nil, invalid("operations", "[]", "must not be empty; Hold.Remaining and Hold.Extend tell whether the lock is held")
	}
	requests, size := make([]any, len(operations)), 0
	for i, op := range operations {
		if err := h.checkOp(fmt.Sprintf("operation %d", i), op); err != nil {
			return nil, err
		}
		requests[i] = op.request
		size += op.size
	}
	if size > MaxTxn {
		return nil, invalid("operations", fmt.Sprintf("with %d bytes", size), "must not be bigger than %d together", MaxTxn)
	}
	return requests, nil
}

func (h *hold) checkOp(which string, op Op) error {
	root := h.client.cfg.root
	const flags = zk.FlagEphemeral | zk.FlagSequence
	_, reads := op.request.(*zk.CheckVersionRequest)
	path := fmt.Sprintf("on %.200q", op.path)
	switch {
	case op.request == nil:
		return invalid(which, "Op{}", "must be made by OpCreate, OpSet, OpDelete or OpCheck")
	case !strings.HasPrefix(op.path, "/"):
		return invalid(which, path, "the path must start with a slash")
	case op.path == h.e.Path:
		return invalid(which, path, "must not be on the hold's own entry, which each transaction checks anyway")
	case !reads && strings.HasPrefix(op.path+"/", root+"/"):
		return invalid(which, path, "must not write at or below the root of the locks, %s; only checks may be there", root)
	case reads && h.client.keeper.Keeps(op.path):
		return invalid(which, path, "must not be on an entry of this client, which may outlive its hold")
	case op.flags&^flags != 0:
		return invalid(which, path, "flags %d must be 0, zk.FlagEphemeral, zk.FlagSequence or both", op.flags)
	}
	return nil
}

// Op is an operation of a [Hold.Txn]. Make it with [OpCreate], [OpSet], [OpDelete] or
// [OpCheck]. An Op does not change, and has copies of the given data and ACL. It can be part of any
// number of transactions.
type Op struct {
	request any // the request to send; nil in the zero Op
	path    string
	size    int   // size in bytes, as MaxTxn counts
	flags   int32 // flags of an OpCreate
}

// OpCreate creates a node. Its flags are 0, [zk.FlagEphemeral], [zk.FlagSequence], or both.
func OpCreate(path string, data []byte, flags int32, acl []zk.ACL) Op {
	r := &zk.CreateRequest{Path: path, Data: slices.Clone(data), Acl: slices.Clone(acl), Flags: flags}
	op := newOp(r, path, data)
	op.flags = flags
	for _, a := range acl {
		op.size += len(a.Scheme) + len(a.ID) + 12
	}
	return op
}

// OpSet sets a node's data. The transaction is refused unless the node exists with that version; -1
// means any version.
func OpSet(path string, data []byte, version int32) Op {
	return newOp(&zk.SetDataRequest{Path: path, Data: slices.Clone(data), Version: version}, path, data)
}

// OpDelete deletes a node. The transaction is refused unless the node exists with that version, and
// has no children; version -1 means any version.
func OpDelete(path string, version int32) Op {
	return newOp(&zk.DeleteRequest{Path: path, Version: version}, path, nil)
}

// OpCheck changes nothing. The transaction is refused unless the node exists with that version;
// -1 means any version.
func OpCheck(path string, version int32) Op {
	return newOp(&zk.CheckVersionRequest{Path: path, Version: version}, path, nil)
}

func newOp(request any, path string, data []byte) Op {
	return Op{request: request, path: path, size: len(path) + len(data) + 64}
}
