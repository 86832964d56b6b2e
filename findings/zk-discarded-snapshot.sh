#!/usr/bin/env bash
# ZooKeeper 3.9.6 and 3.8.0 (Debian forky and bookworm), three servers: a write that was never committed, and
# that the next leader discarded, stays on the server that had logged it, if that server was elected again
# in between.
#
# Guess:  a server that has truncated its log, as the leader told it, has the ensemble's data.
# Seen:   a server that is elected saves a snapshot before any follower has confirmed its log, and the write is
#         in it. Later the server truncates its log, but not its snapshots: it loads this one, and answers
#         reads with the write, after a sync and after a restart, too. Its log says "Digests are not
#         matching". An empty version-2 mends it. If the next leader has committed a write before the server
#         is back, it sends its own snapshot instead, and all is well.
#         This is ZOOKEEPER-1558, "Leader should not snapshot uncommitted state", mended in 3.4.6 (3.4.13 saves
#         no such snapshot), but not in later lines.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

# The program creates the nodes that its standard input names; then it tells which nodes its server has.
build_main <<'GO'
var path string
for n, _ := fmt.Scan(&path); n == 1; n, _ = fmt.Scan(&path) {
	if _, err := z.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		log.Fatal(path, ": ", err)
	}
}
if _, err := z.Sync("/"); err != nil {
	log.Fatal(err)
}
for _, path := range []string{"/before", "/discarded", "/after"} {
	there, _, err := z.Exists(path)
	if err != nil {
		log.Fatal(path, ": ", err)
	}
	if there {
		fmt.Print(" ", path)
	}
}
fmt.Println()
GO

declare -A ports process
# run SERVER... starts servers, with a new file for their output.
run() {
	for i; do
		: >"$work/$i.log"
		"${jvm[@]}" -cp "$home/*:$home/lib/*" \
			org.apache.zookeeper.server.quorum.QuorumPeerMain "$work/$i.cfg" >>"$work/$i.log" 2>&1 &
		process[$i]=$!
	done
	pids=("${process[@]}")
}

# crash NAME... kills servers, or the client.
crash() {
	for i; do
		[[ -n ${process[$i]-} ]] || continue
		kill -9 "${process[$i]}" 2>/dev/null || true
		wait "${process[$i]}" 2>/dev/null || true
		unset "process[$i]"
	done
	pids=("${process[@]}")
}

# await SECONDS COMMAND... waits until a command succeeds.
await() {
	local end=$((SECONDS + $1))
	until "${@:2}"; do
		((SECONDS < end)) || return 1
		sleep 0.01
	done
}

# serve SERVER... tells whether all of these servers serve.
serve() {
	for i; do
		port=${ports[$i]}
		[[ $(word srvr) == *Mode:* ]] || return 1
	done
}

# says SERVER TEXT tells whether a server's output has a text.
says() {
	[[ $(<"$work/$1.log") == *"$2"* ]]
}

# logged PATH SERVER... tells whether the transactions of one of the servers name a node.
logged() {
	for i in "${@:2}"; do
		! grep -qsaF "$1" "$work/$i"/version-2/log.* || return 0
	done
	return 1
}

# client SERVER tells which nodes a server has, after those on standard input are created.
client() {
	"$work/program" "127.0.0.1:${ports[$1]}"
}

# tell prints which nodes the server $old has, and which the others.
tell() {
	echo "$1:$(client "$old" </dev/null); the others:$(client "$b" </dev/null);$(client "$c" </dev/null)"
}

# diverge makes the servers' data differ, as described above, on $old. It fails if the steps were others, as
# on a machine that is too slow.
diverge() {
	crash client 1 2 3
	rm -rf "$work"/[123]/version-2 "$work/paths"
	run 1 2 3
	await 60 serve 1 2 3 || return
	local followers=()
	for i in 1 2 3; do
		port=${ports[$i]}
		if [[ $(word srvr) == *'Mode: leader'* ]]; then old=$i; else followers+=("$i"); fi
	done
	((${#followers[@]} == 2)) || return
	b=${followers[0]} c=${followers[1]}
	# The leader logs a write that no follower gets.
	mkfifo "$work/paths"
	client "$old" <"$work/paths" >/dev/null 2>&1 &
	process[client]=$! pids+=($!)
	exec 4>"$work/paths"
	echo /before >&4
	await 30 logged /before "$old" && await 30 logged /before "$b" && await 30 logged /before "$c" || return
	kill -STOP "${process[$b]}" "${process[$c]}"
	echo /discarded >&4
	await 10 logged /discarded "$old" || return
	crash client 1 2 3
	exec 4>&-
	# It is elected again, but the server that votes for it ends before it follows.
	run "$old" "$b"
	await 60 says "$old" "n.sid:$b, n.state:LOOKING, n.leader:$old" || return
	crash "$b"
	await 10 says "$old" 'LEADER ELECTION TOOK' || return
	await 10 says "$old" 'Snapshot taken in' || true
	crash "$old"
	! logged /discarded "$b" "$c" || return
	# The others elect a leader without the write, and it returns.
	run "$b" "$c"
	await 60 serve "$b" "$c" || return
	run "$old"
	await 60 serve "$old" && says "$old" 'Truncating log to get in sync with the leader'
}

members=()
for i in 1 2 3; do
	members+=("server.$i=127.0.0.1:$(free_port):$(free_port)")
done
for i in 1 2 3; do
	mkdir -p "$work/$i"
	echo "$i" >"$work/$i/myid"
	configure initLimit=60 syncLimit=60 minSessionTimeout=60000 maxSessionTimeout=60000 "${members[@]}"
	sed "s|^dataDir=.*|dataDir=$work/$i|" "$work/zoo.cfg" >"$work/$i.cfg"
	ports[$i]=$port
done
got=
for release in 'forky 3.9.6' 'bookworm 3.8.0'; do
	unpack $release
	diverge || diverge || diverge || cannot "the servers of ${release#* } did not elect each other in the order that is needed"
	echo /after | client "$b" >/dev/null
	got+="${release#* }: $(tell truncated)"$'\n'
	! says "$old" 'Digests are not matching' || got+="the digests do not match"$'\n'
	crash "$old"
	run "$old"
	await 60 serve "$old" || cannot "the server does not start again"
	got+="$(tell restarted)"$'\n'
	crash "$old"
	rm -r "$work/$old/version-2"
	run "$old"
	await 60 serve "$old" || cannot "the emptied server does not start"
	got+="$(tell emptied)"$'\n'
done
expect '3.9.6: truncated: /before /discarded /after; the others: /before /after; /before /after
the digests do not match
restarted: /before /discarded /after; the others: /before /after; /before /after
emptied: /before /after; the others: /before /after; /before /after
3.8.0: truncated: /before /discarded /after; the others: /before /after; /before /after
the digests do not match
restarted: /before /discarded /after; the others: /before /after; /before /after
emptied: /before /after; the others: /before /after; /before /after' "${got%$'\n'}"
