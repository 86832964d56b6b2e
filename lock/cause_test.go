package lock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// refusal returns the error of a Lock whose transaction the server refused at its second operation.
func (w *world) refusal(c *lock.Client, label string) error {
	w.Helper()
	w.fault(func(r locktest.Request) bool {
		return r.Label == label && r.Op == "multi" && touches(r, "/locks/deep") && len(r.Paths) == 2
	}, locktest.Fault{Code: codeQuota, Op: 2})
	_, err := c.Mutex("deep/y").Lock(w.ctx)
	mustBeTrue(w, err != nil, "no error")
	return err
}

// causes returns errors of other calls, which callers set as causes of their contexts.
func (w *world) causes() map[string]error {
	b, held := w.dial("b"), w.lock(w.dial("c"), "causes/held")
	closed, err := lock.Dial(w.ctx, w.Servers(), w.options("d")...)
	w.ok(err)
	w.ok(closed.Close())
	all := map[string]error{"refused": w.refusal(b, "b"), "closed": second(closed.Mutex("y").Lock(w.ctx)), "held": second(b.Mutex("causes/held").TryLock(w.ctx))}
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

// ofTree are the calls of package admin's Tree, whose errors do not match a cause.
var ofTree = map[string]bool{"Inspect": true, "Now": true, "Get": true, "Children": true, "Delete": true, "Prove": true, "Break": true}

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
						w.Intercept(func(r locktest.Request) locktest.Fault {
							if r.Label != "a" {
								return locktest.Fault{}
							}
							return locktest.Fault{DelayReply: trip}
						})
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
						if errors.Is(err, context.Canceled) && errors.Is(err, cause) == ofTree[what] {
							w.Errorf("whether %q matches the cause is %v", err, !ofTree[what])
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
