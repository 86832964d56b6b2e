// Elections: campaign, proclaim, resign, arguments, priorities, observers, faults.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// campaign starts a Campaign of the client with the value, and returns when the candidate is in the
// queue. The outcome has the hold of the leadership.
func (w *world) campaign(ctx context.Context, c *lock.Client, value string, priority ...int) <-chan taken {
	w.Helper()
	return joined(w, func() (*lock.Hold, error) {
		return holdOf(c.Election("x").WithPriority(max(1, append(priority, 1)[0])).Campaign(ctx, value))
	}, "x")
}

// holdOf returns the hold of a Campaign's result.
func holdOf(l *lock.Leadership, err error) (*lock.Hold, error) {
	if err != nil {
		return nil, err
	}
	return lock.HoldOf(l), nil
}

// leader returns the value of the leader that c sees, "" if there is none.
func (w *world) leader(c *lock.Client) string {
	w.Helper()
	l, err := c.Election("x").Leader(w.ctx)
	mustBeTrue(w, err == nil || errors.Is(err, lock.ErrNoLeader), "%v", err)
	isTrue(w, (err == nil) == l.Leads && (err == nil) != (l.Token == lock.Token{}), "%+v, %v", l, err)
	return l.Value
}

func valueOf(h *lock.Hold) string { return h.Metadata()[znode.ValueKey] }

// leads checks that the candidate with the value was elected, and that the clients see it as the
// leader. It returns the hold.
func (w *world) leads(ch <-chan taken, value string, clients ...*lock.Client) *lock.Hold {
	w.Helper()
	h := w.expect(ch).hold
	got := valueOf(h)
	mustBeTrue(w, got == value, "%q leads, want %q", got, value)
	for _, c := range clients {
		equal(w, "the leader that is shown", w.leader(c), value)
	}
	return h
}

func TestElection(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		observer := w.dial("observer")
		equal(t, "the leader that is shown", w.leader(observer), "")
		election := a.Election("x", lock.WithMetadata(map[string]string{"zone": "1"})).WithPriority(3)
		first, err := election.Campaign(w.ctx, "a:80")
		w.ok(err)
		equal(t, "the leader that is shown", w.leader(observer), "a:80")
		second := w.campaign(w.ctx, b, "b:80")
		w.waits(second)
		got, err := observer.Election("x").Leader(w.ctx)
		want := lock.Candidate{Leads: true, Value: "a:80", Priority: 3, Token: first.Token(), Entry: first.EntryPath(), Owner: "a", Host: got.Host, PID: got.PID}
		isTrue(t, err == nil && got == want && got.PID != 0, "%+v, %v, want %+v", got, err, want)
		equal(t, "zone", first.Metadata()["zone"], "1")
		all, err := observer.Election("x").Candidates(w.ctx)
		isTrue(t, err == nil && len(all) == 2 && all[0] == want && !all[1].Leads && all[1].Value == "b:80" && all[1].Priority == 1, "candidates %+v, %v", all, err)

		w.ok(first.Proclaim(w.ctx, "a:81"))
		equal(t, "the leader that is shown", w.leader(observer), "a:81")
		time.Sleep(ttl) // renewals keep the value
		equal(t, "the leader that is shown", w.leader(observer), "a:81")
		w.ok(first.Resign())
		mustBe(t, first.Proclaim(w.ctx, "late"), lock.ErrUnlocked)
		h := w.leads(second, "b:80", a, b, observer)
		isTrue(t, h.Token().Compare(first.Token()) > 0, "token %v follows %v", h.Token(), first.Token())
		w.unlock(h)
		equal(t, "the leader that is shown", w.leader(observer), "")
		w.empty()
	})
}

// TestElectionAndMutex: a mutex of the same name excludes candidates, and its holder is no leader.
func TestElectionAndMutex(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x")
		ch := w.campaign(w.ctx, b, "b")
		w.waits(ch)
		equal(t, "the leader that is shown", w.leader(a), "")
		w.unlock(h)
		leader := w.leads(ch, "b", a)
		mustBe(t, second(a.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
		mustBe(t, second(leader.Detach(w.ctx, 0)), lock.ErrInvalid)
		fails(t, second(leader.Ticket()), lock.ErrInvalid, `hold of "x"`, "leadership", "resign")
		mustBe(t, b.RWMutex("x").Downgrade(w.ctx, leader), lock.ErrInvalid)
		w.alive(leader)
		mustBe(t, second(b.Election("x").Campaign(leader.Context(), "again")), lock.ErrInvalid)
		w.finish(leader, w.takeIn(leader.Context(), b.Mutex("x").Lock))
	})
}

func TestElectionArguments(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial("a")
		for says, e := range map[string]*lock.Election{
			"priority 0: must be":       c.Election("x").WithPriority(0),
			"priority 1048577: must be": c.Election("x").WithPriority(lock.MaxPriority + 1),
			"\"election.value\": is":    c.Election("x", lock.WithMetadata(map[string]string{"election.value": "x"})),
			"must not start":            c.Election("/x"),
			"must come from a client":   new(lock.Election),
		} {
			fails(t, second(e.Campaign(w.ctx, "v")), lock.ErrInvalid, says)
			mustBe(t, second(e.Leader(w.ctx)), lock.ErrInvalid)
			mustBe(t, second(e.Candidates(w.ctx)), lock.ErrInvalid)
			for l, err := range e.Observe(w.ctx) {
				mustBe(t, err, lock.ErrInvalid)
				isTrue(t, l == (lock.Candidate{}), "%v", l)
			}
		}
		fails(t, second(c.Election("x").Campaign(w.ctx, strings.Repeat("v", 4<<10))), lock.ErrInvalid, `value "vvvvvvvv`, "4110 bytes", "at most 4096")
		_, err := c.Mutex("x", lock.WithMetadata(map[string]string{"election.value": "x"})).Lock(w.ctx)
		mustBe(t, err, lock.ErrInvalid) // observers would take the holder for the leader
		w.hasNodes(0)
	})
}

// TestTryCampaignAndDo: TryCampaign leads if no candidate leads or waits, and all clients see that. Else it
// fails with ErrHeld, also with a higher priority, and leaves nothing behind. Do runs the function while the
// candidate leads, and then resigns. The function's context ends when the leadership is lost.
func TestTryCampaignAndDo(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		first, err := a.Election("x").TryCampaign(w.ctx, "a:80")
		w.ok(err)
		equal(t, "the leader that is shown", w.leader(b), "a:80")
		for _, priority := range []int{1, 2} {
			mustBe(t, second(b.Election("x").WithPriority(priority).TryCampaign(w.ctx, "b:80")), lock.ErrHeld)
		}
		w.hasEntries("x", 1)
		w.ok(first.Resign())
		last, err := b.Election("x").TryCampaign(w.ctx, "b:80")
		w.ok(err)
		equal(t, "the leader that is shown", w.leader(a), "b:80")
		w.ok(last.Resign())

		wrong := errors.New("wrong")
		mustBe(t, a.Election("x").Do(w.ctx, "a:80", func(ctx context.Context) error {
			equal(t, "the leader that is shown", w.leader(b), "a:80")
			return wrong
		}), wrong)
		equal(t, "the leader that is shown", w.leader(b), "")
		mustBe(t, a.Election("x").Do(w.ctx, "a:80", func(ctx context.Context) error {
			w.remove(w.raw("admin"), w.entries("x")[0].Path)
			<-ctx.Done()
			return context.Cause(ctx)
		}), lock.ErrRemoved)
		mustBe(t, a.Election("x").Do(w.ctx, "a:80", nil), lock.ErrInvalid)
	})
}

// candidates returns a leader and the candidates that wait behind it, each of its own client. The
// first letter of a value is the priority: "2x" has priority two.
func (w *world) candidates(values ...string) (leader *lock.Hold, waiting map[string]<-chan taken) {
	w.Helper()
	leader = w.leads(w.campaign(w.ctx, w.dial("leader"), "leader"), "leader")
	waiting = map[string]<-chan taken{}
	for _, v := range values {
		waiting[v] = w.campaign(w.ctx, w.dial(v), v, int(v[0]-'0'))
	}
	return leader, waiting
}

// succession makes each leader resign, and returns the order of the leaders.
func (w *world) succession(leader *lock.Hold, waiting map[string]<-chan taken) string {
	w.Helper()
	var order []string
	for len(waiting) > 0 {
		ended := w.end(leader)
		w.unlock(leader)
		got := w.elected(waiting)
		w.inTurn(ended, got)
		leader = got.hold
		order = append(order, valueOf(leader))
	}
	w.unlock(leader)
	return strings.Join(order, " ")
}

// elected returns the outcome of the one candidate that leads by now, and removes it from waiting.
func (w *world) elected(waiting map[string]<-chan taken) (leader taken) {
	w.Helper()
	settle()
	settle() // until some candidates have yielded
	for v, ch := range waiting {
		select {
		case got := <-ch:
			mustBeTrue(w, got.err == nil && leader.hold == nil, "%s: %v, and %v leads", v, got.err, leader.hold)
			leader = got
			delete(waiting, v)
		default:
		}
	}
	mustBeTrue(w, leader.hold != nil, "no leader, and %d wait", len(waiting))
	return leader
}

// TestPriorities: a candidate at the head of the queue leads if no waiting candidate has a higher
// priority. Otherwise it yields and queues again at the end. Observers do not see candidates that
// yield.
func TestPriorities(t *testing.T) {
	for waiting, want := range map[string]string{
		"1a 1b 1c":       "1a 1b 1c",
		"1a 2b":          "2b 1a",
		"1a 1b 2c":       "2c 1a 1b",
		"1a 2b 2c 1d":    "2b 2c 1d 1a",
		"1a 2b 3c":       "3c 2b 1a",
		"3a 2b 1c":       "3a 2b 1c",
		"1a 1b 9c 5d 9e": "9c 9e 5d 1a 1b",
	} {
		subtest(t, waiting, locktest.Options{}, func(w *world) {
			values := strings.Fields(waiting)
			leader, candidates := w.candidates(values...)
			seen := w.observe(w.ctx, w.dial("observer"))
			got := w.succession(leader, candidates)
			equal(w, "led in the order", got, want)
			settle()
			equal(w, "observed", strings.ReplaceAll(strings.Join(seen.values(), " "), " -", ""), "leader "+got)
			w.empty()
		})
	}
}

// TestHigherCandidateDies: the candidates of higher priorities have crashed. If their leases have
// expired, another candidate leads at once, and otherwise after they have expired. All candidates
// together need at most 40 transactions.
func TestHigherCandidateDies(t *testing.T) {
	each(t, "before", []time.Duration{0, ttl + grace + time.Second}, func(w *world, before time.Duration) { // from the crash to the resignation
		leader, waiting := w.candidates("1a", "1b", "2c", "3d")
		for _, v := range []string{"2c", "3d"} {
			w.die(v, w.entryOf(v))
		}
		time.Sleep(before)
		stood := w.entryOf("1a")
		txns := w.Transactions()
		w.unlock(leader)
		died := time.Now()
		first := w.first(waiting["1a"], waiting["1b"])
		took := first.at.Sub(died)
		if before > 0 && took > 100*latency || took > ttl+grace+time.Second {
			w.Errorf("it took %v", took)
		}
		isTrue(w, before <= 0 || first.hold.EntryPath() == stood, "the first one has given way to the dead")
		atMost(w, "transactions", w.Transactions()-txns, 40)
		w.unlock(first.hold)
		first = w.first(waiting["1a"], waiting["1b"])
		for _, v := range []string{"2c", "3d"} {
			w.Heal(v)
		}
		w.unlock(first.hold)
		for range 2 { // both have lost their places, and queue again
			w.unlock(w.first(waiting["2c"], waiting["3d"]).hold)
		}
		w.empty()
	})
}

// TestHigherCandidateThatCrashLoops: if candidates of a higher priority crash again and again
// before they lead, each other candidate still leads within three times TTL and grace.
func TestHigherCandidateThatCrashLoops(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		leader, waiting := w.candidates("1a", "1b")
		ctx, stop := context.WithCancel(w.ctx)
		crashed := async(func() error {
			for i := 0; ctx.Err() == nil; i++ {
				label := fmt.Sprint("crash", i)
				e := w.dial(label).Election("x").WithPriority(5)
				go e.Campaign(ctx, "5x")
				time.Sleep(ttl / 2)
				w.kill(label)
			}
			return nil
		})
		time.Sleep(ttl)
		w.unlock(leader)
		begun := time.Now()
		for range waiting {
			got := w.first(waiting["1a"], waiting["1b"])
			atMost(t, "led after", time.Since(begun), 3*(ttl+grace))
			w.unlock(got.hold)
			begun = time.Now()
		}
		stop()
		w.ok(<-crashed)
	})
}

// TestCandidateReadsForLong: if a candidate cannot read the other entries until its own lease has
// ended, it leads only after a later write succeeds, and by the same entry.
func TestCandidateReadsForLong(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		leader, waiting := w.candidates("1a")
		stood := w.entryOf("1a")
		begun := time.Now()
		w.faults(func(r locktest.Request) bool {
			fails := 2 * ttl // for so long it cannot read the queue
			if mutates(r, "1a") {
				fails += ttl
			}
			return r.Label == "1a" && time.Since(begun) < fails
		}, locktest.Fault{Code: codeThrottled})
		w.unlock(leader)
		time.Sleep(2*ttl + ttl/2)
		w.waits(waiting["1a"])
		h := w.await(waiting["1a"]).hold
		equal(w, "leads by", h.EntryPath(), stood)
		w.finish(h)
	})
}

// entryOf returns the path of the owner's entry at lock "x".
func (w *world) entryOf(owner string) string {
	w.Helper()
	for _, n := range w.entries("x") {
		if w.record(n.Path).Owner == owner {
			return n.Path
		}
	}
	w.Fatalf("%s has no entry", owner)
	return ""
}

// TestHigherCandidateGivesUp: if the candidate of the highest priority gives up at any moment while
// the other candidates yield to it, there is a next leader at once.
func TestHigherCandidateGivesUp(t *testing.T) {
	for after := time.Duration(0); after < 60*latency; after += latency {
		subtest(t, fmt.Sprint("after ", after), locktest.Options{}, func(w *world) {
			leader, waiting := w.candidates("1a", "1b")
			ctx, cancel := context.WithCancel(w.ctx)
			higher := w.campaign(ctx, w.dial("2c"), "2c", 2)
			unlocked := async(leader.Unlock)
			time.Sleep(after)
			cancel()
			w.ok(<-unlocked)
			settle()
			if got := <-higher; got.err == nil {
				w.ok(got.hold.Err())
				w.waits(waiting["1a"], waiting["1b"])
				w.unlock(got.hold)
			} else {
				mustBe(w, got.err, context.Canceled)
			}
			w.succession(w.elected(waiting).hold, waiting)
			w.empty()
		})
	}
}

// TestNoYieldToADamagedCandidate: a candidate does not yield to a damaged entry, because the entry
// may have no owner.
func TestNoYieldToADamagedCandidate(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		leader, waiting := w.candidates("1a")
		z := w.raw("others")
		damaged := w.create(z, "/locks/x/0123456789abcdef-9-lock-", "", zk.FlagSequence)
		w.unlock(w.pass(leader, waiting["1a"]))
		w.remove(z, damaged)
	})
}

// shown records what an observer of an election receives.
type shown struct {
	mu     sync.Mutex
	all    []lock.Candidate
	err    error
	done   chan struct{}
	cancel context.CancelFunc
}

// observe observes the election in the background, until stop or the end of the test.
func (w *world) observe(ctx context.Context, c *lock.Client) *shown {
	ctx, cancel := context.WithCancel(ctx)
	s := &shown{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(s.done)
		for l, err := range c.Election("x").Observe(ctx) {
			s.mu.Lock()
			if s.err = err; err == nil {
				s.all = append(s.all, l)
			}
			s.mu.Unlock()
		}
	}()
	w.Cleanup(func() { cancel(); <-s.done })
	settle()
	return s
}

// values returns the observed values, "-" for no leader.
func (s *shown) values() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var values []string
	for _, l := range s.all {
		if !l.Leads {
			l.Value = "-"
		}
		values = append(values, l.Value)
	}
	return values
}

// is checks the observed values.
func (s *shown) is(t testing.TB, want ...string) {
	t.Helper()
	settle()
	equalAll(t, "observed", s.values(), want)
}

// stop ends the observer, and checks its error.
func (s *shown) stop(t testing.TB, want error) {
	t.Helper()
	s.cancel()
	<-s.done
	mustBe(t, s.err, want)
}

// TestObserve: an observer sees each leader, the absence of a leader, and new values. It sees
// nothing twice, and no renewals.
func TestObserve(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, observer := w.dial("a"), w.dial("b"), w.dial("observer")
		seen := w.observe(w.ctx, observer)
		seen.is(t, "-")
		for i, c := range []*lock.Client{a, b, a} { // with and without a parent
			h := w.leads(w.campaign(w.ctx, c, fmt.Sprint(i)), fmt.Sprint(i))
			settle()
			w.ok(lock.LeadershipOf(h).Proclaim(w.ctx, fmt.Sprint(i, "+")))
			time.Sleep(2 * ttl)
			w.unlock(h)
			time.Sleep(time.Duration(i) * ttl)
		}
		seen.is(t, "-", "0", "0+", "-", "1", "1+", "-", "2", "2+", "-")
		tokens := map[lock.Token]bool{}
		for i, l := range seen.all {
			if tokens[l.Token] = true; i > 0 && l.Leads && l.Token.Compare(seen.all[max(0, i-2)].Token) < 0 {
				t.Errorf("tokens fall: %+v", seen.all)
			}
		}
		equal(t, "tokens", len(tokens), 4)
		seen.stop(t, context.Canceled)
		w.empty()
	})
}

// TestObserversEnd: an observer ends with its context, with its loop, and with its client. Close
// does not take longer because of an observer.
func TestObserversEnd(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial("a")
		for _, lead := range []bool{false, true} {
			if lead {
				w.leads(w.campaign(w.ctx, w.dial("b"), "b"), "b")
			}
			why := errors.New("bored")
			ctx, cancel := context.WithCancelCause(w.ctx)
			seen := w.observe(ctx, c)
			cancel(why)
			<-seen.done
			mustBe(t, seen.err, context.Canceled, why)
			for range c.Election("x").Observe(w.ctx) {
				break
			}
			atMost(t, "watches", c.Watches(), 2)
		}
		seen := w.observe(context.WithoutCancel(w.ctx), c)
		begun := time.Now()
		w.close(c)
		atMost(w, "Close took", time.Since(begun), time.Second)
		<-seen.done
		mustBe(t, seen.err, lock.ErrClosed)
		mustBe(t, second(c.Election("x").Leader(w.ctx)), lock.ErrClosed)
	})
}

// TestWatchesOfObservers: 20 observers and 20 leaders leave at most 64 watches, and each observer
// reads the leader's entry about once per renewal.
func TestWatchesOfObservers(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, c := w.dial("a"), w.dial("observer")
		for range 20 {
			w.observe(w.ctx, c)
		}
		for i := range 20 {
			h := w.leads(w.campaign(w.ctx, a, fmt.Sprint(i)), fmt.Sprint(i))
			w.unlock(h)
			settle()
		}
		atMost(w, "watches", c.Watches(), 64)
		h := w.leads(w.campaign(w.ctx, a, "last"), "last")
		settle()
		spent := w.cost("observer", func() { time.Sleep(10 * ttl) })
		reads := spent.requests["getData"]
		isTrue(t, reads >= 20*25 && reads <= 20*35 && spent.total() <= 20*36+20, "20 observers of 30 renewals asked for %v", spent.requests)
		w.unlock(h)
	})
}

// TestLeaderByALaggingServer: if a client's server lags behind, Leader still returns the present
// leader. Observe shows each leader once, in order.
func TestLeaderByALaggingServer(t *testing.T) {
	simulate(t, locktest.Options{Members: 3}, func(w *world) {
		at, observer, lag := w.behind("a", "b")
		h := w.leads(w.campaign(w.ctx, at[0], "a"), "a", observer)
		ch := w.campaign(w.ctx, at[1], "b")
		seen := w.observe(w.ctx, observer)
		lag()
		h = w.pass(h, ch)
		seen.is(t, "a")
		equal(t, "the leader that is shown", w.leader(observer), "b")
		w.unlock(h)
		equal(t, "the leader that is shown", w.leader(observer), "")
		time.Sleep(time.Second)
		seen.is(t, "a", "b", "-")
	})
}

// TestLeaderThroughFlaps: faults of sessions and connections do not affect a leader, its candidates
// or its observers. Curator's latch gives up the leadership with the session (CURATOR-644, -645,
// -652, -696).
func TestLeaderThroughFlaps(t *testing.T) {
	everybody := []string{"a", "b", "c", "observer"}
	for _, tt := range []struct {
		name string
		flap func(w *world, label string)
	}{
		{"sessions expire", func(w *world, label string) { w.ExpireLabel(label) }},
		{"connections are cut", func(w *world, label string) { w.Cut(label) }},
		{"the server restarts", func(w *world, label string) {
			if label == "a" {
				w.ok(w.Stop(w.Servers()[0]))
				time.Sleep(time.Second)
				w.ok(w.Start(w.Servers()[0]))
			}
		}},
		{"the network stalls until sessions expire", func(w *world, label string) {
			w.ok(w.Partition(label))
			w.ExpireLabel(label)
			time.Sleep(700 * time.Millisecond)
			w.Heal(label)
		}},
	} {
		subtest(t, tt.name, locktest.Options{}, func(w *world) {
			a, b, c, observer := w.dial("a"), w.dial("b"), w.dial("c"), w.dial("observer")
			h := w.leads(w.campaign(w.ctx, a, "a"), "a")
			second, third := w.campaign(w.ctx, b, "b"), w.campaign(w.ctx, c, "c", 2)
			seen := w.observe(w.ctx, observer)
			for range 12 {
				for _, label := range everybody { // almost at the same time
					tt.flap(w, label)
				}
				time.Sleep(800 * time.Millisecond)
				mustBeTrue(w, h.Remaining() != 0, "the leader is valid no more: %v", h.Err())
			}
			time.Sleep(2 * time.Second)
			w.alive(h)
			w.waits(second, third)
			seen.is(w, "a")
			w.nothingLost(a, b, c)
			w.unlock(h)
			h = w.leads(third, "c", a, observer)
			w.unlock(h)
			w.unlock(w.leads(second, "b", a, observer))
			settle()
			equalAll(w, "observed", slices.DeleteFunc(seen.values(), func(v string) bool { return v == "-" }), []string{"a", "c", "b"})
			seen.stop(w, context.Canceled)
			w.empty()
		})
	}
}

// TestDeadLeader: a dead leader is shown until its lease and the grace are over, and then no longer,
// although no client purges its entry. Then a new candidate leads within a dozen round trips, however
// long ago that was, and although it did not observe it (client-go#448).
func TestDeadLeader(t *testing.T) {
	each(t, "ago", []time.Duration{time.Second, time.Hour}, func(w *world, ago time.Duration) {
		h := w.leads(w.campaign(w.ctx, w.dial("a"), "a"), "a")
		seen := w.observe(w.ctx, w.dial("observer"))
		w.die("a", h.EntryPath())
		time.Sleep(ttl - time.Second)
		seen.is(w, "a")
		time.Sleep(time.Second + grace + ago)
		seen.is(w, "a", "-")
		w.hasEntries("x", 1)
		b := w.dial("b")
		equal(w, "the leader that is shown", w.leader(b), "")
		all, err := b.Election("x").Candidates(w.ctx)
		isTrue(w, err == nil && len(all) == 0, "candidates %+v, %v", all, err)
		begun := time.Now()
		l, err := b.Election("x").Campaign(w.ctx, "b")
		w.ok(err)
		atMost(w, "it took", time.Since(begun), 24*latency)
		w.Heal("a")
		w.finish(lock.HoldOf(l))
	})
}

// TestFirstCandidateWhoseReplyIsLost: the reply to the first candidate's create is lost or late, and a
// candidate of a higher priority joins. Observers see each leader in the order of leadership, and
// no other candidate.
func TestFirstCandidateWhoseReplyIsLost(t *testing.T) {
	run := func(w *world, befall func()) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(a, "warm"))
		seen := w.observe(w.ctx, w.dial("observer"))
		befall()
		first := start(func() (*lock.Hold, error) { return holdOf(a.Election("x").Campaign(w.ctx, "1a")) })
		time.Sleep(10 * latency)
		second := start(func() (*lock.Hold, error) {
			return holdOf(b.Election("x").WithPriority(2).Campaign(w.ctx, "2b"))
		})
		var led []string
		for range 2 {
			got := w.first(first, second)
			led = append(led, valueOf(got.hold))
			time.Sleep(time.Second)
			w.unlock(got.hold)
			time.Sleep(time.Second)
		}
		told := slices.DeleteFunc(seen.values(), func(v string) bool { return v == "-" })
		isTrue(w, slices.Equal(told, led), "observed %q, led %q", told, led)
		w.empty()
	}
	forEachMishap(t, func(w *world, mishap int) { run(w, func() { w.mishap(mishap, "a", joins) }) })
	subtest(t, "late", locktest.Options{}, func(w *world) {
		run(w, func() { w.fault(joins, locktest.Fault{DelayReply: 100 * time.Millisecond}) })
	})
}
