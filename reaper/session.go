package reaper

import (
	"context"
	"time"
)

// lookInterval is the interval of checks of the session, besides its events. firstReminder is the
// first pause between log lines during an outage; the pause doubles each time, up to mostReminder.
const (
	lookInterval  = time.Second
	firstReminder = time.Minute
	mostReminder  = time.Hour
)

// watchSession records and logs the loss and the return of the session, and logs reminders during
// an outage, until ctx ends.
func (r *Reaper) watchSession(ctx context.Context) {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	pause, reminder := firstReminder, firstReminder // reminder is how long an outage lasts when the next line is due
	for {
		s := r.tree.Session()
		lasted, changed, another := r.monitor.connected(s)
		servers := r.monitor.status.About.Servers
		switch {
		case changed && !s.Connected:
			r.log.Warn().Stringer("after", lasted.Round(time.Millisecond)).Strs("servers", servers).AnErr("last_failure", s.LastFailure).
				Msg("session with ZooKeeper lost: this reaper sweeps nothing until it is back")
			pause, reminder = firstReminder, firstReminder
		case changed:
			r.log.Info().Stringer("without_session", lasted.Round(time.Millisecond)).Bool("new_session", another).
				Msg("session with ZooKeeper is back")
		case another: // loss and return came between two checks
			r.log.Warn().Msg("session with ZooKeeper lost, and replaced at once")
		case !s.Connected && lasted >= reminder:
			r.log.Error().Stringer("without_session", lasted.Round(time.Millisecond)).Strs("servers", servers).AnErr("last_failure", s.LastFailure).
				Msg("still no session with ZooKeeper")
			pause = min(2*pause, mostReminder)
			reminder += pause
		}
		select {
		case <-s.Changed: // nil for a client made by lock.New
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}
