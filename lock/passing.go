package lock

import "time"

// WithLocalWindow sets the time for which goroutines of this client hand an entry off among
// themselves while other processes wait: see [Policy]. The goroutines must request the same lock
// with the same settings. A local handoff costs no request, and the next hold has its own token.
// With 0 each Unlock deletes the entry, and the same transaction creates the next goroutine's
// entry, at the end of the queue. Default [DefaultLocalWindow].
//
// A hold is never handed off locally if it
//
//   - is [WithoutRenewal], for reading, or a [Leadership],
//   - was extended or downgraded,
//   - has a [Hold.Ticket], or
//   - got a request by [Client.Revoke].
//
// Unless the policy has a max_hold, readers of an [RWMutex] share an entry if they wait when the
// entry is granted, or arrive within the window. Each reader has a hold of its own. [Stats] and
// observers count each of these holds.
func WithLocalWindow(d time.Duration) SharedOption {
	window := d
	if d == 0 {
		window = NoLocalWindow
	}
	return policyOption(func(p *Policy) { p.LocalWindow = window }, checkDuration("local_window", d, 0, MaxLocalWindow))
}

// WithIdle keeps an unused entry for up to d after its last Unlock, if there is no other contender:
// a cached lease. Until then this client can take the lock again without a request. The first
// Unlock sets a watch. When another client joins, this client deletes the entry, at the cost of one
// event and one delete. So the option pays if one process takes the same lock again and again. It
// has no effect on an [Election], on holds for reading, or [WithoutRenewal]. Default 0: the entry
// is not kept.
//
// The price: a process that dies with a cached lease blocks other clients for the TTL and the grace
// although it held nothing. And [Mutex.TryLock] and [WithBarging] of other clients, which do not
// queue, treat a cached lease as held.
func WithIdle(d time.Duration) SharedOption {
	return policyOption(func(p *Policy) { p.Idle = d }, checkDuration("idle", d, 0, MaxTime))
}
