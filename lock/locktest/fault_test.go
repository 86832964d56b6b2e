package locktest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// start starts an ensemble, and a client of it with the label "client".
func start(t *testing.T, opts locktest.Options) (*locktest.Ensemble, *client) {
	t.Helper()
	ens := locktest.Start(t, opts)
	return ens, connect(t, ens.Servers(), ens.Dialer("client"), 10*time.Second)
}

func mustCreate(t testing.TB, c *client, path string, flags int32) {
	t.Helper()
	if _, err := c.Create(path, nil, flags, open); err != nil {
		t.Fatalf("create %s: %v", path, err)
	}
}

// has reports whether the node exists in the ensemble.
func has(ens *locktest.Ensemble, path string) bool { return len(ens.Dump(path)) > 0 }

func TestInterceptSees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := start(t, locktest.Options{})
		var seen []locktest.Request
		ens.Intercept(func(r locktest.Request) locktest.Fault {
			seen = append(seen, r)
			ens.Dump("/") // the hook may call the ensemble
			return locktest.Fault{}
		})
		mustCreate(t, c, "/a", 0)
		c.Get("/a")
		c.Multi(create("/b", 0), del("/a", -1))
		time.Sleep(time.Minute) // the hook is not called for pings
		ens.Intercept(nil)
		c.Get("/b")
		for i := range seen {
			if seen[i].Label != "client" || seen[i].Session != c.SessionID() || seen[i].Member != ens.Servers()[0] {
				t.Errorf("%+v", seen[i])
			}
			seen[i].Label, seen[i].Member, seen[i].Session = "", "", 0
		}
		want := "[{ 0  create [/a] 1} { 0  getData [/a] 2} { 0  multi [/b /a] 3}]"
		if got := fmt.Sprint(seen); got != want {
			t.Errorf("seen: %s, want %s", got, want)
		}
	})
}

// TestInterceptKeepsOrder: while a hook handles a request, later requests of its connection wait,
// and requests of other connections do not.
func TestInterceptKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := connected(t)
		other := connect(t, ens.Servers(), ens.Dialer("other"), 10*time.Second)
		var order []int
		ens.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Label == "client" && r.Number == 1 {
				time.Sleep(time.Second)
			}
			if r.Label == "client" {
				order = append(order, r.Number)
			}
			return locktest.Fault{}
		})
		begin := time.Now()
		first := make(chan error)
		go func() { first <- c.send(1, 1, "/a", []byte{}, open, int32(0)) }()
		synctest.Wait()
		c.send(2, 5, "/a", []byte{}, int32(0))
		c.send(3, 2, "/a", int32(1))
		mustCreate(t, other, "/b", 0)
		if d := time.Since(begin); d != 0 {
			t.Errorf("another client waited for %v", d)
		}
		iferr.Error(t, <-first)
		for xid := range int32(3) {
			if r := c.reply(); r.xid != xid+1 || r.code != 0 {
				t.Errorf("%v, want reply %d", r, xid+1)
			}
		}
		if !slices.Equal(order, []int{1, 2, 3}) {
			t.Errorf("asked about requests %v", order)
		}
	})
}

// TestInterceptThatEnds: a hook may end its goroutine, as t.FailNow does, or panic. The ensemble
// still works.
func TestInterceptThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := connected(t)
		ens.Intercept(func(locktest.Request) locktest.Fault { panic("the hook's") })
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			c.send(1, 3, "/", false)
		}()
		ens.Intercept(nil)
		c.send(2, 3, "/", false)
		if r := c.reply(); r.xid != 2 || r.code != 0 {
			t.Errorf("%v, want the reply to the next request", r)
		}
	})
}

func TestSessionTimeoutBounds(t *testing.T) {
	for _, tt := range []struct {
		opts        locktest.Options
		asked, want time.Duration
	}{
		{locktest.Options{}, 5 * time.Millisecond, 5 * time.Millisecond},
		{locktest.Options{}, 0, time.Millisecond},
		{locktest.Options{}, 24 * time.Hour, 24 * time.Hour},
		{locktest.Options{TickTime: time.Second}, 500 * time.Millisecond, 2 * time.Second},
		{locktest.Options{TickTime: time.Second}, time.Minute, 20 * time.Second},
		{locktest.Options{TickTime: time.Second, MinSessionTimeout: time.Second}, 500 * time.Millisecond, time.Second},
		{locktest.Options{MaxSessionTimeout: 3 * time.Second}, 4 * time.Second, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ens := locktest.Start(t, tt.opts)
			c := dialRaw(t, ens.Servers(), ens.Dial)
			if err := c.handshake(tt.asked); err != nil || c.timeout != tt.want {
				t.Errorf("%+v: asked for %v, got %v, %v; want %v", tt.opts, tt.asked, c.timeout, err, tt.want)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := start(t, locktest.Options{})
		before := ens.Transactions()
		mustCreate(t, c, "/a", 0)
		c.Create("/a", nil, 0, open)
		c.Get("/a")
		time.Sleep(10 * time.Second)
		got := ens.Requests()["client"]
		if got.Requests["create"] != 2 || got.Requests["getData"] != 1 || got.Total() != 3 || got.Handshakes != 1 || got.Pings != 3 {
			t.Errorf("%+v", got)
		}
		if n := ens.Transactions() - before; n != 2 {
			t.Errorf("%d transactions, want 2", n)
		}
		// In bytes: headers of 8 and 16, lengths of 4; a handshake of 44 and 36.
		create := 12 + 4 + 2 + 4 + 4 + 4 + 4 + 5 + 4 + 6 + 4
		if want := int64(4 + 44 + 2*create + 12 + 4 + 2 + 1 + 3*12); got.BytesFromClient != want {
			t.Errorf("%d bytes from the client, want %d", got.BytesFromClient, want)
		}
		if want := int64(4 + 36 + 20 + 4 + 2 + 20 + 20 + 4 + 68 + 3*20); got.BytesToClient != want {
			t.Errorf("%d bytes to the client, want %d", got.BytesToClient, want)
		}
	})
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, tt := range []struct {
		opts locktest.Options
		want string
	}{
		{locktest.Options{Members: -1}, "Members is -1"},
		{locktest.Options{Members: 255}, "Members is 255"},
		{locktest.Options{TickTime: -1}, "TickTime is -1ns"},
		{locktest.Options{MinSessionTimeout: -1}, "MinSessionTimeout is -1ns"},
		{locktest.Options{MaxSessionTimeout: -1}, "MaxSessionTimeout is -1ns"},
		{locktest.Options{ElectionTime: -1}, "ElectionTime is -1ns"},
		{locktest.Options{MinSessionTimeout: 2, MaxSessionTimeout: 1}, "MaxSessionTimeout is 1ns"},
	} {
		if _, err := locktest.New(tt.opts); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want an error that says %q", tt.opts, err, tt.want)
		}
	}
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := connected(t)
		ens.Intercept(func(locktest.Request) locktest.Fault { return locktest.Fault{Delay: time.Second} })
		c.send(1, 1, "/a", []byte{}, open, int32(0))
		ens.Close()
		ens.Close()
		if r := c.reply(); r.String() != "closed" {
			t.Errorf("%v, want the connection closed", r)
		}
		if err := c.send(2, 1, "/b", []byte{}, open, int32(0)); err == nil {
			t.Error("a write after the end succeeded")
		}
		time.Sleep(time.Hour)
		if has(ens, "/a") || has(ens, "/b") {
			t.Error("a request was applied after the end")
		}
		if _, err := ens.Dial("tcp", ens.Servers()[0], time.Second); err == nil {
			t.Error("dialled after the end")
		}
		ens.Cut("client")
		ens.Heal("client")
		ens.ExpireLabel("client")
		ens.StopLeader()
	})
}
