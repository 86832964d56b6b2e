// Job runs a job at each tick of a schedule, until it is stopped. Run it in two terminals: one of them
// runs each tick.
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

	"github.com/robfig/cron/v3"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/schedule"
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

	ticks, err := cron.ParseStandard("@every 5s")
	if err != nil {
		return err
	}
	job, err := schedule.New(locks, "nightly/export", ticks, schedule.Options{})
	if err != nil {
		return err
	}
	log.Println("waiting for ticks")
	return job.Run(ctx, func(ctx context.Context, turn *schedule.Turn) error {
		log.Println("this replica runs the tick", turn.Tick)
		return ctx.Err() // the work; ctx ends if the lock is lost
	})
}
