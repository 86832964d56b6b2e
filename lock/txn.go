package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
)

// MaxTxn is how big the operations of a [Hold.Txn] may be together: the bytes of their
// paths, data and ACLs, and 64 more for each. ZooKeeper cuts connections that send it about
// 1 MB at once, unless it is set to take less (jute.maxbuffer).
const MaxTxn = 768 << 10

// ErrInDoubt says that a [Hold.Txn] may have been applied, or may be for as long as the
// hold's entry is there. Any other error of it says that nothing was, nor will be.
var ErrInDoubt = lease.ErrInDoubt

// TxnError says which operation of a [Hold.Txn] ZooKeeper refused, and why. Nothing was
// applied. It is what Err is, such as [zk.ErrBadVersion], and if that is [zk.ErrNoAuth],
// an [ErrDenied] too.
type TxnError struct {
	Lock  string // name of the lock
	Index int    // of the operation among those given; the first is 0
	Path  string // of the operation
	Err   error  // ZooKeeper's answer
}

func (e *TxnError) Error() string {
	return fmt.Sprintf("lock %q: transaction not applied: operation %d, on %s, was refused: %v", e.Lock, e.Index, e.Path, e.Err)
}

// Is makes it an [ErrDenied] if an ACL forbids the operation.
func (e *TxnError) Is(target error) bool {
	return target == ErrDenied && errors.Is(e.Err, zk.ErrNoAuth)
}

// Unwrap returns ZooKeeper's answer.
func (e *TxnError) Unwrap() error { return e.Err }

// Txn writes to ZooKeeper as the holder, and only as that. It applies all operations in one
// transaction if the hold's entry still is where it was, ahead of all others, and nothing
// otherwise. So a holder that was paused, and acts after it lost the lock, changes nothing,
// and no token has to be compared.
//
// It is applied once or not at all. If the reply is lost, it is found out what came of it,
// and what was not applied is sent again. The errors:
//
//   - a [TxnError] if ZooKeeper refuses one of the operations;
//   - why the hold has ended, a [LostError] or [ErrUnlocked];
//   - [ErrInDoubt], beside what ended the call, if a reply was lost and the hold or ctx
//     ended before it was known what came of it. Look at what it writes once [Hold.Unlock]
//     of this handle has returned nil: then it is settled, also if the entry lives on. Or
//     after another Txn of the same hold, which waits for that;
//   - ctx's error and cause, or [ErrUnavailable], or [ErrClosed];
//   - [ErrInvalid] if there is no operation, one is the zero [Op], or a write is to change
//     something at or below the client's root, which is Holdfast's own; a create has
//     other flags than ephemeral and sequential; or they are bigger than [MaxTxn] together.
//
// Nothing was applied but for ErrInDoubt. What the operations return is not told, since it
// is lost with a reply: give nodes names of your own, and versions where you need them. A
// check of the [Hold.EntryPath] of another client's hold has the transaction depend on that
// entry, which outlives the hold if it is handed on.
//
// The transaction writes the hold's entry too, so that it renews the lease; that of a hold
// [WithoutRenewal] ends when it would have without. Transactions of one hold are made one
// after the other, in turn with renewals. They take one request each; one with an [OpHeld] takes
// more if the other hold's entry is written just then.
func (h *Hold) Txn(ctx context.Context, operations ...Op) error {
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
	refused := (*lease.RefusedError)(nil)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return &TxnError{Lock: e.Lock(), Index: refused.Op, Path: operations[refused.Op].path, Err: refused.Err}
	case errors.Is(err, zk.ErrNoAuth):
		err = fmt.Errorf("%w: the lock's ACL does not let us: %w", ErrDenied, err)
	case err == e.Err():
		return err // it says itself what it is about
	}
	return fmt.Errorf("lock %q: transaction: %w", e.Lock(), err)
}

// requests checks the operations, and returns what is sent.
func (h *Hold) requests(operations []Op) ([]any, error) {
	if len(operations) == 0 {
		return nil, invalid("operations", "[]", "must not be empty; Hold.Remaining and Hold.Extend tell whether the lock is held")
	}
	requests, size := make([]any, len(operations)), 0
	for i, op := range operations {
		check, which := h.checkOp, fmt.Sprintf("operation %d", i)
		if op.hold != nil {
			check = h.dependsOn
		}
		if err := check(which, op); err != nil {
			return nil, err
		}
		if requests[i] = op.request; op.hold != nil {
			requests[i] = &op.hold.e.Entry
		}
		size += op.size
	}
	if size > MaxTxn {
		return nil, invalid("operations", fmt.Sprintf("with %d bytes", size), "must not be bigger than %d together", MaxTxn)
	}
	return requests, nil
}

// dependsOn has the entry of another hold live no longer than that, so that a check of it is
// one of the hold.
func (h *Hold) dependsOn(which string, op Op) error {
	other := op.hold
	switch err := other.ended(); {
	case err != nil:
		return err
	case other.client != h.client:
		return invalid(which, "a hold of "+other.Name(), "must be of the same client")
	case other.e == h.e:
		return invalid(which, "a hold of "+other.Name(), "must be another hold than that of the transaction")
	}
	other.e.Pin() // it is not handed off
	if !other.t.alone() {
		return invalid(which, "a hold of "+other.Name(), "must not share its entry with other readers of this client: take it with WithLocalWindow(0)")
	}
	return other.Err() // it may have been handed off just before
}

func (h *Hold) checkOp(which string, op Op) error {
	root := h.client.cfg.root
	const flags = zk.FlagEphemeral | zk.FlagSequence
	_, reads := op.request.(*zk.CheckVersionRequest)
	path := fmt.Sprintf("on %.200q", op.path)
	switch {
	case op.request == nil:
		return invalid(which, "Op{}", "must be made by OpCreate, OpSet, OpDelete, OpCheck or OpHeld, the last of a hold that is not nil")
	case !strings.HasPrefix(op.path, "/"):
		return invalid(which, path, "the path must start with a slash")
	case op.path == h.e.Path:
		return invalid(which, path, "must not be on the hold's own entry, which each transaction checks anyway")
	case !reads && strings.HasPrefix(op.path+"/", root+"/"):
		return invalid(which, path, "must not write at or below the root of the locks, %s; only checks may be there", root)
	case reads && h.client.keeper.Keeps(op.path):
		return invalid(which, path, "must not be on an entry of this client, which may outlive its hold: use OpHeld instead")
	case op.flags&^flags != 0:
		return invalid(which, path, "flags %d must be 0, zk.FlagEphemeral, zk.FlagSequence or both", op.flags)
	}
	return nil
}
