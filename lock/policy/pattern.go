package policy

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/holdfast-io/holdfast/lock/internal/rule"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Limits of one pattern. With them [uncovered] tries at most 1,000 names for a pattern.
const (
	maxSingles = 8 // components that are *
	maxDeeps   = 3 // components that are **
)

// Pattern selects locks by their names relative to the root. The package documentation has the
// syntax. Patterns are values, safe for concurrent use and comparable with ==. The zero Pattern
// matches no lock.
type Pattern struct {
	text string
}

// ParsePattern parses a pattern. The error has the pattern and the rule that it breaks.
func ParsePattern(text string) (Pattern, error) {
	if err := checkPattern(text); err != nil {
		return Pattern{}, fmt.Errorf("pattern %s: %w", rule.Plain(text), err)
	}
	return Pattern{text}, nil
}

// MustPattern is like [ParsePattern], but panics instead of returning an error. Use it for constant
// patterns.
func MustPattern(text string) Pattern {
	p, err := ParsePattern(text)
	if err != nil {
		panic(err)
	}
	return p
}

// checkPattern returns the rule that the pattern breaks, if any.
func checkPattern(text string) error {
	if len(text) > znode.MaxName {
		return fmt.Errorf("must have at most %d bytes, as a lock name has", znode.MaxName)
	}
	singles, deeps := 0, 0
	components := strings.Split(text, "/")
	for i, c := range components {
		switch {
		case c == "*":
			singles++
		case c == "**":
			deeps++
			components[i] = "*"
		case strings.Contains(c, "**"):
			return fmt.Errorf("** must be a whole component, not a part of %s", rule.Plain(c))
		}
	}
	if singles > maxSingles {
		return fmt.Errorf("must have at most %d components that are *", maxSingles)
	}
	if deeps > maxDeeps {
		return fmt.Errorf("must have at most %d components that are **", maxDeeps)
	}
	// The other rules are those of names. Check them on one name that the pattern matches: if that
	// name is invalid, so are all other names that the pattern matches.
	name := strings.ReplaceAll(strings.Join(components, "/"), "*", "x")
	return rule.LockName(name)
}

// String returns the text that was parsed.
func (p Pattern) String() string { return p.text }

// Prefix returns the longest literal path that every matched name equals or is below, so that a
// walk of the tree can begin there. It is empty if the walk must begin at the root.
func (p Pattern) Prefix() string {
	star := strings.IndexByte(p.text, '*')
	if star < 0 {
		return p.text
	}
	return p.text[:max(0, strings.LastIndexByte(p.text[:star], '/'))]
}

// Match reports whether the pattern matches the name, which must be valid. At worst it takes time in
// proportion to the product of the two lengths. It allocates nothing.
func (p Pattern) Match(name string) bool {
	// This is the usual matching of wildcards. A * first takes no bytes, and a ** no components. If
	// the rest of the pattern then fails to match, the last * takes one byte more, or else the last
	// ** one component more. Earlier wildcards need no second try: the last one can take what they
	// could.
	inPattern, inName := 0, 0
	afterStar, starTakes := -1, 0
	afterDeep, deepTakes := -1, 0
	for inName <= len(name) {
		switch {
		case p.deepAt(inPattern):
			inPattern += len("**/")
			afterStar, afterDeep, deepTakes = -1, inPattern, inName
		case inPattern < len(p.text) && p.text[inPattern] == '*':
			inPattern++
			afterStar, starTakes = inPattern, inName
		case inPattern <= len(p.text) && byteAt(p.text, inPattern) == byteAt(name, inName):
			if byteAt(name, inName) == '/' {
				afterStar = -1 // a * matches within one component only
			}
			inPattern++
			inName++
		case afterStar >= 0 && byteAt(name, starTakes) != '/':
			starTakes++
			inPattern, inName = afterStar, starTakes
		case afterDeep >= 0:
			for byteAt(name, deepTakes) != '/' {
				deepTakes++
			}
			deepTakes++
			inPattern, inName, afterStar = afterDeep, deepTakes, -1
		default:
			return false
		}
	}
	for p.deepAt(inPattern) {
		inPattern += len("**/")
	}
	return inPattern > len(p.text)
}

// deepAt reports whether the pattern has a ** at byte i.
func (p Pattern) deepAt(i int) bool { return i < len(p.text) && strings.HasPrefix(p.text[i:], "**") }

// byteAt returns a byte of a path. A slash ends each component, including the last.
func byteAt(path string, i int) byte {
	if i == len(path) {
		return '/'
	}
	return path[i]
}

// Covers reports whether p matches every name that other matches. The answer is exact.
func (p Pattern) Covers(other Pattern) bool {
	_, found := uncovered(other, p)
	return !found
}

// uncovered returns a name that other matches and that none of the patterns in by match. found is
// false if there is none.
//
// It tries the names that are hardest to match. For each * of other, each of the names has a letter
// that occurs in no pattern, and for each ** some components of that letter. No other names need a
// try:
//
//   - A pattern can match the letter only by a *, and a component of it only by a * or a **
//     component. Those match anything, so the pattern matches the name whatever fills the
//     wildcards of other.
//   - If a run of such components is longer than the number of * components in a pattern, a ** of
//     that pattern matched part of it, and would match any more. So a run that is longer by one
//     than maxSingles represents all longer runs.
func uncovered(other Pattern, by ...Pattern) (name string, found bool) {
	letter, used := 'x', fmt.Sprint(by, other)
	for !unicode.IsGraphic(letter) || strings.ContainsRune(used, letter) {
		letter++
	}
	var search func(done []string, rest []string) bool
	search = func(done, rest []string) bool {
		for i, c := range rest {
			if c == "**" {
				for range maxSingles + 2 {
					if search(done, rest[i+1:]) {
						return true
					}
					done = append(done, string(letter))
				}
				return false
			}
			done = append(done, strings.ReplaceAll(c, "*", string(letter)))
		}
		name = strings.Join(done, "/")
		return name != "" && !slices.ContainsFunc(by, func(p Pattern) bool { return p.Match(name) })
	}
	if !search(nil, strings.Split(other.text, "/")) {
		return "", false
	}
	return name, true
}
