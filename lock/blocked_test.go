// A log or an observer that blocks stops no client.

package lock_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// stuck is the writer of a log, or an observer, that blocks until it is closed.
type stuck chan struct{}

func (s stuck) Write(p []byte) (int, error) {
	<-s
	return len(p), nil
}

func (s stuck) Observe(context.Context, lock.Event) { <-s }

// TestReaderThatBlocks: neither a log that blocks nor an observer that does keeps holds from
// being renewed, or from ending before the next holder enters; and calls and Close end.
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
		w.StepClock(time.Hour) // is told by the goroutine that renews
		time.Sleep(3 * ttl)
		if h.Remaining() == 0 || h.Err() != nil {
			w.Fatalf("not renewed: %v", h.Err())
		}
		w.ok(w.Partition("a"))
		theirs := w.lock(b, "x")
		if h.Context().Err() == nil {
			w.Error("the next holder is in, and the context of the one before has not ended")
		}
		w.Heal("a")
		mustBe(w, h.Unlock(), lock.ErrExpired)
		w.unlock(theirs)
		w.unlock(w.lock(a, "x"))
		begun := time.Now()
		mustBe(w, a.Close(), nil)
		atMost(w, "Close took", time.Since(begun), 2*time.Second)
		if s := a.Stats(); s.DroppedLines+s.DroppedEvents == 0 {
			w.Errorf("nothing was dropped: %+v", s)
		}
		close(free)
	})
}

// TestAllIsToldAtClose: what a client has told before Close is with its readers after.
func TestAllIsToldAtClose(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		slow := observer(func(lock.Event) { time.Sleep(10 * time.Millisecond) })
		seen := new(observed)
		a := w.dial("a", lock.WithObserver(slow), lock.WithObserver(seen))
		w.lock(a, "x")
		mustBe(w, a.Close(), nil)
		if got, want := seen.say(), "acquired x, lost x closed"; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// observer is one that is a function.
type observer func(lock.Event)

func (o observer) Observe(_ context.Context, e lock.Event) { o(e) }
