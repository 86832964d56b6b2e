package policy

import (
	"fmt"

	"github.com/holdfast-io/holdfast/lock/internal/rule"
)

// list is the key of the rules in a configuration.
const list = "policies"

// Mistake is one mistake in the rules of a [Set].
type Mistake struct {
	Index  int    // index of the rule in the set; -1 for the set as a whole
	Key    string // the field's key in a configuration, such as max_ttl; "" for the set as a whole
	Value  string // the value; "" if it does not help
	Reason string // what is wrong with the value
	With   string // key of another field of the rule, if only the two together are wrong
}

// String returns the mistake in one line, such as "policies[2].ttl: 50ms: must be at least 100ms". It
// omits empty parts.
func (m Mistake) String() string {
	key := list
	if m.Index >= 0 {
		key = fmt.Sprintf("%s[%d].%s", list, m.Index, m.Key)
	}
	return rule.Line(key, m.Value, m.Reason)
}

// Error has all mistakes in the rules of a [Set], at least one. Find it with [errors.As].
type Error struct {
	Mistakes []Mistake
}

// Error returns the mistakes, one a line.
func (e *Error) Error() string { return rule.Lines(e.Mistakes) }

// mistakes collects the mistakes of the rules that NewSet gets.
type mistakes []Mistake
