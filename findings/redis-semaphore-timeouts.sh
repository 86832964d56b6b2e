#!/usr/bin/env bash
# redis-semaphore 5.8.0 (npm, with ioredis 5.8.2), on miniredis v2.40.0: a replica with a
# shorter lockTimeout takes a permit from one with a longer timeout, and both have the only one.
#
# Guess:  lockTimeout is the time after which this holder's permit is released if it does not refresh it, as
#         documented for Mutex: a permit taken with the default of 10 s stays for 10 s, whatever the others' is.
# Seen:   Mutex keeps to that. In Semaphore the time of the one that asks counts: it removes all permits that are
#         older than its own lockTimeout. Beside a first one with the default, a second with 2 s gets the only permit
#         as soon as that was not refreshed for 2 s; the first refreshes it each 8 s, and until then takes it for its
#         own. So a rollout that shortens the timeout lets in more than maxCount while both versions run.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

command -v npm >/dev/null || cannot "no npm on the PATH"
build github.com/alicebob/miniredis/v2@v2.40.0 <<'GO'
package main

import (
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
)

func main() {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(server.Port())
	select {}
}
GO
cd "$work"
npm install --no-audit --no-fund --ignore-scripts redis-semaphore@5.8.0 ioredis@5.8.2 >npm.log 2>&1 || cannot "$(tail -5 npm.log)"
cat >replicas.mjs <<'JS'
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";
import { Mutex, Semaphore } from "redis-semaphore";

const redis = () => new Redis(Number(process.argv[2]), "127.0.0.1");

async function run(text, take) {
  let lost = false;
  const first = take(text, { onLockLost: (err) => (lost = err.message) });
  await first.acquire();
  for (const lockTimeout of [10_000, 2_000]) {
    const second = take(text, { lockTimeout, acquireTimeout: 5_000 });
    const got = await second.tryAcquire();
    console.log(`${text}: second with lockTimeout ${lockTimeout}: ${got}, first: ${first.isAcquired}`);
  }
  if (text === "Semaphore") {
    while (!lost) await sleep(100);
    console.log(`${text}: the first's next refresh fails: ${lost}, first: ${first.isAcquired}`);
  }
}

await run("Mutex", (key, options) => new Mutex(redis(), key, options));
await run("Semaphore", (key, options) => new Semaphore(redis(), key, 1, options));
process.exit(0);
JS
exec 4< <(exec "$work/program")
pids+=($!)
read -r port <&4
expect "Mutex: second with lockTimeout 10000: false, first: true
Mutex: second with lockTimeout 2000: false, first: true
Semaphore: second with lockTimeout 10000: false, first: true
Semaphore: second with lockTimeout 2000: true, first: true
Semaphore: the first's next refresh fails: Lost semaphore for key semaphore:Semaphore, first: false" "$(timeout 120 node replicas.mjs "$port")"
