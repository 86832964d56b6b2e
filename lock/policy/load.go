package policy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxFile is the size of the largest file that is read.
const maxFile = 1 << 20

// Load reads a configuration file. The error is the operating system's if it
// cannot be read, else a [*ConfigError] with everything that is wrong in it.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a configuration from data. The file name stands in the mistakes,
// and a relative zookeeper.auth.password_file is relative to its folder. What
// data does not say has its default. The error is a [*ConfigError].
func Parse(filename string, data []byte) (*Config, error) {
	d := decoder{places: map[string]place{}}
	c := draft{Config: *Default()}
	d.guard(func() {
		if n := d.parse(data); n != nil {
			d.decode(c.schema(), "", n)
		}
	})
	c.Policies = newSet(c.policies, &d.mistakes)
	d.finishAuth(&c, filepath.Dir(filename))
	if err := d.err(filename); err != nil {
		return nil, err
	}
	return &c.Config, nil
}

// finishAuth checks what goes for the keys of zookeeper.auth together.
func (d *decoder) finishAuth(c *draft, folder string) {
	const auth = "zookeeper.auth"
	if _, given := d.places[auth]; !given || d.has(auth) {
		return
	}
	_, user := d.places[auth+".user"]
	_, file := d.places[auth+".password_file"]
	_, env := d.places[auth+".password_env"]
	if !user {
		d.add(auth+".user", "", "must be given")
	}
	if file == env {
		d.add(auth, "", "must have exactly one of password_file and password_env")
	}
	if c.auth.Scheme == "" {
		c.auth.Scheme = "digest"
	}
	if file && !filepath.IsAbs(c.auth.PasswordFile) {
		c.auth.PasswordFile = filepath.Join(folder, c.auth.PasswordFile)
	}
	c.ZooKeeper.Auth = &c.auth
}

// position is a place in a file, zero if there is none.
type position struct {
	line, column int
}

func positionOf(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{}
	}
	return position{t.Position.Line, t.Position.Column}
}

// place is where the value of a key stands in the file, and how.
type place struct {
	position
	text string
}

// decoder decodes one file. It goes on after a mistake, to find them all.
type decoder struct {
	mistakes
	places map[string]place // of every key that the file gives, by its path
}

// err is mistakes.err with the file filled in, and the places that follow from
// the keys.
func (d *decoder) err(filename string) error {
	for i := range d.list {
		m := &d.list[i]
		m.File = filename
		if m.Line > 0 {
			continue
		}
		if m.Value != "" {
			if p, ok := d.places[m.Key]; ok {
				m.Value = p.text // as the file has it
			} else {
				m.Value += " (the default)"
			}
		}
		// A key that is not in the file is missed where it belongs.
		for path := m.Key; path != ""; path = parent(path) {
			if p, ok := d.places[path]; ok {
				m.Line, m.Column = p.line, p.column
				break
			}
		}
	}
	return d.mistakes.err()
}

// parent returns the path without its last part.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// guard makes a mistake of a panic. The YAML parser is not ours, and what is in
// a file must not end the service that reads it.
func (d *decoder) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			d.add("", "", "%s: %s", parserFailed, plain(fmt.Sprint(r)))
		}
	}()
	f()
}

const parserFailed = "is not YAML, and the parser failed on it"

// parse returns the root of the document, or nil if there is nothing to decode.
func (d *decoder) parse(data []byte) ast.Node {
	if len(data) > maxFile {
		d.add("", "", "must have at most %d bytes", maxFile)
		return nil
	}
	tokens := lexer.Tokenize(strings.TrimPrefix(string(data), "\uFEFF"))
	if !d.acceptTokens(tokens) {
		return nil
	}
	// Keys that are there twice are found while decoding, with all the rest.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.addSyntax(err)
		return nil
	}
	if len(file.Docs) > 1 {
		d.addAt(positionOf(file.Docs[1].Start), "", "", "must be a single YAML document")
		return nil
	}
	if len(file.Docs) == 0 {
		return nil
	}
	return file.Docs[0].Body
}

// addSyntax adds what the YAML parser says, without its excerpt of the file,
// which may hold a secret.
func (d *decoder) addSyntax(err error) {
	var (
		at      position
		message string
		e       yaml.Error
	)
	if errors.As(err, &e) {
		at, message = positionOf(e.GetToken()), e.GetMessage()
	} else {
		message = err.Error()
	}
	if strings.Contains(message, "reserved character") {
		message += "; put the text in quotes"
	}
	d.addAt(at, "", "", "is not YAML: %s", message)
}

// The YAML parser calls itself for every level of nesting and every key of a
// mapping, in quadratic time. Without these limits a small file could keep it
// busy for minutes, and a larger one overflow its stack, from which nothing
// recovers. The schema nests four deep, and as many policies as are accepted,
// with all their keys, have fewer tokens.
const (
	maxNesting = 20 // brackets and braces that are open, dashes in one line
	maxTokens  = 40_000
)

// unaccepted are the parts of YAML that are not accepted. Aliases could make a
// small file a huge one, and all of them hide what applies from the reader.
var unaccepted = map[token.Type]string{
	token.AliasType:      "a text that begins with * must be in quotes; YAML aliases are not accepted",
	token.AnchorType:     "a text that begins with & must be in quotes; YAML anchors are not accepted",
	token.TagType:        "a text that begins with ! must be in quotes; YAML tags are not accepted",
	token.MergeKeyType:   "YAML merge keys (<<) are not accepted",
	token.MappingKeyType: "YAML's long form of keys (?) is not accepted",
	token.DirectiveType:  "YAML directives (%) are not accepted",
}

// acceptTokens adds what the tokens have that is not accepted, at most one
// mistake for each line, and reports whether they may be parsed.
func (d *decoder) acceptTokens(tokens token.Tokens) bool {
	var (
		before   = len(d.list)
		line     int // where the last token was
		refused  int // the line of the last mistake
		brackets int // open ones
		dashes   int // in this line
		count    int // of all but comments
	)
	refuse := func(t *token.Token, rule string) {
		if refused != t.Position.Line {
			refused = t.Position.Line
			d.addAt(positionOf(t), "", "", "%s", rule)
		}
	}
	for _, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets = max(0, brackets-1)
		case token.SequenceEntryType:
			dashes++
		case token.CommentType:
			continue
		}
		if brackets > maxNesting || dashes > maxNesting {
			refuse(t, fmt.Sprintf("must be nested at most %d deep", maxNesting))
			return false
		}
		if count++; count > maxTokens {
			refuse(t, "must end before this: no configuration is that long")
			return false
		}
		if rule := unaccepted[t.Type]; rule != "" {
			refuse(t, rule)
		}
	}
	return len(d.list) == before
}

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
	if !ok {
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
			d.addAt(at, keyPath, "", "%s", o.unknown(key))
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
func (o object) unknown(key string) string {
	keys := make([]string, len(o))
	for i, f := range o {
		keys[i] = f.key
	}
	if known := nearest(key, keys); known != "" {
		return fmt.Sprintf("is not a known key; did you mean %s?", known)
	}
	return "is not a known key; here are known: " + strings.Join(keys, ", ")
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
	h.value.decode(d, path, n)
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

// start returns the token at which a node begins in the file.
func start(n ast.Node) *token.Token {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken() // its own is the colon
	}
	return n.GetToken()
}

// show returns a node for a message.
func show(n ast.Node) string {
	switch n := n.(type) {
	case *ast.NullNode:
		return ""
	case *ast.MappingNode:
		if len(n.Values) == 0 {
			return "{}"
		}
		return "a mapping"
	case *ast.SequenceNode:
		if len(n.Values) == 0 {
			return "[]"
		}
		return "a list"
	case *ast.LiteralNode:
		return "a block of text"
	case *ast.StringNode:
		return plain(n.Value)
	}
	return plain(n.GetToken().Value)
}

// keyOf returns a mapping's key, made printable if it is an unknown one.
func keyOf(n ast.MapKeyNode) string {
	if s, ok := n.(*ast.StringNode); ok {
		return plain(s.Value)
	}
	return plain(n.GetToken().Value)
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
