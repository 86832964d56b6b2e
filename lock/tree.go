package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Tree is what tools that look after locks need of a client, such as the reaper
// and the command line: reads, deletes on a version, and ensemble time. Services
// that take locks need none of it. All methods are safe for concurrent use, and
// wait out an outage of ZooKeeper until their context ends.
type Tree struct{ c *Client }

// Tree returns the view of the client's locks that tools have.
func (c *Client) Tree() Tree { return Tree{c} }

// check refuses the zero Tree and that of a nil client.
func (t Tree) check() error {
	if t.c.zero() {
		return invalid("tree", nil, "must come from a client")
	}
	return nil
}

// Root returns the path below which the locks stand.
func (t Tree) Root() string { return t.Path("") }

// Path returns the path of the named lock, the root for "".
func (t Tree) Path(name string) string {
	if t.c.zero() {
		return ""
	}
	if name == "" {
		return t.c.cfg.root
	}
	return t.c.path(name)
}

// Get reads a node. Errors are those of [zk.Conn.Get].
func (t Tree) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	if err := t.check(); err != nil {
		return nil, nil, err
	}
	n, err := t.c.conn.get(ctx, path)
	return n.data, n.stat, err
}

// Children lists a node. Errors are those of [zk.Conn.Children].
func (t Tree) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	if err := t.check(); err != nil {
		return nil, nil, err
	}
	l, err := t.c.conn.children(ctx, path)
	return l.names, l.stat, err
}

// Deletion is a node to be deleted, if its data still has that version and it
// has no children.
type Deletion struct {
	Path    string
	Version int32
}

// DeletionError says which deletion of a transaction was refused, with an error
// of [zk.Conn.Delete]'s. Nothing was deleted.
type DeletionError struct {
	Index int
	Path  string
	Err   error
}

func (e *DeletionError) Error() string { return fmt.Sprintf("delete %s: %v", e.Path, e.Err) }

// Unwrap returns why.
func (e *DeletionError) Unwrap() error { return e.Err }

// Delete deletes all of the nodes in one transaction, in that order, or none. It
// fails with a [DeletionError] if one was refused. After a lost reply it tries
// again, so that one may be refused because it has been deleted just before.
func (t Tree) Delete(ctx context.Context, nodes []Deletion) error {
	if err := t.check(); err != nil {
		return err
	}
	ops := make([]any, len(nodes))
	for i, n := range nodes {
		ops[i] = &zk.DeleteRequest{Path: n.Path, Version: n.Version}
	}
	for wait := t.c.cfg.newBackoff(20*time.Millisecond, time.Second); ; {
		_, err := t.c.conn.multi(ctx, nil, ops...)
		if err == nil {
			return nil
		}
		if outcomeOf(err) == refused {
			if i, cause := refusedOp(err); i >= 0 {
				return &DeletionError{Index: i, Path: nodes[i].Path, Err: cause}
			}
			return err
		}
		if wait.sleep(ctx) != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}

// Time is what the clock of ZooKeeper's leader is known to show: a time between
// Earliest and Latest. It rests on the transaction Zxid: only what was written
// in an earlier one may be judged by it.
type Time struct {
	Earliest, Latest time.Time
	Zxid             int64
}

// Now returns ensemble time by a new sample, which costs a transaction that
// leaves nothing behind. It fails with [zk.ErrNoNode] if there is no root, and
// with [ErrDenied] if its ACL does not let us.
func (t Tree) Now(ctx context.Context) (Time, error) {
	if err := t.check(); err != nil {
		return Time{}, err
	}
	if err := t.c.sample(ctx); err != nil {
		return Time{}, err
	}
	return t.Estimate(), nil
}

// Estimate returns ensemble time by the last sample, at no cost. The zero Zxid
// means that there was none yet.
func (t Tree) Estimate() Time {
	if t.c.zero() {
		return Time{}
	}
	w, zxid := t.c.clock.at(t.c.now())
	return Time{Earliest: time.Unix(0, int64(w.lower)), Latest: time.Unix(0, int64(w.upper)), Zxid: zxid}
}

// Contender is an entry of a lock as it was read.
type Contender struct {
	Path  string
	Token Token
	// Ours is false for the entry of another library, or of a newer version, or
	// one that is damaged. Then nothing below is known.
	Ours     bool
	Owner    string
	Host     string
	PID      int
	Metadata map[string]string
	TTL      time.Duration
	Acquired time.Time // zero until the grant was recorded
	Expires  time.Time // end of the lease, in ensemble time
}

// State is a lock as it was read, one node after the other: while it is in use
// its parts can be of slightly different times.
type State struct {
	Name       string
	Kind       znode.Kind
	Contenders []Contender // in the order of their turn; empty if nobody is there
	Children   []string    // names of children that are no contenders: nested locks, or others' nodes
}

// Inspect reads a lock. One that is not there has no contenders. Names are as
// for [Client.Mutex]; "" inspects the root.
func (t Tree) Inspect(ctx context.Context, name string) (State, error) {
	s := State{Name: name}
	if err := t.check(); err != nil {
		return s, err
	}
	if name != "" {
		if err := znode.CheckName(name); err != nil {
			return s, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	path := t.Path(name)
	parent, err := t.c.conn.get(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("read %s: %w", path, err)
	}
	if data, err := znode.DecodeParent(parent.data); err == nil {
		s.Kind = data.Kind
	}
	l, err := t.c.conn.children(ctx, path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return s, fmt.Errorf("list %s: %w", path, err)
	}
	for _, n := range l.names {
		if _, entry := znode.Parse(n); !entry {
			s.Children = append(s.Children, n)
		}
	}
	maxTTL := t.c.cfg.policyOf(name).MaxTTL.Milliseconds()
	for _, n := range znode.Contenders(l.names) {
		c, err := t.contender(ctx, path+"/"+n.Node, maxTTL)
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

func (t Tree) contender(ctx context.Context, path string, maxTTL int64) (Contender, error) {
	n, err := t.c.conn.get(ctx, path)
	if err != nil {
		return Contender{}, err
	}
	c := Contender{Path: path, Token: Token{Czxid: n.stat.Czxid}}
	name, _ := znode.Parse(path[strings.LastIndexByte(path, '/')+1:])
	r, err := znode.DecodeRecord(n.data)
	if err != nil || !name.Ours() || n.stat.EphemeralOwner != 0 {
		return c, nil
	}
	c.Ours, c.Owner, c.Host, c.PID, c.Metadata = true, r.Owner, r.Host, r.PID, r.Metadata
	c.TTL = time.Duration(r.TTL) * time.Millisecond
	c.Expires = time.UnixMilli(r.Expiry(n.stat.Mtime, maxTTL))
	if r.Granted() {
		c.Acquired = time.UnixMilli(r.AcquiredAt)
	}
	return c, nil
}
