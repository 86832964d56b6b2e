// Election runs for leader until it is stopped. Run it in two terminals: one leads, both know the leader.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

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

	host, err := os.Hostname()
	if err != nil {
		return err
	}
	scheduler, me := locks.Election("scheduler"), fmt.Sprintf("%s pid %d", host, os.Getpid())
	go follow(ctx, scheduler)
	for ctx.Err() == nil {
		leadership, err := scheduler.Campaign(ctx, me) // waits until this process leads
		if err != nil {
			return err
		}
		lead(ctx, leadership)
		if err := leadership.Resign(); err != nil && !errors.Is(err, lock.ErrLost) {
			return err
		}
	}
	return nil
}

// lead returns when the program is to stop, or when the leadership is lost: that is before another
// process leads.
func lead(ctx context.Context, leadership *lock.Leadership) {
	log.Println("leads, token", leadership.Token())
	select { // in place of the work
	case <-ctx.Done():
	case <-leadership.Context().Done():
	}
	log.Println("leads no longer")
}

// follow says which process leads, at each change.
func follow(ctx context.Context, e *lock.Election) {
	for leader, err := range e.Observe(ctx) {
		switch {
		case err != nil:
			log.Println("the leader is not known:", err)
		case leader.Leads:
			log.Println("the leader is", leader.Value)
		}
	}
}
