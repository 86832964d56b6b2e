#!/usr/bin/env bash
# cron-parser 5.10.6 (npm, with luxon 3.7.2): in a zone whose clocks go back by half an hour, next() of a
# daily schedule throws on the day of the change, for a time that exists once on each day.
#
# Guess:  03:00 is an hour after the change on Lord Howe Island (02:00 to 01:30 on 2025-04-06), so the
#         schedule ticks once on each day; at worst the tick of that day is missed.
# Seen:   "Invalid expression, loop limit exceeded" where that day's tick should be. The expression is
#         valid: from the day after it ticks again, and croner 11.0.1 finds all ticks.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

command -v npm >/dev/null || cannot "no npm on the PATH"
cd "$work"
npm install --no-audit --no-fund --ignore-scripts cron-parser@5.10.6 luxon@3.7.2 croner@11.0.1 >npm.log 2>&1 || cannot "$(tail -5 npm.log)"
cat >ticks.mjs <<'JS'
import { CronExpressionParser } from "cron-parser";
import { Cron } from "croner";

const tz = "Australia/Lord_Howe";
const local = (date) => date.toLocaleString("sv", { timeZone: tz }).slice(5, 16);
for (const from of ["2025-04-04T00:00:00Z", "2025-04-06T00:00:00Z"]) {
  const ticks = [];
  try {
    const schedule = CronExpressionParser.parse("0 3 * * *", { currentDate: new Date(from), tz });
    for (let i = 0; i < 4; i++) ticks.push(local(schedule.next().toDate()));
  } catch (err) {
    ticks.push(err.message);
  }
  console.log("cron-parser:", ticks.join(", "));
  console.log("croner:", new Cron("0 3 * * *", { timezone: tz }).nextRuns(4, new Date(from)).map(local).join(", "));
}
JS
expect 'cron-parser: 04-05 03:00, Invalid expression, loop limit exceeded
croner: 04-05 03:00, 04-06 03:00, 04-07 03:00, 04-08 03:00
cron-parser: 04-07 03:00, 04-08 03:00, 04-09 03:00, 04-10 03:00
croner: 04-07 03:00, 04-08 03:00, 04-09 03:00, 04-10 03:00' "$(node ticks.mjs)"
