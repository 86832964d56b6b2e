package reaper

import (
	"context"
	"time"
)

// lookInterval is the interval of checks of a session without events. firstReminder is the first
// pause between log lines during an outage; it doubles each time, up to mostReminder.
const (
	lookInterval  = time.Second
	firstReminder = time.Minute
	mostReminder  = time.Hour
)

// watchSession records and logs the loss and the return of the session, and logs a reminder
// during an outage, until ctx ends.
func (r *Reaper) watchSession(ctx context.Context) {
	reminder := time.NewTimer(firstReminder)
	defer reminder.Stop()
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	span := firstReminder
	for {
		s := r.tree.Session()
		lasted, changed, another := r.monitor.connected(s)
		since := time.Now().Add(-lasted)
		switch {
		case changed && !s.Connected:
			r.log.Warn().Stringer("after", lasted.Round(time.Millisecond)).Strs("servers", r.monitor.status.About.Servers).
				Msg("session with ZooKeeper lost: nothing is swept until there is one")
			since, span = time.Now(), firstReminder
			reminder.Reset(span)
		case changed:
			r.log.Info().Stringer("without_session", lasted.Round(time.Millisecond)).Bool("new_session", another).
				Msg("session with ZooKeeper is back")
		case another: // loss and return came between two checks
			r.log.Warn().Msg("session with ZooKeeper lost, and replaced at once")
		}
		var looked, remind <-chan time.Time
		if s.Changed == nil {
			looked = look.C
		}
		if !s.Connected {
			remind = reminder.C
		}
		select {
		case <-s.Changed:
		case <-looked:
		case <-remind:
			r.log.Error().Stringer("without_session", time.Since(since).Round(time.Millisecond)).Strs("servers", r.monitor.status.About.Servers).
				Msg("still no session with ZooKeeper")
			span = min(2*span, mostReminder)
			reminder.Reset(span)
		case <-ctx.Done():
			return
		}
	}
}
