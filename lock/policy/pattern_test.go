package policy

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/lock/internal/rule"
	"github.com/holdfast-io/holdfast/lock/znode"
)

func mustPattern(t interface{ Fatal(...any) }, text string) Pattern {
	p, err := ParsePattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParsePattern(t *testing.T) {
	for _, text := range []string{
		"a", "*", "**", "a/b", "a/*", "a/**", "**/a", "**/**", "*a*b*", "tenant-*/jobs/**", "a.b", "...", ".*",
		"ünïcode/*", "a b", "?", "[a]", strings.Repeat("a", znode.MaxName),
		"*/*/*/*/*/*/*/*", "**/a/**/b/**", "a*/b*/c*/d*/e*/f*/g*/h*/i*",
	} {
		p, err := ParsePattern(text)
		if err != nil {
			t.Errorf("ParsePattern(%q): %v", text, err)
		} else if p.String() != text {
			t.Errorf("ParsePattern(%q).String() = %q", text, p)
		}
	}
	for _, test := range []struct{ name, text, rule string }{
		{"empty", "", "is empty"},
		{"leading slash", "/a", "must not start with a slash"},
		{"trailing slash", "a/", "empty component"},
		{"empty component", "a//b", "empty component"},
		{"dot", "a/./b", "relative"},
		{"two dots", "../b", "relative"},
		{"deep within a component", "a/b**", "whole component, not a part of b**"},
		{"three stars", "***", "whole component"},
		{"control character", "a\nb", "U+000A is not allowed"},
		{"not UTF-8", "a\xff", "UTF-8"},
		{"lock entry", "a/x-lock-0000000007", "lock entry"},
		{"only lock entries", "a/*-lock-0000000007", "lock entry"},
		{"long", strings.Repeat("a", znode.MaxName+1), "at most 512 bytes"},
		{"many singles", "*/*/*/*/*/*/*/*/*", "at most 8 components that are *"},
		{"many deeps", "**/a/**/b/**/c/**", "at most 3 components that are **"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := ParsePattern(test.text)
			if err == nil || !strings.Contains(err.Error(), test.rule) || !strings.HasPrefix(err.Error(), "pattern "+rule.Plain(test.text)) {
				t.Errorf("ParsePattern(%q) = %v, want an error that names the pattern and the rule %q", test.text, err, test.rule)
			}
			if p != (Pattern{}) {
				t.Errorf("ParsePattern(%q) = %q with an error", test.text, p)
			}
		})
	}
}

func TestMatch(t *testing.T) {
	for _, test := range []struct{ pattern, names, others string }{
		// The table of the package documentation.
		{"orders", "orders", "orders/42"},
		{"orders/*", "orders/42", "orders orders/42/items"},
		{"orders/**", "orders orders/42 orders/42/a", "order"},
		{"orders/*/**", "orders/42 orders/42/a", "orders"},
		{"tenant-*/jobs", "tenant-7/jobs tenant-/jobs", "tenant-7/a/jobs"},
		{"**/jobs", "jobs a/jobs a/b/jobs", "a/jobs/b"},
		{"*-eu-*", "shop-eu-1", "shop-us-1 eu"},
		{"**", "a a/b a/b/c", ""},
		// Other patterns.
		{"*", "a abc", "a/b"},
		{"**/a/**/b", "a/b x/a/b a/x/b a/b/a/b a/a/b/b x/y/a/b/b", "a b b/a a/b/x"},
		{"a/**/b/*", "a/b/x a/x/b/x a/b/b/x a/b/x/b/y", "a/b a/x/b b/x"},
		{"*a*b", "ab xaxb abab aabb", "ba abx b"},
		{"a*", "a ab a*", "ba b"},
		{"**/**", "a a/b", ""},
	} {
		p := mustPattern(t, test.pattern)
		for _, name := range strings.Fields(test.names) {
			if !p.Match(name) {
				t.Errorf("%s does not match %s", p, name)
			}
		}
		for _, name := range strings.Fields(test.others) {
			if p.Match(name) {
				t.Errorf("%s matches %s", p, name)
			}
		}
	}
	if (Pattern{}).Match("a") {
		t.Error("the zero Pattern matches a lock")
	}
}

// TestMatchHostile: Match ends for hostile patterns and names. A matcher that backtracks to every
// wildcard would not end.
func TestMatchHostile(t *testing.T) {
	for _, test := range []struct{ pattern, name string }{
		{strings.Repeat("*a", 200) + "b", strings.Repeat("a", znode.MaxName)},
		{"**/" + strings.Repeat("*a", 200) + "b/**/a*a*a*a*a*b/**/*/*/*/*/*/*/*/b", strings.Repeat("aa/", 160) + "a"},
	} {
		if p := mustPattern(t, test.pattern); p.Match(test.name) {
			t.Errorf("%s matches %s", p, test.name)
		}
	}
}

func TestPrefix(t *testing.T) {
	for pattern, prefix := range map[string]string{
		"a": "a", "a/b": "a/b", "a/*": "a", "a/b*": "a", "a/b/**": "a/b", "a/*/b": "a",
		"*": "", "**": "", "**/a": "", "a*": "", "*/a": "",
	} {
		if got := mustPattern(t, pattern).Prefix(); got != prefix {
			t.Errorf("prefix of %s is %q, want %q", pattern, got, prefix)
		}
	}
}

var references = map[Pattern]*regexp.Regexp{}

// reference returns a regular expression that matches the same names as p, with a slash before them.
func reference(p Pattern) *regexp.Regexp {
	if r, ok := references[p]; ok {
		return r
	}
	expression := ""
	for c := range strings.SplitSeq(p.text, "/") {
		if c == "**" {
			expression += "(/[^/]+)*"
			continue
		}
		c = strings.ReplaceAll(regexp.QuoteMeta(c), `\*`, "[^/]*")
		expression += "/" + c
	}
	references[p] = regexp.MustCompile("^" + expression + "$")
	return references[p]
}

// paths returns all paths of 1 to n of the components.
func paths(components []string, n int) []string {
	all := slices.Clone(components)
	for from := 0; n > 1; n-- {
		longer := all[from:]
		from = len(all)
		for _, path := range longer {
			for _, c := range components {
				all = append(all, path+"/"+c)
			}
		}
	}
	return all
}

// TestCoversExhaustive: uncovered agrees with Match on all names of up to four components, for each
// pattern of up to three components against each other pattern, and for each small pattern against
// each pair. A name that uncovered returns is a counterexample.
func TestCoversExhaustive(t *testing.T) {
	names := paths([]string{"a", "x", "aa", "ax", "xa", "b"}, 4)
	matched := map[Pattern][]bool{}
	parse := func(texts []string) (patterns []Pattern) {
		for _, text := range texts {
			p := mustPattern(t, text)
			patterns = append(patterns, p)
			for _, name := range names {
				matched[p] = append(matched[p], p.Match(name))
			}
		}
		return patterns
	}
	check := func(other Pattern, by ...Pattern) (covered bool) {
		witness, found := uncovered(other, by...)
		if found {
			checkWitness(t, witness, other, by...)
			return false
		}
		for i, name := range names {
			if matched[other][i] && !slices.ContainsFunc(by, func(p Pattern) bool { return matched[p][i] }) {
				t.Fatalf("%s is covered by %s, it says, but only it matches %s", other, by, name)
			}
		}
		return true
	}

	single, both := 0, 0
	large := parse(paths([]string{"a", "*", "**", "a*", "*a", "*a*"}, 3))
	for _, p := range large {
		for _, other := range large {
			if check(other, p) {
				single++
			}
		}
	}
	small := parse([]string{"a", "*", "**", "a*", "a/*", "a/**", "*/a", "**/a", "*/*", "*/**", "*/*/**", "**/*/a", "**/a/**", "a*/**"})
	for _, p := range small {
		for _, q := range small {
			for _, other := range small {
				if check(other, p, q) && !p.Covers(other) && !q.Covers(other) {
					both++
				}
			}
		}
	}
	t.Logf("%d names; %d of %d pairs covered; %d times two together", len(names), single, len(large)*len(large), both)
	if single <= len(large) || both == 0 {
		t.Error("too few covered to show anything")
	}
}

func checkWitness(t interface{ Fatalf(string, ...any) }, witness string, other Pattern, by ...Pattern) {
	if err := znode.CheckName(witness); err != nil {
		t.Fatalf("witness for %s and not %s: %v", other, by, err)
	}
	if !reference(other).MatchString("/" + witness) {
		t.Fatalf("witness %s is not matched by %s", witness, other)
	}
	for _, p := range by {
		if reference(p).MatchString("/" + witness) {
			t.Fatalf("witness %s for %s is matched by %s", witness, other, p)
		}
	}
}

func TestCovers(t *testing.T) {
	for _, test := range []struct {
		by, other string
		covered   bool
	}{
		{"**", "a", true},
		{"**", "**/**", true},
		{"**/**", "**", true},
		{"a/**", "a", true},
		{"a/**", "a/*/**", true},
		{"a/*/**", "a/**", false},
		{"a/*/**", "a/**/*", true},
		{"*", "**", false},
		{"a*", "ab*", true},
		{"ab*", "a*", false},
		{"*a*", "*a", true},
		{"*a*b*", "*b*a*", false},
		{"**/a/**", "**/*/a/**", true},
		{"**/*/a/**", "**/a/**", false},
		{"* */*/**", "**", true},
		{"a a/*/**", "a/**", true},
		{"* */* */*/* */*/*/*/**", "**", true},
		{"* */*/* */*/*/*/**", "**", false},
		{"a* *a", "*", false},
		{"**/a/*/*/*/*/*/*/*/*", "**/a/*/*/*/*/*/*/*/*", true},
		{"**/a/*/*/*/*/*/*/*/*", "**/a/**/a/**/a/*/*/*/*/*/*/*/*", true},
		{"**/a/*/*/*/*/*/*/*/*", "**/a/**/a/**/a/*/*/*/*/*/*/*", false},
	} {
		other := mustPattern(t, test.other)
		var by []Pattern
		for _, text := range strings.Fields(test.by) {
			by = append(by, mustPattern(t, text))
		}
		witness, found := uncovered(other, by...)
		if found == test.covered {
			t.Errorf("%s covered by %s: %v", other, by, !found)
		}
		if found {
			checkWitness(t, witness, other, by...)
		}
		if len(by) == 1 && by[0].Covers(other) != test.covered {
			t.Errorf("%s.Covers(%s) = %v", by[0], other, !test.covered)
		}
	}
	if !mustPattern(t, "a").Covers(Pattern{}) {
		t.Error("the zero Pattern, which matches nothing, is not covered")
	}
}

func FuzzPattern(f *testing.F) {
	for _, text := range []string{"", "a", "**", "a/*", "**/a*b/**", "*a*a*a*b", "/", "a//b", "***", "a\x00", "\xff", "é*/ß", "x/y/z"} {
		f.Add(text, "a/b")
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		p, err := ParsePattern(text)
		if err != nil {
			if p.Match(name) && name != "" {
				t.Fatalf("refused pattern %q matches %q", text, name)
			}
			return
		}
		if p.String() != text {
			t.Fatalf("%q became %q", text, p)
		}
		if !p.Covers(p) || !(Pattern{everything}).Covers(p) {
			t.Fatalf("%q is not covered by itself, or not by **", p)
		}
		witness, found := uncovered(p)
		if !found {
			t.Fatalf("%q is said to match no name at all", p)
		}
		checkWitness(t, witness, p)
		if znode.CheckName(name) != nil {
			return
		}
		if got, want := p.Match(name), reference(p).MatchString("/"+name); got != want {
			t.Fatalf("%q matches %q: %v, the regular expression says %v", p, name, got, want)
		}
		if prefix := p.Prefix(); p.Match(name) && prefix != "" && name != prefix && !strings.HasPrefix(name, prefix+"/") {
			t.Fatalf("%q matches %q, which is not below %q", p, name, prefix)
		}
	})
}

func TestMustPattern(t *testing.T) {
	if p := MustPattern("a/*"); !p.Match("a/b") {
		t.Errorf("%v does not match", p)
	}
	defer func() {
		if err, _ := recover().(error); err == nil || !strings.Contains(err.Error(), "pattern /a: ") {
			t.Errorf("panic with %v", err)
		}
	}()
	MustPattern("/a")
}
