package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-io/holdfast/lock"
)

const (
	// DefaultOrphanAfter is the default of [Policy].OrphanAfter.
	DefaultOrphanAfter = 5 * time.Minute
	// MinOrphanAfter is the shortest OrphanAfter. Holdfast creates a parent and an entry in one
	// transaction, but other libraries use two requests. If the reaper removes the parent in
	// between, their client fails or tries again.
	MinOrphanAfter = time.Second

	// maxPolicies limits the number of policies that a look-up of a lock's policy compares.
	maxPolicies = 1000
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
	// Policy has the settings that package lock needs: TTL, MaxTTL, Grace, MaxHold, KeepParent,
	// LocalWindow and Idle. NewSet sets Policy.Name to the Name above.
	lock.Policy
	// OrphanAfter is the age at which the reaper removes an empty parent. Default
	// [DefaultOrphanAfter].
	OrphanAfter time.Duration `key:"orphan_after" rule:"positive"`
	// Schedule is the schedule of the reaper's sweeps of the policy's locks, in the form of
	// [ParseSchedule]. Empty means the reaper's own schedule.
	Schedule string `key:"schedule" rule:"given"`
}

// policyKeys is [lock.Policy] with the keys of its fields.
type policyKeys struct {
	Name        string
	TTL         time.Duration `key:"ttl" rule:"positive"`
	MaxTTL      time.Duration `key:"max_ttl" rule:"positive"`
	Grace       time.Duration `key:"grace" rule:"positive"`
	MaxHold     time.Duration `key:"max_hold"`
	KeepParent  bool          `key:"keep_parent"`
	LocalWindow time.Duration `key:"local_window" rule:"window"`
	Idle        time.Duration `key:"idle"`
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

// Set is an ordered list of policies. The first policy that matches a lock's name applies. If none
// does, a policy named "default" applies, with all defaults; the zero Set and a nil Set have only
// that one. A Set does not change and is safe for concurrent use. It implements [lock.Policies].
type Set struct {
	policies []Policy
}

// NewSet returns a set of the policies, in that order. The error is a [*ConfigError] with all
// mistakes; the package documentation has the rules.
func NewSet(policies ...Policy) (*Set, error) {
	var m mistakes
	s := newSet(policies, "policies", &m)
	if err := m.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// newSet fills in the defaults and checks the rules. It adds the mistakes to m, and skips values that
// m already has a mistake about. list is the key of the policies, for messages.
func newSet(policies []Policy, list string, m *mistakes) *Set {
	if len(policies) > maxPolicies {
		m.add(list, "", "must be at most %d, not %d", maxPolicies, len(policies))
		return nil
	}
	s := new(Set)
	var names []string
	for _, p := range policies {
		s.policies = append(s.policies, p.withDefaults())
		names = append(names, p.Name)
	}
	for i, p := range s.policies {
		m.checkName(list, i, names)
		p.check(m, fmt.Sprintf("%s[%d]", list, i))
	}
	reached := s.checkReach(m, list)
	// The default policy is last. It is omitted if the given policies match every name.
	if _, found := uncovered(Pattern{everything}, reached...); found {
		s.policies = append(s.policies, builtin())
	}
	return s
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
	if p.LocalWindow == lock.NoLocalWindow {
		p.LocalWindow = 0
	}
	for _, t := range []struct {
		key               string
		time, least, most time.Duration
	}{
		{"ttl", p.TTL, lock.MinTTL, lock.MaxTime},
		{"max_ttl", p.MaxTTL, lock.MinTTL, lock.MaxTime},
		{"grace", p.Grace, lock.MinGrace, lock.MaxTime},
		{"max_hold", p.MaxHold, 0, lock.MaxTime},
		{"local_window", p.LocalWindow, 0, lock.MaxLocalWindow},
		{"idle", p.Idle, 0, lock.MaxTime},
		{"orphan_after", p.OrphanAfter, MinOrphanAfter, lock.MaxTime},
	} {
		if rule := checkTime(t.time, t.least, t.most); rule != nil {
			refuse(t.key, t.time, "%v", rule)
		}
	}
	if sound("ttl", "max_ttl") && p.TTL > p.MaxTTL {
		refuse("ttl", p.TTL, "must be at most max_ttl, which is %v", p.MaxTTL)
	}
	if sound("grace", "max_ttl") && p.Grace > p.MaxTTL {
		refuse("grace", p.Grace, "must be at most max_ttl, which is %v", p.MaxTTL)
	}
	if sound("max_hold", "ttl") && p.MaxHold != 0 && p.MaxHold < p.TTL {
		refuse("max_hold", p.MaxHold, "must be at least ttl, which is %v, or 0s for no limit", p.TTL)
	}
	if sound("schedule") && p.Schedule != "" {
		if err := checkSchedule(p.Schedule); err != nil {
			refuse("schedule", plain(p.Schedule), "%v", err)
		}
	}
}

// checkReach adds a mistake for each policy that can never apply. It returns the patterns of the
// policies that can apply.
func (s *Set) checkReach(m *mistakes, list string) (reached []Pattern) {
	for i, p := range s.policies {
		if p.Match == (Pattern{}) {
			continue
		}
		if _, found := uncovered(p.Match, reached...); found {
			reached = append(reached, p.Match)
			continue
		}
		by := "the policies above it together match"
		covers := func(q Policy) bool { return q.Match.Covers(p.Match) }
		if j := slices.IndexFunc(s.policies[:i], covers); j >= 0 {
			by = fmt.Sprintf("%s[%d] (%s) above it matches", list, j, plain(s.policies[j].Match.text))
		}
		m.add(fmt.Sprintf("%s[%d].match", list, i), plain(p.Match.text), "can never apply: %s every such name, and the first match wins", by)
	}
	return reached
}

// Policy returns the settings that package lock needs for the named lock. The name is relative to
// the root. Policy does not allocate.
func (s *Set) Policy(name string) lock.Policy { return s.For(name).Policy }

// For returns the policy that applies to the named lock. The name is relative to the root.
func (s *Set) For(name string) Policy {
	if s != nil {
		for i := range s.policies {
			if s.policies[i].Match.Match(name) {
				return s.policies[i]
			}
		}
	}
	return builtin()
}

// All returns the policies in order, with all fields filled in. The last one is the default policy,
// unless the given policies match every name.
func (s *Set) All() []Policy {
	if s == nil || len(s.policies) == 0 {
		return []Policy{builtin()}
	}
	return slices.Clone(s.policies)
}

// ParseSchedule parses the schedule of the reaper's sweeps. It has one of these forms:
//
//   - five fields of cron: minute, hour, day of month, month, day of week;
//   - a descriptor, such as @hourly;
//   - "@every 90s".
//
// A time zone may precede each form ("CRON_TZ=Europe/Berlin 0 4 * * *"). The default is the
// machine's local time.
//
// ParseSchedule refuses a time zone that this machine does not know; a [Set] and a file may have an
// unknown time zone, because clients need no schedule. It also refuses schedules that the cron
// package would not run as written: an interval of @every with a fraction of a second, and a day
// that never comes.
//
// A time of day that a change to summer time skips does not occur on that day, and one that the
// change back repeats occurs twice. A weekly schedule can miss a week: in Havana, midnight of one
// Sunday in March does not exist. UTC ("CRON_TZ=UTC 30 2 * * *") and @every avoid this.
func ParseSchedule(text string) (cron.Schedule, error) {
	if err := checkSchedule(text); err != nil {
		return nil, err
	}
	zone, _, _ := splitZone(text)
	if _, err := time.LoadLocation(zone); err != nil {
		return nil, fmt.Errorf("must have a time zone that this machine knows, such as UTC or Europe/Berlin: %w", err)
	}
	return cron.ParseStandard(text)
}

// checkSchedule checks a schedule as ParseSchedule does, but accepts any time zone.
func checkSchedule(text string) error {
	_, spec, err := splitZone(text)
	if err != nil {
		return err
	}
	schedule, err := cron.ParseStandard(spec)
	if err != nil {
		return fmt.Errorf("must be a cron expression or an interval such as @every 1m: %w", err)
	}
	if interval, ok := strings.CutPrefix(spec, "@every "); ok {
		every, err := time.ParseDuration(interval)
		if err != nil || every < time.Second || every%time.Second != 0 {
			return errors.New("must be at least one second and whole seconds: cron would round it")
		}
	}
	if !fires(schedule) {
		return errors.New("must have a time that comes: no day and hour fit it")
	}
	return nil
}

// splitZone splits a schedule into its time zone, "" for none, and the rest.
func splitZone(text string) (zone, spec string, err error) {
	if !strings.HasPrefix(text, "TZ=") && !strings.HasPrefix(text, "CRON_TZ=") {
		return "", text, nil
	}
	zone, spec, found := strings.Cut(text[strings.Index(text, "=")+1:], " ")
	switch {
	case !found: // the cron package would panic
		err = errors.New("must have a schedule after the time zone")
	case strings.Contains(spec, "TZ="):
		err = errors.New("must have one time zone")
	}
	return zone, strings.TrimSpace(spec), err
}

// fires reports whether the schedule ever fires. The cron package searches five years. The search
// begins on a fixed day of a leap year, so that the result does not depend on today's date.
func fires(schedule cron.Schedule) bool {
	if s, ok := schedule.(*cron.SpecSchedule); ok && (s.Minute == 0 || s.Hour == 0) {
		return false // such as ",": the search would take long
	}
	return !schedule.Next(time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero()
}
