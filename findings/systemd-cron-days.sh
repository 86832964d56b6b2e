#!/usr/bin/env bash
# systemd-cron 1.15.19 (Debian bookworm), which makes systemd timers of crontabs: a line with a day of the month and
# a day of the week runs only where both match. Its own manual promises either, by an example that is tried here.
#
# Guess:  crontab(5) of the package says that "30 4 1,15 * 5" runs on the 1st and 15th of each month, plus every
#         Friday: 19 times in the first quarter of 2026. "5-7", whose 7 is Sunday in the manual, is Friday to Sunday.
# Seen:   the timer is "Fri *-*-1,15", so the line does not run in that quarter, and then first on the 1st of May;
#         nothing is logged. Of "5-7" it says "garbled time" and makes a timer for each day of the week: a range that
#         is not understood is taken as "*". 2.5.1 (Debian trixie) has the range right, and the days as here.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

debian bookworm systemd-cron=1.15.19-5 systemd=252.39-1~deb12u2
mkdir -p "$work/etc" "$work/run/systemd" "$work/timers"
cat >"$work/etc/crontab" <<'CRON'
30 4 1,15 * 5 root report
0 5 * * 5-7 root weekend
CRON
# The generator's paths are fixed, so a copy of it has them below $work.
sed "s#'/\(etc\|run\|var\)/#'$work/\1/#" "$work/root/lib/systemd/system-generators/systemd-crontab-generator" >"$work/generator.py"
/usr/bin/python3 "$work/generator.py" "$work/timers" >"$work/said" 2>&1 || cannot "$(tail -5 "$work/said")"

# ticks LINE COUNT prints the timer of the crontab's line, and its next ticks in 2026.
ticks() {
	local calendar
	calendar=$(sed -n 's/^OnCalendar= *//p' "$work/timers/cron-crontab-root-$1.timer")
	echo "$calendar"
	LD_LIBRARY_PATH=$work/root/lib/x86_64-linux-gnu/systemd:$work/root/lib/systemd TZ=UTC "$work/root/usr/bin/systemd-analyze" calendar \
		--base-time='2026-01-01 00:00:00' --iterations="$2" "$calendar" | sed -n -E 's/.*(elapse|#[0-9]+): (.*) UTC/  \2/p'
}
expect '30 4 1,15 * 5: Fri *-*-1,15 4:30:00
  Fri 2026-05-01 04:30:00
  Fri 2026-05-15 04:30:00
  Fri 2027-01-01 04:30:00
0 5 * * 5-7: *-*-* 5:0:00
  Thu 2026-01-01 05:00:00
  Fri 2026-01-02 05:00:00
  Sat 2026-01-03 05:00:00
garbled time in /etc/crontab [0 5 * * 5-7 root weekend]: 5-7' "$(
	echo "30 4 1,15 * 5: $(ticks 0 3)"
	echo "0 5 * * 5-7: $(ticks 1 3)"
	sed -n "s#.*\(garbled\)#\1#; s#$work##p" "$work/said"
)"
