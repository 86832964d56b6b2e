package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"
	"github.com/robfig/cron/v3"

	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/schedule"
)

// replicaEnv is the environment variable that makes this program a replica. Its value is a replica
// in JSON, or tellTime.
const replicaEnv = "HOLDFAST_TICKRACE_REPLICA"

// tellTime is the configuration of a replica that prints its wall clock's time, and ends.
const tellTime = "time"

// replica is a process of a group. The process ends when its standard input ends.
type replica struct {
	Group     group
	Job       string        // name of the group's job
	Name      string        // name of the replica, with the number of its process
	Ahead     time.Duration // how far its wall clock is ahead; negative: behind
	ZooKeeper []string
	Redis     string
	Log       string // file of the group, to which the replicas append

	clock     clock
	log       *os.File
	logFailed chan error
}

// Words of the log. A line has a word, the tick in ns, the replica, and the right time in ns.
const (
	wordBegin      = "begin"      // a run begins
	wordEnd        = "end"        // a run has ended
	wordUnfinished = "unfinished" // package schedule reports that a run was started and not finished
)

func runReplica(config string) error {
	if config == tellTime {
		fmt.Println(time.Now().UTC().Format(time.RFC3339Nano))
		return nil
	}
	r := replica{logFailed: make(chan error, 1)}
	err := json.Unmarshal([]byte(config), &r)
	if err != nil {
		return err
	}
	r.clock = clock{r.Ahead}
	if r.log, err = os.OpenFile(r.Log, os.O_APPEND|os.O_WRONLY, 0); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		select {
		case err := <-r.logFailed:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel(nil)
	}()
	if r.Group.Ours {
		return r.holdfast(ctx)
	}
	return r.gocron(ctx)
}

// note appends a line to the group's log.
func (r *replica) note(word string, tick time.Time) {
	_, err := fmt.Fprintf(r.log, "%s %d %s %d\n", word, tick.UnixNano(), r.Name, r.clock.truth().UnixNano())
	if err != nil {
		select {
		case r.logFailed <- err:
		default: // an earlier error ends the replica
		}
	}
}

// work is the job: it logs the beginning of the run, waits, and logs the end. If ctx ends before,
// it logs no end.
func (r *replica) work(ctx context.Context, tick time.Time) error {
	r.note(wordBegin, tick)
	if r.Group.Lasts > 0 {
		if err := wait.Sleep(ctx, r.Group.Lasts); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.note(wordEnd, tick)
	return nil
}

// ready tells the race that the replica has connected and is about to run the job.
func ready() { fmt.Println("ready") }

func (r *replica) holdfast(ctx context.Context) error {
	locks, err := lock.Dial(ctx, r.ZooKeeper, lock.WithOwner(r.Name),
		lock.WithTTL(ttl), lock.WithGrace(grace), lock.WithSessionTimeout(ttl-time.Second))
	if err != nil {
		return err
	}
	defer locks.Close()
	job, err := schedule.New(locks, r.Job, cron.Every(interval), schedule.Options{
		AtLeastOnce: r.Group.AtLeastOnce,
		Report: func(run schedule.Run) {
			if run.Outcome == schedule.Unfinished {
				r.note(wordUnfinished, run.Tick)
			}
		},
	})
	if err != nil {
		return err
	}
	ready()
	err = job.Run(ctx, func(ctx context.Context, turn *schedule.Turn) error { return r.work(ctx, turn.Tick) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (r *replica) gocron(ctx context.Context) error {
	client := redis.NewClient(&redis.Options{Addr: r.Redis})
	defer client.Close()
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(newRedisLocker(client, r.Group.Expiry)))
	if err != nil {
		return err
	}
	task := gocron.NewTask(func(ctx context.Context) error { return r.work(ctx, r.clock.tick(time.Now())) })
	// A cron job is due at whole seconds, as gocron advises for replicas.
	if _, err := scheduler.NewJob(gocron.CronJob("* * * * * *", true), task, gocron.WithName(r.Job)); err != nil {
		return err
	}
	scheduler.Start()
	ready()
	<-ctx.Done()
	return scheduler.Shutdown()
}
