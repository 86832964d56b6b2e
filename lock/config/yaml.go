package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/holdfast-io/holdfast/lock/internal/rule"
)

// guard turns a panic of f into a mistake: a panic of the YAML parser must not end the process.
func (d *decoder) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			d.add("", "", "%s: %s", parserFailed, rule.Plain(fmt.Sprint(r)))
		}
	}()
	f()
}

const parserFailed = "is not YAML, and the parser failed on it"

// parse returns the root of the document; nil if it has added a mistake.
func (d *decoder) parse(data []byte) ast.Node {
	if len(data) > maxFile {
		d.add("", "", "must have at most %d bytes", maxFile)
		return nil
	}
	if !d.acceptText(data) {
		return nil
	}
	text := strings.TrimPrefix(string(data), "\uFEFF")
	tokens := lexer.Tokenize(text)
	if !d.acceptTokens(tokens) {
		return nil
	}
	// The decoder finds duplicate keys, with all other mistakes.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.addSyntax(err)
		return nil
	}
	if len(file.Docs) > 1 {
		d.addAt(placeOf(file.Docs[1].Start), "", "", "must be a single YAML document")
		return nil
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil || file.Docs[0].Body.Type() == ast.CommentType {
		d.add("", "", "is empty, as a file that was truncated is: must have a key, or be {} for all defaults")
		return nil
	}
	return file.Docs[0].Body
}

// addSyntax adds the YAML parser's error, without its excerpt of the text, which may hold a secret.
func (d *decoder) addSyntax(err error) {
	at, message := place{}, err.Error()
	if e := yaml.Error(nil); errors.As(err, &e) {
		at, message = placeOf(e.GetToken()), e.GetMessage()
	}
	switch says := func(part string) bool { return strings.Contains(message, part) }; {
	case says("'\t' that cannot start"):
		message = "a tab stands here: indent with spaces"
	case says("reserved character"):
		message += "; put the text in quotes"
	case says("not allowed in this context"), says("non-map value"), says("unexpected key name"):
		message = "what belongs together must be indented by the same number of spaces, a key ends with a colon and a space, and a text with such in it needs quotes"
	}
	d.addAt(at, "", "", "is not YAML: %s", message)
}

// acceptText reports whether data is UTF-8 text without control characters. If not, it adds a
// mistake, which shows at most one byte of data.
func (d *decoder) acceptText(data []byte) bool {
	refuse := func(at int, rule string, args ...any) bool {
		line := bytes.Count(data[:at], []byte("\n")) + 1
		start := bytes.LastIndexByte(data[:at], '\n') + 1
		d.addAt(place{line: line, column: utf8.RuneCount(data[start:at]) + 1}, "", "", rule, args...)
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

// Limits of a document. The YAML parser recurses for every level of nesting and every key of a
// mapping, and takes quadratic time. Without limits a small file could keep it busy for minutes. A
// larger file could overflow the parser's stack, and a program cannot recover from that. The schema
// nests four deep. The largest accepted set of policies, with all keys, has fewer tokens.
const (
	maxNesting = 20 // open brackets and braces; dashes in one line
	maxTokens  = 40_000
)

// unaccepted has the features of YAML that files must not use. Aliases can make a small file huge,
// and each of the features can hide from a reader which values apply.
var unaccepted = map[token.Type]string{
	token.AliasType:      "a text that begins with * must be in quotes; YAML aliases are not accepted",
	token.AnchorType:     "a text that begins with & must be in quotes; YAML anchors are not accepted",
	token.TagType:        "a text that begins with ! must be in quotes; YAML tags are not accepted",
	token.MergeKeyType:   "YAML merge keys (<<) are not accepted",
	token.MappingKeyType: "YAML's long form of keys (?) is not accepted",
	token.DirectiveType:  "YAML directives (%) are not accepted",
}

// acceptTokens reports whether the parser may parse the tokens. It adds at most one mistake for
// each line.
func (d *decoder) acceptTokens(tokens token.Tokens) bool {
	var (
		line     int // line of the last token
		refused  int // line of the last mistake, 0 for none
		brackets int // number of open brackets and braces
		dashes   int // number of dashes in this line
		count    int // number of tokens without comments
	)
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
		count++
		rule, limit := unaccepted[t.Type], true
		switch {
		case count > maxTokens:
			rule = "must end before this: no configuration is that long"
		case brackets > maxNesting, dashes > maxNesting:
			rule = fmt.Sprintf("must be nested at most %d deep", maxNesting)
		default:
			limit = false
		}
		if rule != "" && refused != line {
			refused = line
			d.addAt(placeOf(t), "", "", "%s", rule)
		}
		if limit {
			return false
		}
	}
	return refused == 0
}

// start returns the first token of a node in the file.
func start(n ast.Node) *token.Token {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken() // the node's own token is the colon
	}
	return n.GetToken()
}

// show returns a node's text for a message.
func show(n ast.Node) string {
	switch n := n.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 {
			return "a mapping"
		}
		return "{}"
	case *ast.SequenceNode:
		if len(n.Values) > 0 {
			return "a list"
		}
		return "[]"
	case *ast.LiteralNode:
		return "a block of text"
	}
	return rule.Plain(n.GetToken().Value)
}

func placeOf(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{}
	}
	return place{line: t.Position.Line, column: t.Position.Column}
}
