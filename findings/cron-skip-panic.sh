#!/usr/bin/env bash
# robfig/cron v3.0.1: in a chain of Recover and SkipIfStillRunning, a job that has panicked once never runs again.
#
# Guess:  Recover logs the panic, and the next tick runs the job, whatever the order of the two; with
#         DelayIfStillRunning it is so.
# Seen:   the job counts as running for ever: each later tick is skipped, and says so at the level "info", which
#         cron.DefaultLogger drops. In the other order, SkipIfStillRunning first, it runs again. The project's
#         master has the repair since January 2021 (issue 366), but no release has.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

build github.com/robfig/cron/v3@v3.0.1 <<'GO'
package main

import (
	"fmt"

	"github.com/robfig/cron/v3"
)

// logger tells what a job's wrappers log.
type logger struct{}

func (logger) Info(message string, _ ...any)           { fmt.Print(" info:", message) }
func (logger) Error(_ error, message string, _ ...any) { fmt.Print(" error:", message) }

func main() {
	recover, skip, delay := cron.Recover(logger{}), cron.SkipIfStillRunning(logger{}), cron.DelayIfStillRunning(logger{})
	for _, c := range []struct {
		name  string
		chain cron.Chain
	}{
		{"Recover, SkipIfStillRunning:", cron.NewChain(recover, skip)},
		{"SkipIfStillRunning, Recover:", cron.NewChain(skip, recover)},
		{"Recover, DelayIfStillRunning:", cron.NewChain(recover, delay)},
	} {
		fmt.Print(c.name)
		runs := 0
		job := c.chain.Then(cron.FuncJob(func() {
			runs++
			if runs == 1 {
				panic("the disk is full")
			}
			fmt.Print(" run")
		}))
		for range 4 {
			job.Run()
		}
		fmt.Println()
	}
}
GO
expect 'Recover, SkipIfStillRunning: error:panic info:skip info:skip info:skip
SkipIfStillRunning, Recover: error:panic run run run
Recover, DelayIfStillRunning: error:panic run run run' "$("$work/program")"
