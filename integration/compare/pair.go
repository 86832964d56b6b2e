package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/integration/peers"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// strike is a fault of a client that holds a lock and goes on with its work.
type strike struct {
	strike func(ctx context.Context, holder *peers.Client, server string) error
	works  time.Duration // time for which the holder works after the fault
}

const stallTime = 15 * time.Second

var stall = pairs("stall", "The holder's connection is stalled for 15 s", strike{
	strike: func(_ context.Context, holder *peers.Client, _ string) error {
		holder.Relay.Stall()
		time.AfterFunc(stallTime, holder.Relay.Resume)
		return nil
	},
	works: stallTime + 5*time.Second, // includes time to reconnect
})

var kill = pairs("kill", "The server ends the holder's session", strike{
	strike: func(ctx context.Context, holder *peers.Client, server string) error {
		return holder.Tap.Expire(ctx, server)
	},
	works: 12 * time.Second, // longer than the session timeout, and than a TTL of 6 s with the grace
})

func pairs(name, title string, f strike) *scenario {
	return &scenario{
		name: name, title: title,
		head: []string{
			"lock", "second in", "first warned", "first told", "both in", "first's library, as the second came in", "first's Unlock",
		},
		times: func(*contender) int { return 1 },
		begin: func(c *contender, round int) outcome { return &pairRun{fault: f, contender: c, round: round} },
	}
}

// pairRun has the observations of two clients. The first held the lock when the fault happened, and
// the second waited for it.
type pairRun struct {
	fault         strike
	contender     *contender
	round         int
	first, second *peers.Client
	coming        <-chan zkserver.Line // answer to the second client's lock command

	struck       time.Time
	in           time.Time     // time at which the second client got the lock; zero: never
	asked        string        // answer of the first client's library at that time: whether it holds the lock
	warned, told zkserver.Line // first warning and first report of a loss by the first client's library since the fault; zero: none
	unlocked     time.Time     // time at which the first client unlocked
	unlock       string        // answer to the first client's unlock command
	left         string        // answer to the second client's unlock command
}

// overlap returns how long both clients held the lock: from the second client's entry until the
// first one's library reported the loss, or if it reported none, until the first one unlocked.
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

// lost reports whether the first client's library reported the loss of the hold.
func (r *pairRun) lost() bool { return !r.told.At.IsZero() }

// broken lists the promises of Holdfast that were broken.
func (r *pairRun) broken() (promises []string) {
	fails := func(format string, args ...any) { promises = append(promises, fmt.Sprintf(format, args...)) }
	switch {
	case r.in.IsZero():
		fails("the queue is wedged: the second did not come in, and the first unlocked %s ago", seconds(flapPatience))
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

func (r *pairRun) cells() []string {
	since := func(t time.Time, otherwise string) string {
		if t.IsZero() {
			return otherwise
		}
		return seconds(t.Sub(r.struck))
	}
	in, overlap, asked := since(r.in, "never"), "no", "–"
	if d := r.overlap(); d > 0 {
		overlap = seconds(d)
	}
	switch {
	case r.in.After(r.unlocked):
		in += ", after Unlock"
	case !r.in.IsZero() && r.contender.asked == "":
		asked = "cannot be asked"
	case !r.in.IsZero():
		asked = fmt.Sprintf("`%s`: %s", r.contender.asked, r.asked)
	}
	return []string{in, since(r.warned.At, "–"), since(r.told.At, "–"), overlap, asked, r.unlock}
}

func (r *pairRun) happen(ctx context.Context, b *bench, p *peers.Peer, lockPath string) error {
	if err := r.queueUp(ctx, b, p, lockPath); err != nil {
		return err
	}
	// The rounds strike at different times between two pings or renewals.
	if err := wait.Sleep(ctx, time.Duration(r.round-1)*700*time.Millisecond); err != nil {
		return err
	}
	if err := r.strike(ctx, b); err != nil {
		return err
	}
	return r.finish(ctx)
}

// queueUp makes the first client take the lock, and waits until the second one waits for it.
func (r *pairRun) queueUp(ctx context.Context, b *bench, p *peers.Peer, lockPath string) (err error) {
	if r.first, err = p.Open(ctx, b.server, lockPath, peers.Mutex); err != nil {
		return err
	}
	if r.second, err = p.Open(ctx, b.server, lockPath, peers.Mutex); err != nil {
		return err
	}
	if err := r.first.Must(ctx, "lock"); err != nil {
		return err
	}
	if r.coming, err = r.second.Tell("lock"); err != nil {
		return err
	}
	return wait.Until(ctx, flapPatience, "the second waits", func() (bool, error) {
		children, _, err := b.look.Children(lockPath)
		return len(znode.Contenders(children)) == 2, err
	})
}

// strike causes the fault while the first client works for the fault's time. It records whether the
// second client gets the lock meanwhile. It fails if the first client keeps its session.
func (r *pairRun) strike(ctx context.Context, b *bench) error {
	working, cancel := context.WithTimeoutCause(ctx, r.fault.works, errDone)
	defer cancel()
	session, _, _ := r.first.Tap.Session()
	r.struck = time.Now()
	if err := r.fault.strike(ctx, r.first, b.server); err != nil {
		return err
	}
	switch err := r.comeIn(working); {
	case err == nil:
		if r.asked, err = r.first.Ask(ctx, "held"); err != nil {
			return err
		}
	case !errors.Is(err, errDone):
		return err
	}
	<-working.Done()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if id, _, _ := r.first.Tap.Session(); id == session {
		return errors.New("the fault did no harm: the holder still has its session")
	}
	return nil
}

// comeIn waits until the second client has the lock, and records the time.
func (r *pairRun) comeIn(ctx context.Context) error {
	answer, err := r.second.Hear(ctx, r.coming)
	if err == nil && answer.Text != ok {
		err = fmt.Errorf("the second cannot take the lock: %s", answer.Text)
	}
	if err == nil {
		r.in = answer.At
	}
	return err
}

// finish makes the first client unlock, and then the second one, which may get the lock only now.
func (r *pairRun) finish(ctx context.Context) (err error) {
	r.warned, r.told = r.first.FirstSince(r.struck)
	r.unlocked = time.Now()
	if r.unlock, err = r.first.Ask(ctx, "unlock"); err != nil {
		return err
	}
	if r.in.IsZero() {
		patient, cancel := context.WithTimeoutCause(ctx, flapPatience, errDone)
		defer cancel()
		if err := r.comeIn(patient); err != nil && !errors.Is(err, errDone) {
			return err
		}
	}
	if !r.in.IsZero() {
		r.left, err = r.second.Ask(ctx, "unlock")
	}
	return err
}

// errDone is the cause of a context that ends after the time of the holder's work or of a wait.
var errDone = errors.New("done")
