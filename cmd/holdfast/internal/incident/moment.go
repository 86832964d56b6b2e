package incident

import (
	"cmp"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock/history"
)

// moment prints the holders and waiters of the locks at a moment.
func (p *printer) moment(m history.Moment) {
	asked := "zxid " + hex(m.Asked.Zxid)
	if !m.Asked.Time.IsZero() {
		asked = p.Report.moment(m.Asked.Time)
	}
	p.line("%s", p.paint(text.Bold, asked))
	p.note2(p.where(m))
	for _, s := range m.Locks {
		p.state(s)
	}
	if len(m.Locks) == 0 {
		p.note2(p.none(m))
	} else if m.Blind {
		p.note2("whether other locks were held is not known")
	}
}

// note2 prints a text, folded into lines. The first is indented by two spaces, the rest by four.
func (p *printer) note2(s string) {
	for i, line := range text.Fold(text.Printable(s), max(36, min(96, cmp.Or(p.width, 100)-4))) {
		indent := "  "
		if i > 0 {
			indent = "    "
		}
		p.line("%s%s", indent, line)
	}
}

// where returns a sentence that relates the moment to the log.
func (r *Report) where(m history.Moment) string {
	after := fmt.Sprintf("after zxid %s of %s", hex(m.Zxid), r.clock(m.Time))
	switch m.Where {
	case history.Before:
		if r.First.IsZero() {
			return "the logs have no transactions"
		}
		return "what these files show begins later, at " + r.moment(r.First)
	case history.After:
		return fmt.Sprintf("the logs end earlier, at %s: this is the state then, zxid %s", r.moment(r.Last), hex(m.Zxid))
	case history.Skipped:
		return after + ": no stamp shows this time; the leader's clock was stepped over it, or the leader stood still, or another leader came"
	}
	return after
}

// none returns a sentence for a moment without locks.
func (r *Report) none(m history.Moment) string {
	switch {
	case r.Why != "":
		return r.Why
	case m.Where == history.Before:
		return "who held it then is not known"
	case m.Blind:
		return "who held it then is not known" + r.since()
	}
	return "no client held it or waited for it"
}

// state prints the holders of a lock, and its first waiters.
func (p *printer) state(s history.State) {
	name := text.Printable(s.Lock)
	if s.Unknown {
		p.note2(name + ": not all of its entries are known" + p.since() + ". Certain is only this:")
	} else if len(s.Holders) == 0 {
		p.note2(name + ": no client held it")
	}
	for _, h := range s.Holders {
		t := fmt.Sprintf("%s: held by %s", name, h.Client)
		if !h.Client.Known() {
			t = fmt.Sprintf("%s: held by another library's entry %s", name, h.Entry)
		}
		if h.Doubt > h.Left {
			t += ", unless its lease had ended, which is not known"
		}
		if h.Role != "" {
			t += ", " + h.Role
		}
		if h.Since.IsZero() {
			t += ", since when is not known"
		} else {
			t += ", since " + p.at(h.Since, h.Granted)
		}
		if !h.Lease.IsZero() {
			t += fmt.Sprintf("; last written %s, lease until %s, %s left", p.clock(h.Written), p.clock(h.Lease), left(h))
		}
		if h.Recorded.IsZero() && !h.Lease.IsZero() {
			t += "; its client had not recorded the grant yet"
		}
		if h.Detached {
			t += "; detached: no process had it"
		}
		if h.Broken != "" {
			t += "; broken " + h.Broken
		}
		p.note2(t)
	}
	for _, h := range s.Lapsed {
		p.note2(fmt.Sprintf("%s: in the way: the entry of %s, whose lease ended at %s", name, h.Client, p.clock(h.Lease)))
	}
	for _, h := range s.Unclear {
		client := h.Client.String()
		if !h.Client.Known() {
			client = "entry " + h.Entry
		}
		p.note2(fmt.Sprintf("%s: there: %s; whether it held or waited is not known", name, client))
	}
	for i, h := range s.Waiters {
		if i == 8 {
			p.note2(fmt.Sprintf("%s: and %d more waiters", name, len(s.Waiters)-i))
			break
		}
		t := fmt.Sprintf("%s: waiter %d: %s", name, i+1, h.Client)
		if !h.Client.Known() {
			t = fmt.Sprintf("%s: waiter %d: another library's entry %s", name, i+1, h.Entry)
		}
		switch {
		case h.Left < 0:
			t += ", whose lease had ended"
		case h.Doubt > h.Left:
			t += "; whether its lease had ended is not known"
		}
		p.note2(t)
	}
}

// left says how much was left of a holder's lease.
func left(h history.Holder) string {
	switch {
	case h.Doubt > h.Left:
		return "at most " + short(h.Left)
	case h.Doubt > 0:
		return fmt.Sprintf("between %s and %s", short(h.Left-h.Doubt), short(h.Left))
	}
	return short(h.Left)
}

// since returns from when on the files show all locks, for a sentence.
func (r *Report) since() string {
	if r.Known.Zxid == 0 {
		return ""
	}
	return fmt.Sprintf(" before zxid %s of %s", hex(r.Known.Zxid), r.moment(r.Known.Time))
}

func (r *Report) at(t time.Time, zxid int64) string {
	return fmt.Sprintf("%s (zxid %s)", r.clock(t), hex(zxid))
}
