#!/usr/bin/env bash
# robfig/cron v3.0.1: where clocks change by half an hour, a daily tick at 03:00 is missed when they go
# forward, and one at 02:15 when they go back, although both times exist on that day.
#
# Lord Howe Island goes from 02:00 to 02:30 on 2025-10-05, and from 02:00 to 01:30 on 2025-04-06.
#
# Guess:  a time that exists once on each day ticks once on each day.
# Seen:   no tick on the day of the change. Next looks for the hour by steps of 60 minutes, so it arrives
#         at 03:30 and at 02:30, in the right hour but past its tick.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

build github.com/robfig/cron/v3@v3.0.1 <<'GO'
package main

import (
	"fmt"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
)

func main() {
	zone, err := time.LoadLocation("Australia/Lord_Howe")
	if err != nil {
		panic(err)
	}
	for _, c := range []struct {
		spec         string
		year         int
		month        time.Month
		day          int
		hour, minute int
	}{
		{"0 3 * * *", 2025, time.October, 5, 3, 0},
		{"15 2 * * *", 2025, time.April, 6, 2, 15},
	} {
		schedule, err := cron.ParseStandard(c.spec)
		if err != nil {
			panic(err)
		}
		fmt.Println(c.spec, "exists:", time.Date(c.year, c.month, c.day, c.hour, c.minute, 0, 0, zone).Format("Mon 01-02 15:04 -0700"))
		t := time.Date(c.year, c.month, c.day-2, 12, 0, 0, 0, zone)
		for range 3 {
			t = schedule.Next(t)
			fmt.Println("  tick", t.Format("Mon 01-02 15:04 -0700"))
		}
	}
}
GO
expect '0 3 * * * exists: Sun 10-05 03:00 +1100
  tick Sat 10-04 03:00 +1030
  tick Mon 10-06 03:00 +1100
  tick Tue 10-07 03:00 +1100
15 2 * * * exists: Sun 04-06 02:15 +1030
  tick Sat 04-05 02:15 +1100
  tick Mon 04-07 02:15 +1030
  tick Tue 04-08 02:15 +1030' "$("$work/program")"
