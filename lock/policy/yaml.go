package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

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
	if !d.acceptText(data) {
		return nil
	}
	text := strings.TrimPrefix(string(data), byteOrderMark)
	tokens := lexer.Tokenize(text)
	if !d.acceptTokens(tokens) {
		return nil
	}
	// Keys that are there twice are found while decoding, with all the rest.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.addSyntax(err, tokens, text)
		return nil
	}
	if len(file.Docs) > 1 {
		d.addAt(positionOf(file.Docs[1].Start), "", "", "must be a single YAML document")
		return nil
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil || file.Docs[0].Body.Type() == ast.CommentType {
		d.add("", "", "is empty, as a file that was truncated is: must have a key, or be {} for all defaults")
		return nil
	}
	return file.Docs[0].Body
}

// addSyntax adds what the YAML parser says of a text, without its excerpt of that, which
// may hold a secret.
func (d *decoder) addSyntax(err error, tokens token.Tokens, text string) {
	at, message := position{}, err.Error()
	if e := yaml.Error(nil); errors.As(err, &e) {
		at, message = positionOf(e.GetToken()), e.GetMessage()
	}
	line, rule := misindented(tokens, text)
	switch says := func(part string) bool { return strings.Contains(message, part) }; {
	case says("'\t' that cannot start"):
		message = "a tab stands here: indent with spaces"
	case says("reserved character"):
		message += "; put the text in quotes"
	case line > 0 && line >= at.line-1 && line <= at.line+1:
		at, message = position{line, 1}, rule
	case says("not allowed in this context"), says("non-map value"), says("unexpected key name"):
		message += ": what belongs together must be indented by the same number of spaces, a key ends with a colon and a space, and a text with such in it needs quotes"
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
		line     int // where the last token was
		refused  int // the line of the last mistake, 0 for none
		brackets int // open ones
		dashes   int // in this line
		count    int // of all but comments
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
		rule := unaccepted[t.Type]
		limit := brackets > maxNesting || dashes > maxNesting || count > maxTokens
		switch {
		case count > maxTokens:
			rule = "must end before this: no configuration is that long"
		case limit:
			rule = fmt.Sprintf("must be nested at most %d deep", maxNesting)
		}
		if rule != "" && refused != line {
			refused = line
			d.addAt(positionOf(t), "", "", "%s", rule)
		}
		if limit {
			return false
		}
	}
	return refused == 0
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
	return plain(n.GetToken().Value)
}

func positionOf(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{}
	}
	return position{t.Position.Line, t.Position.Column}
}
