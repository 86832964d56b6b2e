package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// workerEnv tells this binary to be a worker, and which.
const workerEnv = "HOLDFAST_TORTURE_WORKER"

// workerConfig is what a worker is started with.
type workerConfig struct {
	Name    string   `json:"name"`    // w3.2: the third worker's second life
	Servers []string `json:"servers"` // by way of the worker's own relays
}

// worker is a process that does the tasks that the controller gives it.
type worker struct {
	workerConfig
	locks *lock.Client
	tap   zkserver.Tap // knows the session
	in    *json.Decoder
	out   *json.Encoder
	last  instant // when the last reply arrived
	acts  int
	stood int // for election
}

// work is the process: it ends when it is told to, or when the controller is gone.
func work(config string) error {
	var w worker
	if err := json.Unmarshal([]byte(config), &w.workerConfig); err != nil {
		return err
	}
	w.in, w.out = json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var err error
	w.locks, err = lock.Dial(context.Background(), w.Servers,
		lock.WithRoot(root), lock.WithTTL(ttl), lock.WithGrace(grace), lock.WithOwner(w.Name),
		lock.WithSessionTimeout(sessionTimeout), lock.WithUnlockTimeout(unlockTimeout), lock.WithDialer(w.tap.Dial),
		lock.WithLogger(zerolog.New(os.Stderr).Level(zerolog.InfoLevel).With().Timestamp().Logger()))
	if err != nil {
		return err
	}
	result := ""
	for {
		next, err := w.ask(request{Op: opNext, Result: result, Stats: w.locks.Stats()})
		if err != nil {
			return err
		}
		if next.Stop {
			return w.close()
		}
		if result, err = w.do(next.Task); err != nil {
			return err
		}
	}
}

// close closes the client. It waits for a server first: what cannot be deleted in the time
// that a client has for it is left behind, as it says then.
func (w *worker) close() error {
	if _, err := w.locks.Election("closing").Leader(context.Background()); err != nil && !errors.Is(err, lock.ErrNoLeader) {
		return err
	}
	return w.locks.Close()
}

// ask sends the controller a request and waits for the answer.
func (w *worker) ask(r request) (reply, error) {
	r.Last = w.last
	r.Session, r.Password, _ = w.tap.Session()
	if r.Call == 0 {
		r.Call = now()
	}
	var answer reply
	err := w.out.Encode(r)
	if err == nil {
		err = w.in.Decode(&answer)
	}
	w.last = now()
	return answer, err
}

// do takes the task's lock, does the steps and gives it back. If it did not get
// the lock, the result says why. An error is the end of the controller.
func (w *worker) do(t task) (result string, _ error) {
	ctx := context.Background()
	if t.Patience > 0 {
		bound, cancel := context.WithTimeout(ctx, t.Patience)
		defer cancel()
		ctx = bound
	}
	call := now()
	hold, err := w.take(ctx, t)
	returned := now()
	if err != nil {
		return classify(err), nil
	}
	a := act{w, hold, request{Lock: t.Lock, Kind: t.Kind, Weight: t.Weight, Token: hold.Token().Czxid}}
	if _, err := a.ask(request{Op: opGrant, Call: call, Return: returned, Claim: inquire(hold), Value: hold.Metadata()[znode.ValueKey]}); err != nil {
		return "", err
	}
	for _, s := range t.Steps {
		if goOn, err := a.step(s); err != nil {
			return "", err
		} else if !goOn {
			break
		}
	}
	// The controller has to know that the claims end before others can enter.
	if _, err := a.ask(request{Op: opLeave}); err != nil {
		return "", err
	}
	call = now()
	err = hold.Unlock()
	_, err = a.ask(request{Op: opLeft, Call: call, Return: now(), Result: classify(err)})
	return "", err
}

// take takes or tries to take the task's lock.
func (w *worker) take(ctx context.Context, t task) (*lock.Hold, error) {
	var opts []lock.LockOption
	if t.Barge {
		opts = append(opts, lock.WithBarging())
	}
	m, rw, s := w.locks.Mutex(t.Lock, opts...), w.locks.RWMutex(t.Lock), w.locks.Semaphore(t.Lock, rooms[semaphore])
	switch {
	case t.Kind == election:
		w.stood++
		l, err := w.locks.Election(t.Lock, lock.WithPriority(t.Priority)).Campaign(ctx, fmt.Sprintf("%s/%d", w.Name, w.stood))
		if err != nil {
			return nil, err
		}
		return l.Hold, nil
	case t.Kind == semaphore && t.Try:
		return s.TryAcquire(ctx, t.Weight)
	case t.Kind == semaphore:
		return s.Acquire(ctx, t.Weight)
	case t.Kind == mutex && t.Try:
		return m.TryLock(ctx)
	case t.Kind == mutex:
		return m.Lock(ctx)
	case t.Weight == rooms[rwMutex] && t.Try:
		return rw.TryLock(ctx)
	case t.Weight == rooms[rwMutex]:
		return rw.Lock(ctx)
	case t.Try:
		return rw.TryRLock(ctx)
	}
	return rw.RLock(ctx)
}

// act is what a worker does with a hold.
type act struct {
	*worker
	hold *lock.Hold
	base request
}

// ask asks in the name of the hold.
func (a *act) ask(r request) (reply, error) {
	r.Lock, r.Kind, r.Weight, r.Token = a.base.Lock, a.base.Kind, a.base.Weight, a.base.Token
	return a.worker.ask(r)
}

// step does one step. It reports whether to go on: not if the hold is over.
//
// It looks before each act at whether the hold is valid, as a program should that
// cares. Between that look and the act it may be stopped for any time.
func (a *act) step(s step) (goOn bool, err error) {
	c, err := a.look()
	if c == nil || err != nil {
		return false, err
	}
	switch s.Op {
	case opShown:
		time.Sleep(s.Think)
		return true, a.askWhoLeads()
	case opRead:
		time.Sleep(s.Think)
		_, err := a.ask(request{Op: opRead, Claim: c})
		return err == nil, err
	case opWrite:
		time.Sleep(s.Think)
		a.acts++
		r, err := a.ask(request{Op: opWrite, Claim: c, Value: fmt.Sprintf("%s/%d", a.Name, a.acts)})
		return r.OK, err
	case opPut:
		r, err := a.ask(request{Op: opTake, Claim: c})
		if err != nil {
			return false, err
		}
		time.Sleep(s.Think)
		if c, err = a.look(); c == nil || err != nil {
			return false, err
		}
		r, err = a.ask(request{Op: opPut, Claim: c, Count: r.Count + 1})
		return r.OK, err
	case opShare:
		// Here too the controller has to know before others can enter.
		if _, err := a.ask(request{Op: opShare, Claim: c}); err != nil {
			return false, err
		}
		if err := a.hold.Downgrade(context.Background()); err != nil {
			_, err = a.ask(request{Op: opLost, Result: classify(err)})
			return false, err
		}
		return true, nil
	}
	panic("no such step: " + s.Op)
}

// askWhoLeads asks ZooKeeper for the leader, as any client may; that is not an act of the hold's.
func (a *act) askWhoLeads() error {
	ctx, cancel := context.WithTimeout(context.Background(), sessionTimeout)
	defer cancel()
	q := request{Op: opShown, Lock: a.base.Lock, Kind: a.base.Kind, Call: now()}
	leader, err := a.locks.Election(q.Lock).Leader(ctx)
	if q.Return = now(); !errors.Is(err, lock.ErrNoLeader) {
		q.Result = classify(err)
	}
	q.Token, q.Value = leader.Token.Czxid, leader.Value
	if err != nil { // then it is shown as a candidate
		q.Token, q.Value = 0, ""
	}
	_, err = a.worker.ask(q)
	return err
}

// look asks the hold whether it is valid, and tells the controller if not.
func (a *act) look() (*claim, error) {
	if c := inquire(a.hold); c != nil {
		return c, nil
	}
	told := resultLapsed
	if err := a.hold.Err(); err != nil {
		told = classify(err)
	}
	_, err := a.ask(request{Op: opLost, Result: told})
	return nil, err
}

// classify names what a call of the library came to: one of the results, "" for
// success, or the error's text, which nothing here should lead to.
func classify(err error) string {
	var unsure *lock.UnlockError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, lock.ErrRemoved):
		return resultRemoved
	case errors.Is(err, lock.ErrTaken):
		return resultTaken
	case errors.Is(err, lock.ErrExpired):
		return resultExpired
	case errors.As(err, &unsure): // the deadline is in it that the unlock had
		return resultUnsure
	case errors.Is(err, context.DeadlineExceeded):
		return resultGaveUp
	case errors.Is(err, lock.ErrHeld):
		return resultHeld
	}
	return err.Error()
}
