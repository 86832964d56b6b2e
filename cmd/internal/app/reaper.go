package app

import (
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/reaper"
)

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
