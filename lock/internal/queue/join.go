package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

var joinBackoff = zkconn.Backoff{First: 5 * time.Millisecond, Most: 250 * time.Millisecond}

// mostGuesses is the number of refusals after which a join no longer fails because of a wrong guess of
// another join in its transaction. While other clients leave, what was read may be outdated as well:
// then all joins of the transaction read again, and share the next one. But a join must not wait for
// ever for those beside it.
const mostGuesses = 4

// draft has the operations that create an entry. They are a transaction, or a part of a larger one.
type draft struct {
	by       *contender
	parent   parent // the belief on which the operations rely
	attempt  uint64
	prefix   string // name of the entry without the sequence
	acquired int64  // grant in the first record; 0: none
	since    int64  // a transaction that is older than the entry
	ops      []any
	at       int  // index of the entry's create in ops
	sole     bool // ops create the parent, or write its anchor
	counts   bool // once applied: each contender asks for one permit, so their number is that of the permits
}

// answered is called once when the outcome of the transaction is known, or remains unknown.
func (d *draft) answered() { d.by.lock.drafts.Add(-1) }

// draft returns a new draft for a belief about the parent; the caller calls answered. Each draft has
// a new attempt id, and a new generation if it creates the parent. A request whose reply was lost may
// be applied later, and must not be mistaken for another request.
func (c *contender) draft(p parent, sent clock.Instant) *draft {
	d := &draft{by: c, parent: p, attempt: c.Random.Uint64(), since: c.Clock.Now().Zxid, sole: p.state == absent}
	c.lock.drafts.Add(1)
	switch p.state {
	case absent:
		d.parent.kind, d.parent.generation = c.Kind, c.newID()
		d.parent.anchor = znode.AnchorData{Permits: c.Capacity, Single: c.Permits == 1}
		d.acquired = c.Clock.Millis(sent) // the client that creates the parent is alone
		d.prefix = c.prefix(d.parent.generation)
		data := d.parent.data()
		d.ops, d.at = []any{
			&zk.CreateRequest{Path: c.parent, Data: data, Acl: c.ACL},
			&zk.CreateRequest{Path: anchorPath(c.parent, d.parent.generation), Data: d.parent.anchor.Encode(), Acl: c.anchorACL},
			d.entry(sent),
			&zk.SetDataRequest{Path: c.parent, Data: data, Version: 0},
		}, 2
	case present:
		d.prefix = c.prefix(p.generation)
		d.ops, d.at = []any{d.checkAnchor(), d.entry(sent)}, 1
		if p.unproven {
			d.ops = append(d.ops, d.probe()...)
		}
		d.ops = append(d.ops, &zk.SetDataRequest{Path: c.parent, Data: p.data(), Version: c.lock.versionToWrite(&p)})
	}
	return d
}

// probe returns the operations that prove that this client may delete nodes below a parent that
// another program created: an entry that could not be deleted would stay forever.
func (d *draft) probe() []any {
	probe := d.by.parent + "/" + znode.FormatID(d.attempt)
	return []any{&zk.CreateRequest{Path: probe, Acl: d.by.ACL}, &zk.DeleteRequest{Path: probe, Version: -1}}
}

// deleteGuard makes the draft delete a guard. The SetData stays the last operation, so its reply does
// not count the guard.
func (d *draft) deleteGuard(path string) {
	d.ops = slices.Insert(d.ops, len(d.ops)-1, any(&zk.DeleteRequest{Path: path, Version: -1}))
}

// entry returns the operation that creates the entry.
func (d *draft) entry(sent clock.Instant) *zk.CreateRequest {
	c := d.by
	terms := c.Terms
	terms.Attempt = d.attempt
	r := c.Keeper.Record(&terms, terms.TTL, lease.Grant{Acquired: d.acquired}, sent)
	return &zk.CreateRequest{Path: c.parent + "/" + d.prefix, Flags: zk.FlagSequence, Acl: c.ACL, Data: r.Encode()}
}

// share adds the operations to a member of a shared transaction.
func (d *draft) share(m *zkconn.Member) {
	m.Ops, m.Locks = append(m.Ops, d.ops...), append(m.Locks, d.by.parent)
	m.Sole = m.Sole || d.sole
	m.Guess = m.Guess || d.parent.session != d.by.Conn.Session()
}

// sending returns a function that records the time and the session of a send.
func (q *Queue) sending(created *lease.Created) func() {
	return func() { created.Sent, created.Session = q.Clock.Local(), q.Conn.Session() }
}

// joined handles the replies to a draft that was applied: it passes the leader's stamp to the
// clock, and records the belief about the parent. It returns the entry and the entry's position;
// the zero position if a list must find it.
func (d *draft) joined(replies []zk.MultiResponse, created lease.Created, received clock.Instant) (*Entry, position) {
	c := d.by
	stat := replies[len(replies)-1].Stat
	e := d.entryAt(replies[d.at].String, stat.Mzxid, created)
	e.parentVersion = stat.Version
	c.Clock.Observe(stat.Mzxid, stat.Mtime, created.Sent, received)
	if d.parent.state == present && d.parent.shared > 0 && stat.Version == d.parent.version+1 {
		d.parent.shared-- // no other client has joined since
	}
	children := znode.Stat(*stat).Counter()
	// Each of our writes comes with a create, which counts, but not at the counter's end.
	if made := children - d.parent.created; d.parent.state == present && made > 0 && stat.Version-d.parent.version > made {
		c.Log.Warn().Str("lock", c.Lock).Str("path", c.parent).
			Msg("another program has written the lock's node, and its data was overwritten, because several clients use the lock")
	}
	// In another session the servers may have lost data, and given that version of the anchor to other data.
	// So a semaphore's belief stays one of the session that has read the anchor.
	d.counts = d.parent.anchor.Single && d.parent.session == created.Session
	if d.parent.kind != znode.Semaphore || d.parent.state == absent {
		d.parent.session = created.Session
	}
	d.parent.state, d.parent.unproven, d.parent.version = present, false, stat.Version
	d.parent.created = children
	c.lock.believe(d.parent)
	contenders := stat.NumChildren - 1
	c.entriesAhead = int(contenders) - 1
	at := d.positionAtJoin(e.Name(), contenders)
	e.alone = d.alone(contenders)
	c.lock.sawOthers(contenders > 1)
	return e, at
}

// joiner is a contender that joins, or has joined, see [all].
type joiner struct {
	*contender
	e *Entry   // its entry; nil: none
	p position // of the entry, when it joined

	belief parent // about the lock's parent; the attempt uses it
	d      *draft // the attempt
	denied bool   // an ACL forbids to create the parent

	guard   string // path of its guard, see guardLock; "": none
	guarded bool   // the guard exists, as far as is known: the next attempt deletes it
}

// join creates an entry. It is a join for several locks that has only one.
func (c *contender) join(ctx context.Context) (*Entry, position, error) {
	j := &joiner{contender: c}
	if err := (&all{Queue: c.Queue, each: []*joiner{j}}).join(ctx); err != nil {
		return nil, position{}, err
	}
	return j.e, j.p, nil
}

// join creates the entries of all locks in one transaction. ctx ends the wait for a session, and further
// attempts. The outcome of an attempt that was sent is always awaited. If an entry's sequence shows
// the end of its parent's counter, all entries leave, and the join begins again when that parent has
// gone.
func (a *all) join(ctx context.Context) error {
	for _, j := range a.each {
		j.p, j.own, j.anchorless, j.denied = position{}, znode.Name{}, "", false
	}
	a.refusals = 0
	defer a.unguard()
	err := a.Conn.Retry(ctx, joinBackoff, func() error {
		a.at = -1
		if err := a.Conn.Ready(ctx); err != nil {
			return err
		}
		if err := a.LearnTime(ctx); err != nil { // an entry has its expiry in ensemble time
			return zkconn.Final(err)
		}
		know := (*joiner).know
		if len(a.each) > 1 && a.refusals >= guardAfter {
			know = (*joiner).guardLock
		}
		if err := a.together(ctx, know); err != nil {
			return zkconn.Final(err)
		}
		return a.attempt(ctx)
	})
	if err != nil {
		return err
	}
	for i, j := range a.each {
		if e := j.e; e.Name().Overflowed() { // withdraw from the other locks, and wait for the rollover of this one
			a.at, j.e = i, nil
			a.withdraw()
			e.Withdraw()
			if err := j.rollover(ctx, e, e.generation()); err != nil {
				return err
			}
			return a.join(ctx)
		}
	}
	return nil
}

// attempt sends one transaction that creates all entries. If the outcome is unknown, it looks for
// the entries. Its error is for Retry.
func (a *all) attempt(ctx context.Context) error {
	created := lease.Created{Sent: a.Clock.Local()}
	alone := true
	for _, j := range a.each {
		if a.refusals > 0 && len(a.each) > 1 { // of several parents one will often have changed since the read
			j.belief.shared = max(j.belief.shared, 1)
		}
		j.e, j.d = nil, j.draft(j.belief, created.Sent)
		alone = alone && j.belief.state == absent
	}
	m := zkconn.Member{Sending: a.sending(&created)}
	for _, j := range a.each {
		d := j.d
		if j.guarded {
			d.deleteGuard(j.guard)
		}
		if !alone && d.acquired != 0 { // an entry must wait if another lock has a contender
			d.acquired = 0
			d.ops[d.at] = d.entry(created.Sent)
		}
		d.share(&m)
	}
	// After a refusal a join of several locks reads anyway.
	m.Guess = len(a.each) == 1 && (m.Guess || a.refusals > 0) && a.refusals < mostGuesses
	replies, err := a.Conn.Share(ctx, m)
	for _, j := range a.each {
		j.d.answered()
	}
	switch zkconn.OutcomeOf(err) {
	case zkconn.Applied:
		received := a.Clock.Local()
		for _, j := range a.each {
			n := len(j.d.ops)
			j.e, j.p = j.d.joined(replies[:n], created, received)
			replies = replies[n:]
		}
	case zkconn.Ambiguous:
		if err := a.resolveCreates(ctx, created); err != nil {
			return err
		}
	default:
		return a.refused(ctx, err)
	}
	for _, j := range a.each { // the transaction has deleted them
		j.guard, j.guarded = "", false
	}
	return nil
}

// refused handles the error of an attempt that was not applied, and returns the error for Retry. The
// next attempt for several locks reads all parents again: correcting one belief at a time might never
// end while other clients change the parents.
func (a *all) refused(ctx context.Context, err error) error {
	if errors.Is(err, zkconn.ErrNeighbor) {
		a.refusals++
		a.each[0].lock.believe(parent{state: unknown})
		return zkconn.ErrAgain
	}
	op, cause := zkconn.RefusedOp(err)
	if op < 0 {
		return err
	}
	a.refusals++
	for i, j := range a.each {
		if n := len(j.d.ops); op >= n {
			op -= n
			continue
		}
		if a.at = i; op == j.d.at && errors.Is(cause, zk.ErrNodeExists) { // a rollover waits until the parent can be deleted
			a.unguard()
		}
		err = j.refused(ctx, j.d, zkconn.RefusedAt(op, cause))
		break
	}
	if len(a.each) == 1 || !errors.Is(err, zkconn.ErrAgain) {
		return err
	}
	for _, j := range a.each {
		j.lock.believe(parent{state: unknown, shared: j.lock.believed().shared})
		j.guarded = false // an attempt may have deleted the guard, or its session may have ended
	}
	return zkconn.Later(cause) // with a random pause, because other clients change the parents, too
}

// refused handles the error of an attempt that was not applied. It corrects the belief about the
// parent, and returns the error for [zkconn.Conn.Retry].
func (j *joiner) refused(ctx context.Context, d *draft, err error) error {
	op, cause := zkconn.RefusedOp(err)
	is := func(target error) bool { return errors.Is(cause, target) }
	last := len(d.ops) - 1
	switch {
	case zkconn.OutcomeOf(err) != zkconn.Refused, op < 0:
		return err
	case op == d.at && is(zk.ErrNodeExists):
		if err := j.collided(ctx, d); err != nil {
			return zkconn.Final(err)
		}
		return zkconn.ErrAgain
	case d.parent.state == absent && op == 0 && is(zk.ErrNoNode):
		if err := j.makeAncestors(ctx, j.parent); err != nil {
			return zkconn.Final(err)
		}
		return zkconn.ErrAgain
	case d.parent.state == absent && op == 0 && is(zk.ErrNoAuth): // the parent may exist though
		j.denied = true
		j.lock.believe(parent{state: unknown})
		return zkconn.ErrAgain
	case d.parent.state == absent && is(zk.ErrNoAuth):
		return zkconn.Final(fmt.Errorf("%w: the ACL of this client's nodes excludes this client: WithACL does not fit its credentials", zkconn.ErrDenied))
	case is(zk.ErrNoNode), is(zk.ErrNodeExists), is(zk.ErrBadVersion):
		if d.parent.state == present && op == 0 && is(zk.ErrNoNode) {
			j.anchorless = d.parent.generation
		}
		var shared uint8
		if op == last && is(zk.ErrBadVersion) { // most likely another client has joined
			shared = sharedFor
		}
		j.lock.believe(parent{state: unknown, shared: shared})
		return zkconn.ErrAgain
	}
	if err := unusable(j.parent, d.ops[op], cause); err != nil {
		return err
	}
	return zkconn.Final(fmt.Errorf("create an entry below %s: %w", j.parent, cause))
}

// together runs f for all joiners concurrently, and waits for all calls. If one call fails, the
// context of all calls ends; together then returns the first error, and sets a.at to its index.
func (a *all) together(ctx context.Context, f func(*joiner, context.Context) error) error {
	if len(a.each) == 1 {
		err := f(a.each[0], ctx)
		if err != nil {
			a.at = 0
		}
		return err
	}
	some, cancel := context.WithCancel(ctx)
	defer cancel()
	var first error
	var failed sync.Once
	var wg sync.WaitGroup
	for i, j := range a.each {
		wg.Go(func() {
			if err := f(j, some); err != nil {
				failed.Do(func() {
					a.at, first = i, err
					cancel()
				})
			}
		})
	}
	wg.Wait()
	return first
}
