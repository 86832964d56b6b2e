"""Takes kazoo's Lock, or WriteLock and ReadLock, as the lines on standard input say; see peer.go."""

import os
import queue
import sys
import threading

from kazoo.client import KazooClient, KazooState

session_timeout = float(sys.argv[1])
output = threading.Lock()


def say(client, word, text):
    with output:
        sys.stdout.write("%s %s %s\n" % (client, word, " ".join(str(text).split())))
        sys.stdout.flush()


class Client:
    """One client. Its calls that may block are made in a thread of its own."""

    def __init__(self, name):
        self.name = name
        self.zk = self.held_lock = None
        self.calls = queue.Queue()
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        while True:
            command, *args = self.calls.get()
            try:
                say(self.name, command, getattr(self, command)(*args))
            except Exception as e:  # whatever the library has to say
                say(self.name, command, "%s: %s" % (type(e).__name__, e))

    def open(self, server, path, kind, *options):
        self.path, self.kind = path, kind
        self.patterns = [o for o in options if o[0] in "-_"]
        self.reused = "reused" in options
        self.zk = KazooClient(hosts=server, timeout=session_timeout)
        self.zk.add_listener(self.listen)
        self.zk.start(timeout=30)
        return "ok"

    def listen(self, state):
        if state == KazooState.SUSPENDED:
            say(self.name, "warned", state)
        elif state == KazooState.LOST:
            say(self.name, "told", state)

    def lock(self):
        return self.acquire(self.zk.WriteLock if self.kind == "rw" else self.zk.Lock, self.patterns)

    def rlock(self):
        return self.acquire(self.zk.ReadLock, [p for p in self.patterns if "READ" not in p])

    def acquire(self, make, patterns):
        if not self.reused or self.held_lock is None:
            self.held_lock = make(self.path, self.name, extra_lock_patterns=patterns)
        return "ok" if self.held_lock.acquire() else "acquire() = False"

    def unlock(self):
        return "ok" if self.held_lock.release() else "release() = False"

    def held(self):
        return "yes" if self.held_lock.is_acquired else "no"


clients = {}
for line in sys.stdin:
    name, command, *args = line.split()
    client = clients.get(name) or clients.setdefault(name, Client(name))
    if command == "held":
        say(name, command, client.held())
    else:
        client.calls.put((command, *args))
os._exit(0)  # whatever its threads wait for
