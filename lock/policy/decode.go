package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// value is a place of the schema: it decodes what a file has there, and keeps
// it.
type value interface {
	decode(d *decoder, path string, n ast.Node)
}

// object is a mapping with these keys and no others.
type object []field

type field struct {
	key   string
	value value
}

// list is a sequence.
type list struct {
	least   int
	size    func(n int)       // makes room for n elements
	element func(i int) value // is one of them
}

// scalar takes a single value, or returns the rule that the value breaks.
type scalar func(n ast.Node) (rule string)

// hidden is a value that messages do not show: it is where a password might be
// put by mistake.
type hidden struct{ value }

// decode decodes the node at path as v says.
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
	p := d.places[path]
	d.addAt(p.position, path, p.text, rule, args...)
}

func (o object) decode(d *decoder, path string, n ast.Node) {
	m, ok := n.(*ast.MappingNode)
	if s, text := n.(*ast.StringNode); text && strings.HasSuffix(o.keyBefore(s.Value), ":") {
		d.refuse(path, "must be a mapping of keys to values: put a space after the colon of %s", o.keyBefore(s.Value))
		return
	}
	if !ok {
		if path == "" || slices.Contains(o.keys(), "auth") { // it may be a password
			d.places[path] = place{d.places[path].position, redacted}
		}
		d.refuse(path, "must be a mapping of keys to values")
		return
	}
	lines := map[string]int{}
	for _, entry := range m.Values {
		at := positionOf(entry.Key.GetToken())
		key := keyOf(entry.Key)
		keyPath := key
		if path != "" {
			keyPath = path + "." + key
		}
		i := slices.IndexFunc(o, func(f field) bool { return f.key == key })
		if i < 0 {
			d.addAt(at, d.showKey(o, path, key), "", "%s", o.unknown(d, path, key))
			continue
		}
		if line, twice := lines[key]; twice {
			d.addAt(at, keyPath, "", "is given twice, first in line %d", line)
			continue
		}
		lines[key] = at.line
		d.decode(o[i].value, keyPath, entry.Value)
	}
}

// unknown is the rule that an unknown key breaks. It does not show the value: it
// may be a password.
func (o object) unknown(d *decoder, path, key string) string {
	if known := nearest(key, o.keys()); known != "" {
		return fmt.Sprintf("is not a known key; did you mean %s?", known)
	}
	rule := "is not a known key; here are known: " + strings.Join(o.keys(), ", ")
	if path == "" {
		for _, f := range o {
			if below, ok := objectOf(f.value); ok && slices.Contains(below.keys(), key) {
				return fmt.Sprintf("is not a known key here: it belongs to %s, indent it below that", f.key)
			}
		}
	}
	return rule
}

func (o object) keys() []string {
	keys := make([]string, len(o))
	for i, f := range o {
		keys[i] = f.key
	}
	return keys
}

// keyBefore is one of the object's keys, and a colon, if the text begins with them.
func (o object) keyBefore(text string) string {
	for _, key := range o.keys() {
		if strings.HasPrefix(text, key+":") {
			return key + ":"
		}
	}
	return ""
}

// objectOf is the object that a value is, hidden or not.
func objectOf(v value) (object, bool) {
	if h, ok := v.(hidden); ok {
		v = h.value
	}
	o, ok := v.(object)
	return o, ok
}

// showKey is the path of an unknown key, for a message. Where values are hidden it is not
// shown unless it is nearly one that is known.
func (d *decoder) showKey(o object, path, key string) string {
	if d.hiding > 0 && nearest(key, o.keys()) == "" {
		key = redacted
	}
	return strings.TrimPrefix(path+"."+key, ".")
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

func (s scalar) decode(d *decoder, path string, n ast.Node) {
	if rule := s(n); rule != "" {
		d.refuse(path, "%s", rule)
	}
}

func (h hidden) decode(d *decoder, path string, n ast.Node) {
	d.places[path] = place{d.places[path].position, redacted}
	d.hiding++
	h.value.decode(d, path, n)
	d.hiding--
}

// withoutLogin is a value of which messages do not show what is before an @: it may be a
// user's name and password, as in URLs.
type withoutLogin struct{ value }

func (w withoutLogin) decode(d *decoder, path string, n ast.Node) {
	p := d.places[path]
	p.text = ShowServer(p.text)
	d.places[path] = p
	w.value.decode(d, path, n)
}

// listOf is a list whose elements go to a slice.
func listOf[T any](to *[]T, element func(*T) value, least int) list {
	return list{
		least:   least,
		size:    func(n int) { *to = make([]T, n) },
		element: func(i int) value { return element(&(*to)[i]) },
	}
}

// parsed takes a text that parse makes a T of, or else names the rule.
func parsed[T any](to *T, parse func(string) (T, string)) scalar {
	return func(n ast.Node) string {
		s, ok := n.(*ast.StringNode)
		if !ok {
			return "must be a text on one line; a number or a truth value needs quotes to be one"
		}
		v, rule := parse(s.Value)
		if rule == "" {
			*to = v
		}
		return rule
	}
}

// text takes a text that keeps the rule.
func text(to *string, rule func(string) string) scalar {
	return parsed(to, func(s string) (string, string) { return s, rule(s) })
}

// choice takes one of the options.
func choice(to *string, options ...string) scalar {
	return text(to, func(s string) string {
		if !slices.Contains(options, s) {
			return "must be " + strings.Join(options, " or ")
		}
		return ""
	})
}

// duration takes a duration in Go's syntax that keeps the rule.
func duration(to *time.Duration, rule func(time.Duration) string) scalar {
	return func(n ast.Node) string {
		const syntax = "must be a duration such as 500ms, 30s or 1h30m"
		s, ok := n.(*ast.StringNode)
		if !ok {
			if _, number := strconv.ParseFloat(n.GetToken().Value, 64); number == nil {
				return syntax + ": say the unit"
			}
			return syntax
		}
		t, err := time.ParseDuration(s.Value)
		if m := longUnit.FindStringSubmatch(s.Value); m != nil {
			n, unit, hours := m[1], "days", 24
			if m[2] == "w" {
				unit, hours = "weeks", 7*24
			}
			if count, err := strconv.ParseFloat(n, 64); err == nil && count < 10_000 {
				return fmt.Sprintf("%s; there are no %s: %gh", syntax, unit, count*float64(hours))
			}
		}
		if _, number := strconv.ParseFloat(s.Value, 64); number == nil {
			return syntax + ": say the unit"
		}
		if err != nil {
			return syntax
		}
		*to = t
		return rule(t)
	}
}

// longUnit is a number of days or weeks, for which Go's syntax has no letter.
var longUnit = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?(d|w)(?:ays?|eeks?)?$`)

// number takes a whole number of at least 1.
func number(to *int) scalar {
	return func(n ast.Node) string {
		text := n.GetToken().Value
		i, err := strconv.Atoi(text)
		if n.Type() != ast.IntegerType || err != nil || strconv.Itoa(i) != text || i < 1 {
			return "must be a whole number, 1 or more"
		}
		*to = i
		return ""
	}
}

// boolean takes a truth value.
func boolean(to *bool) scalar {
	return func(n ast.Node) string {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			return "must be true or false"
		}
		*to = b.Value
		return ""
	}
}

// nearest returns the one of keys that a slip of the keyboard may have made
// into key, or "".
func nearest(key string, keys []string) string {
	found, least := "", 0
	key = strings.ReplaceAll(strings.ToLower(key), "-", "_")
	for _, k := range keys {
		d := distance(key, k)
		if d <= max(1, len(k)/3) && (found == "" || d < least) {
			found, least = k, d
		}
	}
	return found
}

// distance is Levenshtein's: how many bytes must be put in, left out or replaced
// to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
