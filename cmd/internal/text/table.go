package text

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// Style is the style of a text; the zero Style is plain.
type Style string

// The styles, as parameters of the terminal's escape sequence.
const (
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Paint returns the text in the style, with escape sequences around it; without colour, as it is.
func (s Style) Paint(text string, colour bool) string {
	if !colour || s == "" || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// Coloured reports whether to print with colors: on a terminal, unless NO_COLOR (see no-color.org) is
// set or TERM is dumb.
func Coloured(terminal bool) bool {
	return terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Cell is a cell of a table.
type Cell struct {
	Text  string
	Style Style
}

// Cells returns plain cells.
func Cells(texts ...string) (row []Cell) {
	for _, t := range texts {
		row = append(row, Cell{Text: t})
	}
	return row
}

// Table is a table in columns. A row may have fewer cells than others.
type Table struct {
	Rows [][]Cell
	// Widest are the largest widths of the columns, in cells of a terminal; 0 means no
	// limit. A wider text gets its own line, and the rest of its row follows on the next, so it
	// does not widen other rows.
	Widest []int
	Colour bool
}

// Head adds the row of the column titles.
func (t *Table) Head(titles ...string) {
	row := Cells(titles...)
	for i := range row {
		row[i].Style = Bold
	}
	t.Add(row...)
}

// Keep drops all columns but the first ones.
func (t *Table) Keep(columns int) {
	for i, row := range t.Rows {
		t.Rows[i] = row[:min(columns, len(row))]
	}
}

// Width returns the width of the widest line, in cells of a terminal.
func (t *Table) Width() (width int) {
	plain := *t
	plain.Colour = false
	for _, line := range plain.Lines() {
		width = max(width, Width(line))
	}
	return width
}

// Add adds a row.
func (t *Table) Add(row ...Cell) { t.Rows = append(t.Rows, row) }

// Print prints the table.
func (t *Table) Print(w io.Writer) error {
	for _, line := range t.Lines() {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// Lines returns the lines of the table.
func (t *Table) Lines() (lines []string) {
	widths := t.widths()
	for _, row := range t.Rows {
		lines = append(lines, t.line(row, widths)...)
	}
	return lines
}

func (t *Table) widths() (widths []int) {
	for _, row := range t.Rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if w := Width(c.Text); !t.tooWide(i, w) {
				widths[i] = max(widths[i], w)
			}
		}
	}
	return widths
}

func (t *Table) tooWide(column, width int) bool {
	return column < len(t.Widest) && t.Widest[column] > 0 && width > t.Widest[column]
}

// line returns the lines of a row: one, and before it one for each text that is too wide.
func (t *Table) line(row []Cell, widths []int) (lines []string) {
	var line strings.Builder
	spaces := 0 // spaces before the next text; a line never ends in spaces
	for i, c := range row {
		w := Width(c.Text)
		if w > 0 {
			line.WriteString(strings.Repeat(" ", spaces) + c.Style.Paint(c.Text, t.Colour))
			spaces = 0
		}
		if w > widths[i] && i < len(row)-1 {
			lines = append(lines, line.String())
			line.Reset()
			spaces = 0
			for _, w := range widths[:i+1] {
				spaces += w + 2
			}
			continue
		}
		spaces += widths[i] - w + 2
	}
	return append(lines, line.String())
}
