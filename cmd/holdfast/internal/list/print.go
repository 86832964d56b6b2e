package list

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Lock is a lock as tools read it. Times are RFC 3339 with milliseconds, in
// ensemble time.
type Lock struct {
	Name    string  `json:"name"`
	Kind    string  `json:"kind"`              // "mutex", "rw", "semaphore"; "dir" for an ancestor of locks; "" if not marked as ours
	Permits int     `json:"permits,omitempty"` // that a semaphore has now
	Holders []Entry `json:"holders"`           // whose turn it is; not yet purged, if their lease is over
	Waiters []Entry `json:"waiters"`           // in the order of their turn
}

// Entry is a contender as tools read it. What is not known is left out.
type Entry struct {
	Path  string `json:"entry"`
	Token string `json:"token"` // as lock.ParseToken reads it
	// Ours is false for the entry of another library or of a newer version, or
	// one that is damaged. Then nothing below is known.
	Ours     bool              `json:"ours"`
	Owner    string            `json:"owner,omitempty"`
	Host     string            `json:"host,omitempty"`
	PID      int               `json:"pid,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	TTL      int64             `json:"ttl_ms,omitempty"`
	Acquired string            `json:"acquired_at,omitempty"` // when the grant was recorded
	Expires  string            `json:"expires_at,omitempty"`
	Left     *int64            `json:"left_ms,omitempty"` // at least; negative once it has expired
}

const jsonTime = "2006-01-02T15:04:05.000Z07:00"

// JSON prints the listing as one JSON document.
func (l Listing) JSON(w io.Writer) error {
	type unread struct {
		Path string `json:"path"`
		Err  string `json:"error"`
	}
	doc := struct {
		Root   string   `json:"root"`
		Time   string   `json:"time,omitempty"`
		Locks  []Lock   `json:"locks"`
		Unread []unread `json:"unread,omitempty"`
	}{Root: l.Root, Locks: []Lock{}}
	if l.Time.Zxid != 0 {
		doc.Time = l.now().UTC().Format(jsonTime)
	}
	for _, s := range l.Nodes {
		doc.Locks = append(doc.Locks, l.lock(s))
	}
	for _, u := range l.Unread {
		doc.Unread = append(doc.Unread, unread{u.Path, u.Err.Error()})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(doc)
}

func (l Listing) lock(s admin.State) Lock {
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
	if !c.Ours {
		return e
	}
	e.Owner, e.Host, e.PID, e.Metadata = c.Owner, c.Host, c.PID, c.Metadata
	e.TTL = c.TTL.Milliseconds()
	e.Expires = c.Expires.UTC().Format(jsonTime)
	if !c.Acquired.IsZero() {
		e.Acquired = c.Acquired.UTC().Format(jsonTime)
	}
	if left, known := l.left(c); known {
		ms := left.Milliseconds()
		e.Left = &ms
	}
	return e
}

// each calls f for each contender with its place in the queue: 0 if it is in, by
// the rule that the contenders themselves follow.
func (l Listing) each(s admin.State, f func(c admin.Contender, place int)) {
	names := make([]znode.Name, len(s.Contenders))
	for i, c := range s.Contenders {
		names[i], _ = znode.Parse(c.Path[strings.LastIndexByte(c.Path, '/')+1:])
		if c.Shares {
			names[i].Role = znode.Shared
		}
	}
	waiting := 0
	for i, c := range s.Contenders {
		place := 0
		if znode.Admit(names, i, znode.Parent{Kind: s.Kind, Permits: int32(s.Permits)}) >= 0 {
			waiting++
			place = waiting
		}
		f(c, place)
	}
}

// now is the latest that it may be, in whole milliseconds.
func (l Listing) now() time.Time {
	return l.Time.Latest().Add(time.Millisecond - time.Nanosecond).Truncate(time.Millisecond)
}

// left returns how much is surely left of the lease.
func (l Listing) left(c admin.Contender) (left time.Duration, known bool) {
	return c.Expires.Sub(l.now()), c.Ours && l.Time.Zxid != 0
}

// Table prints the listing for people: a line for each contender, the holder's
// first.
func (l Listing) Table(w io.Writer) error {
	if len(l.Nodes) == 0 {
		that := ""
		if len(l.Unread) > 0 {
			that = " that can be read"
		}
		_, err := fmt.Fprintf(w, "no locks in use at or below %s%s\n", l.Path, that)
		return err
	}
	rows := [][]string{{"LOCK", "KIND", "HOLDER, WAITERS", "TOKEN", "SINCE", "LEFT"}}
	for _, s := range l.Nodes {
		name, kind := printable(s.Name), string(s.Kind)
		switch {
		case s.Name == "":
			name = "(the root)"
		case kind == "":
			kind = "-" // not marked as ours
		case s.Kind == znode.Semaphore:
			kind = fmt.Sprintf("%s of %d", kind, s.Permits)
		}
		if len(s.Contenders) == 0 {
			rows = append(rows, []string{name, kind})
		}
		l.each(s, func(c admin.Contender, place int) {
			rows = append(rows, append([]string{name, kind}, l.cells(c, place)...))
			name, kind = "", "" // said once for each lock
		})
	}
	return printTable(w, rows)
}

// cells are what the table says of a contender.
func (l Listing) cells(c admin.Contender, place int) []string {
	who, since, left := "not ours: "+tail(printable(c.Path[strings.LastIndexByte(c.Path, '/')+1:])), "", ""
	if c.Ours {
		who = fmt.Sprintf("%s (%s, pid %d)", head(printable(c.Owner)), head(printable(c.Host)), c.PID)
	}
	if place > 0 {
		who = fmt.Sprintf("%d. %s", place, who)
	}
	if !c.Acquired.IsZero() {
		since = c.Acquired.UTC().Format(time.RFC3339)
	}
	if d, known := l.left(c); known {
		left = remaining(d)
	}
	return []string{who, c.Token.String(), since, left}
}

// remaining says how much is left of a lease: tenths of a second below a minute.
func remaining(d time.Duration) string {
	if d < 0 {
		return "expired " + remaining(-d) + " ago"
	}
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	}
	return d.Truncate(time.Second).String()
}

// printable returns text of others without what could play with a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// widest is how many characters of a text the table shows.
const widest = 24

// head returns the beginning of a text, tail its end.
func head(s string) string {
	if r := []rune(s); len(r) > widest {
		return string(r[:widest-1]) + "…"
	}
	return s
}

func tail(s string) string {
	if r := []rune(s); len(r) > widest {
		return "…" + string(r[len(r)-widest+1:])
	}
	return s
}

// printTable prints rows in aligned columns.
func printTable(w io.Writer, rows [][]string) error {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%-*s  ", widths[i], cell)
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}
