package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// A tool finds the holder of a lock and ends its hold. The holder learns which client did that, and
// why.
func ExampleTree_Break() {
	ensemble, err := locktest.New(locktest.Options{}) // a ZooKeeper in memory
	if err != nil {
		log.Fatal(err)
	}
	defer ensemble.Close()
	ctx := context.Background()
	locks, err := lock.Dial(ctx, ensemble.Servers(), lock.WithOwner("shop"), lock.WithTTL(5*time.Second), lock.WithDialer(ensemble.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	hold, err := locks.Mutex("orders/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	tree := admin.New(locks)
	state, err := tree.Inspect(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range state.Contenders {
		fmt.Println("held by", c.Owner)
		if _, err := tree.Break(ctx, c.Path, znode.Broken{Owner: "root", Reason: "it hangs"}); err != nil {
			log.Fatal(err)
		}
	}
	<-hold.Context().Done()
	fmt.Println("broken:", errors.Is(hold.Err(), lock.ErrBroken))
	// Output:
	// held by shop
	// broken: true
}
