package reaper

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/rs/zerolog"
)

// Defaults of [Options].
const (
	DefaultSchedule    = "@every 1m"
	DefaultConcurrency = 16
	DefaultBatch       = 200
	DefaultLock        = "holdfast-reaper"
)

// Limits of [Options]. A transaction with more deletes could be too large for the server, and a
// refusal would repeat more work.
const (
	MaxConcurrency = 1000
	MaxBatch       = 500
)

// Options configure a [Reaper]. The zero value of a field means its default.
type Options struct {
	// Policies select the locks to sweep, and have their times and schedules. Default: one policy
	// for all locks, with all defaults.
	Policies *policy.Set
	// Schedule is the schedule of policies without their own, in the format of
	// [policy.ParseSchedule]. Default [DefaultSchedule].
	Schedule string
	// Concurrency is the largest number of reads in flight of a sweep's walk: at most
	// [MaxConcurrency]. The sweep's deletes add up to four transactions and four reads. Default
	// [DefaultConcurrency].
	Concurrency int
	// Batch is the largest number of nodes that one transaction deletes: at most [MaxBatch].
	// Anchors are not counted. Default [DefaultBatch].
	Batch int
	// MaxDeletesPerSecond limits the average number of nodes that all sweeps together delete in a
	// second; anchors are not counted. It also limits Batch. Default 0: no limit.
	MaxDeletesPerSecond int
	// Lock is the name of the lock of the active reaper. Default [DefaultLock].
	Lock string
	// DryRun makes sweeps only report what they would delete. Dry runs take no lock.
	DryRun bool
	// Monitor receives the state of the reaper. Only one reaper may use a monitor at a time.
	// Default: a new one, see [Reaper.Monitor].
	Monitor *Monitor
	// Log receives the log lines of the reaper. By default the reaper does not log.
	Log *zerolog.Logger
}

// withDefaults fills the zero fields, except Monitor.
func (o Options) withDefaults() Options {
	if o.Policies == nil {
		o.Policies = new(policy.Set)
	}
	o.Schedule = cmp.Or(o.Schedule, DefaultSchedule)
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	o.Batch = cmp.Or(o.Batch, DefaultBatch)
	o.Lock = cmp.Or(o.Lock, DefaultLock)
	if o.Log == nil {
		nop := zerolog.Nop()
		o.Log = &nop
	}
	return o
}

// reloaded returns the options with the policies, schedules and limits of a new configuration.
func (o Options) reloaded(next Options) Options {
	o.Policies, o.Schedule, o.Concurrency, o.Batch, o.MaxDeletesPerSecond = next.Policies, next.Schedule, next.Concurrency, next.Batch, next.MaxDeletesPerSecond
	return o.withDefaults()
}

// scheduleOf returns the schedule of a policy: its own, or else that of the options.
func (o Options) scheduleOf(p policy.Rule) string { return cmp.Or(p.Schedule, o.Schedule) }

// schedules returns each schedule once, in the order of the policies.
func (o Options) schedules() (texts []string) {
	for _, p := range o.Policies.All() {
		if text := o.scheduleOf(p); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// Validate returns an error for all options that are not allowed. The error matches
// [lock.ErrInvalid], and has the options' names in the configuration file.
func (o Options) Validate() error {
	o = o.withDefaults()
	var wrong []error
	refuse := func(key string, value, rule any) {
		wrong = append(wrong, fmt.Errorf("%w: reaper.%s %v: %v", lock.ErrInvalid, key, value, rule))
	}
	if _, err := policy.ParseSchedule(o.Schedule); err != nil {
		refuse("schedule", strconv.Quote(o.Schedule), err)
	}
	for _, p := range o.Policies.All() {
		if p.Schedule == "" {
			continue
		}
		if _, err := policy.ParseSchedule(p.Schedule); err != nil {
			wrong = append(wrong, fmt.Errorf("%w: policy %q: schedule %q: %w", lock.ErrInvalid, p.Name, p.Schedule, err))
		}
	}
	if o.Concurrency < 1 || o.Concurrency > MaxConcurrency {
		refuse("concurrency", o.Concurrency, fmt.Sprintf("must be from 1 to %d", MaxConcurrency))
	}
	if o.Batch < 1 || o.Batch > MaxBatch {
		refuse("batch", o.Batch, fmt.Sprintf("must be from 1 to %d", MaxBatch))
	}
	if o.MaxDeletesPerSecond < 0 {
		refuse("max_deletes_per_second", o.MaxDeletesPerSecond, "must be at least 1, or 0 for no bound")
	}
	if err := znode.CheckName(o.Lock); err != nil {
		wrong = append(wrong, fmt.Errorf("%w: reaper.lock: %w", lock.ErrInvalid, err))
	}
	return errors.Join(wrong...)
}
