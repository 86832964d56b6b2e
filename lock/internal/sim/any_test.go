// Any one of several locks.

package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// anyKey is the context key of an anyCall.
type anyKey struct{}

// anyCall is a call that takes any one of several locks, as an observer sees it.
type anyCall struct {
	mu    sync.Mutex
	waits map[any]string // locks that it waits for, by request
	holds map[any]int    // grants that have not ended, by request
	most  int            // most locks that it held at once
}

// observe records an event of one of the call's requests.
func (a *anyCall) observe(request any, e lock.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch e.Kind {
	case lock.EventWaiting:
		a.waits[request] = e.Lock
	case lock.EventWithdrawn:
		delete(a.waits, request)
	case lock.EventAcquired:
		delete(a.waits, request)
		a.holds[request]++
		held := 0
		for _, n := range a.holds {
			held += n
		}
		a.most = max(a.most, held)
	case lock.EventReleased, lock.EventLost:
		a.holds[request]--
	}
}

// left describes the waits and the holds that the call still has, apart from the hold of the
// request got.
func (a *anyCall) left(got any) (left []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for request, n := range a.holds {
		if n > 0 && request != got {
			left = append(left, fmt.Sprintf("%d holds", n))
		}
	}
	for _, name := range a.waits {
		left = append(left, "a wait for "+name)
	}
	return left
}

// takeAny takes any one of two or three locks.
func (p *process) takeAny(ctx context.Context, _ *rand.Rand, one step, label string) (held, error) {
	c, names := p.caller(one), one.list("lock")
	call := &anyCall{waits: map[any]string{}, holds: map[any]int{}}
	p.say("%s: wants any of %q", label, names)
	watched := p.watchFree(label, c, names)
	any := c.Any(names)
	got, over, err := takeSome(context.WithValue(ctx, anyKey{}, call), p, one, label, any.Lock, any.TryLock)
	watched()
	if err != nil {
		p.nothingElse(label, call, nil, over)
		about := names[0]
		for _, name := range []string{foreign, remade} {
			if slices.Contains(names, name) && errors.Is(err, lock.ErrForeign) {
				about = name
			}
		}
		p.notTaken(label, c, about, err)
		return held{}, err
	}
	p.nothingElse(label, call, got, over)
	p.count("any one taken")
	if !slices.Contains(names, got.Name()) {
		p.violated("%s wanted any of %q, and has %s", label, names, got.Name())
	}
	m := c.Mutex(got.Name())
	return p.granted(label, c, got, way{lock: m.Lock, try: m.TryLock}), nil
}

// nothingElse checks, a little later, that a call that has returned left no other hold and no wait.
// Under faults a second grant may stay until its entry expires, so nothing is checked. Then
// nothingElse ends the call's context.
func (p *process) nothingElse(label string, call *anyCall, got *lock.Hold, over func()) {
	var request any
	if got != nil {
		request = requestOf(got.Context(), got.Name())
	}
	p.wg.Go(func() {
		defer over()
		time.Sleep(p.slack())
		if left := call.left(request); len(left) > 0 && p.quiet() {
			p.violated("%s: a call for any of several locks returned, and there are left %q", label, left)
		}
		if call.most > 1 {
			p.count("second grants given back")
		}
	})
}

// watchFree checks, until stop is called, that none of the locks stays free while the client waits
// for any of them. Under faults it checks nothing, because a client may not know that a lock is
// free.
func (p *process) watchFree(label string, c *client, names []string) (stop func()) {
	ctx, stop := context.WithCancel(p.served)
	if !p.quiet() {
		return stop
	}
	p.wg.Go(func() {
		since := map[string]time.Time{}
		for {
			select {
			case <-time.After(p.slack() / 10):
			case <-ctx.Done():
				return
			}
			for _, name := range names {
				if !p.free(c, name) {
					since[name] = time.Now()
				} else if first, ok := since[name]; !ok {
					since[name] = time.Now()
				} else if time.Since(first) > 2*p.slack() {
					p.violated("%s waits for any of %q, and %s has been free for %v", label, names, name, time.Since(first))
				}
			}
		}
	})
	return stop
}

// free reports whether the client could hold the lock now: there is no hold, and no entry except
// one of the client itself.
func (s *sim) free(c *client, name string) bool {
	s.mu.Lock()
	held := len(s.open[name]) > 0
	s.mu.Unlock()
	ours, others := 0, 0
	for _, n := range s.Dump("/locks/" + name) {
		record, ok := recordOf(n)
		switch {
		case !isContender(n.Path[strings.LastIndexByte(n.Path, '/')+1:]):
		case ok && record.Owner == c.owner && !record.Detached:
			ours++
		default:
			others++
		}
	}
	return !held && ours <= 1 && others == 0
}
