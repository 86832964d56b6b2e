package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/rule"
	"github.com/holdfast-io/holdfast/lock/policy"
)

// decoder decodes one file. It continues after a mistake, to find all mistakes. The fields that it
// fills, also those of a policy.Rule, have tags:
//
//	key    the key of the value; fields with the same key share a mapping
//	rule   the rule of a text or a duration, or of a list's elements: one of rules or timeRules
//	oneof  the texts that are allowed
//	least  the least length of a list
//	show   how messages show the value: "never", or "server" for ShowServer. Users may put a
//	       password there by mistake.
type decoder struct {
	mistakes
	folder    string   // folder of the file, where relative paths begin
	passwords []string // names of the environment variables that hold passwords
}

func newDecoder(filename string) *decoder {
	return &decoder{mistakes: mistakes{file: filename, places: map[string]place{}}, folder: filepath.Dir(filename)}
}

// given reports whether the file has the key at path.
func (d *decoder) given(path string) bool {
	_, given := d.places[path]
	return given
}

// refuse adds a mistake about the value at path.
func (d *decoder) refuse(path, rule string, args ...any) {
	d.add(path, d.places[path].text, rule, args...)
}

// field is a field that the decoder fills.
type field struct {
	key   string
	tag   reflect.StructTag
	to    reflect.Value
	below []field // fields of the mapping that the field holds, also those of fields with the same key
}

func newField(to reflect.Value, tag reflect.StructTag) field {
	f := field{key: tag.Get("key"), tag: tag, to: to}
	if to.Kind() == reflect.Struct {
		f.below = fieldsOf(to)
	}
	return f
}

// fieldsOf returns the fields of a struct that have a key, also those of an embedded struct.
func fieldsOf(v reflect.Value) (fields []field) {
	for i := range v.NumField() {
		f := newField(v.Field(i), v.Type().Field(i).Tag)
		switch last := len(fields) - 1; {
		case v.Type().Field(i).Anonymous:
			fields = append(fields, f.below...)
		case f.key == "":
		case last >= 0 && fields[last].key == f.key:
			fields[last].below = append(fields[last].below, f.below...)
		default:
			fields = append(fields, f)
		}
	}
	return fields
}

func keysOf(fields []field) (keys []string) {
	for _, f := range fields {
		keys = append(keys, f.key)
	}
	return keys
}

// decode decodes the node at path into the field.
func (d *decoder) decode(f field, path string, n ast.Node) {
	at := placeOf(start(n))
	if n.Type() == ast.NullType {
		d.places[path] = at
		d.refuse(path, "has no value: give one, or delete the key")
		return
	}
	switch at.text = show(n); f.tag.Get("show") {
	case "never":
		at.text = redacted
	case "server":
		at.text = ShowServer(at.text)
	}
	d.places[path] = at
	var rule error
	switch v := f.to.Addr().Interface().(type) {
	case *string:
		rule = d.decodeText(v, n, f.tag)
	case *time.Duration:
		rule = decodeTime(v, n, f.tag)
	case *int:
		rule = decodeNumber(v, n)
	case *bool:
		rule = decodeBool(v, n)
	case **policy.Set:
		var rules []policy.Rule
		d.list(newField(reflect.ValueOf(&rules).Elem(), f.tag), path, n)
		if !d.has(path) {
			*v = d.newSet(rules, path)
		}
	case *policy.Pattern:
		var text string
		if rule = d.decodeText(&text, n, f.tag); rule == nil {
			*v = policy.MustPattern(text) // its rule has checked it
		}
	default:
		switch f.to.Kind() {
		case reflect.Slice:
			d.list(f, path, n)
		case reflect.Struct:
			d.mapping(f.below, path, n)
			d.together(f.to.Addr().Interface(), path)
		case reflect.Pointer:
			f.to.Set(reflect.New(f.to.Type().Elem()))
			d.mapping(fieldsOf(f.to.Elem()), path, n)
			d.together(f.to.Interface(), path)
		}
	}
	if rule != nil {
		d.refuse(path, "%v", rule)
	}
}

// newSet returns the set of the policies at path. It adds the mistakes, without those that only follow
// from a mistake that the decoder has found.
func (d *decoder) newSet(rules []policy.Rule, path string) *policy.Set {
	set, err := policy.NewSet(rules...)
	var wrong *policy.Error
	if !errors.As(err, &wrong) {
		return set
	}
	found := maps.Clone(d.keys) // those of the decoder, and not of the loop below
	for _, m := range wrong.Mistakes {
		if m.Index < 0 {
			d.add(path, m.Value, "%s", m.Reason)
			continue
		}
		at := fmt.Sprintf("%s[%d]", path, m.Index)
		if !slices.ContainsFunc([]string{at, at + "." + m.Key, at + "." + m.With}, func(key string) bool { return found[key] }) {
			d.add(at+"."+m.Key, m.Value, "%s", m.Reason)
		}
	}
	return nil
}

// together has a mapping add the mistakes about keys that do not fit together.
func (d *decoder) together(mapping any, path string) {
	if c, ok := mapping.(interface{ check(*decoder, string) }); ok && !d.has(path) {
		c.check(d, path)
	}
}

func (d *decoder) list(f field, path string, n ast.Node) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.refuse(path, "must be a list")
		return
	}
	if least := f.tag.Get("least"); least != "" && len(s.Values) == 0 {
		d.refuse(path, "must have at least %s", least)
	}
	f.to.Set(reflect.MakeSlice(f.to.Type(), len(s.Values), len(s.Values)))
	for i, element := range s.Values {
		d.decode(newField(f.to.Index(i), f.tag), fmt.Sprintf("%s[%d]", path, i), element)
	}
}

// mapping decodes a mapping into the fields. A key that no field has is a mistake.
func (d *decoder) mapping(fields []field, path string, n ast.Node) {
	keys := keysOf(fields)
	m, ok := n.(*ast.MappingNode)
	if !ok {
		if path == "" || slices.Contains(keys, "auth") { // the text may be a password
			at := d.places[path]
			at.text = redacted
			d.places[path] = at
		}
		if key, _, colon := strings.Cut(n.GetToken().Value, ":"); colon && slices.Contains(keys, key) {
			d.refuse(path, "must be a mapping of keys to values: put a space after the colon of %s:", key)
		} else {
			d.refuse(path, "must be a mapping of keys to values")
		}
		return
	}
	lines := map[string]int{}
	for _, entry := range m.Values {
		at, key := placeOf(entry.Key.GetToken()), rule.Plain(entry.Key.GetToken().Value)
		keyPath := strings.TrimPrefix(path+"."+key, ".")
		if i := slices.Index(keys, key); i < 0 {
			d.unknown(fields, at, path, key)
		} else if line, twice := lines[key]; twice {
			d.addAt(at, keyPath, "", "is given twice, first in line %d", line)
		} else {
			lines[key] = at.line
			d.decode(fields[i], keyPath, entry.Value)
		}
	}
}

// unknown adds a mistake about a key that none of the fields has. It does not show the value, and
// not the key where values are hidden: either may be a password.
func (d *decoder) unknown(fields []field, at place, path, key string) {
	keys := keysOf(fields)
	rule := "is not a known key; the keys here are " + strings.Join(keys, ", ")
	if path == "" {
		for _, f := range fields {
			if slices.Contains(keysOf(f.below), key) {
				rule = fmt.Sprintf("is not a known key here: it belongs to %s, indent it below that", f.key)
			}
		}
	}
	if known := nearest(key, keys); known != "" {
		rule = fmt.Sprintf("is not a known key; did you mean %s?", known)
	} else if d.places[path].text == redacted {
		key = redacted
	}
	d.addAt(at, strings.TrimPrefix(path+"."+key, "."), "", "%s", rule)
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

// The functions below decode a single value. If the value breaks a rule, they return the rule and
// store nothing.

func (d *decoder) decodeText(to *string, n ast.Node, tag reflect.StructTag) error {
	s, ok := n.(*ast.StringNode)
	if !ok {
		return errors.New("must be a text on one line: quote it if it could be read as something else")
	}
	if options := strings.Fields(tag.Get("oneof")); len(options) > 0 && !slices.Contains(options, s.Value) {
		return errors.New("must be " + strings.Join(options, " or "))
	}
	value, rule := s.Value, error(nil)
	if name := tag.Get("rule"); name != "" {
		value, rule = rules[name](d, s.Value)
	}
	if rule == nil {
		*to = value
	}
	return rule
}

// none is the text of [lock.NoLocalWindow].
const none = "none"

// longUnit matches a number of days or weeks, which Go's syntax of durations lacks.
var longUnit = regexp.MustCompile(`^([0-9]{1,4}(?:\.[0-9]+)?) ?(d|w)(?:ays?|eeks?)?$`)

func decodeTime(to *time.Duration, n ast.Node, tag reflect.StructTag) error {
	const syntax = "must be a duration such as 500ms, 30s or 1h30m"
	text := n.GetToken().Value
	if tag.Get("rule") == "window" && text == none {
		*to = lock.NoLocalWindow
		return nil
	}
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
	if name := tag.Get("rule"); name != "" {
		err = timeRules[name](t)
	}
	if err == nil {
		*to = t
	}
	return err
}

func decodeNumber(to *int, n ast.Node) error {
	text := n.GetToken().Value
	i, err := strconv.Atoi(text)
	if n.Type() != ast.IntegerType || err != nil || strconv.Itoa(i) != text || i < 1 {
		return unquoted("must be a whole number, 1 or more", n)
	}
	*to = i
	return nil
}

func decodeBool(to *bool, n ast.Node) error {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		return unquoted("must be true or false", n)
	}
	*to = b.Value
	return nil
}

// unquoted returns a rule that the value n breaks. It tells if n is in quotes, which messages do not show.
func unquoted(rule string, n ast.Node) error {
	if t := n.GetToken().Type; t == token.SingleQuoteType || t == token.DoubleQuoteType {
		rule += ", without quotes"
	}
	return errors.New(rule)
}
