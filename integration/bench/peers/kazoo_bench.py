"""Measures one of kazoo's locks, as its arguments say, as the lines on standard input say; see process.go."""

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from kazoo.client import KazooClient

clients, locks = [], []
kind, room = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1


def lock(zk, path, name):
    if kind == "read":
        return zk.ReadLock(path, name)
    if kind == "semaphore":
        return zk.Semaphore(path, name, max_leases=room)
    return zk.Lock(path, name)


def open_clients(servers, path, count, timeout_ms):
    addresses = servers.split(",")
    for name in range(int(count)):
        zk = KazooClient(hosts=addresses[name % len(addresses)], timeout=int(timeout_ms) / 1000)
        zk.start(timeout=int(timeout_ms) / 1000)
        clients.append(zk)
        locks.append(lock(zk, path, str(name)))
    return []


def free(cycles):
    times = []
    for _ in range(int(cycles)):
        start = time.monotonic_ns()
        locks[0].acquire()
        locks[0].release()
        times.append(time.monotonic_ns() - start)
    return times


class Turns:
    """What the clients of a handoff share."""

    def __init__(self, hold_ns, window_ns):
        self.hold, self.window = int(hold_ns) / 1e9, int(window_ns)
        self.mutex = threading.Lock()
        self.missing = len(locks)  # turns until all queue
        self.begin = self.end = self.unlocked = 0
        self.passed = self.last = 0  # turns measured that went to another client; the client of the last one
        self.inside, self.stopped = 0, False
        self.latencies = []

    def run(self):
        with ThreadPoolExecutor(len(locks)) as pool:
            for one in [pool.submit(self.play, client) for client in range(len(locks))]:
                one.result()
        return [self.end - self.begin, self.passed / len(self.latencies)] + self.latencies

    def play(self, client):
        lock, last = locks[client], False
        while not last:
            lock.acquire()
            last = self.enter(client, time.monotonic_ns())
            if self.hold:
                time.sleep(self.hold)
            self.leave(time.monotonic_ns())
            lock.release()

    def enter(self, client, now):
        with self.mutex:
            if self.inside >= room:
                raise RuntimeError("more hold the lock at once than may")
            self.inside += 1
            if self.begin and not self.stopped:
                self.latencies.append(now - self.unlocked)
                self.passed += client != self.last
                if now - self.begin >= self.window:
                    self.stopped, self.end = True, now
                    say("mark")
            self.missing -= 1
            if self.missing == 0:
                self.begin = now
                say("mark")
            self.last = client
            return self.stopped

    def leave(self, now):
        with self.mutex:
            self.inside -= 1
            self.unlocked = now


def handoff(hold_ns, window_ns):
    return Turns(hold_ns, window_ns).run()


def close():
    for zk in clients:
        zk.stop()
        zk.close()
    clients.clear()
    locks.clear()
    return []


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


commands = {"open": open_clients, "free": free, "handoff": handoff, "close": close}
for line in sys.stdin:
    command, *args = line.split()
    try:
        answer = " ".join(map(str, ["ok"] + commands[command](*args)))
    except Exception as e:
        answer = "failed %s: %s" % (type(e).__name__, " ".join(str(e).split()))
    say(answer)
os._exit(0)  # whatever its threads wait for
