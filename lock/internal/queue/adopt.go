package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// mayGo reports whether the parent that was just read may be deleted and made anew
// before our write comes, at the same version even: nobody is known to stand below it.
// Then a list tells of an entry to check; if there is none the entry is made first, and
// proves itself which parent it is. One that stays, or was written before, is safe if the
// reply was quick.
func (j *joining) mayGo(a attempt) bool {
	young := a.parent.version < oldEnough && !j.stays(a.parent)
	slow := j.Clock.Mono()-j.readAt > factsLast
	return a.parent.exists && a.witness == "" && (young || slow)
}

// stays reports whether none of ours deletes the parent.
func (j *joining) stays(f facts) bool { return j.KeepParent || f.data.Adopted }

// anyoneThere is the path of an entry of ours below the parent that was just read, "" if a
// list shows none, or would be long.
func (j *joining) anyoneThere(ctx context.Context, f facts) (string, error) {
	if f.children == 0 || f.children > shortQueue || j.door.isUnchecked() {
		return "", nil
	}
	names, parent, err := j.contenders(ctx, false)
	if err != nil || parent == nil || parent.Czxid != f.czxid {
		return "", err
	}
	for _, n := range slices.Backward(names) {
		if path := j.parent + "/" + n.Node; n.Ours() && path != j.notThere {
			return path, nil
		}
	}
	return "", nil
}

// oldEnough is the version from which on a parent is not taken for one that somebody else
// has made anew: that begins with 0, and each client of ours that finds it writes it once.
const oldEnough = 4

// claim writes the parent for an entry that joined without, now that the entry proves
// which parent it is: so that the next one knows who joined last, and this process how
// often others do. If that fails nothing is lost; but if the parent turns out to be
// somebody else's, the entry has no business there.
func (c *contender) claim(ctx context.Context, e *Entry) error {
	if err := c.readParent(ctx); errors.Is(err, ErrForeign) || errors.Is(err, ErrKind) {
		e.Withdraw()
		c.Discard(e)
		return zkconn.Final(err)
	} else if err != nil {
		return nil
	}
	f, _ := c.door.look()
	if !f.exists {
		return nil
	}
	data := c.tellTail(f.data, e.Name().Prefix())
	replies, err := c.Conn.Multi(ctx, nil,
		&zk.CheckVersionRequest{Path: e.Path, Version: -1},
		&zk.SetDataRequest{Path: c.parent, Data: data.Encode(), Version: f.version})
	if err != nil {
		return nil
	}
	stat := replies[1].Stat
	e.incarnation, e.parentVersion = stat.Czxid, stat.Version
	e.joinedAlone, e.adopted = stat.NumChildren == 1, data.Adopted
	now := c.Clock.Mono()
	c.door.joined(factsOf(data, stat, now), now)
	c.door.testify(e)
	return nil
}

// origin stands in the ACL of the nodes that we make for locks, and above them. It permits
// nothing to anybody. No write of data can erase it, so one of our parents is known as such
// whatever was written there.
var origin = zk.ACL{Scheme: "world", ID: "anyone"}

// learnOrigin looks whether the parent bears our mark, for those who write it under any
// version.
func (c *contender) learnOrigin(ctx context.Context) {
	if f, _ := c.door.look(); c.bearsOurMark(ctx, f.czxid) {
		c.door.isOurs(f.czxid)
	}
}

// bearsOurMark reports whether the parent of that incarnation is known to bear our mark.
func (c *contender) bearsOurMark(ctx context.Context, czxid int64) bool {
	acl, stat, err := c.Conn.ACL(ctx, c.parent)
	return err == nil && stat.Czxid == czxid && slices.Contains(acl, origin)
}

// isOurs notes that the parent of that incarnation bears our mark.
func (d *door) isOurs(czxid int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.parent.exists && d.parent.czxid == czxid {
		d.parent.ours = true
	}
}

// adopt is for a join that has written another parent than the one that its facts were
// about, of the same version by chance: one that was made anew since. Stat is the
// reply's, or nil if that was lost: then it is looked up whether it was so. If the parent
// is not ours it is marked as one that is never deleted, before anything else is done
// with it; whoever closes the client waits for that, and the caller until ctx ends.
func (c *contender) adopt(ctx context.Context, e *Entry, a attempt, data znode.Parent, stat *zk.Stat) {
	ours := make(chan bool, 1)
	e.adopted = true // until the contrary is known
	c.background(func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.patience(c.Terms))
		defer cancel()
		ours <- c.isOurs(ctx, a, data, stat)
	})
	select {
	case is := <-ours:
		e.adopted = data.Adopted || !is
	case <-ctx.Done():
	}
}

// isOurs reports whether the parent that a join has written is ours, or has gone; else it
// is marked as adopted.
func (c *contender) isOurs(ctx context.Context, a attempt, data znode.Parent, stat *zk.Stat) bool {
	if stat == nil {
		n, err := c.Conn.Get(ctx, c.parent)
		if err != nil {
			return errors.Is(err, zk.ErrNoNode)
		}
		if stat = n.Stat; stat.Czxid == a.parent.czxid {
			return true
		}
		node := znode.ReadNode(n.Data, znode.Stat(*n.Stat))
		if data = node.Parent; !node.Ours() || node.Adopted {
			return false
		}
	}
	acl, now, err := c.Conn.ACL(ctx, c.parent)
	if errors.Is(err, zk.ErrNoNode) || err == nil && (now.Czxid != stat.Czxid || slices.Contains(acl, origin)) {
		return true
	}
	c.Log.Warn().Str("lock", c.Lock).Str("parent", c.parent).Int32("version", stat.Version).
		Msg("the lock's node had been deleted and made again by somebody else, and its data was overwritten: it is marked as adopted, and stays when the lock is free; delete it by hand if nobody else uses it")
	if err := c.mark(ctx, data, stat); err != nil && !errors.Is(err, zk.ErrNoNode) {
		c.Log.Error().Err(err).Str("parent", c.parent).Msg("a node that may be somebody else's could not be marked as adopted: the last one out may delete it")
	}
	return false
}

// mark marks the parent as adopted, unless it is another one by now. Data and stat are
// those of the last known write.
func (c *contender) mark(ctx context.Context, data znode.Parent, stat *zk.Stat) error {
	version := stat.Version
	return c.Conn.Retry(ctx, zkconn.Backoff{First: 5 * time.Millisecond, Most: 250 * time.Millisecond}, func() error {
		data.Adopted = true
		_, err := c.Conn.Multi(ctx, nil, &zk.SetDataRequest{Path: c.parent, Data: data.Encode(), Version: version})
		if _, cause := zkconn.RefusedOp(err); !errors.Is(cause, zk.ErrBadVersion) {
			return err
		}
		n, err := c.Conn.Get(ctx, c.parent)
		if err != nil {
			return zkconn.Final(err)
		}
		node := znode.ReadNode(n.Data, znode.Stat(*n.Stat))
		if node.Stat.Czxid != stat.Czxid || !node.Ours() || node.Adopted {
			return nil
		}
		data, version = node.Parent, node.Stat.Version
		return zkconn.ErrAgain
	})
}
