package slog_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	observe "github.com/holdfast-io/holdfast/lock/observe/slog"
)

// withoutTime omits the time of a record.
func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

func Example() {
	token, _ := lock.ParseToken("0000000000000007")
	o := observe.New(slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime})))
	// A client made with lock.WithObserver(o) makes this call for each event.
	o.Observe(context.Background(), lock.Event{
		Kind: lock.EventAcquired, Lock: "orders/42", Policy: "orders", Entry: "/locks/orders/42/4f-lock-0000000001",
		Token: token, Waited: 3 * time.Second,
	})
	// Output: level=INFO msg="lock acquired" lock=orders/42 policy=orders entry=/locks/orders/42/4f-lock-0000000001 token=0000000000000007 waited=3s
}

// TestNil: without a logger, the observer uses slog.Default.
func TestNil(t *testing.T) {
	var out strings.Builder
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	observe.New(nil).Observe(t.Context(), lock.Event{Kind: lock.EventWaiting, Lock: "x"})
	if !strings.Contains(out.String(), "lock=x") {
		t.Errorf("logged %q", out.String())
	}
}

// TestLines: each event that the client itself does not log has one line. The other events have none.
func TestLines(t *testing.T) {
	for kind, want := range map[lock.EventKind]string{
		lock.EventWaiting:   `msg="waiting for the lock" lock=x policy="" ahead=2`,
		lock.EventAcquired:  `waited=1s`,
		lock.EventWithdrawn: `msg="waiting no longer" lock=x policy="" waited=1s`,
		lock.EventReleased:  `held=1m0s`,
		lock.EventAtRisk:    "", lock.EventLost: "", lock.EventPurged: "", lock.EventDisplaced: "",
	} {
		var out strings.Builder
		observe.New(slog.New(slog.NewTextHandler(&out, nil))).Observe(t.Context(), lock.Event{
			Kind: kind, Lock: "x", Ahead: 2, Waited: time.Second, Held: time.Minute, Reason: errors.New("why"),
		})
		if got := out.String(); (got == "") != (want == "") || !strings.Contains(got, want) || strings.Count(got, "\n") > 1 || strings.Contains(got, "entry") {
			t.Errorf("%v logs %q, want %s", kind, got, want)
		}
	}
}
