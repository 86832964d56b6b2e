package incident

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock/history"
)

//go:embed page.css
var css string

//go:embed page.html
var pageText string

// page is the template of the page. It escapes all texts from the log, such as names, owners and
// reasons.
var page = template.Must(template.New("page").Parse(pageText))

// maxHTML is the largest number of rows of a page, so that browsers can show the page.
const maxHTML = 5000

// Sizes of a page's pictures, in the units of their view boxes.
const (
	pictureWidth = 1000
	laneHeight   = 26
	axisHeight   = 34
)

// pageData has the data for the template of the page.
type pageData struct {
	CSS      template.CSS
	Policy   string // Content-Security-Policy, with the hash of CSS
	Title    string
	Report   *Report
	First    string
	Last     string
	Zxid     string
	Zone     string
	Part     string // the time that was asked for; "": all
	Known    string // what is not known at the beginning
	Pictures []picture
	Legend   []legendItem
	Overview []*Lock
	Several  bool
	Rows     []pageRow
	Cut      int
	Remarks  []string
}

type legendItem struct{ Class, Text string }

var legend = []legendItem{{"waits", "waits"}, {"holds", "holds"}, {"risk", "at risk: not renewed for half of the lease"}, {"doubt", "not known whether the lease is over"}, {"lapsed", "lease over"},
	{"beyond", "lease after the end of the log"}, {"deleted", "deleted by another client"}, {"broken", "broken"}}

type picture struct {
	Name   string
	Kind   string
	Height int
	Width  int
	Ticks  []tick
	Breaks []tick
	Lanes  []pageLane
	More   int
	None   bool
}

type tick struct {
	X      int
	Label  string
	Anchor string
	Title  string
}

type pageLane struct {
	Number int
	Who    string
	Client string
	Y      int
	TextY  int
	Bars   []bar
	Ends   []mark
}

type bar struct {
	X, Width     int
	Class, Title string
}

type mark struct {
	X            int
	Class, Title string
	Char         string
}

type pageRow struct {
	Day, Time, Kind, Class, Lock, Entry, Client, Zxid, Session, What string
}

// HTML writes the report as a page that needs no other file.
func (r *Report) HTML(w io.Writer) error {
	sum := sha256.Sum256([]byte(css))
	d := pageData{
		CSS: template.CSS(css), Policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'",
		Title: "What happened to the locks below " + r.Root, Report: r, First: r.moment(r.First), Last: r.moment(r.Last), Zxid: hex(r.Zxid),
		Zone: r.First.In(r.Zone).Format("MST"), Legend: legend, Remarks: Remarks, Several: len(r.Locks) > 1, Cut: r.Cut,
	}
	switch {
	case r.What != "":
		d.Title = "What happened to " + r.What
	case r.Owner != "":
		d.Title = "What " + r.Owner + " did"
	}
	if r.Known.Zxid != 0 {
		d.Known = "What was held before " + r.moment(r.Known.Time) + " is not known, unless its entry shows it."
	} else if r.Blind {
		d.Known = notAll
	}
	if !r.Since.IsZero() {
		d.Part += "from " + r.moment(r.Since) + " "
	}
	if !r.Until.IsZero() {
		d.Part += "until " + r.moment(r.Until)
	}
	if r.Overview {
		d.Overview = r.Locks
	} else {
		for _, l := range r.Locks {
			if len(l.Lanes()) > 0 && len(d.Pictures) < 4*maxPictures {
				d.Pictures = append(d.Pictures, r.draw(l))
			}
		}
	}
	day := ""
	for i, row := range r.Rows {
		if i == maxHTML {
			d.Cut += len(r.Rows) - i
			break
		}
		out := pageRow{Time: r.clock(row.Time), Kind: nameOf(row.Kind), Class: string(row.Kind), Lock: row.Lock, Client: who(row.Who), What: r.say(row)}
		if on := row.Time.In(r.Zone).Format("Monday, 2006-01-02 MST"); on != day {
			day, out.Day = on, on
		}
		out.Entry, out.Zxid, out.Session = row.columns()
		d.Rows = append(d.Rows, out)
	}
	return page.Execute(w, d)
}

// LastAt formats the time of a lock's last event, for the page.
func (d pageData) LastAt(l *Lock) string { return d.Report.moment(l.Last()) }

// stageClasses are the CSS classes of stages.
var stageClasses = map[Stage]string{Waits: "waits", Holds: "holds", AtRisk: "risk", InDoubt: "doubt", Lapsed: "lapsed"}

// draw returns the picture of a lock's holders and waiters.
func (r *Report) draw(l *Lock) picture {
	from, to := r.window(l)
	lanes, more := r.shown(l, from, to, 4*maxLanes)
	p := picture{Name: l.Name, Kind: l.Kind, Width: pictureWidth, More: more, None: len(lanes) == 0 || from < 0}
	if p.None {
		return p
	}
	if to <= from {
		to = from + time.Second
	}
	x := func(at time.Duration) int { return int(float64(at-from) / float64(to-from) * pictureWidth) }
	layout := layoutOf(to - from)
	const ticks = 4
	for i := range ticks + 1 {
		at := from + (to-from)*time.Duration(i)/ticks
		anchor := map[bool]string{true: "start", false: "middle"}[i == 0]
		if i == ticks {
			anchor = "end"
		}
		p.Ticks = append(p.Ticks, tick{X: x(at), Label: r.stamp(at).In(r.Zone).Format(layout), Anchor: anchor})
	}
	for _, e := range r.terms {
		if at := r.m.Elapsed(e); at >= from && at <= to {
			p.Breaks = append(p.Breaks, tick{X: x(at), Label: r.clock(e.Time) + " " + nameOf(e.Kind), Title: r.sayClock(e)})
		}
	}
	for i, lane := range lanes {
		p.Lanes = append(p.Lanes, r.drawLane(lane, axisHeight+i*laneHeight, from, to, x))
	}
	p.Height = axisHeight + len(lanes)*laneHeight + 4
	return p
}

func (r *Report) drawLane(lane *Lane, y int, from, to time.Duration, x func(time.Duration) int) pageLane {
	name := lane.Who.Owner
	if name == "" {
		name = lane.Entry
	}
	out := pageLane{Number: lane.Number, Who: text.Head(text.Printable(name), 30), Client: text.Printable(lane.Who.String()), Y: y, TextY: y + laneHeight/2 + 4}
	for _, s := range r.stretches(lane, from, to) {
		class := stageClasses[s.stage]
		if s.beyond {
			class = "beyond"
		}
		title := fmt.Sprintf("#%d %s: %s from %s to %s", lane.Number, out.Who, class, r.clock(r.stamp(s.from)), r.clock(r.stamp(s.to)))
		out.Bars = append(out.Bars, bar{X: x(s.from), Width: max(2, x(s.to)-x(s.from)), Class: class, Title: title})
	}
	add := func(e *history.Event, class, char string) {
		if e == nil {
			return
		}
		if at := r.m.Elapsed(*e); at >= from && at <= to {
			out.Ends = append(out.Ends, mark{X: x(at), Class: class, Char: char, Title: r.clock(e.Time) + " " + nameOf(e.Kind) + ": " + r.say(Row{Event: *e, Count: 1})})
		}
	}
	add(lane.Broken, "broken", "◆")
	if lane.End != nil {
		class := "left"
		if endChar(lane.End.Kind) == "╳" {
			class = "deleted"
		}
		add(lane.End, class, map[string]string{"left": "", "deleted": "✕"}[class])
	}
	return out
}
