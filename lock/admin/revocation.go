package admin

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/revoke"
)

// Revocation is a request to release a lock, see [lock.Client.Revoke].
type Revocation struct {
	Lock   string // name of the lock
	Owner  string // owner of the client that asks
	Host   string // host of that client
	PID    int    // process id of that client
	Reason string
	Stat   *zk.Stat // its Mtime is the time of the request
	Stale  bool     // the entry that should be released was deleted
	Err    error    // why the request cannot be decoded; then only Err and Stat are set
}

// Revocation reads the request with the id: the name of a child of the node [znode.Inbox] below the
// root. Revocation fails as [zk.Conn.Get] does.
func (t Tree) Revocation(ctx context.Context, id string) (Revocation, error) {
	if err := t.check(ctx); err != nil {
		return Revocation{}, err
	}
	r, stale, err := revoke.Read(ctx, t.c.Conn, t.c.Root, id)
	if err != nil || r.Err != nil {
		return Revocation{Stat: r.Stat, Err: r.Err}, err
	}
	return Revocation{Lock: r.Lock(), Owner: r.Owner, Host: r.Host, PID: r.PID, Reason: r.Reason, Stat: r.Stat, Stale: stale}, nil
}
