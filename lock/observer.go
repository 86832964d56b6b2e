package lock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/queue"
)

// Observer is told what happens to the locks of a client: see [WithObserver]. Packages
// below lock/observe have some that are ready, for Prometheus, OpenTelemetry,
// slog and zerolog.
//
// One goroutine of the client calls Observe, for one event after the other, in the order in
// which they happened. An observer that blocks holds up later events, and nothing else: no
// renewal, call or end of a hold. While 65,536 events wait, further ones are dropped and
// counted, see [Stats]. [Client.Close] waits for up to a second until all events are told;
// an observer must not call it. A panic in Observe is not caught. The context carries the
// values of the one that the lock was asked for with, such as a trace, and does not end.
type Observer interface {
	Observe(context.Context, Event)
}

// EventKind is what has happened.
type EventKind uint8

// The kinds of events, in the order in which they come. Each hold has one EventAcquired and
// later one EventReleased or EventLost, and before that perhaps one EventWaiting. A waiter
// that gives up has EventWaiting and EventWithdrawn. A lock that is taken again through the
// context of its hold is no event, nor is one that TryLock has not got. An entry that is
// handed off locally, or shared by readers ([WithLocalWindow]), has these events once for
// each of its holds, told apart by Token.
const (
	_ EventKind = iota
	// EventWaiting: other contenders are ahead, as many as Ahead tells.
	EventWaiting
	// EventAcquired: the lock is acquired, after the time that Waited tells.
	EventAcquired
	// EventWithdrawn: the waiter gave up, because its context ended; or it queues again,
	// because its entry was removed, or to yield to a higher priority in an election.
	EventWithdrawn
	// EventAtRisk: the hold will be lost, in the time that Left tells, unless a
	// renewal succeeds: see [Hold.AtRisk]. Reason says by what.
	EventAtRisk
	// EventReleased: the hold was unlocked, and its entry is deleted next; or it was
	// detached, and its entry stays for the client that attaches to it.
	EventReleased
	// EventLost: the hold ended before. Reason says why.
	EventLost
	// EventPurged: the client deleted an expired entry of another contender.
	EventPurged
	// EventDisplaced: the clock of ZooKeeper's leader was seen to step, or to differ
	// from that of the leader before.
	EventDisplaced
)

var eventNames = [...]string{"", "waiting", "acquired", "withdrawn", "at risk", "released", "lost", "purged", "displaced"}

func (k EventKind) String() string {
	if int(k) < len(eventNames) && k > 0 {
		return eventNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", uint8(k))
}

// Event is something that happened. Fields that do not apply are zero.
type Event struct {
	Kind EventKind
	// At is when it happened, by this machine's clock. It is told later.
	At time.Time
	// Lock is the name of the lock. There may be any number of them: in metrics use
	// Policy.
	Lock string
	// Policy is the name of the policy that applies to the lock, see [Policy].
	Policy string
	// Entry is the path of the entry. If it has several holds, one after the other or
	// together, Token tells them apart. It is empty of a waiter without an entry: one for the
	// hold of another goroutine ([WithLocalWindow]), or [WithBarging].
	Entry string
	// Token is that of the hold.
	Token Token
	// Ahead is the place in the queue when a wait began: how many contenders were ahead,
	// those that hold the lock included. They are entries in ZooKeeper, and goroutines of this
	// client. 0 if it is not known, as [WithBarging].
	Ahead int
	// Queued says that there was an EventWaiting.
	Queued bool
	// Waited is how long ago the lock was asked for when it was acquired, or when the
	// waiter withdrew; if that one queued again, how long ago it was first asked for.
	Waited time.Duration
	// Held is for how long the lock has been held.
	Held time.Duration
	// Left is for how long a hold at risk is still sure to last.
	Left time.Duration
	// By is how far the leader's clock jumped, negative for backwards.
	By time.Duration
	// Reason is why a hold was lost, a [LostError], or will be, [ErrExpired] or [ErrMaxHold].
	// Compare it with [errors.Is]; ReasonLabel is for metrics.
	Reason error
}

// ReasonLabel returns the Reason in a word that can label a metric: "expired", "removed",
// "taken", "broken", "max_hold", "closed"; "" if it is none of these.
func (e Event) ReasonLabel() string {
	for _, r := range []struct {
		err  error
		word string
	}{{ErrExpired, "expired"}, {ErrRemoved, "removed"}, {ErrTaken, "taken"}, {ErrBroken, "broken"}, {ErrMaxHold, "max_hold"}, {ErrClosed, "closed"}} {
		if errors.Is(e.Reason, r.err) {
			return r.word
		}
	}
	return ""
}

// asked is what is known of a request that observers are told of.
type asked struct {
	at      time.Duration // monotonic time at which the lock was asked for
	waiting atomic.Bool   // EventWaiting was told, and not yet what came of it
}

// askedKey is the key under which the values that an entry keeps have the request, if there
// are observers.
type askedKey struct{}

// asks returns ctx as the values of a request that is made now.
func (c *Client) asks(ctx context.Context) context.Context {
	if len(c.cfg.observers) == 0 {
		return ctx
	}
	return context.WithValue(ctx, askedKey{}, &asked{at: c.clock.Mono()})
}

// askedBy returns the request that values carry, or an empty one for an entry that no
// request has asked for.
func askedBy(values context.Context) *asked {
	a, ok := values.Value(askedKey{}).(*asked)
	if !ok {
		return new(asked)
	}
	return a
}

// waits tells the observers that a request has to wait, by that entry if it has one, and how
// many contenders are ahead.
func (c *Client) waits(values context.Context, r *queue.Request, entry string, ahead int) {
	if len(c.cfg.observers) > 0 && !askedBy(values).waiting.Swap(true) {
		c.notify(values, Event{Kind: EventWaiting, Lock: r.Lock, Entry: entry, Ahead: ahead})
	}
}

// withdrew tells the observers that a request waits no longer, unless its entry has told so.
func (c *Client) withdrew(r *queue.Request) {
	if len(c.cfg.observers) == 0 {
		return
	}
	if a := askedBy(r.Values); a.waiting.Swap(false) {
		c.notify(r.Values, Event{
			Kind: EventWithdrawn, Lock: r.Lock, Queued: true, Waited: c.clock.Mono() - a.at,
		})
	}
}

// tell tells the observers of a change in the life of an entry: of a hold that several have
// together, for each of them.
func (c *Client) tell(e *queue.Entry, change lease.Change) {
	if heldTogether(e) && (change.From == lease.Held || change.To == lease.Held) {
		for _, t := range e.Together() {
			t.(*tenancy).tell(change)
		}
		return
	}
	if len(c.cfg.observers) == 0 {
		return
	}
	var token Token // zero before the grant: the waiter may be learning it just now
	if change.From == lease.Held || change.To == lease.Held {
		token = tokenOf(e)
	}
	c.tellOf(e, change, token, e.HeldSince(), e.Values())
}

// tellOf tells the observers of a change in the life of an entry, or of a hold by it: that has
// the token, and was acquired at that monotonic time. The values are those of the request.
func (c *Client) tellOf(e *queue.Entry, change lease.Change, token Token, granted time.Duration, values context.Context) {
	event := Event{Lock: e.Lock(), Entry: e.Path}
	asked, now := askedBy(values), c.clock.Mono()
	if change.From == lease.Held || change.To == lease.Held {
		event.Token, event.Waited, event.Held = token, granted-asked.at, now-granted
	}
	switch {
	case change.AtRisk():
		event.Kind, event.Left, event.Reason = EventAtRisk, change.Left, change.Why
	case change.To == lease.Held:
		event.Kind, event.Queued = EventAcquired, asked.waiting.Swap(false)
	case change.Lost():
		event.Kind, event.Reason = EventLost, change.Why
	case change.From == lease.Held:
		event.Kind = EventReleased
	case change.From == lease.Waiting && change.To == lease.Ended:
		if !asked.waiting.Swap(false) { // its waiter has withdrawn before
			return
		}
		event.Kind, event.Queued, event.Waited = EventWithdrawn, true, now-asked.at
	default: // it never had to wait, and was never acquired
		return
	}
	c.notify(values, event)
}

// purged tells the observers of an entry that one of our requests has deleted.
func (c *Client) purged(r *queue.Request, path string) {
	if len(c.cfg.observers) > 0 {
		c.notify(r.Values, Event{Kind: EventPurged, Lock: r.Lock, Entry: path})
	}
}

// displaced tells the observers of a displacement of the leader's clock.
func (c *Client) displaced(d clock.Displacement) {
	c.notify(context.Background(), Event{Kind: EventDisplaced, By: d.By})
}

// notify has the observers told of the event, without waiting for them.
func (c *Client) notify(values context.Context, event Event) {
	if len(c.cfg.observers) == 0 {
		return
	}
	event.At = time.Now()
	c.events.Put(func() {
		if event.Lock != "" {
			event.Policy = c.cfg.policyOf(event.Lock).Name // the policies are the user's, and may block too
		}
		for _, o := range c.cfg.observers {
			o.Observe(context.WithoutCancel(values), event)
		}
	})
}

// Check reports whether all that the client keeps alive is renewed in time, its waits
// as well as its holds: it returns nil, or an [ErrStalled] that tells how many are not,
// which of them ends first, and for how long it has not been renewed. So it fails when
// holds are at risk, but for those that max_hold ends; fixed leases do not count. A client
// without holds and waits has nothing that could stall: Check is nil, also if it keeps an
// entry ([WithIdle]), and whether ZooKeeper can be reached or not. But if servers can be
// reached and close each connection without an answer, as one does that has lost its data, it
// returns an [ErrUnavailable] that names the possible causes. A client that was closed
// returns [ErrClosed].
//
// It looks at what is known, asks no server and never blocks, so that it can answer a
// health check.
func (c *Client) Check() error {
	if c.open.Err() != nil {
		return ErrClosed
	}
	first, stalled, of := c.keeper.Stalls()
	if stalled == 0 {
		return c.conn.Refused()
	}
	state := "is purged by others in"
	if first.IsHeld() {
		state = "is lost in"
	}
	return fmt.Errorf("%w: %d of %d entries are not renewed: %s was last %v ago, and %s %v unless it is",
		ErrStalled, stalled, of, first.Path, first.For.Round(time.Millisecond), state, max(0, first.Left).Round(time.Millisecond))
}

// entryChanged is told of each change in the life of an entry: the place for statistics,
// logs and observers.
func (c *Client) entryChanged(e *queue.Entry, change lease.Change) {
	c.tell(e, change)
	if change.To == lease.Ended && !(e.Placed() && errors.Is(change.Why, ErrUnlocked)) { // then Unlock says what comes of it
		c.ended(e, change.Why)
	}
	switch {
	case change.AtRisk():
		c.logRisk(e, change)
	case change.Lost():
		if !heldTogether(e) { // else each of them counts
			c.lost.Add(1)
		}
		c.logLoss(e, change)
	}
}

func (c *Client) logLoss(e *queue.Entry, change lease.Change) {
	event := c.cfg.log.Warn().Str("lock", e.Lock()).Str("entry", e.Path).AnErr("why", errors.Unwrap(change.Why))
	if errors.Is(change.Why, ErrExpired) {
		c.outage.mu.Lock()
		c.outage.lost++
		c.outage.mu.Unlock()
	}
	switch {
	case errors.Is(change.Why, ErrClosed):
		event.Discard()
		c.cfg.log.Debug().Str("lock", e.Lock()).Str("entry", e.Path).Msg("hold ended: the client closes")
	case errors.Is(change.Why, ErrRemoved), errors.Is(change.Why, ErrTaken):
		if _, off := c.clock.Displacements(); off.By != 0 {
			event.Stringer("leader_clock_displaced_by", off.By).Stringer("displacement_seen_before", c.clock.Mono()-off.Seen).
				Int64("old_epoch", off.OldEpoch).Int64("epoch", off.NewEpoch)
		}
		event.Msg("hold lost: its entry was removed or overwritten while its lease ran; its context has ended, and another contender may hold the lock already")
	default:
		event.Msg("hold lost: its context has ended, its entry is deleted if it is still there, and another contender may hold the lock already")
	}
}
