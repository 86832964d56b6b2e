package shard_test

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/shard"
)

// A service shares eight shards among its replicas: here a single one, which owns them all.
func ExampleRun() {
	ens, err := locktest.New(locktest.Options{}) // a ZooKeeper in memory
	if err != nil {
		log.Fatal(err)
	}
	defer ens.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	locks, err := lock.Dial(ctx, ens.Servers(), lock.WithDialer(ens.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	var owned atomic.Int32
	err = shard.Run(ctx, locks, "orders/partitions", 8, func(ctx context.Context, s shard.Owned) error {
		if owned.Add(1) == 8 {
			cancel() // this program has shown enough
		}
		<-ctx.Done() // instead of: return consume(ctx, s.Index, s.Token())
		return nil
	}, shard.Options{})
	fmt.Println(owned.Load(), err)
	// Output: 8 shards "orders/partitions": context canceled
}
