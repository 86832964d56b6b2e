#!/usr/bin/env bash
# ZooKeeper 3.8.0 (Debian bookworm): a limit for the size of transaction logs that is smaller than what is
# allocated at once (preAllocSize) makes a new log of every transaction.
#
# Guess:  zookeeper.txnLogSizeLimitInKb=1024 begins a new log after 1 MiB of transactions; 20 small ones
#         stay in one file.
# Seen:   21 files of 64 MiB (apparent size) for a session and 20 nodes: the limit is compared with the size
#         of the file, which includes what is allocated ahead. With preAllocSize=512 (KiB), below the
#         limit, there is one file.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack bookworm 3.8.0
build_main <<'GO'
for i := range 20 {
	if _, err := z.Create(fmt.Sprint("/", i), nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		log.Fatal(err)
	}
}
GO
got=
for allocate in 65536 512; do
	configure
	start -Dzookeeper.txnLogSizeLimitInKb=1024 -Dzookeeper.preAllocSize=$allocate
	"$work/program" "127.0.0.1:$port"
	stop
	files=("$work"/data/version-2/log.*)
	got+="preAllocSize=$allocate: ${#files[@]} log files, the first of $(stat -c %s "${files[0]}") bytes"$'\n'
	rm -rf "$work/data"
done
expect 'preAllocSize=65536: 21 log files, the first of 67108880 bytes
preAllocSize=512: 1 log files, the first of 524304 bytes' "${got%$'\n'}"
