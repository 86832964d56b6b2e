package integration_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestImports: packages import of ours what the map in CONTRIBUTING.md says, and no more.
func TestImports(t *testing.T) {
	const module = "github.com/holdfast-io/holdfast/"
	only := map[string][]string{ // all that a package imports of ours
		"lock/znode":                    {},
		"lock/internal/place":           {},
		"lock/internal/outbox":          {},
		"lock/internal/calendar":        {},
		"lock/internal/rule":            {"lock/internal/clock", "lock/znode"},
		"lock/locktest":                 {"lock/znode", "integration/script"},
		"lock/locktest/wire":            {},
		"lock/internal/zkconn":          {"lock/internal/outbox"},
		"lock/internal/revoke":          {"lock/internal/zkconn", "lock/znode"},
		"lock/history":                  {"lock/history/internal/records", "lock/history/txnlog", "lock/znode"},
		"lock/history/audit":            {"lock/history/internal/records", "lock/history/txnlog", "lock/znode"},
		"lock/history/txnlog":           {"lock/znode"},
		"lock/history/internal/records": {"lock/znode"},
		"lock/admin/jsonout":            {},
	}
	seen := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		folder := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), "../"))
		test := strings.HasSuffix(path, "_test.go")
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		allowed, strict := only[folder]
		seen[folder] = seen[folder] || strict
		for _, each := range f.Imports {
			name, _ := strconv.Unquote(each.Path.Value) // the parser accepts only what can be unquoted
			ours, ok := strings.CutPrefix(name, module)
			switch {
			case !ok:
			case !test && strings.HasPrefix(ours, "integration/") && !strings.HasPrefix(folder, "integration"):
				t.Errorf("%s imports %s: only tests import from integration", path, name)
			case strict && (!test || folder == "lock/locktest") && ours != folder && !slices.Contains(allowed, ours):
				t.Errorf("%s imports %s: %s may import only %q of ours", path, name, folder, allowed)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder := range only {
		if !seen[folder] {
			t.Errorf("there is no package %s", folder)
		}
	}
}
