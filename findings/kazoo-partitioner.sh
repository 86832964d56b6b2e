#!/usr/bin/env bash
# kazoo 2.8.0 (Debian bookworm), on ZooKeeper 3.8.0: two SetPartitioners of one process, with the default
# identifier, leave half of the set to neither.
#
# Guess:  each has a client and a session of its own, so they are two members that share the set; or the
#         second is refused, or the first has everything.
# Seen:   the default identifier is host and process, so it is the same. Both compute the same half: one
#         has it, the other waits for it (15 s here), and the other half is allocated to neither, without
#         an error or a warning in the log. With an identifier for each they have a half each.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

debian bookworm python3-kazoo=2.8.0-2 python3-six=1.16.0-4
unpack bookworm 3.8.0
cat >"$work/partition.py" <<'PY'
import logging
import sys
import time

from kazoo.client import KazooClient

logging.basicConfig(level=logging.WARNING, stream=sys.stdout)
for path, names in (("/same", (None, None)), ("/each", ("a", "b"))):
    clients = [KazooClient(hosts=sys.argv[1]) for _ in names]
    members = []
    for client, name in zip(clients, names):
        client.start()
        members.append(client.SetPartitioner(path, set=tuple(range(6)), identifier=name, time_boundary=1))
    end = time.monotonic() + 15
    while time.monotonic() < end and not all(m.acquired for m in members):
        for m in members:
            if m.release:
                m.release_set()
        time.sleep(0.1)
    print(path, sorted("%s %s" % (m.state, sorted(m)) for m in members))
    for client in clients:
        client.stop()
PY
configure
start
expect "/same ['ACQUIRED [0, 2, 4]', 'ALLOCATING []']
/each ['ACQUIRED [0, 2, 4]', 'ACQUIRED [1, 3, 5]']" "$(PYTHONPATH=$work/root/usr/lib/python3/dist-packages timeout 90 python3 "$work/partition.py" "127.0.0.1:$port")"
