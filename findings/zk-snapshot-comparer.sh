#!/usr/bin/env bash
# ZooKeeper 3.9.6 (Debian forky), SnapshotComparer: it finds no difference between two snapshots although one
# has another owner in a lock, and another node in a queue, even with both thresholds 0.
#
# Guess:  the documentation offers it for checks of consistency, and says that it tells which nodes were added,
#         updated and deleted. With thresholds of 0 bytes and 0 nodes it names the three nodes that differ.
# Seen:   it compares sizes. New data of the same length is no difference; a node without data is none either,
#         and its parent's number of nodes is the same if one went and another came. A byte more is told.
#         With a threshold of -1 bytes it lists all nodes: the two of the queue, but the owner with "0 bytes".
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack forky 3.9.6
build_main <<'GO'
acl := zk.WorldACL(zk.PermAll)
check := func(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
create := func(path, data string) {
	_, err := z.Create(path, []byte(data), 0, acl)
	check(err)
}
set := func(path, data string) {
	_, err := z.Set(path, []byte(data), -1)
	check(err)
}
switch os.Getenv("STEP") {
case "left":
	create("/owner", "shop-1")
	create("/queue", "")
	create("/queue/0000000001", "")
case "right":
	set("/owner", "shop-2")
	create("/queue/0000000002", "")
	check(z.Delete("/queue/0000000001", -1))
case "longer":
	set("/owner", "shop-10")
}
fmt.Println("written:", os.Getenv("STEP"))
GO
configure
for step in left right longer; do
	start
	STEP=$step "$work/program" "127.0.0.1:$port"
	stop
	start # it saves a snapshot of the last transaction
	stop
	cp "$(ls -t "$work"/data/version-2/snapshot.* | head -n 1)" "$work/$step"
done
# compare LEFT RIGHT BYTES prints what the comparer tells of these nodes.
compare() {
	"${jvm[@]}" -cp "$home/*:$home/lib/*" org.apache.zookeeper.server.SnapshotComparer -l "$work/$1" -r "$work/$2" -b "$3" -n 0 >"$work/compare.out" 2>"$work/compare.err"
	echo "$1 and $2, threshold of $3 bytes:"
	grep -E '^Node (/owner|/queue)|^All layers' "$work/compare.out"
}
got=$(compare left right 0 && compare right longer 0 && compare left right -1)
expect 'left and right, threshold of 0 bytes:
All layers compared.
right and longer, threshold of 0 bytes:
Node /owner found in both trees. Delta: 1 bytes, 0 descendants
All layers compared.
left and right, threshold of -1 bytes:
Node /owner found in both trees. Delta: 0 bytes, 0 descendants
Node /queue found in both trees. Delta: 0 bytes, 0 descendants
Node /queue/0000000001 found only in left tree. Descendant size: 0. Descendant count: 0
Node /queue/0000000002 found only in right tree. Descendant size: 0. Descendant count: 0
All layers compared.' "$got"
