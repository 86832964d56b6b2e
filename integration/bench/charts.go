package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

const chartsDir = "charts"

// chart is a drawing in a file.
type chart struct {
	file string
	*drawing
}

// charts draws those charts that the report has figures for.
func (r *report) charts() []chart {
	var charts []chart
	add := func(file string, d *drawing) {
		if d != nil {
			charts = append(charts, chart{file, d})
		}
	}
	delay, hold := fmt.Sprintf("%d ms", roundTrip.Milliseconds()), fmt.Sprintf("%d ms", shortHold.Milliseconds())

	add("free.svg", barChart("Locking and unlocking a free lock",
		"median time of a cycle, one client; shorter is better",
		r.group("on loopback", "A", freeNear, 0, all),
		r.group("with "+delay+" more for each round trip", "A", freeFar, 0, all)))

	var waits []barGroup
	for _, n := range full.queues {
		waits = append(waits, r.waits(n))
	}
	add("handoff.svg", barChart("From unlock to the next holder",
		"median time, clients that take turns and hold for "+hold+"; shorter is better", waits...))

	add("bytes.svg", logChart("What the server sends for each handoff",
		"bytes to all clients that take turns and hold for "+hold+"; less is better; logarithmic scales", "clients", kilobytes,
		r.series(full.queues, func(n int) *result { return r.find("C", handoffTitle(n, shortHold)) }, 3)))

	add("requests.svg", barChart("Requests to the server", "for each operation; fewer is better",
		r.group("a free lock, locked and unlocked", "A", freeNear, 1, locks),
		r.group("a handoff among 16 clients that hold for "+hold, "C", handoffTitle(16, shortHold), 5, locks)))

	var drained []barGroup
	for _, n := range full.drained {
		drained = append(drained, r.group(fmt.Sprintf("%d waiters", n), "D", drainTitle(n), 2, locks))
	}
	add("drain.svg", barChart("What the server sends to a crowd", "bytes for each waiter, to join, wait and have its turn; less is better", drained...))
	return charts
}

// barGroup are the bars of one condition.
type barGroup struct {
	title  string
	unit   unit
	peers  []*peer
	values []float64
	notes  []string // beside the values, if any
}

// group returns those peers' medians of a figure of an experiment. It is empty if
// that was not measured.
func (r *report) group(title, workload, experiment string, figure int, takes func(*peer) bool) barGroup {
	g := barGroup{title: title}
	one := r.find(workload, experiment)
	if one == nil {
		return g
	}
	g.unit = one.figures[figure].unit
	for _, p := range one.peers {
		if v := one.median(p.name, figure); takes(p) && !math.IsNaN(v) {
			g.peers, g.values = append(g.peers, p), append(g.values, v)
		}
	}
	return g
}

// waits are the times from unlock to the next holder among that many clients. Where handoffs
// went back to the client that unlocked, the share that did not stands beside them.
func (r *report) waits(clients int) barGroup {
	title := handoffTitle(clients, shortHold)
	g := r.group(fmt.Sprintf("%d clients", clients), "C", title, 1, locks)
	for _, p := range g.peers {
		note := ""
		if share := r.find("C", title).median(p.name, 7); share < 0.995 {
			note = "share to another client " + decimals.format(share)
		}
		g.notes = append(g.notes, note)
	}
	return g
}

// note is what stands beside a value.
func (g barGroup) note(i int) string {
	if i < len(g.notes) {
		return g.notes[i]
	}
	return ""
}

// kind is the class of a peer's bars, lines and dots.
func kind(p *peer) string {
	switch {
	case p.name == holdfastName:
		return "ours"
	case p.bare:
		return "bare"
	}
	return "other"
}

// labels is the class of what is written at them.
func labels(p *peer) string {
	if p.name == holdfastName {
		return "strong"
	}
	return "label"
}

// newDrawing begins a drawing with its title and a note on what is shown.
func newDrawing(title, note string) *drawing {
	return &drawing{title: title, width: drawingWidth, texts: []text{
		{point{20, 32}, "start", "title", title},
		{point{20, 54}, "start", "note", note},
	}}
}

// barChart draws groups of bars on one scale from zero; nil if there is nothing to see. Bars
// that are many times as long as most are drawn with a gap, or else they would be
// all there is to see.
func barChart(title, note string, groups ...barGroup) *drawing {
	const step, thick, gap = 23.0, 15.0, 8.0
	var values []float64
	var left float64
	for _, g := range groups {
		values = append(values, g.values...)
		for i := range g.values {
			left = max(left, wide(labels(g.peers[i]), g.peers[i].title)+40)
		}
	}
	if len(values) == 0 || median(values) == 0 {
		return nil
	}
	most, room, cut := min(slices.Max(values), 4*median(values)), drawingWidth-left, false
	for _, g := range groups {
		for i, v := range g.values {
			label := 26 + wide(labels(g.peers[i]), g.unit.format(v)) + wide("note", g.note(i))
			room = min(room, (drawingWidth-left-label)/min(1, v/most))
		}
	}
	d := newDrawing(title, note)
	y := 62.0
	for _, g := range groups {
		if len(g.values) == 0 {
			continue
		}
		d.texts = append(d.texts, text{point{20, y + 24}, "start", "group", g.title})
		y += 34
		for i, v := range g.values {
			class, width := kind(g.peers[i]), v/most*room
			if v > most {
				cut, width = true, room
				d.bars = append(d.bars, box{left, y, room - 3*gap, thick, class}, box{left + room - 2*gap, y, 2 * gap, thick, class})
			} else {
				d.bars = append(d.bars, box{left, y, width, thick, class})
			}
			d.texts = append(d.texts,
				text{point{left - 10, y + 12}, "end", labels(g.peers[i]), g.peers[i].title},
				text{point{left + width + 8, y + 12}, "start", labels(g.peers[i]), g.unit.format(v)})
			if note := g.note(i); note != "" {
				after := left + width + 18 + wide(labels(g.peers[i]), g.unit.format(v))
				d.texts = append(d.texts, text{point{after, y + 12}, "start", "note", note})
			}
			y += step
		}
	}
	d.height = y + 14
	if cut {
		d.remark("a bar with a gap is longer than it is drawn")
	}
	for _, g := range groups {
		d.mark(g.peers...)
	}
	return d
}

// mark says at the foot that peers are of another system, if one of these is.
func (d *drawing) mark(peers ...*peer) {
	const words = mark + " another system, with other guarantees"
	if slices.ContainsFunc(peers, func(p *peer) bool { return p.note != "" }) &&
		!slices.ContainsFunc(d.texts, func(t text) bool { return t.words == words }) {
		d.remark(words)
	}
}

// remark adds a line at the foot.
func (d *drawing) remark(words string) {
	d.texts = append(d.texts, text{point{20, d.height + 8}, "start", "note", words})
	d.height += 24
}

// series is a peer's line: its medians by the size of the experiment.
type series struct {
	*peer
	values map[int]float64
}

func (s series) sizes() []int { return slices.Sorted(maps.Keys(s.values)) }

// series returns the peers' medians of a figure over experiments of several sizes,
// of those peers that were measured at each of them.
func (r *report) series(sizes []int, experiment func(size int) *result, figure int) []series {
	var all []series
	measured := 0
	for _, n := range sizes {
		one := experiment(n)
		if one == nil {
			continue
		}
		measured++
		for _, p := range one.peers {
			v := one.median(p.name, figure)
			if math.IsNaN(v) {
				continue
			}
			i := slices.IndexFunc(all, func(s series) bool { return s.name == p.name })
			if i < 0 {
				i, all = len(all), append(all, series{p, map[int]float64{}})
			}
			all[i].values[n] = v
		}
	}
	return slices.DeleteFunc(all, func(s series) bool { return len(s.values) < measured })
}

// logChart draws lines over two logarithmic scales, all over the same sizes; nil if
// there are none.
func logChart(title, note, axis string, u unit, all []series) *drawing {
	if len(all) == 0 {
		return nil
	}
	c := newLogPlot(newDrawing(title, note), u, all)
	c.grid(axis)
	for _, s := range all {
		c.line(s)
	}
	// Labels come when all dots are there for them to keep clear of.
	for _, n := range c.sizes {
		c.label(n)
	}
	for _, s := range all {
		last := c.sizes[len(c.sizes)-1]
		p := c.at(last, s.values[last])
		c.place(text{point{p.x + 40, p.y}, "start", labels(s.peer), s.title}, 4)
	}
	for _, s := range all {
		c.mark(s.peer)
	}
	return c.drawing
}

// logPlot is a drawing with the scales of its lines.
type logPlot struct {
	*drawing
	unit  unit
	all   []series
	sizes []int
	least float64 // of all values
	right float64 // up to where lines are drawn
	x, y  func(float64) float64
}

// Where lines are drawn. How far to the right depends on the labels that stand there.
const plotLeft, plotTop, plotBottom, plotMargin = 120.0, 80.0, 350.0, 34.0

func newLogPlot(d *drawing, u unit, all []series) *logPlot {
	var values []float64
	right := float64(drawingWidth)
	for _, s := range all {
		values = slices.AppendSeq(values, maps.Values(s.values))
		right = min(right, drawingWidth-60-wide(labels(s.peer), s.title))
	}
	sizes, least := all[0].sizes(), slices.Min(values)
	d.height = plotBottom + 60
	return &logPlot{
		drawing: d, unit: u, all: all, sizes: sizes, least: least, right: right,
		x: logScale(float64(sizes[0]), float64(sizes[len(sizes)-1]), plotLeft, right),
		y: logScale(least, slices.Max(values), plotBottom-plotMargin, plotTop+plotMargin),
	}
}

func (c *logPlot) at(size int, v float64) point { return point{c.x(float64(size)), c.y(v)} }

// grid draws the axis of the sizes, and a line at each power of ten of the values.
func (c *logPlot) grid(axis string) {
	for _, n := range c.sizes {
		c.texts = append(c.texts, text{point{c.x(float64(n)), plotBottom + 22}, "middle", "note", strconv.Itoa(n)})
	}
	c.texts = append(c.texts, text{point{(plotLeft + c.right) / 2, plotBottom + 42}, "middle", "note", axis})
	c.lines = append(c.lines, line{[]point{{plotLeft, plotBottom}, {c.right, plotBottom}}, "grid"})
	for v := math.Pow(10, math.Floor(math.Log10(c.least))); c.y(v) >= plotTop; v *= 10 {
		if c.y(v) <= plotBottom {
			c.lines = append(c.lines, line{[]point{{plotLeft, c.y(v)}, {c.right, c.y(v)}}, "grid"})
			c.texts = append(c.texts, text{point{plotLeft - 36, c.y(v) + 4}, "end", "note", strings.Replace(c.unit.format(v), ".00", "", 1)})
		}
	}
}

// line draws a peer's line, with a dot at each value.
func (c *logPlot) line(s series) {
	l := line{class: kind(s.peer)}
	for _, n := range s.sizes() {
		l.points = append(l.points, c.at(n, s.values[n]))
		c.dots = append(c.dots, dot{c.at(n, s.values[n]), l.class})
	}
	c.lines = append(c.lines, l)
}

// label labels the values at that size: that of the lowest line below it, the others above
// theirs.
func (c *logPlot) label(size int) {
	least := math.Inf(1)
	for _, s := range c.all {
		least = min(least, s.values[size])
	}
	for _, s := range c.all {
		label := text{c.at(size, s.values[size]), "middle", labels(s.peer), c.unit.format(s.values[size])}
		if s.values[size] == least {
			c.place(label, 21, -11)
		} else {
			c.place(label, -11, 21)
		}
	}
}

// logScale returns where values stand between two places, the least and the most
// at them, by their logarithms.
func logScale(least, most, from, to float64) func(float64) float64 {
	spread := max(math.Log(most/least), 1) // one value alone has none
	return func(v float64) float64 { return from + math.Log(v/least)/spread*(to-from) }
}
