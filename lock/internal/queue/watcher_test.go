package queue

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestWatcherNeverGoesBack: a new session may begin on a server that lags behind what the
// watcher has seen (localSessionsEnabled). A holder that it shows there, and that was
// followed by another already, is none.
func TestWatcherNeverGoesBack(t *testing.T) {
	simulate(t, "", func(w *office) {
		e := w.acquire("x")
		watcher := w.NewWatcher(Request{Lock: "x"})
		defer watcher.Close()
		if h, err := watcher.Holder(w.Ctx, false); err != nil || h == nil || h.Stat.Czxid != e.Czxid() {
			t.Fatalf("%v, %v", h, err)
		}
		watcher.youngest++ // another server has shown the next one
		ctx, cancel := context.WithTimeout(w.Ctx, 5*time.Second)
		defer cancel()
		if h, err := watcher.Holder(ctx, false); h != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", h, err)
		}
		w.Withdraw(e)
	})
}

// Withdraw ends an entry and deletes it.
func (w *office) Withdraw(e *Entry) {
	e.Withdraw()
	w.Discard(e)
}
