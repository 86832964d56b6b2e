package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/rpc"
	"os"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
)

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

func (c workerConfig) name() string { return fmt.Sprintf("c%d.%d", c.Index, c.Life) }

// worker is the process of a client. It runs all workloads that the system offers at the same time.
// It writes records to its standard output, and ends when its standard input ends.
type worker struct {
	workerConfig
	store *rpc.Client

	mu  sync.Mutex
	out *json.Encoder
}

// work is the main function of a client.
func work(config string) error {
	w := &worker{out: json.NewEncoder(os.Stdout)}
	err := json.Unmarshal([]byte(config), &w.workerConfig)
	if err != nil {
		return err
	}
	if w.store, err = rpc.Dial("unix", w.Store); err != nil {
		return err
	}
	peer := peerOf(w.System)
	lockers, err := peer.open(w.Servers, w.name())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	offered := peer.offers
	return wait.All(len(offered), func(i int) error {
		j := &job{worker: w, workload: offered[i], locker: lockers(offered[i])}
		j.r = rand.New(rand.NewPCG(w.Seed, uint64(w.Index)<<32|uint64(w.Life)<<16|uint64(i)))
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
	*worker
	workload string
	locker   locker
	r        *rand.Rand
	holds    int // number of holds so far

	hold  string // name of the present hold
	token string
}

// say writes a record. An error means that the controller has ended.
func (j *job) say(r record) error {
	r.Workload = j.workload
	if r.Return == 0 {
		r.Call = monotonic.Now()
		r.Return = r.Call
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.out.Encode(r)
}

// think sleeps for a random time of at most most.
func (j *job) think(most time.Duration) { time.Sleep(wait.Between(j.r, 0, most)) }

// do takes the lock, does the workload's acts, and unlocks. It records errors of the library, and
// returns other errors.
func (j *job) do() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r := record{Call: monotonic.Now()}
	h, err := j.locker.take(ctx)
	r.Return = monotonic.Now()
	if err != nil {
		r.Op, r.Result = opTry, classify(err)
		return j.say(r)
	}
	j.holds++
	j.hold, j.token = fmt.Sprintf("%s/%d", j.name(), j.holds), h.token()
	r.Op, r.Hold, r.Token = opGrant, j.hold, j.token
	err = j.say(r)
	if err == nil {
		err = j.inside(h)
	}
	if err == nil {
		_, err = j.ask(h) // ask at the end, as a program that must know whether it held the lock all the time
	}
	if err == nil {
		err = j.say(record{Op: opLeave, Hold: j.hold})
	}
	if err == nil {
		result := classify(h.leave())
		err = j.say(record{Op: opLeft, Hold: j.hold, Result: result})
	}
	return err
}

// ask asks the library whether the lock is held, and records the answer.
func (j *job) ask(h held) (held bool, err error) {
	c, err := h.ask()
	if err != nil {
		return false, j.say(record{Op: opLost, Hold: j.hold, Result: classify(err)})
	}
	return true, j.say(record{Op: opClaim, Hold: j.hold, Claim: c})
}

// step asks whether the lock is held. If it is, step thinks and then acts, without asking again. So
// a process that is stopped while it thinks acts late, as any program may.
func (j *job) step(h held, most time.Duration) (goOn bool, err error) {
	if goOn, err = j.ask(h); err != nil || !goOn {
		return false, err
	}
	j.think(most)
	return true, j.say(record{Op: opAct, Hold: j.hold})
}

// inside does the workload's acts while the lock is held.
func (j *job) inside(h held) error {
	if j.workload != lockWorkload {
		return j.add(h)
	}
	for range 1 + j.r.IntN(3) {
		if goOn, err := j.step(h, 200*time.Millisecond); err != nil || !goOn {
			return err
		}
	}
	return nil
}

// add adds an element to the set in the store: it reads all, thinks, and writes all.
func (j *job) add(h held) error {
	if goOn, err := j.ask(h); err != nil || !goOn {
		return err
	}
	q := Request{Workload: j.workload, Token: j.token, Added: int64(j.Index)<<48 | int64(j.Life)<<32 | int64(j.holds)}
	err := j.store.Call("Stores.Read", q, &q.Set)
	if err == nil {
		j.think(600 * time.Millisecond)
		r := record{Op: opAct, Hold: j.hold, Call: monotonic.Now()}
		if err = j.store.Call("Stores.Write", q, new(struct{})); err == nil {
			r.Return = monotonic.Now()
			return j.say(r)
		}
	}
	if refused := rpc.ServerError(""); errors.As(err, &refused) && refused.Error() == errStale.Error() {
		return j.say(record{Op: opRefuse, Hold: j.hold})
	}
	return err
}
