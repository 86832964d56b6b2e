package policy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

const byteOrderMark = "\uFEFF"

// acceptText reports whether data is UTF-8 text without control characters. If not, it adds a
// mistake, which shows at most one byte of data.
func (d *decoder) acceptText(data []byte) bool {
	refuse := func(at int, rule string, args ...any) bool {
		line := bytes.Count(data[:at], []byte("\n")) + 1
		start := bytes.LastIndexByte(data[:at], '\n') + 1
		d.addAt(position{line, utf8.RuneCount(data[start:at]) + 1}, "", "", rule, args...)
		return false
	}
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) || bytes.IndexByte(data[:min(2, len(data))], 0) >= 0 {
		return refuse(0, "is not UTF-8 text but UTF-16: save it as UTF-8, as by iconv -f UTF-16 -t UTF-8")
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size <= 1:
			return refuse(i, "is not UTF-8 text: it has the byte 0x%02X here; if it is Latin-1, convert it by iconv -f LATIN1 -t UTF-8", data[i])
		case r < ' ' && !strings.ContainsRune("\t\n\r", r), r == 0x7f:
			return refuse(i, "is not text: it has the control character %U here", r)
		}
		i += size
	}
	return true
}

// misindented returns the number of the first line whose indentation fits no block above it, and
// the mistake. It returns 0 if there is none.
func misindented(tokens token.Tokens, text string) (line int, rule string) {
	lines := strings.Split(text, "\n")
	open := []int{0} // the indentations of the blocks that a line can belong to
	brackets := 0    // open ones, within which indentation means nothing
	before, beforeLine := token.MappingValueType, 0
	for _, t := range tokens {
		if t.Type == token.CommentType {
			continue
		}
		if t.Position.Line > len(lines) { // a carriage return ended a line
			return 0, ""
		}
		switch {
		case brackets > 0:
		case t.Position.Line > beforeLine:
			l := lines[t.Position.Line-1]
			indent := len(l) - len(strings.TrimLeft(l, " "))
			above := slices.Clone(open)
			for open[len(open)-1] > indent {
				open = open[:len(open)-1]
			}
			if open[len(open)-1] == indent {
				break
			}
			if len(open) < len(above) || before != token.MappingValueType && before != token.SequenceEntryType {
				spaces := fmt.Sprintf("%d spaces", indent)
				if indent == 1 {
					spaces = "1 space"
				}
				either := strings.ReplaceAll(strings.Trim(fmt.Sprint(above), "[]"), " ", " or ")
				return t.Position.Line, fmt.Sprintf("is indented by %s, and the lines above that it could belong to by %s: indent it as they are", spaces, either)
			}
			open = append(open, indent)
		case before == token.SequenceEntryType:
			open = append(open, t.Position.Column-1)
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			if brackets--; brackets < 0 { // the parser's message is better
				return 0, ""
			}
		}
		before, beforeLine = t.Type, t.Position.Line
	}
	return 0, ""
}
