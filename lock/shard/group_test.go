// Members that join, leave and die, functions that fail, and bad input.

package shard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/shard"
)

// TestShare: members that join and leave have even shares, each shard moves as seldom as possible,
// and has an owner at all times.
func TestShare(t *testing.T) {
	simulate(t, 16, func(w *world) {
		a := w.start(w.dial("a"), w.work("a"))
		w.mustOwn(10*time.Second, "map[a:16]")
		w.moves()
		w.start(w.dial("b"), w.work("b"))
		w.mustOwn(10*time.Second, "map[a:14 b:2]") // a quarter of its share
		w.mustOwn(ttl/3+3*time.Second, "map[a:8 b:8]")
		if moves, gap := w.moves(); moves != 8 || gap > time.Second {
			t.Errorf("b joined: %d moves, and %v without an owner", moves, gap)
		}
		time.Sleep(time.Minute)
		c := w.start(w.dial("c"), w.work("c"), shard.Options{Weight: 2})
		w.mustOwn(30*time.Second, "map[a:4 b:4 c:8]")
		time.Sleep(time.Minute)
		w.moves()
		if err := c(); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		w.mustOwn(time.Second, "map[a:8 b:8]")
		if moves, gap := w.moves(); moves != 8 || gap > time.Second {
			t.Errorf("c left: %d moves, and %v without an owner", moves, gap)
		}
		_ = a() // the leader
		w.mustOwn(time.Second, "map[b:16]")
		if moves, gap := w.moves(); moves != 8 || gap > time.Second {
			t.Errorf("a left: %d moves, and %v without an owner", moves, gap)
		}
	})
}

// TestGivesAFewAtATime: a member that has many shards to give back ends the functions of a quarter of its
// shards at a time, until it leaves.
func TestGivesAFewAtATime(t *testing.T) {
	simulate(t, 16, func(w *world) {
		var mu sync.Mutex
		ending, most := 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			ending += n
			most = max(most, ending)
		}
		stop := w.start(w.dial("a"), w.work("a", func(ctx context.Context, s shard.Owned) {
			count(1)
			time.Sleep(time.Second)
			count(-1)
		}))
		w.mustOwn(10*time.Second, "map[a:16]")
		w.start(w.dial("b"), w.work("b"))
		w.mustOwn(30*time.Second, "map[a:8 b:8]")
		if most != 3 {
			t.Errorf("%d functions ended at a time, want 3 of 14", most)
		}
		if _ = stop(); most != 8 {
			t.Errorf("%d functions of 8 ended at a time, although their member left", most)
		}
	})
}

// TestLeavesAlone: a member that is alone leaves at once, before and after the first plan.
func TestLeavesAlone(t *testing.T) {
	for _, stays := range []time.Duration{time.Second, 20 * time.Second} {
		t.Run(stays.String(), func(t *testing.T) {
			simulate(t, 2, func(w *world) {
				stop := w.start(w.dial("a"), w.work("a"))
				time.Sleep(stays)
				begun := time.Now()
				bubble.MustBe(t, stop(), context.Canceled)
				if took := time.Since(begun); took > 2*time.Second || w.said("not readable") > 0 {
					t.Errorf("it took %v: %s", took, w.logs.String())
				}
			})
		})
	}
}

// TestReplace: if a member joins and another one leaves within seconds, their shards move once.
func TestReplace(t *testing.T) {
	simulate(t, 12, func(w *world) {
		w.start(w.dial("a"), w.work("a"))
		b := w.start(w.dial("b"), w.work("b"))
		w.mustOwn(20*time.Second, "map[a:6 b:6]")
		w.moves()
		w.start(w.dial("c"), w.work("c"))
		time.Sleep(time.Second)
		_ = b()
		w.mustOwn(time.Second, "map[a:6 c:6]")
		if moves, gap := w.moves(); moves != 6 || gap > time.Second {
			t.Errorf("%d moves, and %v without an owner", moves, gap)
		}
	})
}

// TestDeath: the shards of a dead member have new owners soon after TTL and grace, whether it led,
// waited as the last candidate, or between others. Other shards do not move.
func TestDeath(t *testing.T) {
	for _, dies := range []string{"a", "b", "c"} {
		t.Run(dies, func(t *testing.T) {
			simulate(t, 12, func(w *world) {
				for _, label := range []string{"a", "b", "c"} {
					w.start(w.dial(label), w.work(label))
					time.Sleep(500 * time.Millisecond)
				}
				w.mustOwn(20*time.Second, "map[a:4 b:4 c:4]")
				w.moves()
				time.Sleep(time.Minute)
				iferr.Fatal(t, w.Partition(dies))
				left := map[string]string{"a": "map[b:6 c:6]", "b": "map[a:6 c:6]", "c": "map[a:6 b:6]"}[dies]
				w.mustOwn(ttl+grace+3*time.Second, left)
				if moves, _ := w.moves(); moves != 4 {
					t.Errorf("%d moves", moves)
				}
				w.Heal(dies) // its host waits
				time.Sleep(20 * time.Second)
				w.mustOwn(0, left)
				w.mustOwn(40*time.Second, "map[a:4 b:4 c:4]")
			})
		})
	}
}

// TestNoReturn: a function that does not return keeps its shard, which is logged, and does not hold
// back other shards.
func TestNoReturn(t *testing.T) {
	simulate(t, 8, func(w *world) {
		release := make(chan struct{})
		w.start(w.dial("a"), w.work("a", func(ctx context.Context, s shard.Owned) {
			if s.Index >= 4 {
				<-release
			}
			if cause := context.Cause(ctx); !errors.Is(cause, shard.ErrMoved) {
				t.Errorf("the context ended by %v", cause)
			}
		}))
		w.mustOwn(10*time.Second, "map[a:8]")
		w.start(w.dial("b"), w.work("b"))
		time.Sleep(40 * time.Second)
		if n := w.said("function does not return"); n == 0 || w.owners()["b"] > 0 {
			t.Errorf("logged %d times, owners %v", n, w.owners())
		}
		close(release)
		w.mustOwn(time.Second, "map[a:4 b:4]")
	})
}

// TestOneThatHangs: a function that does not return holds back other shards for the DrainTimeout, and no
// longer.
func TestOneThatHangs(t *testing.T) {
	simulate(t, 8, func(w *world) {
		release := make(chan struct{})
		w.start(w.dial("a"), w.work("a", func(ctx context.Context, s shard.Owned) {
			if s.Index == 4 { // the first one to be given back
				<-release
			}
		}))
		w.mustOwn(10*time.Second, "map[a:8]")
		w.start(w.dial("b"), w.work("b"))
		w.mustOwn(20*time.Second, "map[a:7]")
		w.mustOwn(shard.DefaultDrainTimeout+time.Second, "map[a:4 b:3]")
		close(release)
		w.mustOwn(time.Second, "map[a:4 b:4]")
	})
}

// TestLost: a shard whose hold is lost is not queued for before its function has returned.
func TestLost(t *testing.T) {
	simulate(t, 2, func(w *world) {
		release := make(chan struct{})
		causes := make(chan error, 2)
		c := w.dial("a")
		w.start(c, w.work("a", func(ctx context.Context, s shard.Owned) {
			causes <- context.Cause(ctx)
			<-release
		}))
		w.mustOwn(10*time.Second, "map[a:2]")
		iferr.Fatal(t, admin.New(c).Delete(w.Ctx, []admin.Deletion{{Path: w.contender(group + "/1"), Version: -1}}))
		bubble.MustBe(t, <-causes, lock.ErrRemoved)
		time.Sleep(time.Minute)
		w.mustOwn(0, "map[a:1]")
		if n := w.said("function does not return"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		close(release)
		w.mustOwn(time.Second, "map[a:2]")
	})
}

// TestReturns: a function that returns is called again after a second, and less and less often. Its
// shard stays.
func TestReturns(t *testing.T) {
	simulate(t, 1, func(w *world) {
		var at []time.Duration
		var begun time.Time
		stop := w.start(w.dial("a"), func(ctx context.Context, s shard.Owned) error {
			if at == nil {
				begun = time.Now()
			}
			at = append(at, time.Since(begun).Truncate(time.Second))
			return map[bool]error{true: errors.New("no database")}[len(at)%2 == 0]
		})
		time.Sleep(40 * time.Second)
		_ = stop()
		if got := fmt.Sprint(at); got != "[0s 1s 3s 7s 15s 31s]" {
			t.Errorf("called at %s", got)
		}
		if w.said("no database") != 3 {
			t.Error(w.logs.String())
		}
	})
}

// TestPanic: the panic of a function gives all shards back, and reaches the caller of Run.
func TestPanic(t *testing.T) {
	simulate(t, 4, func(w *world) {
		c := w.dial("a")
		panicked := make(chan any)
		go func() {
			defer func() { panicked <- recover() }()
			_ = shard.Run(w.Ctx, c, group, 4, func(ctx context.Context, s shard.Owned) error {
				if s.Index == 2 {
					time.Sleep(7 * time.Second)
					panic("poison")
				}
				return w.work("a")(ctx, s)
			}, w.options())
		}()
		w.mustOwn(10*time.Second, "map[a:3]") // and shard 2
		w.start(w.dial("b"), w.work("b"))
		if text := fmt.Sprint(<-panicked); !strings.Contains(text, "poison") || !strings.Contains(text, "group_test.go") || !strings.Contains(text, "shard 2") {
			t.Errorf("the panic is %s", text)
		}
		if n := c.Stats().Holds; n != 0 {
			t.Errorf("a still has %d holds", n)
		}
		w.mustOwn(2*time.Second, "map[b:4]")
	})
}

// TestPanicBesideOneThatHangs: Run panics after the DrainTimeout although another function does not
// return.
func TestPanicBesideOneThatHangs(t *testing.T) {
	simulate(t, 2, func(w *world) {
		c := w.dial("a")
		release := make(chan struct{})
		panicked := make(chan any)
		go func() {
			defer func() { panicked <- recover() }()
			_ = shard.Run(w.Ctx, c, group, 2, func(ctx context.Context, s shard.Owned) error {
				if s.Index == 0 {
					panic("poison")
				}
				<-release
				return nil
			}, w.options())
		}()
		<-panicked
		close(release)
		synctest.Wait()
	})
}

// TestNumber: another number of shards is refused while the group lives, and while a hold of it does.
func TestNumber(t *testing.T) {
	simulate(t, 4, func(w *world) {
		stop := w.start(w.dial("a"), w.work("a"))
		w.mustOwn(10*time.Second, "map[a:4]")
		b := w.dial("b")
		err := shard.Run(w.Ctx, b, group, 8, w.work("b"), w.options())
		bubble.MustBe(t, err, shard.ErrNumber)
		bubble.MustSay(t, err, "4 of member", "instead of 8")
		_ = stop()
		hold, err := b.Mutex(group+"/3", lock.WithMetadata(map[string]string{"shard": "abcdefgh/4"})).Lock(w.Ctx)
		iferr.Fatal(t, err)
		err = shard.Run(w.Ctx, b, group, 8, w.work("b"), w.options())
		bubble.MustBe(t, err, shard.ErrNumber)
		bubble.MustSay(t, err, "shard 3", "abcdefgh")
		iferr.Fatal(t, hold.Unlock())
		ctx, cancel := context.WithTimeout(w.Ctx, 10*time.Second)
		defer cancel()
		bubble.MustBe(t, shard.Run(ctx, b, group, 8, func(ctx context.Context, s shard.Owned) error { <-ctx.Done(); return nil }, w.options()), context.DeadlineExceeded)
	})
}

// TestNoNumber: the hold of a shard whose number of shards is out of range is no member's.
func TestNoNumber(t *testing.T) {
	simulate(t, 1, func(w *world) {
		c := w.dial("a")
		for _, number := range []string{"-1", "0", "1025", "1000000000000", "x", ""} {
			hold, err := c.Mutex(group+"/0", lock.WithMetadata(map[string]string{"shard": "abcdefgh/" + number})).Lock(w.Ctx)
			iferr.Fatal(t, err)
			if s, err := shard.Read(w.Ctx, c, group, false); err != nil || s.Number != 0 {
				t.Errorf("%q: %+v: %v", number, s, err)
			}
			iferr.Fatal(t, hold.Unlock())
		}
	})
}

// TestNoOwner: neither a dead member nor the holder of a shard's lock that is no member is shown as the owner,
// and an owner that cannot be read is an error.
func TestNoOwner(t *testing.T) {
	simulate(t, 2, func(w *world) {
		var fails atomic.Bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if fails.Load() && strings.HasPrefix(r.Paths[0], "/locks/"+group+"/1") {
				return locktest.Fault{Code: -1}
			}
			return locktest.Fault{}
		})
		c := w.dial("c")
		hold, err := c.Mutex(group+"/0", lock.WithMetadata(map[string]string{"shard": "abcdefgh/x"})).Lock(w.Ctx)
		iferr.Fatal(t, err)
		w.start(w.dial("a"), w.work("a"))
		w.mustOwn(10*time.Second, "map[a:1]")
		if s, err := shard.Read(w.Ctx, c, group, false); err != nil || s.Number != 2 || s.Unowned() != 1 {
			t.Errorf("a holder that is no member: %+v: %v", s, err)
		}
		fails.Store(true)
		if s, err := shard.Read(w.Ctx, c, group, false); err == nil {
			t.Errorf("an owner that cannot be read: %+v", s)
		}
		fails.Store(false)
		iferr.Fatal(t, hold.Unlock())
		w.mustOwn(10*time.Second, "map[a:2]")
		iferr.Fatal(t, w.Partition("a"))
		time.Sleep(time.Minute)
		if s, err := shard.Read(w.Ctx, c, group, false); err != nil || s.Number != 0 {
			t.Errorf("a dead member: %+v: %v", s, err)
		}
	})
}

// TestBothNumbersAtOnce: of two members that begin with different numbers one goes on.
func TestBothNumbersAtOnce(t *testing.T) {
	simulate(t, 4, func(w *world) {
		ends := make(chan error, 2)
		for n := range 2 {
			c := w.dial(fmt.Sprint("c", n))
			go func() {
				ctx, cancel := context.WithTimeout(w.Ctx, time.Minute)
				defer cancel()
				ends <- shard.Run(ctx, c, group, 4+n, func(ctx context.Context, s shard.Owned) error { <-ctx.Done(); return nil }, w.options())
			}()
		}
		bubble.MustBe(t, <-ends, shard.ErrNumber)
		bubble.MustBe(t, <-ends, context.DeadlineExceeded)
	})
}

// TestTooManyMembers: a group is full when a plan has no room for another member.
func TestTooManyMembers(t *testing.T) {
	simulate(t, 1, func(w *world) {
		c, room := w.dial("a"), shard.Room(shard.MaxShards)
		ctx, cancel := context.WithCancel(w.Ctx)
		var members sync.WaitGroup
		for n := range room {
			members.Go(func() {
				value := fmt.Sprintf(`{"reads":1,"id":"member%02x","shards":%d,"weight":1}`, n, shard.MaxShards)
				l, err := c.Election(group+"/plan").Campaign(ctx, value)
				if err == nil {
					<-ctx.Done()
					err = l.Resign()
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		w.Until("all are candidates", func() bool {
			all, err := c.Election(group + "/plan").Candidates(w.Ctx)
			return err == nil && len(all) == room
		})
		err := shard.Run(w.Ctx, w.dial("b"), group, shard.MaxShards, w.work("b"), w.options())
		bubble.MustBe(t, err, lock.ErrInvalid)
		bubble.MustSay(t, err, fmt.Sprintf("members %d: a group of %d shards has room for %d", room+1, shard.MaxShards, room))
		cancel()
		members.Wait()
	})
}

// TestTrouble: a shard that cannot be locked is logged and tried again; other shards go on.
func TestTrouble(t *testing.T) {
	simulate(t, 3, func(w *world) {
		permit, err := w.dial("other").Semaphore(group+"/1", 2).Acquire(w.Ctx, 1)
		iferr.Fatal(t, err)
		w.start(w.dial("a"), w.work("a"))
		w.mustOwn(10*time.Second, "map[a:2]")
		time.Sleep(10 * time.Second)
		if n := w.said("shard not locked"); n < 3 {
			t.Errorf("logged %d times", n)
		}
		iferr.Fatal(t, permit.Unlock())
		w.mustOwn(time.Minute, "map[a:3]")
	})
}

// TestErrorThatPasses: an error of the servers that can pass ends no membership, and no attempt to join.
func TestErrorThatPasses(t *testing.T) {
	for name, fault := range map[string]struct {
		op   string
		code int32
	}{"reads fail": {"getData", -1}, "lists fail": {"getChildren2", -1}, "writes fail": {"multi", -1}, "a quota is exceeded": {"multi", -125}} {
		t.Run(name, func(t *testing.T) {
			simulate(t, 2, func(w *world) {
				var fails atomic.Bool
				w.Intercept(func(r locktest.Request) locktest.Fault {
					if fails.Load() && r.Op == fault.op {
						return locktest.Fault{Code: fault.code}
					}
					return locktest.Fault{}
				})
				a, b := w.dial("a"), w.dial("b")
				fails.Store(true)
				w.start(a, w.work("a"))
				w.start(b, w.work("b"))
				time.Sleep(ttl / 2)
				fails.Store(false)
				w.mustOwn(20*time.Second, "map[a:1 b:1]")
				fails.Store(true)
				time.Sleep(ttl / 2)
				fails.Store(false)
				w.mustOwn(time.Minute, "map[a:1 b:1]")
				time.Sleep(time.Minute)
				w.mustOwn(0, "map[a:1 b:1]")
			})
		})
	}
}

// TestNoPlan: a plan that is a lock of another kind ends Run, as do an election of another program, and one
// in which an ACL does not let the member be a candidate.
func TestNoPlan(t *testing.T) {
	simulate(t, 1, func(w *world) {
		c := w.dial("a")
		permit, err := c.Semaphore(group+"/plan", 2).Acquire(w.Ctx, 1)
		iferr.Fatal(t, err)
		bubble.MustBe(t, shard.Run(w.Ctx, c, group, 1, w.work("a"), w.options()), lock.ErrKind)
		iferr.Fatal(t, permit.Unlock())
		other, err := c.Election(group+"/plan").Campaign(w.Ctx, "10.0.0.1:80")
		iferr.Fatal(t, err)
		bubble.MustBe(t, shard.Run(w.Ctx, c, group, 1, w.work("a"), w.options()), lock.ErrForeign)
		iferr.Fatal(t, other.Resign())
		w.start(c, w.work("a"))
		w.mustOwn(10*time.Second, "map[a:1]")
		conn := w.Plain("admin", 6*time.Second, new(zk.DNSHostProvider))
		iferr.Fatal(t, iferr.Of(conn.SetACL("/locks/"+group+"/plan", zk.WorldACL(zk.PermAll&^zk.PermCreate), -1)))
		bubble.MustBe(t, shard.Run(w.Ctx, w.dial("b"), group, 1, w.work("b"), w.options()), lock.ErrDenied)
	})
}

// TestNewerPlan: members keep their shards, and take none, under a leader whose plan they cannot read.
func TestNewerPlan(t *testing.T) {
	simulate(t, 2, func(w *world) {
		stop := w.start(w.dial("a"), w.work("a"))
		w.mustOwn(10*time.Second, "map[a:2]")
		w.start(w.dial("b"), w.work("b"))
		w.mustOwn(20*time.Second, "map[a:1 b:1]")
		newer, err := w.dial("n").Election(group+"/plan").WithPriority(2), error(nil)
		leads := make(chan *lock.Leadership)
		go func() {
			l, err := newer.Campaign(w.Ctx, `{"reads":2,"id":"abcdefgh","shards":2,"weight":1,"plan":"2 what is this"}`)
			iferr.Error(t, err)
			leads <- l
		}()
		time.Sleep(time.Second)
		_ = stop()
		l := <-leads
		time.Sleep(30 * time.Second)
		if w.said("not readable") == 0 {
			t.Error("not logged")
		}
		w.mustOwn(0, "map[b:1]")
		if err = l.Resign(); err != nil {
			t.Error(err)
		}
		w.mustOwn(10*time.Second, "map[b:2]")
	})
}

// TestLeaders: no shard moves because the leader of the group changes, or that of ZooKeeper.
func TestLeaders(t *testing.T) {
	simulate(t, 9, func(w *world) {
		clients := map[string]*lock.Client{}
		for _, label := range []string{"a", "b", "c"} {
			clients[label] = w.dial(label)
			w.start(clients[label], w.work(label))
			time.Sleep(time.Second)
		}
		w.mustOwn(20*time.Second, "map[a:3 b:3 c:3]")
		w.moves()
		for range 3 {
			s, err := shard.Read(w.Ctx, clients["a"], group, false)
			if err != nil || !s.Members[0].Leads || s.Unowned() != 0 || s.Moving() != 0 {
				t.Fatalf("%+v: %v", s, err)
			}
			iferr.Fatal(t, iferr.Of(admin.New(clients["a"]).Break(w.Ctx, w.contender(group+"/plan"), breaker)))
			time.Sleep(30 * time.Second)
		}
		w.StopLeader()
		time.Sleep(30 * time.Second)
		w.mustOwn(0, "map[a:3 b:3 c:3]")
		if moves, _ := w.moves(); moves != 0 || w.said("not readable") > 0 {
			t.Errorf("%d moves: %s", moves, w.logs.String())
		}
	})
}

// keeps is a policy for all locks that keeps their nodes.
type keeps struct{}

func (keeps) Policy(string) lock.Policy { return lock.Policy{TTL: ttl, Grace: grace, KeepParent: true} }

// TestOwnerIsShownAtOnce: the owner of a shard is shown before its entry has a recorded grant. An entry
// that is alone below a node that was there gets it with the first renewal.
func TestOwnerIsShownAtOnce(t *testing.T) {
	simulate(t, 2, func(w *world) {
		c, err := lock.Dial(w.Ctx, w.Servers(), lock.WithDialer(w.Dialer("a")), lock.WithPolicies(keeps{}))
		iferr.Fatal(t, err)
		for range 2 {
			stop := w.start(c, w.work("a"))
			w.mustOwn(10*time.Second, "map[a:2]")
			if s, err := shard.Read(w.Ctx, c, group, false); err != nil || s.Unowned() != 0 {
				t.Errorf("%d shards are shown without an owner: %v", s.Unowned(), err)
			}
			_ = stop()
		}
		iferr.Error(t, c.Close())
	})
}

// TestLoop: a loop over Owned keeps each shard as long as its body runs.
func TestLoop(t *testing.T) {
	simulate(t, 4, func(w *world) {
		g, err := shard.Join(w.Ctx, w.dial("a"), group, 4, w.options(shard.Options{Name: "first"}))
		iferr.Fatal(t, err)
		w.Until("a owns all", func() bool {
			n := 0
			for range g.Owned() {
				n++
			}
			return n == 4
		})
		b := w.dial("b")
		for s := range g.Owned() {
			if s.Index < 3 {
				continue
			}
			w.start(b, w.work("b"))
			<-s.Context().Done()
			bubble.MustBe(t, context.Cause(s.Context()), shard.ErrMoved)
			time.Sleep(5 * time.Second)
			if s.Remaining() == 0 {
				t.Error("the shard in use was given back")
			}
		}
		w.mustOwn(time.Second, "map[b:2]")
		members, err := g.Members(w.Ctx)
		if err != nil || len(members) != 2 || members[0].Name != "first" || members[0].Shards != 2 || members[1].Owner != "b" {
			t.Errorf("%+v: %v", members, err)
		}
		iferr.Error(t, g.Leave(w.Ctx))
		for s := range g.Owned() {
			t.Errorf("after Leave: %v", s)
		}
		w.mustOwn(time.Second, "map[b:4]")
	})
}

// logging is a handler that looks at the group's shards when it logs.
type logging struct {
	slog.Handler
	group **shard.Group
	logs  *atomic.Int32
}

func (l logging) Handle(context.Context, slog.Record) error {
	for range (*l.group).Owned() {
	}
	l.logs.Add(1)
	return nil
}

func (l logging) WithAttrs([]slog.Attr) slog.Handler { return l }

// TestLogHandler: a handler of the log may call the group.
func TestLogHandler(t *testing.T) {
	simulate(t, 2, func(w *world) {
		var g *shard.Group
		var logs atomic.Int32
		g, err := shard.Join(w.Ctx, w.dial("a"), group, 2, shard.Options{Log: slog.New(logging{slog.Default().Handler(), &g, &logs})})
		iferr.Fatal(t, err)
		time.Sleep(10 * time.Second)
		for s := range g.Owned() {
			if s.Index == 0 {
				continue
			}
			w.start(w.dial("b"), w.work("b"))
			w.Until("logged", func() bool { return logs.Load() > 0 })
		}
		iferr.Error(t, g.Leave(w.Ctx))
	})
}

// TestClose: Client.Close ends Run, and so does a closed client.
func TestClose(t *testing.T) {
	simulate(t, 4, func(w *world) {
		c := w.dial("a")
		ended := make(chan error)
		go func() { ended <- shard.Run(w.Ctx, c, group, 4, w.work("a"), w.options()) }()
		w.mustOwn(10*time.Second, "map[a:4]")
		iferr.Error(t, c.Close())
		bubble.MustBe(t, <-ended, lock.ErrClosed)
		bubble.MustBe(t, shard.Run(w.Ctx, c, group, 4, w.work("a"), w.options()), lock.ErrClosed)
	})
}

// TestInvalid: bad input is an ErrInvalid that names the argument.
func TestInvalid(t *testing.T) {
	simulate(t, 1, func(w *world) {
		c := w.dial("a")
		f := w.work("a")
		var none context.Context
		for says, run := range map[string]func() error{
			"client":     func() error { return shard.Run(w.Ctx, nil, group, 1, f, shard.Options{}) },
			"context":    func() error { return shard.Run(none, c, group, 1, f, shard.Options{}) },
			"function":   func() error { return shard.Run(w.Ctx, c, group, 1, nil, shard.Options{}) },
			"shards 0":   func() error { return shard.Run(w.Ctx, c, group, 0, f, shard.Options{}) },
			"1..1024":    func() error { return shard.Run(w.Ctx, c, group, 1025, f, shard.Options{}) },
			"weight -1":  func() error { return shard.Run(w.Ctx, c, group, 1, f, shard.Options{Weight: -1}) },
			"weight 100": func() error { return shard.Run(w.Ctx, c, group, 1, f, shard.Options{Weight: 1001}) },
			"64 bytes":   func() error { return shard.Run(w.Ctx, c, group, 1, f, shard.Options{Name: strings.Repeat("x", 65)}) },
			"timeout":    func() error { return shard.Run(w.Ctx, c, group, 1, f, shard.Options{Handover: -1}) },
			"lock name":  func() error { return shard.Run(w.Ctx, c, "/x", 1, f, shard.Options{}) },
			"context nil": func() error {
				g, err := shard.Join(w.Ctx, c, group, 1, shard.Options{})
				return errors.Join(err, g.Leave(none), g.Leave(w.Ctx))
			},
			"no room": func() error {
				return shard.Run(w.Ctx, c, group, 1024, f, shard.Options{Lock: []lock.LockOption{lock.WithMetadata(map[string]string{"x": strings.Repeat("x", 600)})}})
			},
		} {
			err := run()
			bubble.MustBe(t, err, lock.ErrInvalid)
			bubble.MustSay(t, err, says)
		}
		inner := make(chan error)
		w.start(c, func(ctx context.Context, s shard.Owned) error {
			inner <- shard.Run(ctx, c, group, 1, f, shard.Options{})
			return w.work("a")(ctx, s)
		})
		bubble.MustBe(t, <-inner, lock.ErrInvalid)
	})
}
