package zkconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

// Multi runs a transaction of creates, deletes, writes and checks (zk.CreateRequest
// and so on, as pointers). When the server refused one of them, see [RefusedOp];
// otherwise see [OutcomeOf]. It is tried once. It fails with [ErrUnsupported] where the
// server knows no transactions, or the very first reply to one lacks the results.
//
// late, unless nil, is called with what came of a call that was abandoned, once, and
// before Close's wait for calls in flight ends.
func (c *Conn) Multi(ctx context.Context, late func([]zk.MultiResponse, error), ops ...any) ([]zk.MultiResponse, error) {
	if err := c.Ready(ctx); err != nil {
		return nil, err
	}
	return call(ctx, c, func() ([]zk.MultiResponse, error) {
		replies, err := c.issue(ops)
		if err == nil {
			return replies, nil
		}
		if len(replies) == len(ops) {
			err = failure(replies, err)
		}
		return nil, err
	}, late)
}

// failure is the error of a transaction that failed. The operations before the one that
// did carry none, those after it "unknown error: -2". What is no refusal of that operation,
// as that the session has ended, which a server tells of the first, is one of them all.
func failure(replies []zk.MultiResponse, err error) error {
	i := slices.IndexFunc(replies, func(r zk.MultiResponse) bool { return r.Error != nil })
	switch {
	case i < 0:
		return err
	case OutcomeOf(replies[i].Error) == Refused:
		return &refusedError{Op: i, Err: replies[i].Error}
	}
	return replies[i].Error
}

// issue sends a transaction, and one of a single delete or write as what it is, which
// costs the server less.
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

// supported is the one place where a server is refused that does not do transactions as
// ZooKeeper does since 3.4: err is what came of one, and complete whether each of its
// operations has a result. Once there was a complete reply, one that is not leaves open
// what was done, as a reply that was lost does.
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

// misfitError is a reply whose results are not those of the operations.
type misfitError struct{ what string }

func (e *misfitError) Error() string { return e.what }

func misfit(format string, args ...any) error { return &misfitError{fmt.Sprintf(format, args...)} }

// fits reports whether each operation has a result of its kind, which nothing but a
// broken server fails to give. What it did is not known.
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
