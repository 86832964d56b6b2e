#!/usr/bin/env bash
# ZooKeeper 3.9.6 (Debian forky), the command deleteall of the command-line client: because of one node that may
# not be deleted none is, and the exit status is 0.
#
# Guess:  deleteall deletes what it may, as rm -r does, or stops at the node that it may not delete. Its exit
#         status is 1, as that of delete is for the same node, so that a clean-up job notices.
# Seen:   status 0, with a line on stderr that does not name the node. Nothing is deleted: the nodes are sent in
#         transactions of 1,000 (or -b), of which each is done as a whole or not at all. In 3.8.0 the status is 0
#         as well, and the line was missing.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

# cli COMMAND... runs a command of the command-line client, and prints its status and what tells of a failure.
cli() {
	local status=0
	"${jvm[@]}" -cp "$home/*:$home/lib/*" org.apache.zookeeper.ZooKeeperMain \
		-server "127.0.0.1:$port" "$@" >"$work/cli.out" 2>"$work/cli.err" || status=$?
	echo "$1: status $status$(grep -hoE 'Failed to delete.*|Insufficient permission.*' "$work"/cli.{out,err} | sort -u | sed 's/^/; /')"
}

unpack forky 3.9.6
configure
start
for path in /jobs /jobs/a /jobs/b /jobs/kept /jobs/kept/node /jobs/z; do cli create "$path" >/dev/null; done
cli setAcl /jobs/kept world:anyone:cra >/dev/null # its children may not be deleted
got=
for command in 'delete /jobs/kept/node' 'deleteall /jobs'; do
	got+="$(cli $command)"$'\n'
	cli ls -R /jobs >/dev/null
	got+="left: $(grep '^/jobs/' "$work/cli.out" | sort | paste -sd' ')"$'\n'
done
expect 'delete: status 1; Insufficient permission : /jobs/kept/node
left: /jobs/a /jobs/b /jobs/kept /jobs/kept/node /jobs/z
deleteall: status 0; Failed to delete some node(s) in the subtree!
left: /jobs/a /jobs/b /jobs/kept /jobs/kept/node /jobs/z' "${got%$'\n'}"
