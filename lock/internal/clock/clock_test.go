package clock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/internal/simtest"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

const markPath = simtest.Root + "/" + znode.EpochMark

var open = zk.WorldACL(zk.PermAll)

// world is an ensemble in memory, in virtual time, with a root.
type world struct{ *simtest.World }

// simulate runs f with three members, so that there are elections and epochs.
func simulate(t *testing.T, f func(w world)) {
	t.Helper()
	simtest.Run(t, locktest.Options{Members: 3}, func(w *simtest.World) {
		w.Make(w.Dial(w.Config("root")), simtest.Root, "", open)
		f(world{w})
	})
}

// clock returns the clock of a new client, at the given members.
func (w world) clock(label string, servers ...string) *Clock {
	w.Helper()
	conn := w.Dial(w.Config(label), servers...)
	local := func() Instant { return Instant{Mono: w.Mono(), Wall: w.Wall()} }
	return New(conn, simtest.Root, open, local, znode.NewID)
}

func (w world) sampled(label string, servers ...string) *Clock {
	w.Helper()
	c := w.clock(label, servers...)
	iferr.Fatal(w, c.Sample(w.Ctx))
	return c
}

// writes returns the number of writes that the client has requested.
func (w world) writes(label string) int {
	n := w.Requests()[label].Requests
	return n["multi"] + n["setData"]
}

// prove proves that a write is from before the epoch. An error fails the test.
func (w world) prove(c *Clock) {
	w.Helper()
	iferr.Error(w, c.Prove(w.Ctx, c.Now(), 1))
}

// marked checks that the clock has read its mark. If since is not 0, it also checks that the clock
// counts from since, a Unix time in ms.
func (w world) marked(c *Clock, since int64) {
	w.Helper()
	if now := c.Now(); !now.Marked || since != 0 && now.Since.Milliseconds() != since {
		w.Errorf("%+v, want it to count from %d ms", now, since)
	}
}

func (w world) mark() *locktest.Node {
	w.Helper()
	n, ok := w.Node(markPath)
	if !ok {
		w.Fatal("there is no mark")
	}
	return &n
}

// elect makes another member the leader, and then restarts the old leader.
func (w world) elect() {
	w.Helper()
	old := w.StopLeader()
	w.Until("there is a leader", func() bool { return w.Leader() != "" })
	iferr.Fatal(w, w.Start(old))
	time.Sleep(time.Second)
}

func TestSample(t *testing.T) {
	simulate(t, func(w world) {
		c := w.clock("a")
		if c.Known() || c.Millis(c.Local()) != 1 {
			t.Error("knows the time without a sample")
		}
		time.Sleep(time.Second)
		iferr.Fatal(t, c.Sample(w.Ctx))
		now, real := c.Now(), w.Wall()
		if real < now.Lower || real > now.Upper || now.Upper-now.Lower > 2*ms || now.Marked {
			t.Errorf("the leader's clock shows %v, and is thought to be in %+v", real, now)
		}
		if late := c.Millis(c.Local()) - real.Milliseconds(); late < 0 || late > 2 {
			t.Errorf("the latest that it may show is %d ms from what it does", late)
		}
		if below := w.Below(simtest.Root); len(below) > 0 {
			t.Errorf("left behind: %q", below)
		}
	})
}

// TestSampleOverALostReply: if the request or the reply of a sample is lost, the client sends the
// transaction again. No node is left.
func TestSampleOverALostReply(t *testing.T) {
	for _, drop := range []locktest.Drop{locktest.BeforeApply, locktest.AfterApply} {
		simulate(t, func(w world) {
			c := w.clock("a")
			w.once("multi", locktest.Fault{Drop: drop})
			if err := c.Sample(w.Ctx); err != nil || !c.Known() {
				t.Error(err)
			}
			if below := w.Below(simtest.Root); len(below) > 0 {
				t.Errorf("left behind: %q", below)
			}
		})
	}
}

// once applies the fault to the first request of the operation. The test fails if there is none.
func (w world) once(op string, f locktest.Fault) {
	var done atomic.Bool
	w.Intercept(func(r locktest.Request) locktest.Fault {
		if r.Op == op && !done.Swap(true) {
			return f
		}
		return locktest.Fault{}
	})
	w.Cleanup(func() {
		if !done.Load() {
			w.Errorf("no %s came to suffer %+v", op, f)
		}
	})
}

func TestSampleFails(t *testing.T) {
	simulate(t, func(w world) {
		c := w.clock("a")
		ctx, cancel := context.WithCancelCause(w.Ctx)
		why := errors.New("not wanted any more")
		cancel(why)
		if err := c.Sample(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, why) || !errors.Is(zkconn.Reveal(err), why) {
			t.Errorf("its context had ended: %v", err)
		}
		w.setACL(simtest.Root, zk.PermRead)
		if err := c.Sample(w.Ctx); !errors.Is(err, zkconn.ErrDenied) || !strings.Contains(err.Error(), simtest.Root) {
			t.Errorf("where it may not write: %v", err)
		}
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Op == "multi" {
				return locktest.Fault{Code: -125, Op: 1}
			}
			return locktest.Fault{}
		})
		if err := c.Sample(w.Ctx); !errors.Is(err, zkconn.ErrDenied) || strings.Contains(err.Error(), zkconn.ErrDenied.Error()) {
			t.Errorf("where a quota is used up: %v", err)
		}
		w.Intercept(nil)
		if c.root = "/nowhere"; !errors.Is(c.Sample(w.Ctx), zk.ErrNoNode) {
			t.Error("without a root")
		}
		if c.Known() {
			t.Error("a sample of nothing")
		}
	})
}

// setACL gives all users the permissions on a node.
func (w world) setACL(path string, perms int32) {
	w.Helper()
	z, events, err := zk.Connect(w.Servers(), simtest.SessionTimeout, zk.WithDialer(w.Dialer("admin")), zk.WithLogInfo(false))
	iferr.Fatal(w, err)
	iferr.Error(w, iferr.Of(z.SetACL(path, zk.WorldACL(perms), -1)))
	z.Close()
	for range events { // until its goroutines have ended
	}
	synctest.Wait()
}

// TestManyShareOneRequest: of several callers that lack the same proof, one sends a request. A
// later caller that does not know the result yet sends none.
func TestManyShareOneRequest(t *testing.T) {
	simulate(t, func(w world) {
		c := w.clock("a")
		for i, missing := range []string{"first sample", "younger sample", "mark"} {
			knew, mzxid, before := c.Now(), int64(1), w.writes("a")
			if missing == "younger sample" {
				mzxid = knew.Zxid + 1
			}
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					iferr.Error(t, c.Prove(w.Ctx, knew, mzxid))
				})
			}
			all.Wait()
			if n := w.writes("a") - before; n != 1 {
				t.Errorf("%d transactions for a %s", n, missing)
			}
			if now := c.Now(); now.Zxid <= knew.Zxid || now.Marked != (i == 2) {
				t.Errorf("after a %s: %+v", missing, now)
			}
			if err := c.Prove(w.Ctx, knew, mzxid); err != nil || w.writes("a") != before+1 {
				t.Errorf("asked again for a %s: %v", missing, err)
			}
		}
	})
}

// TestProveEndsWithItsContext: a call ends with its context while another caller's request is in
// flight.
func TestProveEndsWithItsContext(t *testing.T) {
	simulate(t, func(w world) {
		c := w.clock("a")
		w.once("multi", locktest.Fault{DelayReply: 3 * time.Second})
		asked := make(chan error, 1)
		go func() { asked <- c.Prove(w.Ctx, znode.Now{}, 1) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(w.Ctx, time.Second)
		defer cancel()
		begun := w.Mono()
		if err := c.Prove(ctx, znode.Now{}, 1); !errors.Is(err, context.DeadlineExceeded) || w.Mono()-begun != time.Second {
			t.Errorf("after %v: %v", w.Mono()-begun, err)
		}
		iferr.Error(t, <-asked)
	})
}

// TestMarkIsWrittenOnceAnEpoch: the first judge that needs the mark writes it; the other judges read
// it.
func TestMarkIsWrittenOnceAnEpoch(t *testing.T) {
	simulate(t, func(w world) {
		var clocks []*Clock
		for _, label := range []string{"a", "b", "c"} {
			clocks = append(clocks, w.sampled(label))
			time.Sleep(time.Second)
		}
		for epoch := range int32(3) {
			for i, c := range clocks {
				first := c.Now().Since
				w.prove(c)
				n := w.mark()
				if n.Stat.Version != epoch+1 || znode.Epoch(n.Stat.Mzxid) != znode.Epoch(c.Now().Zxid) {
					t.Fatalf("epoch %d, judge %d: %+v", epoch, i, n.Stat)
				}
				w.marked(c, min(n.Stat.Mtime, first.Milliseconds()))
			}
			if data, err := znode.DecodeParent(w.mark().Data); err != nil || data.Kind != znode.Mark {
				t.Errorf("it holds %s: %v", w.mark().Data, err)
			}
			w.elect()
			for _, c := range clocks {
				iferr.Fatal(t, c.Sample(w.Ctx))
				if c.Now().Marked {
					t.Error("a new epoch is marked from the start")
				}
				time.Sleep(time.Second)
			}
			slices.Reverse(clocks) // another judge is the first
		}
	})
}

// TestMarkShowsTheAgeOfAnEpoch: the mark shows a later judge that the epoch began long before its
// own first sample.
func TestMarkShowsTheAgeOfAnEpoch(t *testing.T) {
	simulate(t, func(w world) {
		w.prove(w.sampled("a"))
		time.Sleep(time.Hour)
		c := w.sampled("b")
		w.prove(c)
		w.marked(c, w.mark().Stat.Mtime)
		if before := w.writes("b"); before != 1 {
			t.Errorf("%d transactions, want the sample alone", before)
		}
	})
}

// TestMarkOfANewerEpoch: a judge whose sample is from an old leader does not use the mark of a
// newer epoch. It first takes another sample.
func TestMarkOfANewerEpoch(t *testing.T) {
	simulate(t, func(w world) {
		c := w.sampled("a")
		epoch := znode.Epoch(c.Now().Zxid)
		w.elect()
		w.prove(w.sampled("b"))
		w.prove(c)
		if now := c.Now(); znode.Epoch(now.Zxid) <= epoch || now.Marked {
			t.Errorf("%+v", now)
		}
		w.prove(c)
		w.marked(c, w.mark().Stat.Mtime)
	})
}

// TestMarkThatIsDenied: if an ACL denies to create, write or read the mark, the judge counts from
// its own first sample, and does not ask again.
func TestMarkThatIsDenied(t *testing.T) {
	for name, deny := range map[string]func(w world){
		"to make": func(w world) { w.setACL(simtest.Root, zk.PermRead) },
		"to write": func(w world) {
			w.prove(w.sampled("other"))
			w.setACL(markPath, zk.PermRead)
			w.elect()
		},
		"to read": func(w world) {
			w.prove(w.sampled("other"))
			w.setACL(markPath, zk.PermWrite)
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w world) {
				c := w.sampled("a")
				first := c.Now()
				if deny(w); name == "to write" {
					iferr.Fatal(t, c.Sample(w.Ctx))
					first = c.Now()
				}
				w.prove(c)
				w.marked(c, first.Since.Milliseconds())
				before := w.Requests()["a"].Total()
				if err := c.Prove(w.Ctx, first, 1); err != nil || w.Requests()["a"].Total() != before {
					t.Errorf("it asks again: %v", err)
				}
			})
		})
	}
}

// TestMarkAtALaggingServer: if the judge's server does not show the mark yet, or shows the mark of an
// earlier epoch, the judge does not write the mark again. It counts from the mark's stamp, or from its
// own first sample if the sample is earlier.
func TestMarkAtALaggingServer(t *testing.T) {
	for _, epochs := range []int{0, 1} {
		simulate(t, func(w world) {
			other := w.sampled("other")
			if epochs > 0 {
				w.prove(other)
				w.elect()
				iferr.Fatal(t, other.Sample(w.Ctx))
			}
			follower := slices.DeleteFunc(w.Servers(), func(s string) bool { return s == w.Leader() })[0]
			c := w.sampled("a", follower)
			iferr.Fatal(t, w.Lag(follower, 2*time.Second))
			w.prove(other)
			version, first := w.mark().Stat.Version, c.Now().Since.Milliseconds()
			w.prove(c)
			w.marked(c, min(first, w.mark().Stat.Mtime))
			if w.mark().Stat.Version != version {
				t.Errorf("it was written again: %+v", w.mark().Stat)
			}
			iferr.Fatal(t, w.Lag(follower, 0))
		})
	}
}

// TestMarkIsRacedFor: if several judges find no mark, or an old one, at the same time, the mark is
// written once.
func TestMarkIsRacedFor(t *testing.T) {
	simulate(t, func(w world) {
		clocks := make([]*Clock, 5)
		for i := range clocks {
			clocks[i] = w.sampled(string(rune('a' + i)))
		}
		for epoch := range int32(2) {
			before := 0
			for i := range clocks {
				before -= w.writes(string(rune('a' + i)))
			}
			var all sync.WaitGroup
			for _, c := range clocks {
				all.Go(func() { w.prove(c) })
			}
			all.Wait()
			for i, c := range clocks {
				before += w.writes(string(rune('a' + i)))
				w.marked(c, 0)
			}
			if before < 2 {
				t.Errorf("epoch %d: %d tried, and none raced", epoch, before)
			}
			if v := w.mark().Stat.Version; v != epoch+1 {
				t.Errorf("epoch %d: written %d times", epoch, v)
			}
			w.elect()
			for _, c := range clocks {
				iferr.Fatal(t, c.Sample(w.Ctx))
			}
		}
	})
}

// TestMarkOverALostReply: after a lost reply the writer recognizes its own mark, and does not write
// it again.
func TestMarkOverALostReply(t *testing.T) {
	for _, drop := range []locktest.Drop{locktest.BeforeApply, locktest.AfterApply} {
		simulate(t, func(w world) {
			c := w.sampled("a")
			w.once("multi", locktest.Fault{Drop: drop})
			w.prove(c)
			w.marked(c, 0)
			if v := w.mark().Stat.Version; v != 1 {
				t.Errorf("written %d times", v)
			}
		})
	}
}
