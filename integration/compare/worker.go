package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/rpc"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
)

// The workloads.
const (
	lockWorkload    = "lock"
	lockSetWorkload = "lock-set"
	fencedWorkload  = "fenced"
)

var workloads = []string{lockWorkload, lockSetWorkload, fencedWorkload}

// opRefuse is a record of an act that the fenced store refused.
const opRefuse = "refuse"

// workerEnv is the environment variable that makes this program a client. Its value is a
// workerConfig in JSON.
const workerEnv = "HOLDFAST_COMPARE_WORKER"

type workerConfig struct {
	System  string
	Seed    uint64
	Index   int
	Life    int
	Servers []string // addresses of the client's own relays
	Store   string   // Unix socket
}

// work is the main function of a client's process. It runs all workloads that the system offers at
// the same time, until the standard input ends.
func work(c workerConfig) error {
	ctx := crew.UntilInputEnds()
	store, err := rpc.Dial("unix", c.Store)
	if err != nil {
		return err
	}
	teller := &crew.Teller{Worker: crew.Name(c.Index, c.Life), Classify: classify}
	peer := peerOf(c.System)
	lockers, err := peer.open(c.Servers, teller.Worker)
	if err != nil {
		return err
	}
	return wait.All(len(peer.offers), func(i int) error {
		j := &job{Teller: teller, store: store, workload: peer.offers[i], lock: lockers(peer.offers[i]), next: int64(c.Index)<<48 | int64(c.Life)<<32}
		j.r = rand.New(rand.NewPCG(c.Seed, uint64(c.Index)<<32|uint64(c.Life)<<16|uint64(i)))
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
	store    *rpc.Client
	workload string
	lock     locker
	next     int64 // element for the store
	r        *rand.Rand
}

// think sleeps for a random time of at most most.
func (j *job) think(most time.Duration) { time.Sleep(wait.Between(j.r, 0, most)) }

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
// stopped while it thinks acts late, as any program may. With a store it adds an element: it reads
// all, thinks, and writes all.
func (j *job) act(t *crew.Turn) error {
	if j.workload == lockWorkload {
		j.think(200 * time.Millisecond)
		return t.Say(crew.OpAct, nil, "")
	}
	j.next++
	w := Write{Token: t.Base.Token, Added: j.next}
	r := t.Base
	r.Op = crew.OpAct
	err := j.store.Call(j.workload+".Read", w.Token, &w.Set)
	if err == nil {
		j.think(600 * time.Millisecond)
		r.Call = monotonic.Now()
		err = j.store.Call(j.workload+".Write", w, new(struct{}))
	}
	if refused := rpc.ServerError(""); errors.As(err, &refused) && refused.Error() == errStale.Error() {
		r.Op = opRefuse
	} else if err != nil {
		return err
	}
	return j.Tell(r)
}
