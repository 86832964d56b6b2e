package locktest_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

// three starts an ensemble of three members, and returns the leader and the followers.
func three(t *testing.T, opts locktest.Options) (ens *locktest.Ensemble, leader string, followers []string) {
	t.Helper()
	opts.Members = 3
	ens = locktest.Start(t, opts)
	leader = ens.Leader()
	followers = slices.DeleteFunc(ens.Servers(), func(m string) bool { return m == leader })
	if leader == "" || len(followers) != 2 {
		t.Fatalf("leader %q, followers %q", leader, followers)
	}
	return ens, leader, followers
}

func at(t *testing.T, ens *locktest.Ensemble, label string, servers ...string) *client {
	t.Helper()
	return connect(t, servers, ens.Dialer(label), 10*time.Second)
}

func rawAt(t *testing.T, ens *locktest.Ensemble, server string) *rawConn {
	t.Helper()
	c := dialRaw(t, []string{server}, ens.Dialer("raw"))
	if err := c.handshake(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	return c
}

func exists(t *testing.T, c *client, path string) bool {
	t.Helper()
	ok, _, err := c.Exists(path)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, leader, followers := three(t, locktest.Options{})
		writer, fresh, stale := at(t, ens, "w", leader), at(t, ens, "f", followers[0]), at(t, ens, "s", followers[1])
		if err := ens.Lag(followers[1], 3*time.Second); err != nil {
			t.Fatal(err)
		}
		_, _, watch, err := stale.ExistsW("/a")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		mustCreate(t, writer, "/a", 0)
		if !exists(t, fresh, "/a") {
			t.Error("the follower that keeps up does not")
		}
		if exists(t, stale, "/a") {
			t.Error("the follower that lags does not")
		}
		<-watch
		if d := time.Since(begin); d != 3*time.Second || !exists(t, stale, "/a") {
			t.Errorf("the watch fired after %v, want 3s", d)
		}

		// A sync waits until the member has all earlier transactions.
		begin = time.Now()
		mustCreate(t, writer, "/b", 0)
		time.Sleep(time.Second)
		mustCreate(t, writer, "/c", 0)
		time.Sleep(time.Second)
		if _, err := stale.Sync("/"); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d != 4*time.Second || !exists(t, stale, "/c") {
			t.Errorf("the sync took until %v, want 4s", d)
		}

		// The member answers a write when it has applied it. A later read of the same client sees
		// it.
		begin = time.Now()
		read := make(chan time.Duration)
		go func() {
			time.Sleep(time.Second)
			if !exists(t, stale, "/d") {
				t.Error("a read did not see the write before it")
			}
			read <- time.Since(begin)
		}()
		mustCreate(t, stale, "/d", 0)
		if d := time.Since(begin); d != 3*time.Second {
			t.Errorf("the write took %v, want 3s", d)
		}
		if d := <-read; d != 3*time.Second {
			t.Errorf("the read behind it took until %v, want 3s", d)
		}
		if ctime := ens.Dump("/d")[0].Stat.Ctime; ctime != begin.UnixMilli() {
			t.Errorf("ctime is %v, want when the leader made the transaction", time.UnixMilli(ctime))
		}

		mustCreate(t, writer, "/e", 0)
		if exists(t, stale, "/e") {
			t.Error("the follower does not lag")
		}
		if err := ens.Lag(followers[1], 0); err != nil {
			t.Fatal(err)
		}
		if !exists(t, stale, "/e") {
			t.Error("the follower did not catch up")
		}
		ens.Lag(followers[1], time.Hour)
		mustCreate(t, writer, "/f", 0)
		ens.Lag(followers[1], time.Second)
		begin = time.Now()
		stale.Sync("/")
		if d := time.Since(begin); d != time.Second {
			t.Errorf("after the lag was cut to 1s the sync took %v", d)
		}

		if err := ens.Lag("absent", 0); err == nil || !strings.Contains(err.Error(), `"absent"`) {
			t.Errorf("Lag of an unknown member: %v", err)
		}
		if err := ens.Lag(leader, -1); err == nil {
			t.Error("a negative lag was taken")
		}
	})
}

// TestLagPipelines: consecutive writes of a client do not add up their lags.
func TestLagPipelines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, _, followers := three(t, locktest.Options{})
		c := rawAt(t, ens, followers[0])
		ens.Lag(followers[0], time.Second)
		begin := time.Now()
		for xid := range int32(5) {
			c.send(xid, 1, "/n-", []byte{}, open, int32(2))
		}
		for xid := range int32(5) {
			if r := c.reply(); r.xid != xid || r.code != 0 {
				t.Errorf("%v, want reply %d", r, xid)
			}
		}
		if d := time.Since(begin); d != time.Second {
			t.Errorf("five writes took %v, want 1s", d)
		}
	})
}

// TestStaleMemberRefuses: a member refuses a client that has seen later data, until the member has
// caught up.
func TestStaleMemberRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, leader, followers := three(t, locktest.Options{})
		c := rawAt(t, ens, leader)
		ens.Lag(followers[0], 5*time.Second)
		c.must(1, "/a", []byte{}, open, int32(0))
		again := func(server string) error {
			_, err := c.again(ens.Dialer("raw"), server)
			return err
		}
		if err := again(followers[0]); !isClosed(err) {
			t.Errorf("at the member that lags: %v, want the connection closed", err)
		}
		if err := again(followers[1]); err != nil {
			t.Errorf("at the member that does not: %v", err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if err := again(followers[0]); err != nil {
			t.Errorf("when it has caught up: %v", err)
		}
	})
}

// TestSessionMoved: a member closes the connection of a session that has moved to another member:
// the leader at any request, a follower at a write.
func TestSessionMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, leader, followers := three(t, locktest.Options{})
		for _, from := range []string{leader, followers[0]} {
			c := rawAt(t, ens, from)
			next, err := c.again(ens.Dialer("raw"), followers[1])
			if err != nil {
				t.Fatal(err)
			}
			c.send(1, 3, "/", false)
			if r := c.reply(); from == leader && r.String() != "closed" || from != leader && r.code != 0 {
				t.Errorf("a read at the old member: %v; a follower does not know, the leader does", r)
			}
			c.send(2, 1, "/a", []byte{}, open, int32(0))
			if r := c.reply(); r.String() != "closed" {
				t.Errorf("a write at the old member: %v, want the connection closed", r)
			}
			if has(ens, "/a") {
				t.Error("it was applied")
			}
			next.must(1, "/b", []byte{}, open, int32(0))
			next.must(2, "/b", int32(-1))
		}
	})
}

// TestExpiredAtLaggingMember: a session ends for the leader at once. A lagging member still answers
// the session's reads, but not its writes.
func TestExpiredAtLaggingMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, _, followers := three(t, locktest.Options{})
		c := rawAt(t, ens, followers[0])
		c.must(1, "/e", []byte{}, open, int32(1))
		ens.Lag(followers[0], 5*time.Second)
		begin := time.Now()
		ens.ExpireLabel("raw")
		if has(ens, "/e") {
			t.Error("the leader still has the ephemeral node")
		}
		c.send(1, 3, "/e", false)
		c.send(2, 1, "/a", []byte{}, open, int32(0))
		if r := c.reply(); r.code != 0 {
			t.Errorf("a read: %v, want what the member has", r)
		}
		c.SetReadDeadline(time.Time{})
		if r := c.reply(); r.String() != "closed" || time.Since(begin) != 5*time.Second {
			// The reply "session expired" waits for its transaction. The transaction that ends the
			// session comes before, and closes the connection.
			t.Errorf("a write: %v after %v, want the connection closed", r, time.Since(begin))
		}
		if has(ens, "/a") {
			t.Error("the write was applied")
		}
	})
}

func TestLeaderChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, leader, followers := three(t, locktest.Options{ElectionTime: 2 * time.Second})
		for i, m := range append([]string{leader}, followers...) {
			ens.SetClock(m, time.Duration(i)*time.Hour)
		}
		c := at(t, ens, "client", ens.Servers()...)
		idle := rawAt(t, ens, leader) // its session is not heard of again
		idle.must(1, "/idle", []byte{}, open, int32(1))
		mustCreate(t, c, "/a", 0)
		mustCreate(t, c, "/e", ephemeral)
		session := c.SessionID()
		before := ens.Dump("/a")[0].Stat
		for _, f := range followers {
			ens.Lag(f, time.Second) // the follower knows the transactions nevertheless
		}
		mustCreate(t, c, "/late", 0)

		begin := time.Now()
		if got := ens.StopLeader(); got != leader || ens.Leader() != "" {
			t.Errorf("stopped %q, now %q leads", got, ens.Leader())
		}
		c.await(zk.StateDisconnected, zk.StateHasSession)
		if d := time.Since(begin); d < 2*time.Second {
			t.Errorf("served again after %v", d)
		}
		if now := ens.Leader(); now == leader || now == "" {
			t.Errorf("%q leads", now)
		}
		if c.SessionID() != session || !exists(t, c, "/e") || !exists(t, c, "/late") {
			t.Error("something was lost")
		}
		mustCreate(t, c, "/b", 0)
		after := ens.Dump("/b")[0].Stat
		if after.Czxid>>32 != before.Czxid>>32+1 || after.Czxid&0xffffffff != 1 {
			t.Errorf("zxid %#x, and before the change %#x; want a new epoch", after.Czxid, before.Czxid)
		}
		offset := time.Until(time.UnixMilli(after.Ctime)).Round(time.Hour)
		if offset != time.Hour && offset != 2*time.Hour {
			t.Errorf("the new leader's clock is %v ahead", offset)
		}
		// The new leader counts the sessions' timeouts from its election.
		mustGoAfter(t, ens, "/idle", time.Until(begin.Add(12*time.Second)))
	})
}

func TestQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, leader, followers := three(t, locktest.Options{})
		c := at(t, ens, "client", leader)
		mustCreate(t, c, "/e", ephemeral)
		ens.Stop(followers[0])
		if ens.Leader() != leader {
			t.Errorf("%q leads, want %q, which has a majority", ens.Leader(), leader)
		}
		mustCreate(t, c, "/without-one", 0)
		ens.Stop(followers[1])
		if ens.Leader() != "" {
			t.Error("there is a leader without a majority")
		}
		c.await(zk.StateDisconnected)
		if _, err := c.Create("/without-two", nil, 0, open); err == nil {
			t.Error("a write without a majority")
		}
		// No session ends without a leader.
		time.Sleep(time.Minute)
		if !has(ens, "/e") {
			t.Error("a session ended without a leader")
		}
		if raw := dialRaw(t, []string{leader}, ens.Dial); !isClosed(raw.handshake(time.Second)) {
			t.Error("a member without a leader took a client")
		}

		// The member that was away returns, and gets the data that it missed.
		if err := ens.Start(followers[0]); err != nil {
			t.Fatal(err)
		}
		ens.Start(followers[0])
		if ens.Leader() != leader {
			t.Errorf("%q leads, want %q, which knows all", ens.Leader(), leader)
		}
		d := at(t, ens, "other", followers[0])
		if !exists(t, d, "/without-one") || !exists(t, d, "/e") {
			t.Error("the member that came back lacks something")
		}
		mustCreate(t, d, "/back", 0)
		ens.Start(followers[1]) // there is a leader to learn from
		if !exists(t, at(t, ens, "third", followers[1]), "/back") {
			t.Error("the other member that came back lacks something")
		}

		// All members stop. Those that return first do not have the last write.
		ens.Stop(followers[1])
		mustCreate(t, d, "/last", 0)
		ens.Stop(followers[0])
		ens.Stop(leader)
		ens.Start(followers[1])
		ens.Start(leader)
		if !has(ens, "/last") {
			t.Error("an acknowledged write was lost")
		}
		// All members stop again, and another member has the last write.
		ens.Start(followers[0])
		d.await(zk.StateDisconnected, zk.StateHasSession)
		ens.Stop(leader)
		d.await(zk.StateDisconnected, zk.StateHasSession)
		mustCreate(t, d, "/very-last", 0)
		ens.Stop(followers[1])
		ens.Stop(followers[0])
		ens.Start(leader)
		ens.Start(followers[0])
		if !has(ens, "/very-last") || ens.Leader() != followers[0] {
			t.Errorf("an acknowledged write was lost; %q leads", ens.Leader())
		}
		for call, err := range map[string]error{"Stop": ens.Stop("x"), "Start": ens.Start("x"), "SetClock": ens.SetClock("x", 0)} {
			if err == nil || !strings.Contains(err.Error(), call) || !strings.Contains(err.Error(), `"x"`) {
				t.Errorf("%s of an unknown member: %v", call, err)
			}
		}
	})
}

// TestElectionWithoutQuorum: an election that began with a majority ends without a leader if there
// is no majority at its end.
func TestElectionWithoutQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, _, followers := three(t, locktest.Options{ElectionTime: time.Second})
		ens.StopLeader()
		ens.Stop(followers[0])
		time.Sleep(time.Minute)
		if ens.Leader() != "" || ens.StopLeader() != "" {
			t.Errorf("%q leads", ens.Leader())
		}
		if err := ens.SetSequence("/", 1); err == nil {
			t.Error("a transaction without a leader")
		}
		ens.Start(followers[0])
		time.Sleep(time.Second)
		synctest.Wait()
		if ens.Leader() == "" {
			t.Error("there is no leader")
		}
	})
}

// TestChildrenAreNotSorted: Children does not sort the names, so that a client that relies on their
// order fails.
func TestChildrenAreNotSorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, locktest.Options{})
		mustCreate(t, c, "/p", 0)
		for range 3 {
			mustCreate(t, c, "/p/n-", sequence)
		}
		names, _, err := c.Children("/p")
		if err != nil || len(names) != 3 || slices.IsSorted(names) {
			t.Errorf("%q, %v; want 3 names that are not sorted", names, err)
		}
	})
}

// TestRestart: a single server returns with its data, in the same epoch.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := start(t, locktest.Options{})
		mustCreate(t, c, "/a", 0)
		mustCreate(t, c, "/e", ephemeral)
		session, before := c.SessionID(), ens.Dump("/a")[0].Stat.Czxid
		if ens.StopLeader() == "" {
			t.Fatal("there is no leader")
		}
		time.Sleep(time.Minute)
		ens.Start(ens.Servers()[0])
		c.await(zk.StateDisconnected, zk.StateHasSession)
		if c.SessionID() != session || !exists(t, c, "/a") || !exists(t, c, "/e") {
			t.Error("something was lost")
		}
		mustCreate(t, c, "/b", 0)
		if after := ens.Dump("/b")[0].Stat.Czxid; after>>32 != 0 || after <= before {
			t.Errorf("zxid %#x after %#x", after, before)
		}
	})
}

func TestStepClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens, c := start(t, locktest.Options{})
		stamp := func() time.Duration {
			st, err := c.Set("/", nil, -1)
			if err != nil {
				t.Fatal(err)
			}
			if written := ens.Dump("/")[0].Written; written.After(time.Now()) || time.Since(written) > time.Second {
				t.Errorf("written at %v, by a clock that is right, want %v", written, time.Now())
			}
			return time.UnixMilli(st.Mtime).Sub(time.Now().Truncate(time.Millisecond))
		}
		if d := stamp(); d != 0 {
			t.Errorf("the clock is %v ahead", d)
		}
		ens.StepClock(-time.Hour)
		if d := stamp(); d != -time.Hour {
			t.Errorf("the clock is %v ahead, want -1h", d)
		}
		ens.StepClock(time.Minute)
		if d := stamp(); d != -59*time.Minute {
			t.Errorf("the clock is %v ahead, want -59m", d)
		}
		ens.SetClock(ens.Servers()[0], time.Second)
		if d := stamp(); d != time.Second {
			t.Errorf("the clock is %v ahead, want 1s", d)
		}
	})
}

// TestDeterminism: two runs with one seed and the same calls have the same trace.
func TestDeterminism(t *testing.T) {
	history := func() []string {
		var trace []string
		synctest.Test(t, func(t *testing.T) {
			ens, _, followers := three(t, locktest.Options{Seed: 42, ElectionTime: time.Second})
			ens.Trace(func(ev locktest.Event) { trace = append(trace, ev.String()) })
			ens.SetLatency(func(label, _ string) time.Duration { return time.Duration(len(label)) * time.Millisecond })
			ens.Lag(followers[0], 3*time.Millisecond)
			var conns []*rawConn
			for i, label := range []string{"a", "bb", "cccc"} {
				c := dialRaw(t, ens.Servers()[i:], ens.Dialer(label))
				if err := c.handshake(time.Second); err != nil {
					t.Fatal(err)
				}
				conns = append(conns, c)
			}
			for i := range 30 {
				c := conns[i%3]
				c.send(1, 12, "/", true)
				c.send(2, 1, "/n-", []byte{}, open, int32(3))
				c.send(3, 4, "/n-0000000000", true)
				c.send(4, 14, int32(2), false, int32(-1), "/n-0000000001", int32(-1), int32(-1), true, int32(-1))
				time.Sleep(time.Duration(i) * 7 * time.Millisecond)
				switch i {
				case 10:
					ens.ExpireLabel("bb")
				case 15:
					ens.Partition("a")
				case 20:
					ens.StopLeader()
				}
			}
			time.Sleep(5 * time.Second)
		})
		return trace
	}
	first, second := history(), history()
	if len(first) < 50 {
		t.Errorf("only %d events were traced", len(first))
	}
	if !slices.Equal(first, second) {
		t.Errorf("two traces of one history:\n%s\n\n%s", strings.Join(first, "\n"), strings.Join(second, "\n"))
	}
	kinds := make(map[string]int)
	for _, line := range first {
		kinds[strings.Fields(line)[1]]++
	}
	for _, kind := range []string{"connect", "request", "watch", "expire", "disconnect", "stop", "lead"} {
		if kinds[kind] == 0 {
			t.Errorf("no event of the kind %q among %v", kind, kinds)
		}
	}
}
