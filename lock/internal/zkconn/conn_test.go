package zkconn

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestCalls: each call has the result of go-zookeeper's call. After Close it returns ErrClosed.
func TestCalls(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial(w.config("a"))
		if !c.Owned() || c.Session() == 0 || c.LastOutage() != -1 {
			t.Errorf("owned %v, session %#x, last outage %v", c.Owned(), c.Session(), c.LastOutage())
		}
		acl := zk.WorldACL(zk.PermAll)
		replies, err := c.Multi(w.ctx,
			&zk.CreateRequest{Path: "/a", Acl: acl},
			&zk.CreateRequest{Path: "/a/b-", Acl: acl, Flags: zk.FlagSequence},
			&zk.SetDataRequest{Path: "/a", Data: []byte("x"), Version: 0},
			&zk.CheckVersionRequest{Path: "/a", Version: 1})
		if err != nil || len(replies) != 4 || replies[1].String != "/a/b-0000000000" || replies[2].Stat.Version != 1 {
			t.Fatalf("%+v, %v", replies, err)
		}
		if n, err := c.Get(w.ctx, "/a"); err != nil || string(n.Data) != "x" || n.Stat.NumChildren != 1 {
			t.Errorf("get: %+v, %v", n, err)
		}
		if s, err := c.Exists(w.ctx, "/a"); err != nil || s.Version != 1 {
			t.Errorf("exists: %+v, %v", s, err)
		}
		_, err = c.Exists(w.ctx, "/b")
		mustBe(t, err, zk.ErrNoNode)
		if names, s, err := c.Children(w.ctx, "/a"); err != nil || len(names) != 1 || s.NumChildren != 1 {
			t.Errorf("children: %q, %+v, %v", names, s, err)
		}
		iferr.Error(t, c.Sync(w.ctx, "/a"))
		_, err = c.Multi(w.ctx, &zk.CheckVersionRequest{Path: "/a/b-0000000000", Version: -1}, &zk.CheckVersionRequest{Path: "/a", Version: 0}, &zk.DeleteRequest{Path: "/a", Version: -1})
		if op, cause := RefusedOp(err); op != 1 || cause != zk.ErrBadVersion || OutcomeOf(err) != Refused {
			t.Errorf("%v", err)
		}
		// A single write or delete is sent without a transaction.
		if replies, err := c.Multi(w.ctx, &zk.SetDataRequest{Path: "/a", Version: 1}); err != nil || len(replies) != 1 || replies[0].Stat.Version != 2 {
			t.Errorf("%+v, %v", replies, err)
		}
		_, err = c.Multi(w.ctx, &zk.DeleteRequest{Path: "/a", Version: 2})
		if op, cause := RefusedOp(err); op != 0 || cause != zk.ErrNotEmpty {
			t.Errorf("%v", err)
		}
		if n := w.Requests()["a"].Requests; n["setData"] != 1 || n["delete"] != 1 || n["multi"] != 2 {
			t.Errorf("requests %v", n)
		}
		iferr.Error(t, c.Close(time.Second))
		_, err = c.Get(w.ctx, "/a")
		mustBe(t, err, ErrClosed)
		_, err = c.Multi(w.ctx, &zk.DeleteRequest{Path: "/a", Version: 2})
		if mustBe(t, err, ErrClosed); OutcomeOf(err) != Refused {
			t.Errorf("%v is %v", err, OutcomeOf(err))
		}
		if n := w.Requests()["a"].Requests["closeSession"]; n != 1 {
			t.Errorf("the session was closed %d times", n)
		}
	})
}
