package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/schedule"
)

// Two replicas have the same job. One of them runs each tick.
func Example() {
	ensemble, err := locktest.New(locktest.Options{}) // a ZooKeeper in memory
	if err != nil {
		log.Fatal(err)
	}
	defer ensemble.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	ran, ended := make(chan time.Time, 10), make(chan error, 2)
	for range 2 {
		locks, err := lock.Dial(ctx, ensemble.Servers(), lock.WithDialer(ensemble.Dial))
		if err != nil {
			log.Fatal(err)
		}
		defer locks.Close()
		job, err := schedule.New(locks, "heartbeat", cron.Every(time.Second), schedule.Options{})
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			ended <- job.Run(ctx, func(_ context.Context, turn *schedule.Turn) error {
				ran <- turn.Tick
				return nil
			})
		}()
	}
	first, second := <-ran, <-ran
	fmt.Println("between two ticks:", second.Sub(first))
	cancel()
	for range 2 {
		fmt.Println("canceled:", errors.Is(<-ended, context.Canceled))
	}
	// Output:
	// between two ticks: 1s
	// canceled: true
	// canceled: true
}
