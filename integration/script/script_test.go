package script

import (
	"slices"
	"strings"
	"testing"
)

// TestParse: of a file that is one, parse returns the scenarios and where they are; of another it names the line.
func TestParse(t *testing.T) {
	all, err := parse("f", "== one\nc set /a -> ok || busy\n\n== two\n# a comment\n\nlist\n\ta\n\tb\n\n")
	if err != nil || len(all) != 2 || all[1].Name != "two" || all[1].first != 5 || !slices.Equal(all[1].Lines, []string{"# a comment", "", "list", "\ta", "\tb"}) {
		t.Errorf("%+v, %v", all, err)
	}
	for text, want := range map[string]string{
		"":                         "f:1: a file begins with",
		"a -> b\n":                 "f:1: a file begins with",
		"# only a comment\n":       "f:1: a file begins with",
		"==one\na -> b\n":          "f:1: a file begins with",
		"== \na -> b\n":            "f:1: the scenario has no name",
		"== one\n== two\na\n":      "f:2: the scenario before has no command",
		"== one\na\n== two\n# b\n": "f: the last scenario has no command",
		"== one\na\n==two\nb\n":    "f:3: neither == NAME nor a command",
		"== one\na\n  b\n":         "f:3: neither == NAME nor a command",
		"== one\na ->\n":           "f:2: there is no result",
		"== one\na -> \n":          "f:2: there is no result",
		"== one\na -> b ||\n":      "f:2: there is no result",
		"== one\n# a\n\ta\nb\n":    "f:3: an empty result",
		"== one\n\ta\nb\n":         "f:2: an empty result",
		"== one\na\n\t\n\tb\n":     "f:3: an empty result",
		"== one\na -> b\n\tc\n":    "f:3: an empty result",
	} {
		if all, err := parse("f", text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", text, all, err, want)
		}
	}
}
