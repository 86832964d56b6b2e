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

// ErrHandedOn says that an entry was not deleted, because another client has attached to it, or
// has written it, since the force-release.
var ErrHandedOn = errors.New("another client has the entry now")

// Breaking is a force-release by [Tree.Break].
type Breaking struct {
	tree   Tree
	path   string
	before znode.Entry   // the entry as its owner last wrote it
	read   time.Duration // monotonic time at which before was read
	mark   int32         // version of the node with the mark
	gone   bool          // the entry has gone
}

// Break force-releases the hold, or the place in the queue, of the entry at path. It writes by,
// the releasing client and its reason, into the entry's record. The owner learns of it with its
// next renewal, after at most a third of its TTL. Then its hold is lost with [lock.ErrBroken],
// and it deletes the entry. A waiter queues again, at the end. If the owner is dead,
// [Breaking.Wait] deletes the entry as soon as its lease has ended. So no other client enters
// while the owner may still believe that it holds the lock. Only [Breaking.Delete] breaks that
// promise.
//
// It fails with [lock.ErrForeign] if the entry is another library's, and with [lock.ErrDenied] if
// an ACL forbids it. A missing entry is no error.
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

// attempt reads the entry and marks that version. Its error is for Retry.
func (b *Breaking) attempt(ctx context.Context, by znode.Broken) error {
	conn, name := b.tree.c.Conn, nameOf(b.path)
	n, err := conn.GetSynced(ctx, b.path) // a server that lags behind may not know the entry
	switch {
	case errors.Is(err, zk.ErrNoNode):
		b.gone = true
		return nil
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
	// Two writes, as in an attach: an owner with a renewal in doubt may delete the entry on the next
	// version.
	replies, err := conn.Multi(ctx,
		&zk.SetDataRequest{Path: b.path, Data: mark, Version: n.Stat.Version},
		&zk.SetDataRequest{Path: b.path, Data: mark, Version: n.Stat.Version + 1})
	_, cause := zkconn.RefusedOp(err)
	switch {
	case err == nil:
		b.mark = replies[1].Stat.Version
	case errors.Is(cause, zk.ErrNoAuth):
		return zkconn.Final(fmt.Errorf("%w: the ACL does not let us write it", lock.ErrDenied))
	case errors.Is(cause, zk.ErrBadVersion), errors.Is(cause, zk.ErrNoNode): // it was renewed, or has gone
		return zkconn.ErrAgain
	}
	return err
}

// marked returns the record with the mark. If the record would become too large for other clients
// to read, the mark replaces the metadata.
func marked(r znode.Record, by znode.Broken) []byte {
	r.Broken = &by
	data := r.Encode()
	if _, err := znode.DecodeRecord(data); err != nil {
		r.Metadata = nil
		data = r.Encode()
	}
	return data
}

// Gone reports whether the entry has gone.
func (b *Breaking) Gone() bool { return b.gone }

// Detached reports whether the entry had no owner at the time of the force-release: then none has
// to learn of it, and the entry can be deleted at once.
func (b *Breaking) Detached() bool { return b.before.Record.Detached }

// TTL returns the TTL of the owner: a dead owner's lease ends that long after its last renewal.
func (b *Breaking) TTL() time.Duration { return b.before.TTL() }

// Wait waits until the entry has gone. It deletes the entry itself as soon as the owner's lease
// and the grace have surely ended. Zero fields of the policy mean their defaults.
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
		case errors.Is(err, zk.ErrNoNode): // the root has gone, and the entry with it
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
			return context.Cause(ctx)
		}
		timer.Stop()
	}
	return nil
}

// Delete deletes the entry now, even if its owner still believes that it holds the lock. Until
// the owner notices, with its next renewal, another client may hold the lock too. If the entry
// was written since, Delete fails with [ErrHandedOn]. If there is no other entry, it also deletes
// the lock's node, unless the policy has keep_parent.
func (b *Breaking) Delete(ctx context.Context, p lock.Policy) error {
	if b.gone {
		return nil
	}
	gone, err := b.tree.remove(ctx, b.path, b.mark, p.KeepParent)
	if err == nil && !gone {
		err = fmt.Errorf("%s: %w", b.path, ErrHandedOn)
	}
	b.gone = b.gone || gone
	return err
}

// Purge deletes the entry at path if its lease and the grace have ended, as a waiter behind it
// would. It reports whether the entry has gone. Zero fields of the policy mean their defaults.
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
	if errors.Is(err, zk.ErrNoNode) { // the root has gone, and the entry with it
		return true, nil
	}
	if err != nil || verdict != znode.Expired {
		return false, err
	}
	return t.remove(ctx, path, n.Stat.Version, p.KeepParent)
}

// judge judges an entry that was read at the monotonic time read. Unless the verdict is Expired, it
// returns the time until the next check.
func (t Tree) judge(ctx context.Context, e *znode.Entry, grace, read time.Duration) (znode.Verdict, time.Duration, error) {
	now := t.Estimate()
	verdict, wait := e.Judge(now, grace, t.Monotonic()-read)
	if verdict == znode.Unproven || verdict == znode.Expired && t.Outdated() {
		var err error
		if now, err = t.Prove(ctx, now, e.Stat.Mzxid); err != nil {
			return znode.Live, 0, err
		}
		verdict, wait = e.Judge(now, grace, t.Monotonic()-read)
	}
	if verdict != znode.Live && verdict != znode.Expired || wait <= 0 {
		wait = max(grace/4, time.Millisecond) // an unproven verdict may be proven then
	}
	return verdict, wait, nil
}

// remove deletes an entry at that version, and the lock's node after the last entry. It returns
// false if the entry was written since.
func (t Tree) remove(ctx context.Context, path string, version int32, keepParent bool) (gone bool, err error) {
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
	if !node.Removable(anchored, false) {
		return true, nil
	}
	var nodes []Deletion
	if anchored {
		nodes = append(nodes, Deletion{parent + "/" + znode.Anchor(node.Generation), -1})
	}
	return true, unlessGone(t.Delete(ctx, append(nodes, Deletion{parent, n.Stat.Version})))
}

// unlessGone returns the error of an operation on the lock's node after its last entry. It
// returns nil if another client uses the node, the node has gone, or the reaper has to delete it.
func unlessGone(err error) error {
	for _, fine := range []error{zk.ErrNoNode, zk.ErrNotEmpty, zk.ErrBadVersion, zk.ErrNoAuth} {
		if errors.Is(err, fine) {
			return nil
		}
	}
	return err
}

// nameOf returns the name of the entry at path.
func nameOf(path string) znode.Name {
	name, _ := znode.Parse(path[strings.LastIndexByte(path, '/')+1:])
	return name
}
