package zkconn

import (
	"context"
	"errors"
)

// ErrClosing is the cause of an internal context that ended because the client closed. It is no error
// to return: [ContextError] returns ErrClosed then.
var ErrClosing = errors.New("client is closing")

// ended is the error of a call whose context has ended. It wraps the error of the context, and not
// the cause: a caller may set any cause, such as the error of another call, which must not be taken
// for the answer to this one. See [Reveal].
type ended struct {
	error       // context.Canceled or context.DeadlineExceeded, unless the context is a caller's own type
	cause error // what the caller has set; the error itself if nothing
}

func (e *ended) Unwrap() error {
	if e.error == context.Canceled || e.error == context.DeadlineExceeded {
		return e.error
	}
	return nil
}

func (e *ended) Error() string {
	if errors.Is(e.cause, e.error) {
		return e.cause.Error()
	}
	return e.error.Error() + ": " + e.cause.Error()
}

// is reports whether e is the error of ctx, or of a context that ended with it.
func (e *ended) is(ctx context.Context) bool {
	return errors.Is(e.error, ctx.Err()) && errors.Is(e.cause, context.Cause(ctx))
}

// ContextError returns the error of an ended context; nil before its end. If the context ended with
// the cause [ErrClosing], it returns ErrClosed: the caller has not canceled anything. The cause of the
// context is in the text, but matches the error only after [Reveal].
func ContextError(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if cause == ErrClosing {
		return ErrClosed
	}
	return &ended{err, cause}
}

// Reveal returns an error that matches what err does, and also the causes of the contexts that ended
// the call, and the last failure to connect. The functions that users call return it. No decision
// may depend on it.
func Reveal(err error) error {
	if causes := causesOf(err, nil); len(causes) > 0 {
		return &revealed{err, causes}
	}
	return err
}

// revealed is an error and the causes that it did not match before.
type revealed struct {
	error
	causes []error
}

func (r *revealed) Unwrap() []error { return append([]error{r.error}, r.causes...) }

// Answer returns err as it was before [Reveal]: it matches no cause of a context.
func Answer(err error) error {
	if r := (*revealed)(nil); errors.As(err, &r) {
		return r.error
	}
	return err
}

// causesOf appends what Reveal adds to err.
func causesOf(err error, causes []error) []error {
	switch e := err.(type) {
	case *ended:
		for _, cause := range []error{e.error, e.cause} {
			if !errors.Is(e.Unwrap(), cause) {
				causes = append(causes, cause)
			}
		}
	case noSession:
		causes = append(causes, lastFailure{e.why})
	case interface{ Unwrap() error }:
		return causesOf(e.Unwrap(), causes)
	case interface{ Unwrap() []error }:
		for _, each := range e.Unwrap() {
			causes = causesOf(each, causes)
		}
	}
	return causes
}
