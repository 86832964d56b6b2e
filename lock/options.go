package lock

import "time"

// Defaults and limits of a lock's times. A policy or an option may set others
// within the limits.
const (
	// DefaultTTL is how long a lock outlives its holder's last renewal.
	DefaultTTL = 30 * time.Second
	// DefaultMaxTTL is the longest TTL that may be asked for where a policy
	// does not say.
	DefaultMaxTTL = time.Hour
	// DefaultGrace is how long after its expiry an entry is left alone.
	DefaultGrace = 2 * time.Second
	// MinTTL is the shortest TTL that is accepted.
	MinTTL = 100 * time.Millisecond
	// MinGrace is the shortest grace that is accepted: it has to stand above
	// what the clock of an ensemble's leader can be displaced by.
	MinGrace = 100 * time.Millisecond
)

// Policy is what applies to one lock. The zero value of a field means its
// default.
type Policy struct {
	// TTL is the lease a contender asks for. Default [DefaultTTL].
	TTL time.Duration
	// MaxTTL is the longest TTL that may be asked for, and it caps the expiry
	// of a record that claims more. Default [DefaultMaxTTL], or TTL where that
	// is longer.
	MaxTTL time.Duration
	// Grace is how long after its expiry an entry is left alone, so that the
	// displacement of the leader's clock cannot end a hold early. Default
	// [DefaultGrace].
	Grace time.Duration
	// MaxHold is how long one hold may last, renewals included; 0 is without
	// limit.
	MaxHold time.Duration
	// KeepParent leaves the lock's parent node in place when the last one
	// leaves. A kazoo Lock object on the same path needs it.
	KeepParent bool
}

// Policies gives the policy of a lock by its name, relative to the root.
// [github.com/holdfast-io/holdfast/lock/policy.Set] is one, loaded from the
// file that the reaper reads too. It must be safe for concurrent use.
type Policies interface {
	Policy(name string) Policy
}
