package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// ErrTooLong says that the server ends the connection at a request of the size that was given to
// [Tree.Carries].
var ErrTooLong = errors.New("the server ends the connection at a request of that length")

// mostCarried is the largest size for Carries. go-zookeeper sends requests of up to 1.5 MiB.
const mostCarried = 1 << 20

// ACL reads the access list of a node. It fails as [zk.Conn.GetACL] does.
func (t Tree) ACL(ctx context.Context, path string) ([]zk.ACL, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	acl, _, err := t.c.Conn.ACL(ctx, path)
	return acl, err
}

// SessionTimeout returns the session timeout that the server has granted; 0 for a client made by
// lock.New.
func (t Tree) SessionTimeout() time.Duration {
	if t.c.Conn == nil {
		return 0
	}
	return t.c.Conn.SessionTimeout()
}

// Members returns the servers of the ensemble according to its dynamic configuration, as host:port
// and sorted. If the client uses TLS, the ports are those for TLS. Members fails, for example, if the
// node /zookeeper/config cannot be read or lacks the servers' addresses for clients, or if the server
// is standalone or older than ZooKeeper 3.5.
func (t Tree) Members(ctx context.Context) ([]string, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	m, err := t.c.Conn.Members(ctx)
	return m.Servers, err
}

// Displaced returns how many displacements the client has detected since Dial or New, the size of the
// last one, negative for backwards, and how long ago it was detected. All are 0 if there was none. A
// displacement is a step of the leader's clock, or a change to a leader whose clock differs. To watch
// the leader's clock, call Displaced after each [Tree.Now].
func (t Tree) Displaced() (times uint64, by, ago time.Duration) {
	if t.c.Clock == nil {
		return 0, 0, 0
	}
	times, last := t.c.Clock.Displacements()
	if times == 0 {
		return 0, 0, 0
	}
	return times, last.By, t.c.Clock.Mono() - last.Seen
}

// Carries sends a request of more than size bytes. The request changes nothing: it writes a node
// that cannot exist. If the connection ends, Carries sends the request again. If the connection has
// ended three times, Carries fails with [ErrTooLong]. size is at most 1 MiB: no server accepts more
// unless its jute.maxbuffer was raised.
func (t Tree) Carries(ctx context.Context, size int) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	if size < 0 || size > mostCarried {
		return fmt.Errorf("%w: size %d: must be within 0..%d", lock.ErrInvalid, size, mostCarried)
	}
	const tries = 3 // connections also end for other reasons
	cut := 0
	return t.c.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		_, err := t.c.Conn.Multi(ctx,
			&zk.CheckVersionRequest{Path: t.c.Root + "/.size", Version: 0},
			&zk.SetDataRequest{Path: t.c.Root + "/.size", Data: make([]byte, size)})
		if op, _ := zkconn.RefusedOp(err); op >= 0 {
			return nil
		}
		if zkconn.OutcomeOf(err) == zkconn.Ambiguous {
			if cut++; cut == tries {
				return zkconn.Final(errors.Join(ErrTooLong, err))
			}
		}
		return err
	})
}
