#!/usr/bin/env bash
# bsm/redislock v0.9.4, on miniredis v2.40.0: a retry strategy counts for as long as it lives, not for a call. A
# LimitRetry in options that calls share ends retries for good.
#
# Guess:  LimitRetry(LinearBackoff(20ms), 3) makes each Obtain of a held lock try four times; a strategy is a
#         description, and options can be a package's variable. ExponentialBackoff begins anew in each call.
# Seen:   the first Obtain tries four times, each later one once, with ErrNotObtained at once, for the process's
#         life. The third call of an ExponentialBackoff begins with a pause of 256 ms in place of 16.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

build github.com/bsm/redislock@v0.9.4 github.com/redis/go-redis/v9@v9.22.0 github.com/alicebob/miniredis/v2@v2.40.0 <<'GO'
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// told tells the pauses that the strategy asks for; after 0 there is no other try.
type told struct{ redislock.RetryStrategy }

func (t told) NextBackoff() time.Duration {
	pause := t.RetryStrategy.NextBackoff()
	fmt.Print(" ", pause)
	return pause
}

func main() {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	locks := redislock.New(redis.NewClient(&redis.Options{Addr: server.Addr()}))
	if _, err := locks.Obtain(ctx, "orders", time.Minute, nil); err != nil {
		log.Fatal(err)
	}
	obtain := func(strategy redislock.RetryStrategy) {
		fmt.Print(" pauses")
		_, err := locks.Obtain(ctx, "orders", time.Minute, &redislock.Options{RetryStrategy: told{strategy}})
		fmt.Println(":", err)
	}

	limited := redislock.LimitRetry(redislock.LinearBackoff(20*time.Millisecond), 3)
	for range 3 {
		fmt.Print("LimitRetry:")
		obtain(limited)
	}
	exponential := redislock.ExponentialBackoff(16*time.Millisecond, time.Second)
	for range 3 {
		fmt.Print("ExponentialBackoff:")
		obtain(redislock.LimitRetry(exponential, 3))
	}
}
GO
expect 'LimitRetry: pauses 20ms 20ms 20ms 0s: redislock: not obtained
LimitRetry: pauses 0s: redislock: not obtained
LimitRetry: pauses 0s: redislock: not obtained
ExponentialBackoff: pauses 16ms 16ms 16ms 0s: redislock: not obtained
ExponentialBackoff: pauses 32ms 64ms 128ms 0s: redislock: not obtained
ExponentialBackoff: pauses 256ms 512ms 1s 0s: redislock: not obtained' "$("$work/program")"
