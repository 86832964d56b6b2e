// Package zkconn is the one place that knows go-zookeeper's habits. A [Conn] adds
// to a *zk.Conn what the rest of the library builds on:
//
//   - contexts: a call returns when its context ends, and [Dial] and [Conn.Close]
//     within their bounds, whatever the servers do;
//   - classes of errors ([OutcomeOf]): whether a write that failed may have been
//     applied, or may be later;
//   - one watch per path, shared by the whole process;
//   - outages ([Conn.LastOutage]), as the session tells them;
//   - one way to try again ([Conn.Retry]).
//
// The habits (go-zookeeper v1.0.4):
//
//   - A call takes no context, and blocks for as long as the connection is down. What
//     is queued meanwhile runs later, in another session even, or after Close. So
//     nothing is issued without a session, and Close waits for calls in flight.
//   - It lifts the handshake's deadline after four bytes, and believes any length in
//     them. Our connections ([handshakeConn]) bound the whole of the first frame.
//   - It looks for its end only while it pauses between rounds of servers, and its
//     Close waits for up to three seconds. So closing ends the lookup, the dial or the
//     connection that it is busy with, and then lets it pause ([hosts.Next]).
//   - What is queued when a connection fails stays queued while servers are tried. A
//     call that runs in its caller's goroutine must not wait for that ([Conn.stuck]).
//   - It never closes a connection on which it has learned that its session expired.
//     The next dial does.
//   - Its event callback may run under its locks, and must not call it.
package zkconn
