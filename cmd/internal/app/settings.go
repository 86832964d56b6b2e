package app

import (
	"cmp"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
)

// Setting is a key of a policy, with its value as a configuration file has it.
type Setting struct {
	Key   string
	Value any // a string or a bool
}

// Settings returns the settings of a policy besides its name and its match. schedule is for a policy
// without one.
func Settings(p policy.Rule, schedule string) []Setting {
	return []Setting{
		{"ttl", p.TTL.String()}, {"max_ttl", p.MaxTTL.String()}, {"grace", p.Grace.String()}, {"max_hold", none(p.MaxHold, 0)},
		{"keep_parent", p.KeepParent}, {"local_window", none(p.LocalWindow, lock.NoLocalWindow)}, {"orphan_after", p.OrphanAfter.String()},
		{"schedule", cmp.Or(p.Schedule, schedule)},
	}
}

// none returns a duration as a configuration file has it, where off means none.
func none(d, off time.Duration) string {
	if d == off {
		return "none"
	}
	return d.String()
}
