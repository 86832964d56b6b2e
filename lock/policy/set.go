package policy

import (
	"fmt"
	"slices"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/rule"
)

// MaxRules is the largest number of rules in a [Set]: a look-up of a lock's policy compares with each.
const MaxRules = 1000

// Set is an ordered list of rules. The first rule that matches a lock's name applies. If none does, a
// policy named "default" applies, with all defaults; the zero Set and a nil Set have only that one. A
// Set does not change and is safe for concurrent use. It implements [lock.Policies].
type Set struct {
	rules []Rule
}

// NewSet returns a set of the rules, in that order. The error is an [*Error] with all mistakes; the
// package documentation says what is allowed.
func NewSet(rules ...Rule) (*Set, error) {
	if len(rules) > MaxRules {
		return nil, &Error{[]Mistake{{Index: -1, Reason: fmt.Sprintf("must be at most %d, not %d", MaxRules, len(rules))}}}
	}
	s := new(Set)
	var names []string
	for _, r := range rules {
		s.rules = append(s.rules, r.withDefaults())
		names = append(names, r.Name)
	}
	var m mistakes
	for i, r := range s.rules {
		m.check(i, r, names)
	}
	reached := s.checkReach(&m)
	if len(m) > 0 {
		slices.SortStableFunc(m, func(a, b Mistake) int { return a.Index - b.Index })
		return nil, &Error{m}
	}
	// The default rule is last. It is omitted if the given rules match every name.
	if _, found := uncovered(Pattern{everything}, reached...); found {
		s.rules = append(s.rules, builtin())
	}
	return s, nil
}

// checkReach adds a mistake for each rule that can never apply. It returns the patterns of the rules
// that can apply.
func (s *Set) checkReach(m *mistakes) (reached []Pattern) {
	for i, r := range s.rules {
		if r.Match == (Pattern{}) {
			continue
		}
		if _, found := uncovered(r.Match, reached...); found {
			reached = append(reached, r.Match)
			continue
		}
		by := "the policies above it together match"
		covers := func(q Rule) bool { return q.Match.Covers(r.Match) }
		if j := slices.IndexFunc(s.rules[:i], covers); j >= 0 {
			by = fmt.Sprintf("%s[%d] (%s) above it matches", list, j, rule.Plain(s.rules[j].Match.text))
		}
		*m = append(*m, Mistake{i, "match", rule.Plain(r.Match.text), fmt.Sprintf("can never apply: %s every such name, and the first match wins", by), ""})
	}
	return reached
}

// Policy returns the policy of the named lock. The name is relative to the root. Policy does not
// allocate.
func (s *Set) Policy(name string) lock.Policy { return s.For(name).Policy }

// For returns the rule that applies to the named lock. The name is relative to the root.
func (s *Set) For(name string) Rule {
	if s != nil {
		for i := range s.rules {
			if s.rules[i].Match.Match(name) {
				return s.rules[i]
			}
		}
	}
	return builtin()
}

// All returns the rules in order, with all fields filled in. The last one is the default rule, unless
// the given rules match every name.
func (s *Set) All() []Rule {
	if s == nil || len(s.rules) == 0 {
		return []Rule{builtin()}
	}
	return slices.Clone(s.rules)
}
