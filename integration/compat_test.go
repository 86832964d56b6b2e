package integration_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCompatibilityPromise: each package that other modules can import, outside integration and the
// examples, is either in README's promise of compatibility or says that it is not part of it.
func TestCompatibilityPromise(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## Compatibility\n")
	promise, _, found := strings.Cut(section, " The other packages")
	if !found {
		t.Fatal("README.md promises nothing")
	}
	covered := map[string]bool{}
	for _, name := range regexp.MustCompile("`(lock[a-z0-9/]*)`").FindAllStringSubmatch(promise, -1) {
		covered[name[1]] = true
	}
	seen := map[string]bool{}
	docs := map[string]string{} // by folder
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		folder := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), "../"))
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			!regexp.MustCompile(`^(lock|reaper)(/|$)`).MatchString(folder) || regexp.MustCompile(`/(internal|testdata|examples)(/|$)`).MatchString(folder) {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		docs[folder] += f.Doc.Text()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder, doc := range docs {
		promised := covered[folder]
		seen[folder] = true
		for _, above := range []string{"lock/observe", "lock/adapters"} {
			if covered[above] && strings.HasPrefix(folder, above+"/") {
				promised, seen[above] = true, true
			}
		}
		if excluded := strings.Contains(doc, "is not part of the compatibility promise"); promised == excluded {
			t.Errorf("%s: README.md promises compatibility: %v; its doc says that it does not: %v", folder, promised, excluded)
		}
	}
	for name := range covered {
		if !seen[name] {
			t.Errorf("README.md promises compatibility of %s, which is no package", name)
		}
	}
}
