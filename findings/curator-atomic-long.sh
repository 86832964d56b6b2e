#!/usr/bin/env bash
# Curator 5.4.0 (Debian bookworm), DistributedAtomicLong, on ZooKeeper 3.8.0: one increment() adds two if the
# reply to its write is lost, and says that it succeeded.
#
# A relay between client and server passes the write on, and drops the connection in place of the reply.
#
# Guess:  a write whose fate is not known is told of: an exception, or succeeded() is false. If Curator tries
#         again by itself, the write depends on the version, so that it is done once.
# Seen:   the second write of the same request is refused, because of the first. Curator takes that for a write
#         of another client, reads the new number, and adds one to it: the call says "from 2 to 3" to the only
#         client, whose number was 1. A count of runs or of members is wrong from then on.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack bookworm 3.8.0
compile_curator <<'JAVA'
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.retry.RetryNTimes;

public class Program {
    static final int SET_DATA = 5;
    static volatile boolean armed, drop;

    // pass hands the messages of one side to the other. Armed, it drops the connection in place of the server's
    // next message after a write.
    static void pass(Socket from, Socket to, boolean toServer) {
        new Thread(() -> {
            try (from; to) {
                DataInputStream in = new DataInputStream(from.getInputStream());
                DataOutputStream out = new DataOutputStream(to.getOutputStream());
                while (true) {
                    byte[] message = new byte[in.readInt()];
                    in.readFully(message);
                    if (toServer && armed && message.length > 8 && ByteBuffer.wrap(message).getInt(4) == SET_DATA) {
                        armed = false;
                        drop = true;
                    } else if (!toServer && drop) {
                        drop = false;
                        return;
                    }
                    out.writeInt(message.length);
                    out.write(message);
                }
            } catch (IOException end) {
                // the other side has closed the connection
            }
        }).start();
    }

    static void tell(String what, AtomicValue<Long> value) {
        System.out.println(what + ": succeeded " + value.succeeded() + ", from " + value.preValue() + " to " + value.postValue());
    }

    public static void main(String[] args) throws Exception {
        ServerSocket relay = new ServerSocket(0, 0, InetAddress.getByName("127.0.0.1"));
        new Thread(() -> {
            try {
                while (true) {
                    Socket client = relay.accept(), server = new Socket("127.0.0.1", Integer.parseInt(args[0]));
                    pass(client, server, true);
                    pass(server, client, false);
                }
            } catch (IOException err) {
                err.printStackTrace();
            }
        }).start();
        CuratorFramework client = CuratorFrameworkFactory.newClient("127.0.0.1:" + relay.getLocalPort(), new RetryNTimes(5, 500));
        client.start();
        DistributedAtomicLong number = new DistributedAtomicLong(client, "/number", new RetryNTimes(5, 500));
        number.initialize(0L);
        tell("increment", number.increment());
        armed = true;
        tell("increment whose reply is lost", number.increment());
        System.out.println("after two calls: " + number.get().postValue());
        System.exit(0);
    }
}
JAVA
configure
start
follow "$port"
got=$(hear 3)
expect 'increment: succeeded true, from 0 to 1
increment whose reply is lost: succeeded true, from 2 to 3
after two calls: 3' "$got"
