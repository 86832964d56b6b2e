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
	// DefaultOrphanAfter is how old an empty lock parent must be before the
	// reaper removes it, where a policy does not say.
	DefaultOrphanAfter = 5 * time.Minute
	// MinOrphanAfter is the shortest OrphanAfter that is accepted. Our own
	// contenders make a parent and their entry in one transaction, but those
	// of other libraries make them one after the other: a parent that is
	// removed in between costs them an error or another try.
	MinOrphanAfter = time.Second

	// maxPolicies bounds what a look-up on the path of a lock goes through.
	maxPolicies = 1000
	// maxPolicyName bounds the names, in bytes.
	maxPolicyName = 64

	defaultName = "default"
	everything  = "**"
)

// Policy is one rule of a [Set]: what applies to the locks whose names it
// matches. The zero value of a field means its default, but Name and Match must
// be given.
type Policy struct {
	// Name stands for the policy in logs and reports. It is unique in a set,
	// printable and at most 64 bytes long. The name "default" is kept for the
	// policy that matches **.
	Name string
	// Match says which locks the policy is for.
	Match Pattern
	// Policy is what a lock itself needs of it: TTL, MaxTTL, Grace, MaxHold,
	// KeepParent, LocalWindow and Idle. Its own Name is set to the one above.
	lock.Policy
	// OrphanAfter is how old an empty lock parent must be before the reaper
	// removes it. Default [DefaultOrphanAfter].
	OrphanAfter time.Duration
	// Schedule says when the reaper sweeps these locks, as [ParseSchedule]
	// takes it. Empty: when the reaper's own schedule says.
	Schedule string
}

// withDefaults returns the policy with its zero fields filled.
func (p Policy) withDefaults() Policy {
	p.Policy.Name = p.Name
	p.Policy = p.Policy.WithDefaults()
	p.OrphanAfter = cmp.Or(p.OrphanAfter, DefaultOrphanAfter)
	return p
}

// builtin is what applies to the locks that no policy of a set matches.
func builtin() Policy {
	return Policy{Name: defaultName, Match: Pattern{everything}}.withDefaults()
}

// Set is an ordered list of policies. The first that matches a lock's name
// applies to it; where none does, one named "default" applies, in which
// everything has its default. The zero Set and a nil one hold only that. A Set
// does not change and is safe for concurrent use. It satisfies
// [lock.Policies].
type Set struct {
	policies []Policy
}

// NewSet makes a set of the policies in the order given. The error is a
// [*ConfigError] with all that is wrong, by the rules in the package
// documentation.
func NewSet(policies ...Policy) (*Set, error) {
	var m mistakes
	s := newSet(policies, "policies", &m)
	if err := m.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// newSet fills in the defaults and checks the rules, for the list with that path. It passes
// over what m has mistakes about already.
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
	// The one that applies to the rest of the names goes last, if there are any.
	if _, found := uncovered(Pattern{everything}, reached...); found {
		s.policies = append(s.policies, builtin())
	}
	return s
}

// check adds what is wrong with the policy by itself, but for its name.
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

// checkTime returns the rule that the time breaks. Times go over the
// wire, and to people, in whole milliseconds.
func checkTime(t, least, most time.Duration) error {
	switch {
	case t < least:
		return fmt.Errorf("must be at least %v", least)
	case t > most:
		return fmt.Errorf("must be at most %v", most)
	case t%time.Millisecond != 0:
		return errors.New("must be in whole milliseconds")
	}
	return nil
}

// checkReach adds the policies that can never apply, and returns the patterns
// of the others.
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

// Policy returns what a lock of that name, relative to the root, needs to know.
// It does not allocate.
func (s *Set) Policy(name string) lock.Policy { return s.For(name).Policy }

// For returns the policy that applies to the lock of that name, relative to the
// root.
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

// All returns the policies in their order, with all fields filled in. The last
// one is the default policy, unless those before it match every name.
func (s *Set) All() []Policy {
	if s == nil || len(s.policies) == 0 {
		return []Policy{builtin()}
	}
	return slices.Clone(s.policies)
}

// ParseSchedule parses when the reaper sweeps: five fields of cron (minute,
// hour, day of month, month, day of week), a descriptor such as @hourly, or
// "@every 90s", each with an optional time zone before it
// ("CRON_TZ=Europe/Berlin 0 4 * * *"); without one, the machine's local time
// applies. It refuses what the cron package takes but would not run as it
// reads: an interval of @every that is not a whole number of seconds, which it
// rounds, and a day that never comes. It also refuses a time zone that this
// machine does not know. A [Set], and a file, may have one: clients need no
// schedule, so the reaper and "holdfast config check" look it up.
//
// Where clocks change for the summer, a time of day in the hour that is skipped does
// not come on that day, and one in the hour that is repeated comes twice: 02:30 in
// Berlin comes twice in the last night of October. A weekly schedule can miss a week: in
// Havana, the midnight of one Sunday in March does not exist. Use UTC
// ("CRON_TZ=UTC 30 2 * * *") or @every, which know no such days.
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

// checkSchedule is ParseSchedule, but for the time zone, which may be any.
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

// splitZone splits a schedule in its time zone, "" for none, and the rest.
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

// fires reports whether the schedule ever comes. The cron package looks five
// years ahead; from a fixed date, so that an expression is right or wrong on
// every day alike, and from one in a leap year.
func fires(schedule cron.Schedule) bool {
	if s, ok := schedule.(*cron.SpecSchedule); ok && (s.Minute == 0 || s.Hour == 0) {
		return false // such as ",": looking would take long
	}
	return !schedule.Next(time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero()
}
