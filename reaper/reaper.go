package reaper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
)

// Reaper deletes expired entries and empty nodes below a client's root. All methods are safe for
// concurrent use.
type Reaper struct {
	tree    admin.Tree
	leader  *lock.Mutex // lock of the active reaper
	log     zerolog.Logger
	monitor *Monitor
	told    [kinds]told   // nodes that the log has already reported
	limiter *rate.Limiter // limits the deletes of all sweeps

	reload sync.Mutex // held by Reload
	setup  atomic.Pointer[setup]
	hold   atomic.Pointer[lock.Hold] // while Run holds the lock of the active reaper; otherwise nil
	last   atomic.Pointer[lock.Hold] // the last hold of that lock; nil before the first
}

// setup has the settings of sweeps. A sweep keeps its setup until it ends; a reload creates a new
// setup for later sweeps.
type setup struct {
	options  Options
	groups   []*group
	memory   *memory
	replaced chan struct{} // closed when there is a new setup
}

// newSetup returns the setup of the options with their defaults. The error is that of
// [Options.Validate].
func newSetup(o Options, m *memory) (*setup, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	s := &setup{options: o, memory: m, replaced: make(chan struct{})}
	for _, text := range o.schedules() {
		schedule, err := policy.ParseSchedule(text)
		if err != nil { // since Validate, its time zone has disappeared from the machine
			return nil, fmt.Errorf("%w: schedule %q: %w", lock.ErrInvalid, text, err)
		}
		g := newGroup(text, schedule, nil)
		for _, p := range o.Policies.All() {
			if o.scheduleOf(p) == text {
				g.chosen = append(g.chosen, p)
			}
		}
		s.groups = append(s.groups, g)
	}
	if n := o.MaxDeletesPerSecond; n > 0 {
		s.options.Batch = min(o.Batch, n)
	}
	return s, nil
}

// limit sets the largest number of deletes per second, also for running sweeps; 0 means no limit.
func limit(l *rate.Limiter, n int) {
	if n == 0 {
		l.SetLimit(rate.Inf)
		l.SetBurst(MaxBatch)
		return
	}
	l.SetLimit(rate.Limit(n))
	l.SetBurst(n)
}

// New returns a reaper for the locks of a client. It does not start sweeps: see [Reaper.Run] and
// [Reaper.Sweep]. The caller closes the client. The error is that of [Options.Validate], or that of
// [lock.Mutex.Validate] for the reaper's own lock.
func New(locks *lock.Client, o Options) (*Reaper, error) {
	if locks == nil {
		return nil, fmt.Errorf("%w: reaper: client must not be nil", lock.ErrInvalid)
	}
	in, err := newSetup(o, newMemory())
	if err != nil {
		return nil, err
	}
	o = in.options
	r := &Reaper{tree: admin.New(locks), log: *o.Log, monitor: o.Monitor, limiter: rate.NewLimiter(rate.Inf, 0)}
	r.setup.Store(in)
	limit(r.limiter, o.MaxDeletesPerSecond)
	if r.monitor == nil {
		r.monitor = NewMonitor(About{Root: r.tree.Root()})
	}
	r.monitor.serves(locks, o.Policies)
	r.leader = locks.Mutex(o.Lock, lock.WithMetadata(described(time.Time{})))
	if err := r.leader.Validate(); err != nil {
		return nil, fmt.Errorf("reaper.lock: %w", err)
	}
	return r, nil
}

// Monitor returns the monitor of the reaper.
func (r *Reaper) Monitor() *Monitor { return r.monitor }

// Reload gives the reaper other policies, schedules and limits: Policies, Schedule, Concurrency,
// Batch and MaxDeletesPerSecond of the options. It ignores the other options. A running sweep keeps
// its old settings, except that MaxDeletesPerSecond applies to all sweeps at once. The error is that
// of [Options.Validate]; it means that nothing has changed.
func (r *Reaper) Reload(o Options) error {
	r.reload.Lock()
	defer r.reload.Unlock()
	before := r.setup.Load()
	o = before.options.reloaded(o)
	next, err := newSetup(o, before.memory.heir())
	if err != nil {
		return err
	}
	r.setup.Store(next)
	limit(r.limiter, o.MaxDeletesPerSecond)
	close(before.replaced)
	r.monitor.reloaded(o.Policies)
	for i := range r.told {
		r.told[i].keep(append(o.schedules(), "")) // "" is for Sweep
	}
	return nil
}

var errNoContext = fmt.Errorf("%w: reaper: context must not be nil", lock.ErrInvalid)

// Sweep makes one pass over all policies, and returns when it has ended. The report is valid even if
// the error says that the sweep is incomplete.
//
//   - If another reaper is active, Sweep does nothing, unless it is a dry run: the report has the
//     reason in Skipped, and the error matches [lock.ErrHeld].
//   - If this reaper is active, Sweep runs beside its scheduled sweeps.
//   - If there is no root, Sweep logs a warning, and returns an empty report without an error.
//   - When ctx ends, Sweep finishes the deletes in flight.
func (r *Reaper) Sweep(ctx context.Context) (Report, error) {
	if ctx == nil {
		return Report{}, errNoContext
	}
	if err := ctx.Err(); err != nil { // a request might be answered nevertheless
		return Report{}, err
	}
	in := r.setup.Load()
	p := newProgress(newGroup("", nil, in.options.Policies.All()))
	if r.noRoot(ctx) { // a sweep does not create the root
		report := r.report(in, p)
		report.Complete = true
		return report, nil
	}
	r.monitor.begin(p)
	return r.sweep(ctx, in, p)
}

// noRoot reports whether the root is missing. If so, it logs a warning and tells the monitor: no
// program has used a lock below the root yet, or the root's name is misspelled.
func (r *Reaper) noRoot(ctx context.Context) bool {
	if _, _, err := r.tree.Get(ctx, r.tree.Root()); !errors.Is(err, zk.ErrNoNode) {
		return false // a later request reports any other error
	}
	// The server of the session may lag behind, so ask the leader too.
	if _, err := r.tree.Now(ctx); !errors.Is(err, zk.ErrNoNode) {
		return false
	}
	r.monitor.rootMissing()
	r.log.Warn().Str("root", r.tree.Root()).Msg("there is no root: no lock has been taken below it yet, or it is another one than that of the programs")
	return true
}

// report returns the report for a new sweep, with zero counts for each policy.
func (r *Reaper) report(in *setup, p *progress) Report {
	report := Report{
		Name: r.monitor.status.About.Name, Root: r.tree.Root(), Schedule: p.group.text, Started: p.began.UTC(),
		DryRun: in.options.DryRun, Policies: map[string]*Counts{},
	}
	for _, policy := range p.group.chosen {
		report.Policies[policy.Name] = new(Counts)
	}
	return report
}

// sweep makes one pass over the policies of a group, logs the result and passes it to the monitor.
func (r *Reaper) sweep(ctx context.Context, in *setup, p *progress) (Report, error) {
	s := &sweep{
		Reaper: r, setup: in, progress: p, report: r.report(in, p), looked: map[string]time.Time{},
		walkers:   make(chan struct{}, in.options.Concurrency),
		deletions: make(chan []deletion, in.options.Concurrency),
	}
	err := s.lead(ctx)
	if err != nil {
		s.report.Error = err.Error()
	}
	r.tell(ctx, &s.report, &s.findings, err, r.monitor.end(p, s.report, err))
	if err == nil && !in.options.DryRun {
		r.tellSwept(ctx, time.Since(p.began))
	}
	return s.report, err
}

// lead runs the sweep while it holds the lock of the active reaper. If Run holds the lock, the sweep
// re-enters that hold. A dry run takes no lock.
func (s *sweep) lead(ctx context.Context) error {
	if s.options.DryRun {
		return s.run(ctx)
	}
	within := ctx
	if active := s.hold.Load(); active != nil {
		within = active.Context()
	}
	held, cancel := context.WithCancelCause(within)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	answered := s.begin("the lock of the active reaper")
	hold, err := s.leader.TryLock(held)
	answered()
	if err != nil {
		if errors.Is(admin.Answer(err), lock.ErrHeld) {
			s.report.Skipped = "another reaper is the active one: " + err.Error()
		}
		return fmt.Errorf("sweep: %w", err)
	}
	s.last.Store(hold)
	defer hold.Unlock() // if this fails, the entry expires later; the sweep can be complete nevertheless
	defer context.AfterFunc(hold.Context(), func() { cancel(hold.Err()) })()
	if err = s.run(held); err != nil && hold.Err() != nil {
		return lostError{err, hold.Err()}
	}
	return err
}

// lostError is the error of a sweep that ended because its hold was lost. The text of the error has
// why already; lostError matches it too.
type lostError struct {
	error
	hold error
}

func (e lostError) Unwrap() []error { return []error{e.error, e.hold} }

// starts returns the nodes where the walks of a sweep begin. Together the walks visit each lock that
// a policy can match, and none twice.
func starts(policies []policy.Rule) []string {
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
