package reaper

import (
	"context"
	"time"

	"github.com/holdfast-io/holdfast/lock/admin"
)

// Leader is the reaper that holds the lock of the active reaper, by a recent read of that lock.
type Leader struct {
	Owner string `json:"owner"` // "" if the entry is not a reaper's of this version
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid,omitempty"`
	Self  bool   `json:"self"` // it is the reaper that tells of it
	// TTL is the length of the leader's lease, and LeaseAge the time since its last renewal, both in
	// seconds by the leader's clock of ZooKeeper. A leader that lives renews each third of its TTL. Late
	// means that it has not: it is dead, or without a session.
	TTL      float64 `json:"ttl_seconds"`
	LeaseAge float64 `json:"lease_age_seconds"`
	Late     bool    `json:"late"`
	// Swept is true if the leader has completed a sweep, which began SweptAgo seconds ago.
	Swept    bool    `json:"swept"`
	SweptAgo float64 `json:"swept_seconds_ago,omitempty"`
	Standbys int     `json:"standbys"` // reapers that stand by, with a lease that has not ended

	read  time.Time
	entry string // path of the entry
}

// lateAfter is the part of the TTL after which a lease has not been renewed in time: a third, a tenth
// of that for the variation of renewals, and the time between two reads.
const lateAfter = 13.0 / 30

// The interval of reads of the lock is a fifteenth of the leader's TTL, within these limits.
const (
	leastLook = 200 * time.Millisecond
	mostLook  = 2 * time.Second
)

// name returns the leader's name for logs.
func (l *Leader) name() string { return nameOf(l.Owner, l.Host, l.PID) }

// at returns a copy of the leader with its ages at the time now; nil for nil.
func (l *Leader) at(now time.Time) *Leader {
	if l == nil {
		return nil
	}
	c, since := *l, now.Sub(l.read).Seconds()
	c.LeaseAge += since
	c.Late = c.TTL > 0 && c.LeaseAge > lateAfter*c.TTL
	if c.Swept {
		c.SweptAgo += since
	}
	return &c
}

// watchLeader reads the lock of the active reaper repeatedly, and tells the monitor and the log which
// reaper that is, until ctx ends.
func (r *Reaper) watchLeader(ctx context.Context) {
	for {
		pause := mostLook
		limited, cancel := context.WithTimeout(ctx, 2*mostLook)
		s, err := r.tree.Inspect(limited, r.setup.Load().options.Lock)
		cancel()
		if err == nil { // outages are logged elsewhere
			l := r.leaderOf(s)
			if l != nil && l.TTL > 0 {
				pause = min(max(time.Duration(l.TTL*float64(time.Second))/15, leastLook), mostLook)
			}
			before := r.last.Load()
			own := l == nil || before != nil && before.EntryPath() == l.entry
			if r.monitor.leads(l, own) {
				r.log.Info().Str("active", l.name()).Msg("another reaper is the active one now")
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// leaderOf returns the leader by the state of its lock; nil if no reaper has an entry.
func (r *Reaper) leaderOf(s admin.State) *Leader {
	if len(s.Contenders) == 0 {
		return nil
	}
	c := s.Contenders[0]
	l := &Leader{Owner: c.Owner, Host: c.Host, PID: c.PID, TTL: c.TTL.Seconds(), read: time.Now(), entry: c.Path}
	if hold := r.hold.Load(); hold != nil {
		l.Self = hold.EntryPath() == c.Path
	}
	now := c.Read
	if now.Zxid != 0 && c.Ours {
		l.LeaseAge = max(0, c.TTL-c.Expires.Sub(now.Earliest())).Seconds()
	}
	if began, err := time.Parse(sweptFormat, c.Metadata[sweptKey]); err == nil && began.Unix() > 0 && now.Zxid != 0 {
		l.Swept, l.SweptAgo = true, max(0, now.Earliest().Sub(began)).Seconds()
	}
	for _, other := range s.Contenders[1:] {
		if other.Ours && (other.Read.Zxid == 0 || other.Read.Earliest().Before(other.Expires)) {
			l.Standbys++
		}
	}
	return l
}

// The active reaper's entry tells when its last complete sweep began, in ensemble time: the zero time
// before the first. All values have one length, so that the entry's data keeps its.
const (
	sweptKey    = "last_sweep"
	sweptFormat = "2006-01-02T15:04:05Z"
)

// described returns the metadata of a reaper's entry.
func described(swept time.Time) map[string]string {
	return map[string]string{"role": "reaper", sweptKey: swept.UTC().Format(sweptFormat)}
}

// tellSwept writes into the entry of the active reaper that a sweep of that duration has ended. If that
// fails, the next renewal of the entry writes it.
func (r *Reaper) tellSwept(ctx context.Context, took time.Duration) {
	hold, now := r.hold.Load(), r.tree.Estimate()
	if hold == nil || now.Zxid == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, mostLook)
	defer cancel()
	if err := admin.Describe(ctx, hold, described(now.Earliest().Add(-took))); err != nil {
		r.log.Debug().Err(err).Msg("the sweep is told of with the next renewal")
	}
}
