package queue

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Entry is one contender's node in the queue of a lock, with its lease. Once it has joined, its
// methods are safe for concurrent use.
type Entry struct {
	lease.Entry
	Kind znode.Kind // kind of the lock

	queue *Queue
	lock  *lockState // nil: no other goroutine can continue the entry. Constant
	place *placed    // the place that has the entry; nil while it waits. Guarded by the lock state

	holders   atomic.Int32 // number of calls of NextHolder
	handedOff atomic.Bool  // it was unlocked, and its node belongs to another Entry

	// The state at the join; constant after that.
	czxid         int64
	parentVersion int32 // data version of the parent; 0: the join's reply did not show it
	alone         bool  // there was no other contender
	adopted       bool  // the parent is adopted
	keepParent    bool  // the parent stays when the entry leaves
}

// Czxid returns the transaction that created the node.
func (e *Entry) Czxid() int64 { return e.czxid }

// Lock returns the name of the lock.
func (e *Entry) Lock() string { return e.parent()[len(e.queue.Root)+1:] }

// Name returns the name of the node.
func (e *Entry) Name() znode.Name {
	name, _ := znode.Parse(e.Path[strings.LastIndexByte(e.Path, '/')+1:])
	return name
}

// generation returns the parent's generation.
func (e *Entry) generation() string { return e.Name().Tag }

// parent returns the path of the lock.
func (e *Entry) parent() string { return e.Path[:strings.LastIndexByte(e.Path, '/')] }

// Reenter adds a handle on the hold, see [lease.Entry.Reenter]. It refuses a handle for writing
// on a reader's hold.
func (e *Entry) Reenter(ctx context.Context, toWrite bool) error {
	if toWrite && e.Name().Role == znode.Shared && e.Err() == nil {
		return lease.ErrShared
	}
	return e.Entry.Reenter(ctx, toWrite)
}

// Reads reports whether the holder may only read.
func (e *Entry) Reads() bool { return e.Name().Role == znode.Shared || e.Shares() }

// NextHolder counts one more hold of the entry and returns its number, from 0 on.
func (e *Entry) NextHolder() int32 { return e.holders.Add(1) - 1 }

// Placed reports whether other requests of the process can share or continue the entry.
func (e *Entry) Placed() bool { return e.lock != nil }

// HandedOff reports whether the entry was handed off locally: the node belongs to another hold
// now.
func (e *Entry) HandedOff() bool { return e.handedOff.Load() }

// patience is [Options.patience] for an entry whose lease may have been extended.
func (e *Entry) patience() time.Duration {
	return e.queue.patience(&lease.Terms{TTL: e.LongestTTL(), Grace: e.Grace})
}

// entryAt returns the entry of the node that the draft has created in the transaction czxid.
func (d *draft) entryAt(path string, czxid int64, created lease.Created) *Entry {
	c := d.by
	e := &Entry{Kind: c.Kind, queue: c.Queue, czxid: czxid, adopted: d.parent.adopted, keepParent: c.KeepParent || d.parent.adopted}
	if c.placed != nil {
		e.lock = c.lock
	}
	terms := c.Terms
	terms.Attempt, created.Acquired = d.attempt, d.acquired
	e.Init(c.Keeper, e, path, terms, created)
	c.own = e.Name()
	return e
}

// removeOrphan deletes, in the background, a node that an attempt of this client has created and that
// should not exist. It leaves a node that another client owns.
func (q *Queue) removeOrphan(path string, keepParent bool, terms *lease.Terms) {
	incarnation := terms.Incarnation
	q.removeIf(path, keepParent, q.patience(terms), func(n zkconn.Node) bool { return !ownedByAnother(n, incarnation) },
		"an orphaned entry could not be deleted, and is left to expire")
}

// ownedByAnother reports whether the node of an orphan has another owner: the node shows an attach,
// or a grant that this client has not written. This client never writes an orphan again. So a grant
// that is not from the create is another client's: a copy of this process, that was restored from an
// image, has the same entries. A force-release writes the node twice: at version 2 the grant is still
// that of the create, and the force-release waits until the node has gone.
func ownedByAnother(n zkconn.Node, incarnation int32) bool {
	r, err := znode.DecodeRecord(n.Data)
	if err != nil {
		return false
	}
	written := n.Stat.Version > 0 && !(r.Broken != nil && n.Stat.Version == 2)
	return r.Granted() && written || r.Incarnation != incarnation
}

// LossOf returns the error of a loss; see [lease.Owner].
func (e *Entry) LossOf(why error) error { return e.queue.Options.LossOf(e, why) }

// Changed handles each change of the entry; see [lease.Owner]. It deletes the node of a lost hold,
// because a late renewal would make other clients wait for a TTL. It does not delete a node that
// another client has deleted or written, except after a force-release.
func (e *Entry) Changed(c lease.Change) {
	e.queue.Observe(e, c)
	if c.To == lease.Ended && !errors.Is(c.Why, lease.ErrUnlocked) {
		e.Unplace()
	}
	switch {
	case !c.Lost():
	case errors.Is(c.Why, lease.ErrRemoved), errors.Is(c.Why, lease.ErrAttached):
		e.CheckParentLater()
	case errors.Is(c.Why, lease.ErrTaken):
		e.queue.removeIf(e.Path, e.keepParent, e.patience(), func(n zkconn.Node) bool { return errors.Is(e.OverwrittenBy(n.Data), lease.ErrBroken) },
			"an entry that another client has written could not be read; if it was force-released it is left to expire")
	default:
		e.Remove()
	}
}

// withdraw ends an entry that no goroutine has got, and deletes its node in the background, unless
// another client has attached to it.
func (e *Entry) withdraw() {
	switch {
	case e.Withdraw(), errors.Is(e.Err(), lease.ErrBroken):
		e.Remove()
	case errors.Is(e.Err(), lease.ErrAttached): // the node belongs to another client now
		e.CheckParentLater()
	default: // the node may still exist, or appear again, and would be ahead of the next entry
		e.CheckParentLater()
		e.queue.orphan(e.Attempt)
		e.queue.removeOrphan(e.Path, e.keepParent, &e.Terms)
	}
}
