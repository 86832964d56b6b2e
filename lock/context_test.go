// A call ends when its context ends or its client closes, whatever the state of the server and whatever the
// cause. A call with an ended context fails.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// outage is a way in which the client's server becomes unavailable.
type outage struct {
	name  string
	begin func(w *world, astray *atomic.Bool)
	says  string // what the bad peer answers
}

func outages() []outage {
	all := []outage{
		{name: "nothing comes back", begin: func(w *world, _ *atomic.Bool) { w.Partition("a") }},
		{name: "the connection is lost", begin: func(w *world, _ *atomic.Bool) {
			w.Partition("a")
			time.Sleep(sessionTimeout) // until the client notices
		}},
	}
	for _, peer := range badPeers {
		all = append(all, outage{"the server " + peer.name, func(w *world, astray *atomic.Bool) {
			astray.Store(true)
			w.Cut("a")
			time.Sleep(time.Second) // until the client has reached it
		}, peer.says})
	}
	return all
}

// TestCallsEndWithTheirContexts: each of patientCalls ends with its context, whatever the state of
// the server, and an Extend succeeds within a TTL when the server is back. Most bad peers are tested with two calls only, because a bad peer affects only the
// connection.
func TestCallsEndWithTheirContexts(t *testing.T) {
	for i, out := range outages() {
		for what, call := range patientCalls {
			if i > 2 && what != "Lock" && what != "Extend" {
				continue
			}
			subtest(t, out.name+"/"+what, locktest.Options{}, func(w *world) {
				p, astray := &impostor{says: out.says}, new(atomic.Bool)
				a := w.dial("a", w.detour("a", p, astray.Load))
				h := w.lock(a, "x", lock.WithTTL(10*ttl))
				ticket := left(w, a)
				heal := func() {
					astray.Store(false)
					p.hangUp()
					w.Heal("a")
				}
				out.begin(w, astray)

				const patience = 500 * time.Millisecond
				within(w, patience+soonAfter, what, func() {
					mustBe(w, call(w.limited(patience), a, h, ticket), context.DeadlineExceeded)
				}, heal)
				heal()
				if what == "Lock" { // the client is well again
					w.ok(h.Extend(w.limited(ttl), 5*ttl))
				}
			})
		}
	}
}

// left detaches a hold of the lock "left", and returns its ticket.
func left(w *world, c *lock.Client) lock.Ticket {
	w.Helper()
	return w.detach(w.lock(c, "left", lock.WithTTL(10*ttl)), 10*ttl)
}

// treeCalls are the calls of package admin's Tree, by name. Their errors do not match a context's cause.
var treeCalls = map[string]func(context.Context, admin.Tree) error{
	"Get":      func(ctx context.Context, tree admin.Tree) error { return third(tree.Get(ctx, "/locks")) },
	"Children": func(ctx context.Context, tree admin.Tree) error { return third(tree.Children(ctx, "/locks")) },
	"Delete": func(ctx context.Context, tree admin.Tree) error {
		return tree.Delete(ctx, []admin.Deletion{{Path: "/locks/none"}})
	},
	"Now":     func(ctx context.Context, tree admin.Tree) error { return second(tree.Now(ctx)) },
	"Prove":   func(ctx context.Context, tree admin.Tree) error { return second(tree.Prove(ctx, tree.Estimate(), 1)) },
	"Inspect": func(ctx context.Context, tree admin.Tree) error { return second(tree.Inspect(ctx, "x")) },
	"Purge":   func(ctx context.Context, tree admin.Tree) error { return second(tree.Purge(ctx, "/locks/x", terms)) },
	"Carries": func(ctx context.Context, tree admin.Tree) error { return tree.Carries(ctx, 1) },
}

// withTree adds treeCalls to the calls.
func withTree(calls map[string]call) map[string]call {
	for what, ask := range treeCalls {
		calls[what] = on(func(ctx context.Context, c *lock.Client) error { return ask(ctx, admin.New(c)) })
	}
	return calls
}

// patientCalls are calls with a context, by name. The client holds "x" with the hold h, and has a
// ticket.
var patientCalls = withTree(map[string]call{
	"Lock":                  on(func(ctx context.Context, c *lock.Client) error { return second(c.Mutex("y").Lock(ctx)) }),
	"Lock of a held one":    on(func(ctx context.Context, c *lock.Client) error { return second(c.Mutex("x").Lock(ctx)) }),
	"Lock of a nested one":  on(func(ctx context.Context, c *lock.Client) error { return second(c.Mutex("a/b/c").Lock(ctx)) }),
	"TryLock":               on(func(ctx context.Context, c *lock.Client) error { return second(c.Mutex("y").TryLock(ctx)) }),
	"TryLock of a held one": on(func(ctx context.Context, c *lock.Client) error { return second(c.Mutex("x").TryLock(ctx)) }),
	"Lock, barging": on(func(ctx context.Context, c *lock.Client) error {
		return second(c.Mutex("y").WithBarging().Lock(ctx))
	}),
	"Do":              on(func(ctx context.Context, c *lock.Client) error { return c.Mutex("y").Do(ctx, unreachable) }),
	"TryDo":           on(func(ctx context.Context, c *lock.Client) error { return second(c.Mutex("y").TryDo(ctx, unreachable)) }),
	"RWMutex.Lock":    on(func(ctx context.Context, c *lock.Client) error { return second(c.RWMutex("y").Lock(ctx)) }),
	"RWMutex.TryLock": on(func(ctx context.Context, c *lock.Client) error { return second(c.RWMutex("y").TryLock(ctx)) }),
	"RWMutex.Do":      on(func(ctx context.Context, c *lock.Client) error { return c.RWMutex("y").Do(ctx, unreachable) }),
	"RWMutex.TryDo":   on(func(ctx context.Context, c *lock.Client) error { return second(c.RWMutex("y").TryDo(ctx, unreachable)) }),
	"TryRDo": on(func(ctx context.Context, c *lock.Client) error {
		return second(c.RWMutex("y").TryRDo(ctx, unreachable))
	}),
	"Semaphore.TryDo": on(func(ctx context.Context, c *lock.Client) error {
		return second(c.Semaphore("y", 3).TryDo(ctx, 2, unreachable))
	}),
	"All.Do": on(func(ctx context.Context, c *lock.Client) error { return c.All([]string{"y", "z"}).Do(ctx, unreachable) }),
	"All.TryDo": on(func(ctx context.Context, c *lock.Client) error {
		return second(c.All([]string{"y", "z"}).TryDo(ctx, unreachable))
	}),
	"All.TryLock":              on(func(ctx context.Context, c *lock.Client) error { return second(c.All([]string{"y", "z"}).TryLock(ctx)) }),
	"RLock":                    on(func(ctx context.Context, c *lock.Client) error { return second(c.RWMutex("y").RLock(ctx)) }),
	"TryRLock":                 on(func(ctx context.Context, c *lock.Client) error { return second(c.RWMutex("y").TryRLock(ctx)) }),
	"RDo":                      on(func(ctx context.Context, c *lock.Client) error { return c.RWMutex("y").RDo(ctx, unreachable) }),
	"Acquire":                  on(func(ctx context.Context, c *lock.Client) error { return second(c.Semaphore("y", 3).Acquire(ctx, 2)) }),
	"TryAcquire":               on(func(ctx context.Context, c *lock.Client) error { return second(c.Semaphore("y", 3).TryAcquire(ctx, 2)) }),
	"Semaphore.Do":             on(func(ctx context.Context, c *lock.Client) error { return c.Semaphore("y", 3).Do(ctx, 2, unreachable) }),
	"Resize":                   on(func(ctx context.Context, c *lock.Client) error { return c.Semaphore("y", 3).Resize(ctx, 4) }),
	"All.Lock":                 on(func(ctx context.Context, c *lock.Client) error { return second(c.All([]string{"y", "z"}).Lock(ctx)) }),
	"All.Lock with a held one": on(func(ctx context.Context, c *lock.Client) error { return second(c.All([]string{"x", "z"}).Lock(ctx)) }),
	"Any.Lock":                 on(func(ctx context.Context, c *lock.Client) error { return second(c.Any([]string{"y", "z"}).Lock(ctx)) }),
	"Any.TryLock":              on(func(ctx context.Context, c *lock.Client) error { return second(c.Any([]string{"y", "z"}).TryLock(ctx)) }),
	"Campaign":                 on(func(ctx context.Context, c *lock.Client) error { return second(c.Election("y").Campaign(ctx, "me")) }),
	"TryCampaign":              on(func(ctx context.Context, c *lock.Client) error { return second(c.Election("y").TryCampaign(ctx, "me")) }),
	"Election.Do":              on(func(ctx context.Context, c *lock.Client) error { return c.Election("y").Do(ctx, "me", unreachable) }),
	"Leader":                   on(func(ctx context.Context, c *lock.Client) error { return second(c.Election("y").Leader(ctx)) }),
	"Candidates":               on(func(ctx context.Context, c *lock.Client) error { return second(c.Election("y").Candidates(ctx)) }),
	"Revoke":                   on(func(ctx context.Context, c *lock.Client) error { return c.Revoke(ctx, "x", "test") }),
	"Extend": func(ctx context.Context, _ *lock.Client, h *lock.Hold, _ lock.Ticket) error {
		return h.Extend(ctx, ttl/2)
	},
	"Txn": func(ctx context.Context, _ *lock.Client, h *lock.Hold, _ lock.Ticket) error {
		return h.Txn(ctx, lock.OpCreate("/data", nil, 0, zk.WorldACL(zk.PermAll)))
	},
	"Detach": func(ctx context.Context, _ *lock.Client, h *lock.Hold, _ lock.Ticket) error {
		return second(h.Detach(ctx, ttl))
	},
	"Attach": func(ctx context.Context, c *lock.Client, _ *lock.Hold, ticket lock.Ticket) error {
		return second(c.Attach(ctx, ticket))
	},
	"Break": func(ctx context.Context, c *lock.Client, h *lock.Hold, _ lock.Ticket) error {
		return second(admin.New(c).Break(ctx, h.EntryPath(), znode.Broken{Owner: "test"}))
	},
	"Observe": func(ctx context.Context, c *lock.Client, _ *lock.Hold, _ lock.Ticket) (err error) {
		for _, why := range c.Election("y").Observe(ctx) {
			err = why
		}
		return err
	},
})

func third[A, B any](_ A, _ B, err error) error { return err }

// on returns a call that calls ask with the client. ask needs no hold and no ticket.
func on(ask func(context.Context, *lock.Client) error) call {
	return func(ctx context.Context, c *lock.Client, _ *lock.Hold, _ lock.Ticket) error { return ask(ctx, c) }
}

type call func(context.Context, *lock.Client, *lock.Hold, lock.Ticket) error

func unreachable(context.Context) error { panic("called without the lock") }

// soonAfter is the time limit of a call after the end of its context.
const soonAfter = 100 * time.Millisecond

// TestEndedContext: a call with an ended context fails, even a reentry, which needs no request. The
// error has the context's cause, and the server gets no request. A call with no context is ErrInvalid.
func TestEndedContext(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		rw := a.RWMutex("rw")
		held, reads, writes := w.lock(a, "x"), w.take(rw.RLock), w.take(a.RWMutex("w").Lock)
		all := w.lockAll(a, "1", "2")
		leads, err := a.Election("e").Campaign(w.ctx, "x")
		w.ok(err)
		attach := w.detach(w.lock(a, "queued"), time.Minute)
		cause := errors.New("no patience")
		// The context has the values of all holds, so that each lock would be reentered.
		ctx := context.WithoutCancel(held.Context())
		for _, h := range []context.Context{reads.Context(), writes.Context(), all.Context()} {
			ctx = both{ctx, h}
		}
		ctx, cancel := context.WithCancelCause(ctx)
		cancel(cause)
		settle()
		requests := w.Requests()["a"].Total()
		var none context.Context
		for what, call := range patientCalls {
			err := call(none, a, held, attach)
			isTrue(w, errors.Is(err, lock.ErrInvalid) && strings.Contains(fmt.Sprint(err), "context"), "%s without a context: %v", what, err)
		}
		errs := map[string]error{
			"Dial":                  second(lock.Dial(ctx, w.Servers(), w.options("b")...)),
			"Do again":              a.Mutex("x").Do(ctx, unreachable),
			"TryDo again":           second(a.Mutex("x").TryDo(ctx, unreachable)),
			"Barge again":           second(a.Mutex("x").WithBarging().Lock(ctx)),
			"RLock again":           second(rw.RLock(ctx)),
			"TryRLock again":        second(rw.TryRLock(ctx)),
			"RDo again":             rw.RDo(ctx, unreachable),
			"RWMutex.Lock again":    second(a.RWMutex("w").Lock(ctx)),
			"RWMutex.TryLock again": second(a.RWMutex("w").TryLock(ctx)),
			"All.Lock again":        second(a.All([]string{"1", "2"}).Lock(ctx)),
			"All.TryLock again":     second(a.All([]string{"1", "2"}).TryLock(ctx)),
			"All.Do again":          a.All([]string{"1", "2"}).Do(ctx, unreachable),
			"Leader, of one":        second(a.Election("e").Leader(ctx)),
			"Proclaim":              leads.Proclaim(ctx, "y"),
			"Downgrade":             a.RWMutex("w").Downgrade(ctx, writes),
			"Downgrade of a reader": rw.Downgrade(ctx, reads),
		}
		// Errors of package admin may also be ErrUnavailable, because its calls have not waited for
		// a session.
		for what, call := range patientCalls {
			errs[what] = call(ctx, a, held, attach)
		}
		for what, err := range errs {
			mustBe(t, err, context.Canceled)
			isTrue(t, errors.Is(err, cause) != ofTree(what), "%s: %v; whether it matches the cause", what, err)
			isTrue(t, ofTree(what) || !errors.Is(err, lock.ErrUnavailable), "%s: %v", what, err)
		}
		settle()
		atMost(t, "requests", w.Requests()["a"].Total()-requests, 0)
		for c, err := range a.Election("e").Observe(ctx) {
			isTrue(t, errors.Is(err, context.Canceled) && c == (lock.Candidate{}), "Observe: %+v, %v", c, err)
		}
		isTrue(t, held.Err() == nil && leads.Remaining() != 0 && !a.RWMutex("w").Reads(writes), "%v, leads %v, reads %v", held.Err(), leads.Remaining() > 0, a.RWMutex("w").Reads(writes))
	})
}

// both has the values of two contexts.
type both struct {
	context.Context
	other context.Context
}

func (b both) Value(key any) any {
	if v := b.Context.Value(key); v != nil {
		return v
	}
	return b.other.Value(key)
}

// TestCallEndedByClose: a call that runs while the client closes returns ErrClosed and not
// context.Canceled, whether its context can be canceled or not.
func TestCallEndedByClose(t *testing.T) {
	eachPair(t, "outage can", bools, bools, func(w *world, outage, can bool) {
		ctx := context.Background()
		if can {
			ctx = w.ctx
		}
		a, err := lock.Dial(w.ctx, w.Servers(), w.options("a", lock.WithUnlockTimeout(3*time.Second))...)
		w.ok(err)
		h := w.lock(a, "x", lock.WithTTL(10*ttl))
		ticket := left(w, a)
		calls := maps.Clone(patientCalls)
		delete(calls, "Detach") // it ends the hold
		calls["barge"] = on(func(ctx context.Context, c *lock.Client) error { return second(c.Mutex("x").WithBarging().Lock(ctx)) })
		if outage {
			w.ok(w.Partition("a"))
		} else { // those that wait for other contenders
			maps.DeleteFunc(calls, func(what string, _ call) bool {
				return !slices.Contains([]string{"barge", "Observe", "Lock of a held one", "All.Lock with a held one"}, what)
			})
		}
		ended := map[string]<-chan error{}
		for what, ask := range calls {
			ended[what] = async(func() error { return ask(ctx, a, h, ticket) })
		}
		time.Sleep(time.Second)
		equal(w, "whether Close leaves entries", a.Close() != nil, outage)
		for what, ch := range ended {
			err := <-ch
			isTrue(w, errors.Is(err, lock.ErrClosed) && !errors.Is(err, context.Canceled), "outage %v, %s: %v", outage, what, err)
		}
		w.Heal("a")
	})
}

// duringClose are the calls that run while the client closes: one for each path of requests, and
// Unlock.
var duringClose = []string{
	"Lock", "Lock of a nested one", "Lock of a held one", "Lock of another's", "TryLock", "TryLock of another's", "Extend", "Unlock",
	"Get", "Children", "Delete", "Now", "Prove", "Inspect", "Inspect of another's",
}

// TestNothingIsDeniedAfterClose: a call to a client that is closed, or that closes at one of the call's first
// six requests, fails for that reason. Neither its error nor the log reports a refusal by an ACL. The same holds
// on a connection that its owner has closed.
func TestNothingIsDeniedAfterClose(t *testing.T) {
	calls := maps.Clone(patientCalls)
	calls["Lock of another's"] = on(func(ctx context.Context, c *lock.Client) error { return second(c.Mutex("busy").Lock(ctx)) })
	calls["TryLock of another's"] = on(func(ctx context.Context, c *lock.Client) error { return second(c.Mutex("busy").TryLock(ctx)) })
	calls["Inspect of another's"] = on(func(ctx context.Context, c *lock.Client) error { return second(admin.New(c).Inspect(ctx, "busy")) })
	calls["Unlock"] = func(_ context.Context, _ *lock.Client, h *lock.Hold, _ lock.Ticket) error { return h.Unlock() }
	for what, ask := range calls {
		each(t, what+", borrowed", bools, func(w *world, borrowed bool) {
			w.lock(w.dial("b"), "busy")
			made := 0 // requests of the call at which the client has closed
			for number := range 7 {
				seen, err := w.closed(number, borrowed, ask)
				if errors.Is(err, lock.ErrDenied) || err != nil && strings.Contains(err.Error(), "denied") {
					w.Errorf("closed at request %d: %v", number, err)
				}
				isTrue(w, number != 0 || err != nil, "of a client that is closed: no error")
				if number > seen || number == 0 && !slices.Contains(duringClose, what) {
					break
				}
				made = number
			}
			isTrue(w, made > 0 || !slices.Contains(duringClose, what), "no request came: the test does not show what it means to")
			for line := range strings.Lines(w.logged()) {
				isTrue(w, !strings.Contains(line, "denied") && !strings.Contains(line, "ACL"), "logged %s", line)
			}
		})
	}
}

// closed returns the error of a call during which the client, or its borrowed connection, closes, and how
// many requests were seen. That happens at the call's request with the given number, or before the call if
// number is 0.
func (w *world) closed(number int, borrowed bool, ask call) (seen int, err error) {
	w.Helper()
	var c *lock.Client
	end := func() { c.Close() }
	if borrowed {
		z := w.raw("a")
		c, err = lock.New(z, w.options("a", usual)[1:]...) // not the dialer
		end = z.Close
	} else {
		c, err = lock.Dial(w.ctx, w.Servers(), w.options("a", usual)...)
	}
	w.ok(err)
	defer c.Close()
	h, ticket := w.lock(c, "x"), left(w, c)
	var closing sync.WaitGroup
	if number == 0 {
		end()
	}
	w.Intercept(func(r locktest.Request) locktest.Fault {
		if r.Label != "a" {
			return locktest.Fault{}
		}
		if seen++; seen != number {
			return locktest.Fault{}
		}
		closing.Go(end)
		return locktest.Fault{Delay: 10 * time.Millisecond}
	})
	err = ask(w.limited(3*time.Second), c, h, ticket)
	w.Intercept(nil)
	closing.Wait() // two that close a client at once would stop virtual time
	return seen, err
}

// causes returns errors of other calls, which callers set as causes of their contexts.
func (w *world) causes() map[string]error {
	b, held := w.dial("b"), w.lock(w.dial("c"), "causes/held")
	closed, err := lock.Dial(w.ctx, w.Servers(), w.options("d")...)
	w.ok(err)
	w.ok(closed.Close())
	w.fault(func(r locktest.Request) bool {
		return r.Label == "b" && r.Op == "multi" && touches(r, "/locks/deep") && len(r.Paths) == 2
	}, locktest.Fault{Code: codeQuota, Op: 2}) // the server refuses the transaction at its second operation
	all := map[string]error{
		"refused": second(b.Mutex("deep/y").Lock(w.ctx)), "closed": second(closed.Mutex("y").Lock(w.ctx)),
		"held": second(b.Mutex("causes/held").TryLock(w.ctx)),
	}
	mustBeTrue(w, all["refused"] != nil, "no error")
	mustBe(w, all["held"], lock.ErrHeld)
	mustBe(w, all["closed"], lock.ErrClosed)
	w.unlock(held)
	w.kill("b")
	w.Cut("b")
	settle()
	all["unlocked"], all["unavailable"] = held.Err(), second(b.Election("e").Leader(w.limited(time.Second)))
	mustBe(w, all["unavailable"], lock.ErrUnavailable)
	w.Heal("b")
	for _, err := range []error{
		zk.ErrNoNode, zk.ErrBadVersion, zk.ErrNoAuth, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrConnectionClosed, zk.ErrSessionExpired,
		lock.ErrDenied, lock.ErrForeign, lock.ErrNoLeader, lock.ErrNotHeld, lock.ErrInDoubt,
		&lock.LostError{Lock: "z", Why: lock.ErrExpired}, &lock.LostError{Lock: "z", Why: lock.ErrRemoved}, &lock.LostError{Lock: "z", Why: lock.ErrAttached},
		&lock.LostError{Lock: "z", Why: lock.ErrBroken},
		&lock.UnlockError{Lock: "z", Err: lock.ErrInDoubt}, &lock.TxnError{Lock: "z", Index: 9, Err: zk.ErrNoNode},
	} {
		all[err.Error()] = fmt.Errorf("another function: %w", err)
	}
	var joined []error
	for _, err := range all {
		joined = append(joined, err)
	}
	all["all"] = errors.Join(joined...)
	return all
}

// known replaces what differs from run to run.
var known = regexp.MustCompile(`[0-9a-f]{8,}|[0-9]+(\.[0-9]+)?`)

// alone are calls that TestCausesDecideNothing makes with each cause.
var alone = map[string]bool{"Txn": true, "Detach": true, "Revoke": true, "Leader": true, "Candidates": true, "Break": true, "Lock": true, "Attach": true, "Get": true}

// ofTree reports whether the call is one of package admin's Tree.
func ofTree(what string) bool { return treeCalls[what] != nil || what == "Break" }

// TestCausesDecideNothing: a context ends a call whose request is in flight, the first one up to the
// fifth. Whatever its cause is, the error differs only in the cause, which it matches unless the call is
// one of ofTree; and the same nodes and holds are left.
func TestCausesDecideNothing(t *testing.T) {
	const trip = 100 * time.Millisecond
	for what, call := range patientCalls {
		for step := range 5 {
			t.Run(fmt.Sprintf("%s/%d", what, step), func(t *testing.T) {
				t.Parallel()
				var want string
				neutral := errors.New("enough")
				names := []string{""} // of the causes, the neutral one first
				for i := 0; i < len(names); i++ {
					simulateAlone(t, locktest.Options{}, func(w *world) {
						all := w.causes()
						if i == 0 {
							each := slices.Sorted(maps.Keys(all))
							names = []string{"", "all", each[(len(what)+step)%len(each)]}
							if step == 0 && alone[what] {
								names = append([]string{""}, each...)
							}
						}
						cause := neutral
						if i > 0 {
							cause = all[names[i]]
						}
						a := w.dial("a")
						h := w.lock(a, "x", lock.WithTTL(10*ttl))
						ticket := left(w, a)
						ctx, cancel := context.WithCancelCause(w.ctx)
						w.faults(func(r locktest.Request) bool { return r.Label == "a" }, locktest.Fault{DelayReply: trip})
						done := async(func() (err error) {
							defer func() {
								if p := recover(); p != nil { // unreachable was reached, since the call was in time
									err = fmt.Errorf("panic: %v", p)
								}
							}()
							return call(ctx, a, h, ticket)
						})
						time.Sleep(trip/2 + time.Duration(step)*trip)
						cancel(cause)
						err := <-done
						w.Intercept(nil)
						time.Sleep(ttl)
						paths := paths(w.Dump("/locks"))
						for i, path := range paths {
							paths[i] = known.ReplaceAllString(path, "#")
						}
						slices.Sort(paths)
						got := strings.ReplaceAll(fmt.Sprint(err), cause.Error(), "CAUSE")
						got = known.ReplaceAllString(fmt.Sprintf("%s\nhold: %v\n%s", got, h.Err(), strings.Join(paths, "\n")), "#")
						if errors.Is(err, context.Canceled) && errors.Is(err, cause) == ofTree(what) {
							w.Errorf("whether %q matches the cause is %v", err, !ofTree(what))
						}
						if i == 0 {
							want = got
						} else if got != want {
							w.Errorf("with the cause %q:\n%s\nand with another:\n%s", cause, got, want)
						}
						_ = h.Unlock()
					})
				}
			})
		}
	}
}
