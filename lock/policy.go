package lock

import (
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/rule"
	"github.com/holdfast-io/holdfast/lock/znode"
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
	// NoLocalWindow is the local window that allows no local handoff, in a [Policy] and for
	// [WithLocalWindow]; in a file it is written none.
	NoLocalWindow = rule.NoLocalWindow
	// MaxLocalWindow is the longest allowed LocalWindow.
	MaxLocalWindow = rule.MaxLocalWindow
	// MaxTime is the longest allowed TTL, MaxTTL, grace, MaxHold or unlock timeout. A longer
	// time is probably a wrong unit, and sums of longer times could overflow a time.Duration.
	MaxTime = 365 * 24 * time.Hour
)

// defaultPolicy is the default of [Policy].Name.
const defaultPolicy = "default"

// Policy has the times and settings of one lock. The zero value of a field means its default. The tags
// have the key of each field in a configuration file, for package config.
type Policy struct {
	// Name is the policy's name in metrics, see [Event]. Default "default".
	Name string `key:"name" rule:"given"`
	// TTL is the length of the lease. Default [DefaultTTL].
	TTL time.Duration `key:"ttl" rule:"positive"`
	// MaxTTL is the longest TTL that a lock may request. Default [DefaultMaxTTL], or TTL if that
	// is longer. An existing entry with a longer TTL, from an earlier policy, is still respected.
	MaxTTL time.Duration `key:"max_ttl" rule:"positive"`
	// Grace is the time that other clients wait after a lease has expired before they delete the
	// entry. So an undetected step of the leader's clock does not end a hold early. Default
	// [DefaultGrace].
	Grace time.Duration `key:"grace" rule:"positive"`
	// MaxHold limits the time of one hold, renewals included; 0 means without limit.
	MaxHold time.Duration `key:"max_hold"`
	// KeepParent keeps the lock's parent node when the last contender leaves. A kazoo Lock object
	// on the same path needs the parent.
	KeepParent bool `key:"keep_parent"`
	// LocalWindow is the time from an entry's grant for which goroutines of one client hand it off
	// among themselves, first come, first served, also while other contenders wait. The goroutines
	// must make the same request. A local handoff costs no request. The first Unlock after that time
	// replaces the entry by one at the end of the queue, in one transaction. For each entry ahead,
	// other processes may wait longer by LocalWindow and the length of one hold. LocalWindow is at
	// most a second, and at most a third of the lock's TTL. Default [DefaultLocalWindow]. With
	// [NoLocalWindow] each Unlock replaces the entry.
	LocalWindow time.Duration `key:"local_window" rule:"window"`
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

// Validate returns an [ErrInvalid] if a field is outside of its limits. A zero TTL, MaxTTL, Grace or
// LocalWindow is outside of them: call WithDefaults first.
func (p Policy) Validate() error {
	var broken rule.Broken
	broken.Check("max_ttl", "", p.MaxTTL, rule.Duration(p.MaxTTL, MinTTL, MaxTime))
	broken.Check("ttl", "", p.TTL, rule.Duration(p.TTL, MinTTL, MaxTime))
	broken.Check("grace", "", p.Grace, rule.Duration(p.Grace, MinGrace, MaxTime))
	broken.Check("max_hold", "", p.MaxHold, rule.Duration(p.MaxHold, 0, MaxTime))
	broken.Check("local_window", "", p.LocalWindow, rule.Window(p.LocalWindow))
	broken.Check("ttl", "max_ttl", p.TTL, rule.AtMost(p.TTL, "max_ttl", p.MaxTTL))
	broken.Check("grace", "max_ttl", p.Grace, rule.AtMost(p.Grace, "max_ttl", p.MaxTTL))
	if p.MaxHold != 0 && p.MaxHold < p.TTL {
		broken.Check("max_hold", "ttl", p.MaxHold, fmt.Sprintf("must be at least ttl, which is %v, or 0s for no limit", p.TTL))
	}
	if len(broken) > 0 {
		return fmt.Errorf("%w: %w", ErrInvalid, broken)
	}
	return nil
}

// checkDuration returns an ErrInvalid if an argument is outside of its limits, see rule.Duration.
func checkDuration(argument string, d, least, most time.Duration) error {
	if broken := rule.Duration(d, least, most); broken != "" {
		return invalid(argument, d, "%s", broken)
	}
	return nil
}

// Policies has the policies of locks. Its method takes a lock's name relative to the root, and must
// be safe for concurrent use. [github.com/holdfast-io/holdfast/lock/policy.Set] implements it,
// and package config reads one from the configuration file that the reaper also reads.
type Policies interface {
	Policy(name string) Policy
}

// Largest numbers and sizes. Those of times are beside [DefaultTTL].
const (
	// MaxAll is the number of locks in one [All]: their entries must fit into one transaction.
	MaxAll = 64
	// MaxAny is the number of locks in one [Any]: a waiter has an entry in each queue.
	MaxAny = 64
	// MaxPermits is the number of permits of a semaphore.
	MaxPermits = znode.MaxPermits
	// MaxPriority is the priority of a candidate, see [Election.WithPriority].
	MaxPriority = znode.MaxPermits
	// MaxReason is the size of a [Client.Revoke]'s reason, in bytes.
	MaxReason = znode.MaxReason
	// MaxTxn is the total size of a [Hold.Txn]'s operations: the bytes of their paths, data and ACLs,
	// and 64 more for each operation. ZooKeeper cuts connections that send about 1 MB at once, or less
	// if jute.maxbuffer is lower.
	MaxTxn = 768 << 10
)
