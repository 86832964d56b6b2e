// Examples of options and recipes.

package lock_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// Use WithBarging for work that any process may do next: the fastest one gets the lock.
func ExampleMutex_WithBarging() {
	ctx := context.Background()
	locks, done := newClient()
	defer done()

	check(locks.Mutex("cache/refill").WithBarging().Do(ctx, func(context.Context) error {
		fmt.Println("refilled")
		return nil
	}))
	// Output: refilled
}

// Extend gives a hold a longer lease, for example before a pause of the process.
func ExampleHold_Extend() {
	ctx := context.Background()
	locks, done := newClient()
	defer done()

	hold := must(locks.Mutex("firmware", lock.WithTTL(time.Minute)).Lock(ctx))
	defer hold.Unlock()
	fmt.Println("for", hold.Remaining().Round(time.Minute))
	check(hold.Extend(ctx, 10*time.Minute)) // counted from now
	fmt.Println("for", hold.Remaining().Round(time.Minute))
	// Output:
	// for 1m0s
	// for 10m0s
}

// counter is an observer that counts events.
type counter struct {
	mu     sync.Mutex
	counts map[lock.EventKind]int
}

func (c *counter) Observe(_ context.Context, e lock.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[e.Kind]++
}

// A service counts the events of its locks. lock/observe has ready-made observers.
func ExampleWithObserver() {
	ensemble := newEnsemble()
	defer ensemble.Close()
	ctx := context.Background()
	observer := &counter{counts: map[lock.EventKind]int{}}
	locks := must(lock.Dial(ctx, ensemble.Servers(), lock.WithObserver(observer), lock.WithDialer(ensemble.Dial)))
	for range 3 {
		check(locks.Mutex("till").Do(ctx, func(context.Context) error { return nil }))
	}
	locks.Close()
	fmt.Println("acquired:", observer.counts[lock.EventAcquired], "lost:", observer.counts[lock.EventLost])
	// Output: acquired: 3 lost: 0
}

// A candidate with a higher priority leads next, although another candidate joined before it.
func ExampleElection_WithPriority() {
	ctx := context.Background()
	locks, done := newClient()
	defer done()

	leads := must(locks.Election("scheduler").Campaign(ctx, "spare"))
	next := make(chan string)
	var stood sync.WaitGroup
	stand := func(value string, priority int) {
		l := must(locks.Election("scheduler").WithPriority(priority).Campaign(ctx, value))
		next <- value
		check(l.Resign())
	}
	stood.Go(func() { stand("another spare", 1) })
	await(ctx, locks, 2) // until the first of them waits
	stood.Go(func() { stand("the best", 9) })
	await(ctx, locks, 3)
	check(leads.Resign())
	fmt.Println(<-next)
	fmt.Println(<-next)
	stood.Wait()
	// Output:
	// the best
	// another spare
}

// await waits until there are at least n candidates.
func await(ctx context.Context, locks *lock.Client, n int) {
	for {
		candidates := must(locks.Election("scheduler").Candidates(ctx))
		if len(candidates) >= n {
			return
		}
	}
}
