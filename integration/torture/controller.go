package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// maxRecords is how many operations the history of one lock may have: porcupine
// needs memory for their square. Then workers go on with another lock.
const maxRecords = 5000

// bases are the names of the locks, but for the number that comes after, and their kinds.
var bases = []struct{ name, kind string }{
	{"orders", mutex},
	{"stock", mutex}, // half of whose tasks barge
	{"eu/invoices", rwMutex},
	{"eu/refunds", semaphore},
	{"eu/primary", election},
}

// controller gives workers their tasks, has what their locks protect, and writes
// down what they do.
type controller struct {
	store   *store
	history history
	crew    []*client

	mu         sync.Mutex
	stopping   bool
	used       []int // records of each base
	tasks      []*rand.Rand
	stats      map[string]lock.Stats // of each worker's life, the last
	longest    time.Duration         // wait for a lock
	grants     int
	turnedAway int // tries that found the lock taken, and waits that were given up
	lost       int // holds that ended before they were unlocked
	removed    []string
	unexpected []string
}

func newController(seed uint64, workers int) *controller {
	c := &controller{store: newStore(now), used: make([]int, len(bases)), stats: map[string]lock.Stats{}}
	for i := range workers {
		c.tasks = append(c.tasks, stream(seed, taskStream+i))
	}
	return c
}

// Streams of randomness: each that draws has its own, so that what one draws does
// not depend on when the others do.
const (
	serverStream = 0
	faultStream  = 1 << 10 // and the worker
	taskStream   = 2 << 10 // and the worker
)

func stream(seed uint64, number int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(number))) }

// between draws a time.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

// draw draws what a worker does next.
func (c *controller) draw(worker int) task {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.tasks[worker]
	base := r.IntN(len(bases))
	b := bases[base]
	t := task{Lock: fmt.Sprintf("%s/%d", b.name, c.used[base]/maxRecords), Kind: b.kind, Weight: 1, Barge: b.name == "stock" && r.IntN(2) == 0}
	switch {
	case b.kind == semaphore:
		t.Weight += r.IntN(rooms[semaphore])
	case b.kind == rwMutex && r.IntN(3) == 0:
		t.Weight = rooms[rwMutex]
	case b.kind == election:
		t.Priority = 1 + r.IntN(3)
	}
	how, patience := r.IntN(10), between(r, 100*time.Millisecond, 3*time.Second)
	switch how {
	case 0:
		t.Try = b.kind != election // candidates always wait
	case 1:
		t.Patience = patience
	}
	think := 200 * time.Millisecond
	if r.IntN(8) == 0 {
		think *= 8 // long enough for renewals
	}
	ops := []string{opRead}
	if b.kind != semaphore && t.Weight == rooms[b.kind] {
		// A hold that enters alone writes first: what comes late from the one before is too old then.
		ops = []string{opWrite, opRead, opPut, opPut}
	}
	if b.kind == election {
		ops = append(ops, opShown, opShown)
	}
	t.Steps = []step{{ops[0], between(r, 0, think)}}
	for range r.IntN(5) {
		t.Steps = append(t.Steps, step{ops[r.IntN(len(ops))], between(r, 0, think)})
	}
	if b.kind == rwMutex && t.Weight > 1 && r.IntN(2) == 0 {
		t.Steps = append(t.Steps, step{Op: opShare}, step{opRead, between(r, 0, think)}, step{opRead, between(r, 0, think)})
	}
	c.used[base] += 2*len(t.Steps) + 3
	return t
}

// serve answers one worker until it has ended. Then nothing that it has sent can take
// effect any more.
func (c *controller) serve(from *client, name string, w *zkserver.Worker) {
	var pending *record // whose reply may not have arrived
	for {
		var q request
		line, err := w.Hear(context.Background())
		if err == nil {
			err = json.Unmarshal([]byte(line.Text), &q)
		}
		if err != nil { // killed, perhaps in the midst of a line
			if pending != nil {
				c.history.finish(pending, now(), true)
			}
			return
		}
		if pending != nil {
			c.history.finish(pending, q.Last, false)
			pending = nil
		}
		from.saw(q)
		answer, r := c.answer(name, from.index, q)
		if r != nil {
			c.history.add(r)
			if r.Return == never {
				pending = r
			}
		}
		text, err := json.Marshal(answer)
		if err != nil {
			panic(err) // it has nothing that JSON has not
		}
		_ = w.Tell(string(text)) // fails if it was killed meanwhile: Hear tells
	}
}

// answer does what is asked for. The record of it has ended, or does so when the
// worker has the reply.
func (c *controller) answer(name string, index int, q request) (answer reply, r *record) {
	if q.Op == opNext {
		c.told(name, q)
		c.mu.Lock()
		stop := c.stopping
		c.mu.Unlock()
		if stop {
			return reply{Stop: true}, nil
		}
		return reply{Task: c.draw(index)}, nil
	}
	r = &record{Op: q.Op, Worker: name, Lock: q.Lock, Kind: q.Kind, Weight: q.Weight, Token: q.Token, Call: q.Call, Return: never, Claim: q.Claim, Result: q.Result}
	switch q.Op {
	case opShown:
		r.Return, r.Value = q.Return, q.Value
		if q.Result != "" && q.Result != resultGaveUp {
			c.surprise("%s: the leader of %s was not shown: %s", name, q.Lock, q.Result)
		}
	case opGrant:
		r.Return, r.Value = q.Return, q.Value
		c.mu.Lock()
		c.grants++
		c.longest = max(c.longest, time.Duration(q.Return-q.Call))
		c.mu.Unlock()
	case opRead:
		answer.Token, answer.Value = c.store.read(q.Lock)
		r.Writer, r.Value = answer.Token, answer.Value
	case opWrite:
		answer.OK = c.store.write(q.Lock, q.Token, q.Value, q.Claim.Until)
		r.Value, r.Refuse = q.Value, !answer.OK
	case opTake:
		answer.Count = c.store.take(q.Lock)
		r.Count = answer.Count
	case opPut:
		answer.OK = c.store.put(q.Lock, q.Count, q.Claim.Until)
		r.Count, r.Refuse = q.Count, !answer.OK
	case opLeft:
		r.Return = q.Return
		c.ended(r)
	case opLost:
		c.ended(r)
	}
	return answer, r
}

// told takes what a worker tells of the attempt before, and its statistics.
func (c *controller) told(name string, q request) {
	c.mu.Lock()
	c.stats[name] = q.Stats
	if q.Result == resultHeld || q.Result == resultGaveUp {
		c.turnedAway++
	}
	c.mu.Unlock()
	switch q.Result {
	case "", resultHeld, resultGaveUp:
	default:
		c.surprise("%s: an attempt to lock failed: %s", name, q.Result)
	}
}

// ended takes how a hold ended.
func (c *controller) ended(r *record) {
	c.mu.Lock()
	if r.Op == opLost {
		c.lost++
	}
	switch r.Result {
	case "", resultExpired, resultUnsure, resultLapsed:
		c.mu.Unlock()
	case resultRemoved, resultTaken:
		c.removed = append(c.removed, fmt.Sprintf("%s, lock %s, token %d: the entry of a hold was %s", r.Worker, r.Lock, r.Token, r.Result))
		c.mu.Unlock()
	default:
		c.mu.Unlock()
		c.surprise("%s: a hold of %s ended with: %s", r.Worker, r.Lock, r.Result)
	}
}

// surprise notes what should not happen.
func (c *controller) surprise(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unexpected = append(c.unexpected, fmt.Sprintf(format, args...))
}

// stop has the workers end when they come for their next task.
func (c *controller) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
}
