package policy

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// decoder decodes one file. It continues after a mistake, to find all mistakes.
type decoder struct {
	mistakes
	folder string // start of relative paths in the file
}

func newDecoder(filename string) *decoder {
	return &decoder{mistakes{file: filename, places: map[string]place{}}, filepath.Dir(filename)}
}

// decode decodes the node at path into v.
func (d *decoder) decode(v value, path string, n ast.Node) {
	d.places[path] = place{positionOf(start(n)), show(n)}
	if n.Type() == ast.NullType {
		d.refuse(path, "has no value: give one, or delete the key")
		return
	}
	v.decode(d, path, n)
}

// refuse adds a mistake about the value at path.
func (d *decoder) refuse(path, rule string, args ...any) {
	d.add(path, d.places[path].text, rule, args...)
}

// given reports whether the file has the key at path.
func (d *decoder) given(path string) bool {
	_, given := d.places[path]
	return given
}

// value is one value of the schema. It decodes the file's node and stores the result.
type value interface {
	decode(d *decoder, path string, n ast.Node)
}

// object is a mapping with exactly these known keys.
type object []field

type field struct {
	key   string
	value value
}

func (o object) decode(d *decoder, path string, n ast.Node) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		if path == "" || slices.Contains(o.keys(), "auth") { // it may be a password
			d.places[path] = place{d.places[path].position, redacted}
		}
		if key, _, colon := strings.Cut(n.GetToken().Value, ":"); colon && slices.Contains(o.keys(), key) {
			d.refuse(path, "must be a mapping of keys to values: put a space after the colon of %s:", key)
		} else {
			d.refuse(path, "must be a mapping of keys to values")
		}
		return
	}
	lines := map[string]int{}
	for _, entry := range m.Values {
		at, key := positionOf(entry.Key.GetToken()), plain(entry.Key.GetToken().Value)
		keyPath := strings.TrimPrefix(path+"."+key, ".")
		if i := slices.Index(o.keys(), key); i < 0 {
			o.unknown(d, at, path, key)
		} else if line, twice := lines[key]; twice {
			d.addAt(at, keyPath, "", "is given twice, first in line %d", line)
		} else {
			lines[key] = at.line
			d.decode(o[i].value, keyPath, entry.Value)
		}
	}
}

// unknown adds a mistake about a key that the object does not know. It does not show the value, and
// not the key where values are hidden: either may be a password.
func (o object) unknown(d *decoder, at position, path, key string) {
	rule := "is not a known key; the keys here are " + strings.Join(o.keys(), ", ")
	if path == "" {
		for _, f := range o {
			if below, ok := f.value.(object); ok && slices.Contains(below.keys(), key) {
				rule = fmt.Sprintf("is not a known key here: it belongs to %s, indent it below that", f.key)
			}
		}
	}
	if known := nearest(key, o.keys()); known != "" {
		rule = fmt.Sprintf("is not a known key; did you mean %s?", known)
	} else if d.places[path].text == redacted {
		key = redacted
	}
	d.addAt(at, strings.TrimPrefix(path+"."+key, "."), "", "%s", rule)
}

func (o object) keys() []string {
	keys := make([]string, len(o))
	for i, f := range o {
		keys[i] = f.key
	}
	return keys
}

// nearest returns the one of keys that is most similar to key, if key is probably a typo of it.
// Otherwise it returns "".
func nearest(key string, keys []string) string {
	key = strings.ReplaceAll(strings.ToLower(key), "-", "_")
	for slips := range 8 {
		for _, k := range keys {
			if slips <= max(1, len(k)/3) && within(slips, key, k) {
				return k
			}
		}
	}
	return ""
}

// within reports whether at most n inserted, deleted or replaced bytes turn a into b.
func within(n int, a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	if a == "" || b == "" {
		return len(a)+len(b) <= n
	}
	return n > 0 && (within(n-1, a[1:], b[1:]) || within(n-1, a[1:], b) || within(n-1, a, b[1:]))
}

// list is a sequence of values.
type list struct {
	least   int
	size    func(n int)       // makes room for n elements
	element func(i int) value // returns an element
}

// listOf is a list that stores its elements in a slice.
func listOf[T any](to *[]T, element func(*T) value, least int) list {
	return list{
		least:   least,
		size:    func(n int) { *to = make([]T, n) },
		element: func(i int) value { return element(&(*to)[i]) },
	}
}

func (l list) decode(d *decoder, path string, n ast.Node) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.refuse(path, "must be a list")
		return
	}
	if len(s.Values) < l.least {
		d.refuse(path, "must have at least %d", l.least)
	}
	l.size(len(s.Values))
	for i, element := range s.Values {
		d.decode(l.element(i), fmt.Sprintf("%s[%d]", path, i), element)
	}
}

// checked is a value with a check that runs after decoding, if decoding found no mistake in it.
type checked struct {
	value
	then func(d *decoder, path string)
}

func (c checked) decode(d *decoder, path string, n ast.Node) {
	c.value.decode(d, path, n)
	if !d.has(path) {
		c.then(d, path)
	}
}

// shown is a value that messages print in a safe form: users may put a password there by mistake.
type shown struct {
	value
	as func(string) string
}

func hidden(v value) value       { return shown{v, func(string) string { return redacted }} }
func withoutLogin(v value) value { return shown{v, ShowServer} }

func (s shown) decode(d *decoder, path string, n ast.Node) {
	p := d.places[path]
	d.places[path] = place{p.position, s.as(p.text)}
	s.value.decode(d, path, n)
}

// scalar decodes a single value. It returns the rule that the value breaks, if any.
type scalar func(n ast.Node) error

func (s scalar) decode(d *decoder, path string, n ast.Node) {
	if rule := s(n); rule != nil {
		d.refuse(path, "%v", rule)
	}
}

// parsed decodes a text with parse. An error of parse is the rule that the text breaks.
func parsed[T any](to *T, parse func(string) (T, error)) scalar {
	return func(n ast.Node) error {
		s, ok := n.(*ast.StringNode)
		if !ok {
			return errors.New("must be a text on one line: quote it if it could be read as something else")
		}
		v, rule := parse(s.Value)
		if rule == nil {
			*to = v
		}
		return rule
	}
}

// text decodes a text that must satisfy the rule.
func text(to *string, rule func(string) error) scalar {
	return parsed(to, func(s string) (string, error) { return s, rule(s) })
}

// choice decodes a text that must be one of the options.
func choice(to *string, options ...string) scalar {
	return text(to, func(s string) error {
		if !slices.Contains(options, s) {
			return errors.New("must be " + strings.Join(options, " or "))
		}
		return nil
	})
}

// longUnit matches a number of days or weeks, which Go's syntax of durations lacks.
var longUnit = regexp.MustCompile(`^([0-9]{1,4}(?:\.[0-9]+)?) ?(d|w)(?:ays?|eeks?)?$`)

// duration decodes a duration, in Go's syntax or in days or weeks, that must satisfy the rule.
func duration(to *time.Duration, rule func(time.Duration) error) scalar {
	return func(n ast.Node) error {
		const syntax = "must be a duration such as 500ms, 30s or 1h30m"
		text := n.GetToken().Value
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return errors.New(syntax + ": say the unit")
		}
		if m := longUnit.FindStringSubmatch(text); m != nil {
			count, _ := strconv.ParseFloat(m[1], 64)
			if m[2] == "w" {
				return fmt.Errorf("%s; there are no weeks: %gh", syntax, count*7*24)
			}
			return fmt.Errorf("%s; there are no days: %gh", syntax, count*24)
		}
		t, err := time.ParseDuration(text)
		if err != nil || n.Type() != ast.StringType {
			return errors.New(syntax)
		}
		*to = t
		return rule(t)
	}
}

// number decodes a whole number of at least 1.
func number(to *int) scalar {
	return func(n ast.Node) error {
		text := n.GetToken().Value
		i, err := strconv.Atoi(text)
		if n.Type() != ast.IntegerType || err != nil || strconv.Itoa(i) != text || i < 1 {
			return errors.New("must be a whole number, 1 or more")
		}
		*to = i
		return nil
	}
}

// boolean decodes true or false.
func boolean(to *bool) scalar {
	return func(n ast.Node) error {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			return errors.New("must be true or false")
		}
		*to = b.Value
		return nil
	}
}
