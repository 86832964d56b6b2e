#!/usr/bin/env bash
# ZooKeeper 3.9.6 (Debian forky): a server that restarts after a snapshot under load loses children of a node
# that was deleted and made anew during the snapshot. Then it deletes that node although it has children.
#
# Guess:  a snapshot that is saved while clients write, with the log after it, gives the data that clients
#         wrote, as its documentation says: all transactions can be applied again.
# Seen:   the snapshot shows the new node with its child. Applied again, the deletion of the old node removes
#         the new one, but its child stays in the server's table; the create of the child then finds it there
#         and does not put it into its parent. /lock has no children, /lock/b exists, and /lock can be deleted.
#         A node that was there all the time, /kept, loses nothing.
#         3.9.3 looks only into the parent, and has the data right. The difference came with ZOOKEEPER-4846
#         (its change 2222). If such a server leads, all others do what it says.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

build github.com/go-zookeeper/zk@v1.0.4 <<'GO'
package main

import (
	"fmt"
	"log"
	"os"
	"time"

	"github.com/go-zookeeper/zk"
)

// The arguments: the server, then "+/path" to create a node, "-/path" to delete one, or "?/path" to tell of one.
func main() {
	z, _, err := zk.Connect(os.Args[1:2], 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		log.Fatal(err)
	}
	for _, arg := range os.Args[2:] {
		switch path := arg[1:]; arg[0] {
		case '+':
			_, err = z.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
		case '-':
			if err = z.Delete(path, -1); err == nil {
				fmt.Println(path, "deleted")
			} else if err == zk.ErrNotEmpty {
				fmt.Println(path, "not deleted:", err)
				err = nil
			}
		case '?':
			var there bool
			if there, _, err = z.Exists(path); err == nil && there {
				var children []string
				if children, _, err = z.Children(path); err == nil {
					fmt.Println(path, "has the children", children)
				}
			}
		}
		if err != nil {
			log.Fatal(arg, ": ", err)
		}
	}
}
GO
got=
for release in "trixie 3.9.3" "forky 3.9.6"; do
	read -r suite version <<<"$release"
	unpack "$suite" "$version"
	configure
	start
	"$work/program" "127.0.0.1:$port" +/kept +/lock +/lock/a -/lock/a -/lock +/lock +/lock/b +/kept/b >/dev/null # transactions 2 to 9
	stop
	start # it saves a snapshot of the last transaction
	stop
	# A server that begins a snapshot after transaction 4, and comes to the nodes after transaction 9, saves the same file
	# under this name.
	mv "$work/data/version-2/snapshot.9" "$work/data/version-2/snapshot.4"
	start
	got+="$version:"$'\n'$("$work/program" "127.0.0.1:$port" '?/lock' '?/lock/b' -/lock '?/kept')$'\n'
	stop
	rm -rf "$work/data"
done
expect '3.9.3:
/lock has the children [b]
/lock/b has the children []
/lock not deleted: zk: node has children
/kept has the children [b]
3.9.6:
/lock has the children []
/lock/b has the children []
/lock deleted
/kept has the children [b]' "${got%$'\n'}"
