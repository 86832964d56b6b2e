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

// Limits of [Options]. A transaction with more deletes could be too large for the
// server, and would have more to do again if one of them is refused.
const (
	MaxConcurrency = 1000
	MaxBatch       = 500
)

// Options set up a [Reaper]. The zero value of a field means its default.
type Options struct {
	// Policies say what is swept, by which times and when. Default: all locks,
	// with every time at its default.
	Policies *policy.Set
	// Schedule is when policies without a schedule of their own are swept, as
	// [policy.ParseSchedule] takes it. Default [DefaultSchedule].
	Schedule string
	// Concurrency is how many reads of a sweep may be in flight, beside a few
	// transactions of deletes: at most [MaxConcurrency]. Default [DefaultConcurrency].
	Concurrency int
	// Batch is how many nodes are deleted in one transaction: at most [MaxBatch]. The
	// anchors that go with them are not counted. Default [DefaultBatch].
	Batch int
	// MaxDeletesPerSecond bounds how many nodes are deleted in a second, on average, by
	// all sweeps together, anchors not counted. Batch is no more than that. Default 0: no
	// bound.
	MaxDeletesPerSecond int
	// Lock is the name of the lock that makes a reaper the active one. Default
	// [DefaultLock].
	Lock string
	// DryRun has sweeps tell what they would delete, and delete nothing. It
	// takes no lock.
	DryRun bool
	// Format1 has sweeps treat entries and parents of format 1, which only versions before
	// the first release wrote, as those of the present format: expired ones and empty ones
	// are deleted. Without it they are counted and left alone. Set it only when no process
	// of such a version uses the locks any more.
	Format1 bool
	// Monitor is what is told of all that the reaper does. One reaper has it at a time.
	// Default: one of its own, see [Reaper.Monitor].
	Monitor *Monitor
	// Log is where sweeps are logged that did something. Default nowhere.
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
	return o
}

// scheduleOf is when a policy is swept.
func (o Options) scheduleOf(p policy.Policy) string { return cmp.Or(p.Schedule, o.Schedule) }

// schedules are those of the policies, each once.
func (o Options) schedules() (texts []string) {
	for _, p := range o.Policies.All() {
		if text := o.scheduleOf(p); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// Validate reports what is wrong with the options, or nil. The error is a
// [lock.ErrInvalid] and names them as the configuration file does.
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
