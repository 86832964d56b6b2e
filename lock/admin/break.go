package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// ErrHandedOn says that an entry was not deleted because it was written after the force-release.
// For example, another client has attached to it.
var ErrHandedOn = errors.New("another client has the entry now")

// Breaking is a force-release by [Tree.Break].
type Breaking struct {
	tree   Tree
	path   string
	before znode.Entry   // the entry as its owner last wrote it
	read   time.Duration // monotonic time at which before was read
	mark   int32         // version of the node that has the mark
	gone   bool          // the entry was deleted, or was missing
}

// Break force-releases the entry at path, of a holder or a waiter. It writes by, the releasing
// client and its reason, into the entry's record, and does not wait for the owner.
//
// The owner reads the mark with its next renewal, after at most a third of its TTL. Then its hold
// is lost with [lock.ErrBroken], and the owner deletes the entry. A waiter joins the queue again,
// at the end. If the owner is dead, [Breaking.Wait] deletes the entry after its lease. So no other
// client enters while the owner may believe that it holds the lock. [Breaking.Delete] does not
// keep this promise.
//
// Break fails with [lock.ErrInvalid] if by is invalid, with [lock.ErrForeign] if the entry is of
// another library or of a newer version, with [lock.ErrDenied] if an ACL forbids the read or the
// write, and with [lock.ErrExhausted] if the entry was created at the end of the counter: it never
// holds the lock, and another one may get its name. A missing entry is no error: Gone reports it.
func (t Tree) Break(ctx context.Context, path string, by znode.Broken) (*Breaking, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	for _, err := range []error{znode.CheckOwner(by.Owner), znode.CheckReason(by.Reason)} {
		if err != nil {
			return nil, fmt.Errorf("%w: %w", lock.ErrInvalid, err)
		}
	}
	b := &Breaking{tree: t, path: path}
	err := t.c.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error { return b.attempt(ctx, by) })
	if err != nil {
		return nil, fmt.Errorf("break %s: %w", path, err)
	}
	return b, nil
}

// attempt reads the entry, and writes the mark over the version that it has read, unless the entry
// has a mark already. Its error is for Conn.Retry.
func (b *Breaking) attempt(ctx context.Context, by znode.Broken) error {
	conn, name := b.tree.c.Conn, nameOf(b.path)
	n, err := conn.GetSynced(ctx, b.path) // a server that lags behind may not know the entry
	switch {
	case errors.Is(err, zk.ErrNoNode):
		b.gone = true
		return nil
	case name.Overflowed(): // the write could meet a later entry of that name, on the same version
		return zkconn.Final(fmt.Errorf("%w: another entry may get this name; it never holds the lock, and its owner deletes it", lock.ErrExhausted))
	case errors.Is(err, zk.ErrNoAuth):
		return zkconn.Final(fmt.Errorf("%w: the ACL does not let us read it", lock.ErrDenied))
	case err != nil:
		return err
	}
	entry := znode.ReadEntry(name, n.Data, znode.Stat(*n.Stat))
	switch {
	case !entry.Leased():
		return zkconn.Final(fmt.Errorf("%w: it is another library's, or of a newer version", lock.ErrForeign))
	case entry.Record.Broken != nil: // an earlier attempt, or another client, has marked it
		if b.mark = n.Stat.Version; b.before.Stat.Czxid == 0 || b.before.Stat.Version != b.mark-2 {
			b.before, b.read = entry, b.tree.Monotonic()
		}
		return nil
	}
	b.before, b.read = entry, b.tree.Monotonic()
	mark := marked(entry.Record, by)
	// Two writes, as in an attach: an owner whose renewal got no reply may delete the entry at the
	// next version.
	replies, err := conn.Multi(ctx,
		&zk.SetDataRequest{Path: b.path, Data: mark, Version: n.Stat.Version},
		&zk.SetDataRequest{Path: b.path, Data: mark, Version: n.Stat.Version + 1})
	_, cause := zkconn.RefusedOp(err)
	switch {
	case err == nil:
		b.mark = replies[1].Stat.Version
	case errors.Is(cause, zk.ErrNoAuth):
		return zkconn.Final(fmt.Errorf("%w: the ACL does not let us write it", lock.ErrDenied))
	case errors.Is(cause, zk.ErrBadVersion), errors.Is(cause, zk.ErrNoNode): // it was written or deleted
		return zkconn.ErrAgain
	}
	return err
}

// marked encodes the record with by as its mark. If the result is larger than clients can read,
// marked leaves the metadata out.
func marked(r znode.Record, by znode.Broken) []byte {
	r.Broken = &by
	data := r.Encode()
	if _, err := znode.DecodeRecord(data); err != nil {
		r.Metadata = nil
		data = r.Encode()
	}
	return data
}

// Gone reports whether the entry is deleted, as far as the calls of Break, Wait and Delete have
// shown. It makes no request.
func (b *Breaking) Gone() bool { return b.gone }

// Detached reports whether the entry was detached when Break read it. If so, no process believes
// that it holds the lock, and the caller may call Delete at once.
func (b *Breaking) Detached() bool { return b.before.Record.Detached }

// TTL returns the length of the lease that began with the owner's last write.
func (b *Breaking) TTL() time.Duration { return b.before.TTL() }

// Wait waits until the entry is deleted. As soon as the owner's lease and the grace have surely
// ended, Wait deletes the entry as Delete does, and fails as Delete does. If ctx ends first, Wait
// returns its error. Zero fields of the policy mean their defaults.
func (b *Breaking) Wait(ctx context.Context, p lock.Policy) error {
	if err := b.tree.check(ctx); err != nil {
		return err
	}
	if p = p.WithDefaults(); p.Validate() != nil {
		return p.Validate()
	}
	for !b.gone {
		conn := b.tree.c.Conn
		// As in attempt, a server that lags behind may not know the entry.
		changed, err := zkconn.Synced(ctx, conn, b.path, func() (<-chan zk.Event, error) {
			_, changed, err := conn.Watch(ctx, b.path)
			return changed, err
		})
		switch {
		case errors.Is(err, zk.ErrNoNode):
			b.gone = true
			return nil
		case err != nil:
			return err
		}
		verdict, wait, err := b.tree.judge(ctx, &b.before, p.Grace, b.read)
		switch {
		case errors.Is(err, zk.ErrNoNode): // the root was deleted, and the entry with it
			b.gone = true
			return nil
		case err != nil:
			return err
		case verdict == znode.Expired:
			return b.Delete(ctx, p)
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return zkconn.ContextError(ctx)
		}
		timer.Stop()
	}
	return nil
}

// Delete deletes the entry now, even if its owner still believes that it holds the lock. Until
// the owner's next renewal, another contender may hold the lock too, also a goroutine of the owner's
// client. If the entry was written after the force-release, Delete fails with [ErrHandedOn]. If
// there is no other entry, Delete also deletes a lock's node that Holdfast has created, unless the
// policy has KeepParent.
func (b *Breaking) Delete(ctx context.Context, p lock.Policy) error {
	if b.gone {
		return nil
	}
	if err := b.tree.check(ctx); err != nil {
		return err
	}
	gone, err := b.tree.removeWithParent(ctx, b.path, b.mark, p.KeepParent)
	if err == nil && !gone {
		err = fmt.Errorf("%s: %w", b.path, ErrHandedOn)
	}
	b.gone = b.gone || gone
	return err
}

// Purge deletes the entry at path if its lease and the grace have ended, as a waiter behind it
// would. gone reports whether Purge has deleted it, or found it missing. Zero fields of the policy
// mean their defaults.
func (t Tree) Purge(ctx context.Context, path string, p lock.Policy) (gone bool, err error) {
	if err := t.check(ctx); err != nil {
		return false, err
	}
	if p = p.WithDefaults(); p.Validate() != nil {
		return false, p.Validate()
	}
	n, err := t.c.Conn.Get(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	entry := znode.ReadEntry(nameOf(path), n.Data, znode.Stat(*n.Stat))
	verdict, _, err := t.judge(ctx, &entry, p.Grace, t.Monotonic())
	if errors.Is(err, zk.ErrNoNode) { // the root was deleted, and the entry with it
		return true, nil
	}
	if err != nil || verdict != znode.Expired {
		return false, err
	}
	return t.removeWithParent(ctx, path, n.Stat.Version, p.KeepParent)
}

// judge returns the verdict on an entry that was read at the monotonic time read. Unless the verdict
// is Expired, it also returns the time until the next check.
func (t Tree) judge(ctx context.Context, e *znode.Entry, grace, read time.Duration) (znode.Verdict, time.Duration, error) {
	now := t.Estimate()
	verdict, wait := e.Judge(now, grace, t.Monotonic()-read)
	if verdict == znode.Unproven || verdict == znode.Expired && t.Outdated() {
		if err := t.c.Clock.Prove(ctx, now, e.Stat.Mzxid); err != nil {
			return znode.Live, 0, err
		}
		now = t.Estimate()
		verdict, wait = e.Judge(now, grace, t.Monotonic()-read)
	}
	if verdict != znode.Live && verdict != znode.Expired || wait <= 0 {
		wait = max(grace/4, time.Millisecond) // then the proof may be there
	}
	return verdict, wait, nil
}

// removeWithParent deletes the entry at path if the entry has the version. Then it deletes the lock's node if
// that is [znode.Node.ParentRemovable], unless keepParent is set. gone is also true if the entry was
// missing; it is false if the entry has another version.
func (t Tree) removeWithParent(ctx context.Context, path string, version int32, keepParent bool) (gone bool, err error) {
	err = t.Delete(ctx, []Deletion{{path, version}})
	var refused *RefusedError
	switch {
	case errors.As(err, &refused) && errors.Is(err, zk.ErrBadVersion):
		return false, nil
	case errors.Is(err, zk.ErrNoAuth):
		return false, fmt.Errorf("delete %s: %w", path, lock.ErrDenied)
	case err != nil && !errors.Is(err, zk.ErrNoNode):
		return false, err
	}
	if keepParent {
		return true, nil
	}
	parent := path[:strings.LastIndexByte(path, '/')]
	n, err := t.c.Conn.Get(ctx, parent)
	if err != nil {
		return true, unlessGone(err)
	}
	node := znode.ReadNode(n.Data, znode.Stat(*n.Stat))
	anchored := node.Generation != "" && n.Stat.NumChildren > 0
	if !node.ParentRemovable(anchored, false) {
		return true, nil
	}
	var nodes []Deletion
	if anchored {
		nodes = append(nodes, Deletion{parent + "/" + znode.Anchor(node.Generation), -1})
	}
	return true, unlessGone(t.Delete(ctx, append(nodes, Deletion{parent, n.Stat.Version})))
}

// unlessGone returns err, the error of deleting a lock's node, unless the node is missing or in
// use, or this client may not delete it. In the last case the reaper deletes the node.
func unlessGone(err error) error {
	for _, fine := range []error{zk.ErrNoNode, zk.ErrNotEmpty, zk.ErrBadVersion, zk.ErrNoAuth} {
		if errors.Is(err, fine) {
			return nil
		}
	}
	return err
}

func nameOf(path string) znode.Name {
	name, _ := znode.Parse(path[strings.LastIndexByte(path, '/')+1:])
	return name
}
