// Servers with faulty behavior, missing features or small limits: what Dial and CheckServer find, and what
// still works. Servers that have lost their data or a client's watches, or refuse a session for a while.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestServerThatMisbehaves: Dial detects the faults that show in a single transaction, and its
// error describes them. CheckServer detects all faults of the table. Both leave no node. With
// WithUnsafeServer, Dial only warns.
func TestServerThatMisbehaves(t *testing.T) {
	for _, test := range []struct {
		name   string
		quirks locktest.Quirks
		dial   bool // refused by Dial
		says   string
	}{
		{"none", locktest.Quirks{}, false, ""},
		{"keeper", locktest.Quirks{Keeper: true}, true, "seems to be ClickHouse Keeper"},
		{"stale Stat", locktest.Quirks{StaleStat: true}, true, "Stat in the reply to a write is not that of the node then: its version is 0 instead of 1"},
		{"sequence", locktest.Quirks{OwnSequence: true}, true, "sequence of a new node's child"},
		{"versions", locktest.Quirks{NoVersions: true}, false, "accepted a write under a version"},
		{"clock", locktest.Quirks{StuckClock: true}, false, "times must rise with transactions"},
	} {
		subtest(t, test.name, locktest.Options{Quirks: test.quirks}, func(w *world) {
			before := w.Dump("/")
			c, err := lock.Dial(w.ctx, w.Servers(), w.options("a")...)
			if test.dial {
				fails(w, err, lock.ErrUnsupported, test.says, "at your own risk", "WithUnsafeServer", "zookeeper.unsafe_server")
			} else {
				mustBe(w, err, nil)
				mustBe(w, c.Close(), nil)
			}
			a := w.dial("b", lock.WithUnsafeServer())
			equal(w, "warned", strings.Contains(w.logged(), "going on because WithUnsafeServer allows it"), test.dial)
			r, err := admin.CheckServer(w.ctx, a)
			isTrue(w, err == nil && r.Unchecked == nil, "CheckServer: %+v, %v", r, err)
			if test.says == "" {
				w.ok(r.Refused)
			} else {
				fails(w, r.Refused, lock.ErrUnsupported, test.says)
			}
			equalAll(w, "nodes", paths(w.Dump("/")), paths(before))
		})
	}
}

// TestCostOfTheServersCheck: the check costs Dial one request, and one more for each missing
// component of the root. It also samples the clock, so the first TryLock needs no transaction.
func TestCostOfTheServersCheck(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		before := w.Dump("/")
		root := lock.WithRoot("/a/b")
		dial := func(label string) *lock.Client {
			return w.dial(label, root)
		}
		a := dial("a")
		equal(t, "requests without the root", w.Requests()["a"].Total(), 3)
		equalAll(t, "nodes", paths(w.Dump("/")), paths(before))
		w.unlock(w.lock(a, "x"))
		b := dial("b")
		equal(w, "requests", w.Requests()["b"].Total(), 1)
		h := w.lock(a, "x")
		got := w.cost("b", func() {
			mustBe(t, second(b.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
		})
		equal(t, "transactions of a TryLock", got.txns, 0)
		w.unlock(h)
	})
}

// TestServerCheckIsDenied: if an ACL forbids all creates at the root, or above a missing root, Dial
// logs that the server was not checked, and CheckServer reports it.
func TestServerCheckIsDenied(t *testing.T) {
	others := zk.DigestACL(zk.PermAll, "another", "password")
	each(t, "closed", []string{"/", "/locks", "/zookeeper"}, func(w *world, closed string) {
		z := w.raw("admin")
		if closed == "/locks" {
			w.ok(second(z.Create("/locks", nil, 0, others)))
		} else {
			w.setACL(z, closed, others)
		}
		a := w.dial("a")
		checked := closed == "/zookeeper"
		logged := strings.Contains(w.logged(), "server not checked")
		isTrue(w, logged != checked, "said as not checked: %t", logged)
		r, err := admin.CheckServer(w.ctx, a)
		isTrue(w, err == nil && r.Refused == nil && errors.Is(r.Unchecked, lock.ErrDenied) != checked, "CheckServer: %+v, %v", r, err)
	})
}

// TestDialEndsDuringTheServersCheck: if the context of Dial ends during the check of the server, or before
// there is a session, Dial returns within 200 ms.
func TestDialEndsDuringTheServersCheck(t *testing.T) {
	each(t, "fault", []locktest.Fault{{Delay: time.Hour}, {DelayReply: time.Hour}, {Drop: locktest.AfterApply}, {}}, func(w *world, f locktest.Fault) {
		if f == (locktest.Fault{}) {
			w.kill("a")
		} else {
			w.faults(func(r locktest.Request) bool { return r.Op == "multi" }, f)
		}
		ctx := w.limited(time.Second)
		began := time.Now()
		c, err := lock.Dial(ctx, w.Servers(), w.options("a")...)
		isTrue(w, c == nil, "a client")
		mustBe(w, err, context.DeadlineExceeded, lock.ErrUnavailable)
		atMost(w, "it took", time.Since(began), time.Second+200*time.Millisecond)
		w.Intercept(nil)
		synctest.Wait()
	})
}

// TestServerCheckSurvivesLostReplies: if the check's transaction or its reply is lost or throttled,
// Dial succeeds and leaves no node. If a server has returned results before, a reply without results counts
// as lost, and Lock succeeds.
func TestServerCheckSurvivesLostReplies(t *testing.T) {
	each(t, "drop", []locktest.Fault{{Drop: locktest.BeforeApply}, {Drop: locktest.AfterApply}, {Code: codeThrottled}}, func(w *world, drop locktest.Fault) {
		w.fault(func(r locktest.Request) bool { return r.Op == "multi" }, drop)
		before := w.Dump("/")
		a := w.dial("a")
		equalAll(w, "nodes", paths(w.Dump("/")), paths(before))
		w.fault(func(r locktest.Request) bool { return r.Op == "multi" }, locktest.Fault{NoResults: true})
		w.finish(w.lock(a, "x"))
	})
}

// TestServerWithoutTransactions: Dial refuses a server that does not know transactions, such as
// ZooKeeper 3.3, or does not return their results. With WithUnsafeServer, the calls of the client
// return the same error.
func TestServerWithoutTransactions(t *testing.T) {
	for says, fault := range map[string]locktest.Fault{
		"unknown error: -6": {Code: codeUnimplemented},
		"must be ZooKeeper": {NoResults: true},
	} {
		subtest(t, fmt.Sprint("says ", says), locktest.Options{}, func(w *world) {
			w.faults(func(r locktest.Request) bool { return r.Op == "multi" }, fault)
			began := time.Now()
			fails(w, second(lock.Dial(w.ctx, w.Servers(), w.options("a")...)), lock.ErrUnsupported, says, "server is not supported")
			a := w.dial("a", lock.WithUnsafeServer())
			for range 2 {
				fails(w, second(a.Mutex("x").Lock(w.ctx)), lock.ErrUnsupported, says, "server is not supported")
				mustBe(w, second(a.Mutex("y").TryLock(w.ctx)), lock.ErrUnsupported)
			}
			atMost(w, "it took", time.Since(began), time.Second)
		})
	}
}

// TestServersThatLimitRequestSize: servers accept 50 kB at once. Two hundred entries with long names
// are to be deleted at once, because their waiters give up, the client closes, or it has died and
// other clients purge. The next waiter enters within a TTL, and no connection is lost.
func TestServersThatLimitRequestSize(t *testing.T) {
	forEach(t, locktest.Options{MaxFrame: 50_000}, map[string]func(w *world, a *lock.Client, giveUp func()){
		"give up": func(w *world, a *lock.Client, giveUp func()) { giveUp() },
		"close":   func(w *world, a *lock.Client, giveUp func()) { mustBe(w, a.Close(), nil) },
		"die": func(w *world, a *lock.Client, giveUp func()) {
			w.kill("a")
			time.Sleep(2 * ttl)
		},
	}, func(w *world, leave func(w *world, a *lock.Client, giveUp func())) {
		long := strings.Repeat("x", 400)
		a, b := w.client("a"), w.client("b")
		h := w.lock(b, long)
		ctx, giveUp := context.WithCancel(w.ctx)
		defer giveUp()
		for i := range 200 {
			start(func() (*lock.Hold, error) {
				return a.Mutex(long, lock.WithMetadata(map[string]string{"job": fmt.Sprint(i)})).Lock(ctx)
			})
		}
		w.until("all have joined", func() bool { return len(w.entries(long)) == 201 })
		last := w.queue(w.ctx, w.client("c"), long)
		handshakes := func() (n int) {
			for _, c := range w.Requests() {
				n += c.Handshakes
			}
			return n
		}
		before := handshakes()
		leave(w, a, giveUp)
		w.unlock(h)
		begun := time.Now()
		got := w.await(last)
		took := got.at.Sub(begun)
		isTrue(t, took <= ttl && handshakes() == before, "the next waiter has its turn after %v, with %d new connections", took, handshakes()-before)
		w.unlock(got.hold)
		giveUp()
		w.Heal("a")
		w.empty()
	})
}

// TestAnswersHaveMeanings: the error of a call explains the server's error code and has its number,
// even if go-zookeeper has no name for it. The code is that of a whole request, or of an operation
// of a transaction.
func TestAnswersHaveMeanings(t *testing.T) {
	subtest(t, "no such scheme", locktest.Options{}, func(w *world) {
		c := w.dial("c", lock.WithACL(zk.ACL{Perms: zk.PermAll, Scheme: "bogus", ID: "me"}))
		fails(t, second(c.Mutex("y").Lock(w.ctx)), zk.ErrInvalidACL, "create an entry below /locks/y")
	})
	for code, meaning := range map[int32]string{codeQuota: "a quota is exceeded", -119: "the server is read-only", -1: "the server failed", -120: "no ephemeral node in a local session"} {
		subtest(t, meaning, locktest.Options{}, func(w *world) {
			a := w.client("a")
			for _, op := range []int{0, 2} {
				w.Intercept(func(locktest.Request) locktest.Fault { return locktest.Fault{Code: code, Op: op} })
				_, err := a.Mutex("x").Lock(w.ctx)
				mustSay(w, err, `lock "x": `, meaning, fmt.Sprint(code))
				_, err = a.Election("e").Leader(w.ctx)
				mustSay(w, err, `election "e": `, meaning, fmt.Sprint(code))
			}
			w.Intercept(nil)
			h := w.lock(a, "x")
			w.fault(leaves(h), locktest.Fault{Code: code})
			mustSay(w, h.Unlock(), `unlock "x"`, "delete "+h.EntryPath(), fmt.Sprint(code))
			w.empty() // the retry has deleted the entry
		})
	}
}

// busy locks and unlocks 50 times, so that the client has seen more transactions than the servers
// have after they lose their data.
func (w *world) busy(c *lock.Client) {
	w.Helper()
	for range 50 {
		w.unlock(w.lock(c, "busy"))
	}
}

// TestServerThatLostItsData: servers that have lost their data refuse a client that has seen more
// transactions. Check returns ErrUnavailable, with the lost data among the possible causes. The
// client starts a new session after the session timeout, and no longer uses what it knew of the servers'
// clock before. Holds whose entries are gone end.
func TestServerThatLostItsData(t *testing.T) {
	for _, members := range []int{1, 3} {
		subtest(t, fmt.Sprint("members ", members), locktest.Options{Members: members}, func(w *world) {
			a, quiet := w.dial("a"), w.dial("quiet") // which makes no request that tells it the time
			w.busy(a)
			w.busy(quiet)
			held := w.lock(a, "held")
			idle := w.dial("idle")
			waiting := w.queue(w.ctx, idle, "held")
			session, before := a.Session(), admin.New(quiet).Estimate()

			begun := time.Now()
			w.Forget()
			time.Sleep(sessionTimeout * 2 / 3)
			fails(w, a.Check(), lock.ErrUnavailable, "port for TLS", "maxClientCnxns", "it has lost its data")
			w.unlock(w.lock(a, "x"))
			inRange(w, "the client came back after", time.Since(begun), sessionTimeout, 2*sessionTimeout)
			w.ok(a.Check())
			isTrue(w, a.Session() != session, "the session is still %#x", session)
			w.until("the quiet client is back", func() bool { return quiet.Check() == nil })
			now := admin.New(quiet).Estimate()
			isTrue(w, now.Resets > before.Resets && now.Zxid < before.Zxid, "the client still knows %+v, before %+v", now, before)
			w.until("the hold whose entry is gone has ended", func() bool { return held.Err() != nil })
			mustBe(w, held.Err(), lock.ErrRemoved)
			w.unlock(w.await(waiting).hold)
			isTrue(w, strings.Contains(w.logged(), "no server answers for the session"), "the log does not tell of the new session")
		})
	}
}

// TestServerThatRefusesForAWhile: a server that refuses the session for less than the session
// timeout does not cost the client its session. If servers refuse the client after one of them has answered
// that its session has expired, Check returns ErrUnavailable until a server accepts it.
func TestServerThatRefusesForAWhile(t *testing.T) {
	each(t, "after the session", bools, func(w *world, after bool) {
		var refuses atomic.Bool
		var a *lock.Client
		a = w.dial("a", w.detour("a", &impostor{leaves: true}, func() bool { return refuses.Load() && (!after || a.Session() == 0) }))
		w.busy(a)
		session := a.Session()
		refuses.Store(true)
		if after {
			w.ExpireLabel("a")
			time.Sleep(sessionTimeout / 4)
			equal(w, "session", a.Session(), 0)
			w.ok(a.Check())
			time.Sleep(sessionTimeout)
			fails(w, a.Check(), lock.ErrUnavailable, "maxClientCnxns")
		} else {
			w.Cut("a")
			time.Sleep(sessionTimeout / 2)
		}
		refuses.Store(false)
		w.unlock(w.lock(a, "x"))
		w.ok(a.Check())
		equal(w, "whether it is the same session", a.Session() == session, !after)
	})
}

// TestDataLostBehindASessionThatEnded: a client whose session has just ended has seen no
// transaction in the next one, so servers that have lost their data accept it. The client does not
// mistake a live entry for one of an earlier term, and does not purge it.
func TestDataLostBehindASessionThatEnded(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		w.busy(a)
		w.StepClock(time.Minute) // a new term begins
		w.busy(a)
		time.Sleep(2 * time.Second) // until the parent is deleted
		w.ExpireLabel("a")
		time.Sleep(sessionTimeout + 4*ttl) // longer than a lease since the term began
		w.Forget()
		b := w.dial("b")
		h := w.lock(b, "x")
		time.Sleep(sessionTimeout)
		gone, err := admin.New(a).Purge(w.ctx, h.EntryPath(), lock.Policy{TTL: ttl, Grace: ttl / 4})
		isTrue(w, !gone && err == nil, "a living entry was purged: %v, %v", gone, err)
		isTrue(w, !strings.Contains(w.logged(), "no server answers for the session"), "the servers have refused the client: this shows nothing")
		mustBe(w, second(a.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
		w.alive(h)
		w.unlock(h)
	})
}

// TestLeaderAfterDataLostUnseen: the servers have lost their data, and then made more transactions
// than before. So they accept an observer that was connected before. The observer sees the new
// leader.
func TestLeaderAfterDataLostUnseen(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		busy := func(label string) {
			z := w.raw(label)
			w.create(z, "/"+label, "", 0)
			for range 100 {
				w.set(z, "/"+label, nil)
			}
		}
		observer := w.dial("observer")
		busy("before")
		w.leads(w.campaign(w.ctx, w.dial("a"), "a"), "a")
		seen := w.observe(w.ctx, observer)
		w.ok(errors.Join(w.Partition("observer"), w.Partition("a")))
		time.Sleep(sessionTimeout + 2*ttl)
		w.Forget()
		b := w.campaign(w.ctx, w.dial("b"), "b")
		busy("since")
		busy("later")
		w.leads(b, "b")
		w.Heal("observer")
		w.until("the new leader is shown", func() bool { all := seen.values(); return len(all) > 0 && all[len(all)-1] == "b" })
		isTrue(w, !strings.Contains(w.logged(), "no server answers for the session"), "the servers have refused the client: this shows nothing")
		w.Heal("a")
	})
}

// TestDataLostUnderADeniedSample: servers have lost their data, and their clock was set back. A client
// that an ACL forbids to sample the clock does not take over a live hold because of its old sample.
func TestDataLostUnderADeniedSample(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		w.busy(a)
		time.Sleep(2 * time.Second) // until the parent is deleted
		w.ExpireLabel("a")
		time.Sleep(sessionTimeout)
		w.Forget()
		w.StepClock(-time.Hour)
		h := w.lock(w.dial("b"), "d/x")
		w.setACL(w.raw("admin"), lock.DefaultRoot, zk.WorldACL(zk.PermRead))
		ticket := w.ticket(h)
		ch := start(func() (*lock.Hold, error) { return a.Attach(w.ctx, ticket) })
		time.Sleep(3 * ttl)
		w.waits(ch)
		w.alive(h)
		w.unlock(h)
		fails(w, w.outcome(ch).err, lock.ErrRemoved)
	})
}

// TestWaitWithoutWatch: a client's watches are lost while its session continues. A waiter behind a hold enters
// in time after the unlock, and no later than if the holder had crashed; behind an entry of another library,
// which has no lease that could end, in time after its deletion, also if it barges.
func TestWaitWithoutWatch(t *testing.T) {
	const soon, slowly = time.Second, 2 * time.Minute // until the client notices
	for name, loss := range map[string]struct {
		borrowed, refused, cut bool
		most                   time.Duration
	}{
		"connection lost":                              {false, false, true, soon},
		"borrowed connection lost":                     {true, false, true, soon},
		"borrowed connection lost, setWatches refused": {true, true, true, slowly}, // with its own one a client sends none
		"lost by the server":                           {false, false, false, slowly},
		"lost by the server, on a borrowed connection": {true, false, false, slowly},
	} {
		each(t, name, []string{"queues", "foreign", "foreign, barges"}, func(w *world, how string) {
			a, z := w.clientOn(loss.borrowed, "a"), w.raw("other")
			w.unlock(w.lock(a, "y"))
			var end func()
			m, limit := a.Mutex("x"), loss.most
			if how == "queues" {
				h := w.lock(w.dial("b"), "x")
				end, limit = func() { w.unlock(h) }, min(limit, ttl+grace+time.Second)
			} else {
				w.create(z, "/locks/x", "", 0)
				path := w.create(z, "/locks/x/_c_0123456789abcdef0123456789abcdef-lock-", "", zk.FlagEphemeral|zk.FlagSequence)
				end = func() { w.remove(z, path) }
			}
			if how == "foreign, barges" {
				m = m.WithBarging()
			}
			ch := start(func() (*lock.Hold, error) { return m.Lock(w.ctx) })
			w.waits(ch)
			if loss.refused {
				w.faults(func(r locktest.Request) bool { return r.Op == "setWatches" }, locktest.Fault{Code: codeThrottled})
			}
			if before := a.Session(); loss.cut {
				w.Cut("a")
				time.Sleep(3 * time.Second)
				mustBeTrue(w, a.Session() == before, "the session has ended: the test does not show what it means to")
			} else {
				w.LoseWatches("a")
			}
			end()
			w.unlock(w.inTime(ch, limit))
		})
	}
}

// TestIdleBorrowedConnectionSeesOutages: an idle client on a borrowed connection knows of outages
// when it judges entries. It does not purge the entries of clients that could not renew during the
// outage.
func TestIdleBorrowedConnectionSeesOutages(t *testing.T) {
	forEach(t, locktest.Options{}, map[string]func(w *world){
		"servers stopped": func(w *world) {
			w.Stop(w.Servers()[0])
			time.Sleep(ttl * 3 / 4)
			w.Start(w.Servers()[0])
		},
		"sessions ended": func(w *world) {
			time.Sleep(ttl * 3 / 4)
			w.ExpireLabel("idle")
		},
	}, func(w *world, away func(w *world)) {
		a, b, idle := w.dial("a"), w.dial("b"), w.borrow("idle")
		w.unlock(w.lock(idle, "y")) // the client learns the time
		time.Sleep(ttl)
		h := w.lock(a, "x")
		waiting := w.queue(w.ctx, b, "x")
		w.kill("a")
		w.kill("b")
		away(w)
		time.Sleep(4 * time.Second) // go-zookeeper has a new session, but the idle client made no request
		ch := start(func() (*lock.Hold, error) { return idle.Mutex("x").Lock(w.ctx) })
		time.Sleep(time.Second)
		w.Heal("a")
		w.Heal("b")
		w.unlock(w.await(waiting).hold)
		w.unlock(w.await(ch).hold)
		atMost(w, "entries of waiters that were coming back, and were deleted", b.Stats().Requeued, 0)
		h.Unlock()
	})
}
