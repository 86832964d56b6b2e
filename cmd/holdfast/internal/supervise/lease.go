package supervise

import "time"

// MinTTL is the shortest TTL for which a process group reliably ends in time: a tenth of it is
// left to send SIGKILL and for that to work.
const MinTTL = time.Second

// leads are the times before the end of a lease at which the supervisor acts.
type leads struct {
	terminate time.Duration // SIGTERM
	kill      time.Duration // SIGKILL
	look      time.Duration // interval of checks of the lease, and of messages to the guard
}

// leadsFor returns the leads for a TTL. Renewals come every third of the TTL, so a lease whose
// renewals succeed has at least about two thirds left. Checking every sixth informs the guard of each
// renewal in time. For long TTLs the leads are limited: 30 s suffice to end a command, and 3 s to kill
// it.
func leadsFor(ttl time.Duration) leads {
	return leads{
		terminate: min(ttl/3, 30*time.Second),
		kill:      min(ttl/10, 3*time.Second),
		look:      ttl / 6,
	}
}

// action is what the supervisor does to the command.
type action int

const (
	nothing action = iota
	terminate
	kill
)

// decide returns the action when left is the rest of the lease, and the time until the next decision.
// asked means that SIGTERM was sent.
func (l leads) decide(left time.Duration, asked bool) (action, time.Duration) {
	switch {
	case left <= l.kill:
		return kill, l.look
	case left <= l.terminate && !asked:
		return terminate, left - l.kill
	case asked:
		return nothing, min(l.look, left-l.kill)
	}
	return nothing, min(l.look, left-l.terminate)
}
