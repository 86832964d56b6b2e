package incident

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock/history"
)

// The characters of a picture's stages, and their colors.
var (
	stageChars  = map[Stage]string{Waits: "·", Holds: "█", AtRisk: "▓", InDoubt: "?", Lapsed: "░"}
	stageStyles = map[Stage]text.Style{Waits: text.Dim, Holds: text.Green, AtRisk: text.Yellow, InDoubt: text.Yellow, Lapsed: text.Red}
)

// stretch is the part of a span that a picture shows, in the times of history.Machine.Elapsed.
type stretch struct {
	stage    Stage
	from, to time.Duration
	beyond   bool // after the end of the log: the rest of the lease
}

// stretches returns the parts of a lane between from and to.
func (r *Report) stretches(lane *Lane, from, to time.Duration) (all []stretch) {
	end := r.until(lane)
	for i, s := range lane.Spans {
		next := end
		if i+1 < len(lane.Spans) {
			next = r.m.Elapsed(lane.Spans[i+1].From)
		}
		a, b := max(from, r.m.Elapsed(s.From)), min(to, next)
		if b >= from && a <= to && b >= a {
			all = append(all, stretch{stage: s.Stage, from: a, to: b})
		}
	}
	logEnd := r.ended()
	if n := len(all); n > 0 && lane.End == nil && all[n-1].to > logEnd { // the lease ends after the log
		s := all[n-1]
		all[n-1].to = max(s.from, logEnd)
		all = append(all, stretch{s.stage, all[n-1].to, s.to, true})
	}
	return all
}

// shown returns the lanes that a picture between from and to shows, at most most of them, and the
// number of further ones. Lanes that held the lock take precedence.
func (r *Report) shown(l *Lock, from, to time.Duration, most int) (lanes []*Lane, more int) {
	for _, pass := range []bool{true, false} {
		for _, lane := range l.Lanes() {
			if lane.held == pass && len(lane.Spans) > 0 && r.until(lane) >= from && r.m.Elapsed(lane.Spans[0].From) <= to {
				if len(lanes) < most {
					lanes = append(lanes, lane)
				} else {
					more++
				}
			}
		}
	}
	slices.SortFunc(lanes, func(a, b *Lane) int { return a.Number - b.Number })
	return lanes, more
}

// picture prints the lanes of a lock as a picture.
func (p *printer) picture(l *Lock) {
	from, to := p.window(l)
	lanes, more := p.shown(l, from, to, maxLanes)
	title := p.paint(text.Bold, text.Printable(l.Name))
	if l.Kind != "" {
		title += " (" + l.Kind + ")"
	}
	p.line("%s", title)
	if len(lanes) == 0 || from < 0 {
		p.line("  no client held it or waited for it at that time")
		return
	}
	if to <= from {
		to = from + time.Second
	}
	labels, wide := make([]string, len(lanes)), 0
	for i, lane := range lanes {
		name := lane.Who.Owner
		if name == "" {
			name = text.Tail(lane.Entry, 12)
		}
		labels[i] = fmt.Sprintf("#%d %s", lane.Number, text.Head(text.Printable(name), 16))
		wide = max(wide, text.Width(labels[i]))
	}
	canvas := maxCanvas
	if p.width > 0 {
		canvas = max(20, min(maxCanvas, p.width-wide-2))
	} else {
		canvas = 80
	}
	column := func(at time.Duration) int {
		return int(int64(at-from) * int64(canvas-1) / int64(to-from))
	}
	p.axis(wide, canvas, from, to)
	p.breaks(wide, canvas, column, from, to)
	for i, lane := range lanes {
		cells := make([]string, canvas)
		for j := range cells {
			cells[j] = " "
		}
		for _, s := range p.stretches(lane, from, to) {
			char := p.paint(stageStyles[s.stage], stageChars[s.stage])
			if s.beyond {
				char = p.paint(text.Dim, "╌")
			}
			for c := column(s.from); c <= column(s.to); c++ {
				cells[c] = char
			}
		}
		if b := lane.Broken; b != nil {
			if at := p.m.Elapsed(*b); at >= from && at <= to {
				cells[column(at)] = p.paint(text.Red, "◆")
			}
		}
		if e := lane.End; e != nil {
			if at := p.m.Elapsed(*e); at >= from && at <= to {
				cells[column(at)] = p.paint(styles[e.Kind], endChar(e.Kind))
			}
		}
		p.line("%s%s  %s", labels[i], strings.Repeat(" ", wide-text.Width(labels[i])), strings.TrimRight(strings.Join(cells, ""), " "))
	}
	if more > 0 {
		p.line("%s not drawn: choose --since and --until", text.Count(more, "more entry is", "more entries are"))
	}
}

// endChar returns the character of the end of an entry.
func endChar(k history.Kind) string {
	switch k {
	case history.Released, history.Withdrawn, history.SessionEnded, history.Ended:
		return "┤"
	}
	return "╳"
}

// axis prints the times on the axis of a picture.
func (p *printer) axis(wide, canvas int, from, to time.Duration) {
	layout := layoutOf(to - from)
	ticks := max(1, min(6, canvas/16))
	line := []rune(strings.Repeat(" ", canvas+2))
	for i := range ticks {
		at := from + (to-from)*time.Duration(i)/time.Duration(ticks)
		label := "│" + p.stamp(at).In(p.Zone).Format(layout)
		copy(line[i*canvas/ticks:], []rune(label))
	}
	p.line("%s  %s", strings.Repeat(" ", wide), p.paint(text.Dim, strings.TrimRight(string(line[:canvas]), " ")))
}

// layoutOf returns the layout of times on an axis of length d.
func layoutOf(d time.Duration) string {
	switch {
	case d < 2*time.Second:
		return "15:04:05.000"
	case d < 20*time.Second:
		return "15:04:05.0"
	case d < 48*time.Hour:
		return "15:04:05"
	}
	return "01-02 15:04"
}

// breaks marks changes of the leader by L, and steps of its clock by C.
func (p *printer) breaks(wide, canvas int, column func(time.Duration) int, from, to time.Duration) {
	cells := []rune(strings.Repeat(" ", canvas))
	any := false
	for _, e := range p.terms {
		if at := p.m.Elapsed(e); at >= from && at <= to {
			any = true
			c := 'L'
			if e.Kind == history.Clock {
				c = 'C'
			}
			cells[column(at)] = c
		}
	}
	if any {
		p.line("%s  %s", strings.Repeat(" ", wide), p.paint(text.Yellow, strings.TrimRight(string(cells), " ")))
	}
}

// legend explains the characters.
func (p *printer) legend() {
	p.line("")
	parts := []string{"· waits", "█ holds", "▓ at risk", "? lease may be over", "░ lease over", "╌ lease after the log's end", "┤ left by itself", "╳ deleted by another", "◆ broken", "L another leader", "C clock stepped, or time passed"}
	for _, line := range text.Fill(parts, "   ", max(40, min(100, cmp.Or(p.width, 80)))) {
		p.line("%s", p.paint(text.Dim, line))
	}
}
