#!/usr/bin/env bash
# kazoo 2.8.0 (Debian bookworm), on ZooKeeper 3.8.0: Election.cancel() while nothing waits cancels the next run(),
# which returns without having led, and without an error.
#
# Guess:  cancel() cancels the participation that is under way, and does not interrupt a leader, as documented. So
#         during the function, or after it, it has no effect: the next run() leads.
# Seen:   the next run() returns None at once, as one that has led, and its function was not called. The one after
#         that leads. So a candidate that counts its terms, or runs once more after a stop that came too late, is
#         out of the election, although the lock is free. 2.11.0 does the same.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

debian bookworm python3-kazoo=2.8.0-2 python3-six=1.16.0-4
unpack bookworm 3.8.0
cat >"$work/candidate.py" <<'PY'
import sys

from kazoo.client import KazooClient

client = KazooClient(hosts=sys.argv[1])
client.start()


def run(election, lead, text):
    led = []
    result = election.run(lambda: (led.append(True), lead()))
    print("%s: run returns %s, led: %s" % (text, result, bool(led)))


for when in ("never", "during the function", "after the function"):
    election = client.Election("/election", "candidate")
    run(election, election.cancel if when == "during the function" else lambda: None, "cancelled %s, first" % when)
    if when == "after the function":
        election.cancel()
    run(election, lambda: None, "cancelled %s, second" % when)
    run(election, lambda: None, "cancelled %s, third" % when)
client.stop()
PY
configure
start
expect "cancelled never, first: run returns None, led: True
cancelled never, second: run returns None, led: True
cancelled never, third: run returns None, led: True
cancelled during the function, first: run returns None, led: True
cancelled during the function, second: run returns None, led: False
cancelled during the function, third: run returns None, led: True
cancelled after the function, first: run returns None, led: True
cancelled after the function, second: run returns None, led: False
cancelled after the function, third: run returns None, led: True" "$(PYTHONPATH=$work/root/usr/lib/python3/dist-packages timeout 60 python3 "$work/candidate.py" "127.0.0.1:$port")"
