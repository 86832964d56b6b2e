package locktest_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

func watch(t *testing.T, c *client, path string) <-chan zk.Event {
	t.Helper()
	_, _, events, err := c.GetW(path)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func write(t *testing.T, c *client, path string) {
	t.Helper()
	if _, err := c.Set(path, nil, -1); err != nil {
		t.Fatal(err)
	}
}

// fires reports whether a watch fires within a minute.
func fires(events <-chan zk.Event) bool {
	select {
	case e := <-events:
		return e.Err == nil
	case <-time.After(time.Minute):
		return false
	}
}

// TestLoseWatches: a lost watch does not fire. A watch that is set later does.
func TestLoseWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := start(t, locktest.Options{})
		mustCreate(t, c, "/x", 0)
		lost := watch(t, c, "/x")
		if n := ens.LoseWatches("other") + ens.LoseWatches("client"); n != 1 {
			t.Errorf("%d watches are lost", n)
		}
		write(t, c, "/x")
		if fires(lost) {
			t.Error("a lost watch fires")
		}
		again := watch(t, c, "/x")
		if write(t, c, "/x"); !fires(again) {
			t.Error("a watch that was set later does not fire")
		}
	})
}

// TestRefusedSetWatches: if the server refuses setWatches, go-zookeeper continues without its
// watches.
func TestRefusedSetWatches(t *testing.T) {
	for _, code := range []int32{0, -127} {
		synctest.Test(t, func(t *testing.T) {
			ens, c := start(t, locktest.Options{})
			mustCreate(t, c, "/x", 0)
			events := watch(t, c, "/x")
			onRequest(ens, "client", "setWatches", locktest.Fault{Code: code})
			ens.Cut("client")
			c.await(zk.StateDisconnected, zk.StateHasSession)
			if write(t, c, "/x"); fires(events) != (code == 0) {
				t.Errorf("setWatches was answered with %d: the watch fires: %v", code, code != 0)
			}
		})
	}
}

// TestForget: after Forget there are no nodes. A go-zookeeper client that has seen later
// transactions is refused at each attempt, and a new client can create nodes.
func TestForget(t *testing.T) {
	for _, members := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			ens, c := start(t, locktest.Options{Members: members})
			for _, path := range []string{"/x", "/x/y", "/z"} {
				mustCreate(t, c, path, 0)
			}
			if members == 3 { // in the new epoch 1 there are fewer transactions than in the old one
				write(t, c, "/x")
			}
			var refused atomic.Int32
			ens.Trace(func(ev locktest.Event) {
				if strings.Contains(ev.String(), "later transaction") {
					refused.Add(1)
				}
			})
			ens.Forget()
			c.await(zk.StateDisconnected)
			time.Sleep(time.Minute)
			if c.State() == zk.StateHasSession || refused.Load() < 10 || has(ens, "/x") {
				t.Errorf("%d members: state %v, refused %d times, /x is there: %v", members, c.State(), refused.Load(), has(ens, "/x"))
			}
			other := connect(t, ens.Servers(), ens.Dialer("other"), 10*time.Second)
			if mustCreate(t, other, "/x", 0); !has(ens, "/x") {
				t.Error("nothing can be made after that")
			}
		})
	}
}

// TestMaxFrame: a request that exceeds the members' limit cuts the connection.
func TestMaxFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, locktest.Options{MaxFrame: 1000})
		mustCreate(t, c, "/x", 0)
		if _, err := c.Set("/x", make([]byte, 900), -1); err != nil {
			t.Error(err)
		}
		if _, err := c.Set("/x", make([]byte, 1000), -1); err != zk.ErrConnectionClosed {
			t.Errorf("a request that is too long: %v", err)
		}
	})
}
