// Package servercheck checks whether a server supports the protocol of the locks (package queue).
// The protocol relies on behavior of ZooKeeper that other servers with its wire protocol may
// lack:
//
//   - the Stat in the reply to a write within a transaction is the node's Stat at that point of
//     the transaction, with the counts of its children and of their changes;
//   - the name of a sequential node follows from the number of children that the parent ever had,
//     earlier creates of the same transaction included;
//   - a wrong version refuses the whole transaction;
//   - one leader stamps the time of each write, so times and transactions rise together.
//
// One transaction, which leaves nothing behind, checks the first two ([Checker.Once]). The other
// two take further transactions ([Checker.Full]). If each server stamps by its own clock, no
// transaction shows that before the session moves to another server. That is too late for a hold.
// ClickHouse Keeper stamps in this way, so the check refuses it by other signs.
package servercheck

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Checker has the parts and settings of a check.
type Checker struct {
	Conn  *zkconn.Conn
	Clock *clock.Clock  // receives a sample by each scratch transaction
	Root  string        // path below which the scratch node is
	ACL   []zk.ACL      // ACL of the scratch node
	NewID func() string // returns a part of a name that no other node has
}

// Unchecked is the error of a check that could not be made, for a reason that does not speak against
// the server, such as an ACL or a quota.
type Unchecked struct{ Why error }

func (e *Unchecked) Error() string { return fmt.Sprintf("the server could not be checked: %v", e.Why) }

// Unwrap returns Why.
func (e *Unchecked) Unwrap() error { return e.Why }

// Stamp is a transaction's zxid, and its time by the leader's clock in Unix milliseconds.
type Stamp struct{ Zxid, Mtime int64 }

// Once checks the server of the session with one transaction, and returns its stamp. For each
// missing component of the root it makes one more attempt; the last attempt then also creates and
// deletes the missing components. The error is an [Unchecked], an ErrUnsupported with the defect,
// or an error of the connection.
func (c *Checker) Once(ctx context.Context) (Stamp, error) {
	stamp, _, err := c.once(ctx)
	return stamp, err
}

// once does what Once does, and also returns the number of the root's missing components.
func (c *Checker) once(ctx context.Context) (_ Stamp, missing int, _ error) {
	if err := c.session(); err != nil {
		return Stamp{}, 0, err
	}
	own := true
	for {
		stamp, err := c.transact(ctx, missing, own)
		op, cause := zkconn.RefusedOp(err)
		switch {
		case op < 0:
			return stamp, missing, err
		case op == 0 && errors.Is(cause, zk.ErrNoNode) && missing < strings.Count(c.Root, "/"):
			missing++ // the component before is missing, too
		case op < missing && errors.Is(cause, zk.ErrNodeExists):
			missing = 0 // another client has created it meanwhile
		case own && op == missing+len(scratch("", c.ACL)) && errors.Is(cause, zk.ErrNoAuth):
			own = false // the ACL of /zookeeper forbids the check
		default:
			return stamp, missing, c.judge(ctx, op-missing, cause)
		}
	}
}

// session refuses a server with a small session id: ClickHouse Keeper counts session ids from 1. A
// session id of ZooKeeper has the server's number in the first byte, and then its clock.
func (c *Checker) session() error {
	if id := c.Conn.Session(); id > 0 && id < 1<<31 {
		return Keeper(fmt.Sprintf("session number %d", id))
	}
	return nil
}

// Keeper returns the error for a server that seems to be ClickHouse Keeper; sign says why.
func Keeper(sign string) error {
	return fmt.Errorf("%w: it seems to be ClickHouse Keeper, or a server made from it such as RaftKeeper (%s): each replica stamps writes by its own clock, and a client that reconnects gets a new session, so a lease could end before its holder knows: use ZooKeeper, or accept that at your own risk with WithUnsafeServer or zookeeper.unsafe_server",
		zkconn.ErrUnsupported, sign)
}

// wrong returns the error for a server that lacks behavior that the protocol requires.
func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: it lacks behavior that locks require: %s; use ZooKeeper, or accept that holds may be broken at your own risk with WithUnsafeServer or zookeeper.unsafe_server",
		zkconn.ErrUnsupported, fmt.Sprintf(format, args...))
}

// prefix is the name of the scratch entries, without the sequence.
const prefix = "0123456789abcdef-lock-"

// data is the data of the scratch node.
var data = []byte("holdfast")

// scratch returns the operations that test a server's counters, below a node that they create.
func scratch(node string, acl []zk.ACL) []any {
	return []any{
		&zk.CreateRequest{Path: node, Acl: acl},
		&zk.CreateRequest{Path: node + "/" + prefix, Acl: acl, Flags: zk.FlagSequence},
		&zk.DeleteRequest{Path: node + "/" + znode.Predict(prefix, 0), Version: 0},
		&zk.CreateRequest{Path: node + "/" + prefix, Acl: acl, Flags: zk.FlagSequence},
		&zk.SetDataRequest{Path: node, Data: data, Version: 0},
		&zk.DeleteRequest{Path: node + "/" + znode.Predict(prefix, 1), Version: 0},
		&zk.DeleteRequest{Path: node, Version: 1},
	}
}

const (
	first, firstGone, second, write = 1, 2, 3, 4 // indexes in scratch
)

// transact sends the scratch transaction, and judges the replies. missing is the number of the
// root's last components that the transaction creates and deletes, too. With own, it also checks
// that the node /zookeeper exists.
func (c *Checker) transact(ctx context.Context, missing int, own bool) (Stamp, error) {
	var stamp Stamp
	err := c.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		node := c.Root + "/clock-" + c.NewID()
		makes, deletes := ancestors(c.Root, missing, c.ACL)
		ops := append(makes, scratch(node, c.ACL)...)
		if own {
			ops = append(ops, &zk.CheckVersionRequest{Path: "/zookeeper", Version: -1})
		}
		sent := c.Clock.Local()
		replies, err := c.Conn.Multi(ctx, append(ops, deletes...)...)
		if err != nil {
			return err
		}
		got := replies[missing:]
		if err := judgeReplies(node, got); err != nil {
			return zkconn.Final(err)
		}
		s := got[write].Stat
		c.Clock.Observe(s.Mzxid, s.Mtime, sent, c.Clock.Local())
		stamp = Stamp{s.Mzxid, s.Mtime}
		return nil
	})
	return stamp, err
}

// ancestors returns the operations that create the last missing components of a path, and those that
// delete them again.
func ancestors(path string, missing int, acl []zk.ACL) (makes, deletes []any) {
	for range missing {
		makes = append([]any{&zk.CreateRequest{Path: path, Acl: acl}}, makes...)
		deletes = append(deletes, &zk.DeleteRequest{Path: path, Version: 0})
		path = path[:strings.LastIndexByte(path, '/')]
	}
	return makes, deletes
}

// judgeReplies checks the names of the scratch entries, and the Stat of the scratch node.
func judgeReplies(node string, replies []zk.MultiResponse) error {
	for seq, at := range map[int32]int{0: first, 1: second} {
		want := node + "/" + znode.Predict(prefix, seq)
		if got := replies[at].String; got != want {
			return wrong("child %d of a new node has the sequence of %.200q instead of %q", seq+1, got, want)
		}
	}
	return judgeStat(replies[write].Stat)
}

// judgeStat checks the Stat of the scratch node after the create of its second child.
func judgeStat(s *zk.Stat) error {
	for _, is := range []struct {
		what      string
		got, want int64
	}{
		{"version", int64(s.Version), 1},
		{"length", int64(s.DataLength), int64(len(data))},
		{"number of children", int64(s.NumChildren), 1},
		{"count of changes of children", int64(s.Cversion), 3},
		{"ephemeral owner", s.EphemeralOwner, 0},
		{"transaction of its creation, which is that of its last write,", s.Czxid, s.Mzxid},
		{"time of its creation, which is that of its last write,", s.Ctime, s.Mtime},
	} {
		if is.got != is.want {
			return wrong("the Stat in the reply to a write is not that of the node then: its %s is %d instead of %d", is.what, is.got, is.want)
		}
	}
	if s.Mzxid <= 0 || s.Mtime <= 0 {
		return wrong("a write has transaction %d and time %d; both must be positive", s.Mzxid, s.Mtime)
	}
	return nil
}

// judge returns the error for a refused operation of the scratch transaction: a defect of the
// server, or an [Unchecked]. op counts from the first operation of scratch.
func (c *Checker) judge(ctx context.Context, op int, cause error) error {
	is := func(target error) bool { return errors.Is(cause, target) }
	switch {
	case op == len(scratch("", nil)) && is(zk.ErrNoNode):
		return c.foreign(ctx)
	case op == firstGone && is(zk.ErrNoNode), op == write+1 && is(zk.ErrNoNode):
		return wrong("the sequence of a new node's child does not follow from its number of children")
	case op > 0 && (is(zk.ErrNoNode) || is(zk.ErrBadVersion) || is(zk.ErrNotEmpty) || is(zk.ErrNodeExists)):
		return wrong("operation %d of a transaction on a node of its own: %v", op+1, cause)
	case is(zk.ErrNoAuth):
		return &Unchecked{fmt.Errorf("%w: a scratch node below %s", zkconn.ErrDenied, c.Root)}
	}
	return &Unchecked{fmt.Errorf("a scratch node below %s: %w", c.Root, cause)}
}

// foreign returns the error for a server without the node /zookeeper.
func (c *Checker) foreign(ctx context.Context) error {
	_, err := c.Conn.Exists(ctx, "/keeper")
	switch {
	case err == nil:
		return Keeper("it has a node /keeper, and none called /zookeeper")
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
		return wrong("it has no node /zookeeper, which ZooKeeper has from its first start")
	}
	return err
}
