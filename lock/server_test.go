// The check of a server at Dial.

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

// TestServerThatMisbehaves: Dial refuses what one transaction shows, and says what is wrong;
// CheckServer the rest. Nothing is left behind, and who accepts the risk goes on.
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
				mustBe(w, err, lock.ErrUnsupported)
				mustSay(w, err, test.says, "at your own risk", "WithUnsafeServer", "zookeeper.unsafe_server")
			} else {
				mustBe(w, err, nil)
				mustBe(w, c.Close(), nil)
			}
			a := w.dial("b", lock.WithUnsafeServer())
			if logged := strings.Contains(w.logged(), "going on because that was asked for"); logged != test.dial {
				w.Errorf("warned: %t", logged)
			}
			r, err := admin.CheckServer(w.ctx, a)
			switch {
			case err != nil || r.Unchecked != nil:
				w.Errorf("CheckServer: %+v, %v", r, err)
			case test.says == "" && r.Refused != nil:
				w.Errorf("refused: %v", r.Refused)
			case test.says != "":
				mustBe(w, r.Refused, lock.ErrUnsupported)
				mustSay(w, r.Refused, test.says)
			}
			sameNodes(w, before, w.Dump("/"))
		})
	}
}

// sameNodes fails the test unless there are the same nodes.
func sameNodes(t testing.TB, before, after []locktest.Node) {
	t.Helper()
	paths := func(nodes []locktest.Node) (all []string) {
		for _, n := range nodes {
			all = append(all, n.Path)
		}
		return all
	}
	if b, a := strings.Join(paths(before), " "), strings.Join(paths(after), " "); a != b {
		t.Errorf("nodes: %s; before: %s", a, b)
	}
}

// TestCostOfTheServersCheck: one request of a Dial, and one more for each component of the
// root that is missing. It counts as a sample of the clock, which spares the first lock one.
func TestCostOfTheServersCheck(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		before := w.Dump("/")
		root := lock.WithRoot("/a/b")
		dial := func(label string) *lock.Client {
			return w.dial(label, root)
		}
		a := dial("a")
		if got := w.Requests()["a"].Total(); got != 3 {
			t.Errorf("without the root: %d requests, want 3", got)
		}
		sameNodes(t, before, w.Dump("/"))
		w.unlock(w.lock(a, "x"))
		b := dial("b")
		equal(w, "requests", w.Requests()["b"].Total(), 1)
		h := w.lock(a, "x")
		got := w.cost("b", func() {
			_, err := b.Mutex("x").TryLock(w.ctx)
			mustBe(t, err, lock.ErrHeld)
		})
		if got.txns != 0 {
			t.Errorf("%d transactions of a TryLock, want none: the time is known", got.txns)
		}
		w.unlock(h)
	})
}

// TestServerCheckIsDenied: where the ACL of the root, or of the node above a root that is
// missing, lets us make nothing, the server counts as not checked, which is logged.
func TestServerCheckIsDenied(t *testing.T) {
	others := zk.DigestACL(zk.PermAll, "another", "password")
	for _, closed := range []string{"/", "/locks", "/zookeeper"} {
		subtest(t, closed, locktest.Options{}, func(w *world) {
			z := w.raw("admin")
			if closed == "/locks" {
				if _, err := z.Create("/locks", nil, 0, others); err != nil {
					w.Fatal(err)
				}
			} else if _, err := z.SetACL(closed, others, -1); err != nil {
				w.Fatal(err)
			}
			a := w.dial("a")
			checked := closed == "/zookeeper"
			if logged := strings.Contains(w.logged(), "server not checked"); logged == checked {
				w.Errorf("said as not checked: %t", logged)
			}
			r, err := admin.CheckServer(w.ctx, a)
			if err != nil || r.Refused != nil || errors.Is(r.Unchecked, lock.ErrDenied) == checked {
				w.Errorf("CheckServer: %+v, %v", r, err)
			}
		})
	}
}

// TestDialEndsDuringTheServersCheck: when the context ends, Dial does, within its bounds.
func TestDialEndsDuringTheServersCheck(t *testing.T) {
	for _, f := range []locktest.Fault{{Delay: time.Hour}, {DelayReply: time.Hour}, {Drop: locktest.AfterApply}} {
		subtest(t, fmt.Sprint("f ", f), locktest.Options{}, func(w *world) {
			w.Intercept(func(r locktest.Request) locktest.Fault {
				if r.Op == "multi" {
					return f
				}
				return locktest.Fault{}
			})
			ctx := w.limited(time.Second)
			began := time.Now()
			c, err := lock.Dial(ctx, w.Servers(), w.options("a")...)
			if c != nil {
				w.Error("a client")
			}
			mustBe(w, err, context.DeadlineExceeded, lock.ErrUnavailable)
			atMost(w, "it took", time.Since(began), time.Second+200*time.Millisecond)
			w.Intercept(nil)
			synctest.Wait()
		})
	}
}

// TestServerCheckSurvivesLostReplies: the transaction is made again, and leaves nothing.
func TestServerCheckSurvivesLostReplies(t *testing.T) {
	for _, drop := range []locktest.Fault{{Drop: locktest.BeforeApply}, {Drop: locktest.AfterApply}, {Code: codeThrottled}} {
		subtest(t, fmt.Sprint("drop ", drop), locktest.Options{}, func(w *world) {
			w.fault(func(r locktest.Request) bool { return r.Op == "multi" }, drop)
			before := w.Dump("/")
			w.dial("a")
			sameNodes(w, before, w.Dump("/"))
		})
	}
}
