package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Left is a ticket's data about an entry that its owner has left to other clients.
type Left struct {
	Node        string // name of the entry's node
	Incarnation int32  // incarnation of the entry when it was left
	Until       int64  // ensemble time at which its lease ends, about, in Unix ms; 0: it was not detached
}

// Attach continues an entry that this or another process has left. It takes a detached entry over at
// once. An entry that was not detached may have a live owner: Attach waits until the lease and the
// grace have surely ended, as the waiter behind the entry does. Then Attach waits for the entry's
// turn, which has usually come: if the servers' data was restored from a backup, the entry may be
// the waiter's again that the hold was before.
//
// It fails with ErrAttached if another client was quicker, with ErrRemoved if the entry has gone,
// and otherwise as [Queue.Acquire] does. If ctx ends, or the client closes, before the entry's turn
// has come, the entry is left as it was, so the same ticket stays valid.
func (q *Queue) Attach(ctx context.Context, r Request, left Left) (*Entry, error) {
	c := newContender(q, r)
	c.checked = anyGeneration
	a := &attachment{contender: c, left: left, path: c.parent + "/" + left.Node}
	return abandonable(ctx, q, []*contender{c}, a.attach, func(e *Entry) { a.putBack(e) })
}

// attachment is the state of a contender that attaches to an existing entry.
type attachment struct {
	*contender
	left Left
	path string

	found *sighting // the entry; nil before the first read
}

func (a *attachment) attach(ctx context.Context) (*Entry, error) {
	if err := a.LearnTime(ctx); err != nil { // a record has its expiry in ensemble time
		return nil, err
	}
	e, err := a.takeOver(ctx)
	if err != nil {
		return nil, err
	}
	if err = a.wait(ctx, e, position{}); err == nil { // the position is unknown, so wait lists
		err = a.grant(ctx, e)
	}
	if err == nil {
		return e, nil
	}
	switch ended := a.putBack(e); { // the entry may have ended already
	case errors.Is(ended, lease.ErrBroken):
		err = fmt.Errorf("%w: %w", lease.ErrRemoved, ended)
	case errors.Is(ended, lease.ErrAttached):
		err = lease.ErrAttached
	case errors.Is(ended, lease.ErrGone):
		err = a.gone()
	case ended != nil:
		err = ended
	}
	return nil, err
}

// putBack starts a write of the entry as it was found, so that the ticket stays valid. No goroutine
// has held this incarnation. If the entry has ended, putBack returns the reason. In that case it
// deletes the node only if the hold was force-released.
func (a *attachment) putBack(e *Entry) (ended error) {
	_, ended = a.Detach(e, a.found.entry.TTL(), a.left.Incarnation)
	switch {
	case ended == nil:
	case errors.Is(ended, lease.ErrBroken): // the client that broke it waits until it has gone
		e.Remove()
	default:
		e.CheckParentLater()
	}
	return ended
}

// gone returns the error for an entry that has gone.
func (a *attachment) gone() error {
	if now := a.Clock.Now(); a.left.Until != 0 && now.Zxid != 0 {
		if ago := now.Lower - time.Duration(a.left.Until)*time.Millisecond; ago > 0 {
			return fmt.Errorf("%w: %s was left until %v ago, and no client attached in time", lease.ErrRemoved, a.path, ago.Round(time.Second))
		}
	}
	return fmt.Errorf("%w: %s was unlocked, has expired, or was deleted by hand", lease.ErrRemoved, a.path)
}

// attached returns an ErrAttached that names the client that attached to the entry.
func (a *attachment) attached() error {
	r := &a.found.entry.Record
	return fmt.Errorf("%w: the ticket is for incarnation %d of %s, but %q (host %q, pid %d) has made it %d",
		lease.ErrAttached, a.left.Incarnation, a.path, r.Owner, r.Host, r.PID, r.Incarnation)
}

// takeOver waits until the entry is detached or expired, and makes this client its owner, by a
// write on the version that was read. If several clients try, only one succeeds.
func (a *attachment) takeOver(ctx context.Context) (*Entry, error) {
	for {
		if err := a.readEntry(ctx); err != nil {
			return nil, err
		}
		switch r := &a.found.entry.Record; {
		case r.Incarnation < a.left.Incarnation: // the server lags behind
			a.found.wait = pollEvery
		case r.Detached || a.found.expired:
			if e, err := a.overwrite(ctx); !errors.Is(err, lease.ErrWritten) {
				return e, err
			}
			continue
		}
		if err := await(ctx, a.found.changed, max(0, a.found.wait)); err != nil {
			return nil, err
		}
	}
}

// readEntry reads and judges the entry. It fails if the ticket does not fit the entry.
func (a *attachment) readEntry(ctx context.Context) error {
	name, _ := znode.Parse(a.left.Node)
	// Synced, because the entry may have been detached just now.
	found, err := zkconn.Synced(ctx, a.Conn, a.path, func() (*sighting, error) {
		return a.assess(ctx, name, true, a.Clock.Prove)
	})
	if err == nil {
		a.found = found
	}
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return a.gone()
	case errors.Is(err, zk.ErrNoAuth):
		return denied("read", a.path)
	case err != nil:
		return err
	case !a.found.entry.Leased():
		return fmt.Errorf("%w: %s is not an entry that this release understands: %v", ErrForeign, a.path, a.found.entry.Err)
	case a.found.entry.Record.Incarnation > a.left.Incarnation:
		return a.attached()
	case a.found.entry.Record.Incarnation == a.left.Incarnation && a.found.entry.Record.Broken != nil:
		return fmt.Errorf("%w: %w %s", lease.ErrRemoved, lease.ErrBroken, a.found.entry.Record.Broken)
	}
	return nil
}

// overwrite writes the entry's next incarnation, on the version that was read, see
// [lease.Entry.Attach]. The outcome is awaited even if the caller gives up.
func (a *attachment) overwrite(ctx context.Context) (*Entry, error) {
	caller := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(caller))
	defer cancel()
	defer context.AfterFunc(caller, func() { time.AfterFunc(a.patience(&a.Terms), cancel) })()
	found := a.found.entry
	terms := a.Terms
	terms.Incarnation, terms.Attachment = a.left.Incarnation+1, a.newID()
	if attempt := found.Record.Attempt; attempt != "" {
		var err error
		if terms.Attempt, err = znode.ParseID(attempt); err != nil {
			return nil, fmt.Errorf("%w: the attempt of %s: %w", ErrForeign, a.path, err)
		}
	}
	e := &Entry{Kind: a.Kind, queue: a.Queue, keepParent: a.KeepParent, czxid: found.Stat.Czxid}
	// The record keeps the grant, because readers may have entered because of it.
	grant := lease.Grant{Acquired: found.Record.AcquiredAt, Shared: found.Record.Shared}
	err := e.Entry.Attach(ctx, a.Keeper, e, a.path, terms, grant, found.Stat.Version)
	switch {
	case err == nil:
		return e, nil
	case errors.Is(err, lease.ErrBroken): // the client that broke it waits until it has gone
		e.Withdraw()
		e.Remove()
		return nil, fmt.Errorf("%w: %w", lease.ErrRemoved, err)
	case errors.Is(err, zk.ErrNoNode):
		return nil, a.gone()
	case errors.Is(err, zk.ErrNoAuth):
		return nil, denied("write", a.path)
	}
	return nil, err
}
