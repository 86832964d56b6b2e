package app

import (
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/reaper"
)

// ReaperOptions are what the configuration of one root says of its reaper.
func ReaperOptions(cfg *policy.Config) reaper.Options {
	r := cfg.Reaper
	return reaper.Options{
		Policies: cfg.Policies, Schedule: r.Schedule, Concurrency: r.Concurrency, Batch: r.Batch,
		MaxDeletesPerSecond: r.MaxDeletesPerSecond, Lock: r.Lock,
	}
}

// ForEachRoot calls check with the configuration of each root, and returns what it says
// with the names of the roots.
func ForEachRoot(cfg *policy.Config, check func(*policy.Config) error) error {
	var wrong []error
	for _, n := range cfg.Each() {
		err := check(n.Config)
		if err != nil && n.Name != "" {
			err = fmt.Errorf("root %q: %w", n.Name, err)
		}
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}

// CheckReapers reports what package reaper does not take, of all roots.
func CheckReapers(cfg *policy.Config) error {
	return ForEachRoot(cfg, func(c *policy.Config) error { return ReaperOptions(c).Validate() })
}
