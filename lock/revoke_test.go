// Revoke: which holds receive a request to release, and what is left of requests.

package lock_test

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// inbox is the parent of the request nodes. It is not deleted when the last request is deleted.
const inbox = lock.DefaultRoot + "/" + znode.Inbox

// asked returns the paths of the requests.
func (w *world) asked() []string { return paths(w.Dump(inbox))[min(1, len(w.Dump(inbox))):] }

// asksNothing checks that there is no request.
func (w *world) asksNothing() {
	w.Helper()
	atMost(w, "requests stand", len(w.asked()), 0)
}

func (w *world) revoke(c *lock.Client, name, reason string) {
	w.Helper()
	w.ok(c.Revoke(w.ctx, name, reason))
}

// hears returns the request, which must have arrived by now.
func (w *world) hears(ch <-chan lock.Revocation) lock.Revocation { w.Helper(); return hasCome(w, ch) }

// hearsOf checks that a request with the reason has arrived by now.
func (w *world) hearsOf(ch <-chan lock.Revocation, reason string) {
	w.Helper()
	equal(w, "told", w.hears(ch).Reason, reason)
}

// hearsNothing checks that no request has arrived.
func (w *world) hearsNothing(ch <-chan lock.Revocation) { w.Helper(); hasNotCome(w, ch) }

func TestRevoke(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x")
		revoked := h.Revoked()
		isTrue(t, revoked == h.Revoked(), "another channel each time")
		w.hearsNothing(revoked)
		begun := time.Now()
		got := w.cost("b", func() { w.revoke(b, "x", "the host is drained") })
		equal(t, "transactions", got.requests["multi"], 1)
		r := <-revoked
		atMost(w, "told after", time.Since(begun), 200*latency)
		isTrue(t, r.Owner == "b" && r.Reason == "the host is drained" && r.PID != 0 && r.Host != "" && r.At.Sub(begun).Abs() <= 100*latency, "%+v", r)
		w.alive(h) // the holder decides
		w.revoke(b, "x", "again")
		w.hearsOf(revoked, "again")
		w.revoke(b, "x", "one")
		settle()
		w.revoke(a, "x", "two")
		r = w.hears(revoked)
		isTrue(t, r.Reason == "two" && r.Owner == "a", "%+v, not the last one", r)
		w.hearsNothing(revoked)
		equal(w, "requests to one entry", len(w.asked()), 1)
		time.Sleep(3 * ttl)
		w.alive(h)
		w.unlock(h)
		settle()
		w.asksNothing()
		isTrue(t, h.Revoked() == nil, "of a hold that has ended there is a channel")
		w.empty()
	})
}

// TestRevokeCostsNothingUnlessUsed: without a call of Revoked or Revoke there is no inbox. Once a
// client has called Revoked, a later hold costs the same requests with a call of Revoked as without
// one.
func TestRevokeCostsNothingUnlessUsed(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		take := func(use func(*lock.Hold)) cost {
			return w.cost("a", func() {
				h := w.lock(a, "x")
				use(h)
				w.unlock(h)
				time.Sleep(ttl / 4)
			})
		}
		take(func(*lock.Hold) {})
		plain := take(func(*lock.Hold) {})
		_, there := w.Node(inbox)
		isTrue(t, !there, "there is an inbox without a request")
		h := w.lock(a, "y")
		h.Revoked()
		settle()
		listening := take(func(h *lock.Hold) { h.Revoked() })
		equal(t, "cost", fmt.Sprint(listening), fmt.Sprint(plain))
	})
}

// TestRevokeBeforeRevokedIsCalled: a holder that first calls Revoked after several requests
// receives the last one.
func TestRevokeBeforeRevokedIsCalled(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h, other := w.lock(a, "x"), w.lock(a, "y")
		w.revoke(b, "x", "first")
		w.revoke(b, "x", "second")
		w.revoke(b, "y", "other")
		settle()
		revoked := h.Revoked()
		w.hearsOf(revoked, "second")
		w.hearsNothing(revoked)
		w.hearsOf(other.Revoked(), "other") // the client listens already
		again := w.takeIn(h.Context(), a.Mutex("x").Lock)
		w.hearsOf(again.Revoked(), "second")
		w.unlock(again)
		w.revoke(b, "x", "third")
		w.hearsNothing(again.Revoked())
		w.hearsOf(revoked, "third")
	})
}

// TestRevokeOfEachKind: Revoke reaches all holders of a lock of each kind, and no waiter, not even when it
// has entered.
func TestRevokeOfEachKind(t *testing.T) {
	forEach(t, locktest.Options{}, map[string]string{
		"a mutex":               "join ma>ma; join mb",
		"barging":               "join xa>xa; join mb",
		"readers":               "join ra rb>ra rb; join wa1",
		"a writer":              "join wa>wa; join rb",
		"a downgrade, a reader": "join wa>wa; downgrade wa; join rb>rb; join wc",
		"permits":               "join 2a 1a1>2a 1a1; join 2b",
	}, func(w *world, steps string) {
		s := w.run(steps)
		var told []<-chan lock.Revocation
		for _, h := range s.holds {
			told = append(told, h.Revoked())
		}
		w.revoke(w.dial("operator"), "x", "drained")
		time.Sleep(time.Second)
		for _, revoked := range told {
			w.hearsOf(revoked, "drained")
		}
		w.unlock(slices.Collect(maps.Values(s.holds))...)
		for _, waiter := range s.waiting {
			h := w.expect(waiter).hold
			w.hearsNothing(h.Revoked())
			w.finish(h)
		}
		w.asksNothing()
	})
}

// TestRevokeOfOneOfSeveral: a request for one of several locks that are held together reaches only
// the hold of that lock. Requests also reach a leader.
func TestRevokeOfOneOfSeveral(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		hs := w.lockAll(a, "m", "n", "o")
		next := w.queueAll(w.ctx, b, "m", "n", "o")
		var revoked []<-chan lock.Revocation
		for h := range hs.All() {
			revoked = append(revoked, h.Revoked())
		}
		w.revoke(b, "n", "the second")
		w.hearsNothing(revoked[0])
		w.hearsNothing(revoked[2])
		w.hearsOf(revoked[1], "the second")
		isTrue(t, hs.Remaining() != 0, "the client that was asked has lost the locks")
		w.unlockAll(hs)
		hs = w.expectAll(next)
		w.hearsNothing(hs.Hold("n").Revoked())
		w.unlockAll(hs)

		leader, err := a.Election("e").Campaign(w.ctx, "a")
		w.ok(err)
		h := lock.HoldOf(leader)
		asked := h.Revoked()
		w.revoke(b, "e", "the leader")
		w.hearsOf(asked, "the leader")
		w.alive(h)
		w.unlock(h)
		w.empty()
		w.asksNothing()
	})
}

func TestRevokeRefuses(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("others")
		for name, say := range map[string]string{"": "empty", "/x": "slash", "a//b": "component", znode.Inbox: "keeps for itself"} {
			fails(t, a.Revoke(w.ctx, name, "why"), lock.ErrInvalid, say)
		}
		for reason, say := range map[string]string{strings.Repeat("x", lock.MaxReason+1): "at most 1024", "\xff": "UTF-8"} {
			fails(t, a.Revoke(w.ctx, "x", reason), lock.ErrInvalid, "reason", say)
		}

		mustBe(t, a.Revoke(w.ctx, "x", ""), lock.ErrNotHeld) // there is not even a root
		w.unlock(w.lock(a, "x"))
		fails(t, a.Revoke(w.ctx, "x", ""), lock.ErrNotHeld, `"x"`)

		w.create(z, "/locks/data", "10.0.0.1", 0)
		mustBe(t, a.Revoke(w.ctx, "data", ""), lock.ErrForeign)
		w.create(z, "/locks/x", "", 0)
		theirs := w.create(z, "/locks/x/_c_0123456789abcdef0123456789abcdef-lock-", "", zk.FlagSequence|zk.FlagEphemeral)
		fails(t, a.Revoke(w.ctx, "x", ""), lock.ErrForeign, theirs)
		w.asksNothing()
		w.close(a)
		mustBe(t, a.Revoke(w.ctx, "x", ""), lock.ErrClosed)
	})
}

// TestRevokeDenied: if an ACL forbids reading the inbox, the client logs a warning at most once a
// minute and retries no more often, however many holds call Revoked.
func TestRevokeDenied(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("others")
		w.unlock(w.lock(a, "y"))
		w.createACL(z, inbox, "", zk.WorldACL(0))
		for range 20 {
			h := w.lock(a, "x")
			h.Revoked()
			settle()
			w.unlock(h)
		}
		equal(t, "warnings", strings.Count(w.logged(), "may not learn of requests"), 1)
		equal(t, "asked", w.Requests()["a"].Requests["getChildren2"], 1)
		h := w.lock(a, "x")
		fails(t, b.Revoke(w.ctx, "x", "why"), lock.ErrDenied, inbox)
		revoked := h.Revoked()
		time.Sleep(90 * time.Second)
		equal(t, "warnings", strings.Count(w.logged(), "may not learn of requests"), 2)
		w.remove(z, inbox)
		time.Sleep(time.Minute)
		w.revoke(b, "x", "at last")
		w.hearsOf(revoked, "at last")
	})
}

// TestRevokeOverOutages: the holder receives the last request that was made during or after an
// outage.
func TestRevokeOverOutages(t *testing.T) {
	for name, befalls := range map[string]func(w *world){
		"cut":             func(w *world) { w.Cut("a") },
		"disconnected":    func(w *world) { w.kill("a"); w.Cut("a") },
		"expired":         func(w *world) { w.kill("a"); w.ExpireLabel("a") },
		"expired at once": func(w *world) { w.ExpireLabel("a") },
	} {
		each(t, name+", before", bools, func(w *world, before bool) {
			a, b := w.dial("a"), w.dial("b")
			h := w.lock(a, "x", lock.WithTTL(time.Minute))
			revoked := h.Revoked()
			settle()
			befalls(w)
			if !before {
				w.revoke(b, "x", "one")
			}
			time.Sleep(time.Second)
			if !before {
				w.revoke(b, "x", "two")
			}
			w.Heal("a")
			time.Sleep(5 * time.Second)
			if before {
				w.revoke(b, "x", "two")
			}
			w.hearsOf(revoked, "two")
		})
	}
}

// TestAmbiguousRevoke: whatever fault hits the write of a request, the holder receives the request,
// and there is one request node.
func TestAmbiguousRevoke(t *testing.T) {
	forEachMishap(t, func(w *world, i int) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x", lock.WithTTL(time.Minute))
		revoked := h.Revoked()
		settle()
		hit := w.mishap(i, "b", func(r locktest.Request) bool { return r.Op == "multi" && touches(r, h.EntryPath()) })
		w.revoke(b, "x", "why")
		w.hearsOf(revoked, "why")
		isTrue(w, hit(), "there was no mishap")
		time.Sleep(10 * time.Second)
		equal(w, "requests", len(w.asked()), 1)
	})
}

// TestRevokeAsTheHoldEnds: a request that is made as the hold ends, or before it is lost, does not reach the
// next holder, and is deleted.
func TestRevokeAsTheHoldEnds(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("others")
		asks := func(r locktest.Request) bool { return r.Label == "b" && r.Op == "multi" && touches(r, inbox) }
		for _, when := range []string{"the hold has ended", "the unlock is on its way", "the request is read", "the hold is lost"} {
			h := w.lock(a, "x")
			h.Revoked()
			settle()
			unlock := func() {
				go h.Unlock()
				settle()
			}
			switch when {
			case "the hold has ended": // while the request is applied
				hit := w.before(asks, unlock)
				w.revoke(b, "x", when)
				isTrue(t, hit() && len(w.asked()) == 0, "%s: asked %q, hit %v", when, w.asked(), hit())
			case "the unlock is on its way": // before the delete of the entry
				w.before(leaves(h), func() { w.revokeNow(z, h) })
				w.unlock(h)
			case "the hold is lost":
				w.revoke(b, "x", when)
				w.remove(z, h.EntryPath())
				w.until("it is lost", func() bool { return h.Err() != nil })
			default: // between the list of the requests and the read of this one
				hit := w.before(func(r locktest.Request) bool { return r.Label == "a" && r.Op == "getData" && touches(r, inbox) }, unlock)
				w.revokeNow(z, h)
				w.until("the unlock has ended", hit)
				settle()
				w.asksNothing() // although no later hold has called Revoked
			}
			next := w.lock(a, "x")
			w.hearsNothing(next.Revoked())
			w.unlock(next)
			time.Sleep(time.Second)
			w.asksNothing()
		}
		w.empty()
	})
}

// revokeNow creates a request for the hold's entry as another program, while the server handles
// another client's request.
func (w *world) revokeNow(z *zk.Conn, h *lock.Hold) {
	r := znode.Revocation{Request: "r", Owner: "other", Entry: strings.TrimPrefix(h.EntryPath(), lock.DefaultRoot+"/")}
	id := path.Base(h.EntryPath())
	go func() {
		mustBe(w, second(z.Create(inbox+"/"+id, r.Encode(), 0, zk.WorldACL(zk.PermAll))), nil)
	}()
	settle()
}

// TestRevokeLeavesNothing: later calls of Revoke delete the requests to ended holds for which
// Revoked was never called, and to holds whose client crashed. A request to a live hold stays.
func TestRevokeLeavesNothing(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a"), w.dial("b"), w.dial("c")
		for i := range 40 {
			name := fmt.Sprint("x", i)
			h := w.lock(a, name)
			w.revoke(b, name, "why")
			w.unlock(h)
		}
		deaf, stands := w.lock(a, "deaf"), w.lock(c, "stands")
		w.revoke(b, "deaf", "why")
		w.revoke(b, "stands", "why")
		w.die("a", deaf.EntryPath())
		w.unlock(w.await(w.queue(w.ctx, c, "deaf")).hold) // c purges the entry
		for range 10 {
			mustBe(t, b.Revoke(w.ctx, "free", ""), lock.ErrNotHeld)
			settle()
		}
		equal(t, "left", len(w.asked()), 1)
		w.hearsOf(stands.Revoked(), "why")
	})
}

// TestStaleRequestIsNotProvenByTwoSessions: the session ends after the read of a request, and the
// next server lags behind and does not show the request's entry yet. The request is not deleted as
// stale.
func TestStaleRequestIsNotProvenByTwoSessions(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x", lock.WithTTL(time.Minute))
		w.revoke(a, "x", "why")
		looked := w.faultsInTurn(func(r locktest.Request) bool {
			return r.Label == "b" && r.Op == "exists" && touches(r, h.EntryPath())
		}, func(n int) locktest.Fault {
			if n == 1 {
				w.ExpireLabel("b")
			}
			return first(locktest.Fault{Drop: locktest.BeforeApply}, locktest.Fault{Code: codeNoNode})(n)
		})
		mustBe(t, b.Revoke(w.ctx, "free", ""), lock.ErrNotHeld)
		time.Sleep(10 * time.Second)
		isTrue(t, looked.Load() == 3 && len(w.asked()) == 1, "looked %d times; asked %q", looked.Load(), w.asked())
		w.hearsOf(h.Revoked(), "why")
	})
}

// TestRevokeThatTheServerRefuses: Revoke returns an error after one request if the server refuses a
// new request node because of a quota, or the replacement of one that has a child.
func TestRevokeThatTheServerRefuses(t *testing.T) {
	for operations, code := range map[int]int32{2: codeQuota, 3: codeNotEmpty} {
		subtest(t, fmt.Sprint("operations ", operations), locktest.Options{}, func(w *world) {
			a, b := w.dial("a"), w.dial("b")
			x, y := w.lock(a, "x"), w.lock(a, "y")
			w.revoke(b, "x", "first")
			requests := w.faults(func(r locktest.Request) bool {
				return r.Label == "b" && r.Op == "multi" && len(r.Paths) == operations
			}, locktest.Fault{Code: code, Op: 2})
			name := map[int]string{2: "y", 3: "x"}[operations]
			err := b.Revoke(w.limited(time.Second), name, "second")
			isTrue(w, err != nil && requests.Load() == 1, "%v after %d requests, want an error after one", err, requests.Load())
			w.Intercept(nil)
			w.unlock(x, y)
		})
	}
}

// TestRevokeOfAnAttachedEntry: a client that attaches to an entry receives a request that was made
// before. After another Detach and Attach, the next client receives it too.
func TestRevokeOfAnAttachedEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x")
		revoked := h.Revoked()
		w.revoke(b, "x", "before")
		w.hears(revoked)
		ticket := w.detach(h, 0)
		time.Sleep(2 * time.Second)
		for _, heir := range []*lock.Client{b, a} {
			h := w.attach(heir, ticket)
			revoked := h.Revoked()
			w.hearsOf(revoked, "before")
			if heir == b {
				ticket = w.detach(h, 0)
				continue
			}
			w.revoke(b, "x", "after")
			w.hearsOf(revoked, "after")
			w.unlock(h)
		}
		w.empty()
		w.asksNothing()
	})
}

// TestRevokeAndClose: whenever the holder's client closes during a Revoke, on an owned or a
// borrowed connection, Close returns within a second and no request is left.
func TestRevokeAndClose(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for after := range 20 {
			subtest(t, fmt.Sprint("shared ", shared, ", after ", after), locktest.Options{Seed: uint64(after)}, func(w *world) {
				a, b := w.clientOn(shared, "a"), w.dial("b")
				h := w.lock(a, "x")
				revoked := h.Revoked()
				done := async(func() error { return b.Revoke(w.ctx, "x", "why") })
				time.Sleep(time.Duration(after) * latency)
				within(w, time.Second, "Close", func() { w.close(a) }, func() {})
				if err := <-done; err != nil {
					mustBe(w, err, lock.ErrNotHeld)
				}
				select {
				case r := <-revoked:
					equal(w, "told", r.Reason, "why")
				default:
				}
				isTrue(w, a.Revoke(w.ctx, "x", "") != nil && h.Revoked() == nil, "a closed client goes on")
				for range 2 {
					mustBe(w, b.Revoke(w.ctx, "x", ""), lock.ErrNotHeld)
					settle()
				}
				w.asksNothing()
				w.empty()
			})
		}
	}
}

// TestRevokeOfManyOnASharedConnection: on a borrowed connection each new request makes a client read the
// earlier ones again. It reads them concurrently, so that no holder hears of a request late. Requests
// between two clients on one connection arrive also after its session has expired.
func TestRevokeOfManyOnASharedConnection(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const holds = 40
		z := w.raw("lent")
		a, b := w.lend(z, "a"), w.lend(z, "b")
		var all []*lock.Hold
		for i := range holds {
			all = append(all, w.lock(a, fmt.Sprint("n", i)))
			all[i].Revoked()
			w.revoke(b, all[i].Name(), "drained")
		}
		settle()
		begun := time.Now()
		for _, h := range all {
			go func() { mustBe(w, b.Revoke(w.ctx, h.Name(), "again"), nil) }()
		}
		for _, h := range all {
			for (<-h.Revoked()).Reason != "again" {
			}
		}
		atMost(t, "time until all holders are asked again", time.Since(begun), 40*latency)
		w.ExpireLabel("lent")
		time.Sleep(5 * time.Second)
		w.revoke(b, all[0].Name(), "after the session")
		w.hearsOf(all[0].Revoked(), "after the session")
		w.unlock(all...)
	})
}

// TestRevocationsThatAreNotUnderstood: request nodes with data that a client does not understand
// are neither delivered nor deleted. The client logs each such node of its hold once. Revoke
// replaces such a node.
func TestRevocationsThatAreNotUnderstood(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("others")
		h := w.lock(a, "x")
		revoked := h.Revoked()
		settle()
		id := path.Base(h.EntryPath())
		for _, data := range []string{"", "{", `{"holdfast":2}`, `{"holdfast":2,"entry":"y/` + id + `"}`} {
			at := w.create(z, inbox+"/"+id, data, 0)
			w.create(z, inbox+"/other", data, 0)
			w.hearsNothing(revoked)
			w.remove(z, at, inbox+"/other")
		}
		equal(t, "warnings", strings.Count(w.logged(), "cannot be understood"), 4)
		w.create(z, inbox+"/"+id, "{", 0)
		w.revoke(b, "x", "why")
		w.hearsOf(revoked, "why")
	})
}

// TestRevokeOnALaggingServer: Revoke reaches the present holder, although the requesting client's
// server still shows the previous one.
func TestRevokeOnALaggingServer(t *testing.T) {
	simulate(t, locktest.Options{Members: 3}, func(w *world) {
		at, late, lag := w.behind("a", "b")
		h := w.lock(at[0], "x")
		lag()
		w.unlock(h)
		h = w.lock(at[1], "x")
		asked := h.Revoked()
		mustBe(w, late.Revoke(w.ctx, "x", "it hangs"), nil)
		time.Sleep(2 * time.Second)
		w.hearsOf(asked, "it hangs")
		w.unlock(h)
	})
}

// TestRevokeOfManyHoldsReadsEachOnce: a client whose holds are all asked for, one after the other, reads
// each request once or twice, and hears of each. A hold without a request costs no read. A later request
// to the same hold is read, too.
func TestRevokeOfManyHoldsReadsEachOnce(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const holds = 60
		a, b := w.dial("a"), w.dial("b")
		var all []*lock.Hold
		for i := range holds {
			all = append(all, w.lock(a, fmt.Sprint("n", i)))
			all[i].Revoked()
		}
		got := w.cost("a", func() {
			for _, h := range all {
				w.revoke(b, h.Name(), "drained")
				w.hearsOf(h.Revoked(), "drained")
			}
		})
		atMost(w, "reads", got.requests["getData"], 2*holds)
		others := w.cost("a", func() {
			for i := range 20 {
				all = append(all, w.lock(a, fmt.Sprint("y", i)))
				all[holds+i].Revoked()
				settle()
			}
		})
		equal(t, "reads for holds without a request", others.requests["getData"], 0)
		w.revoke(b, "n0", "again")
		w.hearsOf(all[0].Revoked(), "again")
		w.unlock(all...)
	})
}
