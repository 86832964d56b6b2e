package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/simtest"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

var world = zk.WorldACL(zk.PermAll)

// office is an ensemble in memory, in virtual time, and a queue whose entries nobody
// renews.
type office struct {
	*simtest.World
	*Queue
	other *zkconn.Conn // somebody else's
}

func simulate(t *testing.T, hints string, f func(w *office)) {
	t.Helper()
	simtest.Run(t, locktest.Options{}, func(s *simtest.World) {
		conn := s.Dial(s.Config("a"))
		local := func() clock.Instant { return clock.Instant{Mono: s.Mono(), Wall: s.Wall()} }
		c := clock.New(conn, simtest.Root, world, local, znode.NewID)
		var tasks zkconn.Group
		keeper := lease.NewKeeper(lease.Options{
			Conn: conn, Clock: c, Log: zerolog.Nop(), Jitter: s.Config("a").Jitter, Run: func(f func()) { go f() },
		})
		closing, shut := context.WithCancel(s.Ctx)
		w := &office{s, New(Options{
			Conn: conn, Clock: c, Keeper: keeper, Log: zerolog.Nop(), Tasks: &tasks, Closing: closing,
			Root: simtest.Root, ACL: world, UnlockTimeout: 10 * time.Second, Random: bubble.Random(), Hints: hints,
			LossOf: func(_ *Entry, why error) error { return why }, Observe: func(*Entry, lease.Change) {}, Purged: func(*Request, string) {},
		}), s.Dial(s.Config("other"))}
		f(w)
		shut()
		if !zkconn.WaitFor(tasks.Close(), time.Minute) {
			t.Error("something still goes on")
		}
	})
}

func (w *office) acquire(lock string) *Entry {
	w.Helper()
	e, err := w.Acquire(w.Ctx, Request{
		Lock: lock, Kind: znode.Mutex, Values: w.Ctx, Terms: lease.Terms{TTL: 30 * time.Second, Grace: time.Second},
	})
	if err != nil {
		w.Fatalf("lock %s: %v", lock, err)
	}
	return e
}

func (w *office) acquireAll(n int) []*Entry {
	w.Helper()
	var all []*Entry
	for i := range n {
		all = append(all, w.acquire(fmt.Sprintf("x%d", i)))
	}
	return all
}

// discard ends entries, as holds that nobody wants any more, and waits until what
// follows from it is over. It returns how many transactions that took.
func (w *office) discard(all ...*Entry) int {
	w.Helper()
	before := w.writes()
	for _, e := range all {
		if _, why := e.Unlock(); why != nil {
			w.Error(why)
		}
		w.Discard(e)
	}
	time.Sleep(time.Second)
	synctest.Wait()
	return w.writes() - before
}

func (w *office) writes() int {
	n := w.Requests()["a"].Requests
	return n["multi"] + n["delete"]
}

// left checks what is left below the root.
func (w *office) left(want ...string) {
	w.Helper()
	var got []string
	for _, path := range w.Below(simtest.Root) {
		if strings.Count(path, "/") == 2 || slices.Contains(want, path) { // a parent, or what was asked for
			got = append(got, path)
		}
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		w.Errorf("left are %q, want %q", got, want)
	}
}

// accounted checks that no door counts an entry any more.
func (w *office) accounted() {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, d := range w.doors.byLock {
		if d.below != 0 || d.users != 0 || d.witness != nil {
			w.Errorf("%s: %d below, %d users, witness %v", name, d.below, d.users, d.witness)
		}
	}
}

// TestDepartures share transactions, with the parents that they leave empty.
func TestDepartures(t *testing.T) {
	simulate(t, "", func(w *office) {
		const n = 350
		if took := w.discard(w.acquireAll(n)...); took > n/10 {
			t.Errorf("%d transactions for %d entries", took, n)
		}
		w.left()
		w.accounted()
	})
}

// TestDeparturesThatGuessNothing look at each parent before they delete it.
func TestDeparturesThatGuessNothing(t *testing.T) {
	for _, hints := range []string{"none", "hostile"} {
		simulate(t, hints, func(w *office) {
			w.discard(w.acquireAll(50)...)
			w.left()
			w.accounted()
		})
	}
}

// TestDepartureOfABadMember: one whose node is gone, or somebody else's, does not keep
// the others.
func TestDepartureOfABadMember(t *testing.T) {
	simulate(t, "", func(w *office) {
		all := w.acquireAll(60)
		do := func(op any) {
			if _, err := w.other.Multi(w.Ctx, nil, op); err != nil {
				t.Error(err)
			}
		}
		do(&zk.DeleteRequest{Path: all[11].Path, Version: -1})
		do(&zk.SetDataRequest{Path: all[22].Path, Data: []byte("somebody else's"), Version: -1})
		if took := w.discard(all...); took > 30 {
			t.Errorf("%d transactions", took)
		}
		w.left(all[22].parent(), all[22].Path)
		if n, _ := w.Node(all[22].Path); string(n.Data) != "somebody else's" {
			t.Errorf("it holds %q", n.Data)
		}
		w.accounted()
	})
}

// TestDepartureFromARefusedParent: somebody has joined, or keeps something there. The
// entries go, and the parents of the others.
func TestDepartureFromARefusedParent(t *testing.T) {
	simulate(t, "", func(w *office) {
		all := w.acquireAll(60)
		kept := all[33].parent() + "/somebody-elses"
		w.Make(w.other, kept, "", world)
		w.discard(all...)
		w.left(all[33].parent(), kept)
		if _, there := w.Node(all[33].Path); there {
			t.Error("its entry is there still")
		}
		w.accounted()
	})
}

// TestDepartureOfManyFromOneParent: the last one out of a lock takes the parent along,
// though none of them joined alone.
func TestDepartureOfManyFromOneParent(t *testing.T) {
	simulate(t, "", func(w *office) {
		first := w.acquire("x")
		got := make(chan *Entry, 20)
		ctx, cancel := context.WithCancel(w.Ctx)
		for range cap(got) {
			go func() {
				e, err := w.Acquire(ctx, Request{Lock: "x", Kind: znode.Mutex, Values: w.Ctx, Terms: first.Terms})
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%v, %v", e, err)
				}
				got <- e
			}()
		}
		synctest.Wait()
		cancel() // all withdraw at once
		for range cap(got) {
			<-got
		}
		w.discard(first)
		w.left()
		w.accounted()
	})
}

// TestDepartureOfALostReply: whether the batch was applied or not, in the end all are
// gone, and nobody is told otherwise.
func TestDepartureOfALostReply(t *testing.T) {
	for _, drop := range []locktest.Drop{locktest.BeforeApply, locktest.AfterApply} {
		simulate(t, "", func(w *office) {
			all := w.acquireAll(40)
			var dropped atomic.Bool
			w.Intercept(func(r locktest.Request) locktest.Fault {
				if r.Op != "multi" || len(r.Paths) < 10 || dropped.Swap(true) {
					return locktest.Fault{}
				}
				return locktest.Fault{Drop: drop}
			})
			w.discard(all...)
			w.Intercept(nil)
			if !dropped.Load() {
				t.Error("there was no batch")
			}
			w.left()
			w.accounted()
		})
	}
}
