package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Why a lock cannot be acquired. Package lock gives these to its users.
var (
	// ErrForeign: the path holds a znode that Holdfast did not create, or cannot have children.
	ErrForeign = errors.New("path holds a znode that Holdfast did not create")
	// ErrKind: the name is in use for another kind of lock.
	ErrKind = errors.New("lock is of another kind")
	// ErrPermits: the semaphore has another number of permits.
	ErrPermits = errors.New("semaphore has another number of permits")
)

// Queue is the part of a client that takes entries into the queues of locks, waits there,
// and removes them. All methods are safe for concurrent use.
type Queue struct {
	Options

	anchorACL []zk.ACL

	mu    sync.Mutex
	locks map[string]*lockState

	orphans  orphans
	removals removals
	tidy     tidier
	resumed  resumption

	requeued, purged atomic.Uint64
	waiters          atomic.Int64
	leftBehind       atomic.Bool // see LeftBehind
}

// Options are what a queue works with.
type Options struct {
	Conn   *zkconn.Conn   // sends all requests
	Clock  *clock.Clock   // judges the entries of other clients
	Keeper *lease.Keeper  // renews our own
	Log    zerolog.Logger // gets purges, and what is out of order
	Tasks  *zkconn.Group  // counts what goes on in the background; Close waits for it

	Closing       context.Context // ends when the client closes; its cause is the error of calls
	Root          string          // path below which the locks stand
	ACL           []zk.ACL        // of the nodes that are made
	UnlockTimeout time.Duration   // for how long a clean-up is tried, beyond the end of the entry's lease
	Random        *rand.Rand      // safe for concurrent use

	// Waits is called when a request has to wait: for the entry at that path, or for a
	// goroutine of this process (""). So many contenders are ahead; 0: it is not known.
	Waits func(values context.Context, r *Request, entry string, ahead int)
	// LossOf makes the error that a hold tells of its loss. Observe is told of each
	// change of an entry's life, see [lease.Owner]; Purged, of each expired entry that this
	// client deletes, and for which request. None of them may block.
	LossOf  func(e *Entry, why error) error
	Observe func(e *Entry, c lease.Change)
	Purged  func(r *Request, path string)
	// HandoffFailed is told of an entry for which HandOff has reported true, and which leaves
	// after all.
	HandoffFailed func(e *Entry)
}

// New returns a queue.
func New(o Options) *Queue {
	q := &Queue{Options: o, locks: map[string]*lockState{}}
	q.anchorACL = append(slices.Clone(o.ACL), zk.ACL{Perms: zk.PermRead, Scheme: "world", ID: "anyone"})
	q.tidy.owed = map[string]*duty{}
	return q
}

// Request is what one contender asks for.
type Request struct {
	Lock       string          // name, relative to the root
	Kind       znode.Kind      // of the lock
	Role       znode.Role      // of the contender
	Permits    int32           // of a semaphore, that it asks for
	Capacity   int32           // that the semaphore has, as the contender says
	Priority   int32           // of a candidate, for a Mutex that is an election; 0: it is none
	Terms      lease.Terms     // of its entry
	KeepParent bool            // the parent stays when the last entry leaves
	Barging    bool            // it takes the lock when it is free, without a place in the queue
	Window     time.Duration   // for how long an entry is handed on in this process while others wait
	Idle       time.Duration   // for how long an unused entry is kept; 0: not
	Values     context.Context // whose values the hold's context keeps
}

// rules are what the admission of contenders depends on.
func (r *Request) rules(capacity int32) znode.Rules {
	return znode.Rules{Kind: r.Kind, Capacity: capacity}
}

// prefix is the name of the contender's entry, without the sequence.
func (r *Request) prefix(tag string) string {
	switch {
	case r.Kind == znode.Semaphore:
		return znode.PermitsPrefix(tag, r.Permits)
	case r.Priority != 0:
		return znode.PermitsPrefix(tag, r.Priority)
	}
	return znode.Prefix(tag, r.Role)
}

// Blocked is the error that names the contender in the way.
type Blocked struct {
	Path  string       // of its entry, or of the lock
	Entry *znode.Entry // as it was read; nil: it was not
}

func (b *Blocked) Error() string { return "in the way: " + b.Path }

// Path is the path of the named lock's parent.
func (q *Queue) Path(lock string) string { return q.Root + "/" + lock }

// NewID returns a random id.
func (q *Queue) NewID() string { return znode.FormatID(q.Random.Uint64()) }

// Counts are how often a contender queued again because its entry was gone, and how many
// expired entries of others were deleted.
func (q *Queue) Counts() (requeued, purged uint64) { return q.requeued.Load(), q.purged.Load() }

// Waiters is how many goroutines wait for a lock, and how many entries are kept unused.
func (q *Queue) Waiters() int {
	q.mu.Lock()
	states := slices.Collect(maps.Values(q.locks))
	q.mu.Unlock()
	n := int(q.waiters.Load())
	for _, s := range states {
		s.mu.Lock()
		for _, p := range s.places.all() {
			if _, kept := p.Kept(); kept {
				n++
			}
		}
		s.mu.Unlock()
	}
	return n
}

// LeftBehind reports whether, since the client began to close, the deletion of a node was
// given up: it stays until it has expired.
func (q *Queue) LeftBehind() bool { return q.leftBehind.Load() }

// noteLeftBehind notes that a node is left to expire. If the owner of the connection has closed it
// that is expected.
func (q *Queue) noteLeftBehind(why error) {
	if q.Closing.Err() != nil && !errors.Is(why, zkconn.ErrClosed) {
		q.leftBehind.Store(true)
	}
}

// background runs f, and Close waits for it. It reports false, and does nothing, once
// Close has waited.
func (q *Queue) background(f func()) bool {
	if !q.Tasks.Enter() {
		return false
	}
	go func() {
		defer q.Tasks.Leave()
		f()
	}()
	return true
}

// patience is for how long the clean-up of an entry is tried. After that it has expired.
func (q *Queue) patience(t *lease.Terms) time.Duration { return q.UnlockTimeout + t.TTL + t.Grace }

// settled is the context of requests whose outcome is always awaited.
var settled = zkconn.Uncancellable(context.Background())

// send sends a transaction once there is a session, and returns when its outcome is known
// or the connection has failed. The end of ctx ends the wait for a session only: so no
// request is ever under way without a goroutine that takes its outcome.
func (q *Queue) send(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	if err := q.Conn.Ready(ctx); err != nil {
		return nil, err
	}
	return q.Conn.Multi(settled, nil, ops...)
}

// backoff is between tries of a request that the connection has failed.
var backoff = zkconn.Backoff{First: 20 * time.Millisecond, Most: time.Second}

// pollEvery is how often a node is read that cannot be watched.
const pollEvery = time.Second

// readAgainAfter is how long a wait without another bound lasts before the node is read again: a
// watch can be lost.
const readAgainAfter = time.Minute

// contender is one request on its way through the queue of a lock.
type contender struct {
	*Queue
	Request
	parent string // path of the lock
	lock   *lockState

	placed  *placed        // that it joins for; nil: for itself
	trying  bool           // it does not wait
	blocker func(*Blocked) // is told of the contender in the way
	seen    *sighting      // of one that does not queue: the last contender in the way

	entriesAhead int                           // when they were counted last
	waiting      func(entry string, ahead int) // is told that the contender has to wait by that entry

	resizing int32 // permits that there were when a resize began; 0: it is none
	immune   int32 // of a candidate: it does not yield to priorities up to this one
}

// newContender returns a contender. Its lock state is to be closed.
func (q *Queue) newContender(r Request) *contender {
	return &contender{
		Queue: q, Request: r, parent: q.Path(r.Lock), lock: q.open(r.Lock, r.KeepParent),
		blocker: func(*Blocked) {}, waiting: func(string, int) {},
	}
}

// path is that of an entry of the lock.
func (c *contender) path(n znode.Name) string { return c.parent + "/" + n.Node }

// list returns the lock's contenders in order: none if the parent is not there. caughtUp asks the
// server to catch up with the leader first.
func (c *contender) list(ctx context.Context, caughtUp bool) ([]znode.Name, error) {
	read := c.Conn.Children
	if caughtUp {
		read = c.Conn.ChildrenSynced
	}
	children, _, err := read(ctx, c.parent)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		c.lock.believe(parent{state: absent})
		return nil, nil
	case errors.Is(err, zk.ErrNoAuth):
		return nil, fmt.Errorf("%w: list %s: its ACL does not let us", zkconn.ErrDenied, c.parent)
	case err != nil:
		return nil, err
	}
	names := znode.Contenders(children)
	c.lock.sawOthers(len(names) > 1)
	return names, nil
}

// await waits for an event, for at most that long.
func await(ctx context.Context, changed <-chan zk.Event, most time.Duration) error {
	if most < 0 || most > readAgainAfter {
		most = readAgainAfter
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-changed:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return zkconn.ContextError(ctx)
	}
}

// pause waits for a while.
func pause(ctx context.Context, d time.Duration) error { return await(ctx, nil, d) }
