#!/usr/bin/env bash
# ZooKeeper 3.9.6 (Debian forky), three servers with localSessionsEnabled=true, and go-zookeeper/zk v1.0.4: an
# ephemeral node in a transaction of a local session is refused with two different errors.
#
# Guess:  each server says -120 (EphemeralOnLocalSession), as the leader does.
# Seen:   a follower refuses a create of its own with -120, and one within a transaction with -112: "session
#         expired", although the session goes on. A client that believes that makes a new session, and sends
#         the transaction again for ever.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack forky 3.9.6
build_main <<'GO'
create := func(path string, flags int32) *zk.CreateRequest {
	return &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll), Flags: flags}
}
at := "/" + os.Getenv("ROLE")
_, err = z.Create(at+"-alone", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
fmt.Println("create:", err)
session := z.SessionID()
_, err = z.Multi(create(at+"-a", 0), create(at+"-b", zk.FlagEphemeral))
fmt.Println("transaction:", err)
_, err = z.Multi(create(at+"-c", 0), create(at+"-d", 0))
fmt.Println("the next transaction:", err, "in the same session:", z.SessionID() == session)
GO
members=()
for i in 1 2 3; do
	members+=("server.$i=127.0.0.1:$(free_port):$(free_port)")
done
ports=()
for i in 1 2 3; do
	mkdir -p "$work/$i"
	echo "$i" >"$work/$i/myid"
	configure initLimit=20 syncLimit=10 localSessionsEnabled=true "${members[@]}"
	sed "s|^dataDir=.*|dataDir=$work/$i|" "$work/zoo.cfg" >"$work/$i.cfg"
	ports+=("$port")
	"${jvm[@]}" -cp "$home/*:$home/lib/*" \
		org.apache.zookeeper.server.quorum.QuorumPeerMain "$work/$i.cfg" >>"$work/server.log" 2>&1 &
	pids+=($!)
done
declare -A role=()
for ((n = 0; n < 600 && ${#role[@]} < 2; n++)); do
	sleep 0.1
	role=()
	for port in "${ports[@]}"; do
		mode=$(word srvr | sed -n 's/^Mode: //p')
		[[ -z $mode ]] || role[$mode]=$port
	done
done
((${#role[@]} == 2)) || cannot "the servers have no leader: $(tail -5 "$work/server.log")"
expect 'follower
create: unknown error: -120
transaction: zk: session has been expired by the server
the next transaction: <nil> in the same session: true
leader
create: unknown error: -120
transaction: unknown error: -120
the next transaction: <nil> in the same session: true' "$(for who in follower leader; do echo "$who"; ROLE=$who "$work/program" "127.0.0.1:${role[$who]}"; done)"
