#!/usr/bin/env bash
# ZooKeeper 3.9.6 (Debian forky): a subtree that is above its hard quota of bytes may not be made smaller,
# unless one step brings it below the limit; data of equal length is accepted.
#
# Guess:  a hard quota refuses what adds bytes. What removes some helps, and is accepted; if the subtree is
#         over its limit, then every write of data is refused, or none that adds nothing.
# Seen:   of 20 bytes under a limit of 10: other 20 bytes are accepted, 12 are refused with -125, none, 10
#         and 9 are accepted. An empty node may be created above the limit.
#         So a client that trims data step by step is stuck above the limit, one that rewrites it is not.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack forky 3.9.6
build_main <<'GO'
create := func(path, data string) {
	if _, err := z.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll)); err != nil {
		log.Fatal(path, ": ", err)
	}
}
create("/data", "twenty bytes of data")
create("/zookeeper/quota/data", "")
create("/zookeeper/quota/data/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=-1")
create("/zookeeper/quota/data/zookeeper_stats", "count=0,bytes=0")
for _, data := range []string{"twenty other bytes..", "twelve bytes", "twenty bytes in May.", "ten bytes.", "9 bytes.."} {
	_, err := z.Set("/data", []byte(data), -1)
	stats, _, _ := z.Get("/zookeeper/quota/data/zookeeper_stats")
	fmt.Printf("set %d bytes: %v; then %s\n", len(data), err, stats)
	if len(data) == 12 {
		_, err = z.Create("/data/empty", nil, 0, zk.WorldACL(zk.PermAll))
		fmt.Println("create an empty node:", err)
	}
}
GO
configure
start -Dzookeeper.enforceQuota=true
expect 'set 20 bytes: <nil>; then count=1,bytes=20
set 12 bytes: unknown error: -125; then count=1,bytes=20
create an empty node: <nil>
set 20 bytes: <nil>; then count=2,bytes=20
set 10 bytes: <nil>; then count=2,bytes=10
set 9 bytes: <nil>; then count=2,bytes=9' "$("$work/program" "127.0.0.1:$port")"
