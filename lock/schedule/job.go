package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Defaults and limits of a job.
const (
	// DefaultPath is the node below which the records of jobs are.
	DefaultPath = "/holdfast-jobs"
	// DefaultLate is the default of [Options].Late.
	DefaultLate = 2 * time.Minute
	// DefaultLimit is the default of [Options].Limit, and MaxLimit its largest allowed value.
	DefaultLimit = 100
	MaxLimit     = 1000
)

// Missed is the policy for missed ticks, which no replica could start in time. The zero value is
// Skip.
type Missed int

// The policies for missed ticks.
const (
	Skip    Missed = iota // none of them runs
	RunLast               // the last one runs, if no later tick is due
	RunAll                // the last ones run, at most Limit of them
)

var missedNames = []string{Skip: "skip", RunLast: "last", RunAll: "all"}

// String returns the policy's name: skip, last or all.
func (m Missed) String() string { return nameOf(missedNames, int(m)) }

// ParseMissed returns the policy of that name: skip, last or all. Any other name is a
// [lock.ErrInvalid].
func ParseMissed(name string) (Missed, error) {
	i, err := parse("missed", missedNames, name)
	return Missed(i), err
}

// Overlap is the policy for a tick that comes due during an earlier run. The zero value is
// OverlapWait.
type Overlap int

// The policies for overlaps.
const (
	OverlapWait   Overlap = iota // the tick runs when the earlier run has ended
	OverlapSkip                  // the tick never runs
	OverlapBeside                // the tick runs at once, beside the earlier run
)

var overlapNames = []string{OverlapWait: "wait", OverlapSkip: "skip", OverlapBeside: "beside"}

// String returns the policy's name: wait, skip or beside.
func (o Overlap) String() string { return nameOf(overlapNames, int(o)) }

// ParseOverlap returns the policy of that name: wait, skip or beside. Any other name is a
// [lock.ErrInvalid].
func ParseOverlap(name string) (Overlap, error) {
	i, err := parse("overlap", overlapNames, name)
	return Overlap(i), err
}

func nameOf(names []string, i int) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprint(i)
	}
	return names[i]
}

func parse(what string, names []string, name string) (int, error) {
	for i, n := range names {
		if n == name {
			return i, nil
		}
	}
	return 0, invalid(what, fmt.Sprintf("%q", name), "must be one of %s", strings.Join(names, ", "))
}

// Schedule says when a job runs. Next returns the first tick after a time; zero if there is none. The
// result must depend on nothing but the time, so that all replicas have the same ticks. Next is called
// with times in UTC, and may be called concurrently. The schedules of github.com/robfig/cron/v3 are
// Schedules.
type Schedule interface {
	Next(after time.Time) time.Time
}

// Options are the settings of a job. The zero value has all defaults. All replicas of a job should
// have the same Options.
type Options struct {
	// AtLeastOnce records a tick after its run instead of before it. If the replica crashes before
	// it has recorded the tick, the tick runs again. It cannot be combined with OverlapBeside.
	AtLeastOnce bool
	// Missed is the policy for missed ticks. Default Skip.
	Missed Missed
	// Limit is the largest number of missed ticks that RunAll runs. Default [DefaultLimit], at
	// most [MaxLimit].
	Limit int
	// Late is how late a tick may start. A tick that no replica could start within this time is
	// missed. A replica that crashes while it takes a tick delays the tick by TTL and grace, so
	// Late should be at least twice TTL and grace. Default [DefaultLate].
	Late time.Duration
	// Overlap is the policy for a tick that comes due during an earlier run. Default OverlapWait.
	Overlap Overlap
	// Path is the node below which the records are. It must be apart from the client's root:
	// neither below it nor above it. It is created if it is missing. Default [DefaultPath].
	Path string
	// Lock has options for the job's locks, such as [lock.WithTTL].
	Lock []lock.LockOption
	// Report is called when a run has ended, on the replica that ran it. If that replica has
	// crashed, the replica that notices the crash calls Report. If the replica only lost its hold,
	// both replicas call Report. Report is also called when ticks were missed, or came during an
	// earlier run and never run: once, with the outcome NotRun, the last of these ticks, and the
	// reason as Error. Report may be called concurrently. Default none.
	Report func(Run)
}

// Job is a job of a client. All methods are safe for concurrent use.
type Job struct {
	plan
	name, path string // the job's name, and the path of its node
	locks      *lock.Client
	tree       admin.Tree
	mutex      *lock.Mutex
	lockOpts   []lock.LockOption
	report     func(Run)
}

// New returns the job of that name, which has the form of a lock's name, such as "nightly/export".
// A schedule without a time zone is in UTC. The interval of cron.Every counts from fixed times,
// and not from the start of a replica: @every 1h comes on the hour. New fails with
// [lock.ErrInvalid] if an argument is not allowed. It asks no server.
func New(locks *lock.Client, name string, schedule Schedule, opts Options) (*Job, error) {
	switch {
	case locks == nil:
		return nil, invalid("client", "nil", "must come from lock.Dial or lock.New")
	case schedule == nil:
		return nil, invalid("schedule", "nil", "must not be nil")
	case opts.Missed < Skip || opts.Missed > RunAll:
		return nil, invalid("missed", opts.Missed, "must be Skip, RunLast or RunAll")
	case opts.Overlap < OverlapWait || opts.Overlap > OverlapBeside:
		return nil, invalid("overlap", opts.Overlap, "must be OverlapWait, OverlapSkip or OverlapBeside")
	case opts.Overlap == OverlapBeside && opts.AtLeastOnce:
		return nil, invalid("overlap", opts.Overlap, "must not be given with AtLeastOnce: a later tick would be recorded before an earlier one")
	case opts.Limit < 0 || opts.Limit > MaxLimit:
		return nil, invalid("limit", opts.Limit, "must be within 1..%d, or 0 for the default, %d", MaxLimit, DefaultLimit)
	case opts.Late < 0:
		return nil, invalid("late", opts.Late, "must be positive, or 0 for the default, %v", DefaultLate)
	}
	tree := admin.New(locks)
	path, err := checkPath(tree, opts.Path)
	if err != nil {
		return nil, err
	}
	// With barging a replica waits without an entry, so its crash delays no other replica.
	j := &Job{
		plan: plan{newTicks(schedule), opts.AtLeastOnce, opts.Missed, opts.Limit, opts.Late, opts.Overlap},
		name: name, path: path + "/" + name,
		locks: locks, tree: tree, mutex: locks.Mutex("jobs/"+name, opts.Lock...).WithBarging(),
		lockOpts: opts.Lock, report: opts.Report,
	}
	if j.limit == 0 {
		j.limit = DefaultLimit
	}
	if j.late == 0 {
		j.late = DefaultLate
	}
	if err := znode.CheckName(name); err != nil {
		return nil, fmt.Errorf("%w: job: %w", lock.ErrInvalid, err)
	}
	if err := j.beside(time.Now()).Validate(); err != nil { // the longest name of its locks
		return nil, err
	}
	return j, nil
}

// Name returns the name of the job.
func (j *Job) Name() string { return j.name }

// beside returns the lock of the run of one tick, with OverlapBeside.
func (j *Job) beside(tick time.Time) *lock.Mutex {
	return j.locks.Mutex(fmt.Sprintf("ticks/%s/%d", j.name, tick.UnixNano()), j.lockOpts...)
}

// checkPath returns path, or the default if it is "". It fails if records cannot be below path.
func checkPath(tree admin.Tree, path string) (string, error) {
	if path == "" {
		path = DefaultPath
	}
	if err := znode.CheckRoot(path); err != nil {
		return "", fmt.Errorf("%w: path: %w", lock.ErrInvalid, err)
	}
	root := tree.Root() + "/"
	if strings.HasPrefix(path+"/", root) || strings.HasPrefix(root, path+"/") {
		return "", invalid("path", path, "must be apart from the root of the locks, %s", tree.Root())
	}
	return path, nil
}

// invalid returns a lock.ErrInvalid that names the argument, its value and the rule.
func invalid(argument string, value any, rule string, args ...any) error {
	return fmt.Errorf("%w: %s %v: %s", lock.ErrInvalid, argument, value, fmt.Sprintf(rule, args...))
}
