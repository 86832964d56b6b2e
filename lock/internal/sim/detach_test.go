// Detach and Attach.

package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// Processes publish tickets for all processes of the history, also tickets of live holds. A process
// that uses a ticket usually removes it, but some tickets are used twice. In histories that must
// leave no node, the process that detaches also attaches at once.

// detach detaches a hold, checks the result, and publishes the ticket. If the hold cannot be
// detached, detach unlocks it.
func (p *process) detach(ctx context.Context, r *rand.Rand, one step, label string, h held) {
	var ttl time.Duration
	switch {
	case p.quiet(): // its lease may be short, and the process may attach late
		ttl = p.ttl
	case oneIn(r, 2):
		ttl = p.drawTTL(r)
	}
	limited, cancel := p.limit(ctx, label, between(r, 6*p.slow, 2*p.ttl))
	defer cancel()
	if p.quiet() {
		limited = p.served
	}
	begun := time.Now()
	ticket, err := h.Detach(limited, ttl)
	if !p.quiet() {
		p.inTime(label, "Detach", limited, begun)
	}
	if errors.Is(err, lock.ErrInvalid) && h.reads.Load() || limited.Err() != nil && h.Err() == nil { // readers share its entry, or the context had ended
		if h.reads.Load() {
			p.count("left with others who read")
		}
		p.end(r, one, label, h)
		return
	}
	p.mu.Lock()
	p.sayLocked("%s: detaches %s, token %v: %v", label, h.Name(), h.Token(), err)
	p.open[h.Name()] = slices.DeleteFunc(p.open[h.Name()], func(other held) bool { return other.Hold == h.Hold })
	var unconfirmed *lock.UnlockError
	switch {
	case p.void(h):
	case h.Err() == nil:
		p.violatedLocked("%s has detached %s and holds it", label, h.Name())
	case err == nil:
		p.tally.count("detached", 1)
		if h.Name() == pages || h.Name() == slots {
			p.tally.count("detached from shared locks", 1)
		}
	case isOne(err, lock.ErrRemoved, lock.ErrTaken) && !errors.As(err, &unconfirmed) && !errors.Is(err, lock.ErrAttached) && !p.mayBeBroken(h, err):
		p.violatedLocked("%s: no client does that here: %v", label, err)
	case !isOne(err, lock.ErrLost, lock.ErrUnlocked, lock.ErrClosed) && !errors.As(err, &unconfirmed), p.quiet() && !isOne(err, lock.ErrMaxHold, lock.ErrClosed):
		p.violatedLocked("%s: detach %s: %v", label, h.Name(), err)
	}
	if unconfirmed != nil {
		p.tally.count("detached in doubt", 1)
		p.leaving[h.EntryPath()] = time.Now()
	}
	p.mu.Unlock()
	p.leave(r, label, ticket)
}

// leave publishes a ticket. In histories without faults, leave instead attaches to the ticket soon.
func (p *process) leave(r *rand.Rand, label string, ticket lock.Ticket) {
	if ticket.IsZero() {
		return
	}
	if p.quiet() {
		p.pause(r, 0, p.ttl/4)
		p.attach(p.served, r, label, p.clients[r.IntN(len(p.clients))], ticket)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tickets = append(p.tickets, ticket)
}

// comeBack attaches to a published ticket, if there is one.
func (p *process) comeBack(ctx context.Context, r *rand.Rand, one step, label string) {
	p.mu.Lock()
	var ticket lock.Ticket
	if n := len(p.tickets); n > 0 {
		at := r.IntN(n)
		ticket = p.tickets[at]
		if !oneIn(r, 3) {
			p.tickets = slices.Delete(p.tickets, at, at+1)
		}
	}
	p.mu.Unlock()
	if ticket.IsZero() {
		return
	}
	limited, cancel := p.within(ctx, label, one)
	defer cancel()
	p.attach(limited, r, label, p.caller(one), ticket)
}

// wayOf returns the way of an attached hold, by the record and the name of its entry.
func (s *sim) wayOf(h *lock.Hold) way {
	n, there := s.node(pathOf(h))
	w := way{reads: there && reads(n)}
	if h.Name() == slots {
		w.permits = weightOf(pathOf(h)[strings.LastIndexByte(pathOf(h), '/')+1:])
	}
	return w
}

// attach attaches to a ticket's entry and unlocks after a while. It checks the results.
func (p *process) attach(ctx context.Context, r *rand.Rand, label string, c *client, ticket lock.Ticket) {
	begun := time.Now()
	got, err := c.Attach(newCall(ctx), ticket)
	if _, limited := ctx.Deadline(); limited {
		p.inTime(label, "Attach", ctx, begun)
	}
	switch {
	case err != nil && p.quiet() && !errors.Is(err, lock.ErrClosed):
		p.violated("%s: nothing went wrong, and %v", label, err)
	case errors.Is(err, lock.ErrAttached):
		p.count("attached too late")
	case errors.Is(err, lock.ErrRemoved) && ctx.Err() == nil:
		p.count("came back too late")
	case err == nil && ticket.Expires().IsZero():
		p.count("attached to what was not detached")
		fallthrough
	case err == nil:
		p.count("attached")
		h := p.granted(label, c, got, p.wayOf(got))
		p.pause(r, 0, p.ttl)
		p.check()
		p.unlock(label, h)
		return
	default:
		p.notTaken(label, c, ticket.Name(), err)
		if p.quiet() { // Close detaches an attached hold again
			<-c.closed
			heir := p.client(label+" again", label+" again", p.clock)
			p.attach(p.served, r, label, heir, ticket)
			p.closeClient(heir)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.tickets = append(p.tickets, ticket) // the ticket is still valid
		return
	}
	p.say("%s: attach to %s: %v", label, ticket.EntryPath(), err)
}
