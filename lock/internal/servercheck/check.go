// Package servercheck finds out whether a server is what the locks rest on. The protocol
// (package queue) takes for granted what ZooKeeper does, and others that speak its
// language may not:
//
//   - the Stat in the reply to a write within a transaction is that of the node, as it is
//     in the midst of this transaction: how many children it has, and how many it had;
//   - what a sequential create is called follows from how many children the parent has
//     had, those of the same transaction included;
//   - a version that does not fit refuses the whole of a transaction;
//   - the time of a write is stamped by the one leader, so that times and transactions
//     rise together.
//
// One transaction, which leaves nothing behind, shows the first two ([Checker.Once]); the
// others take some more ([Checker.Full]). That another server stamps by another clock is
// seen when the session moves there, which is too late for a hold. So a server of a kind that
// is known for it is refused by its habits.
package servercheck

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Checker is what a check works with.
type Checker struct {
	Conn  *zkconn.Conn
	Clock *clock.Clock // gets a sample of each transaction
	Root  string       // below which the scratch node is
	ACL   []zk.ACL     // of the scratch node
	NewID func() string
}

// Unchecked says that the server could not be checked, for a reason that does not speak
// against it: an ACL, a quota.
type Unchecked struct{ Why error }

func (e *Unchecked) Error() string { return fmt.Sprintf("the server could not be checked: %v", e.Why) }

// Unwrap returns why.
func (e *Unchecked) Unwrap() error { return e.Why }

// Stamp is when a transaction was made, by the server.
type Stamp struct{ Zxid, Mtime int64 }

// backoff is how long pauses between tries are.
var backoff = zkconn.Backoff{First: 20 * time.Millisecond, Most: time.Second}

// Once checks the server that the session is with by one transaction; where the root is
// missing by one more for each of its components, which makes it and deletes it again. The
// error is an [Unchecked], or ErrUnsupported with what is wrong, or one of the connection.
func (c *Checker) Once(ctx context.Context) (Stamp, error) {
	stamp, _, err := c.once(ctx)
	return stamp, err
}

// once is Once; it tells, too, how many of the root's components were missing.
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
			missing++ // of the root's components, from its end
		case op < missing && errors.Is(cause, zk.ErrNodeExists):
			missing = 0 // another client has made it meanwhile
		case own && op == missing+len(scratch("", c.ACL)) && errors.Is(cause, zk.ErrNoAuth):
			own = false // we may not see ZooKeeper's own node
		default:
			return stamp, missing, c.judge(ctx, op-missing, cause)
		}
	}
}

// session refuses a server by the number of our session. ZooKeeper makes it of the
// server's number, in the first byte, and of its clock; ClickHouse Keeper counts from 1.
func (c *Checker) session() error {
	if id := c.Conn.Session(); id > 0 && id < 1<<31 {
		return Keeper(fmt.Sprintf("session number %d", id))
	}
	return nil
}

// Keeper is the error for what seems to be ClickHouse Keeper.
func Keeper(sign string) error {
	return fmt.Errorf("%w: it seems to be ClickHouse Keeper (%s): its replicas stamp writes each by its own clock, and give a new session to a client that comes back, so that a lease could end before its holder knows: use ZooKeeper, or accept that at your own risk with WithUnsafeServer or zookeeper.unsafe_server",
		zkconn.ErrUnsupported, sign)
}

// wrong is the error for a server that does not do what the protocol rests on.
func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: it does not do what locks rest on: %s; use ZooKeeper, or accept that holds may be broken at your own risk with WithUnsafeServer or zookeeper.unsafe_server",
		zkconn.ErrUnsupported, fmt.Sprintf(format, args...))
}

const tail = "0123456789abcdef-lock-" // of scratch entries

// data is what is written to the scratch node.
var data = []byte("holdfast")

// scratch are the operations that show how a server counts, below a node that they make.
func scratch(node string, acl []zk.ACL) []any {
	return []any{
		&zk.CreateRequest{Path: node, Acl: acl},
		&zk.CreateRequest{Path: node + "/" + tail, Acl: acl, Flags: zk.FlagSequence},
		&zk.DeleteRequest{Path: node + "/" + znode.Predict(tail, 0), Version: 0},
		&zk.CreateRequest{Path: node + "/" + tail, Acl: acl, Flags: zk.FlagSequence},
		&zk.SetDataRequest{Path: node, Data: data, Version: 0},
		&zk.DeleteRequest{Path: node + "/" + znode.Predict(tail, 1), Version: 0},
		&zk.DeleteRequest{Path: node, Version: 1},
	}
}

const (
	first, firstGone, second, write = 1, 2, 3, 4 // places in scratch
)

// transact makes the scratch transaction, in which so many of the root's last components
// are made and deleted again, and with own, looks for ZooKeeper's own node.
func (c *Checker) transact(ctx context.Context, missing int, own bool) (Stamp, error) {
	var stamp Stamp
	err := c.Conn.Retry(ctx, backoff, func() error {
		node := c.Root + "/clock-" + c.NewID()
		makes, deletes := ancestors(c.Root, missing, c.ACL)
		ops := append(makes, scratch(node, c.ACL)...)
		if own {
			ops = append(ops, &zk.CheckVersionRequest{Path: "/zookeeper", Version: -1})
		}
		sent := c.Clock.Local()
		replies, err := c.Conn.Multi(ctx, nil, append(ops, deletes...)...)
		if err != nil {
			return err
		}
		got := replies[missing:]
		if err := judgeReplies(node, got); err != nil {
			return err
		}
		s := got[write].Stat
		c.Clock.Observe(s.Mzxid, s.Mtime, sent, c.Clock.Local())
		stamp = Stamp{s.Mzxid, s.Mtime}
		return nil
	})
	return stamp, err
}

// ancestors make the last components of a path, so many, and delete them again.
func ancestors(path string, missing int, acl []zk.ACL) (makes, deletes []any) {
	for range missing {
		makes = append([]any{&zk.CreateRequest{Path: path, Acl: acl}}, makes...)
		deletes = append(deletes, &zk.DeleteRequest{Path: path, Version: 0})
		path = path[:strings.LastIndexByte(path, '/')]
	}
	return makes, deletes
}

// judgeReplies looks at what the scratch operations came to.
func judgeReplies(node string, replies []zk.MultiResponse) error {
	for seq, at := range map[int32]int{0: first, 1: second} {
		want := node + "/" + znode.Predict(tail, seq)
		if got := replies[at].String; got != want {
			return wrong("child %d of a new node has the sequence of %.200q instead of %q", seq+1, got, want)
		}
	}
	return judgeStat(replies[write].Stat)
}

// judgeStat looks at the Stat of the scratch node after its second child was made.
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

// judge says what it means that the server has refused one of the scratch operations,
// counted from the first that is below the root.
func (c *Checker) judge(ctx context.Context, op int, cause error) error {
	is := func(target error) bool { return errors.Is(cause, target) }
	switch {
	case op == len(scratch("", nil)) && is(zk.ErrNoNode):
		return c.stranger(ctx)
	case op == firstGone && is(zk.ErrNoNode), op == write+1 && is(zk.ErrNoNode):
		return wrong("the sequence of a new node's child is not what follows from the number of children it had")
	case op > 0 && (is(zk.ErrNoNode) || is(zk.ErrBadVersion) || is(zk.ErrNotEmpty) || is(zk.ErrNodeExists)):
		return wrong("operation %d of a transaction on a node of its own: %v", op+1, cause)
	case is(zk.ErrNoAuth):
		return &Unchecked{fmt.Errorf("%w: a scratch node below %s", zkconn.ErrDenied, c.Root)}
	}
	return &Unchecked{fmt.Errorf("a scratch node below %s: %w", c.Root, cause)}
}

// stranger is the error for a server that lacks the node /zookeeper.
func (c *Checker) stranger(ctx context.Context) error {
	_, err := c.Conn.Exists(ctx, "/keeper")
	switch {
	case err == nil:
		return Keeper("it has a node /keeper, and none called /zookeeper")
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
		return wrong("it has no node /zookeeper, which ZooKeeper has from its first start")
	}
	return err
}
