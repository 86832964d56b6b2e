// Package revoke requests the release of locks from their holders, and delivers such requests to them.
// A request is a node below [znode.Inbox], with the name of the holder's entry. Package queue does not
// use these nodes.
package revoke

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Requests sends requests to holders, and receives requests for the holds of one client. All methods
// are safe for concurrent use.
type Requests struct {
	Options

	used atomic.Bool   // a handle listens, or has listened
	wake chan struct{} // buffer of one: wakes run for a new handle

	mu      sync.Mutex
	watched map[string]*watchedEntry // by the ids of the entries
	over    []ended                  // entries that have ended, oldest first
}

// Options has the parts and settings of [Requests].
type Options struct {
	Conn    *zkconn.Conn     // sends all requests
	Log     zerolog.Logger   // receives problems of the delivery
	Tasks   *zkconn.Tasks    // counts background work; the client's Close waits for it
	Closing context.Context  // ends when the client closes
	Root    string           // path below which the locks are
	ACL     []zk.ACL         // ACL of created nodes
	Random  *rand.Rand       // safe for concurrent use
	Who     znode.Revocation // owner, host and pid of this client
	// Patience is the time for which the deletion of a request waits for the end of its entry.
	Patience time.Duration
}

// New returns the requests of a client. It makes no request and starts no goroutine before Ask or Listen is called.
func New(o Options) *Requests {
	return &Requests{Options: o, wake: make(chan struct{}, 1), watched: map[string]*watchedEntry{}}
}

// path returns the path of the request with that id; "": of the requests' parent.
func path(root, id string) string {
	return strings.TrimSuffix(root+"/"+znode.Inbox+"/"+id, "/")
}

// Request is a request to release a lock, as it was read.
type Request struct {
	znode.Revocation
	Stat *zk.Stat
	Err  error // why the request could not be decoded; nil: it could
}

// Read reads the request to the entry with that id, and reports whether the request is stale: the
// entry has gone, and its path never recurs. It fails with zk.ErrNoNode if there is no request. A
// request that cannot be decoded is not stale.
//
// The transaction that creates a request checks that the entry exists. So a session that has seen
// the request has also seen the entry's create. If the same session sees no entry, it has seen the
// entry's end. If the session has changed in between, Read reads both again.
func Read(ctx context.Context, conn *zkconn.Conn, root, id string) (r Request, stale bool, err error) {
	for {
		session := conn.Session()
		n, err := conn.Get(ctx, path(root, id))
		if err != nil {
			return r, false, err
		}
		r.Stat = n.Stat
		if r.Revocation, r.Err = znode.DecodeRevocation(id, n.Data); r.Err != nil {
			return r, false, nil
		}
		_, err = conn.Exists(ctx, root+"/"+r.Entry)
		if stale = errors.Is(err, zk.ErrNoNode); err != nil && !stale {
			return r, false, err
		}
		if !stale || conn.Session() == session {
			return r, stale, nil
		}
	}
}

// errStands is the error of clear if the request's entry exists. The caller keeps the request.
var errStands = errors.New("the asked entry still exists")

// clear deletes the request to the entry with that id if the request is stale. If the entry exists,
// it fails with errStands. It returns nil if there is no request, or if the request cannot be
// decoded.
func (b *Requests) clear(ctx context.Context, id string) error {
	r, stale, err := Read(ctx, b.Conn, b.Root, id)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err != nil:
		return err
	case r.Err != nil: // the request's entry is unknown
		return nil
	case !stale:
		return errStands
	}
	// The request cannot have been replaced since the read, because its entry had gone.
	_, err = b.Conn.Multi(ctx, &zk.DeleteRequest{Path: path(b.Root, id), Version: r.Stat.Version})
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// lastMoments is the time that a closing client waits for requests to be deleted.
const lastMoments = time.Second

// clearSoon deletes, in the background, the request to an ended entry of this client as soon as the
// entry has gone. It gives up after Patience, or lastMoments after the client has begun to close.
// Then a later Ask, of any client, or the reaper deletes the request.
func (b *Requests) clearSoon(id string) {
	b.Tasks.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), b.Patience)
		defer cancel()
		defer context.AfterFunc(b.Closing, func() { time.AfterFunc(lastMoments, cancel) })()
		err := b.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
			err := b.clear(ctx, id)
			if errors.Is(err, errStands) {
				err = zkconn.Later(err)
			}
			return err
		})
		if err != nil {
			b.Log.Debug().Err(err).Str("request", path(b.Root, id)).Msg("a release request could not be deleted, and is left to the reaper")
		}
	})
}

// createParent creates the requests' parent after a call failed with why because the parent is
// missing. Its result is for [zkconn.Conn.Retry], which then repeats the call, or ends if an ACL
// forbids the create.
func (b *Requests) createParent(ctx context.Context, why error) error {
	_, err := b.Conn.Multi(ctx, &zk.CreateRequest{
		Path: path(b.Root, ""), Data: znode.Parent{Kind: znode.Asked}.Encode(), Acl: b.ACL,
	})
	switch {
	case err == nil:
		return zkconn.ErrAgain
	case errors.Is(err, zk.ErrNodeExists): // another client was quicker, or this client's server lags behind
		return zkconn.Later(why)
	case errors.Is(err, zk.ErrNoAuth):
		return zkconn.Final(fmt.Errorf("%w: create %s: the ACL of the node above does not let us", zkconn.ErrDenied, path(b.Root, "")))
	}
	return err
}
