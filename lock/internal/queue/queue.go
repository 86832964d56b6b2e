package queue

import (
	"context"
	"errors"
	"fmt"
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
	// ErrForeign: the path holds data that is not ours, or cannot have children.
	ErrForeign = errors.New("path belongs to somebody else")
	// ErrKind: the name is in use for another kind of lock.
	ErrKind = errors.New("lock is of another kind")
	// ErrPermits: the semaphore has another number of permits.
	ErrPermits = errors.New("semaphore has another number of permits")
)

// Queue is how the entries of one client get into the queues of locks, wait there,
// and leave them again. All methods are safe for concurrent use.
type Queue struct {
	Options

	parentACL []zk.ACL // see origin

	mu    sync.Mutex
	doors *doors

	quarantine quarantine
	leaving    departures
	batch      zkconn.Batch // of those who join
	resumed    resumption

	requeued, purged atomic.Uint64
	riding           atomic.Int64
	leftBehind       atomic.Bool // see LeftBehind
}

// Options are what a queue works with.
type Options struct {
	Conn   *zkconn.Conn   // that all requests are made by
	Clock  *clock.Clock   // by which others' entries are judged
	Keeper *lease.Keeper  // keeps our own alive
	Log    zerolog.Logger // where purges, and what is out of order, are told
	Tasks  *zkconn.Group  // what goes on in the background, and is waited for

	Closing       context.Context // ends when the client closes
	Root          string          // path below which the locks stand
	ACL           []zk.ACL        // of the nodes that are made
	UnlockTimeout time.Duration   // for how long a clean-up is tried, beyond the end of the entry's lease
	Random        *rand.Rand      // safe for concurrent use
	Hints         string          // "": as learned; "none" and "hostile" are for simulations

	// NotPassed is told of an entry for which Pass has reported true, and which leaves after all.
	NotPassed func(e *Entry)
	// Waits is told of a request that waits without an entry of its own.
	Waits func(r *Request)
	// LossOf makes the error that a hold tells of its loss, Observe is told of each
	// change of an entry's life. See [lease.Owner]. Purged is told of each expired entry
	// of others that was deleted, and by which request.
	LossOf  func(e *Entry, why error) error
	Observe func(e *Entry, c lease.Change)
	Purged  func(r *Request, path string)
}

// New returns a queue.
func New(o Options) *Queue {
	return &Queue{Options: o, parentACL: append(slices.Clone(o.ACL), origin), doors: newDoors(), batch: zkconn.Batch{Most: bytesTogether}}
}

// Request is what one contender asks for.
type Request struct {
	Lock       string          // name, relative to the root
	Kind       znode.Kind      // of the lock
	Role       znode.Role      // of the contender
	Permits    int32           // of a semaphore, that it asks for
	Capacity   int32           // that the semaphore has, as the contender has it
	Priority   int32           // of a candidate, for a Mutex that is an election; 0: it is none
	Terms      lease.Terms     // of its entry
	KeepParent bool            // the parent is to stay when the last one leaves
	Window     time.Duration   // for how long an entry is passed on in this process whoever else waits; 0: it is not
	Idle       time.Duration   // for how long an entry that can be passed on is kept although nobody has it; 0: it is not
	Values     context.Context // whose values the hold's context keeps
}

// Blocked is the error that tells who is in the way.
type Blocked struct {
	Path  string       // of their entry, or of the lock
	Entry *znode.Entry // as it was read; nil if it could not be, or nobody in particular is
}

func (b *Blocked) Error() string { return "in the way: " + b.Path }

// Path is the node of the named lock.
func (q *Queue) Path(lock string) string { return q.Root + "/" + lock }

// NewID returns a random id for a node.
func (q *Queue) NewID() string { return znode.FormatID(q.Random.Uint64()) }

// Counts are how often a contender queued anew because its entry was gone, and how many
// expired entries of others were deleted.
func (q *Queue) Counts() (requeued, purged uint64) { return q.requeued.Load(), q.purged.Load() }

// Riders is how many wait for the entry of another contender of the client.
func (q *Queue) Riders() int { return int(q.riding.Load()) }

// LeftBehind reports whether, since the client began to close, something was given up that
// should have been deleted: it stays until it has expired.
func (q *Queue) LeftBehind() bool { return q.leftBehind.Load() }

// giveUp notes that something is left to expire. Of a connection that its owner has closed
// nobody expects more.
func (q *Queue) giveUp(why error) {
	if q.Closing.Err() != nil && !errors.Is(why, zkconn.ErrClosed) {
		q.leftBehind.Store(true)
	}
}

// background runs f, and whoever closes the client waits for it. It does nothing once
// all has been waited for.
func (q *Queue) background(f func()) {
	if !q.Tasks.Enter() {
		return
	}
	go func() {
		defer q.Tasks.Leave()
		f()
	}()
}

// patience is for how long the clean-up of an entry is tried: longer than that
// it is expired, and others' to purge.
func (q *Queue) patience(t lease.Terms) time.Duration { return q.UnlockTimeout + t.TTL + t.Grace }

// contender is one request on its way through the queue of a lock. It belongs to one
// goroutine.
type contender struct {
	*Queue
	Request
	parent   string // path of the lock
	door     *door
	gate     *door // where those wait who want to join; of several locks together, the first one's
	trying   bool  // not to wait for anybody
	onlyFree bool  // not to join where others are
	apart    bool  // not to take others along any more, nor be taken along
	followed bool  // the next entry was made in the same transaction as ours, for one of this process

	outlived    *observation  // of one who barges: who was waited for last; nil: nobody
	readAt      time.Duration // monotonic time before the parent was read last
	alone       bool          // by the list that a try, or one who barges, has made: there is one entry. Only such a one can be kept
	lastBlocker *Blocked      // who was seen in the way last
	listed      *zk.Stat      // of the parent, by the last list; nil: it was not there
	capacity    int32         // permits that a semaphore has now
	resizing    int32         // permits that it had when a resize began; 0: this is none
}

// newContender returns a contender, whose door is to be closed.
func (q *Queue) newContender(r Request) *contender {
	d := q.openDoor(r.Lock)
	return &contender{Queue: q, Request: r, parent: q.Path(r.Lock), door: d, gate: d, capacity: r.Capacity}
}

// contend runs what a contender does. When ctx ends meanwhile, the error tells who was
// in the way.
func (q *Queue) contend(ctx context.Context, r Request, run func(*contender, context.Context) (*Entry, error)) (*Entry, error) {
	c := q.newContender(r)
	defer q.closeDoor(c.door)
	e, err := run(c, ctx)
	if err != nil && ctx.Err() != nil && c.lastBlocker != nil {
		err = gaveUp(c.lastBlocker, err)
	}
	return e, err
}

// gaveUp is the error of who waited behind somebody when its context ended.
func gaveUp(waiting *Blocked, err error) error {
	return fmt.Errorf("%w: %w", waiting, err)
}

// Acquire queues up and waits until the lock is acquired, or ctx ends: then the entry is
// withdrawn, and the error is ctx's with its cause, and a [Blocked] if somebody was seen
// in the way. It fails at once with ErrForeign, ErrKind, zkconn.ErrDenied and
// zkconn.ErrClosed. Outages are waited out.
func (q *Queue) Acquire(ctx context.Context, r Request) (*Entry, error) {
	return q.contend(ctx, r, (*contender).ride)
}

// Try takes the lock if nobody is in the way; otherwise it fails with a [Blocked], and
// for the rest as Acquire does. It reads first, so that a try that fails has written
// nothing but, perhaps, the mark of the epoch.
func (q *Queue) Try(ctx context.Context, r Request) (*Entry, error) {
	return q.contend(ctx, r, (*contender).tryRide)
}

func (c *contender) try(ctx context.Context) (*Entry, error) {
	if err := c.looksFree(ctx); err != nil {
		return nil, err
	}
	for {
		e, err := c.tryJoined(ctx)
		if !errors.Is(err, lease.ErrGone) {
			return e, err
		}
	}
}

// looksFree returns a Blocked if somebody alive is in the way of a try, which it begins.
func (c *contender) looksFree(ctx context.Context) error {
	c.trying = true
	names, parent, err := c.contenders(ctx, false)
	if err != nil {
		return err
	}
	c.listed, c.alone = parent, len(names) == 1
	if c.Kind == znode.Semaphore {
		names, err = nil, c.roomFor(ctx, names)
	}
	if err != nil {
		return err
	}
	for _, n := range c.blockers(names) {
		if _, err := c.blockedBy(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// blockers are those that would be in our way, the first of them first.
func (c *contender) blockers(names []znode.Name) []znode.Name {
	names = append(names, znode.Name{Role: c.Role, Permits: c.Permits}) // ours, were it there
	var blockers []znode.Name
	for self := len(names) - 1; ; self-- {
		ahead := znode.Admit(names, self, c.rules())
		if ahead < 0 {
			slices.Reverse(blockers)
			return blockers
		}
		blockers = append(blockers, names[ahead])
		names = slices.Delete(names, ahead, ahead+1)
	}
}

// rules are what the admission of contenders of this kind depends on.
func (c *contender) rules() znode.Parent { return znode.Parent{Kind: c.Kind, Permits: c.capacity} }

// tryJoined joins and leaves again if somebody alive is ahead.
func (c *contender) tryJoined(ctx context.Context) (*Entry, error) {
	e, p, err := c.join(ctx)
	if err != nil {
		return nil, err
	}
	if p, err = c.clearWay(ctx, e, p); err == nil {
		err = c.await(ctx, e, p)
	}
	if err == nil {
		err = c.grant(ctx, e, false)
	}
	if err == nil {
		return e, nil
	}
	if e.giveUp() {
		c.Discard(e)
	} else {
		c.Forget(e)
	}
	return nil, err
}

// clearWay purges who is ahead of an entry that was joined in a try, until nobody is but
// who shares with us. It returns a Blocked if somebody alive has joined since it was
// looked, or if there are less permits than it asks for.
func (c *contender) clearWay(ctx context.Context, e *Entry, p position) (_ position, err error) {
	w := &waiter{contender: c, e: e, seen: c.outlived}
	for err == nil && !p.admitted && !p.shares {
		// Whoever is ahead has expired, shares with us, or joined since we looked.
		if p, err = w.purge(ctx); err == nil && p.predecessor == e.Name().Node {
			err = &Blocked{Path: c.parent} // there are less permits than it asks for
		} else if err == nil && p.predecessor != "" {
			n, _ := znode.Parse(p.predecessor)
			p.shares, err = c.blockedBy(ctx, n)
		}
	}
	return p, err
}

// blockedBy returns a Blocked if the contender is alive, as far as can be known, and does
// not share with us.
func (c *contender) blockedBy(ctx context.Context, n znode.Name) (shares bool, err error) {
	path, seen := c.parent+"/"+n.Node, c.outlived
	for try := 0; ; try++ { // each time it is read again: it may have been renewed while that was proven
		read, err := c.Conn.Get(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return false, nil
		case errors.Is(err, zk.ErrNoAuth):
			return false, &Blocked{Path: path}
		case err != nil:
			return false, err
		}
		seen = c.observed(seen, znode.ReadEntry(n, read.Data, znode.Stat(*read.Stat)))
		if c.Role == znode.Shared && seen.entry.Shares() {
			return true, nil
		}
		knew := c.Clock.Now()
		switch v, _ := c.judge(seen, knew); {
		case v == znode.Expired:
			return false, nil
		case v == znode.Live || try == 3:
			return false, &Blocked{Path: path, Entry: &seen.entry}
		}
		if err := c.Clock.Prove(ctx, knew, seen.entry.Stat.Mzxid); errors.Is(err, zkconn.ErrDenied) || errors.Is(err, zk.ErrNoNode) {
			return false, &Blocked{Path: path, Entry: &seen.entry}
		} else if err != nil {
			return false, err
		}
	}
}
