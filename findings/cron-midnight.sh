#!/usr/bin/env bash
# robfig/cron v3.0.1: a weekly tick at 05:00 does not come in the week in which the zone's clocks go
# forward at midnight of that day.
#
# Guess:  05:00 exists on each day, so the tick comes each week; at most a tick between 00:00 and 01:00
#         is in doubt.
# Seen:   the whole day is missing: the first Friday of summer time in Cairo, the first Sunday in Beirut.
#         Next goes from day to day by midnights. The day begins at 01:00, so it steps an hour back, is at
#         23:00 of the day before, and goes on from there past the whole day.
#         Europe/Athens changes at 03:00 on the same Sunday as Beirut, and is right.
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
	for _, c := range []struct{ zone, spec, from string }{
		{"Africa/Cairo", "0 5 * * 5", "2025-04-14"},
		{"Asia/Beirut", "0 5 * * 0", "2025-03-18"},
		{"Europe/Athens", "0 5 * * 0", "2025-03-18"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			panic(err)
		}
		schedule, err := cron.ParseStandard(c.spec)
		if err != nil {
			panic(err)
		}
		t, err := time.ParseInLocation(time.DateOnly, c.from, zone)
		if err != nil {
			panic(err)
		}
		fmt.Print(c.zone, " ", c.spec, ":")
		for range 3 {
			t = schedule.Next(t)
			fmt.Print(t.Format(" Mon 01-02 15:04"))
		}
		fmt.Println()
	}
}
GO
expect 'Africa/Cairo 0 5 * * 5: Fri 04-18 05:00 Fri 05-02 05:00 Fri 05-09 05:00
Asia/Beirut 0 5 * * 0: Sun 03-23 05:00 Sun 04-06 05:00 Sun 04-13 05:00
Europe/Athens 0 5 * * 0: Sun 03-23 05:00 Sun 03-30 05:00 Sun 04-06 05:00' "$("$work/program")"
