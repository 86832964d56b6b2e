package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/simtest"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// world is an ensemble in memory, in virtual time, and a keeper of entries there.
type world struct {
	*simtest.World
	conn   *zkconn.Conn
	other  *zkconn.Conn // another client's
	clock  *clock.Clock
	keeper *Keeper
	close  func()       // ends the keeper, and waits for it
	slept  atomic.Int64 // time of suspension in ns: timers stand still

	mu      sync.Mutex
	batches [][]string // paths of each transaction of renewals
	fault   func(batch int, paths []string) locktest.Fault
}

// simulate runs f with a keeper that is running.
func simulate(t *testing.T, f func(w *world)) {
	t.Helper()
	simtest.Run(t, locktest.Options{MaxFrame: 50_000}, func(s *simtest.World) {
		w := &world{World: s}
		cfg := s.Config("a")
		cfg.Reconnected = func() { w.keeper.Reconnected() }
		w.conn, w.other = s.Dial(cfg), s.Dial(s.Config("other"))
		w.Make(w.conn, simtest.Root, "", zk.WorldACL(zk.PermAll))
		local := func() clock.Instant {
			slept := time.Duration(w.slept.Load())
			return clock.Instant{Mono: s.Mono() + slept, Wall: s.Wall() + slept}
		}
		w.clock = clock.New(w.conn, simtest.Root, zk.WorldACL(zk.PermAll), local, znode.NewID)
		ctx, cancel := context.WithCancelCause(s.Ctx)
		var tasks sync.WaitGroup
		w.keeper = NewKeeper(Options{
			Conn: w.conn, Clock: w.clock, Log: zerolog.Nop(), Who: znode.Record{Owner: "a"},
			Jitter:     func(d, _ time.Duration) time.Duration { return d },
			Background: func(f func()) { tasks.Go(f) },
		})
		tasks.Go(func() { w.keeper.Run(ctx) })
		w.close = func() {
			cancel(zkconn.ErrClosing)
			tasks.Wait()
		}
		defer w.close()
		w.Intercept(w.intercept)
		f(w)
	})
}

// intercept records the transactions of renewals, and applies faults to them.
func (w *world) intercept(r locktest.Request) locktest.Fault {
	if r.Label != "a" || r.Op != "multi" && r.Op != "setData" || !strings.HasPrefix(r.Paths[0], simtest.Root+"/e") {
		return locktest.Fault{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batches = append(w.batches, r.Paths)
	if w.fault != nil {
		return w.fault(len(w.batches), r.Paths)
	}
	return locktest.Fault{}
}

// sent returns the batches since its last call.
func (w *world) sent() [][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.batches
	w.batches = nil
	return all
}

// onFirst applies the fault to the next batch. The test fails if there is none.
func (w *world) onFirst(f locktest.Fault) {
	w.sent()
	w.mu.Lock()
	defer w.mu.Unlock()
	var done atomic.Bool
	w.Cleanup(func() {
		if !done.Load() {
			w.Errorf("no batch came to suffer %+v", f)
		}
	})
	w.fault = func(batch int, _ []string) locktest.Fault {
		if batch == 1 {
			done.Store(true)
			return f
		}
		return locktest.Fault{}
	}
}

// hold creates a node, and returns its entry, which is held, and the entry's owner.
func (w *world) hold(name string, t Terms) (*Entry, *owner) {
	w.Helper()
	o := &owner{entry: new(Entry)}
	path, sent := simtest.Root+"/"+name, w.clock.Local()
	r := w.keeper.Record(&t, t.TTL, Grant{}, sent)
	create := &zk.CreateRequest{Path: path, Data: r.Encode(), Acl: zk.WorldACL(zk.PermAll)}
	iferr.Fatal(w, iferr.Of(w.conn.Multi(w.Ctx, create)))
	o.entry.Init(w.keeper, o, path, t, Created{Sent: sent, Session: w.conn.Session()})
	iferr.Fatal(w, o.entry.Grant(w.Ctx, w.clock.Local(), Never))
	return o.entry, o
}

func (w *world) holds(n int, t Terms) []*Entry {
	w.Helper()
	var all []*Entry
	for i := range n {
		e, _ := w.hold(fmt.Sprintf("e%d", i), t)
		all = append(all, e)
	}
	return all
}

var plain = Terms{TTL: testTTL, Grace: testGrace}

// write writes a node, as another client.
func (w *world) write(path, data string) {
	w.Helper()
	iferr.Error(w, iferr.Of(w.other.Multi(w.Ctx, &zk.SetDataRequest{Path: path, Data: []byte(data), Version: -1})))
}

// remove deletes a node, as another client.
func (w *world) remove(path string) {
	w.Helper()
	iferr.Error(w, iferr.Of(w.other.Multi(w.Ctx, &zk.DeleteRequest{Path: path, Version: -1})))
}

// TestRenewals: renewals have an interval of a third of the TTL, with the entry's bytes and
// version, and sample the leader's clock.
func TestRenewals(t *testing.T) {
	simulate(t, func(w *world) {
		e, _ := w.hold("e", plain)
		for n := range uint64(5) {
			if got := w.keeper.Renewals(); got != n {
				t.Fatalf("%d renewals, want %d", got, n)
			}
			time.Sleep(testTTL / 3)
			synctest.Wait()
		}
		n, _ := w.Node(e.Path)
		record, err := znode.DecodeRecord(n.Data)
		if err != nil || record.TTL != testTTL.Milliseconds() || record.Owner != "a" || !record.Granted() || n.Stat.Version != 5 {
			t.Errorf("version %d holds %s: %v", n.Stat.Version, n.Data, err)
		}
		if !e.Recorded() || e.Remaining() < testTTL/2 || !w.clock.Known() || !e.WrittenIn(w.conn.Session()) {
			t.Errorf("%v remain, recorded %v", e.Remaining(), e.Recorded())
		}
		if n := len(w.keeper.Entries()); n != 1 {
			t.Errorf("%d are kept alive", n)
		}
	})
}

// TestKeeperSleepsThroughShortHolds: if locks are taken again and again, each for less time than
// the keeper's interval, the keeper wakes once. Without entries it sleeps.
func TestKeeperSleepsThroughShortHolds(t *testing.T) {
	simulate(t, func(w *world) {
		armed := func() time.Duration {
			synctest.Wait()
			w.keeper.mu.Lock()
			defer w.keeper.mu.Unlock()
			return w.keeper.armed
		}
		w.keeper.nudge() // the hold's end made the keeper look
		woken := armed()
		if want := w.clock.Mono() + heartbeat; woken != want {
			t.Fatalf("it sleeps until %v, want %v", woken, want)
		}
		for i := range 3 {
			time.Sleep(heartbeat / 10)
			e, _ := w.hold(fmt.Sprintf("e%d", i), plain)
			if at := armed(); at != woken {
				t.Errorf("hold %d has woken it: it sleeps until %v, and slept until %v", i, at, woken)
			}
			e.Unlock()
		}
		time.Sleep(heartbeat)
		if at := armed(); at != Never {
			t.Errorf("with nothing to keep it sleeps until %v", at)
		}
	})
}

// TestHoldAfterASuspend: a hold that begins right after a suspend is ended by max_hold in time, although
// the keeper's timer stood still during the suspend.
func TestHoldAfterASuspend(t *testing.T) {
	for _, with := range []string{"nothing", "another hold"} {
		t.Run(with, func(t *testing.T) {
			simulate(t, func(w *world) {
				if with != "nothing" {
					w.hold("eother", plain)
				}
				w.keeper.nudge()
				synctest.Wait() // until the keeper sleeps for a heartbeat
				w.slept.Add(int64(time.Hour))
				const brief = heartbeat / 4
				e, _ := w.hold("e", Terms{TTL: testTTL, Grace: testGrace, MaxHold: brief})
				time.Sleep(brief)
				synctest.Wait()
				if !errors.Is(e.Err(), ErrMaxHold) {
					t.Errorf("after its end: %v", e.Err())
				}
			})
		})
	}
}

// TestBatches: entries that are due together are written together, within the limit of a
// transaction, and stay together. A server that accepts 50 kB keeps the connection.
func TestBatches(t *testing.T) {
	for _, tt := range []struct {
		name      string
		metadata  int // bytes
		suspended bool
		n         int
		most      int
	}{
		{"small", 0, false, 750, 245},
		{"small, all due at once", 0, true, 750, 245},
		{"large", 4000, false, 100, 9},
		{"larger than the limit", 42_000, false, 10, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			simulate(t, func(w *world) {
				terms := plain
				terms.Metadata = map[string]string{"x": strings.Repeat("x", tt.metadata)}
				all := w.holds(tt.n, terms)
				for range 3 {
					w.sent()
					if tt.suspended { // all are due when the keeper wakes, and some again: the leader's clock seems to have stepped
						w.slept.Add(int64(testTTL / 3))
						time.Sleep(heartbeat)
					} else {
						time.Sleep(testTTL / 3)
					}
					synctest.Wait()
					seen := map[string]bool{}
					batches := w.sent()
					for _, paths := range batches {
						if len(paths) > tt.most {
							t.Errorf("%d in one transaction", len(paths))
						}
						for _, p := range paths {
							seen[p] = true
						}
					}
					if len(seen) != tt.n || len(batches) > tt.n/tt.most+2 && !tt.suspended {
						t.Errorf("%d transactions for %d of %d", len(batches), len(seen), tt.n)
					}
				}
				for _, e := range all {
					if e.Remaining() < testTTL/2 {
						w.Fatalf("%s: %v remain", e.Path, e.Remaining())
					}
				}
				if n := w.Requests()["a"].Handshakes; n != 1 {
					t.Errorf("%d handshakes", n)
				}
			})
		})
	}
}

// TestReconnect: after a reconnect, one entry is renewed, due or not. If the reply shows that the
// leader's clock has stepped, all entries are renewed.
func TestReconnect(t *testing.T) {
	for _, step := range []time.Duration{0, time.Hour, -time.Hour} {
		simulate(t, func(w *world) {
			all := w.holds(20, plain)
			iferr.Fatal(t, all[0].Refresh(w.Ctx)) // a sample of the clock as it is
			time.Sleep(testTTL / 10)
			w.sent()
			cut, renewed := w.Mono(), 0
			w.StepClock(step)
			w.Cut("a")
			time.Sleep(testTTL / 10)
			for _, e := range all {
				if e.WroteSince(cut) {
					renewed++
				}
			}
			if want := map[bool]int{true: 1, false: 20}[step == 0]; renewed != want {
				t.Errorf("step %v: %d were renewed, want %d", step, renewed, want)
			}
			if batches := w.sent(); len(batches) > 2 {
				t.Errorf("step %v: %d transactions", step, len(batches))
			}
		})
	}
}

// TestLostReply: after a lost request or reply, the batch is applied once. To find out whether it was
// applied, the keeper reads at most one entry.
func TestLostReply(t *testing.T) {
	for name, f := range map[string]struct {
		drop locktest.Drop
		want int32 // version
	}{"before it was applied": {locktest.BeforeApply, 1}, "after it was applied": {locktest.AfterApply, 1}} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				all := w.holds(10, plain)
				w.onFirst(locktest.Fault{Drop: f.drop})
				time.Sleep(testTTL / 3)
				w.Until("all are renewed", func() bool { return w.keeper.Renewals() >= 10 })
				for _, e := range all {
					n, _ := w.Node(e.Path)
					if l := e.Last(nil); n.Stat.Version != f.want || l.acknowledged != f.want || l.pending != nil || e.Err() != nil {
						t.Errorf("%s is at version %d, known to be at %d: %v", e.Path, n.Stat.Version, l.acknowledged, e.Err())
					}
				}
				if n := w.keeper.Renewals(); n != 10 {
					t.Errorf("%d renewals", n)
				}
				if n := w.Requests()["a"].Requests["getData"]; n > 1 {
					t.Errorf("%d entries were read to know of all", n)
				}
			})
		})
	}
}

// TestMembersAreApart: an entry ends if its node was deleted, or if another client wrote the node. The
// other entries of its batch are renewed.
func TestMembersAreApart(t *testing.T) {
	simulate(t, func(w *world) {
		all := w.holds(10, plain)
		same, _ := w.Node(all[7].Path)
		w.remove(all[2].Path)
		w.write(all[5].Path, "another client's")
		w.write(all[7].Path, string(same.Data)) // this client's bytes, written by another client
		w.sent()
		time.Sleep(testTTL / 3)
		w.Until("the others are renewed", func() bool { return w.keeper.Renewals() == 7 })
		if batches := w.sent(); len(batches) > 4 { // at most one for each excluded entry
			t.Errorf("%d transactions", len(batches))
		}
		for i, e := range all {
			switch want := map[int]error{2: ErrRemoved, 5: ErrTaken, 7: ErrTaken}[i]; {
			case want == nil && (e.Err() != nil || e.Remaining() < testTTL*9/10):
				t.Errorf("%d: %v, and %v remain", i, e.Err(), e.Remaining())
			case !errors.Is(e.Err(), want):
				t.Errorf("%d: %v, want %v", i, e.Err(), want)
			}
		}
		if n, _ := w.Node(all[5].Path); string(n.Data) != "another client's" {
			t.Errorf("overwritten: %s", n.Data)
		}
	})
}

// TestReadBack: an entry is found at a later version, with the bytes of this client's write. That
// proves the write only if an attempt may have been applied. If the write is of this batch,
// the whole batch was applied, and the lease counts from the first attempt.
func TestReadBack(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		ours, doubt, earlier bool // the bytes are this client's; the write was in doubt; it was sent before this batch
		tried                bool
		all                  bool
		want                 error
	}{
		{name: "of this batch", ours: true, doubt: true, tried: true, all: true},
		{name: "of an earlier batch", ours: true, doubt: true, earlier: true},
		{name: "of an earlier batch, and this one was tried too", ours: true, doubt: true, earlier: true, tried: true},
		{name: "another client's with our bytes", ours: true, want: ErrTaken},
		{name: "another client's", doubt: true, tried: true, want: ErrTaken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			simulate(t, func(w *world) {
				w.close() // only this batch renews
				f := &flight{Keeper: w.keeper, spread: 1 << 20, tried: tt.tried}
				for _, name := range []string{"e0", "e1"} {
					o := &owner{entry: new(Entry)}
					e := o.entry
					e.Init(w.keeper, o, simtest.Root+"/"+name, plain, Created{Sent: w.clock.Local()})
					e.state, e.version = Held, 4
					e.writing = &write{e: e, data: []byte(name), version: 4, ttl: testTTL, first: w.clock.Local(), flying: true, doubt: tt.doubt}
					f.batch = append(f.batch, e.writing)
				}
				b, beside := f.batch[0], f.batch[1]
				e := b.e
				b.earlier = tt.earlier
				data := "another client's"
				if tt.ours {
					data = string(b.data)
				}
				w.Make(w.other, e.Path, "", zk.WorldACL(zk.PermAll))
				for version := range int32(5) {
					iferr.Fatal(t, iferr.Of(w.other.Multi(w.Ctx, &zk.SetDataRequest{Path: e.Path, Data: []byte(data), Version: version})))
				}
				time.Sleep(time.Second)
				if all := f.resolve(w.Ctx, b, 9); all != tt.all {
					t.Errorf("all of the batch: %v", all)
				}
				if !errors.Is(e.Err(), tt.want) || tt.want == nil && (e.Err() != nil || e.version != 5 || e.lease != (lease{b.first, testTTL}) || e.writing != nil) {
					t.Errorf("%v, at version %d, lease %+v", e.Err(), e.version, e.lease)
				}
				other := beside.e
				if acknowledged := other.writing == nil; acknowledged != tt.all || acknowledged && (other.version != 5 || other.lease.sent != beside.first) {
					t.Errorf("the other one: acknowledged %v, at version %d, lease %+v", acknowledged, other.version, other.lease)
				}
			})
		})
	}
}

// TestOverwrittenInDoubt: if the reply to a renewal is lost, and then another client writes the
// node, the hold ends with ErrTaken.
func TestOverwrittenInDoubt(t *testing.T) {
	simulate(t, func(w *world) {
		e, _ := w.hold("e", plain)
		w.onFirst(locktest.Fault{Drop: locktest.AfterApply})
		time.Sleep(testTTL / 3)
		w.write(e.Path, "another client's")
		w.Until("it is noticed", func() bool { return e.Err() != nil })
		if !errors.Is(e.Err(), ErrTaken) {
			t.Error(e.Err())
		}
	})
}

// TestShorteningInDoubt: a shortening was applied, its reply was lost, and the node cannot be read.
// The short lease counts until the outcome is known.
func TestShorteningInDoubt(t *testing.T) {
	const short = time.Second
	simulate(t, func(w *world) {
		e, _ := w.hold("e", plain)
		ended := e.Context(func(ctx context.Context) context.Context { return ctx })
		w.onFirst(locktest.Fault{Drop: locktest.AfterApply})
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Op == "getData" && r.Paths[0] == e.Path {
				return locktest.Fault{Code: -102}
			}
			return w.intercept(r)
		})
		begun := w.Mono()
		err := e.Extend(w.Ctx, short)
		<-ended.Done()
		if took := w.Mono() - begun; took > short || !errors.Is(context.Cause(ended), ErrExpired) {
			t.Errorf("ended after %v of a lease that may be of %v: %v", took, short, context.Cause(ended))
		}
		if !errors.Is(err, ErrExpired) {
			t.Errorf("Extend: %v", err)
		}
		n, _ := w.Node(e.Path)
		if record, err := znode.DecodeRecord(n.Data); err != nil || record.TTL != short.Milliseconds() {
			t.Errorf("the case is not what it means to be: %s, %v", n.Data, err)
		}
	})
}

// TestRefusedAsAWhole: a refusal that names no member costs no hold, and the batch is sent again.
func TestRefusedAsAWhole(t *testing.T) {
	simulate(t, func(w *world) {
		all := w.holds(3, plain)
		w.onFirst(locktest.Fault{Code: -8}) // bad arguments
		time.Sleep(testTTL / 3)
		w.Until("they are renewed", func() bool { return w.keeper.Renewals() == 3 })
		if n := len(w.sent()); n != 2 {
			t.Errorf("%d transactions, want two", n)
		}
		for _, e := range all {
			if e.Err() != nil {
				t.Error(e.Err())
			}
		}
	})
}

// TestRefusedExtension: an extension that is refused once is sent again before the hold is at risk.
func TestRefusedExtension(t *testing.T) {
	simulate(t, func(w *world) {
		e, _ := w.hold("e0", plain)
		w.onFirst(locktest.Fault{Code: -8}) // bad arguments
		began := w.Mono()
		if err := e.Extend(w.Ctx, 100*testTTL); err != nil || w.Mono()-began >= testTTL/4 {
			t.Errorf("after %v: %v", w.Mono()-began, err)
		}
	})
}

// TestUnansweredRenewal: a renewal whose reply takes longer than a third of the TTL counts as an
// outage.
func TestUnansweredRenewal(t *testing.T) {
	const ttl = 3 * time.Second // less than the time until the connection fails
	for delay, want := range map[time.Duration]bool{ttl/3 - 50*ms: false, ttl/3 + 50*ms: true} {
		simulate(t, func(w *world) {
			w.hold("e", Terms{TTL: ttl, Grace: testGrace})
			w.onFirst(locktest.Fault{DelayReply: delay})
			time.Sleep(ttl / 3)
			w.Until("it is answered", func() bool { return w.keeper.Renewals() == 1 })
			if last := w.conn.LastOutage(); last >= 0 != want {
				t.Errorf("answered after %v: the last outage was at %v", delay, last)
			}
		})
	}
}

// TestRefreshWaitsForAYoungerWrite: Refresh waits for a write that was sent after the call. It
// returns when its context ends.
func TestRefreshWaitsForAYoungerWrite(t *testing.T) {
	simulate(t, func(w *world) {
		e, _ := w.hold("e", plain)
		w.onFirst(locktest.Fault{DelayReply: time.Second})
		first := make(chan error, 1)
		go func() { first <- e.Refresh(w.Ctx) }()
		synctest.Wait()
		time.Sleep(500 * ms)
		asked := w.Mono()
		ctx, cancel := context.WithTimeout(w.Ctx, 100*ms)
		defer cancel()
		if err := e.Refresh(ctx); !errors.Is(err, context.DeadlineExceeded) || w.Mono()-asked != 100*ms {
			t.Errorf("after %v: %v", w.Mono()-asked, err)
		}
		if err := errors.Join(e.Refresh(w.Ctx), <-first); err != nil || !e.WroteSince(asked) {
			t.Errorf("not written since: %v", err)
		}
		synctest.Wait() // they are counted after they are answered
		if n := w.keeper.Renewals(); n != 2 {
			t.Errorf("%d renewals, want two", n)
		}
	})
}

// TestKeeperEnds: holds end with the keeper's reason, and waiters do not end.
func TestKeeperEnds(t *testing.T) {
	simulate(t, func(w *world) {
		e, o := w.hold("e", plain)
		waiter := &owner{entry: new(Entry)}
		waiter.entry.Init(w.keeper, waiter, simtest.Root+"/ewaiter", plain, Created{Sent: w.clock.Local()})
		waiter.entry.Begin(w.Ctx)
		w.close()
		if !errors.Is(e.Err(), zkconn.ErrClosed) || !errors.Is(e.Err(), errLost) || len(o.told) != 2 {
			t.Errorf("%v, told %+v", e.Err(), o.told)
		}
		if waiter.entry.Err() != nil {
			t.Error(waiter.entry.Err())
		}
	})
}

// TestKeeperEndsDuringAWrite: the keeper ends while the reply to a renewal is out. The write stays in
// doubt, so the delete goes behind it, at once, and succeeds whether or not the write was applied.
func TestKeeperEndsDuringAWrite(t *testing.T) {
	for name, fault := range map[string]locktest.Fault{
		"applied": {DelayReply: time.Minute}, "in order": {Delay: 100 * time.Millisecond}, "lost": {Drop: locktest.BeforeApply},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				e, _ := w.hold("e", plain)
				w.onFirst(fault)
				time.Sleep(testTTL/3 + 10*time.Millisecond)
				w.close()
				last := e.Last(nil)
				if last.version != last.acknowledged+1 || last.pending == nil || e.writing.flying || !e.writing.doubt {
					t.Errorf("version %d after %d, write %+v", last.version, last.acknowledged, e.writing)
				}
				begun := w.clock.Mono()
				if err := w.conn.Retry(w.Ctx, zkconn.DefaultBackoff, func() error {
					if _, err := w.conn.Share(w.Ctx, zkconn.Member{Ops: last.Ops(), Stays: true}); err != nil {
						return last.Failed(w.Ctx, err)
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
				if _, there := w.Node(e.Path); there {
					t.Error("the node is there")
				}
				if took := w.clock.Mono() - begun; took > testTTL/2 && name != "applied" {
					t.Errorf("the delete took %v", took)
				}
			})
		})
	}
}
