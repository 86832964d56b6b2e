package reaper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/robfig/cron/v3"
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
	// Concurrency is how many reads may be in flight, beside a few transactions of
	// deletes: at most [MaxConcurrency]. Default [DefaultConcurrency].
	Concurrency int
	// Batch is how many nodes are deleted in one transaction: at most [MaxBatch].
	// Default [DefaultBatch].
	Batch int
	// Lock is the name of the lock that makes a reaper the active one. Default
	// [DefaultLock].
	Lock string
	// DryRun has sweeps tell what they would delete, and delete nothing. It
	// takes no lock.
	DryRun bool
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
	if o.Concurrency < 1 || o.Concurrency > MaxConcurrency {
		refuse("concurrency", o.Concurrency, fmt.Sprintf("must be from 1 to %d", MaxConcurrency))
	}
	if o.Batch < 1 || o.Batch > MaxBatch {
		refuse("batch", o.Batch, fmt.Sprintf("must be from 1 to %d", MaxBatch))
	}
	if err := znode.CheckName(o.Lock); err != nil {
		wrong = append(wrong, fmt.Errorf("%w: reaper.lock: %w", lock.ErrInvalid, err))
	}
	return errors.Join(wrong...)
}

// Reaper sweeps the locks of a client. All methods are safe for concurrent use.
type Reaper struct {
	locks   *lock.Client
	leader  *lock.Mutex
	options Options
	log     zerolog.Logger
	memory  *memory
	monitor *Monitor
}

// New returns a reaper for the locks of a client. The error is [Options.Validate]'s.
func New(locks *lock.Client, o Options) (*Reaper, error) {
	if locks == nil {
		return nil, fmt.Errorf("%w: reaper: client must not be nil", lock.ErrInvalid)
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	r := &Reaper{locks: locks, options: o, log: zerolog.Nop(), memory: newMemory()}
	if o.Log != nil {
		r.log = *o.Log
	}
	if r.monitor = o.Monitor; r.monitor == nil {
		r.monitor = NewMonitor(About{Root: admin.New(locks).Root()})
	}
	r.leader = locks.Mutex(o.Lock, lock.WithMetadata(map[string]string{"role": "reaper"}))
	return r, nil
}

// Monitor tells what the reaper does.
func (r *Reaper) Monitor() *Monitor { return r.monitor }

var errNoContext = fmt.Errorf("%w: reaper: context must not be nil", lock.ErrInvalid)

// Sweep makes one pass over all policies. Where another reaper is the active one
// it does nothing and says so in the report's Skipped, with an error that is
// [lock.ErrHeld]. When ctx ends, the batch at hand is finished. The report tells
// what was seen and done also when the error says that the sweep is incomplete.
func (r *Reaper) Sweep(ctx context.Context) (Report, error) {
	if ctx == nil {
		return Report{}, errNoContext
	}
	return r.sweep(ctx, r.options.Policies.All())
}

func (r *Reaper) sweep(ctx context.Context, policies []policy.Policy) (report Report, err error) {
	defer func() { r.logReport(&report, err) }()
	if !r.options.DryRun {
		hold, err := r.leader.TryLock(ctx) // the active one's context has the lock already
		if err != nil {
			report := Report{Root: admin.New(r.locks).Root(), Started: time.Now().UTC()}
			if errors.Is(err, lock.ErrHeld) {
				report.Skipped = "another reaper is the active one: " + err.Error()
			}
			return report, fmt.Errorf("sweep: %w", err)
		}
		defer func() { err = errors.Join(err, hold.Unlock()) }()
		held, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(hold.Context(), func() { cancel(hold.Err()) })()
		ctx = held
	}
	s := &sweep{
		Reaper: r, tree: admin.New(r.locks), chosen: map[string]bool{},
		walkers:   make(chan struct{}, r.options.Concurrency),
		deletions: make(chan []deletion, r.options.Concurrency),
	}
	for _, p := range policies {
		s.chosen[p.Name] = true
	}
	return s.run(ctx, starts(policies))
}

// starts returns where to begin so that all that the policies can match is seen
// once.
func starts(policies []policy.Policy) []string {
	var names []string
	for _, p := range policies {
		names = append(names, p.Match.Prefix())
	}
	slices.Sort(names)
	var starts []string
	for _, name := range names {
		above := func(start string) bool {
			return start == "" || start == name || strings.HasPrefix(name, start+"/")
		}
		if !slices.ContainsFunc(starts, above) {
			starts = append(starts, name)
		}
	}
	return starts
}

// logReport logs a sweep that did something or that failed.
func (r *Reaper) logReport(report *Report, err error) {
	t := report.Total
	event := r.log.Debug()
	switch {
	case errors.Is(err, lock.ErrHeld):
		event = r.log.Info()
	case err != nil:
		event = r.log.Error()
	case t.Denied > 0 || t.Undecodable > 0: // somebody has to look
		event = r.log.Warn()
	case t.Deleted > 0 || len(report.Planned) > 0:
		event = r.log.Info()
	}
	if len(report.Undecodable) > 0 {
		event.Str("first_undecodable", report.Undecodable[0])
	}
	if len(report.Denied) > 0 {
		event.Str("first_denied", report.Denied[0].Path)
	}
	event.AnErr("incomplete", err).Bool("dry_run", report.DryRun).Int("locks", t.Locks).Int("live", t.Live).
		Int("expired", t.Expired).Int("orphans", t.Orphans).Int("ancestors", t.Ancestors).Int("moot", t.Moot).
		Int("deleted", t.Deleted).Int("foreign", t.Foreign).Int("undecodable", t.Undecodable).Int("denied", t.Denied).
		Stringer("took", report.Duration).Msg("swept")
}

// Run sweeps by the policies' schedules, while this reaper is the active one,
// until ctx ends. A sweep that is still going when its time comes again is not
// started twice, and one that panics is logged and does not end the others. An
// outage of ZooKeeper is waited out. It returns nil when ctx has ended and the
// batch at hand is finished.
func (r *Reaper) Run(ctx context.Context) error {
	if ctx == nil {
		return errNoContext
	}
	for {
		hold, err := r.leader.Lock(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		default:
			return fmt.Errorf("become the active reaper: %w", err)
		}
		r.log.Info().Str("lock", hold.Name()).Stringer("token", hold.Token()).Msg("active: sweeping by schedule")
		r.serve(ctx, hold)
		err = hold.Unlock()
		switch {
		case ctx.Err() != nil && !errors.Is(err, lock.ErrLost):
			return err
		case ctx.Err() != nil:
			return nil
		}
		r.log.Warn().Err(err).Msg("not the active reaper any more; standing by")
	}
}

// serve runs the schedules until the hold or ctx ends, and waits for the sweeps
// that run.
func (r *Reaper) serve(ctx context.Context, hold *lock.Hold) {
	active, cancel := context.WithCancelCause(hold.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	c := newCron(r.log)
	for text, policies := range r.bySchedule() {
		schedule, err := policy.ParseSchedule(text)
		if err != nil {
			panic(err) // New and policy.NewSet have parsed it
		}
		c.Schedule(schedule, cron.FuncJob(func() { r.sweep(active, policies) }))
	}
	c.Start()
	<-active.Done()
	<-c.Stop().Done()
}

// newCron returns a cron that skips a job which is still running, and goes on
// after one that panics. Recover is innermost: the other way round, a panic would
// leave the mark that the job is running.
func newCron(log zerolog.Logger) *cron.Cron {
	l := cronLog{log}
	return cron.New(cron.WithLogger(l), cron.WithChain(cron.SkipIfStillRunning(l), cron.Recover(l)))
}

// bySchedule groups the policies that are swept together.
func (r *Reaper) bySchedule() map[string][]policy.Policy {
	groups := map[string][]policy.Policy{}
	for _, p := range r.options.Policies.All() {
		schedule := p.Schedule
		if schedule == "" {
			schedule = r.options.Schedule
		}
		groups[schedule] = append(groups[schedule], p)
	}
	return groups
}

// cronLog passes on what cron logs: panics, and sweeps skipped because the one
// before them is still running.
type cronLog struct{ log zerolog.Logger }

func (l cronLog) Info(msg string, pairs ...any) {
	event := l.log.Debug()
	if msg == "skip" {
		event, msg = l.log.Warn(), "the sweep before is still running: this one is skipped"
	}
	event.Fields(pairs).Msg(msg)
}

func (l cronLog) Error(err error, msg string, pairs ...any) {
	l.log.Error().Err(err).Fields(pairs).Msg("sweep: " + msg)
}
