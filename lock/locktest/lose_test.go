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
