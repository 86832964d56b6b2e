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
	// Policies have the locks to sweep, their times and schedules. Default: all locks, with all
	// defaults.
	Policies *policy.Set
	// Schedule is the schedule of policies without their own, in the format of
	// [policy.ParseSchedule]. Default [DefaultSchedule].
	Schedule string
	// Concurrency is the largest number of a sweep's reads in flight, besides a few transactions
	// of deletes: at most [MaxConcurrency]. Default [DefaultConcurrency].
	Concurrency int
	// Batch is the number of nodes that one transaction deletes: at most [MaxBatch]. Anchors are
	// not counted. Default [DefaultBatch].
	Batch int
	// MaxDeletesPerSecond limits the average number of nodes that all sweeps together delete in a
	// second; anchors are not counted. It also limits Batch. Default 0: no limit.
	MaxDeletesPerSecond int
	// Lock is the name of the lock of the active reaper. Default [DefaultLock].
	Lock string
	// DryRun makes sweeps only report what they would delete. They take no lock.
	DryRun bool
	// Format1 makes sweeps treat entries and parents of format 1, from before the first release,
	// like those of the present format: expired and empty ones are deleted. Without it they are
	// counted and left alone. Set it only if no process of such a version uses the locks any
	// more.
	Format1 bool
	// Monitor receives the state of the reaper. Only one reaper may use it at a time. Default: a
	// new one, see [Reaper.Monitor].
	Monitor *Monitor
	// Log receives the log lines of the reaper. By default it does not log.
	Log *zerolog.Logger
}

// withDefaults returns the options with their zero fields filled.
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

// scheduleOf returns the schedule of a policy.
func (o Options) scheduleOf(p policy.Policy) string { return cmp.Or(p.Schedule, o.Schedule) }

// schedules returns the schedules of the policies, each once.
func (o Options) schedules() (texts []string) {
	for _, p := range o.Policies.All() {
		if text := o.scheduleOf(p); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// Validate returns an error if an option is not allowed. The error is a [lock.ErrInvalid] and has
// the options' names in the configuration file.
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
