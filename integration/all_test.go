package integration_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// TestFreeLocksAreOneRoundTripEachWay: All.Lock of free locks, and Unlock of their holds, take one
// request and one transaction each.
func TestFreeLocksAreOneRoundTripEachWay(t *testing.T) {
	s := zkserver.ForTest(t, zkserver.Options{})
	b := on(t, []string{s.Addr()})
	c, tap := b.tapped(lock.WithSessionTimeout(time.Minute)) // so long that no new session counts as a transaction
	counted := func(what string, f func()) {
		t.Helper()
		sent, before := tap.Counts().Requests, b.zxidOf(s)
		f()
		if n, m := tap.Counts().Requests-sent, b.zxidOf(s)-before; n != 1 || m != 1 {
			t.Errorf("%s: %d requests, %d transactions; want one of each", what, n, m)
		}
	}
	b.unlock(b.lock(c, "first")) // creates the root, and lets the client learn the leader's time
	b.nodes()                    // opens the bench's own session before the count
	for i := range 5 {
		var names []string
		for j := range 8 {
			names = append(names, fmt.Sprintf("%d-%d", i, j))
		}
		var hs *lock.Holds
		counted("All.Lock", func() { hs = b.lockAll(c, names...) })
		counted("Unlock", func() {
			if err := hs.Unlock(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestLocksTogetherInAnyOrder: clients that lock the same names together, in random orders, do not
// deadlock, and no two clients hold the same lock at once.
func TestLocksTogetherInAnyOrder(t *testing.T) {
	b := onShared(t)
	names := []string{"a", "b", "c", "d"}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	holder := map[string]int{}
	var wg sync.WaitGroup
	for i := range 4 {
		c := b.client()
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for range 10 {
				mine := make([]string, 0, 3)
				for _, n := range r.Perm(len(names))[:2+r.IntN(2)] {
					mine = append(mine, names[n])
				}
				hs, err := c.All(mine).Lock(b.ctx)
				if err != nil {
					t.Errorf("client %d: %q: %v", i, mine, err)
					return
				}
				mu.Lock()
				for _, name := range mine {
					if other, taken := holder[name]; taken {
						t.Errorf("clients %d and %d have %s", i, other, name)
					}
					holder[name] = i
				}
				mu.Unlock()
				time.Sleep(time.Duration(r.Int64N(int64(5 * time.Millisecond)))) // wall clock: random pauses
				mu.Lock()
				for _, name := range mine {
					delete(holder, name)
				}
				mu.Unlock()
				if err := hs.Unlock(); err != nil {
					t.Errorf("client %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}

func (b *bench) zxidOf(s *zkserver.Server) int64 {
	b.Helper()
	zxid, err := s.Zxid(b.ctx)
	if err != nil {
		b.Fatal(err)
	}
	return zxid
}

func (b *bench) lockAll(c *lock.Client, names ...string) *lock.Holds {
	b.Helper()
	hs, err := c.All(names).Lock(b.ctx)
	if err != nil {
		b.Fatal(err)
	}
	return hs
}
