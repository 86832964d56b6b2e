// Observers, holds at risk, and Check; events of local waiters and shared entries.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// observed is an observer that records its events.
type observed struct {
	mu     sync.Mutex
	events []lock.Event
	values []any // of each event's context, under key{}
}

func (o *observed) Observe(ctx context.Context, e lock.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events, o.values = append(o.events, e), append(o.values, ctx.Value(key{}))
}

// take returns the events since its last call.
func (o *observed) take() (events []lock.Event, values []any) {
	synctest.Wait() // until the client has delivered its events
	o.mu.Lock()
	defer o.mu.Unlock()
	events, values = o.events, o.values
	o.events, o.values = nil, nil
	return events, values
}

// these returns the events since the last call, which must be of these kinds.
func (w *world) these(o *observed, kinds ...lock.EventKind) (events []lock.Event, values []any) {
	w.Helper()
	events, values = o.take()
	same := slices.EqualFunc(events, kinds, func(e lock.Event, k lock.EventKind) bool { return e.Kind == k })
	mustBeTrue(w, same, "told %+v, want %v", events, kinds)
	return events, values
}

// tell returns the events since its last call, each as the function says it.
func (o *observed) tell(say func(e lock.Event, value any) string) string {
	events, values := o.take()
	var all []string
	for i, e := range events {
		all = append(all, strings.TrimSpace(say(e, values[i])))
	}
	return strings.Join(all, ", ")
}

// say returns the events since its last call, in short form.
func (o *observed) say() string {
	return o.tell(func(e lock.Event, _ any) string { return e.Kind.String() + " " + e.Lock + " " + e.ReasonLabel() })
}

func (w *world) says(o *observed, want string) {
	w.Helper()
	settle()
	equal(w, "told", o.say(), want)
}

// TestObserver: each observer receives the events of holds, waits, losses, purges and steps of the
// leader's clock, in order.
func TestObserver(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		cfg, err := config.Parse("config.yaml", []byte("policies: [{name: jobs, match: \"jobs/*\", ttl: 10s, grace: 1s, local_window: none}, {name: default, match: \"**\", ttl: 10s, grace: 1s, local_window: none}]"))
		w.ok(err)
		seen, too := new(observed), new(observed)
		a := w.dial("a", lock.WithPolicies(cfg.Policies), lock.WithObserver(seen), lock.WithObserver(too))
		b := w.dial("b")

		ctx, cancel := context.WithCancel(context.WithValue(w.ctx, key{}, "mine"))
		first := w.takeIn(ctx, a.Mutex("jobs/1").Lock)
		cancel()
		events, values := seen.take()
		mustBeTrue(t, len(events) == 1 && values[0] == "mine", "told %+v, with %v", events, values)
		got := events[0]
		if want := (lock.Event{Kind: lock.EventAcquired, Lock: "jobs/1", Policy: "jobs", Entry: first.EntryPath(), Token: first.Token(), Waited: got.Waited, At: got.At}); got != want || got.Waited <= 0 || got.Waited > time.Millisecond {
			t.Errorf("told %+v, want %+v", got, want)
		}
		again := w.takeIn(first.Context(), a.Mutex("jobs/1").Lock)
		w.unlock(again)
		w.says(seen, "")

		time.Sleep(2 * ttl)
		w.unlock(first)
		events, values = w.these(seen, lock.EventReleased)
		inRange(t, "held for", events[0].Held, 2*ttl, 2*ttl+time.Second)
		isTrue(t, events[0].Reason == nil && values[0] == "mine", "told %+v, with %v", events, values)

		// A wait that succeeds, and a wait that is given up.
		theirs := w.lock(b, "x")
		waits := w.queue(context.WithValue(w.ctx, key{}, "waiter"), a, "x")
		events, values = w.these(seen, lock.EventWaiting)
		isTrue(t, events[0].Policy == "default" && values[0] == "waiter", "told %+v, with %v", events, values)
		gaveUp := w.limited(ttl)
		<-w.queue(gaveUp, a, "x")
		w.unlock(theirs)
		h := w.await(waits).hold
		events, _ = w.these(seen, lock.EventWaiting, lock.EventWithdrawn, lock.EventAcquired)
		if withdrawn, acquired := events[1], events[2]; withdrawn.Waited < ttl-time.Second || withdrawn.Waited > ttl+time.Second || !withdrawn.Queued ||
			acquired.Waited <= withdrawn.Waited || !acquired.Queued || acquired.Entry != h.EntryPath() {
			t.Errorf("told %+v, %+v", withdrawn, acquired)
		}
		mustBe(t, second(a.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
		w.unlock(h)
		w.says(seen, "released x")

		// Losses, and purges.
		h = w.lock(a, "y", lock.WithMaxHold(time.Second), lock.WithTTL(time.Second))
		<-h.Context().Done()
		events, _ = seen.take()
		reason, lost := events[len(events)-1].Reason, (*lock.LostError)(nil) // programs compare this error
		mustBe(t, reason, lock.ErrMaxHold)
		isTrue(t, len(events) == 3 && !errors.Is(reason, lock.ErrRemoved) && errors.As(reason, &lost) && lost.Token == h.Token(), "told %+v", events)
		w.lock(b, "z")
		w.kill("b")
		w.lock(a, "z")
		w.says(seen, "waiting z, purged z, acquired z")
		w.StepClock(time.Hour)
		w.until("the step is seen", func() bool { return a.Stats().Displacements > 0 })
		settle()
		events, _ = w.these(seen, lock.EventDisplaced)
		atMost(t, "the step is told wrongly by", (events[0].By - time.Hour).Abs(), time.Second)
		w.close(a)
		w.says(seen, "lost z closed")
		if want := "acquired jobs/1, released jobs/1, waiting x, waiting x, withdrawn x, acquired x, released x, acquired y, at risk y max_hold, lost y max_hold, waiting z, purged z, acquired z, displaced, lost z closed"; too.say() != want {
			t.Error("the second observer was told something else")
		}
	})
}

// TestPlaceInTheQueue: the event of a wait has the number of contenders ahead: entries of other
// clients, and goroutines of the same client.
func TestPlaceInTheQueue(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		seen := new(observed)
		a, b := w.client("a", lock.WithObserver(seen)), w.dial("b")
		ahead := func(want ...int) {
			t.Helper()
			var got []int
			events, _ := seen.take()
			for _, e := range events {
				if e.Kind == lock.EventWaiting {
					got = append(got, e.Ahead)
				}
			}
			isTrue(t, slices.Equal(got, want), "%d are ahead, want %d", got, want)
		}
		holds, cancel := context.WithCancel(w.ctx)
		defer cancel()
		mine := w.lock(a, "mine")
		var waiters []<-chan taken
		for range 2 { // wait for a hold of the same client
			waiters = append(waiters, w.queue(holds, a, "mine"))
		}
		ahead(1, 2)

		theirs := w.lock(b, "theirs")
		waiters = append(waiters, w.queue(holds, w.dial("c"), "theirs"))
		for range 2 { // wait for another client's entries
			waiters = append(waiters, w.queue(holds, a, "theirs"))
		}
		ahead(2, 3)

		rw := a.RWMutex("rw")
		write := w.take(b.RWMutex("rw").Lock)
		for range 2 { // readers enter together
			waiters = append(waiters, start(func() (*lock.Hold, error) { return rw.RLock(holds) }))
			settle()
		}
		ahead(1, 1)
		waiters = append(waiters, w.barge(holds, a, "theirs"))
		ahead(0)

		cancel()
		for _, ch := range waiters {
			mustBe(t, (<-ch).err, context.Canceled)
		}
		w.finish(mine, theirs, write)
	})
}

// TestObserverOfAll: each of several locks has its own events. Only the lock with a holder has a
// waiting event.
func TestObserverOfAll(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		seen := new(observed)
		a, b := w.dial("a", lock.WithObserver(seen)), w.dial("b")
		h := w.lock(b, "x")
		ctx := context.WithValue(w.ctx, key{}, "mine")
		ch := start(func() (*lock.Holds, error) { return a.All([]string{"x", "y"}).Lock(ctx) })
		time.Sleep(ttl)
		w.unlock(h)
		w.unlockAll(w.expectAll(ch))
		events, values := seen.take()
		var told []string
		for i, e := range events {
			told = append(told, e.Kind.String()+" "+e.Lock)
			if values[i] != "mine" || e.Kind == lock.EventAcquired && (e.Queued != (e.Lock == "x") || e.Waited < ttl || e.Waited > ttl+time.Second) {
				t.Errorf("told %+v, with %v", e, values[i])
			}
		}
		slices.Sort(told)
		want := []string{"acquired x", "acquired y", "released x", "released y", "waiting x"}
		isTrue(t, slices.Equal(told, want), "told %q, want %q", told, want)
	})
}

// TestObserverOfOneCall: a call that waits has one waiting and one acquired event, even if it tried
// several times or joined again after its entry was deleted. A failed try has no event, and a free
// lock has no waiting event.
func TestObserverOfOneCall(t *testing.T) {
	forEach(t, locktest.Options{}, map[string]bool{"queued": false, "barging": true}, func(w *world, barging bool) {
		seen := new(observed)
		a, b, z := w.dial("a", lock.WithObserver(seen)), w.dial("b"), w.raw("hand")
		m := a.Mutex("x")
		if barging {
			m = m.WithBarging()
		}
		w.unlock(w.take(m.Lock))
		w.says(seen, "acquired x, released x")
		h := w.lock(b, "x")
		mustBe(t, second(m.TryLock(w.ctx)), lock.ErrHeld)
		w.says(seen, "")
		ch := start(func() (*lock.Hold, error) { return m.Lock(w.ctx) })
		settle()
		for i := range 3 { // the entry ahead changes, or the waiter's own is deleted
			next := w.queue(w.ctx, w.dial(fmt.Sprint("c", i)), "x")
			if !barging {
				w.remove(z, w.entries("x")[1].Path)
				w.until("it queues again", func() bool { return a.Stats().Requeued == uint64(i)+1 && len(w.entries("x")) == 3 })
			}
			time.Sleep(ttl)
			w.unlock(h)
			h = w.await(next).hold
		}
		w.unlock(h)
		h = w.await(ch).hold
		events, _ := w.these(seen, lock.EventWaiting, lock.EventAcquired)
		isTrue(t, events[1].Waited >= 3*ttl && events[1].Queued && events[1].Entry == h.EntryPath(), "told %+v", events)
		w.unlock(h)
	})
}

// warned waits until the hold is at risk, and returns its remaining time.
func (w *world) warned(h *lock.Hold) time.Duration {
	w.Helper()
	select {
	case left := <-h.AtRisk():
		return left
	case <-time.After(5 * ttl):
		w.Fatalf("not at risk: %v", h.Err())
	case <-h.Context().Done():
		w.Fatalf("ended before it was at risk: %v", h.Err())
	}
	return 0
}

// TestHoldAtRisk: if renewals fail, each handle of the hold is at risk when half of the lease is
// left. After a successful renewal the hold is safe, and can become at risk again. A warning that was not
// received is withdrawn when the hold is safe again or lost. The error of the loss names the lock, its entry and
// the token.
func TestHoldAtRisk(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		seen := new(observed)
		a := w.dial("a", lock.WithObserver(seen))
		h := w.lock(a, "x")
		again := w.takeIn(h.Context(), a.Mutex("x").Lock)
		mustBe(w, a.Check(), nil)
		for range 2 {
			w.ok(w.Partition("a"))
			left := w.warned(h)
			isTrue(t, left > ttl/2-ttl/50 && left <= ttl/2 && left == h.Remaining(), "%v were left, %v are", left, h.Remaining())
			equal(t, "what the other handle was told", w.warned(again), left)
			fails(t, a.Check(), lock.ErrStalled, "1 of 1 entries", h.EntryPath(), "is lost in "+left.Round(time.Millisecond).String(), "was last 4.98")
			w.Heal("a")
			w.until("it was renewed", func() bool { return h.Remaining() > ttl/2 })
			mustBe(w, a.Check(), nil)
		}
		told := again.AtRisk()
		w.ok(w.Partition("a"))
		time.Sleep(3 * ttl / 4)
		isTrue(t, len(told) == 1 && again.AtRisk() == told, "not warned, or on another channel")
		w.Heal("a")
		w.until("it was renewed", func() bool { return h.Remaining() > ttl/2 })
		equal(t, "warnings of a risk that is over", len(told), 0)
		w.kill("a")
		end := w.end(h)
		left := w.warned(h)
		warned := time.Now()
		inRange(t, "lost, after it was told, in", end.wait().Sub(warned), left, left+10*time.Millisecond)
		equal(t, "warnings of the risk of a hold that is lost", len(told), 0)
		mustBe(t, again.Unlock(), lock.ErrLost)
		isTrue(t, again.AtRisk() == nil, "a handle that was given back waits for warnings")
		w.says(seen, "acquired x, at risk x expired, at risk x expired, at risk x expired, at risk x expired, lost x expired")
		fails(t, a.Check(), lock.ErrUnavailable, "last failure: dial tcp")
		isTrue(t, strings.Contains(w.logged(), "hold at risk"), "the log does not tell")

		var lost *lock.LostError
		why := h.Err()
		isTrue(t, errors.As(why, &lost) && lost.Lock == "x" && lost.Entry == h.EntryPath() && lost.Token == h.Token() && lost.Why == lock.ErrExpired, "%#v", why)
		isTrue(t, !errors.Is(why, lock.ErrRemoved) && !errors.Is(why, lock.ErrUnlocked), "%v is too much", why)
		mustSay(t, why, `lock "x"`, "hold was lost", "lease expired", h.EntryPath(), h.Token().String())
		mustBe(t, context.Cause(h.Context()), lock.ErrLost, lock.ErrExpired)
		mustBe(t, h.Unlock(), lock.ErrLost)
	})
}

// TestCheck: Check also covers waits. It says why no server can be reached. It fails for a closed client.
func TestCheck(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		theirs := w.lock(b, "x")
		ctx, cancel := context.WithCancel(w.ctx)
		waits := w.queue(ctx, a, "x")
		w.ok(w.Partition("a"))
		time.Sleep(ttl)
		fails(t, a.Check(), lock.ErrStalled, "1 of 1 entries", "is purged by others in 0s", "last failure to connect: dial tcp")
		w.Heal("a")
		w.until("it was renewed", func() bool { return a.Check() == nil })
		cancel()
		<-waits
		w.unlock(theirs)
		w.close(a)
		mustBe(t, a.Check(), lock.ErrClosed)
	})
}

func TestEventKind(t *testing.T) {
	for kind, want := range map[lock.EventKind]string{0: "EventKind(0)", lock.EventWaiting: "waiting", lock.EventDisplaced: "displaced", lock.EventDisplaced + 1: "EventKind(9)"} {
		equal(t, "kind", fmt.Sprint(kind), want)
	}
	equal(t, "reason", (lock.Event{Reason: errors.New("x")}).ReasonLabel(), "")
}

// TestLockBringsNoMetrics: the library and its observer for zerolog import no metrics package.
func TestLockBringsNoMetrics(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".", "./observe/zerolog", "./policy", "./admin").Output()
	mustBeTrue(t, err == nil, "%v", err)
	for pkg := range strings.Lines(string(out)) {
		isTrue(t, !strings.Contains(pkg, "prometheus") && !strings.Contains(pkg, "opentelemetry"), "brings in %s", pkg)
	}
}

// stuck is a log writer, or an observer, that blocks until it is closed.
type stuck chan struct{}

func (s stuck) Write(p []byte) (int, error) {
	<-s
	return len(p), nil
}

func (s stuck) Observe(context.Context, lock.Event) { <-s }

// TestReaderThatBlocks: a log or observer that blocks does not delay renewals. A lost hold still
// ends before the next holder enters. Calls and Close return, and messages are dropped.
func TestReaderThatBlocks(t *testing.T) {
	forEach(t, locktest.Options{}, map[string]func(stuck) lock.Option{
		"log": func(s stuck) lock.Option { return lock.WithLogger(zerolog.New(s).Level(zerolog.DebugLevel)) },
		"slog": func(s stuck) lock.Option {
			return lock.WithSlog(slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug})))
		},
		"observer": func(s stuck) lock.Option { return lock.WithObserver(s) },
	}, func(w *world, option func(stuck) lock.Option) {
		free := make(stuck)
		a, b := w.dial("a", option(free)), w.dial("b")
		h := w.lock(a, "x")
		w.StepClock(time.Hour) // the renewing goroutine reports it
		time.Sleep(3 * ttl)
		mustBeTrue(w, h.Remaining() != 0 && h.Err() == nil, "not renewed: %v", h.Err())
		w.ok(w.Partition("a"))
		theirs := w.lock(b, "x")
		isTrue(w, h.Context().Err() != nil, "the next holder is in, and the context of the one before has not ended")
		w.Heal("a")
		mustBe(w, h.Unlock(), lock.ErrExpired)
		w.unlock(theirs)
		w.unlock(w.lock(a, "x"))
		begun := time.Now()
		mustBe(w, a.Close(), nil)
		atMost(w, "Close took", time.Since(begun), 2*time.Second)
		isTrue(w, a.Stats().DroppedLines+a.Stats().DroppedEvents != 0, "nothing was dropped: %+v", a.Stats())
		close(free)
	})
}

// observer makes an observer of a function.
type observer func(lock.Event)

func (o observer) Observe(_ context.Context, e lock.Event) { o(e) }

// as returns a context with the name of a request, for [observed.diary].
func (w *world) as(who string) context.Context { return context.WithValue(w.ctx, key{}, who) }

// taken takes a free lock for the named request.
func (w *world) taken(who string, take taking) *lock.Hold {
	w.Helper()
	h, err := take(w.as(who))
	w.ok(err)
	return h
}

// diary returns the events since its last call, each with its request.
func (o *observed) diary() string {
	return o.tell(func(e lock.Event, value any) string {
		queued := map[bool]string{true: "queued "}[e.Kind == lock.EventAcquired && e.Queued]
		return fmt.Sprint(value, " ", e.Kind, " ", queued, e.ReasonLabel())
	})
}

func (w *world) diary(o *observed, want string) {
	w.Helper()
	settle()
	equal(w, "told", o.diary(), want)
}

// TestObserverOfLocalWaiters: each local waiter has its own event when it begins to wait, and when
// it gives up or enters. Each handoff begins a hold of its own.
func TestObserverOfLocalWaiters(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		seen := new(observed)
		a, b := w.client("a", lock.WithObserver(seen)), w.dial("b")
		h := w.taken("1st", a.Mutex("x").Lock)
		w.diary(seen, "1st acquired")
		second := w.line(w.as("2nd"), a, "x", 1)[0]
		gaveUp, cancel := context.WithCancel(w.as("3rd"))
		third := w.line(gaveUp, a, "x", 1)[0]
		w.diary(seen, "2nd waiting, 3rd waiting")
		time.Sleep(time.Second)
		cancel()
		mustBe(t, w.outcome(third).err, context.Canceled)
		events, _ := w.these(seen, lock.EventWithdrawn)
		gone := events[0]
		isTrue(t, gone.Waited >= time.Second && gone.Queued && gone.Entry == "" && gone.Policy == "default" && gone.Lock == "x", "told %+v", gone)
		h = w.pass(h, second)
		events, _ = w.these(seen, lock.EventReleased, lock.EventAcquired)
		isTrue(t, events[1].Queued && events[1].Waited >= time.Second && events[1].Token == h.Token(), "told %+v", events)
		w.unlock(h)
		w.diary(seen, "2nd released")

		// The request for which an entry was created gives up. The other request continues with a
		// single wait, also when the entry is lost.
		theirs := w.lock(b, "x")
		gaveUp, cancel = context.WithCancel(w.as("4th"))
		fourth := w.queue(gaveUp, a, "x")
		fifth := w.line(w.as("5th"), a, "x", 1)[0]
		w.diary(seen, "4th waiting, 5th waiting")
		cancel()
		mustBe(t, w.outcome(fourth).err, context.Canceled)
		w.diary(seen, "4th withdrawn")
		w.remove(w.raw("hand"), w.entries("x")[1].Path)
		w.until("it waits again", func() bool { return a.Stats().Requeued == 1 })
		w.inOrder(theirs, fifth)
		w.diary(seen, "5th acquired queued, 5th released")
	})
}

// TestRiskAsAReaderJoins: a reader joins a shared entry, which becomes at risk before the reader has
// its hold. The hold has one at-risk event.
func TestRiskAsAReaderJoins(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		seen := new(observed)
		reported := moment{in: "lease.(*Entry).Risk", do: func() { time.Sleep(ttl / 2) }} // the new hold receives reports already
		a := w.client("a", lock.WithObserver(seen), w.atMoments(&reported))
		h := w.taken("1st", a.RWMutex("x").RLock)
		w.kill("a")
		reported.armed.Store(true)
		next := start(func() (*lock.Hold, error) { return a.RWMutex("x").RLock(w.as("2nd")) })
		<-h.AtRisk()
		w.await(next)
		w.diary(seen, "1st acquired, 2nd acquired, 1st at risk expired, 2nd at risk expired")
		w.Heal("a")
	})
}

// TestObserverOfReadersTogether: readers that share an entry have a hold each. Each hold has its
// own acquired, released, at-risk and lost events.
func TestObserverOfReadersTogether(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		seen := new(observed)
		a, b := w.client("a", lock.WithObserver(seen)), w.dial("b")
		theirs := w.take(b.RWMutex("x").Lock)
		var readers []<-chan taken
		for _, who := range []string{"1st", "2nd", "3rd"} {
			readers = append(readers, start(func() (*lock.Hold, error) { return a.RWMutex("x").RLock(w.as(who)) }))
			settle()
		}
		w.diary(seen, "1st waiting, 2nd waiting, 3rd waiting")
		w.unlock(theirs)
		holds := w.expectEach(readers...)
		settle()
		events, values := w.these(seen, lock.EventAcquired, lock.EventAcquired, lock.EventAcquired)
		told := map[any]lock.Event{}
		for i, e := range events {
			told[values[i]] = e
		}
		for i, who := range []string{"1st", "2nd", "3rd"} {
			e := told[who]
			isTrue(t, e.Queued && e.Token == holds[i].Token() && e.Entry == holds[i].EntryPath(), "%s, with token %v, is told of %+v", who, holds[i].Token(), events)
		}
		isTrue(t, a.Stats().Holds == 3 && a.Stats().Waiters == 0, "three have the entry; stats %+v", a.Stats())
		again := w.takeIn(holds[1].Context(), a.RWMutex("x").RLock)
		w.diary(seen, "")
		time.Sleep(ttl)
		w.unlock(holds[1])
		w.diary(seen, "")
		w.unlock(again)
		events, values = w.these(seen, lock.EventReleased)
		isTrue(t, values[0] == "2nd" && events[0].Token == holds[1].Token() && events[0].Held >= ttl, "told %+v, with %v", events, values)
		equal(t, "holds", a.Stats().Holds, 2)
		w.kill("a")
		<-holds[0].Context().Done()
		settle()
		got := seen.diary()
		for _, want := range []string{"1st at risk expired", "3rd at risk expired", "1st lost expired", "3rd lost expired"} {
			isTrue(t, strings.Count(got, want) == 1 && strings.Count(got, ",") == 3, "told %q, want %q once", got, want)
		}
		mustBe(t, holds[0].Unlock(), lock.ErrExpired)
		mustBe(t, holds[2].Unlock(), lock.ErrExpired)
		w.diary(seen, "")
		isTrue(t, a.Stats().Holds == 0 && a.Stats().Lost == 2, "two have lost it; stats %+v", a.Stats())
	})
}

// TestObserverAsTheClientCloses: if the client closes, there is one event for the end of each wait
// and of each hold, and an observer has it when Close returns, even behind a slow one.
func TestObserverAsTheClientCloses(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		seen := new(observed)
		slow := observer(func(lock.Event) { time.Sleep(10 * time.Millisecond) })
		a := w.client("a", lock.WithObserver(slow), lock.WithObserver(seen))
		h := w.taken("1st", a.Mutex("x").Lock)
		second := w.line(w.as("2nd"), a, "x", 1)[0]
		read := w.taken("3rd", a.RWMutex("y").RLock)
		time.Sleep(time.Second)
		w.diary(seen, "1st acquired, 2nd waiting, 3rd acquired")
		mustBe(w, a.Close(), nil)
		got := seen.diary()
		mustBe(t, w.outcome(second).err, lock.ErrClosed)
		mustBe(t, h.Err(), lock.ErrClosed)
		mustBe(t, read.Err(), lock.ErrClosed)
		for _, want := range []string{"1st lost closed", "2nd withdrawn", "3rd lost closed"} {
			isTrue(t, strings.Count(got, want) == 1 && strings.Count(got, ",") == 2, "told %q, want %q once", got, want)
		}
	})
}
