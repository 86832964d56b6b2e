// Package text helps the commands to print lines and tables: it makes other programs' texts safe,
// cuts them to size, aligns columns by their width on a terminal, and colors text.
package text

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
)

// cells measures the width of text. A character of ambiguous width takes one cell, whatever the
// locale of this machine.
var cells = &runewidth.Condition{StrictEmojiNeutral: true}

// Width returns the width of a text in cells of a terminal.
func Width(s string) int { return cells.StringWidth(s) }

// Count returns a number with its noun, in the singular or the plural.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Printable replaces each unprintable character by a question mark.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// Head returns the beginning of a text, at most widest cells wide. If the text is cut, it ends with ….
func Head(s string, widest int) string {
	if Width(s) <= widest {
		return s
	}
	return cells.Truncate(s, widest, "…")
}

// Tail returns the end of a text, at most widest cells wide. If the text is cut, it begins with ….
func Tail(s string, widest int) string {
	if Width(s) <= widest {
		return s
	}
	return cells.TruncateLeft(s, Width(s)-widest+1, "…")
}
