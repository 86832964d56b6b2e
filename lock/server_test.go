// Servers with faulty behavior, missing features or small limits: what Dial and CheckServer find,
// and what still works.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
			switch {
			case err != nil || r.Unchecked != nil:
				w.Errorf("CheckServer: %+v, %v", r, err)
			case test.says == "" && r.Refused != nil:
				w.Errorf("refused: %v", r.Refused)
			case test.says != "":
				fails(w, r.Refused, lock.ErrUnsupported, test.says)
			}
			sameNodes(w, before, w.Dump("/"))
		})
	}
}

// sameNodes checks that the paths of the nodes are the same.
func sameNodes(t testing.TB, before, after []locktest.Node) {
	t.Helper()
	equalAll(t, "nodes", paths(after), paths(before))
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
		sameNodes(t, before, w.Dump("/"))
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
		} else if _, err := z.SetACL(closed, others, -1); err != nil {
			w.Fatal(err)
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
	each(t, "f", []locktest.Fault{{Delay: time.Hour}, {DelayReply: time.Hour}, {Drop: locktest.AfterApply}, {}}, func(w *world, f locktest.Fault) {
		if w.faults(func(r locktest.Request) bool { return r.Op == "multi" }, f); f == (locktest.Fault{}) {
			w.ok(w.Partition("a"))
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
// Dial succeeds and leaves no node.
func TestServerCheckSurvivesLostReplies(t *testing.T) {
	each(t, "drop", []locktest.Fault{{Drop: locktest.BeforeApply}, {Drop: locktest.AfterApply}, {Code: codeThrottled}}, func(w *world, drop locktest.Fault) {
		w.fault(func(r locktest.Request) bool { return r.Op == "multi" }, drop)
		before := w.Dump("/")
		w.dial("a")
		sameNodes(w, before, w.Dump("/"))
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
			_, err := lock.Dial(w.ctx, w.Servers(), w.options("a")...)
			fails(w, err, lock.ErrUnsupported, says, "server is not supported")
			a := w.dial("a", lock.WithUnsafeServer())
			for range 2 {
				fails(w, second(a.Mutex("x").Lock(w.ctx)), lock.ErrUnsupported, says, "server is not supported")
				mustBe(w, second(a.Mutex("y").TryLock(w.ctx)), lock.ErrUnsupported)
			}
			atMost(w, "it took", time.Since(began), time.Second)
		})
	}
}

// TestResultsMissingOnce: if a server has returned results before, a reply without results counts
// as lost, and Lock succeeds.
func TestResultsMissingOnce(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		w.unlock(w.lock(a, "x"))
		missing := 0
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Op == "multi" && missing == 0 {
				missing++
				return locktest.Fault{NoResults: true}
			}
			return locktest.Fault{}
		})
		h, err := a.Mutex("x").Lock(w.ctx)
		mustBeTrue(t, err == nil && missing == 1, "Lock = %v after %d replies without results", err, missing)
		w.finish(h)
	})
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
