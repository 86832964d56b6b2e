// Package text has what the commands print lines and tables with: texts of others made
// harmless and cut to size, columns that are aligned by what a terminal shows, and
// colours for terminals.
package text

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
)

// cells counts as terminals of all languages do: what is ambiguous takes one cell, whatever
// this machine's locale says.
var cells = &runewidth.Condition{StrictEmojiNeutral: true}

// Width is how many cells of a terminal a text takes.
func Width(s string) int { return cells.StringWidth(s) }

// Count says how many there are of something, by its singular and its plural.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Printable returns text of others without what could play with a terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// Head returns the beginning of a text that takes at most so many cells.
func Head(s string, widest int) string {
	if Width(s) <= widest {
		return s
	}
	return cells.Truncate(s, widest, "…")
}

// Tail returns the end of a text that takes at most so many cells.
func Tail(s string, widest int) string {
	if Width(s) <= widest {
		return s
	}
	return cells.TruncateLeft(s, Width(s)-widest+1, "…")
}
