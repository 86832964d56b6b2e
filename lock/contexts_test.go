// Calls whose context has ended before, and calls that Close ends.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestEndedContext: no call succeeds whose context has ended before, also where it could
// answer without asking: a lock that its context holds, or one that is free. Its error tells
// what ended the context, and nothing is asked of the server.
func TestEndedContext(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		mutex, rw, sem := a.Mutex("m"), a.RWMutex("rw"), a.Semaphore("s", 3)
		held, reads, writes := w.lock(a, "m"), w.take(rw.RLock), w.take(a.RWMutex("w").Lock)
		all, err := a.LockAll(w.ctx, "1", "2")
		w.ok(err)
		leads, err := a.Election("e").Campaign(w.ctx, "x")
		w.ok(err)
		attach, err := a.Mutex("queued").Enqueue(w.ctx)
		w.ok(err)
		cause := errors.New("no patience")
		// The values of all holds, so that each lock would be entered again.
		ctx := context.WithoutCancel(held.Context())
		for _, h := range []context.Context{reads.Context(), writes.Context(), all.Context()} {
			ctx = both{ctx, h}
		}
		ctx, cancel := context.WithCancelCause(ctx)
		cancel(cause)
		do := func(context.Context) error { t.Error("it ran"); return nil }
		first := func(_ any, err error) error { return err }
		settle()
		requests := w.Requests()["a"].Total()
		for what, err := range map[string]error{
			"Dial":           first(lock.Dial(ctx, w.Servers(), w.options("b")...)),
			"Lock":           first(mutex.Lock(ctx)),
			"TryLock":        first(mutex.TryLock(ctx)),
			"Do":             mutex.Do(ctx, do),
			"Barge":          first(a.Mutex("m", lock.WithBarging()).Lock(ctx)),
			"Enqueue":        first(a.Mutex("other").Enqueue(ctx)),
			"TryDo":          first(mutex.TryDo(ctx, do)),
			"RLock":          first(rw.RLock(ctx)),
			"TryRLock":       first(rw.TryRLock(ctx)),
			"RDo":            rw.RDo(ctx, do),
			"TryRDo":         first(rw.TryRDo(ctx, do)),
			"RW.Lock":        first(a.RWMutex("w").Lock(ctx)),
			"RW.TryLock":     first(a.RWMutex("w").TryLock(ctx)),
			"RW.Do":          a.RWMutex("w").Do(ctx, do),
			"RW.TryDo":       first(a.RWMutex("w").TryDo(ctx, do)),
			"RW.Enqueue":     first(rw.Enqueue(ctx)),
			"REnqueue":       first(rw.REnqueue(ctx)),
			"Acquire":        first(sem.Acquire(ctx, 1)),
			"TryAcquire":     first(sem.TryAcquire(ctx, 1)),
			"Semaphore.Do":   sem.Do(ctx, 1, do),
			"Sem.TryDo":      first(sem.TryDo(ctx, 1, do)),
			"Sem.Enqueue":    first(sem.Enqueue(ctx, 1)),
			"Resize":         sem.Resize(ctx, 3),
			"LockAll":        first(a.LockAll(ctx, "1", "2")),
			"All.TryLock":    first(a.All([]string{"1", "2"}).TryLock(ctx)),
			"All.Do":         a.All([]string{"1", "2"}).Do(ctx, do),
			"All.TryDo":      first(a.All([]string{"1", "2"}).TryDo(ctx, do)),
			"Campaign":       first(a.Election("other").Campaign(ctx, "x")),
			"Leader":         first(a.Election("e").Leader(ctx)),
			"Candidates":     first(a.Election("e").Candidates(ctx)),
			"Proclaim":       leads.Proclaim(ctx, "y"),
			"Attach":         first(a.Attach(ctx, attach)),
			"Extend":         held.Extend(ctx, ttl),
			"Downgrade":      writes.Downgrade(ctx),
			"Downgrade read": reads.Downgrade(ctx),
			"Txn":            held.Txn(ctx, lock.OpCheck("/", -1)),
			"Revoke":         a.Revoke(ctx, "m", ""),
			"Detach":         first(held.Detach(ctx, ttl)),
		} {
			if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("%s: %v", what, err)
			}
		}
		settle()
		if n := w.Requests()["a"].Total() - requests; n > 0 {
			t.Errorf("the server was asked %d times", n)
		}
		for c, err := range a.Election("e").Observe(ctx) {
			if !errors.Is(err, context.Canceled) || c != (lock.Candidate{}) {
				t.Errorf("Observe: %+v, %v", c, err)
			}
		}
		if held.Err() != nil || leads.Remaining() == 0 || writes.Reads() {
			t.Errorf("%v, leads %v, reads %v", held.Err(), leads.Remaining() > 0, writes.Reads())
		}
	})
}

// both has the values of two contexts.
type both struct {
	context.Context
	other context.Context
}

func (b both) Value(key any) any {
	if v := b.Context.Value(key); v != nil {
		return v
	}
	return b.other.Value(key)
}

// TestCallEndedByClose: it fails with ErrClosed. The caller has canceled nothing, whether its
// context can be canceled or not.
func TestCallEndedByClose(t *testing.T) {
	for _, outage := range []bool{false, true} {
		for _, can := range []bool{false, true} {
			subtest(t, fmt.Sprint("outage ", outage, ", can ", can), locktest.Options{}, func(w *world) {
				ctx := context.Background()
				if can {
					ctx = w.ctx
				}
				b := w.dial("b")
				a, err := lock.Dial(w.ctx, w.Servers(), w.options("a", lock.WithUnlockTimeout(3*time.Second))...)
				w.ok(err)
				w.lock(b, "m")
				w.lock(b, "x")
				held := w.lock(a, "held")
				calls := map[string]func() error{
					"Lock":    func() error { _, err := a.Mutex("m").Lock(ctx); return err },
					"Barge":   func() error { _, err := a.Mutex("m", lock.WithBarging()).Lock(ctx); return err },
					"RLock":   func() error { _, err := a.RWMutex("rw").RLock(ctx); return err },
					"LockAll": func() error { _, err := a.LockAll(ctx, "x", "y"); return err },
					"Observe": func() (err error) {
						for _, err = range a.Election("e").Observe(ctx) {
						}
						return err
					},
					"Extend": func() error {
						if outage {
							return held.Extend(ctx, ttl)
						}
						<-held.Context().Done()
						return held.Err()
					},
				}
				if _, err := b.RWMutex("rw").Lock(w.ctx); err != nil {
					w.Fatal(err)
				}
				if outage {
					w.ok(w.Partition("a"))
				}
				ended := make(map[string]chan error)
				for what, call := range calls {
					ch := make(chan error, 1)
					ended[what] = ch
					go func() { ch <- call() }()
				}
				time.Sleep(time.Second)
				if err := a.Close(); (err == nil) == outage {
					w.Errorf("outage %v: %v", outage, err)
				}
				for what := range calls {
					if err := <-ended[what]; !errors.Is(err, lock.ErrClosed) || errors.Is(err, context.Canceled) {
						w.Errorf("outage %v, %s: %v", outage, what, err)
					}
				}
				w.Heal("a")
			})
		}
	}
}
