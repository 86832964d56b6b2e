#!/usr/bin/env bash
# ZooKeeper 3.9.3 (Debian trixie): the admin server's command "restore" on a running server. No session that
# is opened after it expires, and the next restart undoes it.
#
# Guess:  the command puts the data of the snapshot in place for good, and the server goes on as after a
#         start: sessions whose clients have gone expire, and a restart finds the restored data.
# Seen:   the data is that of the snapshot, and the session of before the restore expires. But a session of
#         2 s that was opened after it is there 10 s after its client was gone, and so is its ephemeral
#         node. After a restart of the server, the nodes that the restore took away are back, and the
#         session expires.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

command -v curl >/dev/null || cannot "no curl on the PATH"
unpack trixie 3.9.3
build github.com/go-zookeeper/zk@v1.0.4 <<'GO'
package main

import (
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// The arguments: the server, then "+/path" to create a node, "%/path" to create an ephemeral one, or
// "/path" to tell whether it exists. The program does not close its session, as a killed one would not.
func main() {
	z, _, err := zk.Connect(os.Args[1:2], 2*time.Second, zk.WithLogInfo(false))
	if err != nil {
		log.Fatal(err)
	}
	for _, arg := range os.Args[2:] {
		if path, ok := strings.CutPrefix(arg, "+"); ok {
			_, err = z.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
		} else if path, ok := strings.CutPrefix(arg, "%"); ok {
			_, err = z.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		} else {
			var there bool
			there, _, err = z.Exists(arg)
			fmt.Println(arg, "exists:", there)
		}
		if err != nil {
			log.Fatal(arg, ": ", err)
		}
	}
}
GO
admin=$(free_port)
configure admin.enableServer=true admin.serverAddress=127.0.0.1 admin.serverPort="$admin"
zk() {
	"$work/program" "127.0.0.1:$port" "$@"
}
# command NAME CURL-OPTION... sends the admin server a command.
command() {
	curl -fsS --max-time 30 -H 'Authorization: digest admin:secret' "${@:2}" "http://127.0.0.1:$admin/commands/$1"
}
start
zk +/before %/session-before
command 'snapshot?streaming=true' -o "$work/snapshot"
zk +/since
command restore -H 'Content-Type: application/octet-stream' --data-binary "@$work/snapshot" >/dev/null
got="restored: $(zk /before /since | paste -sd' ')"$'\n'
zk %/session
sleep 10
got+="5 session timeouts later: $(zk /session /session-before | paste -sd' ')"$'\n'
stop
start
got+="restarted: $(zk /before /since | paste -sd' ')"$'\n'
sleep 10
got+="5 session timeouts later: $(zk /session /session-before | paste -sd' ')"
expect 'restored: /before exists: true /since exists: false
5 session timeouts later: /session exists: true /session-before exists: false
restarted: /before exists: true /since exists: true
5 session timeouts later: /session exists: false /session-before exists: false' "$got"
