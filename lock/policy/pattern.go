package policy

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// What one pattern may hold. The numbers are far above any tree of locks, and
// they bound the names that [uncovered] has to try to 1,000 for each pattern.
const (
	maxSingles = 8 // components that are *
	maxDeeps   = 3 // components that are **
)

// Pattern says which locks a policy is for, by their names relative to the
// root. The package documentation has the syntax. Patterns are values, safe for
// concurrent use and comparable with ==. The zero Pattern matches no lock.
type Pattern struct {
	text string
}

// ParsePattern parses a pattern. The error names the pattern and the rule that
// it breaks.
func ParsePattern(text string) (Pattern, error) {
	if rule := checkPattern(text); rule != "" {
		return Pattern{}, fmt.Errorf("pattern %s: %s", plain(text), rule)
	}
	return Pattern{text}, nil
}

// MustPattern is [ParsePattern] for patterns that stand in the source: it panics with the
// error.
func MustPattern(text string) Pattern {
	p, err := ParsePattern(text)
	if err != nil {
		panic(err)
	}
	return p
}

// checkPattern returns the rule that the pattern breaks, or "".
func checkPattern(text string) string {
	if len(text) > znode.MaxName {
		return fmt.Sprintf("must have at most %d bytes, as a lock name has", znode.MaxName)
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
			return fmt.Sprintf("** must be a whole component, not a part of %s", plain(c))
		}
	}
	if singles > maxSingles {
		return fmt.Sprintf("must have at most %d components that are *", maxSingles)
	}
	if deeps > maxDeeps {
		return fmt.Sprintf("must have at most %d components that are **", maxDeeps)
	}
	// The rest are the rules of names, on a name that the pattern matches: if
	// no lock can have that one, none can have another.
	name := strings.ReplaceAll(strings.Join(components, "/"), "*", "x")
	return nameRule(name)
}

// nameRule returns the rule that the name of a lock breaks, or "".
func nameRule(name string) string {
	if err := znode.CheckName(name); err != nil {
		return strings.TrimPrefix(err.Error(), fmt.Sprintf("lock name %q: ", name))
	}
	return ""
}

// String returns the pattern as it was parsed.
func (p Pattern) String() string { return p.text }

// Prefix returns the longest literal path that every matched name starts with
// or is, so that a walk of the tree can begin there. It is empty if the walk has
// to begin at the root.
func (p Pattern) Prefix() string {
	star := strings.IndexByte(p.text, '*')
	if star < 0 {
		return p.text
	}
	return p.text[:max(0, strings.LastIndexByte(p.text[:star], '/'))]
}

// Match reports whether the pattern matches the name. It takes time in
// proportion to the product of the two lengths at worst, whatever the pattern,
// and allocates nothing. Names are taken as valid: the library checks them
// before it asks for a policy.
func (p Pattern) Match(name string) bool {
	// The usual matching of wildcards, on components: when a ** was met, what
	// follows it is tried at every later component. Only the last ** has to be
	// reconsidered: whatever an earlier one could take in addition, the last
	// one can take as well.
	inPattern, inName := 0, 0
	afterDeep, deepTakes := -1, 0
	for inName <= len(name) {
		if inPattern <= len(p.text) {
			glob, nextInPattern := component(p.text, inPattern)
			if glob == "**" {
				inPattern = nextInPattern
				afterDeep, deepTakes = inPattern, inName
				continue
			}
			if part, nextInName := component(name, inName); matchComponent(glob, part) {
				inPattern, inName = nextInPattern, nextInName
				continue
			}
		}
		if afterDeep < 0 {
			return false
		}
		_, deepTakes = component(name, deepTakes)
		inPattern, inName = afterDeep, deepTakes
	}
	for inPattern <= len(p.text) {
		glob, next := component(p.text, inPattern)
		if glob != "**" {
			return false
		}
		inPattern = next
	}
	return true
}

// component returns the component of path that starts at the index from, and
// where the next one starts: beyond len(path) when there is none.
func component(path string, from int) (part string, next int) {
	if n := strings.IndexByte(path[from:], '/'); n >= 0 {
		return path[from : from+n], from + n + 1
	}
	return path[from:], len(path) + 1
}

// matchComponent is Match within one component, on bytes.
func matchComponent(glob, part string) bool {
	inGlob, inPart := 0, 0
	afterStar, starTakes := -1, 0
	for inPart < len(part) {
		switch {
		case inGlob < len(glob) && glob[inGlob] == '*':
			inGlob++
			afterStar, starTakes = inGlob, inPart
		case inGlob < len(glob) && glob[inGlob] == part[inPart]:
			inGlob++
			inPart++
		case afterStar >= 0:
			starTakes++
			inGlob, inPart = afterStar, starTakes
		default:
			return false
		}
	}
	return strings.Trim(glob[inGlob:], "*") == ""
}

// Covers reports whether p matches every name that other matches. The answer is
// exact.
func (p Pattern) Covers(other Pattern) bool {
	_, found := uncovered(other, p)
	return !found
}

// uncovered returns a name that other matches and none of the patterns by does,
// and whether there is one.
//
// It decides the inclusion by trying the names that are hardest to match. They
// have, for each * of other, one letter that stands in no pattern, and for each
// ** some components made of that letter. Why no others are needed:
//
//   - A pattern can match the letter by a * only, and a component made of it by
//     a * or a ** component only. Those match anything else in its place, so
//     a pattern that matches a name filled with the letter matches it however
//     its *s and the components of its ** are filled.
//   - A run of such components that is longer than a pattern has * components
//     was met by a ** of it, and that ** takes any number more. So runs one
//     longer than the most * components stand for all longer runs.
func uncovered(other Pattern, by ...Pattern) (name string, found bool) {
	letter := unusedLetter(append(slices.Clone(by), other))
	longest := 1
	for _, p := range by {
		singles := 0
		for c := range strings.SplitSeq(p.text, "/") {
			if c == "*" {
				singles++
			}
		}
		longest = max(longest, singles+1)
	}
	var search func(done []string, rest []string) bool
	search = func(done, rest []string) bool {
		for i, c := range rest {
			if c == "**" {
				for range longest + 1 {
					if search(done, rest[i+1:]) {
						return true
					}
					done = append(done, letter)
				}
				return false
			}
			done = append(done, strings.ReplaceAll(c, "*", letter))
		}
		name = strings.Join(done, "/")
		return name != "" && !slices.ContainsFunc(by, func(p Pattern) bool { return p.Match(name) })
	}
	if !search(nil, strings.Split(other.text, "/")) {
		return "", false
	}
	return name, true
}

// unusedLetter returns a letter that stands in none of the patterns.
func unusedLetter(patterns []Pattern) string {
	letter := 'x'
	for !unicode.IsGraphic(letter) || slices.ContainsFunc(patterns, func(p Pattern) bool {
		return strings.ContainsRune(p.text, letter)
	}) {
		letter++
	}
	return string(letter)
}
