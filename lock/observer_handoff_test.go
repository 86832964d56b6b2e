// Observers: events of local waiters, bargers and shared entries.

package lock_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

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
	events, values := o.take()
	var all []string
	for i, e := range events {
		line := fmt.Sprint(values[i], " ", e.Kind)
		if e.Kind == lock.EventAcquired && e.Queued {
			line += " queued"
		}
		if reason := e.ReasonLabel(); reason != "" {
			line += " " + reason
		}
		all = append(all, line)
	}
	return strings.Join(all, ", ")
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
		a, b := w.dial("a", riding(), lock.WithObserver(seen)), w.dial("b")
		h := w.taken("1st", a.Mutex("x").Lock)
		w.diary(seen, "1st acquired")
		second := w.line(w.as("2nd"), a, "x", 1)[0]
		gaveUp, cancel := context.WithCancel(w.as("3rd"))
		third := w.line(gaveUp, a, "x", 1)[0]
		w.diary(seen, "2nd waiting, 3rd waiting")
		time.Sleep(time.Second)
		cancel()
		mustBe(t, w.outcome(third).err, context.Canceled)
		events, _ := seen.take()
		if len(events) != 1 || events[0].Kind != lock.EventWithdrawn || events[0].Waited < time.Second || !events[0].Queued || events[0].Entry != "" || events[0].Policy != "default" || events[0].Lock != "x" {
			t.Errorf("told %+v", events)
		}
		h = w.pass(h, second)
		events, _ = seen.take()
		if len(events) != 2 || events[0].Kind != lock.EventReleased || events[1].Kind != lock.EventAcquired || !events[1].Queued || events[1].Waited < time.Second || events[1].Token != h.Token() {
			t.Errorf("told %+v", events)
		}
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

// TestObserverOfBargers: a barging request has one waiting event, however many holders it meets. A
// failed try has no event, and a free lock has no waiting event.
func TestObserverOfBargers(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		seen := new(observed)
		a, b := w.dial("a", riding(), lock.WithObserver(seen)), w.dial("b")
		theirs := w.lock(b, "x")
		first := w.barge(w.as("1st"), a, "x")
		gaveUp, cancel := context.WithCancel(w.as("2nd"))
		other := w.barge(gaveUp, a, "x")
		w.diary(seen, "1st waiting, 2nd waiting")
		for range 3 {
			next := w.queue(w.ctx, w.dial("c"), "x")
			w.unlock(theirs)
			theirs = w.await(next).hold
		}
		w.diary(seen, "")
		mustBe(t, second(a.Mutex("x").TryLock(w.as("try"))), lock.ErrHeld)
		w.unlock(w.taken("free", a.Mutex("y").TryLock))
		w.diary(seen, "free acquired, free released")
		cancel()
		mustBe(t, w.outcome(other).err, context.Canceled)
		w.inOrder(theirs, first)
		w.diary(seen, "2nd withdrawn, 1st acquired queued, 1st released")
	})
}

// TestRiskAsAReaderJoins: a reader joins a shared entry, which becomes at risk before the reader has
// its hold. The hold has one at-risk event.
func TestRiskAsAReaderJoins(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		var dead atomic.Bool
		seen, machine := new(observed), newClock(0, 0)
		a := w.dial("a", riding(), lock.WithObserver(seen), lock.WithClock(func() (mono, wall time.Duration) {
			if dead.Load() && calledBy("lease.(*Entry).Risk") { // the new hold receives reports already
				time.Sleep(ttl / 2)
			}
			return machine.now()
		}))
		h := w.taken("1st", a.RWMutex("x").RLock)
		w.kill("a")
		dead.Store(true)
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
		a, b := w.dial("a", riding(), lock.WithObserver(seen)), w.dial("b")
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
		events, values := seen.take()
		told := map[any]lock.Event{}
		for i, e := range events {
			told[values[i]] = e
		}
		for i, who := range []string{"1st", "2nd", "3rd"} {
			if e := told[who]; len(events) != 3 || e.Kind != lock.EventAcquired || !e.Queued || e.Token != holds[i].Token() || e.Entry != holds[i].EntryPath() {
				t.Errorf("%s, with token %v, is told of %+v", who, holds[i].Token(), events)
			}
		}
		isTrue(t, a.Stats().Holds == 3 && a.Stats().Waiters == 0, "three have the entry; stats %+v", a.Stats())
		again, err := a.RWMutex("x").RLock(holds[1].Context())
		w.ok(err)
		w.diary(seen, "")
		time.Sleep(ttl)
		w.unlock(holds[1])
		w.diary(seen, "")
		w.unlock(again)
		events, values = seen.take()
		if len(events) != 1 || events[0].Kind != lock.EventReleased || values[0] != "2nd" || events[0].Token != holds[1].Token() || events[0].Held < ttl {
			t.Errorf("told %+v, with %v", events, values)
		}
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
// and of each hold.
func TestObserverAsTheClientCloses(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		seen := new(observed)
		a := w.dial("a", riding(), lock.WithObserver(seen))
		h := w.taken("1st", a.Mutex("x").Lock)
		second := w.line(w.as("2nd"), a, "x", 1)[0]
		read := w.taken("3rd", a.RWMutex("y").RLock)
		w.diary(seen, "1st acquired, 2nd waiting, 3rd acquired")
		mustBe(w, a.Close(), nil)
		mustBe(t, w.outcome(second).err, lock.ErrClosed)
		mustBe(t, h.Err(), lock.ErrClosed)
		mustBe(t, read.Err(), lock.ErrClosed)
		settle()
		got := seen.diary()
		for _, want := range []string{"1st lost closed", "2nd withdrawn", "3rd lost closed"} {
			isTrue(t, strings.Count(got, want) == 1 && strings.Count(got, ",") == 2, "told %q, want %q once", got, want)
		}
	})
}
