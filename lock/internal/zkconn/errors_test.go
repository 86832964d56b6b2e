package zkconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/go-zookeeper/zk"
)

// TestOutcome: a write counts as not applied only if the server certainly refused it or did not
// receive it.
func TestOutcome(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want Outcome
	}{
		{zk.ErrNoNode, Refused},
		{zk.ErrNodeExists, Refused},
		{zk.ErrBadVersion, Refused},
		{zk.ErrNotEmpty, Refused},
		{zk.ErrNoAuth, Refused},
		{zk.ErrAuthFailed, Refused},
		{zk.ErrInvalidACL, Refused},
		{zk.ErrNoChildrenForEphemerals, Refused},
		{zk.ErrAPIError, Refused},
		{zk.ErrBadArguments, Refused},
		{zk.ErrInvalidPath, Refused},
		{errors.New("unknown error: -125"), Refused}, // quota
		{errors.New("unknown error: -2"), Refused},
		{RefusedAt(1, zk.ErrBadVersion), Refused},
		{RefusedAt(1, errors.New("unknown error: -125")), Refused},
		{fmt.Errorf("%w: %w", ErrUnsupported, zk.ErrShortBuffer), Refused},
		{NotSent(ErrClosed), Refused},
		{NotSent(context.Canceled), Retryable},
		{NotSent(zk.ErrConnectionClosed), Retryable},
		{zk.ErrNoServer, Retryable},
		{zk.ErrSessionExpired, Retryable},
		{zk.ErrSessionMoved, Retryable},
		{errors.New(codeThrottled), Retryable},
		{errors.New("unknown error: -12"), Retryable}, // what a session's end is to servers since 3.5
		{zk.ErrConnectionClosed, Ambiguous},
		{zk.ErrClosing, Ambiguous},
		{fmt.Errorf("%w: %w", zk.ErrNoNode, zk.ErrConnectionClosed), Ambiguous},
		{io.EOF, Ambiguous},
		{io.ErrUnexpectedEOF, Ambiguous},
		{&net.OpError{Op: "write", Err: errors.New("broken pipe")}, Ambiguous},
		{zk.ErrShortBuffer, Ambiguous},
		{zk.ErrPtrExpected, Ambiguous},
		{abandon(canceled(nil)), Ambiguous},
		{errors.New("reply to 2 operations has 0 results"), Ambiguous},
		{errors.New("anything else"), Ambiguous},
	} {
		for _, err := range []error{answered(tt.err), fmt.Errorf("delete x: %w: %w", ErrClosed, answered(tt.err))} {
			if got := OutcomeOf(err); got != tt.want {
				t.Errorf("%v: %d, want %d", err, got, tt.want)
			}
		}
	}
	if got := OutcomeOf(nil); got != Applied {
		t.Errorf("nil: %d", got)
	}
	for _, err := range []error{zk.ErrNoNode, zk.ErrNoServer, ErrClosed, ErrUnsupported} {
		if got := OutcomeOf(err); got != Ambiguous {
			t.Errorf("%v: %d, but no request had this answer", err, got)
		}
	}
}

// TestLocalSession: an ended session that a server reports for a later operation, the create of an
// ephemeral node, refuses that operation: the session is a local one. Otherwise the session has ended.
func TestLocalSession(t *testing.T) {
	ephemeral := &zk.CreateRequest{Path: "/a", Flags: zk.FlagEphemeral | zk.FlagSequence}
	ops := []any{&zk.SetDataRequest{}, &zk.CreateRequest{Path: "/b"}, ephemeral}
	at := func(i int) []zk.MultiResponse {
		replies := make([]zk.MultiResponse, len(ops))
		replies[i].Error = zk.ErrSessionExpired
		return replies
	}
	for i, want := range []Outcome{Retryable, Retryable, Refused} {
		err := failure(ops, at(i), zk.ErrSessionExpired)
		if got := OutcomeOf(answered(err)); got != want {
			t.Errorf("at %d: %v is %d, want %d", i, err, got, want)
		}
		if op, _ := RefusedOp(err); want == Refused && op != i {
			t.Errorf("%v is about operation %d, want %d", err, op, i)
		}
	}
	if got := OutcomeOf(answered(failure([]any{ephemeral}, []zk.MultiResponse{{Error: zk.ErrSessionExpired}}, zk.ErrSessionExpired))); got != Retryable {
		t.Errorf("the first operation: %d, want %d", got, Retryable)
	}
}

func TestRefusedOp(t *testing.T) {
	err := fmt.Errorf("delete: %w", RefusedAt(3, zk.ErrNotEmpty))
	if op, cause := RefusedOp(err); op != 3 || cause != zk.ErrNotEmpty {
		t.Errorf("%d, %v", op, cause)
	}
	mustBe(t, err, zk.ErrNotEmpty)
	mustSay(t, err, "operation 3: "+zk.ErrNotEmpty.Error())
	for _, err := range []error{io.EOF, nil} {
		if op, cause := RefusedOp(err); op != -1 || cause != err {
			t.Errorf("%v: %d, %v", err, op, cause)
		}
	}
}
