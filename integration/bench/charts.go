package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
	"unicode/utf8"
)

const chartsDir = "charts"

// chart is a bar chart with the name of its file. Its scale begins at zero.
type chart struct {
	file, title, note string
	whole             bool // draw all bars in full; false: cut longer ones at four times the median
	rows              []row
}

// row is a peer's bar, or the heading of the rows below it.
type row struct {
	*peer         // nil: the row is a heading
	heading       string
	value         float64
	label, remark string // texts beside the bar
}

// charts returns the charts for which the report has figures.
func (r *report) charts() []chart {
	const hold = "clients that take turns and hold for 2 ms"
	charts := []chart{
		{"free.svg", "Locking and unlocking a free lock", "median time of a cycle, one client; shorter is better", false, slices.Concat(
			r.rows("on loopback", "A", freeNear, 0, all),
			r.rows("with 1 ms more for each round trip", "A", freeFar, 0, all))},
		{"handoff.svg", "From unlock to the next holder", "median time, " + hold + "; shorter is better", false, nil},
		{"bytes.svg", "What the server sends for each handoff", "bytes to all " + hold + "; less is better", true, nil},
		{"requests.svg", "Requests to the server", "for each operation; fewer is better", false, slices.Concat(
			r.rows("a free lock, locked and unlocked", "A", freeNear, 1, locks),
			r.rows("a handoff among 16 clients that hold for 2 ms", "C", handoffTitle(16, shortHold), 5, locks))},
		{"drain.svg", "What the server sends to a crowd", "bytes for each waiter, to join, wait and have its turn; less is better", false, nil},
	}
	for _, n := range full.queues {
		title, experiment := fmt.Sprintf("%d clients", n), handoffTitle(n, shortHold)
		waits := r.rows(title, "C", experiment, 1, locks)
		for i := 1; i < len(waits); i++ { // row 0 is the heading
			if share := r.find("C", experiment).median(waits[i].Name, 7); share < 0.995 {
				waits[i].remark = "share to another client " + decimals.format(share)
			}
		}
		charts[1].rows = append(charts[1].rows, waits...)
		charts[2].rows = append(charts[2].rows, r.rows(title, "C", experiment, 3, locks)...)
	}
	for _, n := range full.drained {
		charts[4].rows = append(charts[4].rows, r.rows(fmt.Sprintf("%d waiters", n), "D", drainTitle(n), 2, locks)...)
	}
	return slices.DeleteFunc(charts, func(c chart) bool {
		_, values := c.bars()
		return len(values) == 0 || median(values) == 0
	})
}

// rows returns a heading, and a row with the median of a figure for each peer that has the figure
// and that takes accepts. figure is an index in the table's figures. If the experiment was not
// measured, rows returns nil.
func (r *report) rows(heading, workload, experiment string, figure int, takes func(*peer) bool) []row {
	one := r.find(workload, experiment)
	if one == nil {
		return nil
	}
	rows := []row{{heading: heading}}
	for _, p := range one.Peers {
		if v := one.median(p.Name, figure); takes(p) && !math.IsNaN(v) {
			rows = append(rows, row{peer: p, value: v, label: one.Figures[figure].Unit.format(v)})
		}
	}
	return rows
}

// bars returns the rows that are not headings, and their values.
func (c *chart) bars() (bars []row, values []float64) {
	for _, r := range c.rows {
		if r.peer != nil {
			bars, values = append(bars, r), append(values, r.value)
		}
	}
	return bars, values
}

// text returns the text beside a bar: its label, and ", cut" if its value exceeds most, the value
// of the longest bar.
func (r row) text(most float64) string {
	if r.value > most {
		return r.label + ", cut"
	}
	return r.label
}

// class returns the CSS class of a peer's bar and of its texts.
func class(p *peer) string {
	if p.Name == holdfastName {
		return "ours"
	}
	return "other"
}

// wide returns an upper bound of a text's width in pixels, in any common font of 13px.
func wide(words string) float64 { return 8.1 * float64(utf8.RuneCountInString(words)) }

// The layout of a chart.
const (
	drawingWidth, margin = 860.0, 20.0
	step, thick, gap     = 23, 15, 8
)

// scale returns the x at which all bars begin, and the value and the length of the longest bar. The
// bars and the texts beside them must fit into the drawing.
func (c *chart) scale() (left, most, length float64) {
	bars, values := c.bars()
	most = slices.Max(values)
	if !c.whole {
		most = min(most, 4*median(values))
	}
	for _, b := range bars {
		left = max(left, 2*margin+wide(b.Title))
	}
	length = drawingWidth - left
	for _, b := range bars {
		length = min(length, (drawingWidth-left-2*margin-wide(b.text(most)+b.remark))/min(1, b.value/most))
	}
	return left, most, length
}

// style has colors for light and for dark pages.
const style = `
.paper { fill: #ffffff; stroke: #d1d9e0 }
text { font: 13px system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: 600 }
.heading, text.ours { font-weight: 600 }
.note { fill: #59636e }
rect.ours { fill: #0969da }
rect.other { fill: #8c959f }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117; stroke: #3d444d }
text { fill: #f0f6fc }
.note { fill: #9198a1 }
rect.ours { fill: #4493f8 }
rect.other { fill: #7d8590 }
}
`

// svg returns the chart as an SVG document.
func (c *chart) svg() []byte {
	left, most, length := c.scale()
	var marks bytes.Buffer
	y, foreign := 32.0, false
	write := func(x float64, anchor, class, words string) {
		fmt.Fprintf(&marks, `<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor, html.EscapeString(words))
	}
	write(margin, "start", "title", c.title)
	y += 22
	write(margin, "start", "note", c.note)
	for _, r := range c.rows {
		if r.peer == nil {
			y += 34
			write(margin, "start", "heading", r.heading)
			continue
		}
		y += step
		end := left + min(1, r.value/most)*length
		fmt.Fprintf(&marks, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%d"/>`+"\n", class(r.peer), left, y-12, end-left, thick)
		foreign = foreign || r.Note != ""
		write(left-gap, "end", class(r.peer), r.Title)
		write(end+gap, "start", class(r.peer), r.text(most))
		if r.remark != "" {
			write(end+gap+wide(r.text(most)+" "), "start", "note", r.remark)
		}
	}
	y += 12
	if foreign {
		y += step
		write(margin, "start", "note", mark+" another system, with other guarantees")
	}
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%[1]g" height="%[2]g" role="img">
<title>%[3]s</title>
<style>%[4]s</style>
<rect class="paper" x="0.5" y="0.5" width="%[5]g" height="%[6]g" rx="6"/>
%[7]s</svg>
`, drawingWidth, y+16, html.EscapeString(c.title), style, drawingWidth-1, y+15, &marks)
}
