package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/robfig/cron/v3"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/repeatable"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/schedule"
)

const (
	interval = time.Second     // from a tick to the next one
	mostOff  = 12 * time.Hour  // a wall clock is off at most
	expiry   = 8 * time.Second // redsync's default
	// tickTTL and tickGrace are those of package schedule's locks.
	tickTTL, tickGrace = 5 * time.Second, time.Second
)

// job is how a peer runs a job that is due each second.
type job struct {
	off         bool          // the wall clocks are off
	atLeastOnce bool          // otherwise at most once
	lasts       time.Duration // duration of a run
	expiry      time.Duration // expiry of gocron's lock on Redis
}

// The tuned peers have two settings that help gocron. lasts: a run takes half the interval, so late
// replicas find the lock held. expiry: the lock of a killed holder expires after one interval.
var tickPeers = []peer{
	{name: "Holdfast", servers: startZooKeeper, work: scheduleJob, job: job{off: true}},
	{name: "Holdfast, 0.5 s runs", work: scheduleJob, job: job{off: true, lasts: interval / 2}},
	{name: "Holdfast, AtLeastOnce, 0.5 s runs", work: scheduleJob, job: job{off: true, atLeastOnce: true, lasts: interval / 2}},
	{name: "gocron", servers: startRedis, work: lockJob, job: job{off: true, expiry: expiry}},
	{name: "gocron, tuned", work: lockJob, job: job{off: true, lasts: interval / 2, expiry: interval}},
	{name: "gocron, clocks right", work: lockJob, job: job{expiry: expiry}},
	{name: "gocron, tuned, clocks right", work: lockJob, job: job{lasts: interval / 2, expiry: interval}},
}

// opUnfinished is a record of package schedule's report that a run was started and not finished. A run
// has records of opBegin and opEnd.
const opUnfinished = "unfinished"

func (w *worker) noteTick(op string, tick time.Time) {
	w.note(crew.Record{Op: op, Tick: tick.UnixNano()})
}

// runJob runs the job for a tick.
func (w *worker) runJob(ctx context.Context, tick time.Time) error {
	w.noteTick(opBegin, tick)
	err := wait.Sleep(ctx, w.job.lasts)
	if err == nil {
		w.noteTick(opEnd, tick)
	}
	return err
}

// scheduleJob is the work of a replica that runs the job by package schedule.
func scheduleJob(ctx context.Context, w *worker) error {
	locks, err := lock.Dial(ctx, w.Servers, lock.WithOwner(w.Worker),
		lock.WithTTL(tickTTL), lock.WithGrace(tickGrace), lock.WithSessionTimeout(tickTTL-time.Second))
	if err != nil {
		return err
	}
	defer locks.Close()
	name := fmt.Sprintf("%x", w.System) // locks have no spaces and commas in their names
	job, err := schedule.New(locks, name, cron.Every(interval), schedule.Options{AtLeastOnce: w.job.atLeastOnce, Report: func(run schedule.Run) {
		if run.Outcome == schedule.Unfinished {
			w.noteTick(opUnfinished, run.Tick)
		}
	}})
	if err != nil {
		return err
	}
	return job.Run(ctx, func(ctx context.Context, turn *schedule.Turn) error { return w.runJob(ctx, turn.Tick) })
}

// lockJob is the work of a replica that runs the job by gocron, with locks on Redis.
func lockJob(ctx context.Context, w *worker) error {
	client := redis.NewClient(&redis.Options{Addr: w.Servers[0]})
	defer client.Close()
	return w.gocron(ctx, gocron.WithDistributedLocker(redisLocker{redsync.New(goredis.NewPool(client)), w.job.expiry}))
}

func (w *worker) gocron(ctx context.Context, options ...gocron.SchedulerOption) error {
	scheduler, err := gocron.NewScheduler(options...)
	if err != nil {
		return err
	}
	run := func(ctx context.Context) error { return w.runJob(ctx, tickOf(time.Now(), w.Ahead)) }
	// A cron job is due at whole seconds, as gocron advises for replicas.
	if _, err := scheduler.NewJob(gocron.CronJob("* * * * * *", true), gocron.NewTask(run), gocron.WithName(w.System)); err != nil {
		return err
	}
	scheduler.Start()
	<-ctx.Done()
	return scheduler.Shutdown()
}

// redisLocker locks jobs of gocron as gocron-redis-lock v2 does with the options that its README
// shows: it tries once to lock a mutex of redsync with the job's name.
type redisLocker struct {
	*redsync.Redsync
	expiry time.Duration
}

func (l redisLocker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	m := l.NewMutex(job, redsync.WithTries(1), redsync.WithExpiry(l.expiry))
	return redisLock{m}, m.LockContext(ctx)
}

type redisLock struct{ *redsync.Mutex }

func (l redisLock) Unlock(ctx context.Context) error {
	_, err := l.UnlockContext(ctx) // gocron ignores whether it was still held
	return err
}

// tickOf returns the tick, in right time, to which a run at the time wall of a clock belongs. If the
// clock is not off by whole seconds, its seconds begin at other moments than the ticks. So tickOf
// returns the nearest tick. A timer may fire 100 ms early by the wall clock.
func tickOf(wall time.Time, ahead time.Duration) time.Time {
	return wall.Add(100 * time.Millisecond).Truncate(interval).Add(-ahead).Round(interval)
}

// wallEnv names the variable with the number of nanoseconds by which a client's wall clock is
// ahead. Go programs do not use the C library's clock, so libfaketime does not help: the clients
// are built with another time.Now.
const wallEnv = "HOLDFAST_WALL_AHEAD"

var wallAhead = []repeatable.Change{
	{File: "time/zoneinfo.go", Old: "var utcLoc = ", New: `// wallAhead is by how much the wall clock is ahead.
var wallAhead = func() Duration {
	text, _ := syscall.Getenv("` + wallEnv + `")
	n, _ := atoi(text) // 0 without the variable
	return Duration(n)
}()

var utcLoc = `},
	{File: "time/time.go", Old: "func Now() Time {\n", New: `func Now() Time {
	t := rightNow().Add(wallAhead)
	t.ext -= int64(wallAhead) // the monotonic clock is right
	return t
}

func rightNow() Time {
`},
}

// buildOff builds a program in dir, with a wall clock that can be off, and returns its path.
func buildOff(ctx context.Context, dir, from string) (string, error) {
	replace, err := repeatable.Changed(dir, wallAhead)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "off")
	return program, repeatable.Build(ctx, dir, replace, "build", "-buildvcs=false", "-o", program, from)
}

// Outcomes of a tick, which are columns: each tick has exactly one.
const (
	once        = "ran once" // to the end
	twice       = "ran twice or more"
	again       = "interrupted, ran again" // at least once: a run was interrupted, and a later one ended
	interrupted = "interrupted"            // a run began, but none ended
	missed      = "missed"                 // no run began
)

// tally counts a peer's ticks.
type tally struct {
	ticks  map[string]int // by outcome
	late   int            // ran, but began more than an interval late
	latest time.Duration  // longest time from a tick to the beginning of its first run
}

// epoch is the time at which the machine's monotonic clock was 0.
var epoch = time.Now().Add(-time.Duration(monotonic.Now()))

// countTicks counts the ticks while there were faults.
func countTicks(records []*crew.Record, atLeastOnce bool, p period) tally {
	n := tally{ticks: map[string]int{}}
	byTick := map[int64][]*crew.Record{}
	for _, r := range records {
		byTick[r.Tick] = append(byTick[r.Tick], r)
	}
	at := func(i monotonic.Instant) time.Time { return epoch.Add(time.Duration(i)) }
	for tick := at(p.begun).Truncate(interval).Add(interval); !tick.After(at(p.ended)); tick = tick.Add(interval) {
		ops, late := map[string]int{}, time.Duration(math.MaxInt64)
		for _, r := range byTick[tick.UnixNano()] {
			if ops[r.Op]++; r.Op == opBegin {
				late = min(late, at(r.Call).Sub(tick))
			}
		}
		begun, ended := ops[opBegin], ops[opEnd]
		switch {
		case ended > 1 || begun > 1 && !atLeastOnce:
			n.ticks[twice]++
		case begun > 1 && ended == 1:
			n.ticks[again]++
		case ended == 1:
			n.ticks[once]++
		case begun+ops[opUnfinished] > 0:
			n.ticks[interrupted]++
		default:
			n.ticks[missed]++
		}
		if begun > 0 {
			n.latest = max(n.latest, late)
		}
		if begun > 0 && late > interval {
			n.late++
		}
	}
	return n
}

// ticksDue is what is wrong until no tick of Holdfast may still run.
func ticksDue(s *system, p period) (b breaches) {
	if !s.ours() {
		return nil
	}
	n := countTicks(s.History.All(), s.job.atLeastOnce, p).ticks
	b.add(n[missed] > 0, "%d ticks were missed", n[missed])
	b.add(n[interrupted] > 0 && s.job.atLeastOnce, "%d ticks were begun and never ended", n[interrupted])
	return b
}

var tickHead = []string{"group", "ticks", once, twice, again, interrupted, missed, "over 1 s late", "latest"}

func judgeTicks(s *system, p period) (rows [][]any, broken breaches) {
	n := countTicks(s.History.All(), s.job.atLeastOnce, p)
	cells, all := []any{s.Name, 0}, 0
	for _, outcome := range tickHead[2:7] {
		cells = append(cells, n.ticks[outcome])
		all += n.ticks[outcome]
	}
	if cells[1] = all; !s.job.atLeastOnce {
		cells[4] = "–"
	}
	broken.add(n.ticks[twice] > 0 && !s.job.atLeastOnce, "%d ticks ran twice", n.ticks[twice])
	return [][]any{append(cells, n.late, fmt.Sprintf("%.1f s", n.latest.Seconds()))}, broken
}
