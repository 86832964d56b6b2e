package zkconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

// BatchBytes limits the requests of independent changes that share a transaction, in bytes. Every
// server accepts that much, unless its jute.maxbuffer is less than 42,000: by default it is 1 MB. A
// server cuts the connection of a client that sends more, which is an outage for all its locks.
// The renewals of 125 entries fit.
const BatchBytes = 40 << 10

// Multi waits for a session and sends a transaction once. ops are pointers to zk.CreateRequest,
// zk.DeleteRequest, zk.SetDataRequest or zk.CheckVersionRequest. The replies have the order of ops.
// If the server refused an operation, see [RefusedOp]; for other errors see [OutcomeOf]. Multi
// fails with [ErrUnsupported] if the server does not know transactions, or if a reply lacks results
// and no earlier reply was complete.
func (c *Conn) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	if err := c.Ready(ctx); err != nil {
		return nil, err
	}
	return call(ctx, c, func() ([]zk.MultiResponse, error) {
		replies, err := c.issue(ops)
		if err == nil {
			return replies, nil
		}
		if len(replies) == len(ops) {
			err = failure(ops, replies, err)
		}
		return nil, err
	})
}

// failure returns the error of a failed transaction. The operations before the failed one have no
// error; the operations after it have "unknown error: -2". An error that is no refusal, such as an
// ended session, applies to the whole transaction although the server reports it for the first
// operation. If the server reports an ended session for a later operation that creates an ephemeral
// node, the session is a local one, and the server refuses that operation.
func failure(ops []any, replies []zk.MultiResponse, err error) error {
	i := slices.IndexFunc(replies, func(r zk.MultiResponse) bool { return r.Error != nil })
	switch {
	case i < 0:
		return err
	case i > 0 && sessionEnded(replies[i].Error) && isEphemeral(ops[i]):
		return RefusedAt(i, errLocalSession)
	case classify(replies[i].Error) == Refused:
		return RefusedAt(i, named(replies[i].Error))
	}
	return replies[i].Error
}

func isEphemeral(op any) bool {
	create, ok := op.(*zk.CreateRequest)
	return ok && create.Flags&zk.FlagEphemeral != 0
}

// issue sends a transaction. A single delete or write is sent as a plain request, which costs the
// server less.
func (c *Conn) issue(ops []any) ([]zk.MultiResponse, error) {
	if len(ops) == 1 {
		var one zk.MultiResponse
		switch op := ops[0].(type) {
		case *zk.DeleteRequest:
			one.Error = c.zk.Delete(op.Path, op.Version)
			return []zk.MultiResponse{one}, one.Error
		case *zk.SetDataRequest:
			one.Stat, one.Error = c.zk.Set(op.Path, op.Data, op.Version)
			return []zk.MultiResponse{one}, one.Error
		}
	}
	replies, err := c.zk.Multi(ops...)
	if err == nil {
		err = fits(ops, replies)
	}
	return replies, c.supported(err, len(replies) == len(ops))
}

// supported returns err, the error of a transaction, or an ErrUnsupported if the server's
// transactions differ from ZooKeeper's since 3.4. complete: each of its operations has a result.
// Once there was a complete reply, an incomplete one leaves the outcome open, as a lost reply does.
func (c *Conn) supported(err error, complete bool) error {
	switch {
	case err == nil && complete:
		c.transacts.Store(true)
		return nil
	case err != nil && err.Error() == codeUnimplemented && !complete:
	case errors.As(err, new(*misfitError)), errors.Is(err, zk.ErrShortBuffer): // no results at all
		if c.transacts.Load() {
			return err
		}
	default:
		if complete {
			c.transacts.Store(true)
		}
		return err
	}
	return fmt.Errorf("%w: its reply to a transaction: %w; must be ZooKeeper %s or later", ErrUnsupported, err, oldest)
}

// misfitError describes a reply whose results do not fit the operations.
type misfitError struct{ what string }

func (e *misfitError) Error() string { return e.what }

func misfit(format string, args ...any) error { return &misfitError{fmt.Sprintf(format, args...)} }

// fits returns an error unless each operation has a result of its kind. After that error, which only
// a broken server causes, the outcome is unknown.
func fits(ops []any, replies []zk.MultiResponse) error {
	if len(replies) != len(ops) {
		return misfit("reply to %d operations has %d results", len(ops), len(replies))
	}
	for i, op := range ops {
		switch op := op.(type) {
		case *zk.CreateRequest:
			if !strings.HasPrefix(replies[i].String, op.Path) {
				return misfit("reply to the create of %q has the path %.200q", op.Path, replies[i].String)
			}
		case *zk.SetDataRequest:
			if replies[i].Stat == nil {
				return misfit("reply to the write of %q has no Stat", op.Path)
			}
		}
	}
	return nil
}
