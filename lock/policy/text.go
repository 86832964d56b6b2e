package policy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const byteOrderMark = "\uFEFF"

// acceptText adds why data is no text that could be YAML, and reports whether it is. It
// shows no more of data than one byte.
func (d *decoder) acceptText(data []byte) bool {
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}), bytes.HasPrefix(data, []byte{0xfe, 0xff}), isUTF16(data):
		d.addAt(position{1, 1}, "", "", "is not UTF-8 text but UTF-16: save it as UTF-8, as by iconv -f UTF-16 -t UTF-8")
		return false
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size <= 1 && looksLatin(data):
			d.addAt(placeIn(data, i), "", "", "is not UTF-8 text: it has the byte 0x%02X here; if it is Latin-1, convert it by iconv -f LATIN1 -t UTF-8", data[i])
			return false
		case r == utf8.RuneError && size <= 1:
			d.addAt(placeIn(data, i), "", "", "is not UTF-8 text: it has the byte 0x%02X here", data[i])
			return false
		case r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f:
			d.addAt(placeIn(data, i), "", "", "is not text: it has the control character %U here", r)
			return false
		}
		i += size
	}
	return true
}

// isUTF16 reports whether every other byte of a beginning is zero, as it is in UTF-16 of
// what a configuration is mostly written in.
func isUTF16(data []byte) bool {
	if len(data) < 4 {
		return false
	}
	for i, b := range data[:4] {
		if (b == 0) != (data[0] == 0) == (i%2 == 0) {
			return false
		}
	}
	return (data[0] == 0) != (data[1] == 0)
}

// looksLatin reports whether data is text but for bytes that would be letters in Latin-1.
func looksLatin(data []byte) bool {
	return !slices.ContainsFunc(data, func(b byte) bool {
		return b < ' ' && b != '\t' && b != '\n' && b != '\r' || b >= 0x7f && b < 0xa0
	})
}

// placeIn is where a byte stands, with columns in characters.
func placeIn(data []byte, at int) position {
	before := data[:at]
	line := bytes.Count(before, []byte("\n")) + 1
	start := bytes.LastIndexByte(before, '\n') + 1
	return position{line, utf8.RuneCount(before[start:]) + 1}
}

// misindented looks for a line whose indentation is that of none of the lines above it that
// it could belong to, and returns its number and what is wrong; 0 if there is none, or the
// file is written in a way that this does not understand.
func misindented(text string) (line int, rule string) {
	open := []int{0} // the indentations of the blocks that a line can belong to
	deeper := true   // the line before opens a block
	for i, l := range strings.Split(text, "\n") {
		l = strings.TrimRight(l, " \r")
		content := strings.TrimLeft(l, " ")
		if content == "" || content[0] == '#' {
			continue
		}
		if strings.HasPrefix(content, "\t") || strings.Count(l, "[")+strings.Count(l, "{") != strings.Count(l, "]")+strings.Count(l, "}") {
			return 0, ""
		}
		indent := len(l) - len(content)
		above := slices.Clone(open)
		for open[len(open)-1] > indent {
			open = open[:len(open)-1]
		}
		if open[len(open)-1] < indent {
			if !deeper || len(open) < len(above) {
				return i + 1, fmt.Sprintf("is indented by %s, and the lines above that it could belong to by %s: indent it as they are", spaces(indent), either(above))
			}
			open = append(open, indent)
		}
		for strings.HasPrefix(content, "- ") {
			rest := strings.TrimLeft(content[1:], " ")
			indent += len(content) - len(rest)
			open = append(open, indent)
			content = rest
		}
		if code, _, commented := strings.Cut(content, " #"); commented {
			content = strings.TrimRight(code, " ")
		}
		if strings.HasSuffix(content, "|") || strings.HasSuffix(content, ">") {
			return 0, ""
		}
		deeper = strings.HasSuffix(content, ":") || content == "-"
	}
	return 0, ""
}

func spaces(n int) string {
	switch n {
	case 0:
		return "no space"
	case 1:
		return "1 space"
	}
	return fmt.Sprintf("%d spaces", n)
}

// either lists indentations.
func either(all []int) string {
	slices.Sort(all)
	var texts []string
	for _, n := range slices.Compact(all) {
		texts = append(texts, fmt.Sprint(n))
	}
	return strings.Join(texts, " or ")
}
