#!/usr/bin/env bash
# node-zookeeper-client 1.1.3 (npm), on ZooKeeper 3.8.0 (Debian bookworm): a client to which the server
# says no more stays connected by its own account, while another one has its lock.
#
# A relay between client and server keeps the connection open, and passes nothing on, as a partition does.
#
# Guess:  a client that hears nothing for two thirds of its session timeout drops the connection, as ZooKeeper's own
#         does: the holder of a lock is told "disconnected" before its session can expire, and requests fail.
# Seen:   the session expires, and another client gets the lock. Three session timeouts later the first one's state
#         is SYNC_CONNECTED, there was no event, and a request has neither a reply nor an error: the client sends
#         pings, and does not look for their answers. It is told when packets pass again, or TCP gives up. This is
#         issue 13 of its tracker, open since 2013.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

command -v npm >/dev/null || cannot "no npm on the PATH"
cd "$work"
npm install --no-audit --no-fund --ignore-scripts node-zookeeper-client@1.1.3 >npm.log 2>&1 || cannot "$(tail -5 npm.log)"
cat >silent.mjs <<'JS'
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import zookeeper from "node-zookeeper-client";

const port = Number(process.argv[2]);
const timeout = 4000;
let silent = false;
const relay = net.createServer((client) => {
  const server = net.connect(port, "127.0.0.1");
  const ends = [];
  const pass = (from, to) => {
    from.on("data", (data) => silent || to.write(data));
    from.on("error", () => {});
    from.on("close", () => (silent ? ends.push(to) : to.destroy()));
  };
  pass(client, server);
  pass(server, client);
  relay.on("again", () => ends.forEach((end) => end.destroy()));
});
await new Promise((done) => relay.listen(0, "127.0.0.1", done));

const connect = (port, events) => {
  const client = zookeeper.createClient(`127.0.0.1:${port}`, { sessionTimeout: timeout });
  client.on("state", (state) => events.push(state.name));
  return new Promise((done) => {
    client.once("connected", () => done(client));
    client.connect();
  });
};
const create = (client) =>
  new Promise((done) => client.create("/lock", zookeeper.CreateMode.EPHEMERAL, (err) => done(!err)));

const events = [];
const holder = await connect(relay.address().port, events);
const other = await connect(port, []);
console.log("holder has the lock:", await create(holder));
console.log("other has the lock:", await create(other));

events.length = 0;
silent = true;
let reply = "none";
holder.exists("/lock", (err) => (reply = err ? err.name : "yes"));
while (!(await create(other))) await sleep(100);
console.log("the holder's session has expired, and other has the lock");
await sleep(3 * timeout);
console.log("three session timeouts later: holder's state", holder.getState().name + ", events", events, "reply:", reply);

silent = false;
relay.emit("again");
while (!events.includes("EXPIRED")) await sleep(100);
console.log("as the relay goes on: events", events.slice(0, events.indexOf("EXPIRED") + 1), "reply:", reply);
process.exit(0);
JS
unpack bookworm 3.8.0
configure
start
expect "holder has the lock: true
other has the lock: false
the holder's session has expired, and other has the lock
three session timeouts later: holder's state SYNC_CONNECTED, events [] reply: none
as the relay goes on: events [ 'DISCONNECTED', 'EXPIRED' ] reply: CONNECTION_LOSS" "$(timeout 120 node silent.mjs "$port")"
