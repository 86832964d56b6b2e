#!/usr/bin/env bash
# Curator 5.4.0 (Debian bookworm), on ZooKeeper 3.8.0: a LeaderLatch that is alone never leads again after a
# pause of its process, if the server has deleted the empty parent meanwhile.
#
# Guess:  a latch whose session has expired makes a new node when it is connected again, and leads. The
#         parent is a container that Curator made itself, so that ZooKeeper cleans it up; Curator makes it anew.
# Seen:   so it is if the parent is still there. If not, the latch lists it, gets "no node", and does nothing:
#         no node, no leader and no error, for as long as the connection lasts. A session timeout and the
#         server's next look for empty containers (once a minute; here once a second) are enough.
#         This is CURATOR-724, mended in 5.8.0.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack bookworm 3.8.0
compile_curator <<'JAVA'
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class Program {
    public static void main(String[] args) throws Exception {
        CountDownLatch back = new CountDownLatch(1);
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 4_000, 3_000, new ExponentialBackoffRetry(500, 3));
        client.getConnectionStateListenable().addListener((c, state) -> {
            if (state == ConnectionState.RECONNECTED) {
                back.countDown();
            }
        });
        client.start();
        LeaderLatch latch = new LeaderLatch(client, "/latch");
        latch.start();
        latch.await();
        long session = client.getZookeeperClient().getZooKeeper().getSessionId();
        System.out.println("leads");
        back.await();
        boolean leads = latch.await(20, TimeUnit.SECONDS);
        System.out.println("a new session: " + (client.getZookeeperClient().getZooKeeper().getSessionId() != session)
            + "; /latch exists: " + (client.checkExists().forPath("/latch") != null) + "; leads within 20 s: " + leads);
        System.exit(0);
    }
}
JAVA
nodes() {
	word mntr | awk '$1 == "zk_znode_count" { print $2 }'
}
got=
for interval in 600000 1000; do
	configure
	start -Dznode.container.checkIntervalMs=$interval
	bare=$(nodes)
	follow "127.0.0.1:$port"
	[[ $(hear) == leads ]] || cannot "the latch does not lead"
	kill -STOP "$program"
	left=$((bare + (interval > 1000))) # the container
	for ((i = 0; i < 300; i++)); do
		[[ $(nodes) != "$left" ]] || break
		sleep 0.1
	done
	[[ $(nodes) == "$left" ]] || cannot "the session does not expire"
	kill -CONT "$program"
	got+="containers deleted each $interval ms: $(hear)"$'\n'
	stop
	rm -rf "$work/data"
done
expect 'containers deleted each 600000 ms: a new session: true; /latch exists: true; leads within 20 s: true
containers deleted each 1000 ms: a new session: true; /latch exists: false; leads within 20 s: false' "${got%$'\n'}"
