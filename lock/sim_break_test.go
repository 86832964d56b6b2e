// Simulation: entries that are force-released.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// breakOne breaks an entry of ours, whosever it is and whether it is held, waited with, kept or
// left to others. If it sees that through, the entry's owner knows.
func (p *process) breakOne(ctx context.Context, r *rand.Rand, label string, c *client) {
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
	p.broken[path] = append(p.broken[path], by.Reason)
	p.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, between(r, 0, 3*p.ttl))
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
	case !isOne(err, context.Canceled, context.DeadlineExceeded, errKilled, admin.ErrHandedOn, lock.ErrClosed, lock.ErrUnavailable) && !p.refused[c.label]:
		p.violatedLocked("%s: break %s: %v", label, path, err)
	}
}

// mayBeBroken reports whether a hold that is told to be overwritten may have been broken: its
// owner learnt that another client had written the entry, and could not read which. s.mu is held.
func (s *sim) mayBeBroken(h held, err error) bool {
	return errors.Is(err, lock.ErrTaken) && len(s.broken[pathOf(h.Hold)]) > 0
}

// brokenBy checks that a holder which is told that its hold was broken is told a reason that
// a client gave; s.mu is held.
func (s *sim) brokenBy(label string, h held, err error) {
	if !errors.Is(err, lock.ErrBroken) {
		return
	}
	s.tally.count("holds broken", 1)
	if !slices.ContainsFunc(s.broken[pathOf(h.Hold)], func(reason string) bool { return strings.Contains(err.Error(), reason) }) {
		s.violatedLocked("%s: %s is broken, and no client did it: %v", label, h.Name(), err)
	}
}
