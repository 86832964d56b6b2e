package integration_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocsNameWhatIsThere looks for the tests and make targets that the documents
// name.
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
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9]+):`).FindAllStringSubmatch(text(t, "../Makefile"), -1) {
		targets[m[1]] = true
	}
	for _, doc := range []string{"../README.md", "../CONTRIBUTING.md", "../lock/doc.go"} {
		for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(text(t, doc), -1) {
			if !tests[name] {
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

func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
