package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// A drawing is laid out as a list of marks first, so that a test can look at where
// they are, and then written as SVG: with a background and colours of its own, for
// light and for dark, so that it can be read on any page.
type drawing struct {
	title         string
	width, height float64
	bars          []box
	lines         []line
	dots          []dot
	texts         []text
}

type box struct {
	x, y, width, height float64
	class               string
}

type line struct {
	points []point
	class  string
}

type point struct{ x, y float64 }

type dot struct {
	point
	class string
}

// text stands on its baseline, which begins, or has its middle or end, at the point.
type text struct {
	point
	anchor, class, words string
}

const (
	drawingWidth = 760
	dotRadius    = 4
)

const style = `
.paper { fill: #ffffff; stroke: #d1d9e0 }
text { font: 13px system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; fill: #1f2328;
  paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round }
.title { font-size: 16px; font-weight: 600 }
.group, .strong { font-weight: 600 }
.note { fill: #59636e }
.grid { stroke: #d1d9e0 }
polyline { fill: none; stroke-width: 2 }
.grid { stroke-width: 1 }
.ours { fill: #0969da; stroke: #0969da }
.other { fill: #8c959f; stroke: #8c959f }
.bare { fill: #dfe4e9; stroke: #8c959f }
polyline.ours, polyline.other { fill: none }
rect { stroke-width: 0 }
rect.paper, rect.bare { stroke-width: 1 }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117; stroke: #3d444d }
text { fill: #f0f6fc; stroke: #0d1117 }
.note { fill: #9198a1 }
.grid { stroke: #3d444d }
.ours { fill: #4493f8; stroke: #4493f8 }
.other { fill: #7d8590; stroke: #7d8590 }
.bare { fill: #21262d; stroke: #7d8590 }
polyline.ours, polyline.other { fill: none }
}
`

// svg writes the drawing.
func (d *drawing) svg() []byte {
	var b bytes.Buffer
	out := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	out(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%[1]g" height="%[2]g" role="img">`, d.width, d.height)
	out(`<title>%s</title>`, escape(d.title))
	out(`<style>%s</style>`, style)
	out(`<rect class="paper" x="0.5" y="0.5" width="%g" height="%g" rx="6"/>`, d.width-1, d.height-1)
	for _, l := range d.lines {
		b.WriteString(`<polyline class="` + l.class + `" points="`)
		for _, p := range l.points {
			fmt.Fprintf(&b, "%.1f,%.1f ", p.x, p.y)
		}
		out(`"/>`)
	}
	for _, r := range d.bars {
		out(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, r.class, r.x, r.y, r.width, r.height)
	}
	for _, c := range d.dots {
		out(`<circle class="%s" cx="%.1f" cy="%.1f" r="%d"/>`, c.class, c.x, c.y, dotRadius)
	}
	for _, t := range d.texts {
		out(`<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, t.class, t.x, t.y, t.anchor, escape(t.words))
	}
	out(`</svg>`)
	return b.Bytes()
}

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a Buffer takes everything
	return b.String()
}

// wide is how wide a text of a class is: wider than in any common font.
func wide(class, words string) float64 {
	each := 7.6
	switch class {
	case "title":
		each = 10
	case "group", "strong":
		each = 8.1
	}
	return each * float64(utf8.RuneCountInString(words))
}

// box is the room that a text takes.
func (t text) box() box {
	size := 13.0
	if t.class == "title" {
		size = 16
	}
	b := box{x: t.x, y: t.y - 0.8*size, width: wide(t.class, t.words), height: size}
	switch t.anchor {
	case "middle":
		b.x -= b.width / 2
	case "end":
		b.x -= b.width
	}
	return b
}

func (b box) overlaps(o box) bool {
	return b.x < o.x+o.width && o.x < b.x+b.width && b.y < o.y+o.height && o.y < b.y+b.height
}

func (d dot) box() box {
	return box{x: d.x - dotRadius, y: d.y - dotRadius, width: 2 * dotRadius, height: 2 * dotRadius}
}

// place adds a text at the first of these distances below its point, or above where
// they are negative, or as little further as it takes to cover no other text and no
// dot and to stay on the paper.
func (d *drawing) place(t text, below ...float64) {
	begin := t.y
	for further := 0.0; further < d.height; further++ {
		for _, y := range below {
			t.y = begin + y + math.Copysign(further, y)
			if d.free(t.box()) {
				d.texts = append(d.texts, t)
				return
			}
		}
	}
	d.texts = append(d.texts, t) // there is no room
}

func (d *drawing) free(b box) bool {
	return b.y > 0 && b.y+b.height < d.height &&
		!slices.ContainsFunc(d.texts, func(t text) bool { return b.overlaps(t.box()) }) &&
		!slices.ContainsFunc(d.dots, func(o dot) bool { return b.overlaps(o.box()) })
}
