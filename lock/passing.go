package lock

import "time"

// WithLocalWindow sets for how long an entry is handed on among the goroutines of this
// client that ask for the same lock with the same settings, while other processes wait: see
// [Policy]. Such a handoff costs no request, and the next hold has a token of its own. With
// 0 the entry leaves at each Unlock, and the next goroutine joins at the end of the queue, in
// the same transaction. Holds [WithoutRenewal], those for reading, and candidates of an
// [Election] are never handed on; nor is one that was extended, downgraded, asked for by a
// [Client.Revoke] that its holder listened to, or for which there is a [Hold.Ticket].
// Default [DefaultLocalWindow].
func WithLocalWindow(d time.Duration) SharedOption {
	window := d
	if d == 0 {
		window = NoLocalWindow
	}
	return sharedOption{
		func(c *config) error {
			c.policy.LocalWindow, c.policySet = window, true
			return checkDuration("local_window", d, 0, MaxLocalWindow)
		},
		func(s *settings) error {
			s.LocalWindow = window
			return checkDuration("local_window", d, 0, MaxLocalWindow)
		},
	}
}

// WithIdle keeps an entry for up to that long after its last Unlock, if no other contender
// is at the lock: this client has it again without a request. The first Unlock sets a watch;
// when another client joins, the entry leaves, by one event and one delete. So it pays where
// one process takes the same lock again and again. The price: a process that dies while it
// keeps an entry blocks others for TTL and grace although it held nothing; and
// [Mutex.TryLock] and [WithBarging] of other clients, which do not queue, take what is kept
// for held. Default 0: not kept.
func WithIdle(d time.Duration) SharedOption {
	return sharedOption{
		func(c *config) error {
			c.policy.Idle, c.policySet = d, true
			return checkDuration("idle", d, 0, MaxTime)
		},
		func(s *settings) error {
			s.Idle = d
			return checkDuration("idle", d, 0, MaxTime)
		},
	}
}
