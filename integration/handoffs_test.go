package integration_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// TestHandoffsWithinClients: while connections break, goroutines of several clients hand off
// entries. No two goroutines hold the lock at once, tokens rise, each client has turns, and
// no node is left.
func TestHandoffsWithinClients(t *testing.T) {
	const clients, each = 4, 8
	b := onShared(t)
	var room room
	var turns sync.WaitGroup
	var handed, joined [clients]int
	var mu sync.Mutex
	taps := make([]zkserver.Tap, clients)
	cs := make([]*lock.Client, clients)
	for i := range cs {
		cs[i] = b.client(lock.WithDialer(taps[i].Dial))
	}
	begun := time.Now()
	goOn := func() bool {
		mu.Lock()
		defer mu.Unlock()
		all := !slices.Contains(handed[:], 0) && !slices.Contains(joined[:], 0)
		return !t.Failed() && b.ctx.Err() == nil && (time.Since(begun) < 3*time.Second || !all) // wall clock: the faults last this long at least
	}
	for i, c := range cs {
		for range each {
			turns.Go(func() {
				for goOn() {
					h, err := c.Mutex("shared").Lock(b.ctx)
					if err != nil {
						t.Error(err)
						return
					}
					leave := room.enter(h.Token())
					mu.Lock()
					if strings.Count(h.Token().String(), "-") == 3 { // the last part counts local handoffs
						handed[i]++
					} else {
						joined[i]++
					}
					mu.Unlock()
					if rand.IntN(50) == 0 {
						time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // wall clock: random pauses
					}
					leave()
					b.unlock(h)
				}
			})
		}
	}
	turns.Go(func() {
		for goOn() {
			taps[rand.IntN(clients)].Cut()
			time.Sleep(time.Duration(100+rand.IntN(300)) * time.Millisecond) // wall clock: random pauses
		}
	})
	turns.Wait()
	room.check(t)
	for i := range clients {
		t.Logf("client %d: %d turns by an entry handed on, %d by one joined for it", i, handed[i], joined[i])
		if handed[i] == 0 || joined[i] == 0 {
			t.Errorf("client %d: %d turns by an entry handed on, %d by one joined for it", i, handed[i], joined[i])
		}
	}
	b.nothingLeft(patience)
}
