"""kazoo on holdfast dev: what programs do with it."""
import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import InvalidACLError
from kazoo.security import ACL, Id

client = KazooClient(hosts=sys.argv[1])
client.start()
assert client.server_version()[0] == 3, client.server_version()
assert client.command(b"ruok") == "imok"

seen = threading.Event()
client.ensure_path("/kazoo/data")
client.DataWatch("/kazoo/data", lambda data, stat: seen.set() if data == b"new" else None)
client.set("/kazoo/data", b"new")
assert seen.wait(30), "the watch does not fire"

lock = client.Lock("/kazoo/lock", "me")
with lock:
    assert lock.contenders() == ["me"], lock.contenders()
with client.Semaphore("/kazoo/semaphore", max_leases=2):
    pass
with client.WriteLock("/kazoo/rw", "me"):
    pass

transaction = client.transaction()
transaction.create("/kazoo/t")
transaction.check("/kazoo/data", 1)
transaction.delete("/kazoo/t")
assert transaction.commit() == ["/kazoo/t", True, True]

try:
    client.create("/kazoo/ip", acl=[ACL(31, Id("ip", "127.0.0.1"))])
    raise AssertionError("an ACL by address is not refused")
except InvalidACLError:
    pass

client.delete("/kazoo", recursive=True)
client.stop()
client.close()
print("all is well")
