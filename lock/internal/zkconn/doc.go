// Package zkconn handles go-zookeeper's peculiarities for the rest of the library. A [Conn] adds
// to a *zk.Conn:
//
//   - contexts: a call returns when its context ends; [Dial] and [Conn.Close] return within their
//     bounds, whatever the servers do;
//   - classes of errors ([OutcomeOf]): whether a write that failed may have been applied, or may
//     be applied later; a caller's cause decides nothing ([ContextError], [Reveal]);
//   - one watch per path, shared by the whole process, which fires within a bound
//     ([Conn.Watch]);
//   - a Sync and a read in one session ([Synced]);
//   - times without a session ([Conn.LastOutage]), from the events of the session;
//   - transactions that callers share ([Conn.Share], [Conn.Submit]);
//   - one way to retry ([Conn.Retry]).
//
// The peculiarities (go-zookeeper v1.0.4):
//
//   - A call takes no context, and blocks while the connection is down. Requests queued meanwhile
//     run later, perhaps in another session or after Close. So this package makes no request
//     without a session, and Close waits for calls in flight.
//   - It lifts the handshake's deadline after four bytes, and accepts any length in them. A
//     [serverConn] limits the time and size of the whole first frame.
//   - It has no SASL. A serverConn runs the exchange ([login]) after the first frame and before it
//     forwards that frame. A server accepts one exchange on a connection. So for a newer credential
//     the serverConn ends, between two requests, and go-zookeeper connects again.
//   - It sets its watches again on each new connection, by requests of up to 128 kB. If a server
//     refuses them, go-zookeeper goes on without watches. If a server's limit is lower, the
//     server cuts each connection. And after a first reply go-zookeeper asks for later changes
//     only. So a serverConn does not forward the requests that set watches again, and fires all
//     watches. Their waiters read again, which sets the watches that are still needed. The number
//     of these reads is not limited. A borrowed connection has no serverConn: this package polls
//     it, fires its watches after each outage that it notices, and fires each watch after about a
//     minute.
//   - A server that has seen fewer transactions than go-zookeeper closes each handshake without an
//     answer, and go-zookeeper retries forever. After the session timeout a serverConn answers for
//     the server that the session has expired. Known zxids and stamps may then be void, so
//     Config.Forgotten is called. A borrowed connection stays refused.
//   - Without a connection it notices a Close only in its pause between rounds of servers, and
//     its Close waits for up to three seconds. So [Conn.Close] ends its lookup, dial or connection,
//     and then makes it pause ([hosts.Next]).
//   - It never closes a connection on which it learned of an expired session. The next dial of an
//     owned connection closes it.
//   - Its event callback may run under its locks, and must not call it.
package zkconn
