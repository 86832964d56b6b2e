package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

const (
	// DefaultOrphanAfter is the default of [Policy].OrphanAfter.
	DefaultOrphanAfter = 5 * time.Minute
	// MinOrphanAfter is the shortest OrphanAfter. Holdfast creates a parent and an entry in one
	// transaction, but other libraries use two requests. If the reaper removes the parent in
	// between, their client fails or tries again.
	MinOrphanAfter = time.Second

	// maxPolicyName limits the length of a name, in bytes.
	maxPolicyName = 64

	defaultName = "default"
	everything  = "**"
)

// Policy is one rule of a [Set]: the settings of the locks that it matches. Name and Match are
// required. Any other zero field means its default.
type Policy struct {
	// Name identifies the policy in logs and reports. It is unique in a set, printable and at most
	// 64 bytes long. The name "default" is reserved for the policy that matches **.
	Name string `key:"name" rule:"given"`
	// Match selects the locks of the policy.
	Match Pattern `key:"match" rule:"pattern"`
	// Policy has the settings that package lock needs: TTL, MaxTTL, Grace, MaxHold, KeepParent
	// and LocalWindow. NewSet sets Policy.Name to the Name above.
	lock.Policy
	// OrphanAfter is the age at which the reaper removes an empty parent. Default
	// [DefaultOrphanAfter].
	OrphanAfter time.Duration `key:"orphan_after" rule:"positive"`
	// Schedule is the schedule of the reaper's sweeps of the policy's locks, in the form of
	// [ParseSchedule]. Empty means the reaper's own schedule.
	Schedule string `key:"schedule" rule:"given"`
}

// lockKeys is [lock.Policy] with the keys of its fields.
type lockKeys struct {
	Name        string
	TTL         time.Duration `key:"ttl" rule:"positive"`
	MaxTTL      time.Duration `key:"max_ttl" rule:"positive"`
	Grace       time.Duration `key:"grace" rule:"positive"`
	MaxHold     time.Duration `key:"max_hold"`
	KeepParent  bool          `key:"keep_parent"`
	LocalWindow time.Duration `key:"local_window" rule:"window"`
}

// withDefaults returns the policy with its zero fields set to the defaults.
func (p Policy) withDefaults() Policy {
	p.Policy.Name = p.Name
	p.Policy = p.Policy.WithDefaults()
	p.OrphanAfter = cmp.Or(p.OrphanAfter, DefaultOrphanAfter)
	return p
}

// builtin returns the policy of locks that no policy of a set matches.
func builtin() Policy {
	return Policy{Name: defaultName, Match: Pattern{everything}}.withDefaults()
}

// check adds the mistakes of the policy itself. checkName has checked the form of its name.
func (p Policy) check(m *mistakes, path string) {
	if m.has(path) {
		return
	}
	sound := func(keys ...string) bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return m.has(path + "." + key) })
	}
	refuse := func(key string, value any, rule string, args ...any) {
		m.add(path+"."+key, fmt.Sprint(value), rule, args...)
	}

	if p.Name == defaultName && p.Match.text != everything && sound("name", "match") {
		refuse("name", p.Name, "is kept for the policy that matches %s", everything)
	}
	if sound("match") && p.Match == (Pattern{}) {
		refuse("match", "", "must be given")
	}
	p.Policy.Check(func(key string) bool { return !sound(key) }, func(key string, value time.Duration, rule string) {
		refuse(key, value, "%s", rule)
	})
	if rule := checkTime(p.OrphanAfter, MinOrphanAfter, lock.MaxTime); rule != nil {
		refuse("orphan_after", p.OrphanAfter, "%v", rule)
	}
	if sound("schedule") && p.Schedule != "" {
		if err := checkSchedule(p.Schedule); err != nil {
			refuse("schedule", plain(p.Schedule), "%v", err)
		}
	}
}
