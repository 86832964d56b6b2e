//go:build unix

package txnlog

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPipe: Open does not take a pipe for a log, because a read of it would never return.
func TestPipe(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "log.1")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, pipe} {
		if _, err := Open(name); err == nil || !strings.Contains(err.Error(), "no log.* or snapshot.*") {
			t.Errorf("Open(%s): %v", name, err)
		}
	}
}
