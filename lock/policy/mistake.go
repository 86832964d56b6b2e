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

// Mistake is one mistake in a configuration.
type Mistake struct {
	File   string // empty for policies that come from no file
	Line   int    // from 1; 0 if the mistake has no place in a file
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
	parts := []string{place, m.Key, m.Value, m.Rule}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}

// ConfigError has all mistakes of a configuration, in the order of the file. It has at least one.
// Find it with [errors.As].
type ConfigError struct {
	Mistakes []Mistake
}

// Error returns the mistakes, one a line.
func (e *ConfigError) Error() string {
	lines := make([]string, len(e.Mistakes))
	for i, m := range e.Mistakes {
		lines[i] = m.String()
	}
	return strings.Join(lines, "\n")
}

// place is the position of a key's value in the file, and its text. Line 0 means none.
type place struct {
	line, column int
	text         string
}

// mistakes collects the mistakes of one file, or of the policies that NewSet gets.
type mistakes struct {
	file   string
	places map[string]place // places of all keys that the file gives, by path; nil without a file
	list   []Mistake
	keys   map[string]bool // paths of the keys with a mistake
}

// add adds a mistake about the key with that path, at its value. It shows the value as the file has
// it, and no value if value is "". If the file lacks the key, add marks the value as the default,
// and the position is that of the nearest enclosing key.
func (m *mistakes) add(key, value, rule string, args ...any) {
	p, given := m.places[key]
	switch {
	case value == "" || m.places == nil:
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

// checkName adds a mistake if the i-th name is empty, too long, not printable or not unique. names
// are those of all elements of the list.
func (m *mistakes) checkName(list string, i int, names []string) {
	name, path := names[i], fmt.Sprintf("%s[%d]", list, i)
	first := slices.Index(names, name)
	switch key := path + ".name"; {
	case m.has(path), m.has(key):
	case name == "":
		m.add(key, "", "must be given")
	case len(name) > maxPolicyName:
		m.add(key, plain(name), "must have at most %d bytes", maxPolicyName)
	case !printable(name):
		m.add(key, plain(name), "must be printable")
	case first < i:
		m.add(key, plain(name), "is the name of %s[%d] already", list, first)
	}
}

// err returns the mistakes as an error, in the order of the file. It returns nil if there are none.
func (m *mistakes) err() error {
	if len(m.list) == 0 {
		return nil
	}
	slices.SortStableFunc(m.list, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &ConfigError{Mistakes: m.list}
}

// parent returns the path without its last part.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// plain returns a text for a message: quoted unless it is printable, and cut if it is long.
func plain(s string) string {
	const most = 80
	cut := ""
	if len(s) > most {
		s, cut = strings.ToValidUTF8(s[:most], ""), "…"
	}
	if s == "" || !printable(s) {
		return strconv.Quote(s) + cut
	}
	return s + cut
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) })
}
