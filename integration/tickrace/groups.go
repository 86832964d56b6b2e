package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
)

const (
	// interval is the time from a tick to the next one.
	interval = time.Second
	// replicas is the number of replicas of each group.
	replicas = 5
	// mostOff is how far a wall clock is off at most.
	mostOff = 12 * time.Hour
	// ttl and grace are those of package schedule's locks.
	ttl, grace = 5 * time.Second, time.Second
)

// group is a job with its replicas.
type group struct {
	Name        string // name in the output and the results
	Ours        bool   // runs by package schedule
	AtLeastOnce bool
	Off         bool          // the wall clocks are off
	Lasts       time.Duration // duration of a run
	Expiry      time.Duration // expiry of the lock on Redis; 0: redsync's default, 8 s
}

// groups are the groups of the race. The tuned groups have two settings that help gocron. Lasts: a
// run takes half the interval, so late replicas find the lock held. Expiry: the lock of a killed
// holder expires after one interval.
var groups = []group{
	{Name: "Holdfast", Ours: true, Off: true},
	{Name: "Holdfast, 0.5 s runs", Ours: true, Off: true, Lasts: interval / 2},
	{Name: "Holdfast, AtLeastOnce, 0.5 s runs", Ours: true, Off: true, AtLeastOnce: true, Lasts: interval / 2},
	{Name: "gocron", Off: true},
	{Name: "gocron, tuned", Off: true, Lasts: interval / 2, Expiry: interval},
	{Name: "gocron, clocks right"},
	{Name: "gocron, tuned, clocks right", Lasts: interval / 2, Expiry: interval},
}

// fault is what happens to one replica of each group.
type fault struct {
	at      time.Duration // time since the start
	replica int
	kill    bool          // SIGKILL, and a new process afterwards; else SIGSTOP and SIGCONT
	lasts   time.Duration // from the fault until the replica runs again
}

func (f fault) String() string {
	what := "stopped"
	if f.kill {
		what = "killed"
	}
	return fmt.Sprintf("replica %d of each group is %s for %v", f.replica, what, f.lasts.Round(time.Millisecond))
}

// mostDown is the largest number of replicas of a group that are down at once.
const mostDown = 2

// planFaults returns random faults, sorted by time. About half of them come just after a tick, when
// a run may be going on.
func planFaults(seed uint64, duration time.Duration) (faults []fault) {
	r := stream(seed, "faults", 0, 0)
	var busy [replicas]time.Duration // when the replica runs again
	for at := wait.Between(r, 0, 5*time.Second); at < duration; at += wait.Between(r, 3*time.Second, 15*time.Second) {
		f := fault{at: at, replica: r.IntN(replicas), kill: r.IntN(2) == 0, lasts: wait.Between(r, 0, 12*time.Second)}
		if r.IntN(2) == 0 {
			f.at = at.Truncate(interval) + wait.Between(r, 0, 30*time.Millisecond)
		}
		if !f.kill {
			f.lasts += time.Second
		}
		f.lasts = min(f.lasts, duration-f.at)
		down := 0
		for _, until := range busy {
			if until >= f.at {
				down++
			}
		}
		if down >= mostDown || busy[f.replica] >= f.at {
			continue
		}
		busy[f.replica] = f.at + f.lasts
		faults = append(faults, f)
	}
	return faults
}

// planRestarts returns random times at which the ZooKeeper leader and Redis are killed and
// restarted.
func planRestarts(seed uint64, duration time.Duration) (times []time.Duration) {
	r := stream(seed, "restarts", 0, 0)
	for at := wait.Between(r, 10*time.Second, 40*time.Second); at < duration; at += wait.Between(r, 30*time.Second, 90*time.Second) {
		times = append(times, at)
	}
	return times
}

// offset returns the error of the wall clock of a replica's process; life counts the replica's
// restarts. All groups get the same offsets.
func offset(seed uint64, replica, life int) time.Duration {
	return wait.Between(stream(seed, "offset", replica, life), -mostOff, mostOff)
}

// stream returns the random numbers of one use. The numbers do not depend on other uses.
func stream(seed uint64, use string, replica, life int) *rand.Rand {
	key := seed
	for _, b := range []byte(use) {
		key = key*31 + uint64(b)
	}
	return rand.New(rand.NewPCG(key, uint64(replica)<<32|uint64(life)))
}
