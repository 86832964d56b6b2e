// Revoke, and force-releases.

package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// asking is a call of Revoke, identified by its reason.
type asking struct {
	name  string
	held  []held // holds valid at the call's start; after its end, only those still valid
	told  []held
	over  bool
	begun time.Time
	ended time.Time // zero: not yet
	label string    // label of the asking client
}

// hearing is what a holder receives from Revoked.
type hearing struct {
	listens bool
	asked   chan struct{} // closed when the hold gets its first request
	told    []string      // the reasons; guarded by the history
}

// listen makes half of the holders call Revoked and receive requests until their holds end.
func (s *sim) listen(label string, h held) {
	if h.listens = oneIn(s.random(fmt.Sprint("does ", label, h.Token(), " listen")), 2); !h.listens {
		return
	}
	go func() {
		revoked := h.Revoked()
		for {
			select {
			case r := <-revoked:
				s.told(label, h, r)
			case <-h.Context().Done():
				return
			}
		}
	}()
}

// told records a request that a holder received, and checks that a client has made it.
func (s *sim) told(label string, h held, r lock.Revocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sayLocked("%s: is asked for %s, token %v: %q by %s", label, h.Name(), h.Token(), r.Reason, r.Owner)
	s.tally.count("revocations told", 1)
	a := s.askings[r.Reason]
	if a == nil || a.name != h.Name() || a.label != r.Owner {
		s.violatedLocked("%s: is asked for %s by what was never asked: %+v", label, h.Name(), r)
		return
	}
	if len(h.told) == 0 {
		close(h.asked)
	}
	h.told = append(h.told, r.Reason)
	a.told = append(a.told, h)
	s.checkAsked(a)
}

// checkAsked checks that a request reached no other entry if one client held the lock all the time
// while the request was made; s.mu is held.
func (s *sim) checkAsked(a *asking) {
	if !a.over || len(a.held) == 0 || a.name == pages || a.name == slots {
		return
	}
	for _, h := range a.told {
		if pathOf(h.Hold) != pathOf(a.held[0].Hold) { // the same path: handed off locally
			s.violatedLocked("%s is asked for while token %v has it, and token %v is told", a.name, a.held[0].Token(), h.Token())
		}
	}
}

// stillValid returns the valid holds; s.mu is held.
func stillValid(holds []held) []held {
	return slices.DeleteFunc(slices.Clone(holds), func(h held) bool { return h.Remaining() == 0 })
}

// revoke requests the release of a lock. Without faults, it checks that the request reaches all
// holders that hold the lock all the time and listen.
func (p *process) revoke(ctx context.Context, r *rand.Rand, one step, label string) {
	c, name := p.caller(one), one.text("lock")
	reason := fmt.Sprintf("%s %016x", name, r.Uint64())
	limited, cancel := p.within(ctx, label, one)
	defer cancel()
	p.mu.Lock()
	a := &asking{name: name, held: stillValid(p.open[name]), begun: time.Now(), label: c.owner}
	p.askings[reason] = a
	p.mu.Unlock()
	err := c.Revoke(limited, name, reason)
	p.inTime(label, "Revoke", limited, a.begun)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sayLocked("%s: asks for %s, %q: %v", label, name, reason, err)
	p.tally.count("revocations", 1)
	a.over, a.ended, a.held = true, time.Now(), stillValid(a.held)
	p.checkAsked(a)
	switch {
	case err == nil && p.quiet():
		p.wg.Go(func() {
			time.Sleep(p.slack())
			p.allTold(a, reason)
		})
	case errors.Is(err, lock.ErrNotHeld) && len(a.held) > 0:
		p.violatedLocked("%s: %s has been held by token %v, but: %v", label, name, a.held[0].Token(), err)
	case err != nil && limited.Err() == nil && !isOne(err, lock.ErrNotHeld, lock.ErrForeign, lock.ErrUnavailable, lock.ErrClosed) && !p.refusalLocked(c, err):
		p.violatedLocked("%s: revoke %s: %v", label, name, err)
	}
}

// allTold checks that the request reached all holders that held the lock before, still hold it, and
// listen. A request that a later one may have replaced need not reach them.
func (s *sim) allTold(a *asking, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range stillValid(a.held) {
		replaced := slices.ContainsFunc(h.told, func(other string) bool {
			return other != reason && !s.askings[other].ended.Before(a.begun)
		})
		for other, b := range s.askings {
			replaced = replaced || other != reason && b.name == a.name && b.ended.IsZero()
		}
		if h.listens && !replaced && !slices.Contains(h.told, reason) {
			s.violatedLocked("%s: token %v was not told of %q", a.name, h.Token(), reason)
		}
	}
}

// sweepInbox revokes a free lock until all stale requests are deleted. Requests become stale if
// holders did not listen, or if their clients closed.
func (s *sim) sweepInbox() {
	c := s.client("last", "last", s.clock("last"))
	for tries := 0; len(s.requests()) > 0 && tries < 1000; tries++ {
		if err := c.Revoke(s.Context(), "free", ""); !errors.Is(err, lock.ErrNotHeld) {
			s.violated("revoke a free lock: %v", err)
		}
		time.Sleep(s.slack())
	}
	s.closeClient(c)
}

// requests returns the paths of the request nodes.
func (s *sim) requests() (all []string) {
	for _, n := range s.Dump(inbox) {
		if strings.HasPrefix(n.Path, inbox+"/") {
			all = append(all, n.Path)
		}
	}
	return all
}

// breakOne force-releases an entry of Holdfast, whether it is held, waiting or detached. If
// the force-release completes, the holder of the entry must know of it.
func (p *process) breakOne(ctx context.Context, r *rand.Rand, one step, label string) {
	c := p.caller(one)
	entries := slices.DeleteFunc(p.Dump("/locks"), func(n locktest.Node) bool {
		_, ours := recordOf(n)
		return !ours
	})
	if len(entries) == 0 {
		return
	}
	path := entries[r.IntN(len(entries))].Path
	name := strings.TrimPrefix(path[:strings.LastIndexByte(path, '/')], "/locks/")
	by := znode.Broken{Owner: c.owner, Host: "h", PID: 1, Reason: fmt.Sprintf("%016x", r.Uint64())}
	p.mu.Lock()
	p.forced[path] = append(p.forced[path], by.Reason)
	p.mu.Unlock()
	limited, cancel := p.within(ctx, label, one)
	defer cancel()
	begun := time.Now()
	b, err := admin.New(c.Client).Break(limited, path, by)
	if err == nil {
		p.count("breaks")
		err = b.Wait(limited, p.Policy(name))
	}
	p.inTime(label, "Break", limited, begun)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sayLocked("%s: breaks %s, %q: %v", label, path, by.Reason, err)
	switch {
	case err == nil:
		for _, h := range p.open[name] {
			if pathOf(h.Hold) == path && h.Err() == nil && !h.client.clock.sleptWithin(p.toWake()) {
				p.violatedLocked("%s is broken and gone, and token %v was not told", path, h.Token())
			}
		}
	case errors.Is(err, lock.ErrExhausted) && atTheEnd(path):
	case !isOne(err, context.Canceled, context.DeadlineExceeded, errKilled, admin.ErrHandedOn, lock.ErrClosed, lock.ErrUnavailable) && !p.refusalLocked(c, err):
		p.violatedLocked("%s: break %s: %v", label, path, err)
	}
}

// atTheEnd reports whether the entry was created at the end of its lock's counter.
func atTheEnd(entry string) bool {
	name, _ := znode.Parse(path.Base(entry))
	return name.Overflowed()
}

// mayBeBroken reports whether a hold with the error err may have been force-released: its owner
// learned that another client had written the entry, and could not read it. s.mu is held.
func (s *sim) mayBeBroken(h held, err error) bool {
	return errors.Is(err, lock.ErrTaken) && len(s.forced[pathOf(h.Hold)]) > 0
}

// brokenBy checks that the reason in the holder's error is one that a client gave; s.mu is held.
func (s *sim) brokenBy(label string, h held, err error) {
	if !errors.Is(err, lock.ErrBroken) {
		return
	}
	s.tally.count("holds broken", 1)
	if !slices.ContainsFunc(s.forced[pathOf(h.Hold)], func(reason string) bool { return strings.Contains(err.Error(), reason) }) {
		s.violatedLocked("%s: %s is broken, and no client did it: %v", label, h.Name(), err)
	}
}
