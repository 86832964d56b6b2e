package zkconn

import (
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

// write makes the node if it is not there, and writes it.
func (w *world) write(c *Conn, path string) {
	w.Helper()
	_, err := c.Multi(w.ctx, nil, &zk.SetDataRequest{Path: path, Version: -1})
	if _, cause := RefusedOp(err); cause == zk.ErrNoNode {
		_, err = c.Multi(w.ctx, nil, &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll)})
	}
	if err != nil {
		w.Fatal(err)
	}
}

// TestWatchIsShared by all who wait for a path, until it fires: go-zookeeper could
// not take more of them back.
func TestWatchIsShared(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial(w.config("a"))
		w.write(c, "/x")
		watch := func() (Node, <-chan zk.Event) {
			n, events, err := c.Watch(w.ctx, "/x")
			if err != nil {
				t.Fatal(err)
			}
			return n, events
		}
		first, events := watch()
		if again, shared := watch(); shared != events || again.Stat.Mzxid != first.Stat.Mzxid {
			t.Error("the second one has a watch of its own")
		}
		w.write(c, "/x")
		<-events
		if again, renewed := watch(); renewed == events || again.Stat.Version != first.Stat.Version+1 {
			t.Errorf("version %d after version %d, the same watch: %v", again.Stat.Version, first.Stat.Version, renewed == events)
		}
		if _, events, err := c.Watch(w.ctx, "/y"); err != zk.ErrNoNode || events != nil {
			t.Errorf("%v", err)
		}
	})
}

// TestWatchesAreSwept: of those that have fired, not all are remembered.
func TestWatchesAreSwept(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial(w.config("a"))
		w.write(c, "/stays")
		if _, _, err := c.Watch(w.ctx, "/stays"); err != nil {
			t.Fatal(err)
		}
		for i := range 10 * fewWatches {
			path := fmt.Sprint("/x", i)
			w.write(c, path)
			_, events, err := c.Watch(w.ctx, path)
			if err != nil {
				t.Fatal(err)
			}
			w.write(c, path)
			<-events
		}
		if n := c.Watches(); n > fewWatches {
			t.Errorf("%d watches are remembered", n)
		}
		if n := w.Requests()["a"].Requests["getData"]; n != 10*fewWatches+1 {
			t.Errorf("%d reads", n)
		}
	})
}

// TestWatchChildren tells of children that come and go, and WatchMissing of a node
// that is not there when it is made. The watches are shared, and not those of the data.
func TestWatchChildren(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial(w.config("a"))
		missing := func() <-chan zk.Event {
			t.Helper()
			if _, _, err := c.WatchChildren(w.ctx, "/x"); err != zk.ErrNoNode {
				t.Errorf("%v", err)
			}
			events, err := c.WatchMissing(w.ctx, "/x")
			again, err2 := c.WatchMissing(w.ctx, "/x")
			if err != nil || err2 != nil || events != again || fired(events) {
				t.Fatalf("%v, %v, the same watch: %v", err, err2, events == again)
			}
			return events
		}
		watch := func(want int) <-chan zk.Event {
			t.Helper()
			names, events, err := c.WatchChildren(w.ctx, "/x")
			more, again, err2 := c.WatchChildren(w.ctx, "/x")
			if err != nil || err2 != nil || len(names) != want || len(more) != want || again != events || fired(events) {
				t.Fatalf("%q, %q, %v, %v, want %d", names, more, err, err2, want)
			}
			return events
		}
		events := missing()
		w.write(c, "/x")
		<-events
		if _, err := c.WatchMissing(w.ctx, "/x"); err != zk.ErrNodeExists {
			t.Errorf("%v", err)
		}
		events = watch(0)
		if _, data, err := c.Watch(w.ctx, "/x"); err != nil || data == events {
			t.Errorf("the watch of the data is that of the children: %v", err)
		}
		w.write(c, "/x")
		w.write(c, "/x/1")
		<-events
		events = watch(1)
		remove := func(path string) {
			t.Helper()
			if _, err := c.Multi(w.ctx, nil, &zk.DeleteRequest{Path: path, Version: -1}); err != nil {
				t.Fatal(err)
			}
		}
		remove("/x/1")
		<-events
		events = watch(0)
		remove("/x")
		<-events
		missing()
	})
}
