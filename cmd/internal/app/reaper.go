package app

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/reaper"
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

// ReaperOptions returns the options of a root's reaper from the root's configuration.
func ReaperOptions(cfg *config.Config) reaper.Options {
	r := cfg.Reaper
	return reaper.Options{
		Policies: cfg.Policies, Schedule: r.Schedule, Concurrency: r.Concurrency, Batch: r.Batch,
		MaxDeletesPerSecond: r.MaxDeletesPerSecond, Lock: r.Lock,
	}
}

// ForEachRoot calls check with the configuration of each root, and returns the errors with the
// names of the roots.
func ForEachRoot(cfg *config.Config, check func(config.Named) error) error {
	var wrong []error
	for _, n := range cfg.Each() {
		err := check(n)
		if err != nil && n.Name != "" {
			err = fmt.Errorf("root %q: %w", n.Name, err)
		}
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}

// CheckReapers returns an error if package reaper refuses the options of a root.
func CheckReapers(cfg *config.Config) error {
	return ForEachRoot(cfg, func(n config.Named) error { return ReaperOptions(n.Config).Validate() })
}
