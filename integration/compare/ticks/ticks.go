// Package ticks runs a job that is due each second by replicas with wall clocks that are off: by
// package schedule, and by gocron with locks on Redis. It counts which ticks ran.
package ticks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/robfig/cron/v3"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/schedule"
)

const (
	// Interval is the time from a tick to the next one.
	Interval = time.Second
	// MostOff is how far a wall clock is off at most.
	MostOff = 12 * time.Hour
	// ttl and grace are those of package schedule's locks.
	ttl, grace = 5 * time.Second, time.Second
)

// Group is a job with its replicas.
type Group struct {
	Name        string
	Ours        bool // runs by package schedule, otherwise by gocron
	AtLeastOnce bool
	Off         bool          // the wall clocks are off
	Lasts       time.Duration // duration of a run
	Expiry      time.Duration // expiry of gocron's lock on Redis; 0: it takes none
}

// expiry is redsync's default.
const expiry = 8 * time.Second

// Groups are the published groups. The tuned groups have two settings that help gocron. Lasts: a run
// takes half the interval, so late replicas find the lock held. Expiry: the lock of a killed holder
// expires after one interval.
var Groups = []Group{
	{Name: "Holdfast", Ours: true, Off: true},
	{Name: "Holdfast, 0.5 s runs", Ours: true, Off: true, Lasts: Interval / 2},
	{Name: "Holdfast, AtLeastOnce, 0.5 s runs", Ours: true, Off: true, AtLeastOnce: true, Lasts: Interval / 2},
	{Name: "gocron", Off: true, Expiry: expiry},
	{Name: "gocron, tuned", Off: true, Lasts: Interval / 2, Expiry: Interval},
	{Name: "gocron, clocks right", Expiry: expiry},
	{Name: "gocron, tuned, clocks right", Lasts: Interval / 2, Expiry: Interval},
}

// Replica is the configuration of a process of a group.
type Replica struct {
	Group     Group
	Name      string        // unique in its group
	Ahead     time.Duration // how far its wall clock is ahead; negative: behind
	ZooKeeper []string
	Redis     string // address
}

// Kinds of records.
const (
	Begin      = "begin"      // a run begins
	End        = "end"        // a run has ended
	Unfinished = "unfinished" // package schedule reports that a run was started and not finished
)

// replica is a replica at work.
type replica struct {
	Replica
	crew.Teller
	clock clock
}

// note tells of a run. If the controller has ended, nothing reads it, and the replica's input ends
// too.
func (r *replica) note(op string, tick time.Time) {
	if err := r.Tell(crew.Record{Op: op, Tick: tick.UnixNano()}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// work is the job: it notes the beginning of the run, waits, and notes the end. If ctx ends before,
// it notes no end.
func (r *replica) work(ctx context.Context, tick time.Time) error {
	r.note(Begin, tick)
	if r.Group.Lasts > 0 {
		if err := wait.Sleep(ctx, r.Group.Lasts); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.note(End, tick)
	return nil
}

// Serve is the main function of a replica: it runs the job until the standard input ends. Without a
// name it prints the wall clock's time.
func Serve() bool {
	return crew.Serve(ReplicaEnv, func(config Replica) error {
		if config.Name == "" {
			fmt.Println(time.Now().UTC().Format(time.RFC3339Nano))
			return nil
		}
		r := &replica{Replica: config, Teller: crew.Teller{Worker: config.Name}, clock: clock{config.Ahead}}
		if r.Group.Ours {
			return r.holdfast(crew.UntilInputEnds())
		}
		return r.gocron(crew.UntilInputEnds())
	})
}

func (r *replica) holdfast(ctx context.Context) error {
	locks, err := lock.Dial(ctx, r.ZooKeeper, lock.WithOwner(r.Name),
		lock.WithTTL(ttl), lock.WithGrace(grace), lock.WithSessionTimeout(ttl-time.Second))
	if err != nil {
		return err
	}
	defer locks.Close()
	job, err := schedule.New(locks, r.jobName(), cron.Every(Interval), schedule.Options{
		AtLeastOnce: r.Group.AtLeastOnce,
		Report: func(run schedule.Run) {
			if run.Outcome == schedule.Unfinished {
				r.note(Unfinished, run.Tick)
			}
		},
	})
	if err != nil {
		return err
	}
	err = job.Run(ctx, func(ctx context.Context, turn *schedule.Turn) error { return r.work(ctx, turn.Tick) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// jobName returns the name of the group's job: locks have no spaces and commas in their names.
func (r *replica) jobName() string { return fmt.Sprintf("%x", r.Group.Name) }

func (r *replica) gocron(ctx context.Context) error {
	client := redis.NewClient(&redis.Options{Addr: r.Redis})
	defer client.Close()
	var options []gocron.SchedulerOption
	if r.Group.Expiry > 0 {
		options = append(options, gocron.WithDistributedLocker(redisLocker{redsync.New(goredis.NewPool(client)), r.Group.Expiry}))
	}
	scheduler, err := gocron.NewScheduler(options...)
	if err != nil {
		return err
	}
	task := gocron.NewTask(func(ctx context.Context) error { return r.work(ctx, r.clock.tick(time.Now())) })
	// A cron job is due at whole seconds, as gocron advises for replicas.
	if _, err := scheduler.NewJob(gocron.CronJob("* * * * * *", true), task, gocron.WithName(r.jobName())); err != nil {
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
	if held, err := l.UnlockContext(ctx); err != nil || !held {
		return errors.Join(err, errors.New("the lock was not held any more"))
	}
	return nil
}
