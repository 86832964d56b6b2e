// Several locks together: no deadlock, in whatever order they are named.

package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestAllInAnyOrder: clients that name locks in the opposite order, or in a circle, and
// queue up while all of them are held, are served.
func TestAllInAnyOrder(t *testing.T) {
	forEach(t, locktest.Options{}, map[string][][]string{
		"ABBA":   {{"a", "b"}, {"b", "a"}},
		"circle": {{"a", "b"}, {"b", "c"}, {"c", "d"}, {"d", "a"}},
		"mixed":  {{"a", "b", "c"}, {"c", "a"}, {"b", "d", "a"}, {"d"}, {"c", "d", "b", "a"}},
	}, func(w *world, want [][]string) {
		first := w.lockAll(w.client("first"), "a", "b", "c", "d")
		limited := w.limited(12 * ttl)
		var wg sync.WaitGroup
		for i, names := range want {
			c := w.client(fmt.Sprintf("c%d", i))
			wg.Go(func() {
				hs, err := c.LockAll(limited, names...)
				if err != nil {
					w.Errorf("they wait for each other: %v", err)
					return
				}
				time.Sleep(time.Second)
				_ = hs.Unlock()
			})
		}
		time.Sleep(2 * ttl)
		w.unlockAll(first)
		wg.Wait()
		w.empty()
	})
}

// TestNobodyWaitsInACircle has processes take random locks, some together, in random
// orders, by each of the ways there are, for as long as some are always waited for. SEED
// and SEEDS choose the histories as in TestSimulation.
func TestNobodyWaitsInACircle(t *testing.T) {
	first, seeds := env(t, "SEED", 1), env(t, "SEEDS", 6)
	if os.Getenv("SEEDS") != "" {
		seeds = min(seeds, 100)
	}
	for seed := first; seed < first+seeds; seed++ {
		subtest(t, fmt.Sprintf("seed=%d", seed), locktest.Options{Seed: seed}, func(w *world) {
			c := &circle{world: w, seed: seed, names: []string{"a", "b", "c", "d", "e"}, holder: map[string]string{}}
			var wg sync.WaitGroup
			for i := range 6 {
				client := w.client(fmt.Sprintf("c%d", i))
				for j := range 2 {
					wg.Go(func() { c.worker(client, fmt.Sprintf("%d/%d", i, j)) })
				}
			}
			wg.Wait()
			w.empty()
			w.Logf("%d times had together, %d alone", c.together, c.alone)
		})
	}
}

// circle is what the workers of a history share.
type circle struct {
	*world
	seed  uint64
	names []string

	mu              sync.Mutex
	holder          map[string]string
	together, alone int
}

func (c *circle) worker(client *lock.Client, label string) {
	r := random(c.seed, label)
	for range 15 {
		ctx, cancel := context.WithTimeout(c.ctx, 10*time.Minute)
		names := c.some(r)
		all := client.All(names)
		switch r.IntN(8) {
		case 0: // one, with or without a queue
			h, err := client.Mutex(names[0], [][]lock.LockOption{nil, {lock.WithBarging()}}[r.IntN(2)]...).Lock(ctx)
			c.had(r, label, names[:1], err, h.Unlock)
		case 1:
			hs, err := all.TryLock(ctx)
			if err == nil || !isOne(err, lock.ErrHeld) {
				c.had(r, label, names, err, hs.Unlock)
			}
		case 2: // gives up
			soon, cancel := context.WithTimeout(ctx, between(r, 0, 200*time.Millisecond))
			if hs, err := all.Lock(soon); err == nil {
				c.had(r, label, names, err, hs.Unlock)
			}
			cancel()
		default:
			hs, err := all.Lock(ctx)
			c.had(r, label, names, err, hs.Unlock)
		}
		cancel()
	}
}

// some are two or three names in any order.
func (c *circle) some(r *rand.Rand) []string {
	names := slices.Clone(c.names)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:2+r.IntN(2)]
}

// had checks that a worker holds its locks alone, and gives them back after a while.
func (c *circle) had(r *rand.Rand, label string, names []string, err error, unlock func() error) {
	if err != nil {
		c.Errorf("%s waited for %q for ten minutes: %v", label, names, err)
		return
	}
	c.mu.Lock()
	for _, name := range names {
		if other := c.holder[name]; other != "" {
			c.Errorf("%s has %s, and %s has it", label, name, other)
		}
		c.holder[name] = label
	}
	if len(names) > 1 {
		c.together++
	} else {
		c.alone++
	}
	c.mu.Unlock()
	time.Sleep(between(r, 0, 50*time.Millisecond))
	c.mu.Lock()
	for _, name := range names {
		delete(c.holder, name)
	}
	c.mu.Unlock()
	if err := unlock(); err != nil {
		c.Errorf("%s: unlock %q: %v", label, names, err)
	}
}

// TestAllOfManyKeptParents: what is believed of each is wrong, and all are read before the whole
// is sent again.
func TestAllOfManyKeptParents(t *testing.T) {
	link := locktest.Options{Latency: func(string, string) time.Duration { return 2 * time.Millisecond }}
	simulate(t, link, func(w *world) {
		kept := lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: window, KeepParent: true})
		a, b := w.client("a"), w.client("b", kept)
		var names []string
		for i := range lock.MaxAll {
			names = append(names, fmt.Sprintf("n%02d", i))
			w.unlock(w.lock(b, names[i]))
		}
		limited := w.limited(time.Second)
		hs, err := a.LockAll(limited, names...)
		if err != nil {
			w.Fatalf("no client is at the locks: %v", err)
		}
		w.unlockAll(hs)
	})
}
