package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/lock/internal/rule"
)

// Mistake is one mistake in a configuration.
type Mistake struct {
	File   string
	Line   int    // from 1; 0 if the mistake has no place in the file
	Column int    // from 1, in characters; 0 if Line is 0
	Key    string // the path of the key, such as policies[2].ttl
	Value  string // the value; "" if it does not help or may be a secret
	Rule   string // the rule that the value breaks
}

// String returns the mistake in one line: file:line:column: key: value: rule. It omits empty parts.
func (m Mistake) String() string {
	place := m.File
	if place != "" && m.Line > 0 {
		place += fmt.Sprintf(":%d:%d", m.Line, m.Column)
	}
	return rule.Line(place, m.Key, m.Value, m.Rule)
}

// Error has all mistakes of a configuration, in the order of the file. It has at least one. Find it
// with [errors.As].
type Error struct {
	Mistakes []Mistake
}

// Error returns the mistakes, one a line.
func (e *Error) Error() string { return rule.Lines(e.Mistakes) }

// place is the position of a key's value in the file, and its text. Line 0 means none.
type place struct {
	line, column int
	text         string
}

// mistakes collects the mistakes of one file.
type mistakes struct {
	file   string
	places map[string]place // places of all keys that the file gives, by path
	list   []Mistake
	keys   map[string]bool // paths of the keys with a mistake
}

// add adds a mistake about the key with that path, at its value. It shows the value as the file has
// it, and no value if value is "". If the file lacks the key, add marks the value as the default,
// and the position is that of the nearest enclosing key.
func (m *mistakes) add(key, value, rule string, args ...any) {
	p, given := m.places[key]
	switch {
	case value == "":
	case given:
		value = p.text
	default:
		value += " (the default)"
	}
	for path := key; !given && path != ""; {
		path = parent(path)
		p, given = m.places[path]
	}
	m.addAt(p, key, value, rule, args...)
}

func (m *mistakes) addAt(p place, key, value, rule string, args ...any) {
	m.list = append(m.list, Mistake{m.file, p.line, p.column, key, value, fmt.Sprintf(rule, args...)})
	if m.keys == nil {
		m.keys = map[string]bool{}
	}
	m.keys[key] = true
}

// has reports whether the key with that path has a mistake already.
func (m *mistakes) has(key string) bool { return m.keys[key] }

// err returns the mistakes as an error, in the order of the file. It returns nil if there are none.
func (m *mistakes) err() error {
	if len(m.list) == 0 {
		return nil
	}
	slices.SortStableFunc(m.list, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &Error{Mistakes: m.list}
}

// parent returns the path without its last part.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}
