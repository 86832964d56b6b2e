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
		fails("when the second came in, Remaining() > 0 of the first's hold said %s", r.asked)
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
	two := pair{pairRun: r}
	if err := two.queueUp(ctx, b, p, lockPath); err != nil {
		return err
	}
	inPlace()
	// The rounds strike at different times between two pings, or renewals.
	if err := sleep(ctx, time.Duration(r.round-1)*700*time.Millisecond); err != nil {
		return err
	}
	if err := two.strike(ctx, b); err != nil {
		return err
	}
	return two.finish(ctx)
}

// pair is the two clients of a run.
type pair struct {
	*pairRun
	first, second *peers.Client
	coming        <-chan peers.Said // what the second's Lock says
}

// queueUp has the first take the lock, and the second wait for it.
func (p *pair) queueUp(ctx context.Context, b *bench, peer *peers.Peer, lockPath string) (err error) {
	if p.first, err = peer.Open(ctx, b.server, lockPath, peers.Mutex); err != nil {
		return err
	}
	if p.second, err = peer.Open(ctx, b.server, lockPath, peers.Mutex); err != nil {
		return err
	}
	if err := p.first.Must(ctx, "lock"); err != nil {
		return err
	}
	if p.coming, err = p.second.Tell("lock"); err != nil {
		return err
	}
	return b.awaitContenders(ctx, lockPath, 2)
}

// strike has the fault happen, and the first work on for a while. It notes whether the
// second comes in meanwhile.
func (p *pair) strike(ctx context.Context, b *bench) error {
	working, cancel := context.WithTimeoutCause(ctx, p.fault.works, errDone)
	defer cancel()
	session, _, _ := p.first.Tap.Session()
	p.struck = time.Now()
	if err := p.fault.strike(ctx, p.first, b.server); err != nil {
		return err
	}
	switch err := p.comeIn(working); {
	case err == nil:
		if p.asked, err = p.first.Ask(ctx, "held"); err != nil {
			return err
		}
	case !errors.Is(err, errDone):
		return err
	}
	<-working.Done()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if id, _, _ := p.first.Tap.Session(); id == session {
		return errors.New("the fault did no harm: the holder still has its session")
	}
	return nil
}

// comeIn waits until the second is in.
func (p *pair) comeIn(ctx context.Context) error {
	answer, err := p.second.Hear(ctx, p.coming)
	if err == nil && answer.Text != ok {
		err = fmt.Errorf("the second cannot take the lock: %s", answer.Text)
	}
	if err == nil {
		p.in = answer.At
	}
	return err
}

// finish has the first unlock, and then the second, which may come in only now.
func (p *pair) finish(ctx context.Context) (err error) {
	p.warned, p.told = p.first.FirstSince(p.struck)
	p.unlocked = time.Now()
	if p.unlock, err = p.first.Ask(ctx, "unlock"); err != nil {
		return err
	}
	if p.in.IsZero() {
		patient, cancel := context.WithTimeoutCause(ctx, patience, errDone)
		defer cancel()
		if err := p.comeIn(patient); err != nil && !errors.Is(err, errDone) {
			return err
		}
	}
	if !p.in.IsZero() {
		p.left, err = p.second.Ask(ctx, "unlock")
	}
	return err
}

// errDone ends the holder's work.
var errDone = errors.New("done")
