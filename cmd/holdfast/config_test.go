package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/lock/config"
)

// TestConfigNotes: config check tells of a pattern with characters that are wildcards elsewhere, and of
// a TTL that is not longer than the session timeout.
func TestConfigNotes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "policies:\n  - {name: numbers, match: \"orders/[0-9]*\", ttl: 30s}\n  - {name: brief, match: \"brief/*\", ttl: 5s}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := checkFile(t.Context(), file, false)
	if err != nil || !c.OK || len(c.Notes) != 2 || !strings.HasPrefix(c.Notes[0], "policy brief: ttl 5s is not longer than") || !strings.HasPrefix(c.Notes[1], "policy numbers: match orders/[0-9]*: only * and **") {
		t.Errorf("%+v, %v", c, err)
	}
	if all := notes(config.Default()); len(all) != 0 {
		t.Errorf("the defaults have %q", all)
	}
}
