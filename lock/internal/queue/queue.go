package queue

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Queue is the part of a client that puts entries into the queues of locks, waits there, and
// removes them. All methods are safe for concurrent use.
type Queue struct {
	Options

	anchorACL []zk.ACL

	lockStates
	orphans orphans
	tidy    tidier
	resumed resumption

	requeued, purged atomic.Uint64
	waiters          atomic.Int64
	leftBehind       atomic.Bool // see Stats
}

// Options has the parts and settings of a queue.
type Options struct {
	Conn   *zkconn.Conn   // sends all requests
	Clock  *clock.Clock   // ensemble time, for verdicts on other contenders' entries
	Keeper *lease.Keeper  // renews this client's entries
	Log    zerolog.Logger // receives purges and problems
	Tasks  *zkconn.Tasks  // counts background work, and each call; the client's Close waits for it

	Closing       context.Context // ends when the client closes; its cause is the error of calls that still wait
	Root          string          // path below which the locks are
	ACL           []zk.ACL        // ACL of created nodes
	UnlockTimeout time.Duration   // a clean-up is retried for this long after the entry has expired
	Random        *rand.Rand      // safe for concurrent use

	// Waits is called when a request has to wait. entry is the path of the entry that it waits
	// with; "": none so far. ahead is the number of contenders ahead; 0: unknown.
	Waits func(values context.Context, r *Request, entry string, ahead int)
	// LossOf returns the error of a lost hold. Observe receives each change of an entry, see
	// [lease.Owner]. Purged receives the path of each expired entry that this client deletes, and
	// the request that did so. The three functions must not block.
	LossOf  func(e *Entry, why error) error
	Observe func(e *Entry, c lease.Change)
	Purged  func(r *Request, path string)
	// NotHandedOff receives an unlocked entry that leaves in the background: it is exchanged, its
	// handoff failed, or its goroutine had given up. It does not receive an entry for which HandOff
	// has told its caller to delete the node.
	NotHandedOff func(e *Entry)
}

// Path returns the path of the named lock's parent.
func (o *Options) Path(lock string) string { return o.Root + "/" + lock }

// newID returns a random id.
func (o *Options) newID() string { return znode.FormatID(o.Random.Uint64()) }

// patience returns the time for which the clean-up of an entry with these terms is retried:
// UnlockTimeout longer than the entry needs to expire.
func (o *Options) patience(t *lease.Terms) time.Duration { return o.UnlockTimeout + t.TTL + t.Grace }

// New returns a queue without entries. It starts no goroutine.
func New(o Options) *Queue {
	q := &Queue{Options: o}
	q.locks = map[string]*lockState{}
	q.anchorACL = append(slices.Clone(o.ACL), zk.ACL{Perms: zk.PermRead, Scheme: "world", ID: "anyone"})
	q.tidy.Queue, q.tidy.owed = q, map[string]*duty{}
	return q
}

// Request is the request of one contender.
type Request struct {
	Lock       string          // name, relative to the root
	Kind       znode.Kind      // kind of the lock
	Role       znode.Role      // access that it asks for
	Permits    int32           // semaphore: number of permits that it asks for
	Capacity   int32           // semaphore: total number of permits, as the caller believes
	Priority   int32           // election (a Mutex): priority of the candidate; 0: no election
	Terms      lease.Terms     // conditions of its entry
	KeepParent bool            // the parent stays when the last entry leaves
	Barging    bool            // it waits without an entry, and joins when the lock is free
	Window     time.Duration   // time after a grant for local handoffs while other clients wait
	Values     context.Context // its values go into the hold's context
}

func (r *Request) rules(capacity int32) znode.Rules {
	return znode.Rules{Kind: r.Kind, Capacity: capacity}
}

// prefix returns the name of the contender's entry without the sequence. tag is its beginning, see
// [znode.Name].
func (r *Request) prefix(tag string) string {
	if n := max(r.Permits, r.Priority); n > 0 {
		return znode.PermitsPrefix(tag, n)
	}
	return znode.Prefix(tag, r.Role)
}

// Stats are the present numbers of a queue, and its counters since New.
type Stats struct {
	Waiters  int    // goroutines in a call that takes a lock
	Orphans  int    // remembered orphans
	Requeued uint64 // how often a contender queued again because its entry had gone
	Purged   uint64 // expired entries that this client has deleted
	// LeftBehind: this client, since it began to close, has given up the deletion of an entry's node.
	// The node stays until another client or the reaper deletes it.
	LeftBehind bool
}

// Stats returns the queue's numbers and counters.
func (q *Queue) Stats() Stats {
	return Stats{
		Waiters: int(q.waiters.Load()), Orphans: q.orphans.count(),
		Requeued: q.requeued.Load(), Purged: q.purged.Load(), LeftBehind: q.leftBehind.Load(),
	}
}

// send sends a transaction once there is a session. It returns when the outcome is known or the
// connection that carried the request has failed. The end of ctx only ends the wait for a session,
// not the wait for the outcome.
func (q *Queue) send(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	if err := q.Conn.Ready(ctx); err != nil {
		return nil, err
	}
	return q.Conn.Multi(context.Background(), ops...)
}

// pollEvery is the interval of reads of a node that cannot be watched.
const pollEvery = time.Second

// readAgainAfter is the longest wait before a node is read again, because a watch can be lost.
const readAgainAfter = time.Minute

// await waits for an event, but at most for the time most, and at most for readAgainAfter. If most
// is negative, only readAgainAfter counts. It fails if ctx ends.
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

// pause waits for d, but for readAgainAfter at most.
func pause(ctx context.Context, d time.Duration) error { return await(ctx, nil, d) }
