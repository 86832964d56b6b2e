package lock

import (
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
)

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
	// MinGrace is the shortest grace that is accepted. Displacements of the leader's
	// clock that come to more than half of it are no longer borne by the grace: what
	// was written before them is judged anew.
	MinGrace = clock.MinGrace
	// DefaultLocalWindow is for how long a process hands a lock off among its own
	// goroutines while other processes wait.
	DefaultLocalWindow = 10 * time.Millisecond
	// NoLocalWindow is the LocalWindow of a policy by which no entry is handed on.
	NoLocalWindow time.Duration = -1
	// MaxLocalWindow is the longest that is accepted.
	MaxLocalWindow = time.Second
	// MaxTime is the longest TTL, MaxTTL, grace or MaxHold that is accepted.
	// More is a slip of the unit, and the sum of a few must not overflow a
	// time.Duration: an expiry that did would lie in the past.
	MaxTime = 365 * 24 * time.Hour
)

// defaultPolicy is the name of a policy that has none.
const defaultPolicy = "default"

// Policy is what applies to one lock. The zero value of a field means its
// default.
type Policy struct {
	// Name stands for the policy where locks are counted, see [Event]. Default
	// "default".
	Name string
	// TTL is the lease a contender asks for. Default [DefaultTTL].
	TTL time.Duration
	// MaxTTL is the longest TTL that may be asked for. Default [DefaultMaxTTL], or
	// TTL where that is longer. An entry that was made with a longer one, under an
	// earlier policy, is respected for as long as it says.
	MaxTTL time.Duration
	// Grace is how long after its expiry an entry is left alone, so that a step of the
	// leader's clock that no client could see does not end a hold early. Default
	// [DefaultGrace].
	Grace time.Duration
	// MaxHold is how long one hold may last, renewals included; 0 is without
	// limit.
	MaxHold time.Duration
	// KeepParent leaves the lock's parent node in place when the last contender
	// leaves. A kazoo Lock object on the same path needs it.
	KeepParent bool
	// LocalWindow is for how long an entry is handed on among the goroutines of one client
	// that ask for the same, first come, first served, while other contenders wait behind it;
	// if none does it is handed on anyway. A handoff costs no request. Other processes wait so
	// much longer for each entry ahead of them. It is at most a second, and at most a third of
	// the lock's TTL. Default [DefaultLocalWindow]; with [NoLocalWindow] the entry leaves at
	// each Unlock, and the next goroutine joins at the end of the queue.
	LocalWindow time.Duration
	// Idle is for how long an entry is kept unused after its last Unlock if no other contender
	// is at the lock, so that this client can have it again without a request. When another
	// contender comes it leaves at once. Default 0: it is not kept.
	Idle time.Duration
}

// WithDefaults returns the policy with its zero fields set to their defaults.
func (p Policy) WithDefaults() Policy {
	if p.Name == "" {
		p.Name = defaultPolicy
	}
	if p.TTL == 0 {
		p.TTL = DefaultTTL
	}
	if p.MaxTTL == 0 {
		p.MaxTTL = max(DefaultMaxTTL, p.TTL)
	}
	if p.Grace == 0 {
		p.Grace = DefaultGrace
	}
	if p.LocalWindow == 0 {
		p.LocalWindow = DefaultLocalWindow
	}
	return p
}

// Validate reports what is wrong with a policy whose defaults are set, or nil.
func (p Policy) Validate() error {
	if err := checkDuration("max_ttl", p.MaxTTL, MinTTL, MaxTime); err != nil {
		return err
	}
	if err := checkDuration("ttl", p.TTL, MinTTL, MaxTime); err != nil {
		return err
	}
	if err := checkDuration("grace", p.Grace, MinGrace, MaxTime); err != nil {
		return err
	}
	if err := checkDuration("max_hold", p.MaxHold, 0, MaxTime); err != nil {
		return err
	}
	if err := checkDuration("idle", p.Idle, 0, MaxTime); err != nil {
		return err
	}
	if p.LocalWindow != NoLocalWindow {
		if err := checkDuration("local_window", p.LocalWindow, 0, MaxLocalWindow); err != nil {
			return err
		}
	}
	switch {
	case p.TTL > p.MaxTTL:
		return invalid("ttl", p.TTL, "must not be longer than max_ttl, %v", p.MaxTTL)
	case p.Grace > p.MaxTTL:
		return invalid("grace", p.Grace, "must not be longer than max_ttl, %v", p.MaxTTL)
	case p.MaxHold != 0 && p.MaxHold < p.TTL:
		return invalid("max_hold", p.MaxHold, "must not be shorter than ttl, %v; 0 means without limit", p.TTL)
	}
	return nil
}

func checkDuration(argument string, d, least, most time.Duration) error {
	switch {
	case d < least:
		return invalid(argument, d, "must be at least %v", least)
	case d%time.Millisecond != 0:
		return invalid(argument, d, "must be whole milliseconds")
	case d > most:
		return invalid(argument, d, "must be at most %v", most)
	}
	return nil
}

// Policies gives the policy of a lock by its name, relative to the root.
// [github.com/holdfast-io/holdfast/lock/policy.Set] is one, loaded from the
// file that the reaper reads too. It must be safe for concurrent use.
type Policies interface {
	Policy(name string) Policy
}
