package shard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
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
	idle     state = iota
	queued         // the member waits for the mutex
	owned          // it has the mutex, and the function is called
	draining       // the function's context has ended, because the shard is to be given back
	resting        // the mutex could not be locked: it is tried again after a pause
)

// slot is a shard in a member.
type slot struct {
	state   state
	overdue bool                    // draining for longer than the DrainTimeout
	lent    int                     // loops over Owned that have it now
	pause   time.Duration           // the last pause of resting
	stop    context.CancelCauseFunc // ends the wait, or the function's context
	shard   Owned                   // while owned or draining
}

// Pauses before a function is called again, and before a shard that could not be locked is tried
// again.
const (
	minPause = time.Second
	maxPause = time.Minute
)

// inside is the context key of the functions of a group.
type inside struct {
	locks *lock.Client
	group string
}

// mine reports whether this member is to own the shard. The caller holds g.mu.
func (g *Group) mine(i int) bool {
	return !g.ended && g.plan != nil && g.plan.owners[i] == g.me.ID
}

// settle begins what the plan asks for: it queues for shards, and ends waits and functions. It is
// called after each change, and is the only place that begins these. The caller holds g.mu.
func (g *Group) settle() {
	owns, ending := 0, 0
	for i := range g.slots {
		s := &g.slots[i]
		switch mine := g.mine(i); {
		case s.state == idle && mine:
			ctx, stop := context.WithCancelCause(g.ctx)
			s.state, s.stop = queued, stop
			g.shards.Add(1)
			go g.queue(ctx, i)
		case s.state == queued && !mine:
			s.stop(ErrMoved)
		case s.state == owned:
			owns++
		case s.state == draining:
			owns++
			if !s.overdue {
				ending++
			}
		}
	}
	for i := range g.slots {
		if g.slots[i].state != owned || g.mine(i) {
			continue
		}
		if !g.ended && ending >= max(1, owns/4) {
			return
		}
		ending++
		g.drain(i)
	}
}

// drain ends the function of a shard. The caller holds g.mu.
func (g *Group) drain(i int) {
	s := &g.slots[i]
	s.state, s.overdue = draining, false
	token := s.shard.Token()
	s.stop(ErrMoved)
	time.AfterFunc(g.opts.DrainTimeout, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if s := &g.slots[i]; s.state == draining && s.shard.Token() == token {
			s.overdue = true
			g.opts.Log.Warn("function does not return: its shard cannot be given back", "shard", i, "after", g.opts.DrainTimeout)
			g.settle()
		}
	})
}

// queue waits for the mutex of a shard.
func (g *Group) queue(ctx context.Context, i int) {
	hold, err := g.mutex(i).Lock(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &g.slots[i]
	stopped := ctx.Err() != nil
	s.stop(nil)
	switch {
	case err != nil && !stopped && !errors.Is(err, lock.ErrClosed):
		g.counts.Refused++
		s.pause = min(max(minPause, 2*s.pause), maxPause)
		s.state = resting
		g.opts.Log.Warn("shard not locked; tried again", "shard", i, "after", s.pause, "error", err)
		g.shards.Done()
		time.AfterFunc(s.pause, func() { g.rested(i) })
	case err != nil:
		g.idle(i)
	case !g.mine(i):
		s.state = draining
		s.shard = Owned{Index: i, hold: hold}
		go func() {
			_ = hold.Unlock() // the client logs an error; the entry then expires
			g.mu.Lock()
			defer g.mu.Unlock()
			g.idle(i)
		}()
	default:
		inner, stop := context.WithCancelCause(context.WithValue(hold.Context(), inside{g.locks, g.name}, true))
		s.state, s.pause, s.stop, s.shard = owned, 0, stop, Owned{Index: i, hold: hold, ctx: inner}
		go g.serve(s.shard) // a fresh goroutine: this one's stack has grown
	}
}

// idle ends the use of a shard, which may begin anew. The caller holds g.mu.
func (g *Group) idle(i int) {
	g.slots[i] = slot{pause: g.slots[i].pause}
	g.shards.Done()
	g.settle()
}

func (g *Group) rested(i int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.slots[i].state = idle
	g.settle()
}

// serve calls the function until the shard is to be given back, and gives it back.
func (g *Group) serve(s Owned) {
	returned := false
	defer func() {
		if !returned {
			g.panics(s, recover())
		}
		_ = s.hold.Unlock() // the client logs an error; the entry then expires
		g.mu.Lock()
		defer g.mu.Unlock()
		g.slots[s.Index].stop(nil)
		g.idle(s.Index)
	}()
	for pause := minPause; s.ctx.Err() == nil; pause = min(2*pause, maxPause) {
		began := time.Now()
		err := g.f(s.ctx, s)
		if s.ctx.Err() != nil {
			break
		}
		if time.Since(began) > maxPause {
			pause = minPause
		}
		g.opts.Log.Warn("function returned; called again", "shard", s.Index, "after", pause, "error", err)
		g.mu.Lock()
		g.counts.Failed++
		g.mu.Unlock()
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
		}
	}
	returned = true
}

// panics ends the group because a function has panicked, or ended its goroutine.
func (g *Group) panics(s Owned, value any) {
	if value == nil {
		value = "runtime.Goexit"
	}
	text := fmt.Sprintf("shard %d of %q: the function panicked: %v\n\n%s", s.Index, g.name, value, debug.Stack())
	g.mu.Lock()
	if g.panicV == nil {
		g.panicV = text
		close(g.panicked)
	}
	g.mu.Unlock()
	g.fail(errors.New("a function has panicked"))
}

// lend is the function of groups without one: it returns when the shard is to be given back and no
// loop over Owned has it.
func (g *Group) lend(ctx context.Context, s Owned) error {
	<-ctx.Done()
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.slots[s.Index].lent > 0 {
		g.returned.Wait()
	}
	return context.Cause(ctx)
}

// Owned yields the shards that this member owns, each as long as the body of the loop runs: a shard
// that is to be given back meanwhile, see [Owned.Context], is given back after the body. Other
// shards may come and go during the loop. It yields nothing after [Group.Leave] has begun to give
// shards back. Several loops may run at once; then a shard may be in several of them.
func (g *Group) Owned() iter.Seq[Owned] {
	return func(yield func(Owned) bool) {
		for i := range g.slots {
			s, ok := g.borrow(i)
			if ok && !g.use(s, yield) {
				return
			}
		}
	}
}

func (g *Group) borrow(i int) (Owned, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &g.slots[i]
	if s.state != owned || s.shard.ctx.Err() != nil {
		return Owned{}, false
	}
	s.lent++
	return s.shard, true
}

func (g *Group) use(s Owned, yield func(Owned) bool) bool {
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.slots[s.Index].lent--
		g.returned.Broadcast()
	}()
	return yield(s)
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
