package supervise

import "time"

// MinTTL is the shortest TTL for which a group of processes is ended in time with
// some certainty: a tenth of it is left for SIGKILL to be sent and to work.
const MinTTL = time.Second

// leads are how long before the end of a lease something is done.
type leads struct {
	terminate time.Duration // SIGTERM
	kill      time.Duration // SIGKILL
	look      time.Duration // how often to look what is left, and to tell the guard
}

// leadsFor returns the leads for a TTL. Renewals come every third of it, so what
// is left of a lease that is renewed does not sink much below two thirds; looking
// every sixth tells the guard of each in time. Long leases leave more than enough
// time to end.
func leadsFor(ttl time.Duration) leads {
	return leads{
		terminate: min(ttl/3, 30*time.Second),
		kill:      min(ttl/10, 3*time.Second),
		look:      ttl / 6,
	}
}

// action is what is to be done to the command.
type action int

const (
	nothing action = iota
	terminate
	kill
)

// decide says what is to be done when so much is left of the lease, and how long
// to wait before asking again. Asked says that SIGTERM was sent.
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
