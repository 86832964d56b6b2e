package policy

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/calendar"
	"github.com/holdfast-io/holdfast/lock/internal/rule"
)

const (
	// DefaultOrphanAfter is the default of [Rule].OrphanAfter.
	DefaultOrphanAfter = 5 * time.Minute
	// MinOrphanAfter is the shortest OrphanAfter. Holdfast creates a parent and an entry in one
	// transaction, but other libraries use two requests. If the reaper removes the parent in
	// between, their client fails or tries again.
	MinOrphanAfter = time.Second

	defaultName = "default"
	everything  = "**"
)

// Rule gives the locks that match a pattern their policy, and the reaper's settings for them. Name
// and Match are required. Any other zero field means its default.
type Rule struct {
	// Match selects the locks.
	Match Pattern `key:"match" rule:"pattern"`
	// Policy is the policy of the locks. Its Name also identifies the rule in logs and reports. It is
	// unique in a set, printable and at most 64 bytes long. The name "default" is reserved for the
	// rule that matches **.
	lock.Policy
	// OrphanAfter is the age at which the reaper removes an empty parent. Default
	// [DefaultOrphanAfter].
	OrphanAfter time.Duration `key:"orphan_after" rule:"positive"`
	// Schedule is the schedule of the reaper's sweeps of these locks, in the form of
	// [ParseSchedule]. Empty means the reaper's own schedule.
	Schedule string `key:"schedule" rule:"given"`
}

// withDefaults returns the rule with its zero fields set to the defaults. The name has none.
func (r Rule) withDefaults() Rule {
	name := r.Name
	r.Policy = r.Policy.WithDefaults()
	r.Name = name
	r.OrphanAfter = cmp.Or(r.OrphanAfter, DefaultOrphanAfter)
	return r
}

// builtin returns the rule of locks that no rule of a set matches.
func builtin() Rule {
	return Rule{Match: Pattern{everything}, Policy: lock.Policy{Name: defaultName}}.withDefaults()
}

// check adds the mistakes of the i-th rule.
func (m *mistakes) check(i int, r Rule, names []string) {
	refuse := func(key, with string, value any, reason string) {
		*m = append(*m, Mistake{i, key, fmt.Sprint(value), reason, with})
	}
	value, reason := rule.Name(list, i, names)
	switch {
	case reason != "":
		refuse("name", "", value, reason)
	case r.Name == defaultName && r.Match.text != everything:
		refuse("name", "match", r.Name, "is kept for the policy that matches "+everything)
	}
	if r.Match == (Pattern{}) {
		refuse("match", "", "", "must be given")
	}
	var broken rule.Broken
	errors.As(r.Policy.Validate(), &broken)
	for _, b := range broken {
		refuse(b.Key, b.With, b.Value, b.Rule)
	}
	if reason := rule.Duration(r.OrphanAfter, MinOrphanAfter, lock.MaxTime); reason != "" {
		refuse("orphan_after", "", r.OrphanAfter, reason)
	}
	if r.Schedule != "" {
		if err := calendar.Check(r.Schedule); err != nil {
			refuse("schedule", "", rule.Plain(r.Schedule), err.Error())
		}
	}
}
