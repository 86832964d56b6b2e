// Elections.

package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/access"
)

// chair is an election. Sometimes it is taken as a mutex; then there is no leader.
const chair = "chair"

// reign has the known values of one leader.
type reign struct {
	granted bool
	told    []string // values that the leader set
	seen    []string // values that observers read
}

// reignOf returns the reign of the leader with the token; s.mu is held.
func (s *sim) reignOf(token lock.Token) *reign {
	if s.reigns[token] == nil {
		s.reigns[token] = &reign{}
	}
	return s.reigns[token]
}

// newValue returns a value that is unique in the history.
func (s *sim) newValue(label string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values++
	return fmt.Sprintf("%s#%d", label, s.values)
}

// wayOfChair returns the way to lead the election: by a Campaign. A try takes the election as a
// mutex.
func (p *process) wayOfChair(one step, label string, c *client, opts []lock.LockOption) way {
	m := c.Mutex(chair, opts...)
	e := c.Election(chair, opts...)
	if priority := one.number("priority"); priority > 0 {
		e = e.WithPriority(priority)
	}
	return way{elects: true, try: m.TryLock, lock: func(ctx context.Context) (*lock.Hold, error) {
		value := p.newValue(label)
		l, err := e.Campaign(ctx, value)
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.tally.count("elected", 1)
		p.reignOf(l.Token()).granted = true
		p.reignOf(l.Token()).told = append(p.reignOf(l.Token()).told, value)
		return access.HoldOf(l).(*lock.Hold), nil
	}}
}

// proclaim changes the leader's value, if the hold is a leadership.
func (p *process) proclaim(ctx context.Context, r *rand.Rand, label string, h held) {
	value := p.newValue(label)
	p.mu.Lock()
	reign := p.reignOf(h.Token())
	leads := reign.granted
	reign.told = append(reign.told, value)
	p.mu.Unlock()
	if !leads { // taken as a mutex
		return
	}
	limited, cancel := p.limit(ctx, label, between(r, 0, p.ttl))
	defer cancel()
	begun := time.Now()
	err := access.LeadershipOf(h.Hold).(*lock.Leadership).Proclaim(limited, value)
	p.inTime(label, "Proclaim", limited, begun)
	p.say("%s: proclaims %s: %v", label, value, err)
	switch {
	case err == nil:
		p.count("values proclaimed")
	case !isOne(err, context.Canceled, context.DeadlineExceeded, lock.ErrLost, lock.ErrUnlocked, lock.ErrClosed) && !p.refusal(h.client, err):
		p.violated("%s: proclaim %s: %v", label, value, err)
	}
}

// askWhoLeads asks for the leader and checks the answer: the leader's token is not lower than any
// that was granted before the question, and a valid leader is not missed.
func (p *process) askWhoLeads(ctx context.Context, one step, label string) {
	limited, cancel := p.within(ctx, label, one)
	defer cancel()
	c := p.caller(one)
	p.mu.Lock()
	last, begun, slept := p.last[chair], time.Now(), p.slept
	left := map[*lock.Hold]time.Duration{} // rest of the leader's lease
	for _, h := range p.open[chair] {
		if p.reignOf(h.Token()).granted {
			left[h.Hold] = h.Remaining()
		}
	}
	p.mu.Unlock()
	leader, err := c.Election(chair).Leader(limited)
	p.inTime(label, "Leader", limited, begun)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sayLocked("%s: leader is %q, token %v: %v", label, leader.Value, leader.Token, err)
	switch {
	case err == nil:
		p.tally.count("leaders asked for", 1)
		if leader.Token.Compare(last) < 0 && !begun.Before(p.forgotten) {
			p.violatedLocked("%s is told that %q leads by token %v, and token %v was granted before it asked", label, leader.Value, leader.Token, last)
		}
		p.seenLocked(leader)
	case errors.Is(err, lock.ErrNoLeader):
		p.tally.count("asked without a leader", 1)
		for _, h := range p.open[chair] {
			// If all machines slept, a lease can end during the question and be renewed later.
			if left[h.Hold] > time.Since(begun)+p.slept-slept && h.Remaining() > 0 {
				p.violatedLocked("%s is told that there is no leader, and token %v leads", label, h.Token())
			}
		}
	case !isOne(err, context.Canceled, context.DeadlineExceeded, lock.ErrClosed) && !p.refusalLocked(c, err):
		p.violatedLocked("%s: ask who leads: %v", label, err)
	}
}

// seenLocked records a leader that was read; s.mu is held.
func (s *sim) seenLocked(leader lock.Candidate) {
	r := s.reignOf(leader.Token)
	r.seen = append(r.seen, leader.Value)
}

// observeChair observes the election until ctx ends, and checks that tokens do not fall.
func (p *process) observeChair(ctx context.Context, label string, c *client) {
	for r := p.random("observer of " + label); ctx.Err() == nil; p.pause(r, 0, p.ttl) {
		var highest lock.Token
		for leader, err := range c.Election(chair).Observe(ctx) {
			p.mu.Lock()
			p.sayLocked("%s: observes %q, token %v: %v", label, leader.Value, leader.Token, err)
			switch {
			case err != nil && !isOne(err, context.Canceled, context.DeadlineExceeded, lock.ErrClosed) && !p.refusalLocked(c, err):
				p.violatedLocked("%s: observe: %v", label, err)
			case leader.Leads && leader.Token.Compare(highest) < 0 && p.forgotten.IsZero():
				p.violatedLocked("%s observes token %v after %v", label, leader.Token, highest)
			case leader.Leads:
				highest = leader.Token
				p.tally.count("leaders observed", 1)
				p.seenLocked(leader)
			}
			p.mu.Unlock()
			if errors.Is(err, lock.ErrClosed) {
				return
			}
		}
	}
}

// checkReigns checks that all values that were read belong to their tokens. A leader that never
// learned of its grant has no known values.
func (s *sim) checkReigns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, r := range s.reigns {
		for _, value := range r.seen {
			if r.granted && !slices.Contains(r.told, value) {
				s.violatedLocked("the leader with token %v gave the values %q, and %q was seen", token, r.told, value)
			}
		}
	}
}
