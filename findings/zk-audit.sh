#!/usr/bin/env bash
# ZooKeeper 3.9.6 (Debian forky), with audit.enable=true: the audit log has no line for nodes that the server
# deletes by itself, of which the time to live is over, or that are empty containers.
#
# Guess:  the documentation says that what the server does itself is logged, with the server's user, and so it
#         does for the ephemeral nodes of a session that ends. So each of the three deletions has a line.
# Seen:   only that of the ephemeral node. The other two nodes have a line for their creation, and then are gone.
#         For a lock whose parent is a container, or whose holders are nodes with a time to live, the log does
#         not tell why it was free.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack forky 3.9.6
build_main <<'GO'
acl := zk.WorldACL(zk.PermAll)
check := func(_ string, err error) {
	if err != nil {
		log.Fatal(err)
	}
}
check(z.CreateTTL("/ttl", nil, zk.FlagTTL, acl, time.Second))
check(z.CreateContainer("/container", nil, zk.FlagContainer, acl))
check(z.Create("/container/node", nil, 0, acl))
check("", z.Delete("/container/node", -1))
check(z.Create("/ephemeral", nil, zk.FlagEphemeral, acl))
z.Close()
z, _, err = zk.Connect(os.Args[1:], 10*time.Second, zk.WithLogInfo(false))
if err != nil {
	log.Fatal(err)
}
for range 150 {
	names, _, err := z.Children("/")
	if err != nil {
		log.Fatal(err)
	}
	if len(names) == 1 {
		fmt.Println("left:", names)
		return
	}
	time.Sleep(100 * time.Millisecond)
}
log.Fatal("the nodes are still there")
GO
configure audit.enable=true extendedTypesEnabled=true
start -Dznode.container.checkIntervalMs=500
got=$("$work/program" "127.0.0.1:$port")
expect 'left: [zookeeper]
operation=create znode=/ttl
operation=create znode=/container
operation=create znode=/container/node
operation=delete znode=/container/node
operation=create znode=/ephemeral
operation=ephemeralZNodeDeletionOnSessionCloseOrExpire znode=/ephemeral' "$got
$(sed -n 's/.*\(operation=[A-Za-z]*\).*\(znode=[^[:space:]]*\).*/\1 \2/p' "$work/server.log")"
