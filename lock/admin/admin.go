// Package admin is what tools that look after locks need of a client, such as the
// reaper and the command line: reads, deletes on a version, and ensemble time.
// Services that take locks need none of it.
package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/access"
	"github.com/holdfast-io/holdfast/lock/internal/inbox"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Tree is the view of a client's locks that tools have. All methods are safe for
// concurrent use, and wait out an outage of ZooKeeper until their context ends.
type Tree struct {
	c access.Client
}

// New returns the view of the client's locks. That of a nil client, or one that was
// not made by lock.Dial or lock.New, refuses whatever is asked.
func New(client *lock.Client) Tree {
	c, _ := access.Of(client)
	return Tree{c}
}

// check refuses the zero Tree, that of a nil client, and a nil context.
func (t Tree) check(ctx context.Context) error {
	switch {
	case t.c.Conn == nil:
		return fmt.Errorf("%w: tree: must come from a client", lock.ErrInvalid)
	case ctx == nil:
		return fmt.Errorf("%w: context: must not be nil", lock.ErrInvalid)
	}
	return nil
}

// Root returns the path below which the locks stand.
func (t Tree) Root() string { return t.c.Root }

// Path returns the path of the named lock, the root for "".
func (t Tree) Path(name string) string {
	if name == "" || t.c.Root == "" {
		return t.c.Root
	}
	return t.c.Root + "/" + name
}

// Get reads a node. Errors are those of [zk.Conn.Get].
func (t Tree) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	if err := t.check(ctx); err != nil {
		return nil, nil, err
	}
	n, err := t.c.Conn.Get(ctx, path)
	return n.Data, n.Stat, err
}

// Children lists a node. Errors are those of [zk.Conn.Children].
func (t Tree) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	if err := t.check(ctx); err != nil {
		return nil, nil, err
	}
	return t.c.Conn.Children(ctx, path)
}

// Deletion is a node to be deleted, if its data still has that version and it
// has no children.
type Deletion struct {
	Path    string
	Version int32 // of the data; -1 for any
}

// RefusedError says which node of a transaction was refused. Nothing was changed.
type RefusedError struct {
	Index int    // of the node, in what was asked for
	Op    string // what was refused: "delete" or "guard"
	Path  string // of the node
	Err   error  // an error of [zk.Conn.Delete]'s or [zk.Conn.Create]'s
	Lost  bool   // a reply to the same transaction was lost before: perhaps it was applied then
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.Path, e.Err) }

// Unwrap returns why.
func (e *RefusedError) Unwrap() error { return e.Err }

// Delete deletes all of the nodes in one transaction, in that order, or none. It
// fails with a [RefusedError] if one was refused. After a lost reply it tries
// again, so that one may be refused because it has been deleted just before: the
// error says so with Lost.
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

// Guard makes an anchor of a new generation below each of the nodes, all in one
// transaction, and returns their names. The caller deletes them. As long as its guard is
// there, the node at that path is the same one. It fails with a [RefusedError] if one was
// refused.
func (t Tree) Guard(ctx context.Context, paths []string) (names []string, err error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	names, ops := make([]string, len(paths)), make([]any, len(paths))
	for i, path := range paths {
		names[i] = znode.Anchor(znode.NewID())
		ops[i] = &zk.CreateRequest{Path: path + "/" + names[i], Data: znode.AnchorData{}.Encode(), Acl: zk.WorldACL(zk.PermRead)}
	}
	lost, err := t.send(ctx, ops)
	switch i, cause := zkconn.RefusedOp(err); {
	case errors.Is(cause, zk.ErrNodeExists): // an attempt before, whose reply was lost, was applied
		return names, nil
	case i >= 0:
		return nil, &RefusedError{Index: i, Op: "guard", Path: paths[i], Err: cause, Lost: lost}
	case err != nil:
		return nil, err
	}
	return names, nil
}

// send sends a transaction until its outcome is known. It reports whether a reply to it was
// lost before.
func (t Tree) send(ctx context.Context, ops []any) (lost bool, err error) {
	err = t.c.Conn.Retry(ctx, backoff, func() error {
		_, err := t.c.Conn.Multi(ctx, nil, ops...)
		lost = lost || zkconn.OutcomeOf(err) == zkconn.Ambiguous
		return err
	})
	return lost, err
}

// Time is what is known of the clock of ZooKeeper's leader, and by what records are
// judged.
type Time = znode.Now

// Now returns ensemble time by a new sample, which costs a transaction that
// leaves nothing behind. It fails with [zk.ErrNoNode] if there is no root, and
// with [lock.ErrDenied] if its ACL does not let us.
func (t Tree) Now(ctx context.Context) (Time, error) {
	if err := t.check(ctx); err != nil {
		return Time{}, err
	}
	if err := t.c.Clock.Sample(ctx); err != nil {
		return Time{}, err
	}
	return t.Estimate(), nil
}

// Estimate returns ensemble time by the last sample, at no cost. The zero Zxid
// means that there was none yet.
func (t Tree) Estimate() Time {
	if t.c.Clock == nil {
		return Time{}
	}
	return t.c.Clock.Now()
}

// Outdated reports whether all that is known of the time is from before the last outage. The
// servers may have lost their data meanwhile: [Tree.Prove] tells before anything is deleted.
func (t Tree) Outdated() bool { return t.c.Clock != nil && t.c.Clock.Outdated() }

// Prove gets what a verdict of [znode.Unproven] lacked: a younger sample, or the mark of
// the leader's epoch. The verdict was on the write of the transaction mzxid, by the time
// knew. Prove returns the time that is known then. It fails as Now does.
func (t Tree) Prove(ctx context.Context, knew Time, mzxid int64) (Time, error) {
	if err := t.check(ctx); err != nil {
		return Time{}, err
	}
	if err := t.c.Clock.Prove(ctx, knew, mzxid); err != nil {
		return Time{}, err
	}
	return t.Estimate(), nil
}

// Monotonic is this process's monotonic clock: the one by which to tell for how long a
// version of a node has been known.
func (t Tree) Monotonic() time.Duration {
	if t.c.Clock == nil {
		return 0
	}
	return t.c.Clock.Mono()
}

// Session is what is known of a client's session with ZooKeeper.
type Session struct {
	ID        int64 // of the session that there is, or was last
	Connected bool  // there is one, as far as was noticed
	// Changed is closed when something of it may have changed. It is nil for a client on
	// a connection that is not its own: look again after a while.
	Changed <-chan struct{}
}

// Session returns the state of the client's session, without a request.
func (t Tree) Session() Session {
	if t.c.Conn == nil {
		return Session{}
	}
	s := Session{}
	s.Connected, s.Changed = t.c.Conn.SessionState()
	s.ID = t.c.Conn.Session()
	return s
}

// Rules reads what the admission to a lock depends on: the parent at that path holds the
// data. It fails with [zk.ErrNoNode] if the anchor of a semaphore is not there, and with the
// errors of [zk.Conn.Get] and [znode.DecodeAnchor].
func (t Tree) Rules(ctx context.Context, path string, parent znode.Parent) (znode.Rules, error) {
	if err := t.check(ctx); err != nil {
		return znode.Rules{}, err
	}
	return inbox.Rules(ctx, t.c.Conn, path, parent)
}

// Contender is an entry of a lock as it was read.
type Contender struct {
	Path  string     // of the entry
	Token lock.Token // its fencing token, if it is granted
	Read  Time       // ensemble time just before it was read; the zero Zxid: not known, see [Tree.Now]
	// Ours is false for the entry of another library, of format 1 or of a newer version,
	// and for one that is damaged. Then nothing below is known.
	Ours bool
	// Err says why an entry that is named as ours cannot be read: [znode.ErrOlder],
	// [znode.ErrNewer] or [znode.ErrForeign], for a damaged one. It is in the way of the lock
	// for as long as it is there.
	Err      error
	Owner    string // as the entry tells, as do the next three
	Host     string
	PID      int
	Metadata map[string]string
	Shares   bool          // it had the lock to write, and tells that it only reads since
	TTL      time.Duration // the lease that each write begins anew
	Acquired time.Time     // in ensemble time; zero until the grant was recorded
	Detached bool          // no process has it: it is there to be attached to
	Broken   string        // the client that broke the hold, and why, see [Tree.Break]; "": none did
	Expires  time.Time     // end of the lease unless it is renewed, by the clock of the leader that stamped it
}

// State is a lock as it was read, one node after the other: while it is in use
// its parts can be of slightly different times.
type State struct {
	Name       string      // "" for the root
	Kind       znode.Kind  // "" if the node is not there, or not ours
	Permits    int         // that a semaphore has now; 0: it is none
	Contenders []Contender // in the order of their turn; empty if there are none
	Children   []string    // names of children that are no contenders: nested locks, or others' nodes
}

// Inspect reads a lock. One that is not there has no contenders. Names are as
// for [lock.Client.Mutex]; "" inspects the root. It takes no sample of ensemble time: call
// [Tree.Now] before, for [Contender.Read] to be known.
func (t Tree) Inspect(ctx context.Context, name string) (State, error) {
	s := State{Name: name}
	if err := t.check(ctx); err != nil {
		return s, err
	}
	if name != "" {
		if err := znode.CheckName(name); err != nil {
			return s, fmt.Errorf("%w: %w", lock.ErrInvalid, err)
		}
	}
	path := t.Path(name)
	data, stat, err := t.Get(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("read %s: %w", path, err)
	}
	if parent, err := znode.DecodeParent(data); err == nil {
		rules, err := t.Rules(ctx, path, parent)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return s, fmt.Errorf("read the anchor below %s: %w", path, err)
		}
		s.Kind, s.Permits = parent.Kind, int(rules.Capacity)
	}
	if stat.NumChildren == 0 {
		return s, nil
	}
	children, _, err := t.Children(ctx, path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return s, fmt.Errorf("list %s: %w", path, err)
	}
	for _, n := range children {
		kept := znode.Reserved(n) && name == ""
		_, entry := znode.Parse(n)
		_, anchor := znode.AnchorOf(n)
		if !entry && !anchor && !kept {
			s.Children = append(s.Children, n)
		}
	}
	for _, n := range znode.Contenders(children) {
		c, err := t.contender(ctx, path+"/"+n.Node, n)
		if errors.Is(err, zk.ErrNoNode) {
			continue // left meanwhile
		}
		if err != nil {
			return s, fmt.Errorf("read %s: %w", path+"/"+n.Node, err)
		}
		s.Contenders = append(s.Contenders, c)
	}
	return s, nil
}

func (t Tree) contender(ctx context.Context, path string, name znode.Name) (Contender, error) {
	read := t.Estimate() // before the read: a lease that has ended by then is not renewed in what is read
	data, stat, err := t.Get(ctx, path)
	if err != nil {
		return Contender{}, err
	}
	c := Contender{Path: path, Read: read, Token: lock.Token{Czxid: stat.Czxid, Sequence: name.TokenSequence()}}
	e := znode.ReadEntry(name, data, znode.Stat(*stat))
	if !e.Leased() {
		if e.Ours() {
			c.Err = e.Err
		}
		return c, nil
	}
	r := &e.Record
	c.Ours, c.Owner, c.Host, c.PID, c.Metadata = true, r.Owner, r.Host, r.PID, r.Metadata
	c.TTL, c.Expires, c.Shares, c.Detached = e.TTL(), e.Expires(), e.Shares(), r.Detached
	c.Token.Incarnation = r.Incarnation
	if r.Broken != nil {
		c.Broken = r.Broken.String()
	}
	if r.Granted() {
		c.Acquired = time.UnixMilli(r.AcquiredAt)
	}
	return c, nil
}
