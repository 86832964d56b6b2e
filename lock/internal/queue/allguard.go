package queue

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// guardAfter is the number of refused joins after which a join for several locks uses guards.
const guardAfter = 2

// guardLock creates a guard below the lock of a joiner, and the parent if there is none. A guard is an
// ephemeral node with the name of an anchor. It is no contender, so it is in the way of no client. But
// no client can delete a parent that has a guard. So the belief about the parent stays right until one
// transaction creates the entries and deletes the guards of all locks. Without guards a join for many
// locks may be refused without end, because any of the beliefs can be outdated. If the process dies,
// the server deletes the guards with the session.
//
// guardLock does nothing if the server makes no ephemeral nodes for this session.
func (j *joiner) guardLock(ctx context.Context) error {
	if j.guard == "" {
		j.guard = anchorPath(j.parent, j.newID())
	}
	err := j.Conn.Retry(ctx, joinBackoff, func() error {
		if err := j.know(ctx); err != nil {
			return zkconn.Final(err)
		}
		if j.guarded {
			return nil
		}
		d := j.draft(j.belief, j.Clock.Local())
		d.ops[d.at] = &zk.CreateRequest{Path: j.guard, Flags: zk.FlagEphemeral, Acl: j.ACL}
		var m zkconn.Member
		d.share(&m)
		m.Guess = false // know has read the parent after a refusal
		_, err := j.Conn.Share(ctx, m)
		d.answered()
		op, cause := zkconn.RefusedOp(err)
		switch {
		case err == nil, op == d.at && errors.Is(cause, zk.ErrNodeExists): // the reply was lost, or an earlier join made it
			d.parent.state, d.parent.unproven, d.parent.shared = present, false, sharedFor
			j.belief, j.guarded = d.parent, true
			j.lock.believe(d.parent)
			return nil
		case op == d.at && !errors.Is(cause, zk.ErrNoAuth):
			j.Log.Debug().Err(cause).Str("lock", j.Lock).Msg("the server makes no guard; joining without one")
			return nil
		}
		return j.refused(ctx, d, err)
	})
	return err
}

// unguard deletes the guards in the background. A parent that has only its anchor then is deleted
// later.
func (a *all) unguard() {
	for _, j := range a.each {
		if j.guard != "" {
			j.removeGuard(j.guard)
			j.guard, j.guarded = "", false
		}
	}
}
