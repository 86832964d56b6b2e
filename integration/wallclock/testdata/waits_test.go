package waits

import (
	"context"
	"testing"
	"time"
)

const patience = 2 * time.Minute

func (w *world) pause() { time.Sleep(time.Hour) }

func pauseOf(w *world) { time.Sleep(time.Hour) }

type part struct{ *world }

func (part) pause() { time.Sleep(time.Hour) }

type bed struct{}

func (*bed) rest() { time.Sleep(time.Hour) } // want

func both() {
	time.Sleep(time.Second) // want
}

func TestVirtual(t *testing.T) {
	for _, test := range []func(*world){
		pauseOf,
		func(*world) { time.Sleep(time.Second) },
	} {
		simulate(t, test)
	}
	run(t, func() { time.Sleep(time.Second) })
	simulate(t, func(w *world) {
		if time.Since(time.Time{}) > time.Second {
			pause()
		}
	})
}

func TestReal(t *testing.T) {
	simulate(t, func(*world) { both() })
	both()
	new(bed).rest()
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	for ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
		time.Sleep(time.Second) // want
	}
	time.Sleep(10 * time.Millisecond) // want
	select {
	case <-time.After(patience):
	case <-time.After(patience / 4): // want
	}
	time.Sleep(time.Second) // wall clock: a reason
	// wall clock: a reason
	time.Sleep(time.Second)
	time.Sleep(time.Second) // wall clock:
	for begun := time.Now(); time.Since(begun) < time.Minute; {
		if time.Since(begun) > 5*time.Second { // want
			return
		}
	}
	deadline := time.Now().Add(10 * time.Second) // want
	_ = deadline
	_, cancel = context.WithTimeout(t.Context(), 5*time.Second) // want
	cancel()
}

func Example() { time.Sleep(time.Second) }
