package queue

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Entry is an entry in the queue of a lock: its lease, and what was seen of the
// lock's parent as it joined, for when it leaves. Its methods are safe for concurrent
// use once it was joined.
type Entry struct {
	lease.Entry
	Kind znode.Kind // of the lock

	tenants  atomic.Int32 // how many have had it at once or one after the other
	passedOn atomic.Bool  // it was unlocked, and another one of this process goes on with its node

	queue *Queue
	door  uint64 // number of the door that counts it; guarded by that. 0: none does

	// Where it may be passed on, see Passing on; not changed once it is granted.
	at     *door         // nil: it may not
	window time.Duration // of whoever joined
	seat   *seat         // by which it is; nil while its party is forgotten. Guarded by the door's rides

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
// granted, and not to be asked for before.
func (e *Entry) Czxid() int64 { return e.czxid }

// The names of an entry are all in its path: a client may have very many entries.

// Lock is the name of the lock.
func (e *Entry) Lock() string { return e.parent()[len(e.queue.Root)+1:] }

// Name is the name of the node.
func (e *Entry) Name() znode.Name {
	name, _ := znode.Parse(e.Path[strings.LastIndexByte(e.Path, '/')+1:])
	return name
}

// parent is the path of the lock.
func (e *Entry) parent() string { return e.Path[:strings.LastIndexByte(e.Path, '/')] }

// Reenter gives out one more handle on the hold, see [lease.Entry.Reenter]: none to write
// on a reader's.
func (e *Entry) Reenter(ctx context.Context, toWrite bool) error {
	if toWrite && e.Name().Role == znode.Shared && e.Err() == nil {
		return lease.ErrShared
	}
	return e.Entry.Reenter(ctx, toWrite)
}

// Reads reports whether whoever holds it may only read.
func (e *Entry) Reads() bool { return e.Name().Role == znode.Shared || e.Shares() }

// NextTenant numbers those who have the entry together, in the order in which they came.
func (e *Entry) NextTenant() int32 { return e.tenants.Add(1) - 1 }

// Seated reports whether the entry may be passed on when it is unlocked.
func (e *Entry) Seated() bool { return e.at != nil }

// asked is what the entry was joined for, as far as it matters to who rides.
func (e *Entry) asked() *Request {
	return &Request{Kind: e.Kind, Role: e.Name().Role, Terms: e.TermsNow(), KeepParent: e.keepParent, Window: e.window}
}

// PassedOn reports whether it was: what is at its path belongs to another one.
func (e *Entry) PassedOn() bool { return e.passedOn.Load() }

// giveUp ends an entry that nobody has. It reports whether that is ours to delete: it had not
// ended before, or whoever has broken it waits until it has gone.
func (e *Entry) giveUp() bool { return e.Withdraw() || errors.Is(e.Err(), lease.ErrBroken) }

// newEntry returns the entry of a node that was just created.
func (c *contender) newEntry(path string, created lease.Created) *Entry {
	e := &Entry{Kind: c.Kind, queue: c.Queue, keepParent: c.KeepParent}
	e.Init(c.Keeper, e, path, c.Terms, created)
	c.door.enter(e)
	return e
}

// LossOf makes the error of a loss; see [lease.Owner].
func (e *Entry) LossOf(why error) error { return e.queue.Options.LossOf(e, why) }

// Changed tells the client of a change, and has the node of a hold that was lost deleted: a
// renewal that lands late would block others for a TTL. What somebody else has
// removed or written is not touched; but one that was broken, which its owner may not
// have been able to read, goes.
func (e *Entry) Changed(c lease.Change) {
	e.queue.Observe(e, c)
	if c.From == lease.Held && c.To == lease.Ended && !errors.Is(c.Why, lease.ErrUnlocked) {
		e.Unseat()
	}
	switch {
	case !c.Lost():
	case errors.Is(c.Why, lease.ErrRemoved), errors.Is(c.Why, lease.ErrAttached):
		e.queue.Forget(e)
	case errors.Is(c.Why, lease.ErrTaken):
		e.queue.discardIfBroken(e)
	default:
		e.queue.Discard(e)
	}
}
