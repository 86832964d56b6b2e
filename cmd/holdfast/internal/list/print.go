package list

import (
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/text"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/admin/jsonout"
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

// JSON prints the listing as one JSON document.
func (l Listing) JSON(w io.Writer) error {
	return jsonout.Document(w, l.document())
}

// Line prints the listing as a JSON document in one line.
func (l Listing) Line(w io.Writer) error {
	return jsonout.Line(w, l.document(), false)
}

// noRoot returns a line that says that there is no root; "" if there is one.
func (l Listing) noRoot() string {
	if !l.NoRoot {
		return ""
	}
	return fmt.Sprintf("there is no node %s: no lock has been taken below it yet, or --root is to name another\n", text.Printable(l.Root))
}

func (l Listing) document() any {
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
	}{Root: l.Root, Locks: []Lock{}, NoRoot: l.NoRoot}
	if l.Time.Zxid != 0 {
		doc.Time = latest(l.Time).UTC().Format(jsonTime)
	}
	for _, s := range l.Nodes {
		doc.Locks = append(doc.Locks, l.Lock(s))
	}
	for _, u := range l.Unread {
		doc.Unread = append(doc.Unread, unread{u.Path, u.Err.Error()})
	}
	return doc
}

// Lock returns the lock for the JSON output.
func (l Listing) Lock(s admin.State) Lock {
	out := Lock{Name: s.Name, Kind: string(s.Kind), Permits: s.Permits, Holders: []Entry{}, Waiters: []Entry{}}
	l.each(s, func(c admin.Contender, place int) {
		if place == 0 {
			out.Holders = append(out.Holders, l.entry(c))
		} else {
			out.Waiters = append(out.Waiters, l.entry(c))
		}
	})
	return out
}

func (l Listing) entry(c admin.Contender) Entry {
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
		e.Read, e.Left = latest(c.Read).UTC().Format(jsonTime), &ms
	}
	return e
}

// each calls f for each contender with its place in the queue, by the rule by which clients enter.
// Place 0 means that the contender holds the lock.
func (l Listing) each(s admin.State, f func(c admin.Contender, place int)) {
	waiting := 0
	for _, p := range l.places(s) {
		if p.in {
			f(p.Contender, 0)
			continue
		}
		waiting++
		f(p.Contender, waiting)
	}
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

// widest is the width of an owner or host in the table, in cells of the terminal. widestName is
// the width of a lock's name; a longer one gets its own line.
const (
	widest     = 24
	widestName = 40
)

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
		_, err := fmt.Fprintf(w, "no locks in use at or below %s%s\n%s", text.Printable(l.Path), that, l.noRoot())
		return err
	}
	table := text.Table{Widest: []int{widestName}, Colour: colour}
	table.Head("LOCK", "LEFT", "HOLDER, WAITERS", "HELD", "KIND", "TOKEN")
	for _, s := range l.Nodes {
		name, kind := NameOf(s), KindOf(s)
		if len(s.Contenders) == 0 {
			table.Add(text.Cells(name, "", "", "", kind)...)
		}
		l.each(s, func(c admin.Contender, place int) {
			table.Add(slices.Concat(text.Cells(name), cells(c, place), text.Cells(kind, c.Token.String()))...)
			name, kind = "", "" // printed once for each lock
		})
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

// cells returns a contender's cells in the table: the rest of its lease, its owner, and the time
// for which it has held the lock.
func cells(c admin.Contender, place int) []text.Cell {
	who := text.Cell{Text: Who(c)}
	if place > 0 {
		who.Text = fmt.Sprintf("%d. %s", place, who.Text)
		who.Style = text.Dim
	}
	return []text.Cell{leftCell(c), who, {Text: Age(held(c))}}
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
	who := "not ours: "
	if c.Session == 0 {
		who = "no session: "
	}
	who += text.Tail(text.Printable(path.Base(c.Path)), widest)
	switch {
	case c.Err != nil:
		who = "unreadable: " + text.Tail(text.Printable(path.Base(c.Path)), widest)
	case c.Ours:
		who = fmt.Sprintf("%s (%s, pid %d)", text.Head(text.Printable(c.Owner), widest), text.Head(text.Printable(c.Host), widest), c.PID)
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
