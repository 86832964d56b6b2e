// Semaphore makes five exports, each in a goroutine. Two run at once, in all processes together.
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
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

	exports := locks.Semaphore("exports", 2) // all processes give the same number
	var all sync.WaitGroup
	errs := make([]error, 5)
	for i := range errs {
		all.Go(func() {
			errs[i] = exports.Do(ctx, 1, func(ctx context.Context) error { return export(ctx, i) })
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// export stops when ctx ends: its permit is lost, or the program is to stop.
func export(ctx context.Context, i int) error {
	log.Println("begins export", i)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Second): // the work
	}
	log.Println("ended export", i)
	return nil
}
