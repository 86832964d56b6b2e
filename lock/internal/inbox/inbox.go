// Package inbox asks the holders of locks to give them up: by nodes beside the locks, of
// which the queues know nothing (package queue, Asking for a lock).
package inbox

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

// Inbox asks the holders of locks, and listens for the holds of one client. All methods are
// safe for concurrent use.
type Inbox struct {
	Options

	used   atomic.Bool   // a handle listens, or did
	relist atomic.Bool   // what was listed may be old, whatever the watch says
	wake   chan struct{} // one token: a handle listens, or relist is set

	mu    sync.Mutex
	wards map[string]*ward // by the ids of their entries
	over  []ended          // by age
}

// Options are what an inbox works with.
type Options struct {
	Conn    *zkconn.Conn     // that all requests are made by
	Log     zerolog.Logger   // where it is told what keeps holds from being asked
	Tasks   *zkconn.Group    // what goes on in the background, and is waited for
	Closing context.Context  // ends when the client closes
	Root    string           // path below which the locks stand
	ACL     []zk.ACL         // of the nodes that are made
	Random  *rand.Rand       // safe for concurrent use
	Who     znode.Revocation // owner, host and pid of this client, which asks
	// Patience is for how long the deletion of a request waits for its entry to go.
	Patience time.Duration
}

// New returns an inbox, at no cost until it is used.
func New(o Options) *Inbox {
	return &Inbox{Options: o, wake: make(chan struct{}, 1), wards: map[string]*ward{}}
}

// path is that of a request, or of the node above them for "".
func path(root, id string) string {
	return strings.TrimSuffix(root+"/"+znode.Inbox+"/"+id, "/")
}

// backoff is how long requests pause between tries.
var backoff = zkconn.Backoff{First: 20 * time.Millisecond, Most: time.Second}

// Request is a request as it was read.
type Request struct {
	znode.Revocation
	Stat *zk.Stat
	Err  error // of the decoding: then nothing is known of what it asks for
}

// Read reads the request to the entry with that id, and reports whether it is moot: the
// entry is gone, and its path never comes again. It fails with zk.ErrNoNode if there is no
// request.
//
// The transaction that makes a request checks that the entry is there. So a session that
// has seen the request has seen the entry's create, and if it sees no entry, its end.
// Another session may not have: then both are read again.
func Read(ctx context.Context, conn *zkconn.Conn, root, id string) (r Request, moot bool, err error) {
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
		if moot = errors.Is(err, zk.ErrNoNode); err != nil && !moot {
			return r, false, err
		}
		if !moot || conn.Session() == session {
			return r, moot, nil
		}
	}
}

// errStands says that a request cannot be deleted because its entry is there.
var errStands = errors.New("the entry that is asked is there")

// clear deletes the request to the entry with that id if it is moot. It fails with
// errStands if it is not.
func (b *Inbox) clear(ctx context.Context, id string) error {
	r, moot, err := Read(ctx, b.Conn, b.Root, id)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err != nil:
		return err
	case r.Err != nil: // its entry is not known
		return nil
	case !moot:
		return errStands
	}
	// It cannot have been made again: its entry was gone.
	_, err = b.Conn.Multi(ctx, nil, &zk.DeleteRequest{Path: path(b.Root, id), Version: r.Stat.Version})
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// lastMoments is for how long a client that closes waits for requests to be deleted.
const lastMoments = time.Second

// clearSoon deletes the request to an entry of ours that has ended, in the background, as
// soon as the entry is gone. What cannot be deleted is left to the next Ask, and to the
// reaper.
func (b *Inbox) clearSoon(id string) {
	b.background(func() {
		ctx, cancel := context.WithTimeout(context.Background(), b.Patience)
		defer cancel()
		defer context.AfterFunc(b.Closing, func() { time.AfterFunc(lastMoments, cancel) })()
		err := b.Conn.Retry(ctx, backoff, func() error {
			err := b.clear(ctx, id)
			if errors.Is(err, errStands) {
				err = zkconn.Later(err)
			}
			return err
		})
		if err != nil {
			b.Log.Debug().Err(err).Str("request", path(b.Root, id)).Msg("a request to give up a lock could not be deleted, and is left to the reaper")
		}
	})
}

// background runs f in a goroutine that the closing client waits for. It does nothing once
// all has been waited for.
func (b *Inbox) background(f func()) {
	if !b.Tasks.Enter() {
		return
	}
	go func() {
		defer b.Tasks.Leave()
		f()
	}()
}

// made makes the node above the requests, for want of which another call has failed
// with why. It returns an error that has Retry try that again.
func (b *Inbox) made(ctx context.Context, why error) error {
	_, err := b.Conn.Multi(ctx, nil, &zk.CreateRequest{
		Path: path(b.Root, ""), Data: znode.Parent{Kind: znode.Asked}.Encode(), Acl: b.ACL,
	})
	switch {
	case err == nil:
		return zkconn.ErrAgain
	case errors.Is(err, zk.ErrNodeExists): // another client was quicker, or our server lags behind
		return zkconn.Later(why)
	case errors.Is(err, zk.ErrNoAuth):
		return zkconn.Final(fmt.Errorf("%w: create %s: the ACL of the node above does not let us", zkconn.ErrDenied, path(b.Root, "")))
	}
	return err
}
