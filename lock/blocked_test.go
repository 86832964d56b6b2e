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
	for what, option := range map[string]func(stuck) lock.Option{
		"log": func(s stuck) lock.Option { return lock.WithLogger(zerolog.New(s).Level(zerolog.DebugLevel)) },
		"slog": func(s stuck) lock.Option {
			return lock.WithSlog(slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug})))
		},
		"observer": func(s stuck) lock.Option { return lock.WithObserver(s) },
	} {
		t.Run(what, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				free := make(stuck)
				a, b := w.dial("a", option(free)), w.dial("b")
				h := w.lock(a, "x")
				w.StepClock(time.Hour) // is told by the goroutine that renews
				time.Sleep(3 * ttl)
				if h.Remaining() == 0 || h.Err() != nil {
					t.Fatalf("not renewed: %v", h.Err())
				}
				if err := w.Partition("a"); err != nil {
					t.Fatal(err)
				}
				theirs := w.lock(b, "x")
				if h.Context().Err() == nil {
					t.Error("the next holder is in, and the context of the one before has not ended")
				}
				w.Heal("a")
				mustBe(t, h.Unlock(), lock.ErrExpired)
				w.unlock(theirs)
				w.unlock(w.lock(a, "x"))
				begun := time.Now()
				if err := a.Close(); err != nil {
					t.Error(err)
				}
				if took := time.Since(begun); took > 2*time.Second {
					t.Errorf("Close took %v", took)
				}
				if s := a.Stats(); s.DroppedLines+s.DroppedEvents == 0 {
					t.Errorf("nothing was dropped: %+v", s)
				}
				close(free)
			})
		})
	}
}

// TestAllIsToldAtClose: what a client has told before Close is with its readers after.
func TestAllIsToldAtClose(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		slow := observer(func(lock.Event) { time.Sleep(10 * time.Millisecond) })
		seen := new(observed)
		a := w.dial("a", lock.WithObserver(slow), lock.WithObserver(seen))
		w.lock(a, "x")
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if got, want := seen.say(), "acquired x, lost x closed"; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// observer is one that is a function.
type observer func(lock.Event)

func (o observer) Observe(_ context.Context, e lock.Event) { o(e) }
