package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mistake is one thing that is wrong in a configuration.
type Mistake struct {
	File   string // empty for policies that come from no file
	Line   int    // from 1; 0 if the mistake has no place in a file
	Column int    // from 1, in characters; 0 as with Line
	Key    string // the path of the key, such as policies[2].ttl
	Value  string // what the file says there, if that helps and is no secret
	Rule   string // what should have been
}

// String returns the mistake in one line: file:line:column: key: value: rule,
// without the parts that are empty.
func (m Mistake) String() string {
	var parts []string
	if m.File != "" {
		place := m.File
		if m.Line > 0 {
			place += fmt.Sprintf(":%d:%d", m.Line, m.Column)
		}
		parts = append(parts, place)
	}
	for _, part := range []string{m.Key, m.Value, m.Rule} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// ConfigError holds everything that is wrong in a configuration, in the order
// of the file. There is at least one Mistake. Find it with [errors.As].
type ConfigError struct {
	Mistakes []Mistake
}

// Error returns the mistakes, one in each line.
func (e *ConfigError) Error() string {
	lines := make([]string, len(e.Mistakes))
	for i, m := range e.Mistakes {
		lines[i] = m.String()
	}
	return strings.Join(lines, "\n")
}

// mistakes collects what is wrong.
type mistakes struct {
	list []Mistake
	keys map[string]bool
}

func (m *mistakes) add(key, value, rule string, args ...any) {
	m.addAt(position{}, key, value, rule, args...)
}

func (m *mistakes) addAt(p position, key, value, rule string, args ...any) {
	m.list = append(m.list, Mistake{
		Line: p.line, Column: p.column, Key: key, Value: value, Rule: fmt.Sprintf(rule, args...),
	})
	if m.keys == nil {
		m.keys = map[string]bool{}
	}
	m.keys[key] = true
}

// has reports whether the key, given as its path, has a mistake already.
func (m *mistakes) has(key string) bool { return m.keys[key] }

// err returns the mistakes as an error in order, or nil if there are none.
func (m *mistakes) err() error {
	if len(m.list) == 0 {
		return nil
	}
	slices.SortStableFunc(m.list, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &ConfigError{Mistakes: m.list}
}

// plain returns a text for a line of a message: as it is if it is short and
// printable, else quoted and cut.
func plain(s string) string {
	const most = 80
	cut := ""
	if len(s) > most {
		end := most
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		s, cut = s[:end], "…"
	}
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return strconv.Quote(s) + cut
	}
	return s + cut
}
