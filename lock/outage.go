package lock

import (
	"errors"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/queue"
)

// awayAfter is the time without a session after which the client logs that ZooKeeper is away. A
// broken connection is usually replaced within milliseconds.
const awayAfter = time.Second

// While ZooKeeper is away, the client logs that again after firstReminder, and then whenever the
// outage has lasted twice as long, but at least once in mostReminder: its reason may have changed.
const (
	firstReminder = 15 * time.Second
	mostReminder  = time.Hour
)

// outage is the state of the log lines about an outage: one when it begins, and reminders; one when it first puts
// a hold at risk, and one with the numbers of holds at risk and lost when it has ended.
type outage struct {
	mu       sync.Mutex
	away     bool          // there is no session
	since    time.Duration // monotonic time at which the session was found missing
	told     time.Duration // length of the outage at the last log line that ZooKeeper is away; 0: there was none
	renewals uint64        // number of renewals of the client when the first hold became at risk
	atRisk   int           // holds that have become at risk, the first one included
	lost     int           // holds whose lease has ended since the first hold became at risk
}

// watchSession logs outages until the client closes.
func (c *Client) watchSession() {
	look := time.NewTimer(awayAfter)
	defer look.Stop()
	session := c.conn.Session()
	for {
		connected, changed := c.conn.SessionState()
		c.sessionSeen(connected, &session)
		var timer <-chan time.Time
		if !connected || changed == nil { // a borrowed connection does not report changes
			look.Reset(awayAfter)
			timer = look.C
		}
		select {
		case <-changed:
		case <-timer:
		case <-c.open.Done():
			return
		}
	}
}

// sessionSeen handles the state of the session, and logs outages. *session is the last known
// session; sessionSeen updates it when there is a session.
func (c *Client) sessionSeen(connected bool, session *int64) {
	o, now := &c.outage, c.clock.Mono()
	o.mu.Lock()
	defer o.mu.Unlock()
	lasted := now - o.since
	switch {
	case connected && o.away:
		event, message := c.cfg.log.Debug(), "the connection to ZooKeeper broke, and was made again"
		if o.told > 0 || o.atRisk > 0 {
			event, message = c.cfg.log.Info().Int("holds_at_risk", o.atRisk).Int("holds_lost", o.lost), "ZooKeeper is back"
		}
		id := c.conn.Session()
		event.Stringer("away_for", lasted.Round(time.Millisecond)).Bool("new_session", id != *session).Msg(message)
		*session = id
		o.away, o.told, o.atRisk, o.lost = false, 0, 0, 0
	case connected:
		*session = c.conn.Session()
	case !o.away:
		o.away, o.since = true, now
		if o.atRisk == 0 || c.keeper.Renewals() != o.renewals { // the numbers are not of this outage
			o.atRisk, o.lost = 0, 0
		}
	case o.told == 0 && lasted >= awayAfter, o.told > 0 && lasted >= o.told+min(max(o.told, firstReminder), mostReminder):
		o.told = lasted
		c.cfg.log.Warn().Stringer("away_for", lasted.Round(time.Millisecond)).Int("holds", c.countHolds()).AnErr("last_failure", c.conn.LastFailure()).
			Msg("ZooKeeper is away: there is no session; each hold lasts until its lease ends")
	}
}

// logRisk logs that a hold is at risk. Of the holds that one outage puts at risk, it logs only the
// first, and counts the rest.
func (c *Client) logRisk(e *queue.Entry, change lease.Change) {
	o, now := &c.outage, c.clock.Mono()
	o.mu.Lock()
	defer o.mu.Unlock()
	message, holds := "hold at risk: it is lost when its time runs out, unless a renewal succeeds before", 1
	event := c.cfg.log.Warn().Str("lock", e.Lock()).Str("entry", e.Path).Stringer("left", change.Left)
	unrenewed := now - change.Leased
	switch {
	case errors.Is(change.Why, ErrMaxHold):
		event.Str("why", "max_hold is near")
	case !o.away && change.Unanswered == 0:
		event.Stringer("not_renewed_for", unrenewed).Str("why", "renewals failed, or were not made in time")
	default:
		renewals := c.keeper.Renewals()
		if o.atRisk > 0 && renewals == o.renewals {
			o.atRisk++
			event.Discard()
			return
		}
		o.renewals, o.atRisk, o.lost = renewals, 1, 0
		if o.away {
			event.Str("why", "there is no session with ZooKeeper").Stringer("away_for", (now-o.since).Round(time.Millisecond)).
				AnErr("last_failure", c.conn.LastFailure())
		} else {
			event.Str("why", "ZooKeeper does not answer").Stringer("unanswered_for", change.Unanswered.Round(time.Millisecond))
		}
		if holds = c.countHolds(); holds > 1 {
			message = "holds at risk, this one first: each is lost when its time runs out, unless a renewal succeeds before"
		}
	}
	event.Int("holds", holds).Msg(message)
}

// countHolds returns the number of holds; each reader that shares an entry counts.
func (c *Client) countHolds() (n int) {
	for _, e := range c.keeper.Entries() {
		n += e.Holds()
	}
	return n
}
