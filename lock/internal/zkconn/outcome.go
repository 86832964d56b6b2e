package zkconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

var (
	// ErrUnavailable: there is no session with ZooKeeper.
	ErrUnavailable = errors.New("no session with ZooKeeper")
	// ErrDenied: an ACL forbids the request, or the server has refused the client's credentials.
	ErrDenied = errors.New("access denied")
	// ErrSASL: the authentication by SASL has failed, or the server requires SASL.
	ErrSASL = errors.New("SASL authentication failed")
	// ErrClosed: Close has closed the connection, or the owner of a borrowed connection has.
	ErrClosed = errors.New("client is closed")
	// ErrUnsupported: a server lacks behavior of ZooKeeper that the protocol requires.
	ErrUnsupported = errors.New("server is not supported")
)

// oldest is the oldest ZooKeeper with which the tests pass.
const oldest = "3.4.14"

// Outcome is the outcome of a write according to its error.
type Outcome int

const (
	Applied   Outcome = iota // applied: there is no error
	Refused                  // not applied, and a later try would get the same answer
	Retryable                // not applied, and a later try may succeed
	Ambiguous                // it may have been applied, or may be applied later
)

// conclusion is the error of a request, with what the connection concluded from it when it arrived. So
// the outcome never depends on other errors that are wrapped around the answer or beside it.
type conclusion struct {
	error
	outcome   Outcome
	op        int  // index of the operation that the server refused; -1: none, or the request as a whole
	abandoned bool // the caller's context ended while the request was in flight
}

func (a *conclusion) Unwrap() error { return a.error }

func (a *conclusion) Error() string {
	if a.op >= 0 {
		return fmt.Sprintf("operation %d: %v", a.op, a.error)
	}
	return a.error.Error()
}

// NotSent wraps the reason why a request was not sent. Its outcome is [Retryable], or [Refused] if
// err wraps ErrClosed.
func NotSent(err error) error {
	outcome := Retryable
	if errors.Is(err, ErrClosed) {
		outcome = Refused
	}
	return &conclusion{error: err, outcome: outcome, op: -1}
}

// RefusedAt returns the error for a transaction whose operation at index op the server refused. No
// operation was applied.
func RefusedAt(op int, cause error) error { return &conclusion{error: cause, outcome: Refused, op: op} }

// abandon returns the error of a call whose context ended while the request was in flight.
func abandon(ctx context.Context) error {
	return &conclusion{error: ContextError(ctx), outcome: Ambiguous, op: -1, abandoned: true}
}

// answered returns the conclusion from an error of go-zookeeper, or one that this package made from its
// reply. It adds the meaning that codes has for the error.
func answered(err error) error {
	if err == nil {
		return nil
	}
	if a := (*conclusion)(nil); errors.As(err, &a) { // of an operation
		return err
	}
	return &conclusion{error: named(err), outcome: classify(err), op: -1}
}

// conclusionOf returns what the connection concluded from the reply to a request; nil if err is no error
// of a request.
func conclusionOf(err error) *conclusion {
	var a *conclusion
	errors.As(err, &a)
	return a
}

// OutcomeOf returns the outcome of a request by its error, wrapped or not; nil is [Applied]. The
// outcome is [Ambiguous] unless the server has answered the request, or the request was not sent.
// Examples of an ambiguous outcome are a lost connection, an undecodable reply, an abandoned call,
// and any error that is not a request's.
func OutcomeOf(err error) Outcome {
	switch a := conclusionOf(err); {
	case err == nil:
		return Applied
	case a == nil:
		return Ambiguous
	default:
		return a.outcome
	}
}

// RefusedOp returns the index of the operation that the server refused, and the reason; -1 and err
// itself if err is not the refusal of an operation.
func RefusedOp(err error) (op int, cause error) {
	if a := conclusionOf(err); a != nil && a.op >= 0 {
		return a.op, a.error
	}
	return -1, err
}

// IsAbandoned reports whether err is that of a call whose context ended while the request was in
// flight.
func IsAbandoned(err error) bool {
	a := conclusionOf(err)
	return a != nil && a.abandoned
}

// refusals are a server's answers that refuse a request. A code that go-zookeeper does not name
// becomes the error "unknown error: <code>".
var refusals = []error{
	zk.ErrAPIError, zk.ErrNoNode, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals,
	zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrInvalidACL, zk.ErrAuthFailed, zk.ErrBadArguments,
	zk.ErrInvalidPath, zk.ErrInvalidFlags,
}

const localSession = "the server creates no ephemeral node in a local session: set localSessionsUpgradingEnabled=true in zoo.cfg, or create a persistent node"

// errLocalSession is what a follower means that says in a transaction that the session has ended. A leader says -120.
var errLocalSession = errors.New(localSession)

const (
	unnamedCode        = "unknown error: "
	codeThrottled      = unnamedCode + "-127"
	codeUnimplemented  = unnamedCode + "-6"
	codeUnknownSession = unnamedCode + "-12"
	codeNotSASL        = unnamedCode + "-124"
)

// codes has the meanings of errors for which go-zookeeper has no name, or too short a text.
var codes = map[string]string{
	unnamedCode + "-1":       "the server failed",
	unnamedCode + "-5":       "the server could not read the request, or write the answer",
	codeUnimplemented:        "the server does not know the request",
	unnamedCode + "-7":       "the server took too long",
	unnamedCode + "-120":     localSession,
	unnamedCode + "-119":     "the server is read-only: it has no quorum",
	codeNotSASL:              "the server requires an authentication that this client does not have, mostly SASL: set zookeeper.sasl, or lock.WithSASL",
	zk.ErrInvalidACL.Error(): "the server does not have the scheme of the ACL, or the user none for its scheme auth; sasl needs authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider in zoo.cfg",
	unnamedCode + "-125":     "a quota is exceeded",
	codeThrottled:            "the server is throttled",
}

// named adds the meaning that codes has for an error of go-zookeeper. It returns any other error as
// it is.
func named(err error) error {
	if err != nil {
		if meaning, ok := codes[err.Error()]; ok {
			return &namedError{meaning, err}
		}
	}
	return err
}

// namedError is an error of go-zookeeper with its meaning.
type namedError struct {
	meaning string
	error
}

func (e *namedError) Error() string { return e.meaning + ": " + e.error.Error() }
func (e *namedError) Unwrap() error { return e.error }

// Is makes the answer of a server that requires SASL match ErrDenied and ErrSASL.
func (e *namedError) Is(target error) bool {
	return (target == ErrDenied || target == ErrSASL) && e.error.Error() == codeNotSASL
}

// classify returns the outcome of a request by go-zookeeper's error, or one that this package made
// from its reply.
func classify(err error) Outcome {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case is(zk.ErrConnectionClosed), is(zk.ErrClosing):
		return Ambiguous
	case is(zk.ErrNoServer), sessionEnded(err), is(zk.ErrSessionMoved), innermost(err).Error() == codeThrottled:
		return Retryable
	case is(ErrUnsupported): // an entry that was created nevertheless expires
		return Refused
	case slices.ContainsFunc(refusals, is), strings.HasPrefix(innermost(err).Error(), unnamedCode):
		return Refused
	}
	return Ambiguous
}

func innermost(err error) error {
	for next := err; next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err
}

// endsConnection reports whether a request failed because its connection, or the session, had
// ended. Neither a server's answer nor a caller that gave up counts.
func endsConnection(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer) || sessionEnded(err)
}

// sessionEnded reports whether a server refused a request because its session had ended. Since
// 3.5 the server answers "expired" while it ends the session, and "unknown session" afterwards.
func sessionEnded(err error) bool {
	return err != nil && (errors.Is(err, zk.ErrSessionExpired) || innermost(err).Error() == codeUnknownSession)
}
