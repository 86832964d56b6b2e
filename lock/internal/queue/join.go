package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// joining is the way of a contender into the queue.
type joining struct {
	*contender
	inDoor     bool   // it is our turn to join
	mustRead   bool   // what is known of the parent has turned out wrong
	notThere   string // an entry that was foretold to be the last one, and was not
	predicted  bool   // a version was foretold already
	collisions int    // with other joiners
}

// joinBackoff is between tries to join.
var joinBackoff = zkconn.Backoff{First: 5 * time.Millisecond, Most: 250 * time.Millisecond}

// join creates an entry in the queue, if need be after the parent's counter has begun
// anew. Meanwhile others may have their turn.
func (c *contender) join(ctx context.Context) (*Entry, position, error) {
	for {
		e, p, err := c.joinInTurn(ctx)
		if err != nil || !e.Name().Draining() || p.admitted {
			return e, p, err
		}
		if c.trying {
			e.Withdraw()
			c.Discard(e)
			return nil, position{}, &Blocked{Path: c.parent}
		}
		if err := c.drain(ctx, e); err != nil {
			return nil, position{}, err
		}
	}
}

// joinInTurn creates an entry in the queue. The joiners of one process go one at a
// time, so that they do not collide with each other, and take along those who wait for
// their turn meanwhile; those who write nothing but their entries need not wait.
func (c *contender) joinInTurn(ctx context.Context) (e *Entry, p position, err error) {
	j := &joining{contender: c}
	defer j.leaveDoor()
	a, beside := j.beside()
	err = c.Conn.Retry(ctx, joinBackoff, func() error {
		var along *passenger
		if !beside {
			if along, err = j.enterDoor(ctx); err != nil {
				return zkconn.Final(err)
			}
		}
		if along != nil {
			a = along.attempt
			e, p, err = c.disembark(ctx, along)
		} else {
			if err = c.LearnTime(ctx); err == nil && !beside { // an entry tells its expiry in ensemble time
				a, err = j.next(ctx)
			}
			if err != nil {
				return zkconn.Final(err)
			}
			e, p, err = j.create(ctx, a)
		}
		if beside = false; err != nil {
			err = j.handleJoinError(ctx, a, err)
		}
		return err
	})
	if err != nil {
		return nil, position{}, err
	}
	return e, p, nil
}

// enterDoor waits for the turn to join, unless it is ours, or until another contender has
// taken this one along.
func (j *joining) enterDoor(ctx context.Context) (*passenger, error) {
	if j.inDoor {
		return nil, nil
	}
	of := j.contender
	if of.joinsAlone() {
		of = nil
	}
	along, err := j.door.takeTurn(ctx, of)
	j.inDoor = err == nil && along == nil
	return along, err
}

func (j *joining) leaveDoor() {
	if j.inDoor {
		j.door.unlock()
	}
}

// next chooses the next attempt, on facts that a reply has shown.
func (j *joining) next(ctx context.Context) (a attempt, err error) {
	now := j.Clock.Mono()
	a = j.onFacts(false)
	if j.collisions > 0 && a.witness != "" && !a.anyVersion(j.Kind) && j.Kind != znode.Semaphore {
		j.learnOrigin(ctx)
		a = j.onFacts(false)
	}
	f := a.parent
	usable := f.usable(now, a.witness != "", j.KeepParent) && (j.fits(f.data) || f.data.Kind == znode.Dir)
	var first, likely, skip, fast bool
	var version int32
	j.door.hint(func(h hints) {
		first = h.readFirst(f, now)
		version, likely = h.predictVersion(f, now)
		skip = h.skipTail(j.collisions, f)
		fast = h.turnsFast(f, now)
	})
	if fast {
		a = j.dropWitness(a, now)
	}
	switch {
	case !j.mustRead && usable && !first && (!j.onlyFree || f.deserted()):
	case !j.mustRead && !first && !j.onlyFree && a.anyVersion(j.Kind) && f.children <= fewToList:
		// Somebody has joined since: to list who costs no more than to look at the parent.
	case !j.mustRead && !f.exists && !first: // whoever creates it learns from the reply if it is there
	case !j.mustRead && !j.onlyFree && !j.predicted && likely && j.Kind != znode.Semaphore && f.stale && f.current().usable(now, false, j.KeepParent):
		// Somebody has joined since, and how often can be foreseen; not who.
		j.predicted = true
		if a.version = version; version != f.version {
			a.last = ""
		}
	default:
		if err := j.readParent(ctx); err != nil {
			return attempt{}, err
		}
		a, now = j.onFacts(true), j.readAt
		if j.onlyFree && a.parent.children > 0 {
			return attempt{}, &Blocked{Path: j.parent}
		}
		if fast {
			a = j.dropWitness(a, now)
		}
	}
	a.chosen = now
	j.mustRead = false
	skip = skip || j.listsAnyway(a.parent)
	a.write = !a.parent.exists || !skip && !j.door.isReadOnly()
	if a.write && a.read && j.mayGo(a) {
		if a.witness, err = j.anyoneThere(ctx, a.parent); err != nil {
			return attempt{}, err
		}
		a.claim = a.witness == ""
		a.write = !a.claim
	}
	if j.Kind == znode.Semaphore && a.blind() { // the number of permits is not to be overwritten
		a.claim, a.write = true, false
	}
	return a, nil
}

// create makes one attempt. Who is to clean up should its outcome stay unknown is
// settled before the request leaves; who gives up while others are taken along keeps the turn
// until it is known what came of it.
func (j *joining) create(ctx context.Context, a attempt) (*Entry, position, error) {
	c := j.contender
	if !c.Tasks.Enter() {
		return nil, position{}, zkconn.NotSent(zkconn.ErrClosed)
	}
	if a.blind() {
		if err := c.inTime(ctx, a); err != nil {
			c.Tasks.Leave()
			return nil, position{}, err
		}
	}
	sent, session := c.Clock.Local(), c.Conn.Session()
	var acquired int64
	if !a.parent.exists {
		acquired = c.Clock.Millis(sent) // who creates the parent is alone, and holds
	}
	d := c.draft(a, acquired, sent)
	created := lease.Created{Sent: sent, Session: session, Grant: lease.Grant{Acquired: acquired}}
	others := c.takeAlong(d, created)
	replies, err := c.Conn.Multi(ctx, func(replies []zk.MultiResponse, err error) {
		defer c.Tasks.Leave()
		received := c.Clock.Local()
		var names []znode.Name
		if len(others) > 0 && zkconn.OutcomeOf(err) == zkconn.Ambiguous {
			names = c.listForOthers()
		}
		if c.door.bring(others, replies, err, names, received); len(others) > 0 {
			c.door.unlock()
		}
		c.cleanUpAbandoned(d, replies, err)
	}, d.ops...)
	if zkconn.IsAbandoned(err) {
		j.inDoor = j.inDoor && len(others) == 0
		return nil, position{}, err
	}
	defer c.Tasks.Leave()
	received := c.Clock.Local()
	switch zkconn.OutcomeOf(err) {
	case zkconn.Applied:
		c.door.bring(others, replies, nil, nil, received)
		return c.applied(ctx, d, replies, created, received)
	case zkconn.Ambiguous:
		path, names, notFound := c.findByID(ctx, d.id)
		c.door.bring(others, nil, err, names, received)
		c.apart = c.apart || len(others) > 0 // should that have been why the reply was lost
		if names != nil && notFound != nil && len(others) > 0 {
			c.batch.Lost(sizeOf(d.ops...), received.Mono)
		}
		if notFound != nil {
			return nil, position{}, notFound
		}
		return c.found(ctx, d, path, created), position{}, nil
	}
	c.door.bring(others, nil, err, nil, received)
	if op, _ := zkconn.RefusedOp(err); op > d.at && op <= d.at+len(others) { // of another one, for a reason of its own
		c.apart = true
		return nil, position{}, zkconn.ErrAgain
	}
	return nil, position{}, err
}

// joined takes the reply to an attempt that has written the parent with data: it tells
// where the entry stands, and whether the parent is the one that the facts were about.
func (c *contender) joined(ctx context.Context, e *Entry, d *draft, stat *zk.Stat, now time.Duration) position {
	a, data, children := d.attempt, d.data, stat.NumChildren-d.behind
	e.czxid, e.incarnation, e.parentVersion = stat.Mzxid, stat.Czxid, stat.Version // the entry was made in that transaction too
	if a.parent.exists && stat.Czxid != a.parent.czxid {
		c.door.missed()
		c.adopt(ctx, e, a, data, stat)
		return position{}
	}
	if d.behind == 0 {
		data.Tail = e.Path[len(c.parent)+1:][:len(data.Tail)] // as it is, but a part of the path: a client may have very many doors
		c.door.testify(e)
	}
	if !d.led {
		f := factsOf(data, stat, now)
		f.ours = !a.parent.exists
		c.door.joined(f, now)
	}
	c.learn(data.Capacity())
	if e.joinedAlone = children == 1; e.joinedAlone {
		return c.placeAlone(e)
	}
	if c.Kind == znode.Semaphore && children-1 <= c.capacity {
		return position{} // there may be room: a list tells
	}
	own := e.Name()
	ahead, ok := znode.Parse(a.last)
	if !ok || ahead.Seq != own.Seq-1 || c.Kind != znode.Semaphore && znode.Admit([]znode.Name{ahead, own}, 1, c.rules()) < 0 { // it is not the one to wait for
		return position{}
	}
	if c.Kind == znode.RW && !c.Kind.Alone(ahead) { // a reader: a writer waits first for who writes before it, as a list tells
		return position{}
	}
	seen := d.led || a.checks() && a.witness == c.parent+"/"+ahead.Node // that transaction has made it, or found it
	return position{predecessor: ahead.Node, seen: seen, predecessorHolds: children == 2 && c.Kind.Alone(ahead)}
}

// operations are those of an attempt, and the place of the entry's create among them.
// The parent is created if it was last seen missing, and written, unless the attempt
// does without: the reply to that write tells whether we are alone, our fencing token,
// the parent's incarnation, and the leader's time. Where an entry is known to stand below
// the parent, one of ours or the one that joined last, that it does so still is checked
// first: its path is unique for ever, so the parent is the one that the facts are about.
func (c *contender) operations(a attempt, data znode.Parent, prefix string, acquired int64, sent clock.Instant) (ops []any, at int) {
	entry := c.entry(prefix, acquired, sent)
	written := data.Encode()
	switch {
	case !a.parent.exists:
		ops = []any{
			&zk.CreateRequest{Path: c.parent, Data: written, Acl: c.parentACL},
			entry,
			&zk.SetDataRequest{Path: c.parent, Data: written, Version: 0},
		}
	case !a.write:
		ops = []any{entry}
	default:
		ops = []any{entry, &zk.SetDataRequest{Path: c.parent, Data: written, Version: a.under(c.Kind)}}
	}
	if a.checks() {
		ops = slices.Insert(ops, 0, any(&zk.CheckVersionRequest{Path: a.witness, Version: -1}))
	}
	return ops, slices.Index(ops, any(entry))
}

// entry is the operation that makes the contender's entry.
func (c *contender) entry(prefix string, acquired int64, sent clock.Instant) *zk.CreateRequest {
	return &zk.CreateRequest{
		Path: c.parent + "/" + prefix, Data: c.Keeper.Record(&c.Terms, c.Terms.TTL, c.firstGrant(acquired), sent),
		Acl: c.ACL, Flags: zk.FlagSequence,
	}
}

// errAged says that an attempt was not made: its facts had become old.
var errAged = errors.New("what is known of the parent is too old")

// inTime waits for a session, and refuses an attempt whose facts have become too old
// meanwhile to be written on without proof.
func (c *contender) inTime(ctx context.Context, a attempt) error {
	if err := c.Conn.Ready(ctx); err != nil {
		return err
	}
	if c.Clock.Mono()-a.chosen > factsLast {
		return errAged
	}
	return nil
}

// handleJoinError takes what a failed attempt teaches, and returns what
// [zkconn.Conn.Retry] is to do about it.
func (j *joining) handleJoinError(ctx context.Context, a attempt, err error) error {
	switch {
	case errors.Is(err, errAged):
		j.mustRead = true
		return zkconn.ErrAgain
	case errors.Is(err, zkconn.ErrUnavailable), errors.Is(err, zkconn.ErrClosed):
		return zkconn.Final(err)
	case ctx.Err() != nil:
		return zkconn.Final(zkconn.ContextError(ctx))
	}
	op, cause := zkconn.RefusedOp(err)
	switch is := func(target error) bool { return errors.Is(cause, target) }; {
	case zkconn.OutcomeOf(err) != zkconn.Refused, op < 0:
		return err
	case a.checks() && op == 0: // it has just left, or may not be read
		j.door.dismiss(a.witness, is(zk.ErrNoAuth))
		j.mustRead, j.notThere = true, a.witness
		return zkconn.ErrAgain
	case is(zk.ErrNoNode) && a.parent.exists:
		j.door.crowd(j.Clock.Mono())
		j.door.missed()
		return zkconn.ErrAgain
	case is(zk.ErrNoNode):
		if err := j.makeAncestors(ctx, j.parent); err != nil {
			return zkconn.Final(err)
		}
		return zkconn.ErrAgain
	case is(zk.ErrNodeExists):
		j.door.crowd(j.Clock.Mono())
		j.door.hint(hints.foundThere)
		j.mustRead = true
		return zkconn.ErrAgain
	case is(zk.ErrBadVersion):
		return j.collided(a, err)
	}
	return j.denied(ctx, a, op, cause)
}

// collided is for an attempt that somebody was quicker than. What was not read just
// before was old, and says nothing about how many there are.
func (j *joining) collided(a attempt, err error) error {
	j.door.crowd(j.Clock.Mono())
	j.door.doubt()
	j.mustRead = j.predicted || a.read
	if a.read {
		j.collisions++
	}
	if j.collisions < 2 {
		return zkconn.ErrAgain
	}
	return zkconn.Later(err)
}

// denied takes a refusal for a reason that lies with the parent, or the node above it.
func (j *joining) denied(ctx context.Context, a attempt, op int, cause error) error {
	switch {
	case errors.Is(cause, zk.ErrNoChildrenForEphemerals):
		return zkconn.Final(fmt.Errorf("%w: %s, or the node above it, is ephemeral and cannot have children", ErrForeign, j.parent))
	case !errors.Is(cause, zk.ErrNoAuth):
		return zkconn.Final(fmt.Errorf("create an entry below %s: %w", j.parent, cause))
	case !a.parent.exists && op > 0:
		return zkconn.Final(fmt.Errorf("%w: the ACL that this client gives its nodes does not let itself in: WithACL does not fit its credentials", zkconn.ErrDenied))
	case !a.parent.exists:
		// It is not ours to create; perhaps somebody else has.
		if err := j.readParent(ctx); err != nil {
			return zkconn.Final(err)
		}
		if f, _ := j.door.look(); !f.exists {
			return zkconn.Final(fmt.Errorf("%w: create %s: the ACL of the node above does not let us", zkconn.ErrDenied, j.parent))
		}
		return zkconn.ErrAgain
	case a.write && op > 0 && (!a.checks() || op > 1): // the last one
		j.door.denied()
		return zkconn.ErrAgain
	}
	return zkconn.Final(fmt.Errorf("%w: create an entry below %s: its ACL does not let us", zkconn.ErrDenied, j.parent))
}
