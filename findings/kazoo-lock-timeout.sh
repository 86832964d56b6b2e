#!/usr/bin/env bash
# kazoo 2.8.0 (Debian bookworm), on ZooKeeper 3.8.0: Lock.acquire(timeout=3) counts the three seconds anew
# each time a waiter directly ahead of it gives up.
#
# Guess:  the timeout is for the call, as for threading.Lock: after 3 s it raises LockTimeout.
# Seen:   behind a holder and waiters that give up after 6, 4 and 2 s, LockTimeout comes after 9 s. Its
#         text says that it came after 3 seconds.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

debian bookworm python3-kazoo=2.8.0-2 python3-six=1.16.0-4
unpack bookworm 3.8.0
cat >"$work/lock.py" <<'PY'
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

client = KazooClient(hosts=sys.argv[1])
client.start()
client.Lock("/lock").acquire()


def acquire(timeout):
    began = time.monotonic()
    try:
        client.Lock("/lock").acquire(timeout=timeout)
    except LockTimeout as err:
        return "%s; it took more than six: %s" % (err, time.monotonic() - began > 6)
    return "acquired"


for n, timeout in enumerate((6, 4, 2)):
    threading.Thread(target=acquire, args=(timeout,), daemon=True).start()
    while len(client.get_children("/lock")) < n + 2:
        time.sleep(0.01)
print(acquire(3))
client.stop()
PY
configure
start
expect 'Failed to acquire lock on /lock after 3 seconds; it took more than six: True' "$(PYTHONPATH=$work/root/usr/lib/python3/dist-packages timeout 60 python3 "$work/lock.py" "127.0.0.1:$port")"
