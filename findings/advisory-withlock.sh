#!/usr/bin/env bash
# advisory-lock 2.0.0 (npm, with pg 8.20.0), on PostgreSQL 15.18 (Debian bookworm), its command withlock: a
# command that was killed counts as a success, and one whose withlock got SIGTERM runs on without the lock.
#
# Guess:  withlock is to commands what flock(1) is: its status is the command's, 3 for one that ends with 3, and 137
#         or at least not 0 for one that was killed. If withlock itself gets SIGTERM, it passes it on, or the lock
#         stays until the command has ended: another command does not run beside it.
# Seen:   for a killed command the status is 0, so that a job that ran out of memory counts as done. SIGTERM ends
#         withlock alone, with 143: the lock is free, the command runs on, and the next one runs beside it. Where a
#         supervisor signals only its own child, that is what each stop does.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

command -v npm >/dev/null || cannot "no npm on the PATH"
cd "$work"
npm install --no-audit --no-fund --ignore-scripts advisory-lock@2.0.0 pg@8.20.0 >npm.log 2>&1 || cannot "$(tail -5 npm.log)"
postgres bookworm 15 15.18-0+deb12u1

# try COMMAND... tells the status of a command, and of one that another command runs under the lock.
try() {
	local status=0
	"$@" >>commands.log 2>&1 || status=$?
	echo "status $status"
}

withlock=(node_modules/.bin/withlock --db "$dsn")
got=$(
	for end in 'exit 0' 'exit 3' 'kill -KILL $$'; do
		echo "flock, $end: $(try flock file bash -c "$end")"
		echo "withlock, $end: $(try "${withlock[@]}" job -- bash -c "$end")"
	done
)
"${withlock[@]}" job -- bash -c 'echo $$ >pid; exec sleep 60' >>commands.log 2>&1 &
first=$!
while [[ ! -s pid ]]; do sleep 0.1; done
pids+=("$(<pid)")
kill -TERM "$first"
ended=0
wait "$first" || ended=$?
got+="
withlock ended by SIGTERM: status $ended
a second command: $(try timeout 20 "${withlock[@]}" job -- bash -c 'kill -0 $(<pid) && echo beside >seen'), ran beside the first: $(<seen)"
kill -INT "$postgres"
wait "$postgres" 2>/dev/null || true
expect 'flock, exit 0: status 0
withlock, exit 0: status 0
flock, exit 3: status 3
withlock, exit 3: status 3
flock, kill -KILL $$: status 137
withlock, kill -KILL $$: status 0
withlock ended by SIGTERM: status 143
a second command: status 0, ran beside the first: beside' "$got"
