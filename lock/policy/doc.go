// Package policy says which times apply to which locks, and reads the
// configuration file that the library, the reaper and the command line share.
//
// # Policies
//
// A [Policy] gives the times of all locks whose names its pattern matches: the
// TTL that contenders ask for and the most that they may ask for, the grace
// after an expiry, how long a hold may last, and when the reaper cleans up
// behind them. A [Set] is an ordered list of policies. The first one that
// matches a name applies, so the special ones stand before the general ones.
// Locks that no policy matches have the defaults, under the name "default".
//
// All clients of a lock should have the same policy for it: a waiter judges
// a holder's entry with its own grace.
//
// # Choosing times
//
// The TTL decides two things at once: for how long a crash blocks the waiters, and how
// long an outage a hold survives. Take the shorter one that the work bears, from this:
//
//	a crash blocks for at most     ttl + grace, from the last renewal
//	a hold survives                an outage of not quite ttl * 2/3: a renewal is due every third
//	a holder is warned             with ttl / 2 left, and has as long to finish
//	what a crash leaves empty      is there for orphan_after, and until the next sweep
//
//	work                                                       ttl      what else
//	if in doubt; it rides out an election of a leader          30s      these are the defaults
//	requests that others wait for, and that are safe to redo   5s       session_timeout: 4s
//	imports and backups that must survive a maintenance        5m       max_hold: 6h
//	a worker that is restarted, and goes on                    30s      Hold.Detach with the time it takes
//	once a minute on several hosts, whichever is first         30s      holdfast run --at-least
//
// The session timeout decides nothing about locks. It says how soon a connection that stalls
// is given up: after two thirds of it. So the TTL should not be below it, or else a stalled
// connection costs holds before another server is tried; a client logs a warning. Below 4 s,
// twice the usual tickTime, servers grant no session: they raise it.
//
// The grace is for the clock of ZooKeeper's leader: it must be longer than any step which that
// clock makes while it leads. 2 s suffices where ntpd or chrony slews it; "holdfast doctor"
// watches the clock and says what grace it allows. All clients of a lock should have the same.
//
// max_hold ends holds of processes that hang but still renew. It is off by default: set it to
// some times the longest that the work has ever taken. max_ttl bounds what a caller may ask
// for by lock.WithTTL, and so the harm of a slip.
//
// orphan_after is for the reaper alone: the last contender deletes the parent at once.
//
// A short TTL costs writes: each hold is renewed three times in a TTL. Renewals of one client
// share transactions, up to hundreds in one. And the TTL has to be long beside the way to
// the servers. A waiter enters with half of its lease left. So where a write and a list take
// half a TTL together, it may wait for long although no contender is ahead.
//
// # Patterns
//
// Patterns are compared with the names of locks, relative to the root, component
// by component:
//
//   - "*" is any one component, and in a longer component any run of characters,
//     also an empty one;
//   - "**" is any number of components, also none, and always a component of its
//     own;
//   - every other character stands for itself.
//
// What a pattern matches must be possible as the name of a lock: no slash at
// either end, no empty component, no "." or "..", no control character. At most
// eight components may be * and three **.
//
//	pattern         matches                          does not match
//	orders          orders                           orders/42
//	orders/*        orders/42                        orders, orders/42/items
//	orders/**       orders, orders/42, orders/42/a   order
//	orders/*/**     orders/42, orders/42/a           orders
//	tenant-*/jobs   tenant-7/jobs, tenant-/jobs      tenant-7/a/jobs
//	**/jobs         jobs, a/jobs, a/b/jobs           a/jobs/b
//	*-eu-*          shop-eu-1                        shop-us-1, eu
//	**              every name
//
// # The file
//
//	zookeeper:
//	  servers: [zk1:2181, zk2:2181, zk3:2181]
//	policies:
//	  - name: imports
//	    match: "imports/*"
//	    ttl: 5m
//	    max_hold: 6h
//	  - name: tenants
//	    match: "tenant-*/**"
//	    ttl: 5s
//	    max_ttl: 1m
//	    schedule: "@every 15s"
//
// Keys that are left out have their defaults; config.yaml at the top of the
// repository has them all. [Load] is strict: whatever it does not understand, or
// would have to guess at, it refuses, and it reports all mistakes of a file at
// once, each with its line, key, value and rule:
//
//	config.yaml:6:10: policies[0].ttl: 50ms: must be at least 100ms
//	config.yaml:7:5: policies[0].max_hodl: is not a known key; did you mean max_hold?
//
// Only what is not YAML at all, or a part of YAML that is not accepted (anchors,
// aliases, tags, merge keys, several documents), is reported before the rest
// can be looked at.
//
// # Access
//
// With zookeeper.auth the nodes of locks belong to that user alone. With zookeeper.tls the
// connection is encrypted. SECURING.md, in the folder of package lock, shows what the
// servers need for both, and which ACLs to set.
//
// # Rules
//
// For policies, in a file and in [NewSet]:
//
//   - name is given, unique, printable and at most 64 bytes long; "default" is
//     kept for the policy that matches **;
//   - match is given, and is a pattern as above;
//   - ttl is at least 100ms and at most max_ttl;
//   - grace is at least 100ms and at most max_ttl;
//   - max_hold is 0s, without limit, or at least ttl;
//   - orphan_after is at least 1s, since contenders of other libraries make a
//     lock's node first and their entry in it with a second request;
//   - all of them are whole milliseconds and at most 8760h, a year;
//   - schedule is one that [ParseSchedule] takes, but for its time zone, which only the
//     reaper looks up: a cron expression that comes at some time, without an interval
//     that cron would round;
//   - some name is left for each policy: no policy, and no several together,
//     above it match every name that it does;
//   - there are at most 1,000.
//
// For a file, in addition:
//
//   - it is not empty: {} stands for all defaults;
//   - it has at most 1 MiB and 40,000 tokens of YAML, nested at most 20 deep,
//     which is room for 1,000 policies; keys are known, given once, and have a value;
//   - durations have a unit (30s, 1h30m), and a zero is no way to ask for a
//     default;
//   - no password stands in the file, and what its keys name is relative to its folder;
//   - on the same servers no root is another's, or below another.
//
// The comments in config.yaml, and the messages, have the rules for single keys.
package policy
