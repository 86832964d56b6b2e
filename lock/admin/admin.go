// Package admin is for tools, such as the reaper and the command line. It reads and deletes the
// nodes of a client's locks, and estimates the time by the clock of ZooKeeper's leader: ensemble
// time. Services that take locks do not need it.
//
// The API of this package is not part of the compatibility promise in README.md: it may change in any
// release.
package admin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/access"
	"github.com/holdfast-io/holdfast/lock/internal/revoke"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Tree is the tools' view of a client's locks. All methods are safe for concurrent use. Methods
// with a context try again during an outage of ZooKeeper, until the context ends. Then they fail with
// the context's error. Its cause is in the text, but does not match the error: the caller may have set
// any error as the cause, such as [zk.ErrNoNode], which would be taken for ZooKeeper's answer.
type Tree struct {
	c access.Client
}

// New returns the view of the client's locks. If the client is nil, or was not made by lock.Dial or
// lock.New, all methods with a context fail, and all other methods return zero values.
func New(client *lock.Client) Tree {
	return Tree{access.OfClient(client)}
}

// check returns an error for the zero Tree, for a Tree of a nil client, and for a nil context.
func (t Tree) check(ctx context.Context) error {
	switch {
	case t.c.Conn == nil:
		return fmt.Errorf("%w: tree: must come from a client", lock.ErrInvalid)
	case ctx == nil:
		return fmt.Errorf("%w: context: must not be nil", lock.ErrInvalid)
	}
	return nil
}

// Answer returns an error of package lock without the causes of contexts that the error matches. Match
// the result, and not the error, if the context may have any cause, such as [lock.ErrHeld].
func Answer(err error) error { return zkconn.Answer(err) }

// Root returns the path below which the locks are.
func (t Tree) Root() string { return t.c.Root }

// Path returns the path of the named lock; the root for "".
func (t Tree) Path(name string) string {
	if name == "" || t.c.Root == "" {
		return t.c.Root
	}
	return t.c.Root + "/" + name
}

// Identity is what a client writes into its entries, and the ACL of the nodes that it creates.
type Identity struct {
	Owner, Host string
	PID         int
	ACL         []zk.ACL
}

// Identity returns the client's identity. PID is this process's id.
func (t Tree) Identity() Identity {
	return Identity{Owner: t.c.Owner, Host: t.c.Host, PID: os.Getpid(), ACL: slices.Clone(t.c.ACL)}
}

// Get reads a node. It fails as [zk.Conn.Get] does.
func (t Tree) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	if err := t.check(ctx); err != nil {
		return nil, nil, err
	}
	n, err := t.c.Conn.Get(ctx, path)
	return n.Data, n.Stat, err
}

// Children lists a node's children. It fails as [zk.Conn.Children] does.
func (t Tree) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	if err := t.check(ctx); err != nil {
		return nil, nil, err
	}
	names, stat, err := t.c.Conn.Children(ctx, path)
	return names, stat, err
}

// WatchChildren lists a node's children as Children does. It returns a channel that becomes readable
// when a child may have been created or deleted since, and after an outage.
func (t Tree) WatchChildren(ctx context.Context, path string) (names []string, changed <-chan zk.Event, err error) {
	if err := t.check(ctx); err != nil {
		return nil, nil, err
	}
	names, _, changed, err = t.c.Conn.WatchChildren(ctx, path)
	return names, changed, zkconn.Reveal(err)
}

// Deletion is a node for [Tree.Delete]. ZooKeeper deletes the node only if its data has the version
// and there are no children.
type Deletion struct {
	Path    string
	Version int32 // version of the data; -1 for any
}

// RefusedError names the node for which ZooKeeper refused a transaction. The refused transaction
// changed nothing. If Lost is set, an earlier attempt may have been applied.
type RefusedError struct {
	Index int    // index of the node in the request
	Op    string // refused operation: "delete" or "guard"
	Path  string // path of the node
	Err   error  // ZooKeeper's answer, such as [zk.ErrBadVersion]
	Lost  bool   // an earlier attempt got no reply
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.Path, e.Err) }

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// Delete deletes the nodes in one transaction, in their order: all or none. If ZooKeeper refuses a
// node, Delete fails with a [RefusedError]. After a lost reply Delete tries again. Then ZooKeeper
// may refuse a node because an earlier attempt has deleted it, and the error has Lost set.
func (t Tree) Delete(ctx context.Context, nodes []Deletion) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	ops := make([]any, len(nodes))
	for i, n := range nodes {
		ops[i] = &zk.DeleteRequest{Path: n.Path, Version: n.Version}
	}
	lost, err := t.send(ctx, ops)
	if i, cause := zkconn.RefusedOp(err); i >= 0 {
		return &RefusedError{Index: i, Op: "delete", Path: nodes[i].Path, Err: cause, Lost: lost}
	}
	return err
}

// Guard creates a child, an anchor of a new generation, below each of the nodes, in one
// transaction. It returns the children's names; the caller must delete them. Until then ZooKeeper
// cannot delete the nodes, so each path names the same node. If ZooKeeper refuses a creation, Guard
// fails with a [RefusedError].
func (t Tree) Guard(ctx context.Context, paths []string) (names []string, err error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	names, ops := make([]string, len(paths)), make([]any, len(paths))
	for i, path := range paths {
		names[i] = znode.Anchor(znode.FormatID(t.c.Random.Uint64()))
		ops[i] = &zk.CreateRequest{Path: path + "/" + names[i], Data: znode.AnchorData{}.Encode(), Acl: zk.WorldACL(zk.PermRead)}
	}
	lost, err := t.send(ctx, ops)
	switch i, cause := zkconn.RefusedOp(err); {
	case errors.Is(cause, zk.ErrNodeExists): // an earlier attempt was applied, but its reply was lost
		return names, nil
	case i >= 0:
		return nil, &RefusedError{Index: i, Op: "guard", Path: paths[i], Err: cause, Lost: lost}
	case err != nil:
		return nil, err
	}
	return names, nil
}

// send sends a transaction until its outcome is known. lost reports whether any reply was lost.
func (t Tree) send(ctx context.Context, ops []any) (lost bool, err error) {
	err = t.c.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		_, err := t.c.Conn.Multi(ctx, ops...)
		lost = lost || zkconn.OutcomeOf(err) == zkconn.Ambiguous
		return err
	})
	return lost, err
}

// Time is ensemble time, as far as the client knows it. Leases end by it.
type Time = znode.Now

// Now samples the leader's clock and returns ensemble time. A sample is a transaction that leaves
// no node. Now fails with [zk.ErrNoNode] if there is no root, and with [lock.ErrDenied] if the
// root's ACL, or a quota, forbids the transaction.
func (t Tree) Now(ctx context.Context) (Time, error) {
	if err := t.check(ctx); err != nil {
		return Time{}, err
	}
	if err := t.c.Clock.Sample(ctx); err != nil {
		return Time{}, err
	}
	return t.Estimate(), nil
}

// Estimate returns ensemble time from the last sample, without a request. Its Zxid is 0 if there
// was no sample yet.
func (t Tree) Estimate() Time {
	if t.c.Clock == nil {
		return Time{}
	}
	return t.c.Clock.Now()
}

// Outdated reports whether the connection has failed since the last sample. The servers may have
// lost their data meanwhile, so call [Tree.Prove] before any deletion.
func (t Tree) Outdated() bool { return t.c.Clock != nil && t.c.Clock.Outdated() }

// Prove gets what a verdict of [znode.Unproven] lacks: a later sample, or the mark of the leader's
// epoch. knew is the Time that the verdict was based on; mzxid is the transaction that last wrote
// the entry. Prove returns the Time to judge the entry by again. It fails as Now does.
func (t Tree) Prove(ctx context.Context, knew Time, mzxid int64) (Time, error) {
	if err := t.check(ctx); err != nil {
		return Time{}, err
	}
	if err := t.c.Clock.Prove(ctx, knew, mzxid); err != nil {
		return Time{}, err
	}
	return t.Estimate(), nil
}

// Monotonic returns the time by the client's monotonic clock, from an arbitrary beginning. Use it
// to measure how long ago a node was read.
func (t Tree) Monotonic() time.Duration {
	if t.c.Clock == nil {
		return 0
	}
	return t.c.Clock.Mono()
}

// Session is the state of a client's session with ZooKeeper.
type Session struct {
	ID        int64 // id of the present or last session
	Connected bool  // there is a session, as far as the client knows
	// LastFailure says why the last attempts to connect have failed, for up to three servers: first those
	// that were reached and do not serve. It is nil if there is a session, if no attempt has failed since
	// there was one, and for a client made by lock.New.
	LastFailure error
	// Changed is closed when the state may have changed. It is nil for a client made by lock.New:
	// poll instead.
	Changed <-chan struct{}
}

// Session returns the state of the client's session, without a request.
func (t Tree) Session() Session {
	if t.c.Conn == nil {
		return Session{}
	}
	s := Session{}
	s.Connected, s.Changed = t.c.Conn.SessionState()
	s.ID, s.LastFailure = t.c.Conn.Session(), t.c.Conn.LastFailure()
	return s
}

// Rules reads the admission rules of the lock at path; parent is the data of the lock's node. It
// fails with [zk.ErrNoNode] if the anchor of a semaphore is missing, and with the errors of
// [zk.Conn.Get] and [znode.DecodeAnchor].
func (t Tree) Rules(ctx context.Context, path string, parent znode.Parent) (znode.Rules, error) {
	if err := t.check(ctx); err != nil {
		return znode.Rules{}, err
	}
	return revoke.Rules(ctx, t.c.Conn, path, parent)
}
