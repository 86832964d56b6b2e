package queue

import (
	linked "container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// door is what this process knows of one lock's parent, shared by its contenders for
// that lock, who join one at a time.
type door struct {
	name    string
	number  uint64
	toJoin  *linked.List  // of *turn: those who wait to join, in order; nil: nobody does
	barging chan struct{} // has a token while somebody barges; nil until somebody does

	looks looks // guarded by mu
	rides rides // by the entries of others of this process

	mu        sync.Mutex
	parent    facts
	gone      int64 // Czxid of the last parent that one of ours has deleted
	cleanup   parentCleanup
	newest    *sighting // the entry that was made last, of those that a list has shown; nil: none has
	release   release   // the last one that is known
	asked     asking    // for an entry that may be kept
	hints     hints
	witness   *Entry // of ours that stand below the parent, the one that joined last, if it is there still
	below     int32  // how many of ours do
	joining   bool   // somebody joins
	readOnly  bool   // the ACL does not let us write the parent
	unchecked bool   // the ACL of entries does not let us check them
	moves     uint32 // how often one of ours has come or gone

	users      int32 // requests under way; guarded by the queue, as are
	prev, next *door // the neighbours among those that nobody uses
}

// enter accounts for an entry of ours that now stands below the parent.
func (d *door) enter(e *Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.below++
	d.moves++
	e.door = d.number
	if e.incarnation != 0 {
		d.witness = e
	}
}

// place notes below which incarnation of the parent an entry of ours stands that joined
// without writing it.
func (d *door) place(e *Entry, incarnation int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.incarnation == 0 {
		e.incarnation = incarnation
	}
}

// testify makes the entry the one that proves which incarnation of the parent is there.
func (d *door) testify(e *Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.door == d.number && e.incarnation != 0 {
		d.witness = e
	}
}

// exit accounts for an entry of ours that is there no longer. It reports whether that
// was the last one, so that somebody has to tidy up the parent now: otherwise the one of
// ours that leaves last does. Entries whose door was forgotten meanwhile are counted nowhere,
// so each of them looks after the parent itself unless counted ones are left. Until is the
// monotonic time until which it surely was there, 0 if nobody knows. Stays says that we
// leave the parent there, for a moment at least; otherwise what is known of it is soon
// old, and proves nothing.
func (d *door) exit(e *Entry, until time.Duration, stays bool) (last bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.moves++
	if e.door != d.number {
		e.door = 0
		return d.below == 0
	}
	e.door = 0
	d.below--
	if d.witness == e {
		d.witness = nil
	}
	if !stays {
		until = 0
	}
	if e.incarnation != 0 && e.incarnation == d.parent.czxid {
		d.parent.proven = until
	}
	if d.newest != nil && e.Name().Node == d.newest.Node {
		d.newest = nil
	}
	if e.Name().Prefix() == d.parent.data.Tail {
		d.parent.tailLeft = true
		d.parent.stale = d.parent.stale || d.below == 0 && !stays
	}
	return d.below == 0
}

// succeed accounts for the next entry by the node of one that was passed on.
func (d *door) succeed(e, next *Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next.door, e.door = e.door, 0
	if d.witness == e {
		d.witness = next
	}
}

// handOver ends the account of an entry of ours that goes on without us. Somebody else
// looks after the parent when it leaves, whether there are others of ours or not.
func (d *door) handOver(e *Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.moves++
	if e.door == d.number {
		d.below--
	}
	if e.door = 0; d.witness == e {
		d.witness = nil
	}
}

// ours is how many entries of ours stand below the parent. Those that joined without
// writing it are not in the facts.
func (d *door) ours() int32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.below
}

// census is how often one of ours has come or gone, and how many are there.
type census struct {
	moves uint32
	below int32
}

func (d *door) count() census {
	d.mu.Lock()
	defer d.mu.Unlock()
	return census{d.moves, d.below}
}

// strangersAmong reports whether one of so many children is not ours for certain: of ours there
// was nobody but who has just left when it was asked, and nobody else has come or gone by the
// time that one is not counted any more.
func (d *door) strangersAmong(children int32, asked census) bool {
	return children > 0 && asked.below <= 1 && d.count().moves == asked.moves+1
}

// others reports whether entries of ours stand there beside this one.
func (d *door) others(e *Entry) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.door == d.number {
		return d.below > 1
	}
	return d.below > 0
}

// look returns what is known of the parent, and an entry of ours that stands below
// that very one, or nil.
func (d *door) look() (facts, *Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.witness != nil && !d.unchecked && d.witness.incarnation == d.parent.czxid {
		return d.parent, d.witness
	}
	return d.parent, nil
}

// dismiss drops a witness that could not be checked: because it has gone, or because
// the ACL does not let us.
func (d *door) dismiss(path string, denied bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.witness != nil && d.witness.Path == path {
		d.witness = nil
	}
	d.unchecked = d.unchecked || denied
}

func (d *door) isUnchecked() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unchecked
}

// see notes what a reply showed of the parent, unless younger facts are known.
func (d *door) see(f facts) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.release = releaseOf(f.data).after(d.release)
	if f.czxid <= d.gone || d.parent.exists && (f.czxid < d.parent.czxid || f.czxid == d.parent.czxid && f.version < d.parent.version) {
		return
	}
	f.othersAt = d.parent.othersAt
	if f.czxid == d.parent.czxid {
		f.proven = max(f.proven, d.parent.proven)
		f.ours = f.ours || d.parent.ours
		f.tailLeft = d.parent.tailLeft && f.data.Tail == d.parent.data.Tail
	}
	d.parent = f
}

// unproven notes that the parent may be deleted from now on.
func (d *door) unproven() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.parent.proven = 0
}

// missed notes that the parent was not there.
func (d *door) missed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.parent = facts{othersAt: d.parent.othersAt}
	d.hints.missed()
}

// deleted notes that one of ours has deleted the parent of that incarnation: a reply that
// comes later and shows it is old.
func (d *door) deleted(czxid int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = max(d.gone, czxid)
	d.parent = facts{othersAt: d.parent.othersAt}
	d.hints.missed()
}

// doubt notes that what was seen has turned out old.
func (d *door) doubt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.parent.stale = true
}

// denied notes that the parent cannot be written.
func (d *door) denied() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readOnly = true
}

func (d *door) isReadOnly() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.readOnly
}

// crowd notes that others are at the lock.
func (d *door) crowd(now time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.parent.othersAt = now
}

// readParent looks at the lock's node and refuses it if it is not ours to use.
func (c *contender) readParent(ctx context.Context) error {
	asked := c.Clock.Mono()
	n, err := c.Conn.Get(ctx, c.parent)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		c.door.missed()
		return nil
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("%w: read %s: its ACL does not let us", zkconn.ErrDenied, c.parent)
	case err != nil:
		return err
	}
	data, err := c.check(n)
	if err != nil {
		return err
	}
	if len(n.Data) == 0 && c.bearsOurMark(ctx, n.Stat.Czxid) {
		data.Adopted = false // somebody has emptied it
	}
	c.learn(data.Capacity())
	c.readAt = asked
	before, _ := c.door.look()
	c.door.met(c.Clock.Mono(), before, n.Stat.Version)
	c.door.see(factsOf(data, n.Stat, asked))
	return nil
}

// check refuses a lock's node that is not ours to use, and returns its data.
func (c *contender) check(n zkconn.Node) (znode.Parent, error) {
	if n.Stat.EphemeralOwner != 0 {
		return znode.Parent{}, fmt.Errorf("%w: %s is an ephemeral node", ErrForeign, c.parent)
	}
	data, err := znode.DecodeParent(n.Data)
	switch {
	case errors.Is(err, znode.ErrNewer):
		return data, fmt.Errorf("%w: %s holds %v; use a newer release", ErrForeign, c.parent, err)
	case err != nil:
		return data, fmt.Errorf("%w: %s holds %d bytes that are %v", ErrForeign, c.parent, len(n.Data), err)
	case data.Kind == "":
		data.Adopted = true // found empty: we use it, and leave it when we go
	case data.Kind == znode.Dir: // an ancestor of ours that becomes a lock too
	case data.Kind != c.Kind:
		return data, fmt.Errorf("%w: %s is a %s, asked for as a %s", ErrKind, c.parent, data.Kind, c.Kind)
	case data.Permits != c.Capacity && c.Kind == znode.Semaphore:
		return data, fmt.Errorf("%w: %s has %d, asked for as one of %d: all who use it must say the same, and Resize changes how many there are", ErrPermits, c.parent, data.Permits, c.Capacity)
	}
	if c.Kind == znode.Semaphore && data.Permits == 0 {
		data.Permits = c.Capacity
	}
	return data, nil
}

// tidyParent deletes a lock's parent if it is empty and ours to delete, and reports
// whether somebody is there. It is the last one out's duty; whoever joins meanwhile
// takes it over. What is deleted is what the read just before has shown. Spent says
// that the parent's counter is at its end: then even one that is to be kept has to go. The
// error, which was logged, says that it may still have to be done.
func (q *Queue) tidyParent(ctx context.Context, d *door, parent string, keep, spent bool) (others bool, _ error) {
	outage := q.Conn.LastOutage()
	n, err := q.Conn.Get(ctx, parent)
	for err == nil && q.Conn.LastOutage() != outage { // what was read may be old
		outage = q.Conn.LastOutage()
		if err = q.Conn.Ready(ctx); err == nil {
			n, err = q.Conn.Get(ctx, parent)
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		d.missed()
		return false, nil
	}
	if err != nil {
		q.Log.Debug().Err(err).Str("parent", parent).Msg("cannot see whether the lock's parent is empty")
		return false, err
	}
	node := znode.ReadNode(n.Data, znode.Stat(*n.Stat))
	if node.Ours() && node.Kind != znode.Dir {
		now := q.Clock.Mono()
		before, _ := d.look()
		d.met(now, before, n.Stat.Version)
		d.see(factsOf(node.Parent, n.Stat, now))
		d.unproven()
	}
	if !node.Removable(spent) || keep && !spent {
		return n.Stat.NumChildren > 0, nil
	}
	d.doubt() // it goes, or has gone
	_, err = q.Conn.Multi(ctx, nil, &zk.DeleteRequest{Path: parent, Version: n.Stat.Version})
	switch _, cause := zkconn.RefusedOp(err); {
	case err == nil:
		d.deleted(n.Stat.Czxid)
	case errors.Is(cause, zk.ErrNoNode):
		d.missed()
	case errors.Is(cause, zk.ErrNotEmpty), errors.Is(cause, zk.ErrBadVersion): // somebody came
		return true, nil
	default:
		q.Log.Debug().Err(err).Str("parent", parent).Msg("the lock's empty parent could not be deleted")
		return false, err
	}
	return false, nil
}
