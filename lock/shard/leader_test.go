// Leaders that change, members that restart, and candidates of other programs.

package shard_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/shard"
)

// TestStrayCandidate: a candidate of another program ends no member, neither while it waits nor when it leads.
func TestStrayCandidate(t *testing.T) {
	simulate(t, 4, func(w *world) {
		stop := w.start(w.dial("a"), w.work("a"))
		w.mustOwn(10*time.Second, "map[a:4]")
		resign, resigned := make(chan struct{}), make(chan error)
		stray := w.dial("stray").Election(group + "/plan")
		go func() {
			resigned <- stray.Do(w.Ctx, "10.0.0.1:80", func(context.Context) error {
				<-resign
				return nil
			})
		}()
		time.Sleep(time.Second)
		b := w.dial("b")
		w.start(b, w.work("b"))
		w.mustOwn(30*time.Second, "map[a:2 b:2]")
		if s, err := shard.Read(w.Ctx, b, group, false); err != nil || len(s.Members) != 2 || s.Unowned() != 0 {
			t.Errorf("%+v: %v", s, err)
		}
		bubble.MustBe(t, stop(), context.Canceled)
		time.Sleep(time.Minute)
		w.mustOwn(0, "map[b:4]")
		if w.said("not readable") == 0 {
			t.Error("not logged")
		}
		close(resign)
		iferr.Error(t, <-resigned)
		w.start(w.dial("c"), w.work("c"))
		w.mustOwn(30*time.Second, "map[b:2 c:2]")
	})
}

// TestCandidateOfAnotherNumber: a candidate of another number of shards gets none, also if it does not give up.
func TestCandidateOfAnotherNumber(t *testing.T) {
	simulate(t, 4, func(w *world) {
		w.start(w.dial("a"), w.work("a"))
		w.mustOwn(10*time.Second, "map[a:4]")
		ctx, cancel := context.WithCancel(w.Ctx)
		ended := make(chan error)
		other := w.dial("other").Election(group + "/plan")
		go func() {
			_, err := other.Campaign(ctx, `{"reads":1,"id":"abcdefgh","shards":5,"weight":1}`)
			ended <- err
		}()
		time.Sleep(30 * time.Second)
		w.mustOwn(0, "map[a:4]")
		cancel()
		bubble.MustBe(t, <-ended, context.Canceled)
	})
}

// TestTwoEntriesOfOneMember: a member whose entry could not be deleted after an error is a candidate twice
// until that entry expires, and counts as one.
func TestTwoEntriesOfOneMember(t *testing.T) {
	simulate(t, 6, func(w *world) {
		var fails atomic.Bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if fails.Load() && r.Label == "c" && strings.Contains(r.Paths[0], "/plan") {
				return locktest.Fault{Code: -1}
			}
			return locktest.Fault{}
		})
		a := w.dial("a")
		w.start(a, w.work("a"))
		time.Sleep(time.Second)
		stop := w.start(w.dial("b"), w.work("b"))
		time.Sleep(time.Second)
		w.start(w.dial("c"), w.work("c"))
		w.mustOwn(30*time.Second, "map[a:2 b:2 c:2]")
		time.Sleep(30 * time.Second)
		fails.Store(true)
		_ = stop()
		time.Sleep(time.Second)
		fails.Store(false)
		w.Until("c is a candidate twice", func() bool {
			all, err := a.Election(group + "/plan").Candidates(w.Ctx)
			return err == nil && len(all) == 3
		})
		if s, err := shard.Read(w.Ctx, a, group, true); err != nil || len(s.Members) != 2 {
			t.Errorf("%+v: %v", s, err)
		}
		w.start(w.dial("d"), w.work("d"))
		w.mustOwn(30*time.Second, "map[a:2 c:2 d:2]")
	})
}

// TestSlowSuccessor: the next leader of the group reads more slowly, and so does not see the last plan of the
// leader that leaves. No function of another member is called twice because of that.
func TestSlowSuccessor(t *testing.T) {
	simulate(t, 12, func(w *world) {
		var calls atomic.Int32
		stop := w.start(w.dial("a"), w.work("a"))
		time.Sleep(time.Second)
		w.start(w.dial("b"), w.work("b"))
		time.Sleep(time.Second)
		work := w.work("c")
		w.start(w.dial("c"), func(ctx context.Context, s shard.Owned) error {
			calls.Add(1)
			return work(ctx, s)
		})
		w.mustOwn(30*time.Second, "map[a:4 b:4 c:4]")
		time.Sleep(30 * time.Second)
		w.SetLatency(func(label, _ string) time.Duration {
			if strings.HasPrefix(label, "b") {
				return 20 * time.Millisecond
			}
			return 500 * time.Microsecond
		})
		w.moves()
		_ = stop()
		w.mustOwn(time.Second, "map[b:6 c:6]")
		time.Sleep(time.Minute)
		w.mustOwn(0, "map[b:6 c:6]")
		if moves, _ := w.moves(); moves != 4 || calls.Load() != 6 {
			t.Errorf("%d moves, and c's function was called %d times", moves, calls.Load())
		}
	})
}

// TestBlockedLeader: a leader that leaves, and whose function does not return, goes on planning for the others.
func TestBlockedLeader(t *testing.T) {
	simulate(t, 8, func(w *world) {
		var blocked atomic.Bool
		release := make(chan struct{})
		stop := w.start(w.dial("a"), w.work("a", func(ctx context.Context, s shard.Owned) {
			if blocked.CompareAndSwap(false, true) {
				<-release
			}
		}))
		time.Sleep(time.Second)
		w.start(w.dial("b"), w.work("b"))
		w.mustOwn(30*time.Second, "map[a:4 b:4]")
		ended := make(chan error)
		go func() { ended <- stop() }()
		w.mustOwn(time.Second, "map[b:7]")
		w.start(w.dial("c"), w.work("c"))
		time.Sleep(2 * time.Minute)
		if n := w.owners(); n["b"]+n["c"] != 7 || n["c"] < 3 {
			t.Errorf("owners %v", n)
		}
		close(release)
		bubble.MustBe(t, <-ended, context.Canceled)
		w.mustOwn(time.Second, "map[b:4 c:4]")
	})
}

// TestRestart: members of one client, of the same name, and of another weight after a restart.
func TestRestart(t *testing.T) {
	simulate(t, 12, func(w *world) {
		w.start(w.dial("a"), w.work("a"))
		c := w.dial("b")
		stop := w.start(c, w.work("b"), shard.Options{Name: "same"})
		w.mustOwn(30*time.Second, "map[a:6 b:6]")
		time.Sleep(30 * time.Second)
		bubble.MustBe(t, stop(), context.Canceled)
		w.start(c, w.work("b"), shard.Options{Name: "same", Weight: 3})
		time.Sleep(time.Second)
		w.start(c, w.work("b2"), shard.Options{Name: "same", Weight: 2})
		w.mustOwn(30*time.Second, "map[a:2 b:6 b2:4]")
		if s, err := shard.Read(w.Ctx, c, group, false); err != nil || s.Moving() != 0 || s.Members[1].Owns != 6 || s.Members[2].Owns != 4 {
			t.Errorf("%+v: %v", s, err)
		}
	})
}

// TestCloseInMove: Client.Close while shards move ends Run, and the others get the rest.
func TestCloseInMove(t *testing.T) {
	simulate(t, 12, func(w *world) {
		c, ended := w.dial("a"), make(chan error)
		w.start(w.dial("b"), w.work("b"))
		go func() { ended <- shard.Run(w.Ctx, c, group, 12, w.work("a"), w.options()) }()
		w.mustOwn(30*time.Second, "map[a:6 b:6]")
		time.Sleep(30 * time.Second)
		w.start(w.dial("c"), w.work("c"))
		w.Until("a gives shards back", func() bool { return w.owners()["a"] < 6 })
		iferr.Error(t, c.Close())
		bubble.MustBe(t, <-ended, lock.ErrClosed)
		w.mustOwn(30*time.Second, "map[b:6 c:6]")
	})
}

// TestDeadLastCandidate: the entry of the last candidate, which no other one purges, does not keep the leader busy.
func TestDeadLastCandidate(t *testing.T) {
	simulate(t, 4, func(w *world) {
		w.start(w.dial("a"), w.work("a"))
		time.Sleep(time.Second)
		w.start(w.dial("b"), w.work("b"))
		w.mustOwn(30*time.Second, "map[a:2 b:2]")
		iferr.Fatal(t, w.Partition("b"))
		w.mustOwn(time.Minute, "map[a:4]")
		time.Sleep(time.Minute)
		before := w.spent()
		time.Sleep(time.Minute)
		if spent := w.since(before); spent.requests > 130 {
			t.Errorf("%d requests in a minute", spent.requests)
		}
	})
}

// TestDeadLastCandidateOfAnotherClock: the last candidate has died before ZooKeeper's leader changed to a
// server whose clock is an hour behind, so by that clock, and to a leader of the group with a new session, it
// is alive for an hour. The one ahead of it, which only it would purge, dies: its shards have a new owner soon.
func TestDeadLastCandidateOfAnotherClock(t *testing.T) {
	simulate(t, 6, func(w *world) {
		for _, label := range []string{"a", "b", "c"} {
			w.start(w.dial(label), w.work(label))
			time.Sleep(time.Second)
		}
		w.mustOwn(20*time.Second, "map[a:2 b:2 c:2]")
		iferr.Fatal(t, w.Partition("c"))
		w.mustOwn(time.Minute, "map[a:3 b:3]")
		for _, server := range w.Servers() {
			if server != w.Leader() {
				iferr.Fatal(t, w.SetClock(server, -time.Hour))
			}
		}
		w.StopLeader()
		time.Sleep(ttl) // all who live have renewed their leases
		w.ExpireLabel("a")
		time.Sleep(time.Second)
		iferr.Fatal(t, w.Partition("b"))
		w.mustOwn(ttl+grace+ttl/3+3*time.Second, "map[a:6]")
	})
}
