package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-io/holdfast/lock/policy"
)

// newSet returns the set of the policies at path. It adds the mistakes, without those that only follow
// from a mistake that the decoder has found.
func (d *decoder) newSet(rules []policy.Rule, path string) *policy.Set {
	set, err := policy.NewSet(rules...)
	var wrong *policy.Error
	if !errors.As(err, &wrong) {
		return set
	}
	found := maps.Clone(d.keys) // those of the decoder, and not of the loop below
	for _, m := range wrong.Mistakes {
		if m.Index < 0 {
			d.add(path, m.Value, "%s", m.Reason)
			continue
		}
		at := fmt.Sprintf("%s[%d]", path, m.Index)
		if !slices.ContainsFunc([]string{at, at + "." + m.Key, at + "." + m.With}, func(key string) bool { return found[key] }) {
			d.add(at+"."+m.Key, m.Value, "%s", m.Reason)
		}
	}
	return nil
}
