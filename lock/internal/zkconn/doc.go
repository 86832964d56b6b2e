// Package zkconn is the one place that knows go-zookeeper's habits. A [Conn] adds
// to a *zk.Conn what the rest of the library builds on:
//
//   - contexts: a call returns when its context ends, and [Dial] and [Conn.Close]
//     within their bounds, whatever the servers do;
//   - classes of errors ([OutcomeOf]): whether a write that failed may have been
//     applied, or may be later;
//   - one watch per path, shared by the whole process, which fires within a bound
//     ([Conn.Watch]);
//   - a Sync and a read in one session ([Synced]);
//   - outages ([Conn.LastOutage]), as the session tells them;
//   - one way to try again ([Conn.Retry]).
//
// The habits (go-zookeeper v1.0.4):
//
//   - A call takes no context, and blocks for as long as the connection is down. What
//     is queued meanwhile runs later, in another session even, or after Close. So
//     nothing is issued without a session, and Close waits for calls in flight.
//   - It lifts the handshake's deadline after four bytes, and believes any length in
//     them. Our connections ([serverConn]) bound the whole of the first frame.
//   - It arms its watches again on each new connection, by requests of up to 128 kB. If a
//     server refuses them it goes on without watches; if a server takes less, it is cut off
//     again and again; and if it has read a reply before, it asks for later changes only. So
//     our connections keep these requests to themselves and fire all watches. Their waiters
//     read again, which arms those that are still needed. 8,000 waiters do so in a third of a
//     second, so nothing paces them but the one connection. A borrowed connection has no such
//     hook. It is polled, its watches fire after each outage that was seen, and the slow look
//     again makes up for the rest.
//   - A server that has seen less than go-zookeeper closes each handshake without an answer,
//     and go-zookeeper tries for ever. After the session timeout our connections answer in the
//     server's place that the session has expired. A new session knows nothing of before, so
//     Config.Forgotten tells to drop what was learned. A borrowed connection stays refused.
//   - It looks for its end only while it pauses between rounds of servers, and its
//     Close waits for up to three seconds. So closing ends the lookup, the dial or the
//     connection that it is busy with, and then lets it pause ([hosts.Next]).
//   - What is queued when a connection fails stays queued while servers are tried. A
//     call that runs in its caller's goroutine must not wait for that ([Conn.stuck]).
//   - It never closes a connection on which it has learned that its session expired.
//     The next dial does.
//   - Its event callback may run under its locks, and must not call it.
package zkconn
