#!/usr/bin/env bash
# go-co-op/gocron v2.21.2 and robfig/cron v3.0.1 plan a daily job at 02:30 differently on the days on which the
# zone's clocks change; systemd-cron-days.sh has systemd's and Debian's.
#
# Berlin goes from 02:00 to 03:00 on 2025-03-30, and from 03:00 to 02:00 on 2025-10-26.
#
# Guess:  both leave out the time that is skipped, and run once at the one that is repeated.
# Seen:   gocron runs at 03:30 of summer time, which is no time of the schedule, and once, at the second of the
#         two. robfig/cron leaves out the day, and runs at both.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

build github.com/go-co-op/gocron/v2@v2.21.2 github.com/jonboulle/clockwork@v0.5.0 github.com/robfig/cron/v3@v3.0.1 <<'GO'
package main

import (
	"fmt"
	"log"
	"time"
	_ "time/tzdata"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"github.com/robfig/cron/v3"
)

func main() {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		log.Fatal(err)
	}
	daily, err := cron.ParseStandard("30 2 * * *")
	if err != nil {
		log.Fatal(err)
	}
	for _, noon := range []time.Time{time.Date(2025, 3, 29, 12, 0, 0, 0, zone), time.Date(2025, 10, 25, 12, 0, 0, 0, zone)} {
		s, err := gocron.NewScheduler(gocron.WithLocation(zone), gocron.WithClock(clockwork.NewFakeClockAt(noon)))
		if err != nil {
			log.Fatal(err)
		}
		at := gocron.NewAtTimes(gocron.NewAtTime(2, 30, 0))
		job, err := s.NewJob(gocron.DailyJob(1, at), gocron.NewTask(func() {}))
		if err != nil {
			log.Fatal(err)
		}
		s.Start()
		runs, err := job.NextRuns(2)
		if err != nil {
			log.Fatal(err)
		}
		tell("gocron", runs)
		first := daily.Next(noon)
		tell("cron", []time.Time{first, daily.Next(first)})
	}
}

func tell(who string, runs []time.Time) {
	fmt.Print(who, ":")
	for _, run := range runs {
		fmt.Print(run.Format("  01-02 15:04 -0700"))
	}
	fmt.Println()
}
GO
expect 'gocron:  03-30 03:30 +0200  03-31 02:30 +0200
cron:  03-31 02:30 +0200  04-01 02:30 +0200
gocron:  10-26 02:30 +0100  10-27 02:30 +0100
cron:  10-26 02:30 +0200  10-26 02:30 +0100' "$("$work/program")"
