package lock

import (
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
)

// Defaults and limits of a lock's times. A [Policy] or an option may set other times within the
// limits.
const (
	// DefaultTTL is the time that a lock outlives its holder's last renewal.
	DefaultTTL = 30 * time.Second
	// DefaultMaxTTL is the longest TTL that a lock may request unless its policy says otherwise.
	DefaultMaxTTL = time.Hour
	// DefaultGrace is the grace unless a policy or an option says otherwise.
	DefaultGrace = 2 * time.Second
	// MinTTL is the shortest allowed TTL.
	MinTTL = 100 * time.Millisecond
	// MinGrace is the shortest allowed grace. If steps of the leader's clock add up to more than
	// half of MinGrace, the client counts the leases of earlier writes from the last step.
	MinGrace = clock.MinGrace
	// DefaultLocalWindow is the time for which the goroutines of a client hand a lock off among
	// themselves while other processes wait.
	DefaultLocalWindow = 10 * time.Millisecond
	// NoLocalWindow is the [Policy].LocalWindow that allows no local handoff.
	NoLocalWindow time.Duration = -1
	// MaxLocalWindow is the longest allowed LocalWindow.
	MaxLocalWindow = time.Second
	// MaxTime is the longest allowed TTL, MaxTTL, grace, MaxHold or unlock timeout. A longer
	// time is probably a wrong unit, and sums of longer times could overflow a time.Duration.
	MaxTime = 365 * 24 * time.Hour
)

// defaultPolicy is the default of [Policy].Name.
const defaultPolicy = "default"

// Policy has the times and settings of one lock. The zero value of a field means its default.
type Policy struct {
	// Name is the policy's name in metrics, see [Event]. Default "default".
	Name string
	// TTL is the length of the lease. Default [DefaultTTL].
	TTL time.Duration
	// MaxTTL is the longest TTL that a lock may request. Default [DefaultMaxTTL], or TTL if that
	// is longer. An existing entry with a longer TTL, from an earlier policy, is still respected.
	MaxTTL time.Duration
	// Grace is the time that other clients wait after a lease has expired before they delete the
	// entry. So an undetected step of the leader's clock does not end a hold early. Default
	// [DefaultGrace].
	Grace time.Duration
	// MaxHold limits the time of one hold, renewals included; 0 means without limit.
	MaxHold time.Duration
	// KeepParent keeps the lock's parent node when the last contender leaves. A kazoo Lock object
	// on the same path needs the parent.
	KeepParent bool
	// LocalWindow is the time from an entry's grant for which goroutines of one client hand it off
	// among themselves, first come, first served, also while other contenders wait. The goroutines
	// must make the same request. A local handoff costs no request. The first Unlock after that time
	// replaces the entry by one at the end of the queue, in one transaction. For each entry ahead,
	// other processes may wait longer by LocalWindow and the length of one hold. LocalWindow is at
	// most a second, and at most a third of the lock's TTL. Default [DefaultLocalWindow]. With
	// [NoLocalWindow] each Unlock replaces the entry.
	LocalWindow time.Duration
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

// Validate returns an [ErrInvalid] if a field is outside of its limits. A zero TTL, MaxTTL or Grace
// is outside of them: call WithDefaults first.
func (p Policy) Validate() (err error) {
	p.Check(func(key string) bool { return err != nil }, func(key string, value time.Duration, rule string) {
		err = invalid(key, value, "%s", rule)
	})
	return err
}

// Check calls refuse for each field that is outside of its limits: with the field's key in a
// configuration, its value, and the rule. It skips the rules about keys for which refused returns
// true.
func (p Policy) Check(refused func(key string) bool, refuse func(key string, value time.Duration, rule string)) {
	window := p.LocalWindow
	if window == NoLocalWindow {
		window = 0
	}
	for _, t := range []struct {
		key               string
		time, least, most time.Duration
	}{
		{"max_ttl", p.MaxTTL, MinTTL, MaxTime},
		{"ttl", p.TTL, MinTTL, MaxTime},
		{"grace", p.Grace, MinGrace, MaxTime},
		{"max_hold", p.MaxHold, 0, MaxTime},
		{"local_window", window, 0, MaxLocalWindow},
	} {
		if rule := timeRule(t.time, t.least, t.most); rule != "" && !refused(t.key) {
			refuse(t.key, t.time, rule)
		}
	}
	for _, t := range []struct {
		key, than string
		broken    bool
		time      time.Duration
		rule      string
		limit     time.Duration
	}{
		{"ttl", "max_ttl", p.TTL > p.MaxTTL, p.TTL, "must be at most max_ttl, which is %v", p.MaxTTL},
		{"grace", "max_ttl", p.Grace > p.MaxTTL, p.Grace, "must be at most max_ttl, which is %v", p.MaxTTL},
		{"max_hold", "ttl", p.MaxHold != 0 && p.MaxHold < p.TTL, p.MaxHold, "must be at least ttl, which is %v, or 0s for no limit", p.TTL},
	} {
		if t.broken && !refused(t.key) && !refused(t.than) {
			refuse(t.key, t.time, fmt.Sprintf(t.rule, t.limit))
		}
	}
}

// timeRule returns the rule that a duration breaks, "" if none. Durations are whole milliseconds,
// because entries store milliseconds.
func timeRule(d, least, most time.Duration) string {
	switch {
	case d < least:
		return fmt.Sprintf("must be at least %v", least)
	case d > most:
		return fmt.Sprintf("must be at most %v", most)
	case d%time.Millisecond != 0:
		return "must be whole milliseconds"
	}
	return ""
}

// checkDuration returns an ErrInvalid if an argument is outside of its limits, see timeRule.
func checkDuration(argument string, d, least, most time.Duration) error {
	if rule := timeRule(d, least, most); rule != "" {
		return invalid(argument, d, "%s", rule)
	}
	return nil
}

// Policies has the policies of locks. Its method takes a lock's name relative to the root, and must
// be safe for concurrent use. [github.com/holdfast-io/holdfast/lock/policy.Set] implements it with
// the configuration file that the reaper also reads.
type Policies interface {
	Policy(name string) Policy
}
