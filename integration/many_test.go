package integration_test

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
)

// TestCloseOfManyHolds: Close of a client with very many locks unlocks them all within the unlock
// timeout, and leaves no node. HOLDFAST_MANY is the number of locks, 10,000 by default; the library
// is meant for 100,000.
func TestCloseOfManyHolds(t *testing.T) {
	n := 10_000
	if text := os.Getenv("HOLDFAST_MANY"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("HOLDFAST_MANY=%q: must be a number", text)
		}
	}
	b := onShared(t)
	c := b.client(lock.WithTTL(2 * long))
	names := make(chan int)
	var joiners sync.WaitGroup
	for range 64 {
		joiners.Go(func() {
			for i := range names {
				iferr.Error(t, iferr.Of(c.Mutex(fmt.Sprint("many", i)).Lock(b.ctx)))
			}
		})
	}
	began := time.Now()
	for i := range n {
		names <- i
	}
	close(names)
	joiners.Wait()
	if s := c.Stats(); s.Holds != n {
		t.Fatalf("%d holds, want %d", s.Holds, n)
	}
	joined := time.Now()
	if err := c.Close(); err != nil { // fails if the unlock timeout was too short
		t.Error(err)
	}
	t.Logf("%d locks were taken in %v and given back in %v", n, joined.Sub(began), time.Since(joined))
	if left := b.nodes(); len(left) > 0 {
		t.Errorf("%d nodes are left, %q first", len(left), left[0])
	}
}
