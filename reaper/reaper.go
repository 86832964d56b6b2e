package reaper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/robfig/cron/v3"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
)

// Reaper sweeps the locks of a client. All methods are safe for concurrent use.
type Reaper struct {
	locks   *lock.Client
	tree    admin.Tree
	leader  *lock.Mutex
	lock    string // its name
	log     zerolog.Logger
	monitor *Monitor
	told    [kinds]told // nodes that the log has already reported

	limiter *rate.Limiter // of the deletes of all sweeps

	mu       sync.Mutex
	setup    *setup
	reloaded chan struct{} // closed and replaced when there is a new setup
	hold     *lock.Hold    // while Run holds the lock of the active reaper; otherwise nil
	entry    string        // path of the last entry of ours in that lock, "" for none
}

// setup has the settings of a sweep, constant from its start to its end. A reload makes a new
// one.
type setup struct {
	options   Options
	schedules map[string]cron.Schedule // by text
	memory    *memory
}

func newSetup(o Options, m *memory) (*setup, error) {
	s := &setup{options: o, schedules: map[string]cron.Schedule{}, memory: m}
	for _, text := range o.schedules() {
		schedule, err := policy.ParseSchedule(text)
		if err != nil { // Validate has accepted it: its time zone has disappeared from the machine since
			return nil, fmt.Errorf("%w: schedule %q: %w", lock.ErrInvalid, text, err)
		}
		s.schedules[text] = schedule
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
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	in, err := newSetup(o, newMemory())
	if err != nil {
		return nil, err
	}
	r := &Reaper{
		locks: locks, tree: admin.New(locks), lock: o.Lock, log: zerolog.Nop(), monitor: o.Monitor,
		setup: in, reloaded: make(chan struct{}), limiter: rate.NewLimiter(rate.Inf, 0),
	}
	limit(r.limiter, o.MaxDeletesPerSecond)
	if o.Log != nil {
		r.log = *o.Log
	}
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
	if err := o.Validate(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.setup.options
	in.Policies, in.Schedule, in.Concurrency, in.Batch, in.MaxDeletesPerSecond = o.Policies, o.Schedule, o.Concurrency, o.Batch, o.MaxDeletesPerSecond
	in = in.withDefaults()
	next, err := newSetup(in, r.setup.memory.heir())
	if err != nil {
		return err
	}
	r.setup = next
	limit(r.limiter, in.MaxDeletesPerSecond)
	close(r.reloaded)
	r.reloaded = make(chan struct{})
	r.monitor.reloaded(in.Policies)
	for i := range r.told {
		r.told[i].keep(append(in.schedules(), "")) // "" is for Sweep
	}
	return nil
}

// now returns the setup in force, and a channel that is closed when there is a new one.
func (r *Reaper) now() (*setup, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.setup, r.reloaded
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
	in, _ := r.now()
	if r.noRoot(ctx) { // a sweep does not create the root
		return r.nothing(in), nil
	}
	p := newProgress(newGroup("", nil, in.options.Policies.All()))
	r.monitor.begin(p)
	return r.sweep(ctx, in, p)
}

// entered records the entry of a hold of the active reaper's lock.
func (r *Reaper) entered(hold *lock.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entry = hold.EntryPath()
}

// isOwn reports whether the entry is this reaper's last one.
func (r *Reaper) isOwn(entry string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return entry != "" && entry == r.entry
}

// lends records the hold of the active reaper, nil for none.
func (r *Reaper) lends(hold *lock.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = hold
}

// noRoot reports whether there is no root, and logs that. A new system has none yet; a misspelt
// root never exists.
func (r *Reaper) noRoot(ctx context.Context) bool {
	if _, _, err := r.tree.Get(ctx, r.tree.Root()); !errors.Is(err, zk.ErrNoNode) {
		return false // a later request returns and reports another error
	}
	if _, err := r.tree.Now(ctx); !errors.Is(err, zk.ErrNoNode) { // our server may lag behind, but not the leader
		return false
	}
	r.monitor.rootMissing()
	r.log.Warn().Str("root", r.tree.Root()).Msg("there is no root: no lock has been taken below it yet, or it is another one than that of the programs")
	return true
}

// nothing returns the report of a missing root.
func (r *Reaper) nothing(in *setup) Report {
	report := r.report(in, in.options.Policies.All(), time.Now())
	report.Complete = true
	return report
}

// report returns the report of a sweep that begins.
func (r *Reaper) report(in *setup, chosen []policy.Policy, began time.Time) Report {
	report := Report{
		Name: r.monitor.about.Name, Root: r.tree.Root(), Started: began.UTC(), DryRun: in.options.DryRun, Policies: map[string]*Counts{},
	}
	for _, p := range chosen {
		report.Policies[p.Name] = new(Counts)
	}
	return report
}

// sweep makes one pass over the policies of a group, and reports it.
func (r *Reaper) sweep(ctx context.Context, in *setup, p *progress) (report Report, err error) {
	g := p.group
	report = r.report(in, g.chosen, p.began)
	report.Schedule = g.text
	found, told := new(findings), ctx
	defer func() {
		if err != nil {
			report.Error = err.Error()
		}
		r.tell(told, &report, found, err, r.monitor.end(p, report, err))
	}()
	if !in.options.DryRun {
		held, release, err := r.lead(ctx, p)
		if err != nil {
			if errors.Is(err, lock.ErrHeld) {
				report.Skipped = "another reaper is the active one: " + err.Error()
			}
			return report, fmt.Errorf("sweep: %w", err)
		}
		defer func() { err = errors.Join(err, release()) }()
		ctx = held
	}
	s := &sweep{
		Reaper: r, setup: in, progress: p, report: report, findings: found, chosen: map[string]bool{}, looked: map[string]time.Time{},
		walkers:   make(chan struct{}, in.options.Concurrency),
		deletions: make(chan []deletion, in.options.Concurrency),
	}
	for _, p := range g.chosen {
		s.chosen[p.Name] = true
	}
	return s.run(ctx, starts(g.chosen))
}

// lead takes the lock of the active reaper for one sweep. If Run holds it, the sweep re-enters
// that hold. The returned context ends when the lock is lost.
func (r *Reaper) lead(ctx context.Context, p *progress) (context.Context, func() error, error) {
	defer p.begin("the lock of the active reaper", "")()
	r.mu.Lock()
	active := r.hold
	r.mu.Unlock()
	within := ctx
	if active != nil {
		within = active.Context()
	}
	held, cancel := context.WithCancelCause(within)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	hold, err := r.leader.TryLock(held)
	if err != nil {
		stop()
		cancel(nil)
		return nil, nil, err
	}
	r.entered(hold)
	lost := context.AfterFunc(hold.Context(), func() { cancel(hold.Err()) })
	return held, func() error {
		stop()
		lost()
		cancel(nil)
		return hold.Unlock()
	}, nil
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
