"""Measures kazoo's Lock as the lines on standard input say; see process.go."""

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from kazoo.client import KazooClient

clients, locks = [], []


def open_clients(server, path, count, timeout_ms):
    for name in range(int(count)):
        zk = KazooClient(hosts=server, timeout=int(timeout_ms) / 1000)
        zk.start(timeout=int(timeout_ms) / 1000)
        clients.append(zk)
        locks.append(zk.Lock(path, str(name)))
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
        self.turns = self.begin = self.end = self.unlocked = 0
        self.inside = self.stopped = False
        self.latencies = []

    def run(self):
        with ThreadPoolExecutor(len(locks)) as pool:
            for one in [pool.submit(self.play, lock) for lock in locks]:
                one.result()
        return [self.turns, self.end - self.begin] + self.latencies

    def play(self, lock):
        last = False
        while not last:
            lock.acquire()
            last = self.enter(time.monotonic_ns())
            if self.hold:
                time.sleep(self.hold)
            self.leave(time.monotonic_ns())
            lock.release()

    def enter(self, now):
        with self.mutex:
            if self.inside:
                raise RuntimeError("two hold the lock at once")
            self.inside = True
            self.turns += 1
            if self.begin and not self.stopped:
                self.latencies.append(now - self.unlocked)
                if now - self.begin >= self.window:
                    self.stopped, self.end = True, now
            self.missing -= 1
            if self.missing == 0:
                self.begin = now
            return self.stopped

    def leave(self, now):
        with self.mutex:
            self.inside, self.unlocked = False, now


def handoff(hold_ns, window_ns):
    return Turns(hold_ns, window_ns).run()


def close():
    for zk in clients:
        zk.stop()
    return []


commands = {"open": open_clients, "free": free, "handoff": handoff, "close": close}
for line in sys.stdin:
    command, *args = line.split()
    try:
        answer = " ".join(map(str, ["ok"] + commands[command](*args)))
    except Exception as e:
        answer = "failed %s: %s" % (type(e).__name__, " ".join(str(e).split()))
    sys.stdout.write(answer + "\n")
    sys.stdout.flush()
os._exit(0)  # whatever its threads wait for
