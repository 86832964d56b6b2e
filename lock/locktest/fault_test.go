package locktest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

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

// onRequest applies a fault to the first request with the label and the operation.
func onRequest(ens *locktest.Ensemble, label, op string, f locktest.Fault) {
	var once sync.Once
	ens.Intercept(func(r locktest.Request) (fault locktest.Fault) {
		if r.Label == label && r.Op == op {
			once.Do(func() { fault = f })
		}
		return fault
	})
}

func TestDrop(t *testing.T) {
	for drop, applied := range map[locktest.Drop]bool{locktest.BeforeApply: false, locktest.AfterApply: true} {
		synctest.Test(t, func(t *testing.T) {
			ens, c := start(t, locktest.Options{})
			onRequest(ens, "client", "create", locktest.Fault{Drop: drop})
			session := c.SessionID()
			if _, err := c.Create("/a", nil, 0, open); err != zk.ErrConnectionClosed {
				t.Errorf("create: %v, want ErrConnectionClosed", err)
			}
			if has(ens, "/a") != applied {
				t.Errorf("the node was made: %v, want %v", !applied, applied)
			}
			c.await(zk.StateDisconnected, zk.StateHasSession)
			if c.SessionID() != session {
				t.Error("the session did not outlive the connection")
			}
		})
	}
}

// TestDropLosesWhatFollows: requests that were sent after a dropped one are lost with it.
func TestDropLosesWhatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := connected(t)
		onRequest(ens, "client", "create", locktest.Fault{Drop: locktest.BeforeApply})
		c.Write(slices.Concat(
			frame(int32(1), int32(3), "/", false),
			frame(int32(2), int32(1), "/a", []byte{}, open, int32(0)),
			frame(int32(3), int32(1), "/b", []byte{}, open, int32(0))))
		if r := c.reply(); r.xid != 1 || r.code != 0 {
			t.Errorf("%v, want the reply to the request before", r)
		}
		if r := c.reply(); r.String() != "closed" {
			t.Errorf("%v, want the connection closed", r)
		}
		if has(ens, "/a") || has(ens, "/b") {
			t.Error("a node was made")
		}
	})
}

// TestErrorCode: if a request, or an operation of a transaction, has an error code, nothing is
// applied. The operations behind that one fail too, as on a real server.
func TestErrorCode(t *testing.T) {
	for _, f := range []locktest.Fault{{Code: -127}, {Code: -112, Op: 2}} {
		synctest.Test(t, func(t *testing.T) {
			ens, c := start(t, locktest.Options{})
			onRequest(ens, "client", "multi", f)
			before := ens.Transactions()
			replies, err := c.Multi(create("/a", 0), create("/b", 0), create("/c", 0))
			switch {
			case f.Op == 0 && (err == nil || !strings.Contains(err.Error(), "-127")):
				t.Errorf("multi: %v, want code -127", err)
			case f.Op == 2 && (!errors.Is(err, zk.ErrSessionExpired) || len(replies) != 3 || replies[0].Error != nil ||
				!errors.Is(replies[1].Error, zk.ErrSessionExpired) || replies[2].Error == nil):
				t.Errorf("multi: %+v, %v", replies, err)
			}
			if has(ens, "/a") || ens.Transactions() != before {
				t.Error("the request was applied")
			}
			mustCreate(t, c, "/a", 0) // the connection still works
		})
	}
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := start(t, locktest.Options{})
		other := connect(t, ens.Servers(), ens.Dialer("other"), 10*time.Second)
		onRequest(ens, "client", "create", locktest.Fault{Delay: 2 * time.Second})
		begin := time.Now()
		go func() {
			time.Sleep(time.Second)
			if ok, _, err := other.Exists("/a"); ok || err != nil {
				t.Errorf("after a second: exists %v, %v", ok, err)
			}
		}()
		behind := make(chan time.Duration)
		go func() {
			time.Sleep(time.Second / 2)
			c.Exists("/")
			behind <- time.Since(begin)
		}()
		mustCreate(t, c, "/a", 0)
		if d := time.Since(begin); d != 2*time.Second {
			t.Errorf("the create took %v, want 2s", d)
		}
		if d := <-behind; d != 2*time.Second {
			t.Errorf("the request behind it was done after %v, want 2s", d)
		}
		// The request was applied at the end of the delay, by the leader's clock.
		if ctime := ens.Dump("/a")[0].Stat.Ctime; ctime != begin.Add(2*time.Second).UnixMilli() {
			t.Errorf("ctime is %v", time.UnixMilli(ctime))
		}
	})
}

// TestDelayedPastTheConnection: a request that a member has received is applied although its
// connection has ended. The request is not applied if the session has ended, or has another connection.
func TestDelayedPastTheConnection(t *testing.T) {
	for how, want := range map[string]struct {
		applied bool
		note    string
	}{
		"cut":                  {true, "served when its connection had ended"},
		"closed by the client": {true, "served when its connection had ended"},
		"session ended":        {false, "never served: its connection had ended"},
		"session came back":    {false, "never served: its connection had ended"},
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ens, c := connected(t)
				var note string
				ens.Trace(func(ev locktest.Event) {
					if ev.Kind == "request" && ev.Number == 1 {
						note = ev.Note
					}
				})
				onRequest(ens, "client", "create", locktest.Fault{Delay: 2 * time.Second})
				c.send(1, 1, "/a", []byte{}, open, int32(0))
				c.send(2, 1, "/b", []byte{}, open, int32(0))
				switch how {
				case "cut":
					ens.Cut("client")
				case "closed by the client":
					c.Close()
				case "session ended":
					ens.ExpireLabel("client")
				case "session came back":
					ens.Cut("client")
					if again, err := c.again(ens.Dialer("client"), ens.Servers()...); err != nil || again.session != c.session {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
				if has(ens, "/a") || has(ens, "/b") {
					t.Error("applied before the delay was over")
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if has(ens, "/a") != want.applied || has(ens, "/b") != want.applied || note != want.note {
					t.Errorf("applied: %v and %v, %q, want %v, %q", has(ens, "/a"), has(ens, "/b"), note, want.applied, want.note)
				}
			})
		})
	}
}

func TestDelayReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := connected(t)
		onRequest(ens, "client", "create", locktest.Fault{DelayReply: 3 * time.Second})
		begin := time.Now()
		c.send(1, 1, "/a", []byte{}, open, int32(0))
		if !has(ens, "/a") {
			t.Error("the request was delayed, not the reply")
		}
		c.send(2, 3, "/", false)
		for xid := range int32(2) {
			if r := c.reply(); r.xid != xid+1 {
				t.Errorf("%v, want reply %d", r, xid+1)
			}
			if d := time.Since(begin); d != 3*time.Second {
				t.Errorf("reply %d came after %v, want 3s", xid+1, d)
			}
		}
	})
}

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
		if err := <-first; err != nil {
			t.Error(err)
		}
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

func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := start(t, locktest.Options{Latency: func(string, string) time.Duration { return 100 * time.Millisecond }})
		other := connect(t, ens.Servers(), ens.Dialer("other"), 10*time.Second)
		mustCreate(t, c, "/e", ephemeral)
		session, otherHandshakes := c.SessionID(), ens.Requests()["other"].Handshakes
		lost := make(chan error)
		go func() {
			_, err := c.Create("/lost", nil, 0, open)
			lost <- err
		}()
		synctest.Wait() // until the request is on its way
		ens.Cut("client")
		if err := <-lost; err != zk.ErrConnectionClosed {
			t.Errorf("create: %v, want ErrConnectionClosed", err)
		}
		c.await(zk.StateDisconnected, zk.StateHasSession)
		mustCreate(t, c, "/b", 0)
		if has(ens, "/lost") {
			t.Error("what was on its way arrived")
		}
		if c.SessionID() != session || !has(ens, "/e") {
			t.Error("the session did not outlive the cut")
		}
		mustCreate(t, other, "/c", 0)
		if ens.Requests()["other"].Handshakes != otherHandshakes {
			t.Error("another label's connection was cut")
		}
	})
}

func TestPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens := locktest.Start(t, locktest.Options{Members: 3})
		near, far := ens.Servers()[0], ens.Servers()[1]
		c := connect(t, []string{near}, ens.Dialer("client"), 9*time.Second)
		mustCreate(t, c, "/e", ephemeral)
		if err := ens.Partition("client", "nowhere"); err == nil {
			t.Error("partitioned from a member that there is not")
		}
		ens.Partition("client", far)
		mustCreate(t, c, "/a", 0) // through the other member

		begin := time.Now()
		ens.Partition("client", near)
		if _, err := c.Create("/b", nil, 0, open); err != zk.ErrConnectionClosed {
			t.Errorf("create over the partition: %v, want ErrConnectionClosed", err)
		}
		if d := time.Since(begin); d < 3*time.Second || d > 6*time.Second {
			// A client notices two thirds of the session timeout after the last message of the
			// server.
			t.Errorf("the client noticed after %v", d)
		}
		if has(ens, "/b") {
			t.Error("bytes crossed the partition")
		}
		if !has(ens, "/e") {
			t.Error("the session expired early")
		}
		time.Sleep(time.Until(begin.Add(9 * time.Second)))
		synctest.Wait()
		if has(ens, "/e") {
			t.Error("the session did not expire")
		}
		session := c.SessionID()
		ens.Heal("client")
		c.await(zk.StateExpired, zk.StateHasSession)
		if c.SessionID() == session {
			t.Error("an expired session was taken up again")
		}
	})
}

// TestPartitionHoldsWrites: a write that a client sends into a partition arrives when the partition
// heals, even if the client has given up its connection. So a write may be applied late.
func TestPartitionHoldsWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := connected(t)
		ens.Partition("client")
		c.send(1, 1, "/late", []byte{}, open, int32(0))
		c.Close()
		time.Sleep(time.Minute)
		if has(ens, "/late") {
			t.Error("bytes crossed the partition")
		}
		ens.Heal("client")
		if !has(ens, "/late") {
			t.Error("what was held did not arrive")
		}
	})
}

func TestFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := start(t, locktest.Options{})
		other := connect(t, ens.Servers(), ens.Dialer("other"), 10*time.Second)
		mustCreate(t, c, "/a", 0)
		mustCreate(t, c, "/e", ephemeral)
		_, _, watch, err := c.GetW("/a")
		if err != nil {
			t.Fatal(err)
		}
		handshakes := ens.Requests()["client"].Handshakes

		ens.Freeze("client")
		time.Sleep(8 * time.Second) // longer than the client's limit for a Read
		if _, err := other.Set("/a", nil, -1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case ev := <-watch:
			t.Errorf("%v came to a frozen client", ev)
		default:
		}
		ens.Thaw("client")
		if ev := <-watch; ev.Type != zk.EventNodeDataChanged {
			t.Errorf("%v, want the change", ev)
		}
		if n := ens.Requests()["client"].Handshakes; n != handshakes || !has(ens, "/e") {
			t.Errorf("%d handshakes, want %d: the connection should have outlived the pause", n, handshakes)
		}

		ens.Freeze("client")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if has(ens, "/e") {
			t.Error("a frozen client's session did not expire")
		}
		if c.State() != zk.StateHasSession {
			t.Errorf("a frozen client noticed something: %v", c.State())
		}
		session := c.SessionID()
		ens.Thaw("client")
		c.await(zk.StateExpired, zk.StateHasSession)
		if c.SessionID() == session {
			t.Error("an expired session was taken up again")
		}
	})
}

func TestFreezeDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens := locktest.Start(t, locktest.Options{})
		ens.Freeze("client")
		begin := time.Now()
		time.AfterFunc(time.Minute, func() { ens.Thaw("client") })
		if _, err := ens.Dialer("client")("tcp", ens.Servers()[0], time.Second); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("dial: %v after %v, want to connect when thawed", err, time.Since(begin))
		}
	})
}

func TestLatencyKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := connected(t)
		latencies := []time.Duration{5 * time.Second, 0, 3 * time.Second, 0}
		ens.SetLatency(func(label, member string) (d time.Duration) {
			if label != "client" || member != ens.Servers()[0] {
				t.Errorf("asked for the latency between %q and %q", label, member)
			}
			if len(latencies) > 0 {
				d, latencies = latencies[0], latencies[1:]
			}
			return d
		})
		begin := time.Now()
		c.send(1, 1, "/a", []byte{}, open, int32(0)) // takes 5s; its reply takes no time
		time.Sleep(time.Second)
		c.send(2, 5, "/a", []byte("x"), int32(0)) // would overtake the create
		c.send(3, 3, "/a", false)                 // takes 3s, so it arrives before the create
		for xid := range int32(3) {
			if r := c.reply(); r.xid != xid+1 || r.code != 0 {
				t.Errorf("%v, want reply %d", r, xid+1)
			}
			if d := time.Since(begin); d != 5*time.Second {
				t.Errorf("reply %d came after %v, want 5s", xid+1, d)
			}
		}
	})
}

func TestExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := start(t, locktest.Options{})
		other := connect(t, ens.Servers(), ens.Dialer("other"), 10*time.Second)
		mustCreate(t, c, "/e", ephemeral)
		mustCreate(t, other, "/f", ephemeral)
		_, _, watch, err := c.GetW("/f")
		if err != nil {
			t.Fatal(err)
		}
		if n := ens.ExpireLabel("client"); n != 1 || has(ens, "/e") || !has(ens, "/f") {
			t.Errorf("ended %d sessions, want that of the client", n)
		}
		if ev := <-watch; ev.Err != zk.ErrSessionExpired {
			t.Errorf("%+v, want the session's end", ev)
		}
		c.await(zk.StateExpired, zk.StateHasSession)
		mustCreate(t, c, "/g", ephemeral)
		if n := ens.ExpireLabel("client"); n != 1 || has(ens, "/g") {
			t.Errorf("ended %d sessions, want 1", n)
		}
		if n := ens.ExpireLabel("absent"); n != 0 {
			t.Errorf("ended %d sessions of an unknown label", n)
		}
	})
}

// mustGoAfter checks that an ephemeral node is deleted in exactly the given time.
func mustGoAfter(t *testing.T, ens *locktest.Ensemble, path string, after time.Duration) {
	t.Helper()
	time.Sleep(after - time.Nanosecond)
	synctest.Wait()
	if !has(ens, path) {
		t.Errorf("the session of %s ended early", path)
	}
	time.Sleep(time.Nanosecond)
	synctest.Wait()
	if has(ens, path) {
		t.Errorf("the session of %s did not end", path)
	}
}

// TestSessionTimeout: a session ends exactly its timeout after the last message of its client.
func TestSessionTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens := locktest.Start(t, locktest.Options{})
		c := rawAt(t, ens, ens.Servers()[0])
		c.must(1, "/e", []byte{}, open, int32(1))
		for range 5 {
			time.Sleep(7 * time.Second)
			c.must(3, "/e", false)
		}
		mustGoAfter(t, ens, "/e", 10*time.Second)
	})
}

// TestSessionTimeoutOfLaterConnection: each connection of a session negotiates the timeout, and the
// latest one counts.
func TestSessionTimeoutOfLaterConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := connected(t)
		c.must(1, "/e", []byte{}, open, int32(1))
		c.timeout = 5 * time.Second
		if next, err := c.again(ens.Dialer("client"), ens.Servers()...); err != nil || next.timeout != 5*time.Second {
			t.Errorf("handshake: %v, timeout %v", err, next.timeout)
		}
		mustGoAfter(t, ens, "/e", 5*time.Second)
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

func TestSetSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := start(t, locktest.Options{Members: 3})
		mustCreate(t, c, "/p", 0)
		if err := ens.SetSequence("/p", 2147483646); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"/p/a-2147483646", "/p/b-2147483647", "/p/c-2147483647"} {
			got, err := c.Create(want[:5], nil, sequence, open)
			if err != nil || got != want {
				t.Errorf("create: %q, %v; want %q", got, err, want)
			}
		}
		if err := ens.SetSequence("/none", 1); err == nil || !strings.Contains(err.Error(), "/none") {
			t.Errorf("of no node: %v", err)
		}
		if err := ens.SetSequence("/p", -1); err == nil || !strings.Contains(err.Error(), "-1") {
			t.Errorf("to -1: %v", err)
		}
	})
}

func TestSetConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const path = "/zookeeper/config"
		ens, c := start(t, locktest.Options{Members: 3})
		data, stat, changed, err := c.GetW(path)
		if err != nil || len(data) > 0 {
			t.Fatalf("at first it is %q, %v", data, err)
		}
		if err := ens.SetConfig("version=1"); err != nil {
			t.Fatal(err)
		}
		if e := <-changed; e.Type != zk.EventNodeDataChanged {
			t.Errorf("event %+v", e)
		}
		if data, after, err := c.Get(path); err != nil || string(data) != "version=1" || after.Mzxid <= stat.Mzxid {
			t.Errorf("%q, %+v, %v", data, after, err)
		}
		if _, err := c.Set(path, nil, -1); err != zk.ErrNoAuth {
			t.Errorf("a client's write: %v", err)
		}
		for _, s := range ens.Servers() {
			ens.Stop(s)
		}
		if err := ens.SetConfig("version=2"); err == nil {
			t.Error("a transaction without a leader")
		}
		ens, _ = start(t, locktest.Options{Quirks: locktest.Quirks{Keeper: true}})
		if err := ens.SetConfig("version=1"); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("of no node: %v", err)
		}
	})
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
