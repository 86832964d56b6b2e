package zerolog_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock"
	observe "github.com/holdfast-io/holdfast/lock/observe/zerolog"
)

func Example() {
	token, _ := lock.ParseToken("0000000000000007")
	o := observe.New(zerolog.New(os.Stdout))
	// A client made with lock.WithObserver(o) makes this call for each event.
	o.Observe(context.Background(), lock.Event{
		Kind: lock.EventAcquired, Lock: "orders/42", Policy: "orders", Entry: "/locks/orders/42/4f-lock-0000000001",
		Token: token, Waited: 3 * time.Second,
	})
	// Output: {"level":"info","lock":"orders/42","policy":"orders","entry":"/locks/orders/42/4f-lock-0000000001","token":"0000000000000007","waited":"3s","message":"lock acquired"}
}

// TestLines: each event that the client itself does not log has one line. The other events have none.
func TestLines(t *testing.T) {
	for kind, want := range map[lock.EventKind]string{
		lock.EventWaiting:   `"ahead":2,"message":"waiting for the lock"`,
		lock.EventAcquired:  `"waited":"1s","message":"lock acquired"`,
		lock.EventWithdrawn: `"waited":"1s","message":"waiting no longer"`,
		lock.EventReleased:  `"held":"1m0s","message":"lock released"`,
		lock.EventAtRisk:    "", lock.EventLost: "", lock.EventPurged: "", lock.EventDisplaced: "",
	} {
		var out strings.Builder
		observe.New(zerolog.New(&out)).Observe(t.Context(), lock.Event{Kind: kind, Lock: "x", Ahead: 2, Waited: time.Second, Held: time.Minute, Reason: errors.New("why")})
		if got := out.String(); (got == "") != (want == "") || !strings.Contains(got, want) || strings.Count(got, "\n") > 1 || strings.Contains(got, "entry") {
			t.Errorf("%v logs %q, want %s", kind, got, want)
		}
	}
}
