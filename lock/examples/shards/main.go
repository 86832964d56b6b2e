// Shards owns its part of eight shards until it is stopped. Run it in two terminals: each of them owns
// four after some seconds.
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/shard"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	servers := cmp.Or(os.Getenv("HOLDFAST_ZOOKEEPER"), "127.0.0.1:2181")
	locks, err := lock.Dial(ctx, strings.Split(servers, ","))
	if err != nil {
		return err
	}
	defer locks.Close()

	log.Println("joining")
	return shard.Run(ctx, locks, "orders/partitions", 8, func(ctx context.Context, s shard.Owned) error {
		log.Println("owns shard", s.Index)
		<-ctx.Done() // the work; it ends when the shard is to be given back, or is lost
		log.Println("gives back shard", s.Index)
		return nil
	}, shard.Options{Log: slog.Default()})
}
