// Elections: the answers of Observe and Leader.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// shown records what an observer of an election receives.
type shown struct {
	mu     sync.Mutex
	all    []lock.Candidate
	err    error
	done   chan struct{}
	cancel context.CancelFunc
}

// observe observes the election in the background, until stop or the end of the test.
func (w *world) observe(ctx context.Context, c *lock.Client) *shown {
	ctx, cancel := context.WithCancel(ctx)
	s := &shown{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(s.done)
		for l, err := range c.Election("x").Observe(ctx) {
			s.mu.Lock()
			if s.err = err; err == nil {
				s.all = append(s.all, l)
			}
			s.mu.Unlock()
		}
	}()
	w.Cleanup(func() { cancel(); <-s.done })
	settle()
	return s
}

// values returns the observed values, "-" for no leader.
func (s *shown) values() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var values []string
	for _, l := range s.all {
		if !l.Leads {
			l.Value = "-"
		}
		values = append(values, l.Value)
	}
	return values
}

// is checks the observed values.
func (s *shown) is(t testing.TB, want ...string) {
	t.Helper()
	settle()
	equalAll(t, "observed", s.values(), want)
}

// stop ends the observer, and checks its error.
func (s *shown) stop(t testing.TB, want error) {
	t.Helper()
	s.cancel()
	<-s.done
	mustBe(t, s.err, want)
}

// TestObserve: an observer sees each leader, the absence of a leader, and new values. It sees
// nothing twice, and no renewals.
func TestObserve(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, observer := w.dial("a"), w.dial("b"), w.dial("observer")
		seen := w.observe(w.ctx, observer)
		seen.is(t, "-")
		for i, c := range []*lock.Client{a, b, a} { // with and without a parent
			h := w.leads(w.campaign(w.ctx, c, fmt.Sprint(i)), fmt.Sprint(i))
			settle()
			w.ok(lock.LeadershipOf(h).Proclaim(w.ctx, fmt.Sprint(i, "+")))
			time.Sleep(2 * ttl)
			w.unlock(h)
			time.Sleep(time.Duration(i) * ttl)
		}
		seen.is(t, "-", "0", "0+", "-", "1", "1+", "-", "2", "2+", "-")
		tokens := map[lock.Token]bool{}
		for i, l := range seen.all {
			if tokens[l.Token] = true; i > 0 && l.Leads && l.Token.Compare(seen.all[max(0, i-2)].Token) < 0 {
				t.Errorf("tokens fall: %+v", seen.all)
			}
		}
		equal(t, "tokens", len(tokens), 4)
		seen.stop(t, context.Canceled)
		w.empty()
	})
}

// TestObserveWithoutCandidates: if a lock's parent exists and has no candidates, an observer sees
// that there is no leader, and then the first candidate at once.
func TestObserveWithoutCandidates(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, observer, z := w.dial("a"), w.dial("observer"), w.raw("other")
		w.create(z, "/locks", "", 0)
		w.create(z, "/locks/x", "", 0)
		seen := w.observe(w.ctx, observer)
		h := w.leads(w.campaign(w.ctx, a, "a"), "a")
		seen.is(t, "-", "a")
		w.unlock(h)
		seen.is(t, "-", "a", "-")
		h = w.leads(w.campaign(w.ctx, a, "b"), "b")
		seen.is(t, "-", "a", "-", "b")
		w.unlock(h)
		seen.stop(t, context.Canceled)
	})
}

// TestObserversEnd: an observer ends with its context, with its loop, and with its client. Close
// does not take longer because of an observer.
func TestObserversEnd(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial("a")
		for _, lead := range []bool{false, true} {
			if lead {
				w.leads(w.campaign(w.ctx, w.dial("b"), "b"), "b")
			}
			why := errors.New("bored")
			ctx, cancel := context.WithCancelCause(w.ctx)
			seen := w.observe(ctx, c)
			cancel(why)
			<-seen.done
			mustBe(t, seen.err, context.Canceled, why)
			for range c.Election("x").Observe(w.ctx) {
				break
			}
			atMost(t, "watches", c.Watches(), 2)
		}
		seen := w.observe(context.WithoutCancel(w.ctx), c)
		begun := time.Now()
		w.close(c)
		atMost(w, "Close took", time.Since(begun), time.Second)
		<-seen.done
		mustBe(t, seen.err, lock.ErrClosed)
		mustBe(t, second(c.Election("x").Leader(w.ctx)), lock.ErrClosed)
	})
}

// TestWatchesOfObservers: 20 observers and 20 leaders leave at most 64 watches, and each observer
// reads the leader's entry about once per renewal.
func TestWatchesOfObservers(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.dial("a"), w.dial("observer")
		for range 20 {
			w.observe(w.ctx, c)
		}
		for i := range 20 {
			h := w.leads(w.campaign(w.ctx, a, fmt.Sprint(i)), fmt.Sprint(i))
			w.unlock(h)
			settle()
		}
		atMost(w, "watches", c.Watches(), 64)
		h := w.leads(w.campaign(w.ctx, a, "last"), "last")
		settle()
		spent := w.cost("observer", func() { time.Sleep(10 * ttl) })
		reads := spent.requests["getData"]
		isTrue(t, reads >= 20*25 && reads <= 20*35 && spent.total() <= 20*36+20, "20 observers of 30 renewals asked for %v", spent.requests)
		w.unlock(h)
	})
}

// TestObserverOfDeadLeader: a dead leader is shown until its lease and the grace are over, and then
// no longer, although no client purges its entry.
func TestObserverOfDeadLeader(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.leads(w.campaign(w.ctx, w.dial("a"), "a"), "a")
		observer := w.dial("observer")
		seen := w.observe(w.ctx, observer)
		w.die("a", h.EntryPath())
		time.Sleep(ttl - time.Second)
		seen.is(t, "a")
		time.Sleep(2*time.Second + grace)
		seen.is(t, "a", "-")
		equal(t, "the leader that is shown", w.leader(observer), "")
		w.hasEntries("x", 1)
		w.Heal("a")
		seen.stop(t, context.Canceled)
	})
}

// TestObserverComesBack: a disconnected observer sees no change. After it has reconnected it sees
// the present leader.
func TestObserverComesBack(t *testing.T) {
	each(t, "expire", bools, func(w *world, expire bool) {
		a, b := w.dial("a"), w.dial("b")
		h := w.leads(w.campaign(w.ctx, a, "a"), "a")
		ch := w.campaign(w.ctx, b, "b")
		seen := w.observe(w.ctx, w.dial("observer"))
		_ = w.Partition("observer")
		if expire {
			w.ExpireLabel("observer")
		}
		w.unlock(h)
		h = w.leads(ch, "b")
		time.Sleep(3 * ttl)
		seen.is(w, "a")
		w.Heal("observer")
		time.Sleep(3 * time.Second)
		seen.is(w, "a", "b")
		w.unlock(h)
		seen.is(w, "a", "b", "-")
		w.empty()
	})
}

// TestLeaderByALaggingServer: if a client's server lags behind, Leader still returns the present
// leader. Observe shows each leader once, in order.
func TestLeaderByALaggingServer(t *testing.T) {
	simulate(t, locktest.Options{Members: 3}, func(w *world) {
		leader, behind := w.Leader(), w.followers()[0]
		a, b := w.dialAt("a", []string{leader}), w.dialAt("b", []string{leader})
		observer := w.dialAt("observer", []string{behind})
		h := w.leads(w.campaign(w.ctx, a, "a"), "a", observer)
		ch := w.campaign(w.ctx, b, "b")
		seen := w.observe(w.ctx, observer)
		w.ok(w.Lag(behind, 700*time.Millisecond))
		h = w.pass(h, ch)
		seen.is(t, "a")
		equal(t, "the leader that is shown", w.leader(observer), "b")
		w.unlock(h)
		equal(t, "the leader that is shown", w.leader(observer), "")
		time.Sleep(time.Second)
		seen.is(t, "a", "b", "-")
	})
}

// TestObserverLeavesNoParent: the parent is deleted after the last candidate has resigned, although
// this candidate's client still observes the election.
func TestObserverLeavesNoParent(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		w.observe(w.ctx, a)
		first, err := b.Election("x").Campaign(w.ctx, "b")
		w.ok(err)
		next := start(func() (*lock.Hold, error) { return holdOf(a.Election("x").Campaign(w.ctx, "a")) })
		w.waits(next)
		w.ok(first.Resign())
		time.Sleep(2 * time.Second) // until b has tried to delete the parent
		w.finish(w.await(next).hold)
	})
}
