package lock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// readersBehind is a queue for one lock: somebody has it, another one is to write, some are to read,
// and "last" is to write after them. Each has a client of its own.
type readersBehind struct {
	holder  *lock.Hold
	first   <-chan taken
	readers []<-chan taken
	giveUp  []context.CancelFunc // of the first, and of the readers
	client  *lock.Client         // of the last
	last    <-chan taken
}

func (w *world) readersBehind(n int) *readersBehind {
	b := &readersBehind{holder: w.take(w.dial("holder").RWMutex("x").Lock)}
	join := func(label string, take func(*lock.RWMutex) taking) <-chan taken {
		ctx, giveUp := context.WithCancel(w.ctx)
		b.giveUp = append(b.giveUp, giveUp)
		of := take(w.dial(label).RWMutex("x"))
		return w.join("x", func(context.Context) (*lock.Hold, error) { return of(ctx) })
	}
	b.first = join("first", func(m *lock.RWMutex) taking { return m.Lock })
	for i := range n {
		b.readers = append(b.readers, join(fmt.Sprint("reader ", i), func(m *lock.RWMutex) taking { return m.RLock }))
	}
	b.client = w.dial("last")
	b.last = w.join("x", b.client.RWMutex("x").Lock)
	return b
}

// TestWriterBehindReaders enters when the last of them has gone, in whatever order they go; and
// without a list, which is as long as there are waiters behind it, if who wrote before them
// held the lock for long enough to tell.
func TestWriterBehindReaders(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {3, 0, 2, 1}, {1, 3, 0, 2}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				b := w.readersBehind(len(order))
				behind := w.join("x", w.dial("behind").RWMutex("x").RLock)
				w.unlock(b.holder)
				writer := w.expect(b.first).hold
				time.Sleep(time.Second) // its grant is told
				w.waits(b.last)
				got := w.cost("last", func() {
					w.unlock(writer)
					for i, r := range order {
						w.waits(b.last)
						h := w.expect(b.readers[r]).hold
						if w.unlock(h); i < len(order)-1 {
							w.waits(b.last)
						}
					}
				})
				if lists := got.requests["getChildren2"]; lists != 0 {
					t.Errorf("made %d lists: %v", lists, got.requests)
				}
				w.waits(behind)
				w.unlock(w.expect(b.last).hold)
				w.unlock(w.expect(behind).hold)
				w.empty()
			})
		})
	}
}

// TestWriterBehindReadersBehindOneWhoGivesUp: of who was never in nothing follows when it goes,
// nor of readers who were not.
func TestWriterBehindReadersBehindOneWhoGivesUp(t *testing.T) {
	for _, readersToo := range []bool{false, true} {
		t.Run(fmt.Sprintf("the readers too: %v", readersToo), func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				b := w.readersBehind(2)
				b.giveUp[0]()
				if readersToo {
					b.giveUp[1]()
					b.giveUp[2]()
				}
				time.Sleep(time.Second)
				w.waits(b.last)
				w.unlock(b.holder)
				for _, r := range b.readers {
					if got := w.outcome(r); got.err == nil {
						w.waits(b.last)
						w.unlock(got.hold)
					} else if !readersToo {
						t.Error(got.err)
					}
				}
				w.unlock(w.expect(b.last).hold)
				if got := w.outcome(b.first); got.err == nil {
					t.Error("it got the lock")
				}
				w.empty()
			})
		})
	}
}

// TestWriterBehindTheDead: who wrote before the readers, or some of the readers, may have died.
func TestWriterBehindTheDead(t *testing.T) {
	for _, dead := range [][]string{{"first"}, {"reader 0"}, {"reader 1"}, {"reader 2"}, {"first", "reader 1"}, {"first", "reader 2"}, {"reader 0", "reader 1", "reader 2"}, {"first", "reader 0", "reader 1", "reader 2"}} {
		for _, granted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%q, first granted: %v", dead, granted), func(t *testing.T) {
				simulate(t, locktest.Options{}, func(w *world) {
					b := w.readersBehind(3)
					died := func(label string) bool { return slices.Contains(dead, label) }
					if granted {
						w.unlock(b.holder)
						time.Sleep(time.Second)
					}
					for _, label := range dead {
						w.kill(label)
					}
					since := time.Now()
					if !granted {
						w.unlock(b.holder)
					}
					if !died("first") {
						w.unlock(w.await(b.first).hold)
					}
					for i, r := range b.readers {
						if died(fmt.Sprint("reader ", i)) {
							continue
						}
						h := w.await(r).hold
						time.Sleep(ttl)
						w.waits(b.last)
						w.unlock(h)
					}
					got := w.await(b.last)
					if took := got.at.Sub(since); took > 5*ttl {
						t.Errorf("took %v, the TTL is %v", took, ttl)
					}
					w.unlock(got.hold)
					var late sync.WaitGroup // they come back, and queue again
					for i, ch := range append([]<-chan taken{b.first}, b.readers...) {
						if i == 0 && (granted || !died("first")) || i > 0 && !died(fmt.Sprint("reader ", i-1)) {
							continue
						}
						late.Go(func() { w.unlock(w.await(ch).hold) })
					}
					for _, label := range dead {
						w.Heal(label)
					}
					late.Wait()
					time.Sleep(ttl)
					w.empty()
				})
			})
		}
	}
}

// TestWriterBehindReadersAfterAnotherSession: that a reader's entry is not to be seen by a
// server that may lag behind says nothing.
func TestWriterBehindReadersAfterAnotherSession(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		b := w.readersBehind(3)
		w.unlock(b.holder)
		writer := w.expect(b.first).hold
		time.Sleep(time.Second)
		w.unlock(writer)
		var holds []*lock.Hold
		for _, r := range b.readers {
			holds = append(holds, w.expect(r).hold)
		}
		lags := lagging("last", b.client)
		var hidden atomic.Int32
		w.Intercept(func(r locktest.Request) locktest.Fault {
			switch late := lags(r); {
			case r.Label != "last" || r.Op != "exists":
			case late:
				hidden.Add(1)
				return locktest.Fault{Code: codeNoNode}
			case hidden.Load() == 0:
				w.ExpireLabel("last")
				return locktest.Fault{Drop: locktest.BeforeApply}
			}
			return locktest.Fault{}
		})
		w.unlock(holds[2])
		w.waits(b.last)
		time.Sleep(ttl)
		w.waits(b.last)
		if hidden.Load() == 0 {
			t.Error("no reader was hidden")
		}
		w.unlock(holds[0])
		w.waits(b.last)
		w.unlock(holds[1])
		w.unlock(w.await(b.last).hold)
		w.empty()
	})
}
