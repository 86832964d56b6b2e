package lease

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

// large are the terms of an entry so large that a transaction takes sixty of them.
var large = Terms{TTL: testTTL, Grace: testGrace, Metadata: map[string]string{"x": strings.Repeat("x", 4000)}}

// TestServerThatLimitsRequestSize: the server closes the connection of a client that renews more
// than ten entries at once, as with a small jute.maxbuffer. No hold is lost. The client learns the
// limit at the first renewal, and forgets it later, because another server may have another limit.
func TestServerThatLimitsRequestSize(t *testing.T) {
	simulate(t, func(w *world) {
		const n = 50
		all := w.holds(n, large)
		var cuts, most atomic.Int64 // most: in one transaction
		takes := func(limit int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.fault = func(_ int, paths []string) locktest.Fault {
				most.Store(max(most.Load(), int64(len(paths))))
				if len(paths) <= limit {
					return locktest.Fault{}
				}
				cuts.Add(1)
				return locktest.Fault{Drop: locktest.BeforeApply}
			}
		}
		takes(10)
		begun := w.Mono()
		w.Until("all are renewed", func() bool {
			return !slices.ContainsFunc(all, func(e *Entry) bool { return !e.WroteSince(begun) })
		})
		if c := cuts.Swap(0); c < 1 || c > 1+2+4 {
			t.Errorf("%d transactions were cut, want those of 50, 25 and 12", c)
		}
		time.Sleep(45 * time.Second)
		if c := cuts.Load(); c != 0 {
			t.Errorf("%d transactions were cut within the next minute", c)
		}
		for _, e := range all {
			if e.Err() != nil || e.Remaining() < testTTL/2 {
				t.Fatalf("%s: %v, and %v remain", e.Path, e.Err(), e.Remaining())
			}
		}
		takes(n)
		most.Store(0)
		time.Sleep(time.Minute)
		if m := most.Load(); m <= 10 {
			t.Errorf("at most %d in one transaction a minute later", m)
		}
	})
}

// TestHalvesOfALostReply: if a batch was applied and its reply was lost, the keeper finds that out by
// two more transactions, one for each half. No entry is written twice.
func TestHalvesOfALostReply(t *testing.T) {
	simulate(t, func(w *world) {
		const n = 50
		all := w.holds(n, large)
		w.onFirst(locktest.Fault{Drop: locktest.AfterApply})
		w.Until("all are renewed", func() bool { return w.keeper.Renewals() >= n })
		if got := len(w.sent()); got != 3 {
			t.Errorf("%d transactions, want one and one of each half", got)
		}
		for _, e := range all {
			node, _ := w.Node(e.Path)
			if _, version, pending := e.LastWrite(); node.Stat.Version != 1 || version != 1 || pending != nil || e.Err() != nil {
				t.Errorf("%s is at version %d, known to be at %d: %v", e.Path, node.Stat.Version, version, e.Err())
			}
		}
	})
}
