package lock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-io/holdfast/lock"
)

// A holder that gives up its lock when somebody asks for it.
func ExampleHold_Revoked() {
	ensemble := newEnsemble()
	defer ensemble.Close()
	ctx := context.Background()
	locks, err := lock.Dial(ctx, ensemble.Servers(), lock.WithOwner("deploy"), lock.WithDialer(ensemble.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	hold, err := locks.Mutex("node3").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	// Somewhere else:
	if err := locks.Revoke(ctx, "node3", "node3 is drained"); err != nil {
		log.Fatal(err)
	}

	select {
	case r := <-hold.Revoked():
		fmt.Printf("%s asks for %s: %s\n", r.Owner, hold.Name(), r.Reason)
	case <-hold.Done():
		log.Fatal(hold.Err())
	}
	if err := hold.Unlock(); err != nil {
		log.Fatal(err)
	}
	// Output: deploy asks for node3: node3 is drained
}
