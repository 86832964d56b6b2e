package waits

import (
	"testing"
	"testing/synctest"
	"time"
)

type world struct{ *testing.T }

func simulate(t *testing.T, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) { f(&world{t}) })
}

func run(t *testing.T, f func()) {
	synctest.Test(t, func(*testing.T) { f() })
}

func pause() { time.Sleep(time.Second) }

func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func TestBoth(t *testing.T) {
	simulate(t, func(*world) { time.Sleep(time.Second) })
	synctest.Test(t, func(*testing.T) { time.Sleep(time.Second) })
	t.Run("virtual", func(t *testing.T) {
		simulate(t, func(*world) { time.Sleep(time.Second) })
		time.Sleep(time.Second) // want
	})
	time.Sleep(time.Second) // want
}
