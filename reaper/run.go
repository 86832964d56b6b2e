package reaper

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
)

// The pause before the next attempt to become the active reaper doubles after each error that can pass.
const (
	firstPause = 5 * time.Second
	mostPause  = 5 * time.Minute
)

// Run sweeps by the policies' schedules while this reaper is the active one, until ctx ends. If a
// sweep is still running when the next one is due, the next one is skipped. If a sweep panics, Run
// logs that and continues. An outage of ZooKeeper does not end Run, nor does another error that can
// pass, such as an exceeded quota: Run logs it and tries again, after pauses of 5 s to 5 min.
//
// When ctx has ended, Run finishes the deletes in flight, releases its lock, and returns nil. If there
// is no session, Run returns nil too, and the lock's entry expires. Run returns an error if the release
// fails for another reason, or if Run cannot acquire its lock, for example because an ACL denies it.
// After a loss of the lock, the reaper stands by, and Run continues.
func (r *Reaper) Run(ctx context.Context) error {
	if ctx == nil {
		return errNoContext
	}
	aside, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() { r.watchSession(aside) })
	watching.Go(func() { r.summarize(aside) })
	watching.Go(func() { r.watchLeader(aside) })
	r.noRoot(ctx) // only to log it: the lock of the active reaper creates the root
	for pause := firstPause; ; {
		hold, err := r.turn(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case admin.Mends(err):
			r.log.Error().Err(err).Int("failures", r.monitor.fails(err)).Stringer("again_in", pause).
				Msg("cannot become the active reaper: trying again")
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil
			}
			pause = min(2*pause, mostPause)
			continue
		default:
			return fmt.Errorf("become the active reaper: %w", err)
		}
		pause = firstPause
		r.hold.Store(hold)
		r.serve(ctx, hold)
		r.hold.Store(nil)
		err = hold.Unlock()
		switch {
		case ctx.Err() != nil && (err == nil || errors.Is(err, lock.ErrLost)):
			return nil
		case ctx.Err() != nil && !r.tree.Session().Connected:
			r.log.Warn().Err(err).Msg("stopped without a session: its entry is left to expire, and another reaper is active after the TTL and the grace of its policy")
			return nil
		case ctx.Err() != nil:
			return err
		}
		r.monitor.step(Standby, "")
		r.log.Warn().Err(err).Msg("no longer the active reaper; standing by")
	}
}

// turn waits until this reaper is the active one, and returns its hold of the reaper's lock. It records
// and logs whether this reaper stands by or is active.
func (r *Reaper) turn(ctx context.Context) (*lock.Hold, error) {
	hold, err := r.leader.TryLock(ctx)
	if held := (*lock.HeldError)(nil); errors.As(admin.Answer(err), &held) {
		self, active := "", nameOf(held.Owner, held.Host, held.PID)
		if last := r.last.Load(); last != nil && last.EntryPath() == held.Entry {
			self, active = active, ""
		}
		r.monitor.step(Standby, active)
		switch announced := r.monitor.announce(r.log, r.setup.Load().options, Standby, active); {
		case self != "":
			r.log.Info().Time("lease_ends", held.Expires.UTC()).Msg("standing by: this reaper's own entry of before has not expired yet")
		case !announced:
			r.log.Info().Str("active", active).Msg("standing by: another reaper is the active one")
		}
		hold, err = r.leader.Lock(ctx)
	}
	if err != nil {
		return nil, err
	}
	r.last.Store(hold)
	r.monitor.step(Active, "")
	r.monitor.announce(r.log, r.setup.Load().options, Active, "")
	r.log.Info().Str("lock", hold.Name()).Stringer("token", hold.Token()).Msg("active: sweeping by schedule")
	return hold, nil
}

// nameOf returns the name of a reaper for logs; "unknown" without an owner.
func nameOf(owner, host string, pid int) string {
	if owner == "" {
		return "unknown"
	}
	return fmt.Sprintf("%s (host %s, pid %d)", owner, host, pid)
}

// again reports whether to log an event that has occurred inARow times in a row: true for 1, 2, 4, 8
// and so on.
func again(inARow int) bool { return bits.OnesCount(uint(inARow)) == 1 }

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}
