package lock_test

import (
	"context"
	"errors"
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
		t.Run(test.name, func(t *testing.T) {
			simulate(t, locktest.Options{Quirks: test.quirks}, func(w *world) {
				before := w.Dump("/")
				c, err := lock.Dial(w.ctx, w.Servers(), w.options("a")...)
				if test.dial {
					mustBe(t, err, lock.ErrUnsupported)
					mustSay(t, err, test.says, "at your own risk", "WithUnsafeServer", "zookeeper.unsafe_server")
				} else if err != nil {
					t.Fatal(err)
				} else {
					c.Close()
				}
				a := w.dial("b", lock.WithUnsafeServer())
				if logged := strings.Contains(w.logged(), "going on because that was asked for"); logged != test.dial {
					t.Errorf("warned: %t", logged)
				}
				r, err := admin.CheckServer(w.ctx, a)
				switch {
				case err != nil || r.Unchecked != nil:
					t.Errorf("CheckServer: %+v, %v", r, err)
				case test.says == "" && r.Refused != nil:
					t.Errorf("refused: %v", r.Refused)
				case test.says != "":
					mustBe(t, r.Refused, lock.ErrUnsupported)
					mustSay(t, r.Refused, test.says)
				}
				sameNodes(t, before, w.Dump("/"))
			})
		})
	}
}

// sameNodes fails the test unless there are the same nodes.
func sameNodes(t *testing.T, before, after []locktest.Node) {
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
		if got := w.Requests()["b"].Total(); got != 1 {
			t.Errorf("%d requests, want 1", got)
		}
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
	others := zk.DigestACL(zk.PermAll, "somebody", "else")
	for _, closed := range []string{"/", "/locks", "/zookeeper"} {
		t.Run(closed, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				z := w.raw("admin")
				if closed == "/locks" {
					if _, err := z.Create("/locks", nil, 0, others); err != nil {
						t.Fatal(err)
					}
				} else if _, err := z.SetACL(closed, others, -1); err != nil {
					t.Fatal(err)
				}
				a := w.dial("a")
				checked := closed == "/zookeeper"
				if logged := strings.Contains(w.logged(), "server not checked"); logged == checked {
					t.Errorf("said as not checked: %t", logged)
				}
				r, err := admin.CheckServer(w.ctx, a)
				if err != nil || r.Refused != nil || errors.Is(r.Unchecked, lock.ErrDenied) == checked {
					t.Errorf("CheckServer: %+v, %v", r, err)
				}
			})
		})
	}
}

// TestDialEndsDuringTheServersCheck: when the context ends, Dial does, within its bounds.
func TestDialEndsDuringTheServersCheck(t *testing.T) {
	for _, f := range []locktest.Fault{{Delay: time.Hour}, {DelayReply: time.Hour}, {Drop: locktest.AfterApply}} {
		simulate(t, locktest.Options{}, func(w *world) {
			w.Intercept(func(r locktest.Request) locktest.Fault {
				if r.Op == "multi" {
					return f
				}
				return locktest.Fault{}
			})
			ctx, cancel := context.WithTimeout(w.ctx, time.Second)
			defer cancel()
			began := time.Now()
			c, err := lock.Dial(ctx, w.Servers(), w.options("a")...)
			if c != nil {
				t.Error("a client")
			}
			mustBe(t, err, context.DeadlineExceeded, lock.ErrUnavailable)
			if took := time.Since(began); took > time.Second+200*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			w.Intercept(nil)
			synctest.Wait()
		})
	}
}

// TestServerCheckSurvivesLostReplies: the transaction is made again, and leaves nothing.
func TestServerCheckSurvivesLostReplies(t *testing.T) {
	for _, drop := range []locktest.Fault{{Drop: locktest.BeforeApply}, {Drop: locktest.AfterApply}, {Code: codeThrottled}} {
		simulate(t, locktest.Options{}, func(w *world) {
			w.fault(func(r locktest.Request) bool { return r.Op == "multi" }, drop)
			before := w.Dump("/")
			w.dial("a")
			sameNodes(t, before, w.Dump("/"))
		})
	}
}
