package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
)

// ruleKeys is [policy.Rule] with the keys of its fields.
type ruleKeys struct {
	Name        string        `key:"name" rule:"given"`
	Match       string        `key:"match" rule:"pattern"`
	TTL         time.Duration `key:"ttl" rule:"positive"`
	MaxTTL      time.Duration `key:"max_ttl" rule:"positive"`
	Grace       time.Duration `key:"grace" rule:"positive"`
	MaxHold     time.Duration `key:"max_hold"`
	KeepParent  bool          `key:"keep_parent"`
	LocalWindow time.Duration `key:"local_window" rule:"window"`
	OrphanAfter time.Duration `key:"orphan_after" rule:"positive"`
	Schedule    string        `key:"schedule" rule:"given"`
}

func (k ruleKeys) rule() policy.Rule {
	r := policy.Rule{
		Policy: lock.Policy{
			Name: k.Name, TTL: k.TTL, MaxTTL: k.MaxTTL, Grace: k.Grace, MaxHold: k.MaxHold,
			KeepParent: k.KeepParent, LocalWindow: k.LocalWindow,
		},
		OrphanAfter: k.OrphanAfter, Schedule: k.Schedule,
	}
	if k.Match != "" {
		r.Match = policy.MustPattern(k.Match) // the decoder has checked it
	}
	return r
}

// newSet returns the set of the policies at path. It adds the mistakes, without those that only follow
// from a mistake that the decoder has found.
func (d *decoder) newSet(each []ruleKeys, path string) *policy.Set {
	rules := make([]policy.Rule, len(each))
	for i, keys := range each {
		rules[i] = keys.rule()
	}
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
