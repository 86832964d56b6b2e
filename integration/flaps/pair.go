package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/integration/peers"
)

// fault is what happens to a client that holds a lock, and works on.
type fault struct {
	name   string // on the command line
	title  string
	strike func(ctx context.Context, holder *peers.Client, server string) error
	works  time.Duration // for how long the holder works, from the fault on
}

const stallTime = 15 * time.Second

var faults = []*fault{
	{
		name: "stall", title: "The holder's connection is stalled for 15 s",
		strike: func(_ context.Context, holder *peers.Client, _ string) error {
			holder.Relay.Stall()
			time.AfterFunc(stallTime, holder.Relay.Resume)
			return nil
		},
		works: stallTime + 5*time.Second, // to connect again
	},
	{
		name: "kill", title: "The server ends the holder's session",
		strike: func(ctx context.Context, holder *peers.Client, server string) error {
			return holder.Tap.Expire(ctx, server)
		},
		works: 12 * time.Second, // longer than the session timeout, and a TTL of 6 s and the grace
	},
}

// pairRun is what was seen of two clients, the first of which had the lock when
// the fault struck, while the second waited for it.
type pairRun struct {
	fault     *fault
	contender *contender
	round     int
	err       error // it could not be carried out

	struck       time.Time
	in           time.Time  // the second came in; zero: it did not
	asked        string     // what the first's library said just then, when asked whether it holds the lock
	warned, told peers.Said // what it said of its own accord, since the fault; zero: nothing
	unlocked     time.Time  // the first was done, and unlocked
	unlock       string     // what its Unlock said
	left         string     // what the second's Unlock said
}

// overlap is for how long the second was in, too, before the first was told, or
// was done.
func (r *pairRun) overlap() time.Duration {
	end := r.unlocked
	if r.lost() {
		end = r.told.At
	}
	if r.in.IsZero() || r.in.After(end) {
		return 0
	}
	return end.Sub(r.in)
}

// lost reports whether the first was told that it has lost the lock.
func (r *pairRun) lost() bool { return !r.told.At.IsZero() }

// broken lists the promises of Holdfast's that were not kept.
func (r *pairRun) broken() (promises []string) {
	fails := func(format string, args ...any) { promises = append(promises, fmt.Sprintf(format, args...)) }
	switch {
	case r.in.IsZero():
		fails("the queue is wedged: the second did not come in, and the first unlocked %s ago", seconds(patience))
	case r.overlap() > 0:
		fails("the second came in while the first had the lock and was told nothing, for %s", seconds(r.overlap()))
	case r.in.Before(r.unlocked) && r.asked != "no":
		fails("when the second came in, Valid() of the first's hold said %s", r.asked)
	}
	switch {
	case r.lost() && r.unlock == ok:
		fails("Unlock of a hold that was lost said ok")
	case !r.lost() && r.unlock != ok:
		fails("Unlock of a hold that was not lost said: %s", r.unlock)
	}
	if !r.in.IsZero() && r.left != ok {
		fails("Unlock of the second's hold said: %s", r.left)
	}
	if r.contender.rides && r.lost() {
		fails("the hold was lost, though its lease outlives the fault: %s", r.told.Text)
	}
	return promises
}

// run carries the run out. It calls inPlace when nothing is left to be done but to
// wait for what happens.
func (r *pairRun) run(ctx context.Context, b *bench, inPlace func()) error {
	lockPath := lockPath(r.fault.name, r.contender, r.round)
	p, err := r.contender.start(b.overhear(lockPath))
	if err != nil {
		return err
	}
	defer p.Close()
	first, err := p.Open(ctx, b.server, lockPath, peers.Mutex)
	if err != nil {
		return err
	}
	second, err := p.Open(ctx, b.server, lockPath, peers.Mutex)
	if err != nil {
		return err
	}
	if err := first.Must(ctx, "lock"); err != nil {
		return err
	}
	coming, err := second.Tell("lock")
	if err != nil {
		return err
	}
	if err := b.awaitContenders(ctx, lockPath, 2); err != nil {
		return err
	}
	inPlace()
	// The rounds strike at different times between two pings, or renewals.
	if err := sleep(ctx, time.Duration(r.round-1)*700*time.Millisecond); err != nil {
		return err
	}

	working, cancel := context.WithTimeoutCause(ctx, r.fault.works, errDone)
	defer cancel()
	session, _, _ := first.Tap.Session()
	r.struck = time.Now()
	if err := r.fault.strike(ctx, first, b.server); err != nil {
		return err
	}
	comeIn := func(ctx context.Context) error {
		answer, err := second.Hear(ctx, coming)
		if err == nil && answer.Text != ok {
			err = fmt.Errorf("the second cannot take the lock: %s", answer.Text)
		}
		if err == nil {
			r.in = answer.At
		}
		return err
	}
	switch err = comeIn(working); {
	case err == nil:
		if r.asked, err = first.Ask(ctx, "held"); err != nil {
			return err
		}
	case !errors.Is(err, errDone):
		return err
	}
	<-working.Done()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	if id, _, _ := first.Tap.Session(); id == session {
		return errors.New("the fault did no harm: the holder still has its session")
	}
	r.warned, r.told = first.FirstSince(r.struck)
	r.unlocked = time.Now()
	if r.unlock, err = first.Ask(ctx, "unlock"); err != nil {
		return err
	}
	if r.in.IsZero() {
		patient, cancel := context.WithTimeoutCause(ctx, patience, errDone)
		defer cancel()
		if err := comeIn(patient); err != nil && !errors.Is(err, errDone) {
			return err
		}
	}
	if !r.in.IsZero() {
		r.left, err = second.Ask(ctx, "unlock")
	}
	return err
}

// errDone ends the holder's work.
var errDone = errors.New("done")
