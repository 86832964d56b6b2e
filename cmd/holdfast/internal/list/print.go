package list

import (
	"fmt"
	"io"
	"path"
	"time"

	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Lock is a lock in the JSON output. Times are RFC 3339 with milliseconds, in ensemble time.
type Lock struct {
	Name string `json:"name"`
	// Kind is "mutex", "rw" or "semaphore"; "dir" for an ancestor of locks; "" for a node that
	// Holdfast has not marked.
	Kind    string  `json:"kind"`
	Permits int     `json:"permits,omitempty"` // the semaphore's number of permits
	Holders []Entry `json:"holders"`           // contenders that hold the lock, and an expired one until its purge
	Waiters []Entry `json:"waiters"`           // in the order of their turn
}

// Entry is a contender in the JSON output. Unknown values are left out.
type Entry struct {
	Path  string `json:"entry"`
	Token string `json:"token"` // in the format of lock.ParseToken
	// Ours is false for an entry of another library or of a newer version, and for a
	// damaged one. Then the fields below are unset, except Err.
	Ours     bool              `json:"ours"`
	Err      string            `json:"error,omitempty"` // why an entry of Holdfast is unreadable
	Owner    string            `json:"owner,omitempty"`
	Host     string            `json:"host,omitempty"`
	PID      int               `json:"pid,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	TTL      int64             `json:"ttl_ms,omitempty"`
	Acquired string            `json:"acquired_at,omitempty"` // time of the recorded grant
	Detached bool              `json:"detached,omitempty"`    // no process has it: a client may attach to it
	WaitsFor string            `json:"waits_for,omitempty"`   // the entry ahead; only in holdfast show
	Broken   string            `json:"broken,omitempty"`      // if the hold was force-released: author and reason
	Asked    *Asked            `json:"asked,omitempty"`       // pending request to release it; only in holdfast show
	Expires  string            `json:"expires_at,omitempty"`
	Expired  bool              `json:"expired,omitempty"` // the lease had ended when the entry was read
	Session  string            `json:"session,omitempty"` // session that owns the entry; only of one that is not ours
	Read     string            `json:"read_at,omitempty"` // time at which the entry was read
	Left     *int64            `json:"left_ms,omitempty"` // lease surely left then; negative: expired
}

// Asked is a request to release a lock.
type Asked struct {
	Owner  string `json:"owner"`
	Host   string `json:"host,omitempty"`
	PID    int    `json:"pid,omitempty"`
	At     string `json:"at"`
	Reason string `json:"reason,omitempty"`
}

const jsonTime = "2006-01-02T15:04:05.000Z07:00"

// noRoot returns a line that says that there is no root; "" if there is one.
func noRoot(is bool, root string) string {
	if !is {
		return ""
	}
	return fmt.Sprintf("there is no node %s: no lock has been taken below it yet, or --root is to name another\n", text.Printable(root))
}

// Document returns the listing for the JSON output.
func (l Listing) Document() any {
	type unread struct {
		Path string `json:"path"`
		Err  string `json:"error"`
	}
	doc := struct {
		Root   string   `json:"root"`
		Time   string   `json:"time,omitempty"`
		Locks  []Lock   `json:"locks"`
		Unread []unread `json:"unread,omitempty"`
		NoRoot bool     `json:"no_root,omitempty"`
	}{Root: l.Root, Time: stamp(l.Time), NoRoot: l.NoRoot}
	for _, s := range l.Nodes {
		doc.Locks = append(doc.Locks, lockOf(s))
	}
	for _, u := range l.Unread {
		doc.Unread = append(doc.Unread, unread{u.Path, u.Err.Error()})
	}
	return doc
}

// lockOf returns the lock for the JSON output.
func lockOf(s admin.State) Lock {
	out := Lock{Name: s.Name, Kind: string(s.Kind), Permits: s.Permits}
	for _, p := range places(s) {
		if p.in {
			out.Holders = append(out.Holders, entry(p.Contender))
		} else {
			out.Waiters = append(out.Waiters, entry(p.Contender))
		}
	}
	return out
}

func entry(c admin.Contender) Entry {
	e := Entry{Path: c.Path, Token: c.Token.String(), Ours: c.Ours}
	if c.Err != nil {
		e.Err = c.Err.Error()
	}
	if !c.Ours {
		if c.Session != 0 {
			e.Session = fmt.Sprintf("0x%x", uint64(c.Session))
		}
		return e
	}
	e.Owner, e.Host, e.PID, e.Metadata = c.Owner, c.Host, c.PID, c.Metadata
	e.TTL, e.Detached, e.Broken = c.TTL.Milliseconds(), c.Detached, c.Broken
	e.Expires = c.Expires.UTC().Format(jsonTime)
	if !c.Acquired.IsZero() {
		e.Acquired = c.Acquired.UTC().Format(jsonTime)
	}
	if left, known := left(c); known {
		ms := left.Milliseconds()
		e.Expired = left < 0
		e.Read, e.Left = stamp(c.Read), &ms
	}
	return e
}

// stamp returns t for people and tools; "" if it is unknown.
func stamp(t admin.Time) string {
	if t.Zxid == 0 {
		return ""
	}
	return latest(t).UTC().Format(jsonTime)
}

// latest returns the upper bound of t, rounded up to a millisecond.
func latest(t admin.Time) time.Time {
	return t.Latest().Add(time.Millisecond - time.Nanosecond).Truncate(time.Millisecond)
}

// left returns how much of the lease was surely left when the entry was read; unknown for another
// library's entry, and without a sample of ensemble time.
func left(c admin.Contender) (left time.Duration, known bool) {
	return c.Expires.Sub(latest(c.Read)), c.Ours && c.Read.Zxid != 0
}

// held returns how long the contender had held the lock when its entry was read; unknown without a
// recorded grant, without a sample of ensemble time, and if another leader, whose clock was ahead, has
// stamped the grant.
func held(c admin.Contender) (held time.Duration, known bool) {
	held = latest(c.Read).Sub(c.Acquired)
	return held, !c.Acquired.IsZero() && c.Read.Zxid != 0 && held >= 0
}

// widestName is the width of a lock's name in the table; a longer one gets its own line.
const widestName = 40

// Table prints the listing for people: a line for each contender, the holder's first. If the table is
// wider than width cells, Table takes these steps until it fits; a width of 0 means no limit:
//
//  1. drop the tokens
//  2. drop the kinds
//  3. print each lock's name on its own line
//  4. drop the times for which locks have been held
func (l Listing) Table(w io.Writer, width int, colour bool) error {
	if len(l.Nodes) == 0 {
		that := ""
		if len(l.Unread) > 0 {
			that = " that can be read"
		}
		_, err := fmt.Fprintf(w, "no locks in use at or below %s%s\n%s", text.Printable(l.Path), that, noRoot(l.NoRoot, l.Root))
		return err
	}
	table := text.Table{Widest: []int{widestName}, Colour: colour}
	table.Head("LOCK", "LEFT", "HOLDER, WAITERS", "HELD", "KIND", "TOKEN")
	for _, s := range l.Nodes {
		name, kind := NameOf(s), KindOf(s)
		if len(s.Contenders) == 0 {
			table.Add(text.Cells(name, "", "", "", kind)...)
		}
		waiting := 0
		for _, p := range places(s) {
			who := text.Cell{Text: Who(p.Contender)}
			if !p.in {
				waiting++
				who = text.Cell{Text: fmt.Sprintf("%d. %s", waiting, who.Text), Style: text.Dim}
			}
			row := append(text.Cells(name), leftCell(p.Contender), who, text.Cell{Text: Age(held(p.Contender))})
			table.Add(append(row, text.Cells(kind, p.Token.String())...)...)
			name, kind = "", "" // printed once for each lock
		}
	}
	for _, narrower := range []func(){
		func() { table.Keep(5) }, func() { table.Keep(4) }, func() { table.Widest[0] = 1 }, func() { table.Keep(3) },
	} {
		if width > 0 && table.Width() > width {
			narrower()
		}
	}
	return table.Print(w)
}

// NameOf returns a lock's name for people; "(the root)" for the root.
func NameOf(s admin.State) string {
	if s.Name == "" {
		return "(the root)"
	}
	return text.Printable(s.Name)
}

// KindOf returns a lock's kind for people.
func KindOf(s admin.State) string {
	switch s.Kind {
	case "":
		return "-" // not marked by Holdfast
	case znode.Semaphore:
		return fmt.Sprintf("%s of %d", s.Kind, s.Permits)
	}
	return string(s.Kind)
}

// leftCell returns the cell with the rest of a lease.
func leftCell(c admin.Contender) text.Cell {
	d, known := left(c)
	switch {
	case !known:
		return text.Cell{}
	case d < 0:
		return text.Cell{Text: Remaining(d), Style: text.Red}
	}
	return text.Cell{Text: Remaining(d)}
}

// Age formats a duration for tables; "" if it is unknown.
func Age(d time.Duration, known bool) string {
	const day = 24 * time.Hour
	switch {
	case !known:
		return ""
	case d >= 2*day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return d.Truncate(time.Second).String()
}

// Who returns a contender's owner, host and pid for tables; the entry's name if it is unreadable or
// another library's.
func Who(c admin.Contender) string {
	entry := text.Tail(text.Printable(path.Base(c.Path)), text.Widest)
	who := "not ours: " + entry
	switch {
	case c.Ours:
		who = text.Who(c.Owner, c.Host, c.PID)
	case c.Err != nil:
		who = "unreadable: " + entry
	case c.Session == 0:
		who = "no session: " + entry
	}
	if c.Detached {
		who += ", detached"
	}
	if c.Broken != "" {
		who += ", broken"
	}
	return who
}

// Remaining formats the rest of a lease, or the time since it has expired: with tenths of a
// second below a minute.
func Remaining(d time.Duration) string {
	if d < 0 {
		return "expired " + Remaining(-d)
	}
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	}
	return d.Truncate(time.Second).String()
}
