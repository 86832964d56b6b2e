#!/usr/bin/env bash
# go-zookeeper/zk v1.0.4, on ZooKeeper 3.8.0 (Debian bookworm): of the operations of a refused Multi, those
# before the refused one have no error, and those after it have one that the library does not know.
#
# Guess:  nothing of a refused transaction is done, so all operations have an error, or only the refused
#         one has.
# Seen:   before it nil, as if done; after it "unknown error: -2", which is the protocol's "runtime
#         inconsistency", and for which zk has no constant to compare with. A caller that looks for the
#         operations without an error believes that /a was created.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack bookworm 3.8.0
build_main <<'GO'
create := func(path string) *zk.CreateRequest {
	return &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll)}
}
replies, err := z.Multi(create("/a"), create("/missing/b"), create("/c"), create("/d"))
fmt.Println("Multi:", err)
for i, r := range replies {
	fmt.Printf("%d: error %v, path %q\n", i, r.Error, r.String)
}
for _, path := range []string{"/a", "/c"} {
	there, _, err := z.Exists(path)
	fmt.Println(path, "exists:", there, err)
}
GO
configure
start
expect 'Multi: zk: node does not exist
0: error <nil>, path ""
1: error zk: node does not exist, path ""
2: error unknown error: -2, path ""
3: error unknown error: -2, path ""
/a exists: false <nil>
/c exists: false <nil>' "$("$work/program" "127.0.0.1:$port")"
