package lock

import "time"

// WithLocalWindow sets for how long an entry is passed on among the goroutines of this
// client that ask for the same lock with the same settings, although others wait: see
// [Policy]. A pass costs no request, and the next one has a token of its own. 0 is strict
// order: every contender has an entry of its own. Holds [WithoutRenewal], those that barge,
// those for reading, and candidates of an [Election] are never passed on; nor is one that was
// extended, downgraded, asked for by a [Client.Revoke] that somebody listened to, or for
// which there is a [Hold.Ticket]. Default [DefaultLocalWindow].
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

// WithIdle keeps an entry for up to that long after its last Unlock, if nobody else is at
// the lock: this client has it again without a request. The first Unlock sets a watch, and
// whoever else comes to the lock has the entry given back, by one event and one delete. So
// it pays where one process takes the same lock again and again. The price: a process that
// dies while it keeps an entry blocks others for TTL and grace although it held nothing; and
// [Mutex.TryLock] and who barges, neither of whom queues, cannot tell what is kept from what is
// held: they ask for it, as TryLock says, and may have to wait until they do so again.
// [Client.Release] gives it back before. Default 0: not kept.
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
