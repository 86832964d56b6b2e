package hosttest

import (
	"os"
	"strings"
	"testing"
)

// CheckGuide checks that a page shows all functions of a Go file from the text begin to the file's
// end, each in a Go block of its own.
func CheckGuide(t *testing.T, page, file, begin string) {
	t.Helper()
	guide, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	i := strings.Index(string(source), begin)
	if i < 0 {
		t.Fatalf("%s: no %q", file, begin)
	}
	for _, function := range strings.SplitAfter(string(source[i:]), "\n}\n") {
		if function = strings.TrimLeft(function, "\n"); function != "" && !strings.Contains(string(guide), "```go\n"+function+"```\n") {
			t.Errorf("%s does not show this code of %s:\n%s", page, file, function)
		}
	}
}
