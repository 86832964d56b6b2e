package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/wait"
)

// The workloads.
const (
	lockWorkload    = "lock"
	lockSetWorkload = "lock-set"
	fencedWorkload  = "fenced"
)

var workloads = []string{lockWorkload, lockSetWorkload, fencedWorkload}

// opRead is a record of a read of the set, which the act that follows it writes back with one more
// element.
const opRead = "read"

// workerEnv is the environment variable that makes this program a client. Its value is a
// workerConfig in JSON.
const workerEnv = "HOLDFAST_COMPARE_WORKER"

type workerConfig struct {
	System  string
	Seed    uint64
	Index   int
	Life    int
	Servers []string // addresses of the client's own relays
}

// work is the main function of a client's process. It runs all workloads that the system offers at
// the same time, until the standard input ends.
func work(c workerConfig) error {
	ctx := crew.UntilInputEnds()
	teller := &crew.Teller{Worker: crew.Name(c.Index, c.Life), Classify: classify}
	peer := peerOf(c.System)
	lockers, err := peer.open(c.Servers, teller.Worker)
	if err != nil {
		return err
	}
	return wait.All(len(peer.offers), func(i int) error {
		j := &job{teller, peer.offers[i], lockers(peer.offers[i]), rand.New(rand.NewPCG(c.Seed, uint64(c.Index)<<32|uint64(c.Life)<<16|uint64(i)))}
		for wait.Sleep(ctx, wait.Between(j.r, 50*time.Millisecond, 500*time.Millisecond)) == nil {
			if err := j.do(); err != nil {
				return err
			}
		}
		return nil
	})
}

// job runs one workload of a client.
type job struct {
	*crew.Teller
	workload string
	lock     locker
	r        *rand.Rand
}

// do takes the lock, does the workload's acts, and unlocks.
func (j *job) do() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return j.Turn(crew.Record{Lock: j.workload}, func() (crew.Held, error) { return j.lock(ctx) }, func(t *crew.Turn) error {
		acts := 1
		if j.workload == lockWorkload {
			acts += j.r.IntN(3)
		}
		for range acts {
			if held, err := t.Check(crew.OpCheck); err != nil || !held {
				return err
			}
			if err := j.act(t); err != nil {
				return err
			}
		}
		_, err := t.Check(crew.OpCheck) // as a program that must know whether it held the lock all the time
		return err
	})
}

// act thinks and then acts, without asking again whether the lock is held. So a process that is
// stopped while it thinks acts late, as any program may. With a set, it reads the set before it
// thinks, and the act writes the set: see [keepSet].
func (j *job) act(t *crew.Turn) error {
	most := 200 * time.Millisecond
	if j.workload != lockWorkload {
		most = 600 * time.Millisecond
		if err := t.Say(opRead, nil, ""); err != nil {
			return err
		}
	}
	time.Sleep(wait.Between(j.r, 0, most))
	return t.Say(crew.OpAct, nil, "")
}
