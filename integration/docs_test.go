package integration_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// TestDocsNameWhatIsThere: the tests and make targets that the documents name exist.
func TestDocsNameWhatIsThere(t *testing.T) {
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, m := range declared.FindAllStringSubmatch(text(t, path), -1) {
			tests[m[1]] = true
		}
		return nil
	})
	iferr.Fatal(t, err)
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9]+):`).FindAllStringSubmatch(text(t, "../Makefile"), -1) {
		targets[m[1]] = true
	}
	for _, doc := range append(documents(t, ".md"), documents(t, "doc.go")...) {
		named := regexp.MustCompile(`\bTest[A-Z]\w+`)
		if filepath.Base(doc) == "OTHERS.md" { // tests of other projects have no backtick
			named = regexp.MustCompile(`\x60Test[A-Z]\w+`)
		}
		for _, name := range named.FindAllString(text(t, doc), -1) {
			if !tests[strings.TrimPrefix(name, "`")] {
				t.Errorf("%s names %s, which is no test", doc, name)
			}
		}
		for _, m := range regexp.MustCompile("(?:`|\n)make ([a-z0-9]+)").FindAllStringSubmatch(text(t, doc), -1) {
			if !targets[m[1]] {
				t.Errorf("%s names make %s, which is no target", doc, m[1])
			}
		}
	}
}

// TestDocsLinkToWhatIsThere: the files that the documents link to exist, and declare the names that
// follow the link.
func TestDocsLinkToWhatIsThere(t *testing.T) {
	link := regexp.MustCompile("\\]\\(([^):#]+)\\)(?:: ((?:`\\w+`(?:, )?)+))?")
	for _, doc := range append(documents(t, ".md"), "../llms.txt") {
		for _, m := range link.FindAllStringSubmatch(text(t, doc), -1) {
			path, names := filepath.Join(filepath.Dir(doc), m[1]), regexp.MustCompile(`\w+`).FindAllString(m[2], -1)
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s: %v", doc, m[1], err)
				continue
			}
			for _, name := range names {
				declared := regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type )` + name + `\b`)
				if !declared.MatchString(text(t, path)) {
					t.Errorf("%s names %s in %s, which does not declare it", doc, name, m[1])
				}
			}
		}
	}
}

// TestDocsFenceAsTested: the tests in integration/sql run the statements in the doc of package
// fence.
func TestDocsFenceAsTested(t *testing.T) {
	words := func(s string) string { return strings.Join(strings.Fields(strings.ReplaceAll(s, "//", " ")), " ") }
	doc, tests := text(t, "../lock/fence/fence.go"), words(text(t, "sql/sql_test.go"))
	statements := regexp.MustCompile(`(?m)(?:^//\t(?:CREATE|INSERT|UPDATE|ON) .*\n)+`).FindAllString(doc, -1)
	if len(statements) != 3 {
		t.Fatalf("%d statements, want 3: %q", len(statements), statements)
	}
	for _, s := range statements {
		if !strings.Contains(tests, words(s)) {
			t.Errorf("no test of integration/sql runs %s", words(s))
		}
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	iferr.Fatal(t, err)
	return string(data)
}
