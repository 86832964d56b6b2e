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

const stallTime = 15 * time.Second

var stall = pairs("stall", "The holder's connection is stalled for 15 s", stallTime+5*time.Second, // includes time to reconnect
	func(_ context.Context, holder *peers.Client, _ string) error {
		holder.Relay.Stall()
		time.AfterFunc(stallTime, holder.Relay.Resume)
		return nil
	})

var kill = pairs("kill", "The server ends the holder's session", 12*time.Second, // longer than the session timeout, and than a TTL of 6 s with the grace
	func(ctx context.Context, holder *peers.Client, server string) error {
		return holder.Tap.Expire(ctx, server)
	})

// pairs returns the scenario in which a fault strikes a client that holds a lock and works on for a
// time, and a second one waits.
func pairs(name, title string, works time.Duration, strike func(ctx context.Context, holder *peers.Client, server string) error) *scenario {
	head := []string{"lock", "second in", "first warned", "first told", "both in", "first's library, as the second came in", "first's Unlock"}
	return &scenario{name, title, head, func(ctx context.Context, t trial, peer *peers.Peer, path string) (cells []any, broken breaches, err error) {
		r := &pairRun{contender: t.lock.contender}
		if err := r.queueUp(ctx, t, peer, path); err != nil {
			return nil, nil, err
		}
		// The rounds strike at different times between two pings or renewals.
		if err := wait.Sleep(ctx, time.Duration(t.round-1)*700*time.Millisecond); err != nil {
			return nil, nil, err
		}
		if err := r.strike(ctx, works, func() error { return strike(ctx, r.first, t.server) }); err != nil {
			return nil, nil, err
		}
		err = r.finish(ctx)
		return r.cells(), r.broken(), err
	}}
}

// pairRun has the observations of two clients. The first held the lock when the fault happened, and
// the second waited for it.
type pairRun struct {
	contender
	first, second *peers.Client
	coming        <-chan zkserver.Line // answer to the second client's lock command

	struck       time.Time
	in           time.Time     // time at which the second client got the lock; zero: never
	held         string        // answer of the first client's library at that time: whether it holds the lock
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

func (r *pairRun) broken() (b breaches) {
	b.add(r.in.IsZero(), "the queue is wedged: the second did not come in, and the first unlocked %s ago", seconds(flapPatience))
	b.add(r.overlap() > 0, "the second came in while the first had the lock and was told nothing, for %s", seconds(r.overlap()))
	b.add(r.overlap() == 0 && !r.in.IsZero() && r.in.Before(r.unlocked) && r.held != "no",
		"when the second came in, Remaining() > 0 of the first's hold said %s", r.held)
	b.add(r.lost() && r.unlock == ok, "Unlock of a hold that was lost said ok")
	b.add(!r.lost() && r.unlock != ok, "Unlock of a hold that was not lost said: %s", r.unlock)
	b.add(!r.in.IsZero() && r.left != ok, "Unlock of the second's hold said: %s", r.left)
	b.add(r.rides && r.lost(), "the hold was lost, though its lease outlives the fault: %s", r.told.Text)
	return b
}

func (r *pairRun) cells() []any {
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
	case !r.in.IsZero() && r.asked == "":
		asked = "cannot be asked"
	case !r.in.IsZero():
		asked = fmt.Sprintf("`%s`: %s", r.asked, r.held)
	}
	return []any{in, since(r.warned.At, "–"), since(r.told.At, "–"), overlap, asked, r.unlock}
}

// queueUp makes the first client take the lock, and waits until the second one waits for it.
func (r *pairRun) queueUp(ctx context.Context, t trial, peer *peers.Peer, path string) (err error) {
	if r.first, err = peer.Open(ctx, t.server, path, peers.Mutex); err != nil {
		return err
	}
	if r.second, err = peer.Open(ctx, t.server, path, peers.Mutex); err != nil {
		return err
	}
	if err := r.first.Must(ctx, "lock"); err != nil {
		return err
	}
	if r.coming, err = r.second.Tell("lock"); err != nil {
		return err
	}
	return wait.Until(ctx, flapPatience, "the second waits", func() (bool, error) {
		children, _, err := t.look.Children(path)
		return len(znode.Contenders(children)) == 2, err
	})
}

// strike causes the fault while the first client works. It records whether the second client gets the
// lock meanwhile. It fails if the first client's session does not end.
func (r *pairRun) strike(ctx context.Context, works time.Duration, fault func() error) error {
	before := session(r.first)
	r.struck = time.Now()
	if err := fault(); err != nil {
		return err
	}
	if err := r.comeIn(ctx, works); err != nil {
		return err
	}
	if !r.in.IsZero() {
		var err error
		if r.held, err = r.first.Ask(ctx, "held"); err != nil {
			return err
		}
	}
	if err := wait.Sleep(ctx, time.Until(r.struck.Add(works))); err != nil {
		return err
	}
	return wait.Until(ctx, flapPatience, "the holder's session is gone: the fault did no harm", func() (bool, error) {
		return session(r.first) != before, nil
	})
}

// comeIn waits until the second client has the lock, and records the time, or until patience is over.
func (r *pairRun) comeIn(ctx context.Context, patience time.Duration) error {
	over := errors.New("over")
	ctx, cancel := context.WithTimeoutCause(ctx, patience, over)
	defer cancel()
	answer, err := r.second.Hear(ctx, r.coming)
	switch {
	case errors.Is(err, over):
		return nil
	case err == nil && answer.Text != ok:
		return fmt.Errorf("the second cannot take the lock: %s", answer.Text)
	case err == nil:
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
		if err := r.comeIn(ctx, flapPatience); err != nil {
			return err
		}
	}
	if !r.in.IsZero() {
		r.left, err = r.second.Ask(ctx, "unlock")
	}
	return err
}
