#!/usr/bin/env bash
# etcdctl lock, etcd 3.4.23 (Debian bookworm): a waiter whose own lease was revoked while it waited enters
# when the holder leaves, without a key of its own, and so do others beside it. In 3.5.16 (Debian trixie)
# it gives up.
#
# Guess:  a waiter without a key is not in the queue: it ends with an error at once, or when it would be
#         next.
# Seen:   3.4.23: it runs its command, a third client has the lock at the same time, and the status of
#         both is 0. 3.5.16: when it would be next, it ends with "session is expired" and status 1.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

# keys N waits until the lock has so many keys.
keys() {
	for ((i = 0; i < 100; i++)); do
		[[ $("$etcdctl" get --prefix job/ --keys-only | grep -c .) != "$1" ]] || return 0
		sleep 0.1
	done
	cannot "there are no $1 keys"
}

got=
for version in bookworm=3.4.23-4+b4 trixie=3.5.16-4; do
	etcd "${version%%=*}" "${version#*=}"
	dir=$(mktemp -d "$work/run.XXX")
	mkfifo "$dir/end"
	"$etcdctl" lock --ttl 60 job -- sh -c "read line <'$dir/end'" &
	holder=$!
	keys 1
	"$etcdctl" lock --ttl 60 job -- sh -c "echo >'$dir/in'; sleep 5" >"$dir/waiter" 2>&1 &
	waiter=$!
	keys 2
	lease=$("$etcdctl" get --prefix job/ --sort-by CREATE -w fields | awk '$1 == "\"Lease\"" { print $3 }' | tail -n 1)
	"$etcdctl" lease revoke "$(printf %x "$lease")" >/dev/null
	keys 1
	echo >"$dir/end"
	wait "$holder"
	for ((i = 0; i < 30; i++)); do
		[[ ! -e $dir/in ]] || break
		sleep 0.1
	done
	third=no
	! timeout 2 "$etcdctl" lock --ttl 60 job -- true || third=yes
	entered=no
	[[ ! -e $dir/in ]] || entered=yes
	status=0
	wait "$waiter" || status=$?
	got+="${version%%-*}: waiter entered: $entered; then another one: $third; the waiter's status: $status [$(<"$dir/waiter")]"$'\n'
done
expect 'bookworm=3.4.23: waiter entered: yes; then another one: yes; the waiter'\''s status: 0 []
trixie=3.5.16: waiter entered: no; then another one: yes; the waiter'\''s status: 1 [Error: mutex: session is expired]' "${got%$'\n'}"
