package shard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// state is the state of a shard in a member.
//
//	idle ──▶ queued ──▶ owned ──▶ draining ──▶ idle
//	  ▲        │          │
//	  └────────┴──────────┘ moved, or lost
type state uint8

const (
	queued   state = iota // the member waits for the mutex
	owned                 // it has the mutex, and the function is called
	draining              // the function's context has ended, because the shard is to be given back
	overdue               // the function's context ended before the DrainTimeout, also by a loss
)

// slot is a shard in a member that is not idle.
type slot struct {
	state state
	lent  sync.WaitGroup          // loops over Owned that have it now
	stop  context.CancelCauseFunc // ends the wait, or the function's context
	shard Owned                   // unless queued
}

// Pauses before a function is called again, and before a shard that could not be locked is tried
// again.
const (
	minPause = time.Second
	maxPause = time.Minute
)

// inside is the key of a group's contexts, and so of those of its functions.
type inside struct {
	locks *lock.Client
	group string
}

// mine reports whether this member is to own the shard. The caller holds g.mu.
func (g *Group) mine(i int) bool {
	return !g.released && g.plan != nil && g.plan.owners[i] == g.me.ID
}

// settle begins what the plan asks for: it queues for shards, and ends waits and functions. If the plan
// does without a member that leaves, it gives back all shards; when all are given back, it ends g.ctx. It is
// called after each change, and is the only place that begins these. The caller holds g.mu.
func (g *Group) settle() {
	g.released = g.released || g.campaign.Err() != nil && !g.plan.has(g.me.ID)
	owns, ending := 0, 0
	for i, s := range g.slots {
		switch mine := g.mine(i); {
		case s == nil && mine:
			ctx, stop := context.WithCancelCause(g.ctx)
			g.slots[i] = &slot{stop: stop}
			go g.queue(ctx, i)
		case s == nil:
		case s.state != queued:
			if owns++; s.state == draining {
				ending++
			}
		case !mine:
			s.stop(ErrMoved)
		}
	}
	for i, s := range g.slots {
		if s == nil || s.state != owned || g.mine(i) {
			continue
		}
		if !g.released && ending >= max(1, owns/4) {
			break
		}
		ending++
		s.drain()
	}
	if g.released && !slices.ContainsFunc(g.slots, func(s *slot) bool { return s != nil }) {
		g.stop()
	}
}

// drain ends the function of a shard. The caller holds g.mu.
func (s *slot) drain() {
	s.state = draining
	s.stop(ErrMoved)
}

// overdue tells, when the DrainTimeout is over, that the function of a shard has not returned.
func (g *Group) overdue(s Owned) {
	g.mu.Lock()
	slot := g.slots[s.Index]
	hangs := slot != nil && slot.shard == s
	if hangs {
		slot.state = overdue
		g.settle()
	}
	g.mu.Unlock()
	if hangs { // without the mutex: a handler may call the group
		g.opts.Log.Warn("function does not return: its shard cannot be given back", "shard", s.Index, "after", g.opts.DrainTimeout)
	}
}

// queue waits for the mutex of a shard.
func (g *Group) queue(ctx context.Context, i int) {
	hold, err := g.mutex(i).Lock(ctx)
	for pause := minPause; err != nil && ctx.Err() == nil && !errors.Is(err, lock.ErrClosed); pause = min(2*pause, maxPause) {
		g.opts.Log.Warn("shard not locked; tried again", "shard", i, "after", pause, "error", err)
		sleep(ctx, pause)
		hold, err = g.mutex(i).Lock(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.slots[i]
	s.stop(nil)
	if err != nil {
		g.idle(i)
		return
	}
	inner, stop := context.WithCancelCause(hold.Context())
	s.state, s.stop, s.shard = owned, stop, Owned{Index: i, hold: hold, ctx: inner}
	if !g.mine(i) {
		s.drain()
	}
	go g.serve(s.shard) // a fresh goroutine: this one's stack has grown
}

// idle ends the use of a shard, which may begin anew. The caller holds g.mu.
func (g *Group) idle(i int) {
	g.slots[i] = nil
	g.settle()
}

// serve calls the function until the shard is to be given back, and gives it back.
func (g *Group) serve(s Owned) {
	returned := false
	defer func() { g.giveBack(s, returned, recover()) }()
	defer context.AfterFunc(s.ctx, func() {
		time.AfterFunc(g.opts.DrainTimeout, func() { g.overdue(s) })
	})()
	for pause := minPause; s.ctx.Err() == nil; pause = min(2*pause, maxPause) {
		began := time.Now()
		if err := g.f(s.ctx, s); s.ctx.Err() == nil {
			if time.Since(began) > maxPause {
				pause = minPause
			}
			g.opts.Log.Warn("function returned; called again", "shard", s.Index, "after", pause, "error", err)
			sleep(s.ctx, pause)
		}
	}
	returned = true
}

// giveBack unlocks the mutex of a shard. A function that has not returned has panicked with a value,
// or ended its goroutine: that ends the membership.
func (g *Group) giveBack(s Owned, returned bool, value any) {
	if !returned {
		if value == nil {
			value = "runtime.Goexit"
		}
		g.mu.Lock()
		g.crash = fmt.Sprintf("shard %d of %q: the function panicked: %v\n\n%s", s.Index, g.name, value, debug.Stack())
		g.mu.Unlock()
		g.fail(errors.New("a function has panicked"))
		time.AfterFunc(g.opts.DrainTimeout, g.stop)
	}
	_ = s.hold.Unlock() // the client logs an error; the entry then expires
	g.mu.Lock()
	defer g.mu.Unlock()
	g.slots[s.Index].stop(nil)
	g.idle(s.Index)
}

// lend is the function of groups without one: it returns when the shard is to be given back and no
// loop over Owned has it.
func (g *Group) lend(ctx context.Context, s Owned) error {
	<-ctx.Done()
	g.mu.Lock()
	slot := g.slots[s.Index]
	g.mu.Unlock() // from here on no loop borrows it
	slot.lent.Wait()
	return context.Cause(ctx)
}

// Owned yields the shards that this member owns, each as long as the body of the loop runs: a shard
// that is to be given back meanwhile, see [Owned.Context], is given back after the body. Other
// shards may come and go during the loop. It yields nothing after [Group.Leave] has begun to give
// shards back. Several loops may run at once; then a shard may be in several of them.
func (g *Group) Owned() iter.Seq[Owned] {
	return func(yield func(Owned) bool) {
		for i := range g.slots {
			if s := g.borrow(i); s != nil && !s.use(yield) {
				return
			}
		}
	}
}

func (g *Group) borrow(i int) *slot {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.slots[i]
	if s == nil || s.state != owned || s.shard.ctx.Err() != nil {
		return nil
	}
	s.lent.Add(1)
	return s
}

func (s *slot) use(yield func(Owned) bool) bool {
	defer s.lent.Done()
	return yield(s.shard)
}

// Owned is a shard that this member owns.
type Owned struct {
	Index int // from 0

	ctx  context.Context
	hold *lock.Hold
}

// Context returns the context of the shard: that of its function. It ends when the shard is to be
// given back, or is lost.
func (s Owned) Context() context.Context { return s.ctx }

// Token returns the fencing token. Tokens of one shard rise with each owner; those of different
// shards cannot be compared.
func (s Owned) Token() lock.Token { return s.hold.Token() }

// Txn writes to ZooKeeper only while the shard is owned: see [lock.Hold.Txn].
func (s Owned) Txn(ctx context.Context, operations ...lock.Op) error {
	return s.hold.Txn(ctx, operations...)
}

// Revoked delivers requests to release the shard's lock: see [lock.Hold.Revoked]. A function that
// returns because of one is called again, since the shard is still its own by the plan.
func (s Owned) Revoked() <-chan lock.Revocation { return s.hold.Revoked() }

// AtRisk warns before the shard may be lost: see [lock.Hold.AtRisk].
func (s Owned) AtRisk() <-chan time.Duration { return s.hold.AtRisk() }

// Remaining returns the time for which the shard is surely owned even if all later renewals fail:
// see [lock.Hold.Remaining].
func (s Owned) Remaining() time.Duration { return s.hold.Remaining() }
