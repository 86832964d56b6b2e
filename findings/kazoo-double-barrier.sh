#!/usr/bin/env bash
# kazoo 2.8.0 (Debian bookworm), on ZooKeeper 3.8.0: once the members of a DoubleBarrier have crashed inside it,
# later rounds on its path let members in too early, and keep others out for ever.
#
# Guess:  the members' nodes are ephemeral, so they go with the crash, and the next round waits for all of its
#         members.
# Seen:   the node "ready" is not ephemeral: it stays, and is counted as a member, and a member that has to wait
#         waits for its creation. So of a barrier of two the first member enters alone. Of three, the second
#         enters without the third, and the first is not let in even when all are there. 2.11.0 does the same.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

debian bookworm python3-kazoo=2.8.0-2 python3-six=1.16.0-4
unpack bookworm 3.8.0
cat >"$work/barrier.py" <<'PY'
import os
import sys
import threading
import time

from kazoo.client import KazooClient

watcher = KazooClient(hosts=sys.argv[1])
watcher.start()


def come(path, size):
    """A member comes; returns its client, and its thread, which ends when the member is let in."""
    client = KazooClient(hosts=sys.argv[1])
    client.start()
    before = len(watcher.get_children(path)) if watcher.exists(path) else 0
    thread = threading.Thread(target=client.DoubleBarrier(path, size).enter, daemon=True)
    thread.start()
    while not watcher.exists(path) or len(watcher.get_children(path)) == before:
        time.sleep(0.01)
    return client, thread


def enters(thread):
    thread.join(5)
    return "waits" if thread.is_alive() else "enters"


for size in (2, 3):
    path = "/barrier-%d" % size
    members = [come(path, size) for _ in range(size)]
    print("barrier of %d:" % size, [enters(thread) for _, thread in members])
    for client, _ in members:
        client.stop()  # without leave(): its ephemeral node goes, as in a crash
    print("after that:", watcher.get_children(path))
    clients = []
    for n in range(size):
        member = come(path, size)
        clients.append(member)
        print("member %d of %d comes:" % (n + 1, size), [enters(thread) for _, thread in clients], flush=True)
os._exit(0)
PY
configure
start
expect "barrier of 2: ['enters', 'enters']
after that: ['ready']
member 1 of 2 comes: ['enters']
member 2 of 2 comes: ['enters', 'enters']
barrier of 3: ['enters', 'enters', 'enters']
after that: ['ready']
member 1 of 3 comes: ['waits']
member 2 of 3 comes: ['waits', 'enters']
member 3 of 3 comes: ['waits', 'enters', 'enters']" "$(PYTHONPATH=$work/root/usr/lib/python3/dist-packages timeout 90 python3 "$work/barrier.py" "127.0.0.1:$port")"
