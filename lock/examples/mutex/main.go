// Mutex ships an order while no other process does. Run it in two terminals: the second one waits.
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

	hold, err := locks.Mutex("orders/42").Lock(ctx) // waits for its turn until ctx ends
	if err != nil {
		return err
	}
	defer hold.Unlock()
	work, cancel := context.WithCancel(hold.Context()) // ends when the hold is lost,
	defer context.AfterFunc(ctx, cancel)()             // or when the program is to stop
	return ship(work, hold.Token())
}

// ship stops when ctx ends: after that another process may ship. A database that remembers the
// highest token can refuse a late write.
func ship(ctx context.Context, token lock.Token) error {
	log.Println("shipping order 42, token", token)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(3 * time.Second): // the work
	}
	log.Println("shipped")
	return nil
}
