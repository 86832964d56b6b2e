// Rwmutex reads a catalog, or replaces it with the argument "write". Any number of processes read at
// once; a writer is alone.
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/lock"
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

	catalog := locks.RWMutex("catalog")
	if len(os.Args) > 1 && os.Args[1] == "write" {
		return catalog.Do(ctx, func(ctx context.Context) error { return work(ctx, "writing") })
	}
	return catalog.RDo(ctx, func(ctx context.Context) error { return work(ctx, "reading") })
}

// work stops when ctx ends: the lock is lost, or the program is to stop.
func work(ctx context.Context, what string) error {
	log.Println(what)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(3 * time.Second): // the work
	}
	log.Println("done", what)
	return nil
}
