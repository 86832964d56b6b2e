#!/usr/bin/env bash
# `0 0 */2 * MON` has two meanings in two Go libraries, robfig/cron v3.0.1 and adhocore/gronx v1.20.4. In
# gronx `1-31/2` in place of `*/2`, the same days, changes the meaning.
#
# Guess:  a library that takes crontab lines takes this one as "odd days, or Mondays"; and as `*/2` and
#         `1-31/2` are the same days of the month, they are the same schedule.
# Seen:   robfig/cron: "or" for both. gronx: "and" for `*/2`, "or" for `1-31/2`; so it has 2 of 15 ticks in
#         the four weeks from 2025-11-01.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

build github.com/robfig/cron/v3@v3.0.1 github.com/adhocore/gronx@v1.20.4 <<'GO'
package main

import (
	"fmt"
	"time"

	"github.com/adhocore/gronx"
	"github.com/robfig/cron/v3"
)

// tell prints the days of the ticks in November 2025.
func tell(name string, next func(time.Time) time.Time) {
	fmt.Print("  ", name, ":")
	end := time.Date(2025, 11, 29, 0, 0, 0, 0, time.UTC)
	for t := next(end.AddDate(0, 0, -28)); t.Before(end); t = next(t) {
		fmt.Print(" ", t.Day())
	}
	fmt.Println()
}

func main() {
	for _, spec := range []string{"0 0 */2 * MON", "0 0 1-31/2 * MON"} {
		fmt.Println(spec)
		schedule, err := cron.ParseStandard(spec)
		if err != nil {
			panic(err)
		}
		tell("robfig/cron", schedule.Next)
		tell("gronx", func(t time.Time) time.Time {
			t, err := gronx.NextTickAfter(spec, t, false)
			if err != nil {
				panic(err)
			}
			return t
		})
	}
}
GO
expect '0 0 */2 * MON
  robfig/cron: 3 5 7 9 10 11 13 15 17 19 21 23 24 25 27
  gronx: 3 17
0 0 1-31/2 * MON
  robfig/cron: 3 5 7 9 10 11 13 15 17 19 21 23 24 25 27
  gronx: 3 5 7 9 10 11 13 15 17 19 21 23 24 25 27' "$("$work/program")"
