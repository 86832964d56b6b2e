// Package policy gives each lock its policy by the lock's name. Package config reads policies from a file.
//
// # Policies
//
// A [Rule] has the settings of all locks whose names match its pattern: the default TTL and the
// largest TTL, the grace after an expiry, the longest hold, and the schedule of the reaper. A [Set]
// is an ordered list of rules. The first rule that matches a name applies, so put special rules before
// general ones. Locks that no rule matches have the defaults, under the name "default".
//
// All clients of a lock should have the same policy for it: a waiter judges a holder's entry by the
// waiter's own grace.
//
// # Choosing times
//
// The TTL decides how long a crash blocks the waiters, and how long an outage a hold survives. Use
// the shortest TTL that the work can bear:
//
//	a crash blocks for at most     ttl + grace, from the last renewal
//	a hold survives                an outage of almost ttl * 2/3: a renewal is due every third
//	a holder is warned             with ttl / 2 left, and has as long to finish
//	an empty parent                remains for orphan_after, and until the next sweep
//
//	work                                                       ttl      other settings
//	if in doubt; it survives the election of a leader          30s      none: this is the default
//	requests that callers wait for, and that are safe to redo  5s       session_timeout: 4s
//	imports and backups that must survive a maintenance        5m       max_hold: 6h
//	a worker that restarts and continues                       30s      Hold.Detach for the restart
//	once a minute, on any one of several hosts                 30s      holdfast run --tick
//
// The session timeout does not end holds. But a client leaves a stalled connection only after two
// thirds of the session timeout. With a shorter TTL, a hold may be lost before the client tries
// another server; the client logs a warning. Servers usually raise a timeout below 4 s, twice the
// usual tickTime.
//
// The grace is the time that other clients wait after a lease has expired before they delete the
// entry. It must be longer than any step of the clock of ZooKeeper's leader while it leads. 2 s
// suffices if ntpd or chrony slews the clock. "holdfast doctor" reports the grace that the servers
// require.
//
// max_hold ends holds of processes that hang but still renew: set it to a few times the longest
// duration of the work. max_ttl limits lock.WithTTL, and so the harm of a wrong value there.
//
// A short TTL costs writes: a client renews each hold three times in a TTL, and many holds in one
// transaction. The TTL must also be long compared with the round trip to the servers. A waiter
// enters only while at least half of its lease is left. If a write and a list together take half a
// TTL, the waiter may wait for long although no contender is ahead.
//
// # Patterns
//
// A pattern is compared with a lock's name, relative to the root, component by component:
//
//   - "*" matches any one component; within a longer component, any number of characters, also none;
//   - "**" matches any number of components, also none; it must be a whole component;
//   - every other character matches itself.
//
// The rules of locks' names apply to a pattern: no slash at either end, no empty component, no "."
// or "..", no control character. At most eight components may be *, and three may be **.
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
// # Rules
//
// For rules, in [NewSet] and, as policies, in a file:
//
//   - name is given, unique, printable and at most 64 bytes long; "default" is
//     reserved for the policy that matches **;
//   - ttl and grace are at least 100ms and at most max_ttl;
//   - max_hold is 0s, without limit, or at least ttl;
//   - local_window is more than zero and at most 1s, or none: lock.NoLocalWindow;
//   - orphan_after is at least 1s, because other libraries create a lock's node
//     and their entry in two requests;
//   - all of these durations are whole milliseconds and at most 8760h, a year;
//   - each rule can apply: the rules above it do not, even together, match
//     every name that it matches;
//   - there are at most 1,000 rules.
package policy
