package policy

import (
	"fmt"
	"slices"

	"github.com/holdfast-io/holdfast/lock"
)

// maxPolicies limits the number of policies that a look-up of a lock's policy compares.
const maxPolicies = 1000

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
