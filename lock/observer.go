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
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// Observer receives the events of a client's locks: see [WithObserver]. The packages below
// lock/observe have observers for Prometheus, OpenTelemetry and zerolog.
//
// One goroutine of the client calls Observe, for one event after the other, in the order of the
// events. An observer that blocks delays later events, but no renewal, no call and no end of a
// hold. While 65,536 events wait, further ones are dropped and counted, see [Stats]. [Client.Close]
// waits up to a second for the delivery of all events; an observer must not call Close. A panic in
// Observe is not caught. The context carries the values, such as a trace, of the context that the
// lock was requested with, and does not end.
type Observer interface {
	Observe(context.Context, Event)
}

// EventKind is the kind of an event.
type EventKind uint8

// The kinds of events, in their order. Each hold has one EventAcquired and later one EventReleased
// or EventLost. An EventWaiting may come before them. A waiter that gives up has EventWaiting and
// EventWithdrawn. A re-entry and a failed TryLock have no event. An entry that is handed off
// locally, or shared by readers ([WithLocalWindow]), has events for each of its holds; Token tells
// the holds apart.
const (
	_ EventKind = iota
	// EventWaiting: other contenders are ahead; Ahead is their number.
	EventWaiting
	// EventAcquired: the lock is acquired. Waited is the time since the request.
	EventAcquired
	// EventWithdrawn: the waiter gave up, for example because its context ended. Or it queues
	// again, because its entry was removed, or because it yields to a higher priority in an
	// election.
	EventWithdrawn
	// EventAtRisk: the hold will be lost after the time Left unless a renewal succeeds: see
	// [Hold.AtRisk]. Reason is the expected reason of the loss.
	EventAtRisk
	// EventReleased: the hold was unlocked; its entry is deleted next, or handed off locally. Or the
	// hold was detached, and its entry stays for the client that attaches.
	EventReleased
	// EventLost: the hold ended before it was unlocked. Reason says why.
	EventLost
	// EventPurged: the client deleted an expired entry of another contender.
	EventPurged
	// EventDisplaced: the clock of ZooKeeper's leader stepped, or differs from the previous
	// leader's clock.
	EventDisplaced
)

var eventNames = [...]string{"", "waiting", "acquired", "withdrawn", "at risk", "released", "lost", "purged", "displaced"}

func (k EventKind) String() string {
	if int(k) < len(eventNames) && k > 0 {
		return eventNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", uint8(k))
}

// Event is an event of a lock or, with EventDisplaced, of the client. Fields that do not apply
// are zero.
type Event struct {
	Kind EventKind
	// At is the time of the event by this machine's clock. Delivery comes later.
	At time.Time
	// Lock is the name of the lock. There may be any number of locks: label metrics with Policy
	// instead.
	Lock string
	// Policy is the name of the policy that applies to the lock, see [Policy].
	Policy string
	// Entry is the path of the entry. If several holds use it, in turn or together, Token tells
	// them apart. It is empty for a waiter without an entry, which waits behind another goroutine's
	// hold ([WithLocalWindow]) or uses [Mutex.WithBarging].
	Entry string
	// Token is the fencing token of the hold.
	Token Token
	// Ahead is the number of contenders ahead when the wait began, holders included. It counts
	// entries in ZooKeeper, and goroutines of this client. It is 0 if unknown, as for
	// [Mutex.WithBarging].
	Ahead int
	// Queued says that this request had an EventWaiting before.
	Queued bool
	// Waited is the time from the request to the grant or the withdrawal. If the waiter has queued
	// again, it counts from the first request.
	Waited time.Duration
	// Held is the time since the grant.
	Held time.Duration
	// Left is the time for which a hold at risk surely lasts.
	Left time.Duration
	// By is the step of the leader's clock, negative for backwards, of an EventDisplaced.
	By time.Duration
	// Reason is a [LostError] if the hold was lost, and [ErrExpired] or [ErrMaxHold] if the hold is
	// at risk. Compare it with [errors.Is]; ReasonLabel is for metrics.
	Reason error
}

// ReasonLabel returns the Reason as a label for a metric: "expired", "removed", "taken", "broken",
// "max_hold" or "closed". It is "" if Reason is none of these, and "taken" for [ErrAttached].
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

// requestState is the state of a request, for its events.
type requestState struct {
	at      time.Duration // monotonic time of the request
	waiting atomic.Bool   // EventWaiting was the last event of the request
}

// requestStateKey is the context key of a request's state. It is set only if there are observers.
type requestStateKey struct{}

// withRequestState returns ctx with the state of a request that begins now.
func (c *Client) withRequestState(ctx context.Context) context.Context {
	if len(c.cfg.observers) == 0 {
		return ctx
	}
	return context.WithValue(ctx, requestStateKey{}, &requestState{at: c.clock.Mono()})
}

// requestStateOf returns the request's state that values has, or an empty state if values has none.
func requestStateOf(values context.Context) *requestState {
	a, ok := values.Value(requestStateKey{}).(*requestState)
	if !ok {
		return new(requestState)
	}
	return a
}

// waits reports EventWaiting, unless that was the last event of the request. entry is "" if the
// request has no entry.
func (c *Client) waits(values context.Context, r *queue.Request, entry string, ahead int) {
	if len(c.cfg.observers) > 0 && !requestStateOf(values).waiting.Swap(true) {
		c.notify(values, Event{Kind: EventWaiting, Lock: r.Lock, Entry: entry, Ahead: ahead})
	}
}

// reportWithdrawn reports EventWithdrawn for a failed request whose last event was EventWaiting.
func (c *Client) reportWithdrawn(r *queue.Request) {
	if len(c.cfg.observers) == 0 {
		return
	}
	if a := requestStateOf(r.Values); a.waiting.Swap(false) {
		c.notify(r.Values, Event{
			Kind: EventWithdrawn, Lock: r.Lock, Queued: true, Waited: c.clock.Mono() - a.at,
		})
	}
}

// tell reports a change of an entry's state. If several holds share the entry, tell reports the
// change for each hold.
func (c *Client) tell(e *queue.Entry, change lease.Change) {
	if inShareGroup(e) && (change.From == lease.Held || change.To == lease.Held) {
		for _, t := range e.ShareGroup() {
			t.(*tenancy).tell(change)
		}
		return
	}
	if len(c.cfg.observers) == 0 {
		return
	}
	var token Token // zero before the grant, when another goroutine may be setting it
	if change.From == lease.Held || change.To == lease.Held {
		token = tokenOf(e)
	}
	c.tellOf(e, change, token, e.HeldSince(), e.Values())
}

// tellOf reports a change of an entry's state for one hold. token, granted and values are the
// hold's token, the monotonic time of its grant, and the context of its request.
func (c *Client) tellOf(e *queue.Entry, change lease.Change, token Token, granted time.Duration, values context.Context) {
	event := Event{Lock: e.Lock(), Entry: e.Path}
	request, now := requestStateOf(values), c.clock.Mono()
	if change.From == lease.Held || change.To == lease.Held {
		event.Token, event.Waited, event.Held = token, granted-request.at, now-granted
	}
	switch {
	case change.AtRisk():
		event.Kind, event.Left, event.Reason = EventAtRisk, change.Left, change.Why
	case change.To == lease.Held:
		event.Kind, event.Queued = EventAcquired, request.waiting.Swap(false)
	case change.Lost():
		event.Kind, event.Reason = EventLost, change.Why
	case change.From == lease.Held:
		event.Kind = EventReleased
	case change.From == lease.Waiting && change.To == lease.Ended:
		if !request.waiting.Swap(false) { // EventWaiting was not reported, or the end of the wait was
			return
		}
		event.Kind, event.Queued, event.Waited = EventWithdrawn, true, now-request.at
	default: // other changes have no event
		return
	}
	c.notify(values, event)
}

// purged reports an expired entry that a request of this client has deleted.
func (c *Client) purged(r *queue.Request, path string) {
	if len(c.cfg.observers) > 0 {
		c.notify(r.Values, Event{Kind: EventPurged, Lock: r.Lock, Entry: path})
	}
}

func (c *Client) displaced(d clock.Displacement) {
	c.notify(context.Background(), Event{Kind: EventDisplaced, By: d.By})
}

// notify queues an event for the observers. It does not wait for them.
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

// Check reports whether all holds and waits of the client are renewed in time. It asks no server
// and never blocks, so it can answer a health check. It returns
//
//   - [ErrClosed] after Close;
//   - [ErrStalled] while holds or waits are at risk because renewals fail, and after a pause of the
//     process until a renewal succeeds. The message has their number, the entry that ends first,
//     and the time since its last renewal;
//   - [ErrUnavailable] if there has been no session for at least a third of the session timeout, with
//     the reason of the last failure to connect: for example, no server can be reached, a certificate
//     is of an unknown authority, or the servers refuse the SASL credentials. A client made by [New]
//     does not return it;
//   - nil otherwise.
//
// [ErrStalled] has that reason, too. A restart mends neither of them if the servers are away, so use
// Check for readiness, and to restart a service only [ErrStalled]. A risk by max_hold and a lost hold do
// not count.
func (c *Client) Check() error {
	if c.open.Err() != nil {
		return ErrClosed
	}
	first, stalled, of := c.keeper.Stalls()
	if stalled == 0 {
		return zkconn.Reveal(c.conn.Away())
	}
	state := "is purged by others in"
	if first.Holds() > 0 {
		state = "is lost in"
	}
	err := fmt.Errorf("%w: %d of %d entries are not renewed: %s was last %v ago, and %s %v unless it is",
		ErrStalled, stalled, of, first.Path, first.For.Round(time.Millisecond), state, max(0, first.Left).Round(time.Millisecond))
	if why := c.conn.LastFailure(); why != nil {
		err = fmt.Errorf("%w; last failure to connect: %w", err, why)
	}
	return err
}

// entryChanged handles a change of an entry's state: it informs the observers, counts losses, logs
// losses and risks, and ends the delivery of requests to an entry that has ended.
func (c *Client) entryChanged(e *queue.Entry, change lease.Change) {
	c.tell(e, change)
	// After an unlock, hold.endHandle calls ended, unless it hands the entry off.
	if change.To == lease.Ended && !(e.Placed() && errors.Is(change.Why, ErrUnlocked)) {
		c.ended(e, change.Why)
	}
	switch {
	case change.AtRisk():
		c.logRisk(e, change)
	case change.Lost():
		if !inShareGroup(e) { // tenancy.tell counts holds that share an entry
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
