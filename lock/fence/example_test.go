package fence_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/fence"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// The printer refuses a job with the token of an earlier holder.
func ExampleGate() {
	ensemble, err := locktest.New(locktest.Options{}) // a ZooKeeper in memory
	if err != nil {
		log.Fatal(err)
	}
	defer ensemble.Close()
	ctx := context.Background()
	locks, err := lock.Dial(ctx, ensemble.Servers(), lock.WithDialer(ensemble.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	var gate fence.Gate
	print := func(token lock.Token, page string) {
		err := gate.Do(ctx, "printer", token, func() error {
			fmt.Println("printed:", page)
			return nil
		})
		if errors.Is(err, fence.ErrStale) {
			fmt.Println("refused:", page)
		}
	}

	first, err := locks.Mutex("printer").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	print(first.Token(), "page 1 of the first")
	first.Unlock() // or its lease ran out while it was paused

	second, err := locks.Mutex("printer").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer second.Unlock()
	print(second.Token(), "page 1 of the second")
	print(first.Token(), "page 2 of the first, late")
	// Output:
	// printed: page 1 of the first
	// printed: page 1 of the second
	// refused: page 2 of the first, late
}
