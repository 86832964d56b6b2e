package incident

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-io/holdfast/cmd/internal/text"
)

const (
	// maxPictures is the largest number of locks that get a picture.
	maxPictures = 8
	// maxLanes is the largest number of entries in a picture.
	maxLanes = 24
	// maxCanvas bounds the width of a picture.
	maxCanvas = 120
)

// printer prints until the first error.
type printer struct {
	*Report
	w      io.Writer
	width  int // 0: no limit
	colour bool
	err    error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) table(t *text.Table) {
	if p.err == nil {
		p.err = t.Print(p.w)
	}
}

func (p *printer) paint(s text.Style, t string) string {
	return s.Paint(t, p.colour)
}

// Print prints the report as text. width is that of the terminal; 0 means no limit. If moments
// were asked for, it prints only them.
func (r *Report) Print(w io.Writer, width int, colour bool) error {
	p := &printer{Report: r, w: w, width: width, colour: colour}
	if len(r.Moments) > 0 {
		for i, m := range r.Moments {
			if i > 0 {
				p.line("")
			}
			p.moment(m)
		}
		return p.err
	}
	if r.Why != "" {
		p.line("%s", text.Printable(r.Why))
		return p.err
	}
	p.span()
	switch {
	case r.Overview && len(r.Rows) == 0:
		p.line("")
		p.line("Nothing stands out.")
	case r.Overview:
	default:
		pictures := 0
		for _, l := range r.Locks {
			if len(l.Lanes()) > 0 && pictures < maxPictures {
				pictures++
				p.line("")
				p.picture(l)
			}
		}
		if more := len(r.Locks) - pictures; more > 0 && pictures == maxPictures {
			p.line("\n%s without a picture: name one", text.Count(more, "more lock", "more locks"))
		}
		if pictures > 0 {
			p.legend()
		}
	}
	switch {
	case len(r.Rows) > 0:
		p.line("")
		p.events()
	case !r.Overview:
		p.line("")
		p.line("Nothing happened in this time. At the end of the logs:")
		for _, s := range r.Now.Locks {
			p.state(s)
		}
		if len(r.Now.Locks) == 0 {
			p.note2(p.none(r.Now))
		}
	}
	if r.Overview {
		p.line("")
		p.overview()
	}
	p.remarks()
	return p.err
}

// span prints the first and the last stamp of the logs.
func (p *printer) span() {
	if p.First.IsZero() {
		return
	}
	p.line("The logs go from %s", p.Report.moment(p.First))
	p.line("            to %s.", p.Report.moment(p.Last))
	p.line("Times are the leader's stamps. The last zxid is %s.", hex(p.Zxid))
	if p.Known.Zxid != 0 {
		p.folded(fmt.Sprintf("What was held before %s (zxid %s) is not known, unless its entry shows it.", p.Report.moment(p.Known.Time), hex(p.Known.Zxid)))
	} else if p.Blind {
		p.folded(notAll)
	}
}

// overview prints a line for each lock.
func (p *printer) overview() {
	t := text.Table{Widest: []int{40}, Colour: p.colour}
	t.Head("LOCK", "JOINED", "HELD", "EXPIRED", "BROKEN", "REMOVED", "LAST", "KIND")
	number := func(n int32, s text.Style) text.Cell {
		if n == 0 {
			return text.Cell{Text: "-", Style: text.Dim}
		}
		return text.Cell{Text: fmt.Sprint(n), Style: s}
	}
	for _, l := range p.Locks {
		t.Add(text.Cell{Text: text.Printable(l.Name)}, number(l.Joins, ""), number(l.Holds, ""), number(l.Purged, text.Red), number(l.Broken, text.Red),
			number(l.Removed, text.Red), text.Cell{Text: l.Last().In(p.Zone).Format("01-02 15:04:05")}, text.Cell{Text: l.Kind})
	}
	for _, narrower := range []func(){func() { t.Keep(7) }, func() { t.Widest[0] = 1 }, func() { t.Keep(6) }} {
		if p.width > 0 && t.Width() > p.width {
			narrower()
		}
	}
	p.table(&t)
	if p.More > 0 {
		p.line("and %s, less used, of which nothing stands out: --json tells of all", text.Count(p.More, "lock", "locks"))
	}
}

// events prints the rows, each on one line if the width allows it. Otherwise the sentence of a row
// follows on its own lines; on a narrow terminal, host and process id follow, too.
func (p *printer) events() {
	for _, f := range []form{{inLine: true}, {}, {brief: true}} {
		t, notes := p.rows(f)
		columns := len(t.Rows[0])
		least := columns - 2 // without zxids and sessions
		for p.width > 0 && t.Width() > p.width && columns > least && !f.inLine {
			columns--
			t.Keep(columns)
		}
		if p.width > 0 && t.Width() > p.width && !f.brief {
			continue
		}
		for i, line := range t.Lines() {
			p.line("%s", line)
			if !f.inLine && notes[i] != "" {
				p.note(notes[i])
			}
		}
		return
	}
}

// form is a way to print the rows.
type form struct {
	inLine bool // the sentences are a column
	brief  bool // clients are printed as their owners' names
}

// rows returns the table of the rows, and the sentence of each line.
func (p *printer) rows(f form) (t text.Table, notes []string) {
	several := len(p.Locks) > 1
	t = text.Table{Colour: p.colour, Widest: []int{len("15:04:05.000")}} // days have lines of their own
	head := []string{"TIME", "EVENT"}
	if several {
		head = append(head, "LOCK")
	}
	if !p.Overview {
		head = append(head, "ENTRY")
	}
	head = append(head, "CLIENT", "ZXID", "SESSION")
	if f.inLine {
		head = append(head, "WHAT")
	}
	t.Head(head...)
	notes = append(notes, "")
	day := ""
	for _, row := range p.Rows {
		if d := row.Time.In(p.Zone).Format("2006-01-02 MST"); d != day {
			day = d
			t.Add(text.Cell{Text: d, Style: text.Dim})
			notes = append(notes, "")
		}
		cells := []text.Cell{{Text: p.clock(row.Time)}, {Text: nameOf(row.Kind), Style: styles[row.Kind]}}
		if several {
			cells = append(cells, text.Cell{Text: text.Tail(text.Printable(row.Lock), map[bool]int{true: 12, false: 30}[f.brief])})
		}
		entry, zxid, session := row.columns()
		if !p.Overview {
			cells = append(cells, text.Cell{Text: entry})
		}
		client, note := who(row.Who), p.say(row)
		if f.brief {
			if c := row.Who; c.Host != "" || c.PID != 0 {
				note = join(note, fmt.Sprintf("%s, pid %d", text.Printable(c.Host), c.PID))
			}
			client = text.Head(text.Printable(row.Who.Owner), map[bool]int{true: 10, false: 16}[several])
		}
		cells = append(cells, text.Cells(client, zxid, session)...)
		if f.inLine {
			cells = append(cells, text.Cell{Text: note})
		}
		t.Add(cells...)
		notes = append(notes, note)
	}
	return t, notes
}

// note prints a sentence below its row, broken to the width.
func (p *printer) note(s string) {
	const indent = 14
	width := 76
	if p.width > 0 {
		width = min(width, max(20, p.width-indent))
	}
	for _, line := range text.Fold(s, width) {
		p.line("%s%s", strings.Repeat(" ", indent), p.paint(text.Dim, line))
	}
}

// remarks prints the number of omitted events, and [Remarks].
func (p *printer) remarks() {
	p.line("")
	if p.Cut > 0 {
		p.line("%s: choose a lock, --since or --until.", text.Count(p.Cut, "more event is not shown", "more events are not shown"))
	}
	for _, s := range Remarks {
		p.folded(s)
	}
}

// folded prints a text in lines of at most 80 cells.
func (p *printer) folded(s string) {
	for _, line := range text.Fold(s, max(40, min(80, cmp.Or(p.width, 80)))) {
		p.line("%s", p.paint(text.Dim, line))
	}
}

// notAll is said of a log whose end does not show all locks.
const notAll = "Not all is known: they begin in the middle, or have a gap, and no later snapshot shows the state."

// Remarks are what a reader must know of each report.
var Remarks = []string{
	"A client may have believed that it held the lock from granted until it released, and at the latest until the end of its lease. A log cannot tell more.",
	"The last writes in a log may not have been committed: a server logs them before the majority has, and the next leader may discard them.",
	"Logs have no addresses of clients: names, hosts and process ids are what clients wrote into their entries. Goroutines of one process share an entry, and hand it on without a write.",
}
