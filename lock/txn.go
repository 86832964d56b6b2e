package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	Lock string // name of the lock
	Op   int    // place of the operation among those given; the first is 0
	Path string // of the operation
	Err  error  // ZooKeeper's answer
}

func (e *TxnError) Error() string {
	return fmt.Sprintf("lock %q: transaction not applied: operation %d, on %s, was refused: %v", e.Lock, e.Op, e.Path, e.Err)
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
// and no token has to be compared. Operations are what [zk.Conn.Multi] takes:
// *[zk.CreateRequest], *[zk.SetDataRequest], *[zk.DeleteRequest] and
// *[zk.CheckVersionRequest]. Another hold of the same client, a *[Hold], is one too: nothing
// is applied unless it is held.
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
//   - [ErrInvalid] if there is no operation, one is nil or of another type, or a write is
//     to change something at or below the client's root, which is Holdfast's own; a
//     create has other flags than ephemeral and sequential; or they are bigger than
//     [MaxTxn] together.
//
// Nothing was applied but for ErrInDoubt. What the operations return is not told, since it
// is lost with a reply: give nodes names of your own, and versions where you need them. A
// check of the [Hold.EntryPath] of another client's hold has the transaction depend on that
// entry, which outlives the hold if it is handed on. A hold among the operations is not handed
// off within its client any more; it must not be that of a reader that shares its entry with
// others ([WithLocalWindow]).
//
// The transaction writes the hold's entry too, so that it renews the lease; that of a hold
// [WithoutRenewal] ends when it would have without. Transactions of one hold are made one
// after the other, in turn with renewals. They take one request each.
func (h *Hold) Txn(ctx context.Context, operations ...any) error {
	if err := h.check(ctx, "transaction by"); err != nil {
		return err
	}
	c, e := h.client, h.e
	ops, paths, err := h.checkOperations(operations)
	if err != nil {
		return err
	}
	bound, end, err := c.enter(ctx, "transaction by", e.Lock())
	if err != nil {
		return err
	}
	defer end()
	err = e.Txn(bound, &h.unlocked, ops)
	refused := (*lease.RefusedError)(nil)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return &TxnError{Lock: e.Lock(), Op: refused.Op, Path: paths[refused.Op], Err: refused.Err}
	case errors.Is(err, zk.ErrNoAuth):
		err = fmt.Errorf("%w: the lock's ACL does not let us: %w", ErrDenied, err)
	case err == e.Err():
		return err // it says itself what it is about
	}
	return fmt.Errorf("lock %q: transaction: %w", e.Lock(), err)
}

// checkOperations returns copies of the operations, as they are sent, and their paths.
func (h *Hold) checkOperations(operations []any) (ops []any, paths []string, err error) {
	if len(operations) == 0 {
		return nil, nil, invalid("operations", "[]", "must not be empty; Hold.Valid and Hold.Extend tell whether the lock is held")
	}
	size := 0
	for i, o := range operations {
		which := fmt.Sprintf("operation %d", i)
		op := copyOperation(o)
		if other, ok := o.(*Hold); ok {
			if err := h.dependsOn(which, other); err != nil {
				return nil, nil, err
			}
			check := &zk.CheckVersionRequest{Path: other.e.Path, Version: -1}
			op = operation{request: check, path: check.Path, size: len(check.Path) + 64}
		} else if err := h.checkOperation(which, o, op); err != nil {
			return nil, nil, err
		}
		ops, paths, size = append(ops, op.request), append(paths, op.path), size+op.size
	}
	if size > MaxTxn {
		return nil, nil, invalid("operations", fmt.Sprintf("with %d bytes", size), "must not be bigger than %d together", MaxTxn)
	}
	return ops, paths, nil
}

// dependsOn has the entry of another hold live no longer than that, so that a check of it is
// one of the hold.
func (h *Hold) dependsOn(which string, other *Hold) error {
	switch err := other.Err(); {
	case err != nil:
		return err
	case other.unlocked.Load():
		return ErrUnlocked
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

// operation is one of a transaction.
type operation struct {
	request any // a copy of the caller's; nil: of no type that there is
	path    string
	size    int
	flags   int32 // of a create
}

func copyOperation(o any) operation {
	size := func(path string, data []byte) int { return len(path) + len(data) + 64 }
	switch o := o.(type) {
	case *zk.CreateRequest:
		if o != nil {
			c := &zk.CreateRequest{Path: o.Path, Data: slices.Clone(o.Data), Acl: slices.Clone(o.Acl), Flags: o.Flags}
			op := operation{c, c.Path, size(c.Path, c.Data), c.Flags}
			for _, acl := range c.Acl {
				op.size += len(acl.Scheme) + len(acl.ID) + 12
			}
			return op
		}
	case *zk.SetDataRequest:
		if o != nil {
			c := &zk.SetDataRequest{Path: o.Path, Data: slices.Clone(o.Data), Version: o.Version}
			return operation{c, c.Path, size(c.Path, c.Data), 0}
		}
	case *zk.DeleteRequest:
		if o != nil {
			c := *o
			return operation{&c, c.Path, size(c.Path, nil), 0}
		}
	case *zk.CheckVersionRequest:
		if o != nil {
			c := *o
			return operation{&c, c.Path, size(c.Path, nil), 0}
		}
	}
	return operation{}
}

func (h *Hold) checkOperation(which string, given any, op operation) error {
	root := h.client.cfg.root
	const flags = zk.FlagEphemeral | zk.FlagSequence
	_, reads := op.request.(*zk.CheckVersionRequest)
	path := fmt.Sprintf("on %.200q", op.path)
	switch {
	case op.request == nil:
		return invalid(which, fmt.Sprintf("%T(%.100v)", given, given),
			"must be a *zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest, *zk.CheckVersionRequest or *Hold, and not nil")
	case !strings.HasPrefix(op.path, "/"):
		return invalid(which, path, "the path must start with a slash")
	case op.path == h.e.Path:
		return invalid(which, path, "must not be on the hold's own entry, which each transaction checks anyway")
	case !reads && strings.HasPrefix(op.path+"/", root+"/"):
		return invalid(which, path, "must not write at or below the root of the locks, %s; only checks may be there", root)
	case reads && h.client.keeper.Keeps(op.path):
		return invalid(which, path, "must not be on an entry of this client, which may outlive its hold: name the *Hold instead")
	case op.flags&^flags != 0:
		return invalid(which, path, "flags %d must be 0, zk.FlagEphemeral, zk.FlagSequence or both", op.flags)
	}
	return nil
}
