// The promises, checked after each step.

package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/access"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// slack returns the time that checks allow for some round trips, and for computations without a
// limit of their own.
func (s *sim) slack() time.Duration { return time.Second + 20*s.slow }

// isOne reports whether the error is one of the targets.
func isOne(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// inTime checks that a call has returned at most 100 ms after the end of its context.
func (s *sim) inTime(label, call string, ctx context.Context, begun time.Time) {
	end, limited := ctx.Deadline()
	if !limited {
		return
	}
	if late := min(time.Since(end), time.Since(begun)); late > 100*time.Millisecond {
		s.violated("%s: %s returned %v after its context had ended", label, call, late)
	}
}

// wasRefused reports whether a request of the client was refused by a fault.
func (s *sim) wasRefused(c *client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused[c.label]
}

// refusal reports whether the error is that of a request of the client which a fault refused.
func (s *sim) refusal(c *client, err error) bool { return s.wasRefused(c) && saysRefused(err) }

// refusalLocked is refusal; s.mu is held.
func (s *sim) refusalLocked(c *client, err error) bool { return s.refused[c.label] && saysRefused(err) }

// saysRefused reports whether the error has one of the codes of a refusal, or its meaning.
func saysRefused(err error) bool {
	return isOne(err, lock.ErrDenied, zk.ErrNoAuth) || err != nil && (strings.Contains(err.Error(), fmt.Sprint(codeQuota)) || strings.Contains(err.Error(), fmt.Sprint(codeThrottled)))
}

// granted checks the promises about a new hold, records it, and returns it with what later checks
// must know. A hold of data that the servers have lost is only counted.
func (s *sim) granted(label string, c *client, hold *lock.Hold, way way) held {
	name := hold.Name()
	h := held{hold, c, time.Now(), way, new(atomic.Bool), false, &hearing{asked: make(chan struct{})}}
	h.reads.Store(way.reads)
	ahead, anchor := s.inWay(h), s.anchor()
	valid := hold.Remaining() > 0
	if _, there := s.node(pathOf(hold)); !there {
		h.void = s.maybeVoid()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sayLocked("%s: has %s, token %v, for %v", label, name, hold.Token(), hold.Remaining())
	s.tally.count("grants", 1)
	if h.void {
		s.tally.count("holds of data that was lost", 1)
		return h
	}
	if name == foreign && s.forgotten.IsZero() {
		s.violatedLocked("%s has %s, which is no lock", label, name)
	}
	if way.reads {
		s.tally.count("holds for reading", 1)
	}
	if access.OfToken(hold.Token()).Pass > 0 {
		s.tally.count("passed on", 1)
	}
	if name == slots {
		s.roomBeside(label, h, anchor)
	} else {
		s.mayEnter(label, name, h)
	}
	if valid && ahead != "" {
		s.violatedLocked("%s has %s by %s, out of turn: ahead is %s", label, name, pathOf(hold), ahead)
	}
	s.noteToken(label, h)
	s.open[name] = append(s.open[name], h)
	s.listen(label, h)
	return h
}

// mayEnter checks that all earlier holders that cannot share the lock with h know that their holds
// have ended; s.mu is held.
func (s *sim) mayEnter(label, name string, h held) {
	for _, other := range s.open[name] {
		switch {
		case h.beside(other):
			s.tally.count("readers beside another", 1)
		case other.Remaining() > 0:
			s.violatedLocked("%s has %s while token %v is valid", label, name, other.Token())
		case other.Err() == nil && !other.client.clock.sleptWithin(s.toWake()):
			// A sleeping machine cannot be notified. After it wakes, the client has the time toWake
			// to end the hold's context.
			s.violatedLocked("%s has %s before the holder of token %v was told", label, name, other.Token())
		}
	}
}

// toWake returns the time after a machine's sleep within which the context of a lost hold must end.
func (s *sim) toWake() time.Duration {
	if s.counts {
		return 1100 * time.Millisecond
	}
	return s.ttl // longest doubt that a change of the wall clock causes
}

// check checks what must be true at any time: exclusion, the number of permits, and max_hold.
func (s *sim) check() {
	capacity := s.capacity()
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, holds := range s.open {
		var valid []lock.Token
		writes, permits := false, 0
		for _, h := range holds {
			if h.Remaining() == 0 {
				continue
			}
			valid = append(valid, h.Token())
			permits += h.way.weight()
			writes = writes || !h.reads.Load()
			most := s.Policy(name).MaxHold
			if lasted := time.Since(h.since); most > 0 && lasted > most+s.slack() && !h.client.clock.sleptWithin(lasted) {
				s.violatedLocked("%s is held by token %v for %v, longer than max_hold, %v", name, h.Token(), lasted, most)
			}
		}
		if name == slots {
			if permits > capacity {
				s.violatedLocked("%d permits of %s are held, and there are %d", permits, name, capacity)
			}
			continue
		}
		if len(valid) > 1 && writes {
			s.violatedLocked("%s is held by tokens %v at once", name, valid)
		}
	}
}

// notTaken checks the error of a call that did not get a lock.
func (s *sim) notTaken(label string, c *client, name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sayLocked("%s: no %s: %v", label, name, err)
	switch {
	case isOne(err, lock.ErrHeld, context.Canceled, context.DeadlineExceeded, lock.ErrClosed):
		s.tally.count("waits given up", 1)
	case errors.Is(err, lock.ErrForeign) && name == foreign:
		s.tally.count("foreign parents refused", 1)
	case errors.Is(err, lock.ErrForeign) && name == remade:
		s.tally.count("parents of strangers met", 1)
	case s.refusalLocked(c, err):
	default:
		s.violatedLocked("%s: lock %s: %v", label, name, err)
	}
}

// unlock unlocks a hold, and checks the result.
func (s *sim) unlock(label string, h held) {
	s.mu.Lock()
	overtaken := s.overtaken(h)
	s.mu.Unlock()
	s.unlocked(label, h, overtaken, h.Unlock())
}

func (s *sim) unlocked(label string, h held, overtaken bool, err error) {
	name := h.Name()
	s.warned(h, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sayLocked("%s: unlocks %s, token %v: %v", label, name, h.Token(), err)
	s.open[name] = slices.DeleteFunc(s.open[name], func(other held) bool { return other.Hold == h.Hold })
	if s.void(h) {
		return
	}
	s.brokenBy(label, h, err)
	var unconfirmed *lock.UnlockError
	switch {
	case err == nil:
		s.tally.count("unlocks", 1)
		if overtaken {
			s.violatedLocked("%s is told that it unlocked %s, but its token %v was followed by %v", label, name, h.Token(), s.last[name])
		}
	case isOne(err, lock.ErrTaken, lock.ErrRemoved) && !errors.As(err, &unconfirmed) && !errors.Is(err, lock.ErrAttached) && !s.mayBeBroken(h, err):
		s.violatedLocked("%s: no client does that here: %v", label, err)
	case errors.Is(err, lock.ErrMaxHold):
		s.tally.count("holds ended by max_hold", 1)
		fallthrough
	case errors.Is(err, lock.ErrLost):
		s.tally.count("holds lost", 1)
		if s.quiet() && !isOne(err, lock.ErrMaxHold, lock.ErrClosed) {
			s.violatedLocked("%s: nothing went wrong, and %v", label, err)
		}
	case errors.As(err, &unconfirmed), errors.Is(err, lock.ErrClosed):
		s.tally.count("unlocks not confirmed", 1)
		if s.quiet() && !errors.Is(err, lock.ErrClosed) {
			s.violatedLocked("%s: nothing went wrong, and %v", label, err)
		}
	default:
		s.violatedLocked("%s: unlock %s: %v", label, name, err)
	}
}

// leftBy returns a client's entries that exist and have not expired; a client may leave expired
// ones to other clients. It omits entries that were detached, or given up before the given time. If
// the client's requests were refused, it returns none.
func (s *sim) leftBy(c *client, before time.Time) (left []string) {
	nodes := s.Dump("/locks")
	if s.wasRefused(c) {
		return nil
	}
	for _, n := range nodes {
		if record, ok := recordOf(n); ok && record.Owner == c.owner && !record.Detached && !s.isLeft(n.Path, before) && time.Since(n.Written) <= time.Duration(record.TTL)*time.Millisecond+s.grace {
			left = append(left, n.Path)
		}
	}
	return left
}

// isLeft reports whether the entry was detached, or left to expire, before the given time.
func (s *sim) isLeft(path string, before time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, ok := s.leaving[path]
	return ok && since.Before(before)
}

// recordOf returns the record of a node; it reports false if the node is no entry or has no record.
func recordOf(n locktest.Node) (znode.Record, bool) {
	if _, ok := znode.Parse(n.Path[strings.LastIndexByte(n.Path, '/')+1:]); !ok {
		return znode.Record{}, false
	}
	record, err := znode.DecodeRecord(n.Data)
	return record, err == nil
}
