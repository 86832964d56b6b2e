package queue

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestMissingEntryProvesNothing of the parent that it stood below, even of one that is to
// stay: the reply to its delete is lost, and as it is sent again, the parent was deleted
// and made anew, up to the version that is known, by somebody else. What comes next does
// not write it.
func TestMissingEntryProvesNothing(t *testing.T) {
	simulate(t, "", func(w *office) {
		r := Request{
			Lock: "x", Kind: znode.Mutex, Values: w.Ctx, KeepParent: true,
			Terms: lease.Terms{TTL: 30 * time.Second, Grace: time.Second},
		}
		e, err := w.Acquire(w.Ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		parent, _ := w.Node(e.parent())
		sent := 0
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Label != "a" || !slices.Contains(r.Paths, e.Path) || r.Op == "getData" {
				return locktest.Fault{}
			}
			if sent++; sent == 1 {
				return locktest.Fault{Drop: locktest.AfterApply}
			}
			ops := []any{
				&zk.DeleteRequest{Path: e.parent(), Version: parent.Stat.Version},
				&zk.CreateRequest{Path: e.parent(), Acl: world},
			}
			for range parent.Stat.Version {
				ops = append(ops, &zk.SetDataRequest{Path: e.parent(), Data: []byte("not a lock"), Version: -1})
			}
			if _, err := w.other.Multi(w.Ctx, nil, ops...); err != nil {
				t.Error(err)
			}
			return locktest.Fault{}
		})
		if _, why := e.Unlock(); why != nil {
			t.Fatal(why)
		}
		if err := w.Leave(w.Ctx, e); err != nil {
			t.Error(err)
		}
		if sent != 2 {
			t.Fatalf("the delete was sent %d times", sent)
		}
		if _, err := w.Acquire(w.Ctx, r); !errors.Is(err, ErrForeign) {
			t.Errorf("lock: %v", err)
		}
		if n, _ := w.Node(e.parent()); string(n.Data) != "not a lock" {
			t.Errorf("somebody else's node holds %s", n.Data)
		}
	})
}
