package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// slot is a shard that this member waits for, or has.
type slot struct {
	Owned                           // without a hold the member waits for the mutex
	stop    context.CancelCauseFunc // ends ctx: the wait, or the function's context
	overdue bool                    // its function has not returned within the DrainTimeout
	lent    sync.WaitGroup          // loops over Group.Owned that have it now
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

// change changes the state of the member, and begins what follows from it.
func (g *Group) change(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
	g.settle()
}

// settle begins what the plan asks for: it queues for shards, and ends waits and functions. If the plan
// does without a member that leaves, it gives back all shards; when all are given back, it ends g.ctx. It is
// called after each change, and is the only place that begins these. The caller holds g.mu.
func (g *Group) settle() {
	g.released = g.released || g.campaign.Err() != nil && !g.plan.has(g.me.ID)
	waits, owns, ending := 0, 0, 0
	var gained, moved []*slot
	for i, s := range g.slots {
		mine := !g.released && g.plan != nil && g.plan.owners[i] == g.me.ID
		switch {
		case s == nil && mine:
			s = &slot{Owned: Owned{Index: i}}
			s.ctx, s.stop = context.WithCancelCause(g.ctx)
			g.slots[i] = s
			gained = append(gained, s)
			waits++
		case s == nil:
		case s.hold == nil:
			if waits++; !mine {
				s.stop(ErrMoved)
			}
		default:
			if owns++; s.ctx.Err() == nil && !mine {
				moved = append(moved, s)
			} else if context.Cause(s.ctx) == ErrMoved && !s.overdue { //nolint:errorlint // it is never wrapped
				ending++
			}
		}
	}
	for _, s := range moved {
		if g.released || ending < max(1, owns/4) {
			ending++
			s.stop(ErrMoved)
		}
	}
	if len(gained) > 0 {
		go g.gain(gained)
	}
	if g.released && waits+owns == 0 {
		g.stop()
	}
}

// gain queues for shards after a round trip, whatever that returns: owners whose functions return at once leave
// meanwhile. Otherwise their leaves and the joins here refuse each other's transactions.
func (g *Group) gain(slots []*slot) {
	_, _, _ = g.tree.Get(g.campaign, g.tree.Path(g.election.Name()))
	for _, s := range slots {
		go g.queue(s)
	}
}

// queue waits for the mutex of a shard, and serves the shard. The use of the shard may then begin anew.
func (g *Group) queue(s *slot) {
	defer g.change(func() {
		s.stop(nil)
		g.slots[s.Index] = nil
	})
	waits := s.ctx
	hold, err := g.mutex(s.Index).Lock(waits)
	for pause := minPause; err != nil && waits.Err() == nil; pause = min(2*pause, maxPause) {
		g.opts.Log.Warn("shard not locked; tried again", "shard", s.Index, "after", pause, "error", err)
		sleep(waits, pause)
		hold, err = g.mutex(s.Index).Lock(waits)
	}
	if err != nil {
		return
	}
	g.mu.Lock()
	moved := waits.Err() != nil
	s.stop(nil)
	s.hold = hold
	if s.ctx, s.stop = context.WithCancelCause(hold.Context()); moved {
		s.stop(ErrMoved)
	}
	g.mu.Unlock()
	g.serve(s)
}

// serve calls the function until the shard is to be given back, and gives it back when it has returned and no
// loop over Owned has the shard.
func (g *Group) serve(s *slot) {
	defer g.giveBack(s)
	defer context.AfterFunc(s.ctx, func() {
		time.AfterFunc(g.opts.DrainTimeout, func() { g.overdue(s) })
	})()
	for pause := minPause; s.ctx.Err() == nil; pause = min(2*pause, maxPause) {
		began := time.Now()
		if err := g.f(s.ctx, s.Owned); s.ctx.Err() == nil {
			if time.Since(began) > maxPause {
				pause = minPause
			}
			g.opts.Log.Warn("function returned; called again", "shard", s.Index, "after", pause, "error", err)
			sleep(s.ctx, pause)
		}
	}
	g.change(func() {}) // from here on no loop borrows it
	s.lent.Wait()
}

// overdue tells, when the DrainTimeout is over, that the function of a shard has not returned.
func (g *Group) overdue(s *slot) {
	hangs := false
	g.change(func() {
		hangs = g.slots[s.Index] == s
		s.overdue = true
	})
	if hangs { // without the mutex: a handler may call the group
		g.opts.Log.Warn("function does not return: its shard cannot be given back", "shard", s.Index, "after", g.opts.DrainTimeout)
	}
}

// giveBack unlocks the mutex of a shard, deferred by serve. A function that has panicked, or ended its
// goroutine, ends the membership.
func (g *Group) giveBack(s *slot) {
	if value := recover(); value != nil || s.ctx.Err() == nil {
		crash := fmt.Sprintf("shard %d of %q: the function panicked: %v\n\n%s", s.Index, g.name, cmp.Or(value, any("runtime.Goexit")), debug.Stack())
		g.change(func() { g.crash = crash })
		g.fail(errors.New("a function has panicked"))
		time.AfterFunc(g.opts.DrainTimeout, g.stop)
	}
	_ = s.hold.Unlock() // the client logs an error; the entry then expires
}

// Owned yields the shards that this member owns, each as long as the body of the loop runs: a shard
// that is to be given back meanwhile, see [Owned.Context], is given back after the body. Other
// shards may come and go during the loop. It yields nothing after [Group.Leave] has begun to give
// shards back. Several loops may run at once; then a shard may be in several of them.
func (g *Group) Owned() iter.Seq[Owned] {
	return func(yield func(Owned) bool) {
		for i := range g.slots {
			g.mu.Lock()
			s := g.slots[i]
			owned := s != nil && s.hold != nil && s.ctx.Err() == nil
			if owned {
				s.lent.Add(1)
			}
			g.mu.Unlock()
			if owned && !s.use(yield) {
				return
			}
		}
	}
}

func (s *slot) use(yield func(Owned) bool) bool {
	defer s.lent.Done()
	return yield(s.Owned)
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
