#!/usr/bin/env bash
# kazoo 2.8.0 (Debian bookworm), on ZooKeeper 3.8.0: how long its leases last, by the clock that they are given.
#
# Guess:  a lease lasts for its duration: nobody else gets it before.
# Seen:   NonBlockingLease cuts its end to whole seconds. One of 900 ms, taken at a full second, is free at once for
#         another client, while its holder was told that it has it; one of 2 s, taken at .9, is free after 1.1 s.
#         With MultiNonBlockingLease of two slots, one member gets both: a member that renews after another's lease
#         has ended takes that slot too, and its own stays taken, so a third gets none until its end.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

debian bookworm python3-kazoo=2.8.0-2 python3-six=1.16.0-4
unpack bookworm 3.8.0
cat >"$work/lease.py" <<'PY'
import datetime
import sys

from kazoo.client import KazooClient

client = KazooClient(hosts=sys.argv[1])
client.start()
noon = datetime.datetime(2026, 1, 1, 12)


def taken(recipe, who, ms, *args):
    return "%s %s" % (who, bool(recipe(*args, identifier=who, utcnow=lambda: noon + datetime.timedelta(milliseconds=ms))))


def lease(path, ms, who, at):
    return taken(client.NonBlockingLease, who, at, path, datetime.timedelta(milliseconds=ms))


def slot(who, second):
    return taken(client.MultiNonBlockingLease, who, 1000 * second, 2, "/slots", datetime.timedelta(seconds=60))


print("900 ms:", lease("/a", 900, "a", 0), "and 1 ms later", lease("/a", 900, "b", 1))
print("2 s:", lease("/b", 2000, "a", 900), "and 1.1 s later", lease("/b", 2000, "b", 2000))
print("two slots at 0:", slot("a", 0), slot("b", 0), slot("c", 0))
print("b renews at 30, 65:", slot("b", 30), slot("b", 65), "and c asks at 66, 89, 91:", slot("c", 66), slot("c", 89), slot("c", 91))
client.stop()
PY
configure
start
expect "900 ms: a True and 1 ms later b True
2 s: a True and 1.1 s later b True
two slots at 0: a True b True c False
b renews at 30, 65: b True b True and c asks at 66, 89, 91: c False c False c True" "$(PYTHONPATH=$work/root/usr/lib/python3/dist-packages timeout 60 python3 "$work/lease.py" "127.0.0.1:$port")"
