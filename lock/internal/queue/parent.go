package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// belief is the state of a client's belief about a lock's parent.
type belief uint8

const (
	absent  belief = iota // there is no parent: the join creates it
	unknown               // the parent must be read
	present               // there is a parent, with the anchor of its generation
)

// parent is a client's belief about a lock's parent. The server checks it: a join with a wrong
// belief is refused.
type parent struct {
	state      belief
	kind       znode.Kind
	generation string
	adopted    bool
	session    int64 // session in which a reply has shown the parent (a semaphore's anchor), or that there is none; 0: none has
	unproven   bool  // adopted, and it is not known yet whether its ACL lets this client delete entries
	version    int32 // data version, as this client has last read or written it
	created    int32 // number of children that were ever created, at that version
	shared     uint8 // other clients join, too: the number of the next joins for which the version is not known

	// Only for a semaphore: the data of the anchor, and its version.
	anchor        znode.AnchorData
	anchorVersion int32
}

// noParent returns the belief after a reply that there is no parent.
func (q *Queue) noParent() parent { return parent{session: q.Conn.Session()} }

// sharedFor is the number of joins for which a client, once it has seen that other clients use the
// lock, does not count on the version of the parent that it knows. A join on an outdated version is
// refused, and costs one transaction and one read more.
const sharedFor = 16

func (p *parent) data() []byte {
	return znode.Parent{Kind: p.kind, Generation: p.generation, Adopted: p.adopted}.Encode()
}

func anchorPath(parent, generation string) string { return parent + "/" + znode.Anchor(generation) }

// readParent reads the parent and, for a semaphore or if a join has not found it, the anchor. It records
// the result as the lock's belief, unless the state is unknown. The state is unknown if the parent has no
// generation, or if that anchor is missing; then the next join adopts the parent. readParent fails if this
// contender cannot use the parent, or if a read fails.
func (v *view) readParent(ctx context.Context) (p parent, err error) {
	for again := false; ; again = true {
		n, err := v.Conn.Get(ctx, v.parent)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			p = v.noParent()
			v.lock.believe(p)
			return p, nil
		case errors.Is(err, zk.ErrNoAuth):
			return p, denied("read", v.parent)
		case err != nil:
			return p, err
		}
		data, err := v.checkParent(n)
		if err != nil {
			return p, err
		}
		p = parent{state: present, kind: v.Kind, generation: data.Generation, adopted: data.Adopted, unproven: data.Adopted,
			session: v.Conn.Session(), version: n.Stat.Version, created: znode.Stat(*n.Stat).Counter(), shared: v.lock.believed().shared}
		if n.Stat.NumChildren > 1 { // the anchor, and a contender
			p.shared = sharedFor
		}
		if data.Generation == "" {
			p.state = unknown
			return p, nil
		}
		switch err := v.readAnchor(ctx, &p); {
		case errors.Is(err, zk.ErrNoNode) && again:
			p.state = unknown
			return p, nil
		case errors.Is(err, zk.ErrNoNode): // perhaps the parent was deleted and created again between the two reads
			continue
		case err != nil:
			return p, err
		}
		v.lock.believe(p)
		return p, nil
	}
}

// readParentSynced is readParent on a server that has caught up with the leader.
func (v *view) readParentSynced(ctx context.Context) (parent, error) {
	return zkconn.Synced(ctx, v.Conn, v.parent, func() (parent, error) { return v.readParent(ctx) })
}

// checkParent decodes the data of a parent. The generation of an ancestor of locks is "". A node without data
// is adopted. The error says why this contender cannot use the parent.
func (v *view) checkParent(n zkconn.Node) (znode.Parent, error) {
	if n.Stat.EphemeralOwner != 0 {
		return znode.Parent{}, fmt.Errorf("%w: %s is an ephemeral node", ErrForeign, v.parent)
	}
	data, err := znode.DecodeParent(n.Data)
	switch {
	case errors.Is(err, znode.ErrNewer):
		return data, fmt.Errorf("%w: %s holds %v; use a newer release", ErrForeign, v.parent, err)
	case err != nil:
		return data, fmt.Errorf("%w: %s holds %d bytes that are %v", ErrForeign, v.parent, len(n.Data), err)
	case data.Kind != "" && data.Kind != znode.Dir && data.Kind != v.Kind:
		return data, fmt.Errorf("%w: %s is a %s, asked for as a %s", ErrKind, v.parent, data.Kind, v.Kind)
	case data.Kind == znode.Dir:
		data.Generation = ""
	}
	data.Adopted = data.Adopted || len(n.Data) == 0
	return data, nil
}

// know sets the belief about the parent that the next attempt uses. It reads the parent if the belief
// is unknown or does not fit the request, and adopts a node that is no lock's parent yet.
func (j *joiner) know(ctx context.Context) error {
	p := j.lock.believed()
	if !j.suits(&p) {
		var err error
		if p, err = j.readParent(ctx); err != nil {
			return err
		}
	}
	if p.state == unknown || p.state == present && p.generation == j.anchorless {
		var err error
		if p, err = j.adopt(ctx); err != nil {
			return err
		}
		j.anchorless = ""
	}
	if p.state == present {
		j.checked = p.generation
	}
	if p.state == absent && j.denied {
		return deniedAbove(j.parent)
	}
	j.belief = p
	return nil
}

// suits reports whether a join can use a belief without a read. That of a semaphore must be of this
// session: after a loss of the servers' data, the version of an anchor may recur with other data.
func (j *joiner) suits(p *parent) bool {
	if p.state != present {
		return p.state == absent
	}
	return p.kind == j.Kind && j.fits(p) && (p.kind != znode.Semaphore || p.session == j.Conn.Session())
}

// makeAncestors creates the missing nodes above path in one transaction, each marked as a node of
// Holdfast.
func (q *Queue) makeAncestors(ctx context.Context, path string) error {
	return q.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		missing, err := q.missingAbove(ctx, path)
		if err != nil {
			return zkconn.Final(err)
		}
		if len(missing) == 0 {
			return nil
		}
		var ops []any
		for _, dir := range missing {
			// The check needs READ. So no node is created whose ACL excludes this client, or all clients.
			ops = append(ops, &zk.CreateRequest{Path: dir, Data: znode.Parent{Kind: znode.Dir}.Encode(), Acl: q.ACL}, &zk.CheckVersionRequest{Path: dir})
		}
		_, err = q.send(ctx, ops...)
		if op, cause := zkconn.RefusedOp(err); op >= 0 {
			return notCreated(missing[op/2], op%2 == 1, cause)
		}
		return err
	})
}

// missingAbove returns the paths of the missing nodes above path, from the top.
func (q *Queue) missingAbove(ctx context.Context, path string) (missing []string, err error) {
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		if len(missing) == 0 {
			_, err := q.Conn.Get(ctx, path[:i])
			if err == nil || errors.Is(err, zk.ErrNoAuth) { // the node exists
				continue
			}
			if !errors.Is(err, zk.ErrNoNode) {
				return nil, err
			}
		}
		missing = append(missing, path[:i])
	}
	return missing, nil
}

// notCreated returns the error for Retry after the server has refused to create the ancestor at path,
// or to read it.
func notCreated(path string, unreadable bool, cause error) error {
	switch {
	case errors.Is(cause, zk.ErrNodeExists): // another client was quicker, perhaps only with this one
		return zkconn.ErrAgain
	case errors.Is(cause, zk.ErrNoNode): // its own parent was deleted meanwhile; the caller tries again
		return nil
	case errors.Is(cause, zk.ErrNoAuth) && unreadable:
		cause = fmt.Errorf("%w: create %s: the ACL for new nodes does not let this client itself read", zkconn.ErrDenied, path)
	case errors.Is(cause, zk.ErrNoAuth):
		cause = deniedAbove(path)
	case errors.Is(cause, zk.ErrNoChildrenForEphemerals):
		cause = fmt.Errorf("%w: %s: the node above is ephemeral and cannot have children", ErrForeign, path)
	default:
		cause = fmt.Errorf("create %s: %w", path, cause)
	}
	return zkconn.Final(cause)
}

// LearnTime samples the leader's clock if there is no sample yet. If the root is missing, it
// creates the root. If an ACL forbids a sample, it returns nil.
func (q *Queue) LearnTime(ctx context.Context) error {
	for !q.Clock.Known() {
		err := q.Clock.Sample(ctx)
		switch {
		case errors.Is(err, zkconn.ErrDenied):
			q.Log.Debug().Err(err).Msg("entries have no expiry until their first renewal")
			return nil
		case errors.Is(err, zk.ErrNoNode):
			err = q.makeAncestors(ctx, q.Root+"/")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
