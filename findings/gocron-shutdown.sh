#!/usr/bin/env bash
# go-co-op/gocron v2.21.2 with a distributed locker of go-redsync/redsync v4.13.0, on miniredis v2.40.0: a
# scheduler that is shut down while a job runs leaves the job's lock behind, although the job ends in order.
#
# Guess:  Shutdown ends the job's context and waits for the job; then the lock is unlocked, as after each run, so
#         that the other replicas can run the next tick.
# Seen:   the lock's Unlock gets the same context, which has ended: nothing is sent to Redis, and the error is
#         dropped. Shutdown returns nil. Until the lock expires, here ten minutes, all replicas skip the job. A
#         rolling restart does that to each job that it interrupts.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

build github.com/go-co-op/gocron/v2@v2.21.2 github.com/go-redsync/redsync/v4@v4.13.0 \
	github.com/redis/go-redis/v9@v9.22.0 github.com/alicebob/miniredis/v2@v2.40.0 <<'GO'
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-co-op/gocron/v2"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// locker is a gocron.Locker, and held its gocron.Lock; both pass on the contexts that they get.
type locker struct{ *redsync.Redsync }

type held struct{ *redsync.Mutex }

func (l locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	m := l.NewMutex(name, redsync.WithTries(1), redsync.WithExpiry(10*time.Minute))
	return held{m}, m.LockContext(ctx)
}

func (h held) Unlock(ctx context.Context) error {
	ended := ctx.Err() != nil
	_, err := h.UnlockContext(ctx)
	fmt.Println("Unlock, with a context that has ended:", ended, "- failed:", err != nil)
	return err
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	server := must(miniredis.Run())
	// replica starts a scheduler that runs the job once, at once; ended says how that went.
	replica := func(job func(context.Context)) (s gocron.Scheduler, ended chan string) {
		l := locker{redsync.New(goredis.NewPool(redis.NewClient(&redis.Options{Addr: server.Addr()})))}
		s = must(gocron.NewScheduler(gocron.WithDistributedLocker(l)))
		ended = make(chan string, 1)
		must(s.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(job), gocron.WithName("export"),
			gocron.WithStartAt(gocron.WithStartImmediately()),
			gocron.WithEventListeners(
				gocron.AfterJobRuns(func(uuid.UUID, string) { ended <- "done" }),
				gocron.AfterLockError(func(uuid.UUID, string, error) { ended <- "skipped" }))))
		s.Start()
		return s, ended
	}
	quick := func(context.Context) {}

	first, ended := replica(quick)
	fmt.Println("a replica, quick job:", <-ended)
	for server.Exists("export") {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("lock in Redis: false; Shutdown:", first.Shutdown())

	begun := make(chan struct{})
	second, ended := replica(func(ctx context.Context) {
		close(begun)
		<-ctx.Done()
	})
	<-begun
	fmt.Println("Shutdown of a replica that works:", second.Shutdown(), "- job:", <-ended)
	fmt.Println("lock in Redis:", server.Exists("export"), "for", server.TTL("export"))

	third, ended := replica(quick)
	fmt.Println("another replica, quick job:", <-ended)
	third.Shutdown()
}
GO
expect 'a replica, quick job: done
Unlock, with a context that has ended: false - failed: false
lock in Redis: false; Shutdown: <nil>
Unlock, with a context that has ended: true - failed: true
Shutdown of a replica that works: <nil> - job: done
lock in Redis: true for 10m0s
another replica, quick job: skipped' "$(timeout 60 "$work/program")"
