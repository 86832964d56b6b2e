package queue

import (
	"errors"
	"strings"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Entry is an entry in the queue of a lock: its lease, and what was seen of the
// lock's parent as it joined, for when it leaves. Its methods are safe for concurrent
// use once it was joined.
type Entry struct {
	lease.Entry
	Lock string     // name of the lock
	Kind znode.Kind // of the lock

	queue  *Queue
	parent string // path of the lock
	door   uint64 // number of the door that counts it; guarded by that. 0: none does

	// As found when it joined; not changed after.
	czxid         int64
	incarnation   int64 // Czxid of the parent; 0: unknown
	parentVersion int32 // of the parent's data
	joinedAlone   bool  // no other child was there
	keepParent    bool  // the parent is to stay, as its policy has it
	adopted       bool  // the parent is to stay: it is not ours, or may not be

	// Others were there when the parent was read as its turn came; not changed once
	// it is granted.
	othersAtGrant bool
}

// Czxid is the transaction that created the entry, its fencing token; known once it is
// granted.
func (e *Entry) Czxid() int64 { return e.czxid }

// newEntry returns the entry of a node that was just created.
func (c *contender) newEntry(path string, created lease.Created) *Entry {
	name, _ := znode.Parse(path[strings.LastIndexByte(path, '/')+1:])
	e := &Entry{Lock: c.Lock, Kind: c.Kind, queue: c.Queue, parent: c.parent, keepParent: c.KeepParent}
	if strings.HasPrefix(path, c.parent) { // one string for as long as the entry lives
		e.parent = path[:len(c.parent)]
		e.Lock = e.parent[len(e.parent)-len(c.Lock):]
	}
	e.Init(c.Keeper, e, path, name, c.Terms, created)
	c.door.enter(e)
	return e
}

// LossOf makes the error of a loss; see [lease.Owner].
func (e *Entry) LossOf(why error) error { return e.queue.Options.LossOf(e, why) }

// Changed tells the client of a change, and sees to the node of a hold that was lost: a
// renewal that lands late would block others for a TTL. What somebody else has
// removed or written is not touched.
func (e *Entry) Changed(c lease.Change) {
	e.queue.Observe(e, c)
	switch {
	case !c.Lost():
	case errors.Is(c.Why, lease.ErrRemoved), errors.Is(c.Why, lease.ErrTaken):
		e.queue.Forget(e)
	default:
		e.queue.Discard(e)
	}
}
