#!/usr/bin/env bash
# kazoo 2.8.0 (Debian bookworm), on ZooKeeper 3.8.0: a LockingQueue whose session expired while it had an entry
# returns that entry from each later get(), although another worker has consumed it, and never another one.
#
# Guess:  holds_lock() is False, as is consume(): its documentation says "True if element was removed
#         successfully, False otherwise". After that get() waits for the next entry.
# Seen:   holds_lock(), consume() and release() raise NoNodeError, and change nothing. get() returns the consumed
#         entry at once, each time, so a worker that goes on after the error does the same job over and over. Only
#         a new LockingQueue gets the next entry. 2.11.0 does the same.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

debian bookworm python3-kazoo=2.8.0-2 python3-six=1.16.0-4
unpack bookworm 3.8.0
cat >"$work/worker.py" <<'PY'
import os
import signal
import subprocess
import sys
import threading
import time

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException

client = KazooClient(hosts=sys.argv[1], timeout=2)
client.start()
queue = client.LockingQueue("/queue")


def tell(who, call, *args):
    try:
        print(who, "%s: %s" % (call.__name__, call(*args)), flush=True)
    except KazooException as err:
        print(who, "%s: %s" % (call.__name__, type(err).__name__), flush=True)


def worker():
    expired = threading.Event()
    client.add_listener(lambda state: expired.set() if state == KazooState.LOST else None)
    tell("worker", queue.get)
    os.kill(os.getpid(), signal.SIGSTOP)
    expired.wait()
    while not client.connected:
        time.sleep(0.01)
    for _ in range(2):
        for call in (queue.holds_lock, queue.consume, queue.release, queue.get):
            tell("worker", call)
    tell("worker, new queue", client.LockingQueue("/queue").get, 10)


if sys.argv[2:]:
    worker()
else:
    queue.put(b"one")
    process = subprocess.Popen([sys.executable, __file__, sys.argv[1], "worker"])
    os.waitpid(process.pid, os.WUNTRACED)  # it has its entry, and is stopped
    tell("another", queue.get)  # waits until the worker's session has expired
    tell("another", queue.consume)
    queue.put(b"two")
    process.send_signal(signal.SIGCONT)
    process.wait()
client.stop()
PY
configure
start
expect "worker get: b'one'
another get: b'one'
another consume: True
worker holds_lock: NoNodeError
worker consume: NoNodeError
worker release: NoNodeError
worker get: b'one'
worker holds_lock: NoNodeError
worker consume: NoNodeError
worker release: NoNodeError
worker get: b'one'
worker, new queue get: b'two'" "$(PYTHONPATH=$work/root/usr/lib/python3/dist-packages timeout 60 python3 "$work/worker.py" "127.0.0.1:$port")"
