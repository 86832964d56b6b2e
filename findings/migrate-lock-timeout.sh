#!/usr/bin/env bash
# golang-migrate/migrate v4.20.1, on PostgreSQL 15.18 (Debian bookworm): a Migrate that has given up after its
# LockTimeout takes the lock all the same when it becomes free, and keeps it.
#
# Guess:  ErrLockTimeout means that this process does not take part any more: when the first one is done, the
#         next Migrate, in this process or another, finds nothing to do.
# Seen:   the request for the lock goes on behind the error. When the first Migrate is done, the one that gave up
#         has the lock, and nothing unlocks it while its connection lives: its own next Up says "can't acquire
#         lock". Other processes do not even get a Migrate: opening one takes the lock too, without any
#         timeout. Close of the one that gave up frees the lock.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

postgres bookworm 15 15.18-0+deb12u1
build github.com/golang-migrate/migrate/v4@v4.20.1 <<'GO'
package main

import (
	"database/sql"
	"fmt"
	"log"
	"os"
	"strings"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	_ "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

// replica is a Migrate that waits for the lock for so long.
func replica(patience time.Duration) *migrate.Migrate {
	source, err := iofs.New(fstest.MapFS{"1_orders.up.sql": {Data: []byte("SELECT pg_sleep(6)")}}, ".")
	if err != nil {
		log.Fatal(err)
	}
	m, err := migrate.NewWithSourceInstance("iofs", source, strings.Replace(os.Args[1], "postgres:", "pgx5:", 1))
	if err != nil {
		log.Fatal(err)
	}
	m.LockTimeout = patience
	return m
}

func main() {
	db, err := sql.Open("pgx/v5", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	locks := func() (n int) {
		if err := db.QueryRow("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted").Scan(&n); err != nil {
			log.Fatal(err)
		}
		return n
	}
	first, second := replica(time.Minute), replica(2*time.Second)
	done := make(chan error)
	go func() { done <- first.Up() }()
	for locks() == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("second:", second.Up())
	fmt.Println("first:", <-done)
	first.Close()
	fmt.Println("second again:", second.Up(), "- locks:", locks())
	opened := make(chan *migrate.Migrate)
	go func() { opened <- replica(time.Second) }()
	select {
	case <-opened:
		fmt.Println("third: opened")
	case <-time.After(8 * time.Second):
		fmt.Println("third, with a LockTimeout of 1 s: opens for more than 8 s")
	}
	second.Close()
	fmt.Println("third, as the second is closed:", (<-opened).Up())
}
GO
got=$(timeout -s QUIT 60 "$work/program" "$dsn")
kill -INT "$postgres"
wait "$postgres" 2>/dev/null || true
expect "second: timeout: can't acquire database lock
first: <nil>
second again: can't acquire lock - locks: 1
third, with a LockTimeout of 1 s: opens for more than 8 s
third, as the second is closed: no change" "$got"
