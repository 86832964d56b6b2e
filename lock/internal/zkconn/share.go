package zkconn

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/go-zookeeper/zk"
)

// ErrNeighbor is the outcome of a member that was not applied because the server refused the guess
// of another member of the transaction: the own guess may be as wrong. Its outcome is [Retryable].
var ErrNeighbor = NotSent(errors.New("not applied: the server has refused another guess in the same transaction"))

// Member is a part of a transaction, by one caller: operations that are applied together or not at
// all. Members that have to wait share the next transaction.
type Member struct {
	Ops   []any    // see [Conn.Multi]
	Locks []string // nodes of the locks that the operations touch

	// Sole: no other member in the transaction may touch these locks. It must be set if an operation
	// creates or deletes a lock's node, or writes its anchor.
	Sole bool
	// Sure, unless 0, is the number of the first operations that do not rely on the others. If the
	// server refuses another operation of the member, only these are sent again, and there are
	// replies to these alone.
	Sure int
	// Guess: operations rely on something that may well be outdated. If the server refuses one guess,
	// most likely others in the transaction are wrong, too. They are reduced to their Sure operations;
	// without any they fail with ErrNeighbor, so that all callers read at once.
	Guess bool
	// Stays: the member is sent even if the caller has given up. For deletes.
	Stays bool
	// Sending, unless nil, is called just before each send.
	Sending func()
}

// member is a submitted Member.
type member struct {
	Member
	ctx  context.Context // its end prevents the send, unless Stays is set
	size int
	done func([]zk.MultiResponse, error)
}

// committer sends members in transactions. There is no timer: while fewer than the limit are in
// flight, a member goes as soon as the callers that run at this moment have submitted theirs. What
// has to wait shares the next transaction.
type committer struct {
	mu       sync.Mutex
	waiting  []*member
	bytes    int // size of waiting
	inFlight int // transactions that count against the limit
}

// Share waits for a session, submits a member, and returns the replies to its operations. If the
// server refused one of them, see [RefusedOp]; for other errors see [OutcomeOf]. ctx ends the wait
// for a session, and prevents a send that has not begun; the outcome of a send is awaited. But with
// Stays, Share returns when ctx ends, and the member is still sent.
func (c *Conn) Share(ctx context.Context, m Member) (replies []zk.MultiResponse, err error) {
	if err := c.Ready(ctx); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	c.Submit(ctx, []Member{m}, func(_ int, r []zk.MultiResponse, e error) {
		replies, err = r, e
		close(done)
	})
	<-done
	return replies, err
}

// Submit submits members, and returns at once. They share a transaction if they fit. For each
// member done is called once, in another goroutine, with the member's index and what Share returns;
// it must not block. Without a session the error is that of [NotSent].
func (c *Conn) Submit(ctx context.Context, ms []Member, done func(i int, replies []zk.MultiResponse, err error)) {
	c.commit.mu.Lock()
	defer c.commit.mu.Unlock()
	for i, m := range ms {
		if !c.calls.Enter() {
			go done(i, nil, NotSent(ErrClosed))
			continue
		}
		one := &member{Member: m, ctx: ctx, size: sizeOf(m.Ops)}
		one.done = c.answer(one, func(replies []zk.MultiResponse, err error) { done(i, replies, err) })
		c.commit.waiting = append(c.commit.waiting, one)
		c.commit.bytes += one.size
	}
	c.startGroup()
}

// startGroup begins to send groups if members wait and the limit allows one more, or the members fill
// a transaction; commit.mu is held.
func (c *Conn) startGroup() {
	if len(c.commit.waiting) > 0 && (c.commit.inFlight < c.limit() || c.commit.bytes >= BatchBytes) {
		c.commit.inFlight++
		go c.commitGroups()
	}
}

// answer returns the function that answers a member once: with its result, or, with Stays, when its
// context ends. Close waits for the result in either case.
func (c *Conn) answer(m *member, done func([]zk.MultiResponse, error)) func([]zk.MultiResponse, error) {
	if !m.Stays || m.ctx.Done() == nil {
		return func(replies []zk.MultiResponse, err error) {
			done(replies, err)
			c.calls.Leave()
		}
	}
	stop := context.AfterFunc(m.ctx, func() { done(nil, abandon(m.ctx)) })
	return func(replies []zk.MultiResponse, err error) {
		if stop() {
			done(replies, err)
		}
		c.calls.Leave()
	}
}

// mostInFlight is how many transactions may be in flight before members wait. A member that waits for
// the next of four waits for an eighth of a round trip on average.
const mostInFlight = 4

// limit returns how many transactions may be in flight before members wait.
func (c *Conn) limit() int {
	if c.cfg.InFlight > 0 {
		return c.cfg.InFlight
	}
	return mostInFlight
}

// group removes and returns the members of the next transaction: in their order, up to BatchBytes.
// A member whose locks exclude it from the transaction waits for the next one; mu is held.
func (m *committer) group() (group []*member) {
	size := 0
	var later []*member
	touched := map[string]bool{} // locks of the group; true: no other member may touch it
	for _, one := range m.waiting {
		if len(group) > 0 && (size+one.size > BatchBytes || one.excluded(touched)) {
			later = append(later, one)
			continue
		}
		for _, lock := range one.Locks {
			touched[lock] = one.Sole
		}
		group = append(group, one)
		size += one.size
	}
	m.waiting = later
	m.bytes -= size
	return group
}

func (m *member) excluded(touched map[string]bool) bool {
	for _, lock := range m.Locks {
		if sole, ok := touched[lock]; ok && (sole || m.Sole) {
			return true
		}
	}
	return false
}

// letSubmit lets the callers that run at this moment, such as those that replies have just woken,
// submit their members, until none has done so or the members fill a transaction.
func (c *Conn) letSubmit() {
	for before, now := -1, 0; before < now && now < BatchBytes; {
		runtime.Gosched()
		c.commit.mu.Lock()
		before, now = now, c.commit.bytes
		c.commit.mu.Unlock()
	}
}

// commitGroups sends groups, one after the other, while members wait and the limit allows it.
func (c *Conn) commitGroups() {
	for {
		c.letSubmit()
		c.commit.mu.Lock()
		var group []*member
		if c.commit.inFlight <= c.limit() || c.commit.bytes >= BatchBytes {
			group = c.commit.group()
		}
		if len(group) == 0 {
			c.commit.inFlight--
		} else {
			c.startGroup()
		}
		c.commit.mu.Unlock()
		if len(group) == 0 {
			return
		}
		c.transact(group)
	}
}

// transact sends a group in one transaction. If the server refuses an operation, the member of the
// operation gets its answer, unless only its guess was wrong. The others are sent again; after a
// second refusal each alone.
func (c *Conn) transact(group []*member) {
	for refusals := 0; len(group) > 0; {
		if group = c.sendable(group); len(group) == 0 {
			return
		}
		at, err := c.sendGroup(group)
		if at < 0 {
			return
		}
		group = regroup(group, at, err)
		if refusals++; refusals == 2 {
			for _, one := range group {
				go c.transact([]*member{one})
			}
			return
		}
	}
}

// regroup returns what is to be sent again after the refusal err of an operation of the member at
// index at, and answers the other members.
func regroup(group []*member, at int, err error) (again []*member) {
	refused, guess := group[at], group[at].Guess
	op, _ := RefusedOp(err)
	for _, one := range group {
		switch {
		case one == refused && (one.Sure == 0 || op < one.Sure):
			one.done(nil, err)
			continue
		case one == refused, guess && one.Guess && one.Sure > 0:
			one.Ops, one.Guess = one.Ops[:one.Sure], false
		case guess && one.Guess:
			one.done(nil, ErrNeighbor)
			continue
		}
		again = append(again, one)
	}
	return again
}

// sendable answers the members that must not be sent, and returns the others.
func (c *Conn) sendable(group []*member) (left []*member) {
	for _, one := range group {
		switch {
		case c.open.Err() != nil:
			one.done(nil, NotSent(context.Cause(c.open)))
		case !c.hasSession():
			one.done(nil, NotSent(ErrUnavailable))
		case one.ctx.Err() != nil && !one.Stays:
			one.done(nil, NotSent(ContextError(one.ctx)))
		default:
			left = append(left, one)
		}
	}
	return left
}

// sendGroup sends one transaction, and answers the members. If the server refused an operation, no
// member is answered yet: at is the index of the member with that operation, and err its answer.
// Otherwise at is negative.
func (c *Conn) sendGroup(group []*member) (at int, err error) {
	var ops []any
	for _, one := range group {
		ops = append(ops, one.Ops...)
	}
	for _, one := range group {
		if one.Sending != nil {
			one.Sending()
		}
	}
	replies, err := c.issue(ops)
	if !c.Owned() && endsConnection(err) { // a borrowed connection has no event for that
		c.noteDown()
	}
	if err != nil && len(replies) == len(ops) {
		err = failure(ops, replies, err)
	}
	op, cause := RefusedOp(err)
	for i, one := range group {
		n := len(one.Ops)
		switch {
		case op >= 0 && op < n:
			return i, RefusedAt(op, cause)
		case op >= 0:
			op -= n
		case err != nil:
			one.done(nil, answered(err))
		default:
			one.done(replies[:n:n], nil)
			replies = replies[n:]
		}
	}
	return -1, nil
}

// sizeOf returns the size of operations in a transaction, or that of their replies if that is
// larger: a few bytes too many.
func sizeOf(ops []any) (n int) {
	const path, stat = 40, 100 // of a request besides path, data and ACL; of a reply with a Stat
	for _, op := range ops {
		switch op := op.(type) {
		case *zk.CreateRequest:
			n += len(op.Path) + len(op.Data) + path
			for _, acl := range op.Acl {
				n += len(acl.Scheme) + len(acl.ID) + 12
			}
		case *zk.SetDataRequest:
			n += max(len(op.Path)+len(op.Data)+path, stat)
		case *zk.DeleteRequest:
			n += len(op.Path) + path
		case *zk.CheckVersionRequest:
			n += len(op.Path) + path
		}
	}
	return n
}
