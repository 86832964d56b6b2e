#!/usr/bin/env bash
# etcdctl lock, etcd 3.4.23 (Debian bookworm): a command under a lock whose lease was revoked runs on beside
# the next one, and both end with status 0.
#
# Guess:  etcdctl keeps the lease alive, so it learns that the lease is gone: it ends the command, or it
#         says so, or at least its exit status tells that the lock was lost.
# Seen:   none of these: nothing on stderr, status 0. The lock is let in anew at once, and the two commands
#         overlap.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

etcd bookworm 3.4.23-4+b4

# The first command ends when the second one has, so what is seen does not depend on time.
mkfifo "$work/end"
(
	status=0
	"$etcdctl" lock --ttl 60 job -- sh -c "echo first begins; echo >'$work/begun'; read line <'$work/end'; echo first ends" || status=$?
	echo "first: status $status"
) >>"$work/out" 2>&1 &
first=$!
for ((i = 0; i < 100; i++)); do
	[[ -e $work/begun ]] && break
	sleep 0.1
done
lease=$("$etcdctl" lease list | tail -n 1)
"$etcdctl" lease revoke "$lease" >/dev/null
status=0
timeout 20 "$etcdctl" lock --ttl 60 job -- sh -c 'echo second begins; sleep 2; echo second ends' >>"$work/out" 2>&1 || status=$?
echo "second: status $status" >>"$work/out"
timeout 5 sh -c "echo >'$work/end'" || echo "the first command does not run any more" >>"$work/out"
wait "$first"
expect 'first begins
second begins
second ends
second: status 0
first ends
first: status 0' "$(<"$work/out")"
