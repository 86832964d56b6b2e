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

// Widest is the width of an owner or a host in a line, in cells of a terminal.
const Widest = 24

// Who returns a client's owner, host and process id for a line; only the owner if the others are
// unknown.
func Who(owner, host string, pid int) string {
	who := Head(Printable(owner), Widest)
	if host == "" && pid == 0 {
		return who
	}
	return fmt.Sprintf("%s (%s, pid %d)", who, Head(Printable(host), Widest), pid)
}

// Fold breaks a text at spaces, into lines of at most width cells if the words allow it.
func Fold(s string, width int) []string { return Fill(strings.Fields(s), " ", width) }

// Fill joins parts by a separator, into lines of at most width cells if the parts allow it.
func Fill(parts []string, separator string, width int) (lines []string) {
	for _, part := range parts {
		last := len(lines) - 1
		if last < 0 || Width(lines[last]+separator+part) > width {
			lines = append(lines, part)
		} else {
			lines[last] += separator + part
		}
	}
	return lines
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
