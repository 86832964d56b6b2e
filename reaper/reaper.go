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

// Reaper sweeps the locks of a client. All methods are safe for concurrent use.
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

// setup has the settings of a sweep, constant from its start to its end. A reload makes a new
// one.
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

// limit limits the deletes in a second, also of running sweeps; 0 means no limit.
func limit(l *rate.Limiter, n int) {
	if n == 0 {
		l.SetLimit(rate.Inf)
		l.SetBurst(MaxBatch)
		return
	}
	l.SetLimit(rate.Limit(n))
	l.SetBurst(n)
}

// New returns a reaper for the locks of a client. The error is that of [Options.Validate], or
// that of [lock.Mutex.Validate] for the reaper's own lock.
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
	r.leader = locks.Mutex(o.Lock, lock.WithMetadata(map[string]string{"role": "reaper"}))
	if err := r.leader.Validate(); err != nil {
		return nil, fmt.Errorf("reaper.lock: %w", err)
	}
	return r, nil
}

// Monitor returns the monitor of the reaper.
func (r *Reaper) Monitor() *Monitor { return r.monitor }

// Reload gives the reaper other policies, schedules and limits: Policies, Schedule, Concurrency,
// Batch and MaxDeletesPerSecond of the options. The other options stay. A running sweep keeps its
// old settings, except that MaxDeletesPerSecond applies to all sweeps at once. The error is that
// of [Options.Validate]; then nothing has changed.
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

// Sweep makes one pass over all policies. If another reaper is active, it does nothing; the
// report's Skipped says so, and the error matches [lock.ErrHeld]. If this reaper is active, Sweep
// runs beside its scheduled sweeps. When ctx ends, it finishes the current batch. The report is
// valid even if the error says that the sweep is incomplete.
func (r *Reaper) Sweep(ctx context.Context) (Report, error) {
	if ctx == nil {
		return Report{}, errNoContext
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

// noRoot reports whether there is no root, and logs that. A new system has none yet; a misspelt
// root never exists.
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

// report returns the report of a sweep that begins.
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

// sweep makes one pass over the policies of a group, and reports it.
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
	return s.report, err
}

// lead runs the sweep while it holds the lock of the active reaper: if Run holds it, the sweep
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
		if errors.Is(err, lock.ErrHeld) {
			s.report.Skipped = "another reaper is the active one: " + err.Error()
		}
		return fmt.Errorf("sweep: %w", err)
	}
	s.last.Store(hold)
	defer hold.Unlock() // if this fails, our entry expires; the sweep is complete all the same
	defer context.AfterFunc(hold.Context(), func() { cancel(hold.Err()) })()
	return s.run(held)
}

// starts returns the nodes from which to walk, so that all locks that the policies can match are
// visited once.
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
