package integration_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
)

// hammerEnv names the variable with the duration of TestHammer, such as 40s.
const hammerEnv = "HOLDFAST_HAMMER"

// TestHammer: clients lock and unlock a few locks as fast as they can, so parents are created and
// deleted all the time. No two clients hold a lock at once, and in the end no node is left.
func TestHammer(t *testing.T) {
	lasts := 1500 * time.Millisecond
	if s := os.Getenv(hammerEnv); s != "" {
		var err error
		if lasts, err = time.ParseDuration(s); err != nil || lasts <= 0 {
			t.Fatalf("%s=%q: want for how long to go on, such as 40s", hammerEnv, s)
		}
	}
	const clients, names = 8, 3
	for _, connections := range []string{"own connections", "one connection"} {
		t.Run(connections, func(t *testing.T) {
			b := onShared(t)
			b.ctx = t.Context() // without a limit, because the hammer may run for long
			var all []*lock.Client
			shared := b.connect()
			for range clients {
				if connections == "own connections" {
					all = append(all, b.client())
				} else {
					all = append(all, b.borrower(shared))
				}
			}
			var rooms [names]room
			var turns sync.WaitGroup
			end := time.Now().Add(lasts) // wall clock: the caller says for how long
			for _, c := range all {
				turns.Go(func() {
					for time.Now().Before(end) && !t.Failed() {
						i := rand.IntN(names)
						h, err := c.Mutex(fmt.Sprint("hammered", i)).Lock(b.ctx)
						if err != nil {
							t.Error(err)
							return
						}
						rooms[i].enter(h.Token())()
						b.unlock(h)
					}
				})
			}
			turns.Wait()
			for i := range rooms {
				rooms[i].check(t)
				t.Logf("lock %d: %d turns", i, rooms[i].entries.Load())
			}
			b.nothingLeft()
		})
	}
}

// borrower returns a client of the bench's root on a borrowed connection.
func (b *bench) borrower(z *zk.Conn) *lock.Client {
	b.Helper()
	c, err := lock.New(z, lock.WithRoot(b.root), lock.WithTTL(long), lock.WithGrace(grace))
	iferr.Fatal(b, err)
	b.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.Errorf("close: %v", err)
		}
	})
	return c
}
