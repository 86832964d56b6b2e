package zkconn

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// write creates the node if it is missing, and writes it.
func (w *world) write(c *Conn, path string) {
	w.Helper()
	_, err := c.Multi(w.ctx, &zk.SetDataRequest{Path: path, Version: -1})
	if _, cause := RefusedOp(err); errors.Is(cause, zk.ErrNoNode) {
		_, err = c.Multi(w.ctx, &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll)})
	}
	iferr.Fatal(w, err)
}

// TestWatchIsShared: all waiters for a path share one watch until it fires, because go-zookeeper
// cannot remove single watches.
func TestWatchIsShared(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial(w.config("a"))
		w.write(c, "/x")
		watch := func() (Node, <-chan zk.Event) {
			n, events, err := c.Watch(w.ctx, "/x")
			iferr.Fatal(t, err)
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
		if _, events, err := c.Watch(w.ctx, "/y"); !errors.Is(err, zk.ErrNoNode) || events != nil {
			t.Errorf("%v", err)
		}
	})
}

// TestWatchesAreSwept: fired watches are forgotten, so that at most fewWatches are remembered.
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
			iferr.Fatal(t, err)
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

// TestWatchChildren: WatchChildren fires for created and deleted children, and WatchMissing for the
// creation of a missing node. Equal calls share a watch, but not with a watch of data.
func TestWatchChildren(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial(w.config("a"))
		missing := func() <-chan zk.Event {
			t.Helper()
			if _, _, _, err := c.WatchChildren(w.ctx, "/x"); !errors.Is(err, zk.ErrNoNode) {
				t.Errorf("%v", err)
			}
			events, err := c.WatchMissing(w.ctx, "/x")
			again, err2 := c.WatchMissing(w.ctx, "/x")
			if err != nil || err2 != nil || events != again || Fired(events) {
				t.Fatalf("%v, %v, the same watch: %v", err, err2, events == again)
			}
			return events
		}
		watch := func(want int) <-chan zk.Event {
			t.Helper()
			names, stat, events, err := c.WatchChildren(w.ctx, "/x")
			more, _, again, err2 := c.WatchChildren(w.ctx, "/x")
			if err != nil || err2 != nil || len(names) != want || len(more) != want || stat.NumChildren != int32(want) || again != events || Fired(events) {
				t.Fatalf("%q, %q, %v, %v, want %d", names, more, err, err2, want)
			}
			return events
		}
		events := missing()
		w.write(c, "/x")
		<-events
		if _, err := c.WatchMissing(w.ctx, "/x"); !errors.Is(err, zk.ErrNodeExists) {
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
			iferr.Fatal(t, iferr.Of(c.Multi(w.ctx, &zk.DeleteRequest{Path: path, Version: -1})))
		}
		remove("/x/1")
		<-events
		events = watch(0)
		remove("/x")
		<-events
		missing()
	})
}

func (w *world) watchData(c *Conn, path string) <-chan zk.Event {
	w.Helper()
	_, events, err := c.Watch(w.ctx, path)
	iferr.Fatal(w, err)
	return events
}

func firesWithin(events <-chan zk.Event, d time.Duration) bool {
	select {
	case <-events:
		return true
	// wall clock: all callers are in virtual time
	case <-time.After(d):
		return false
	}
}

// refuseWatches makes the servers refuse setWatches, as an overloaded server does.
func (w *world) refuseWatches() {
	const throttled = -127
	w.Intercept(func(r locktest.Request) (f locktest.Fault) {
		if r.Op == "setWatches" {
			f.Code = throttled
		}
		return f
	})
}

// TestWatchesFireWhenTheConnectionWasLost: watches of each kind fire although nothing has changed,
// whatever the server answers to setWatches. The waiters read again, and their new watches work. On
// a borrowed connection, only a longer loss is noticed.
func TestWatchesFireWhenTheConnectionWasLost(t *testing.T) {
	for _, own := range []bool{true, false} {
		for _, refused := range []bool{false, true} {
			simulate(t, locktest.Options{}, func(w *world) {
				c := w.conn(own, w.config("a"))
				w.write(c, "/x")
				if refused {
					w.refuseWatches()
				}
				for range 3 {
					_, _, children, err := c.WatchChildren(w.ctx, "/x")
					missing, err2 := c.WatchMissing(w.ctx, "/y")
					if err != nil || err2 != nil {
						t.Fatal(err, err2)
					}
					data := w.watchData(c, "/x")
					time.Sleep(lookAgain / 4)
					session := c.Session()
					if w.Stop(w.Servers()[0]); !own {
						time.Sleep(pollEvery)
					}
					w.Start(w.Servers()[0])
					for name, events := range map[string]<-chan zk.Event{"data": data, "children": children, "missing": missing} {
						if !firesWithin(events, 3*time.Second) {
							t.Errorf("own %v, refused %v: the watch on %s has not fired", own, refused, name)
						}
					}
					time.Sleep(2 * pollEvery) // a borrowed connection learns of its session late, and its watches fire once more
					data = w.watchData(c, "/x")
					if firesWithin(data, lookAgain/2) || c.Session() != session {
						t.Errorf("own %v: a watch that was armed on the new connection fires, or the session is another", own)
					}
					if w.write(c, "/x"); !firesWithin(data, time.Millisecond) {
						t.Errorf("own %v: a watch that was armed on the new connection does not fire", own)
					}
				}
				if n := w.Requests()["a"].Requests["setWatches"]; own && n > 0 {
					t.Errorf("%d setWatches have reached the server", n)
				}
			})
		}
	}
}

// TestNoWatchWaitsForEver: a watch that was lost on a healthy connection fires after about
// lookAgain, and the next watch works.
func TestNoWatchWaitsForEver(t *testing.T) {
	for _, own := range []bool{true, false} {
		simulate(t, locktest.Options{}, func(w *world) {
			c := w.conn(own, w.config("a"))
			w.write(c, "/x")
			for range 5 {
				events := w.watchData(c, "/x")
				w.LoseWatches("a")
				w.write(c, "/x")
				if firesWithin(events, lookAgain/2) {
					t.Errorf("own %v: a watch that was lost fires soon", own)
				}
				if !firesWithin(events, lookAgain*3/4+sessionTimeout/3) {
					t.Errorf("own %v: a watch that was lost does not fire", own)
				}
			}
			events := w.watchData(c, "/x")
			if w.write(c, "/x"); !firesWithin(events, time.Millisecond) {
				t.Errorf("own %v: what is armed anew does not fire", own)
			}
		})
	}
}

// TestWatchesTooLongForTheServer: if the watches of a client are too long for one request, they fire
// after a reconnect, and the session and the new connection last. go-zookeeper alone would send them in
// one request, at which the server closes the connection.
func TestWatchesTooLongForTheServer(t *testing.T) {
	simulate(t, locktest.Options{MaxFrame: 2000}, func(w *world) {
		c := w.dial(w.config("a"))
		var watches []<-chan zk.Event
		for i := range 100 {
			path := fmt.Sprintf("/%d-%s", i, strings.Repeat("x", 60))
			w.write(c, path)
			watches = append(watches, w.watchData(c, path))
		}
		session := c.Session()
		var cuts atomic.Int32
		w.Trace(func(ev locktest.Event) {
			if ev.Kind == "disconnect" {
				cuts.Add(1)
			}
		})
		w.Cut("a")
		for _, events := range watches {
			if !firesWithin(events, 3*time.Second) {
				t.Fatal("a watch has not fired")
			}
		}
		if _, err := c.Get(w.ctx, "/"); err != nil || cuts.Load() > 1 || c.Session() != session {
			t.Errorf("%v, %d disconnections, session %#x became %#x", err, cuts.Load(), session, c.Session())
		}
	})
}

// TestWatchesOfAnEndedSession: the watches of an ended session fire.
func TestWatchesOfAnEndedSession(t *testing.T) {
	for _, own := range []bool{true, false} {
		simulate(t, locktest.Options{}, func(w *world) {
			c := w.conn(own, w.config("a"))
			w.write(c, "/x")
			events := w.watchData(c, "/x")
			if w.ExpireLabel("a"); !firesWithin(events, 3*time.Second) {
				t.Errorf("own %v: the watch has not fired", own)
			}
		})
	}
}
