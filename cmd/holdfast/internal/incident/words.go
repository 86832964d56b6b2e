package incident

import (
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock/history"
)

// kindNames are the names of kinds in tables, if they differ from the kind.
var kindNames = map[history.Kind]string{
	history.AtRisk: "at risk", history.InDoubt: "in doubt", history.SessionEnded: "session ended", history.RevokeAsked: "asked", history.Made: "made", history.Deleted: "deleted",
}

// styles are the colors of kinds.
var styles = map[history.Kind]text.Style{
	history.Granted: text.Green, history.Attached: text.Green, history.Recorded: text.Dim, history.Renewed: text.Dim,
	history.AtRisk: text.Yellow, history.InDoubt: text.Yellow, history.RevokeAsked: text.Yellow, history.Leader: text.Yellow, history.Clock: text.Yellow,
	history.Expired: text.Red, history.Purged: text.Red, history.Swept: text.Red, history.Removed: text.Red, history.Broken: text.Red,
	history.Overwritten: text.Red, history.Vanished: text.Red, history.Restored: text.Red, history.Ended: text.Yellow,
}

func nameOf(k history.Kind) string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return string(k)
}

// clock formats a stamp without its date.
func (r *Report) clock(t time.Time) string { return t.In(r.Zone).Format("15:04:05.000") }

// moment formats a stamp with its date and zone.
func (r *Report) moment(t time.Time) string {
	return t.In(r.Zone).Format("2006-01-02 15:04:05.000 MST")
}

func hex(n int64) string { return fmt.Sprintf("%#x", uint64(n)) }

// short formats a duration: to a millisecond below 10 s, else to a tenth of a second.
func short(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// say returns the sentence about an event.
func (r *Report) say(row Row) string {
	e := row.Event
	until := ""
	if !e.Lease.IsZero() {
		until = "lease until " + r.clock(e.Lease)
	}
	s := ""
	switch e.Kind {
	case history.Joined:
		s = join(e.Role, until)
		if e.TTL == 0 {
			s = join(e.Role, "an entry of another library, without a lease")
		}
	case history.Granted:
		s = join("nothing excludes it from here", until)
		if !e.At.IsZero() {
			s = join("nothing excludes it from here, as its client recorded", until)
		}
	case history.Recorded:
		s = "its client recorded the grant, by its estimate of " + r.clock(e.At)
	case history.Renewed:
		switch {
		case row.Count > 1:
			s = fmt.Sprintf("%d times, last at %s; %s", row.Count, r.clock(row.To), until)
		case e.Late:
			s = "after the end of its lease; " + until
		default:
			s = until
		}
	case history.AtRisk:
		s = "no write for half of the lease; " + until
	case history.InDoubt:
		s = "from here its lease may have been over, until the next write: the log does not show whether time passed, or the leader's clock was stepped ahead"
	case history.Expired:
		s = "no write for the whole lease: its client does not believe in it any more"
		if !e.In {
			s = "no write for the whole lease"
		}
	case history.Released, history.Withdrawn:
		s = "by its client"
		if e.Kind == history.Withdrawn {
			s = "its client gave up waiting"
		}
		if e.Again {
			s = join(s, "and joined again at once: others of its goroutines wait")
		}
	case history.Purged:
		s = "by " + e.By.String() + ", " + short(e.Time.Sub(e.Lease)) + " after its lease"
	case history.Swept:
		s = "by the reaper " + e.By.String() + ", " + short(e.Time.Sub(e.Lease)) + " after its lease"
	case history.Removed:
		s = e.Reason
		if e.By.Known() {
			s = join(s, e.By.String())
		}
		s = join(s, until)
	case history.Ended:
		s = join(e.Reason, until)
	case history.Restored:
		s = "this write does not fit what the log shows before: a log is missing, or the data of the servers was replaced, as by a restore through the admin server, or a server had lost some. Which locks were held then is not known until they are taken anew"
	case history.SessionEnded:
		s = "the entry, of another library, ended with its session"
	case history.Vanished:
		s = "last seen before a gap in the log, or a restore"
	case history.Broken, history.RevokeAsked:
		if s = "by " + e.By.String(); e.Reason != "" {
			s += ": " + e.Reason
		}
	case history.Detached:
		s = join("no process has it until it is attached", until)
	case history.Attached:
		s = join("taken from "+e.By.String(), until)
	case history.Shared:
		s = join("the writer only reads from here", until)
	case history.Overwritten, history.Tick:
		s = e.Reason
	case history.Made, history.Adopted:
		if s = "the lock's node, a " + e.Of; e.To != 0 {
			s += fmt.Sprintf(" of %d", e.To)
		}
	case history.Deleted:
		s = "the lock's node"
		if e.By.Known() {
			s += ", by " + e.By.String()
		}
	case history.Permits:
		s = fmt.Sprintf("from %d to %d, by %s", e.From, e.To, e.By)
	case history.Leader, history.Clock:
		s = r.sayClock(e)
	}
	if e.Early {
		s = join(s, "sooner than the grace of its policy, by these stamps")
	}
	if !e.At.IsZero() && e.Kind != history.Granted && e.Kind != history.Recorded {
		s = join("its client recorded the grant, by its estimate of "+r.clock(e.At), s)
	}
	if e.Late && e.Kind == history.Released {
		s = join(s, "after the end of its lease")
	}
	return text.Printable(s)
}

// columns returns an event's entry, zxid and session. A derived event has no transaction.
func (row Row) columns() (entry, zxid, session string) {
	if row.Number > 0 {
		entry = fmt.Sprintf("#%d", row.Number)
	}
	if !row.Kind.Derived() {
		zxid, session = hex(row.Zxid), jsonZxid(row.Session)
	}
	return entry, zxid, session
}

// sayClock returns the sentence about a change of the clock.
func (r *Report) sayClock(e history.Event) string {
	switch {
	case e.Kind == history.Leader && e.Step < 0:
		return fmt.Sprintf("another leader, whose clock is behind: stamps fall from %s by %s", r.clock(e.Prev), short(-e.Step))
	case e.Kind == history.Leader:
		return "another leader: stamps are of another clock from here; the last one before is " + r.clock(e.Prev)
	case e.Step < 0 && !e.Prev.IsZero():
		return fmt.Sprintf("the leader's clock was stepped back: stamps fall from %s by %s", r.clock(e.Prev), short(-e.Step))
	case e.Step < 0:
		return fmt.Sprintf("the leader's clock was stepped back by %s before this write, as its client's own clock shows", short(-e.Step))
	}
	return fmt.Sprintf("stamps rise by %[1]s more than a client's own clock shows: its write waited that long, as when the leader stands still, or the leader's clock was stepped ahead by %[1]s. The logs do not show which, nor whether leases ended in that time", short(e.Step))
}

func join(parts ...string) string {
	s := ""
	for _, p := range parts {
		if p == "" {
			continue
		}
		if s != "" {
			s += "; "
		}
		s += p
	}
	return s
}

// who returns a client's owner, host and pid for tables; "" if the client is unknown.
func who(c history.Client) string {
	if !c.Known() {
		return ""
	}
	return text.Who(c.Owner, c.Host, c.PID)
}
